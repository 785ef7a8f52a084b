# SPDX-License-Identifier: GPL-2.0
"""The command `gpurt`: parse, call, print.  Exit codes are those of gpurt.errors."""

from __future__ import annotations

import errno
import importlib
import os
import sys
import traceback
from importlib.metadata import version

import click

from gpurt.errors import FileError, GpurtError

#: Errors of writing to stdout: a full disk, a device that fails, a descriptor that is not open for writing.
UNWRITABLE = (errno.ENOSPC, errno.EIO, errno.EBADF)

#: Command name -> module that defines it (imported when the command is used, so that --help is quick) and attribute.
COMMANDS = {
    "analyze": ("analyze", "analyze"),
    "assign": ("design", "assign"),
    "choose": ("design", "choose"),
    "sensitivity": ("design", "sensitivity"),
    "simulate": ("simulate", "simulate"),
    "check": ("simulate", "check"),
    "plot": ("simulate", "plot"),
    "experiment": ("experiment", "experiment"),
    "schema": ("system", "schema"),
    "demo": ("run", "demo"),
    "run": ("run", "run"),
    "profile": ("run", "profile"),
    "emulate": ("serve", "emulate"),
    "serve": ("serve", "serve"),
    "apply": ("live", "apply"),
    "priority": ("live", "priority"),
    "policy": ("live", "policy"),
    "budget": ("live", "budget"),
    "exempt": ("live", "exempt"),
    "hint": ("hints", "hint"),
    "status": ("live", "status"),
    "clients": ("live", "clients"),
    "top": ("live", "top"),
    "trace": ("live", "trace"),
    "doctor": ("system", "doctor"),
    "completion": ("system", "completion"),
}


class LazyGroup(click.Group):
    """A group that imports a command's module when the command is asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """All commands, in the order of COMMANDS."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        """The command; None lets click say that there is none."""
        if name not in COMMANDS:
            return None
        module, attribute = COMMANDS[name]
        command = getattr(importlib.import_module(f"pycontrol.commands.{module}"), attribute)
        assert isinstance(command, click.Command)
        return command


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
6 failed while running; 70 a bug in gpurt; 130 interrupted.""",
)
@click.option("--device", metavar="PATH", envvar="GPURT_DEVICE", help="The host: /dev/gpurt or an emulator's socket.")
@click.version_option(version("gpurt"), prog_name="gpurt")
@click.pass_context
def cli(ctx: click.Context, device: str | None) -> None:
    """Hard real-time priorities for GPU work, with a proof before deployment."""
    ctx.obj = device


def main(arguments: list[str] | None = None) -> None:
    """Entry point: runs a command and exits with its code; errors are one line, without a traceback."""
    sys.exit(run(arguments))


def run(arguments: list[str] | None = None) -> int:
    """Runs a command and returns the exit code."""
    stdout = sys.stdout
    if stdout is None:  # the shell's >&-
        click.echo("gpurt: stdout is closed: there is nowhere to write to", err=True)
        return FileError.exit_code
    try:
        code = cli.main(arguments, prog_name="gpurt", standalone_mode=False)
        sys.stdout.flush()
        return code if isinstance(code, int) else 0
    except SystemExit:
        if sys.stdout is stdout:
            raise
        # click replaces stdout if the reader is gone, and exits with 1, our code for "no".
        return _nobody_reads()
    except GpurtError as error:
        for line in str(error).splitlines() or [""]:
            click.echo(f"gpurt: {line}", err=True)
        return error.exit_code
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message())
        return 2
    except click.ClickException as error:
        context = getattr(error, "ctx", None)
        hint = f" (see {context.command_path} --help)" if context else ""
        click.echo(f"gpurt: {error.format_message()}{hint}", err=True)
        return 2
    except (KeyboardInterrupt, click.Abort):
        click.echo("gpurt: interrupted", err=True)
        return 130
    except BrokenPipeError:
        return _nobody_reads()
    except OSError as error:
        if error.errno not in UNWRITABLE or error.filename:
            return _bug(error)
        _discard_output()
        click.echo(f"gpurt: stdout cannot be written: {error.strerror}", err=True)
        return FileError.exit_code
    except Exception as error:
        return _bug(error)


def _bug(error: Exception) -> int:
    if os.environ.get("GPURT_DEBUG") == "1":
        traceback.print_exc()
    text = str(error).splitlines()[0] if str(error) else "no message"
    click.echo(f"gpurt: {type(error).__name__}: {text}; this is a bug, GPURT_DEBUG=1 shows where", err=True)
    return 70


def _discard_output() -> None:
    """What is still in Python's buffer goes nowhere, instead of failing once more at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


def _nobody_reads() -> int:
    """The exit code of a program that SIGPIPE ended: the reader, such as head, has what it wanted."""
    _discard_output()
    return 141


if __name__ == "__main__":
    main()
