# SPDX-License-Identifier: GPL-2.0
"""The command `gpurt`: parse, call, print.  Exit codes are those of gpurt.errors."""

from __future__ import annotations

import errno
import importlib
import json
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import takewhile
from typing import Any

import click
from click.shell_completion import CompletionItem, shell_complete

from gpurt.errors import FileError, GpurtError, Problem, TasksetError, UsageError
from gpurt.text import is_terminal, near, visible
from gpurt.types import Document
from pycontrol.commands.options import ASKED_FOR_JSON, CUT_OFF, Host
from pycontrol.output import progress, render
from pycontrol.signals import INTERRUPTED, TERMINATED, Terminated
from pycontrol.table import COMMANDS, COMPLETE, GROUPS, LEAVES, CommandEntry

#: Exit codes that no error in gpurt.errors has: a bug, and a reader such as head that has gone (as if by SIGPIPE).
BUG, NOBODY_READS = 70, 141

#: Errors of writing to stdout: a full disk, a device that fails, a descriptor that is not open for writing.
UNWRITABLE = (errno.ENOSPC, errno.EIO, errno.EBADF)
#: Raised by click 8.2 and newer if there are no arguments; older ones print the help themselves.
HELP_INSTEAD: Any = getattr(click.exceptions, "NoArgsIsHelpError", ())
#: Settings of every command.
CONTEXT: dict[str, object] = {"help_option_names": ["-h", "--help"], "max_content_width": 110}


class LazyGroup(click.Group):
    """A group that imports a command's module only when the command is called; help and completion import none."""

    def __init__(self, *args: Any, parts: Mapping[str, CommandEntry] = COMMANDS, **more: Any) -> None:
        super().__init__(*args, **more)
        self.parts = parts

    def list_commands(self, ctx: click.Context) -> list[str]:
        """All commands, in the order of the table."""
        return list(self.parts)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        """The command, or None: then click says that it does not exist."""
        entry = self.parts.get(name)
        if entry is None:
            return None
        if entry.parts:
            return LazyGroup(name, parts=entry.parts, help=_sentences(entry), context_settings=CONTEXT)
        command = getattr(importlib.import_module(f"pycontrol.commands.{entry.module}"), f"{name}_command")
        assert isinstance(command, click.Command)
        command.name = name
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The named command.  Raises UsageError, which suggests commands of like spelling or meaning."""
        if self.get_command(ctx, args[0]) is None and not args[0].startswith("-"):
            raise click.UsageError(f"there is no command {args[0]!r}{_meant(args[0], ctx)}", ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Writes each group of commands under its heading."""
        shown = {name: entry for name, entry in self.parts.items() if not entry.hidden}
        headings = GROUPS if self.parts is COMMANDS else {"Commands": self.parts}
        longest = max(map(len, shown))
        for heading, entries in headings.items():
            rows = [(name.ljust(longest), entry.summary) for name, entry in entries.items() if name in shown]
            if rows:
                with formatter.section(heading):
                    formatter.write_dl(rows)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """The commands with this beginning, and the options of the group."""
        named = [(name, entry) for name, entry in self.parts.items()
                 if name.startswith(incomplete) and not entry.hidden]  # fmt: skip
        found = [CompletionItem(name, help=entry.summary) for name, entry in named]
        return found + click.Command.shell_complete(self, ctx, incomplete)


def _sentences(entry: CommandEntry) -> str:
    """The text of a group's help."""
    return f"{entry.summary[:1].upper()}{entry.summary[1:]}.\n\n{entry.about}".strip()


def _meant(word: str, ctx: click.Context) -> str:
    """The commands that a user may have meant: of that name in another group, or of like spelling."""
    here = ctx.command.parts if isinstance(ctx.command, LazyGroup) else {}
    before = ctx.command_path.removeprefix("gpurt").strip()
    alike = [f"{before} {name}".strip() for name in near(word, here, 2)]
    elsewhere = [path for path in LEAVES if near(word, [path.rsplit(" ", 1)[-1]], cutoff=0.8)]
    named = [path for path in elsewhere if path.endswith(f" {word}")]
    found = list(dict.fromkeys([*named, *alike, *elsewhere]))[:3]
    return f"; did you mean {' or '.join(f'gpurt {one}' for one in found)}?" if found else ""


@click.group(
    cls=LazyGroup,
    context_settings=CONTEXT,
    epilog="Begin: gpurt demo.  Also: gpurt help keys, help exit codes, help completion.",
)
@click.option("--device", type=Host(), metavar="PATH", envvar="GPURT_DEVICE",
              help="The host to ask: /dev/gpurt or a socket.")  # fmt: skip
@click.version_option(package_name="gpurt", prog_name="gpurt")
@click.pass_context
def cli(ctx: click.Context, device: str | None) -> None:
    """Hard real-time priorities for GPU work, with a proof before deployment."""
    ctx.obj = device


def find_command(path: str) -> click.Command:
    """The command of a path such as "plan modes".  Raises KeyError if there is none."""
    command: click.Command = cli
    for name in path.split():
        found = command.get_command(click.Context(command), name) if isinstance(command, LazyGroup) else None
        if found is None:
            raise KeyError(path)
        command = found
    return command


def _cut_off(context: click.Context, given: Sequence[str], code: int) -> None:
    """Says that a signal ended the command while it computed, in place of its progress bar if there is one."""
    if is_terminal(sys.stderr):
        progress.end_shown()
        render.remark("\033[?25h")  # the bar hides the cursor
    _fail(Terminated() if code == TERMINATED else KeyboardInterrupt(), context, given)


def run(arguments: Sequence[str] | None = None) -> int:
    """Runs a command, by default from sys.argv, and returns its exit code.  Prints errors, raises none."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    context = None
    try:
        if sys.stdout is None:  # the shell's >&-
            raise FileError("stdout is closed: there is nowhere to write to")
        if instruction := os.environ.get(COMPLETE):
            return shell_complete(cli, {}, "gpurt", COMPLETE, instruction)
        try:
            with cli.make_context("gpurt", list(given)) as context:
                context.meta[CUT_OFF] = partial(_cut_off, context, given)
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
    failure = explain_error(error)
    if _asked_for_json(context, given, error):
        render.remark(json.dumps(failure.document(_command_in(given))))
    else:
        for line in failure.lines:
            render.say(f"gpurt: {line}", err=True)
    return failure.exit_code


@dataclass(frozen=True, slots=True)
class ShownError:
    """An error as the user sees it: its lines, its exit code, and the mistakes in a file, if any."""

    lines: tuple[str, ...]
    exit_code: int
    problems: tuple[Problem, ...] = ()

    def document(self, command: str | None) -> Document:
        """The JSON document of this error (docs/output.md)."""
        data: Document = {"message": "\n".join(self.lines), "exit_code": self.exit_code}
        if self.problems:
            data["problems"] = self.problems
        return render.document(command, {"error": data})


def _command_in(given: Sequence[str]) -> str | None:
    """The command that the arguments name, with its groups; None if they name none."""
    entries, found, skip = COMMANDS, list[str](), False
    for word in given:
        if skip or word in entries:
            if not skip:
                found.append(word)
                entries = entries[word].parts
            skip = False
        elif not found and word.startswith("-"):
            skip = word == "--device"
        else:
            break
    return " ".join(found) or None


def explain_error(error: BaseException) -> ShownError:
    """The message to the user about an exception that a command raised."""
    if isinstance(error, TasksetError):
        return ShownError(tuple(str(error).split("\n")), error.exit_code, error.problems)
    if isinstance(error, GpurtError):
        return ShownError((visible(error),), error.exit_code)
    if isinstance(error, click.ClickException):
        where = getattr(error, "ctx", None)
        hint = f" (see {where.command_path} --help)" if where else ""
        said = error.format_message().replace("\n\t", " ")  # click's format for choices
        said = said.replace("is not a valid integer range", "is no whole number")
        return ShownError((f"{visible(said)}{hint}",), UsageError.exit_code)
    if isinstance(error, Terminated):
        return ShownError(("ended by SIGTERM",), TERMINATED)
    if isinstance(error, (KeyboardInterrupt, click.Abort)):
        return ShownError(("interrupted",), INTERRUPTED)
    if isinstance(error, OSError) and error.errno in UNWRITABLE and not error.filename:
        render.discard(1)
        return ShownError((f"stdout cannot be written: {error.strerror}",), FileError.exit_code)
    if os.environ.get("GPURT_DEBUG") == "1":
        sys.__excepthook__(type(error), error, error.__traceback__)
    text = str(error).splitlines()[0] if str(error) else "no message"
    return ShownError((f"{type(error).__name__}: {text}; this is a bug, GPURT_DEBUG=1 shows where",), BUG)


def _asked_for_json(context: click.Context | None, arguments: Sequence[str], error: BaseException) -> bool:
    """Whether the user wants errors as JSON.  If click could not read the arguments, searches them for the option."""
    if isinstance(error, click.UsageError):
        return "--json" in takewhile(lambda word: word != "--", arguments)
    return context is not None and bool(context.meta.get(ASKED_FOR_JSON))

