# SPDX-License-Identifier: GPL-2.0
"""The command `gpurt`: parse, call, print.  Exit codes are those of gpurt.errors."""

from __future__ import annotations

import errno
import importlib
import json
import os
import sys
import traceback
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Any

import click
from click.shell_completion import CompletionItem, shell_complete

from gpurt.errors import FileError, GpurtError, Problem, TasksetError, UsageError
from gpurt.text import is_terminal, visible
from pycontrol.commands.options import ASKED_FOR_JSON, Given
from pycontrol.output import render
from pycontrol.start import INTERRUPTED, TERMINATED, Terminated, main
from pycontrol.table import COMMANDS, GROUPS

#: Set by the shell when it asks for completions.
COMPLETE = "_GPURT_COMPLETE"
#: Exit codes that no error of gpurt.errors has: a bug, and a reader such as head that has gone (as if by SIGPIPE).
BUG, NOBODY_READS = 70, 141

#: Errors of writing to stdout: a full disk, a device that fails, a descriptor that is not open for writing.
UNWRITABLE = (errno.ENOSPC, errno.EIO, errno.EBADF)
#: Raised by click 8.2 and newer if there are no arguments; older ones print the help themselves.
HELP_INSTEAD: Any = getattr(click.exceptions, "NoArgsIsHelpError", ())

#: Commands that ask no host, so that a --device before them would do nothing, and what to do instead.
HOSTLESS = {
    **dict.fromkeys(("assign", "sensitivity", "admit", "simulate", "attack", "check", "plot", "experiment",
                     "mask", "energy", "kernel-fit", "sm-check", "schema", "hint", "completion"), "leave it out"),
    **dict.fromkeys(("emulate", "serve"), "give --socket PATH to say where it serves"),
    "demo": "to use a running host, write gpurt demo --device PATH",
    "partition": "for the number of a GPU, write gpurt partition FILE --device NUMBER",
}  # fmt: skip
#: Commands that compute, and leave nothing but files.  Ctrl-C and SIGTERM end them soon (pycontrol.ending).
COMPUTING = (HOSTLESS.keys() | {"analyze", "choose", "report"}) - {"emulate", "serve", "demo", "hint", "completion"}
#: Parts of such commands that do something else: run a program, or read sensors.
MEASURING = ("energy measure", "energy sensors")
#: Key of a context's ``meta``: the arguments of the command line.
GIVEN = "gpurt.given"


class LazyGroup(click.Group):
    """A group that imports a command's module when the command is asked for; help and completion import none."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """All commands, in the order of the table."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        """The command; None lets click say that there is none."""
        if name not in COMMANDS:
            return None
        entry = COMMANDS[name]
        command = getattr(importlib.import_module(f"pycontrol.commands.{entry.module}"), entry.attribute)
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Each group of commands under its heading."""
        longest = max(map(len, COMMANDS))
        for heading, entries in GROUPS.items():
            with formatter.section(heading):
                formatter.write_dl([(name.ljust(longest), entry.summary) for name, entry in entries.items()])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """The commands that begin so, and the options of the group."""
        named = [(name, entry) for name, entry in COMMANDS.items() if name.startswith(incomplete)]
        found = [CompletionItem(name, help=entry.summary) for name, entry in named]
        return found + click.Command.shell_complete(self, ctx, incomplete)


@click.group(
    cls=LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
    epilog="""\b
Examples:
  gpurt demo                            the published case study, on a virtual GPU
  gpurt analyze examples/minimal.toml   does every deadline hold?
  gpurt doctor                          what stands in the way of real time here, and its cure

\b
Exit codes: 0 done; 1 the answer is no; 2 wrong usage; 3 a file is wrong; 4 no host reachable; 5 the host refused;
6 failed while running; 70 a bug in gpurt; 130 interrupted; 141 the reader of stdout is gone; 143 ended by SIGTERM.""",
)
@click.option("--device", type=Given(), metavar="PATH", envvar="GPURT_DEVICE",
              help="The host to ask, of commands that ask one: /dev/gpurt or an emulator's socket.")  # fmt: skip
@click.version_option(package_name="gpurt", prog_name="gpurt")
@click.pass_context
def cli(ctx: click.Context, device: str | None) -> None:
    """Hard real-time priorities for GPU work, with a proof before deployment."""
    ctx.obj = device
    name = ctx.invoked_subcommand or ""
    if name in HOSTLESS and ctx.get_parameter_source("device") is click.core.ParameterSource.COMMANDLINE:
        raise click.UsageError(f"--device names a host to ask, and gpurt {name} asks none; {HOSTLESS[name]}", ctx)
    if name in COMPUTING and _command_in(ctx.meta.get(GIVEN, ())) not in MEASURING:
        from pycontrol import ending

        ctx.with_resource(ending.soon(lambda code: _cut_off(ctx, code)))


def _cut_off(context: click.Context, code: int) -> None:
    """Says that the command was ended while it computed, in the place of its progress bar if there is one."""
    if is_terminal(sys.stderr):
        render.remark("\033[?25h")  # the bar hides the cursor
    _fail(Terminated() if code == TERMINATED else KeyboardInterrupt(), context, context.meta.get(GIVEN, ()))


def run(arguments: Sequence[str] | None = None) -> int:
    """Runs a command, by default that of sys.argv, and returns its exit code.  An error is printed, not raised."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    context = None
    try:
        if sys.stdout is None:  # the shell's >&-
            raise FileError("stdout is closed: there is nowhere to write to")
        if instruction := os.environ.get(COMPLETE):
            return shell_complete(cli, {}, "gpurt", COMPLETE, instruction)
        try:
            with cli.make_context("gpurt", list(given)) as context:
                context.meta[GIVEN] = given
                code = cli.invoke(context)
        except HELP_INSTEAD as error:
            render.say(error.format_message())
            code = UsageError.exit_code
        sys.stdout.flush()
        return code if isinstance(code, int) else 0
    except click.exceptions.Exit as ended:
        return ended.exit_code
    except BrokenPipeError:
        render.discard(1)
        return NOBODY_READS
    except (Exception, KeyboardInterrupt) as error:
        return _fail(error, context, given)


def _fail(error: BaseException, context: click.Context | None, given: Sequence[str]) -> int:
    """Prints an error that ended the command.  Returns the exit code."""
    failure = explain(error)
    if _asked_for_json(context, given, error):
        render.remark(json.dumps(failure.document(_command_in(given))))
    else:
        for line in failure.lines:
            render.say(f"gpurt: {line}", err=True)
    return failure.exit_code


@dataclass(frozen=True, slots=True)
class Failure:
    """An error as the user sees it: its lines, its exit code, and the mistakes in a file, if it is about those."""

    lines: tuple[str, ...]
    exit_code: int
    problems: tuple[Problem, ...] = ()

    def document(self, command: str | None) -> dict[str, Any]:
        """The JSON document of this error (docs/output.md)."""
        data: dict[str, Any] = {"message": "\n".join(self.lines), "exit_code": self.exit_code}
        if self.problems:
            data["problems"] = self.problems
        return render.document(command, {"error": data})


def _command_in(given: Sequence[str]) -> str | None:
    """The command that arguments name, with its group; None if they name none."""
    at = next((index for index, word in enumerate(given) if word in COMMANDS), None)
    if at is None:
        return None
    command = cli.get_command(click.Context(cli), given[at])
    below = command.commands if isinstance(command, click.Group) else {}
    return " ".join(given[at : at + 2]) if given[at + 1 : at + 2] and given[at + 1] in below else given[at]


def explain(error: BaseException) -> Failure:
    """What to tell the user about an exception that a command raised."""
    if isinstance(error, TasksetError):
        return Failure(tuple(str(error).split("\n")), error.exit_code, error.problems)
    if isinstance(error, GpurtError):
        return Failure((visible(error),), error.exit_code)
    if isinstance(error, click.ClickException):
        where = getattr(error, "ctx", None)
        hint = f" (see {where.command_path} --help)" if where else ""
        return Failure((f"{visible(error.format_message())}{hint}",), UsageError.exit_code)
    if isinstance(error, Terminated):
        return Failure(("ended by SIGTERM",), TERMINATED)
    if isinstance(error, (KeyboardInterrupt, click.Abort)):
        return Failure(("interrupted",), INTERRUPTED)
    if isinstance(error, OSError) and error.errno in UNWRITABLE and not error.filename:
        render.discard(1)
        return Failure((f"stdout cannot be written: {error.strerror}",), FileError.exit_code)
    if os.environ.get("GPURT_DEBUG") == "1":
        traceback.print_exception(error)
    text = str(error).splitlines()[0] if str(error) else "no message"
    return Failure((f"{type(error).__name__}: {text}; this is a bug, GPURT_DEBUG=1 shows where",), BUG)


def _asked_for_json(context: click.Context | None, arguments: Sequence[str], error: BaseException) -> bool:
    """Whether errors are to be JSON.  If click could not read the arguments, they are searched for the option."""
    if isinstance(error, click.UsageError):
        return "--json" in takewhile(lambda word: word != "--", arguments)
    return context is not None and bool(context.meta.get(ASKED_FOR_JSON))


if __name__ == "__main__":
    main()
