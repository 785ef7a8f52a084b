# SPDX-License-Identifier: GPL-2.0
"""The class, arguments, options and parameter types that several commands share."""

from __future__ import annotations

import inspect
import os
import re
import stat
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import CompletionItem

from gpurt.enums import Policy
from gpurt.errors import GpurtError, RefusedError, UsageError
from gpurt.text import visible
from gpurt.units import parse_time
from pycontrol import ending
from pycontrol.output.render import PROGRESS, QUIET

if TYPE_CHECKING:
    from pycontrol.link.control import Control

    Other = click.ParamType[Any]
else:
    Other = click.ParamType  # generic in late releases of click only: Debian 12 has 8.1
#: Keys of a context's ``meta``: whether the user wants JSON, and the function that reports an early end.
ASKED_FOR_JSON, CUT_OFF = "gpurt.json", "gpurt.cut-off"


def _kept(key: str, context: click.Context, _: click.Parameter, value: Any) -> Any:
    """Keeps an option's value where the whole command finds it."""
    if value is not None:
        context.meta[key] = value
    return value


def _without_color(_context: click.Context, _: click.Parameter, asked: bool) -> None:
    if asked:
        os.environ["NO_COLOR"] = "1"


#: The options of every command.
COMMON = (
    click.Option(["-q", "--quiet"], is_flag=True, expose_value=False, callback=partial(_kept, QUIET),
                 help="No remarks and no progress on stderr."),
    click.Option(["--progress/--no-progress"], default=None, expose_value=False, callback=partial(_kept, PROGRESS),
                 help="Show progress on stderr, or do not; shown unless --quiet."),
    click.Option(["--no-color"], is_flag=True, expose_value=False, callback=_without_color, help="No colors."),
)  # fmt: skip


class Subcommand(click.Command):
    """A command with the common options, which refuses a --device that would have no effect.

    ``computes``: it only computes, and leaves nothing but files, so that Ctrl-C and SIGTERM end it soon
    (pycontrol.ending).  ``instead``: advice for a user who gives it a host.  ``extra``: advice for a surplus argument.
    """

    def __init__(
        self, *args: Any, computes: bool = False, instead: str = "leave it out", extra: str = "", **more: Any
    ) -> None:
        super().__init__(*args, **more)
        self.computes, self.instead, self.extra = computes, instead, extra
        for path in (one.type for one in self.params if isinstance(one.type, click.Path)):
            path.readable = False  # an unreadable file is no wrong usage: opening it reports the error

    @property
    def asks(self) -> bool:
        """Whether the command's function takes the value of --device."""
        return "device" in inspect.signature(inspect.unwrap(self.callback or print)).parameters and not any(
            one.name == "device" for one in self.params
        )

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        """The command's own parameters, then the common ones, then --help."""
        *own, last = super().get_params(ctx)
        return [*own, *COMMON, last]

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Reads the arguments.  Raises UsageError, which says where --device and stray arguments belong."""
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            if error.option_name == "--device" and self.asks:
                called = ctx.command_path.replace("gpurt", "gpurt --device PATH", 1)
                raise click.UsageError(f"--device comes before the command: {called}", ctx) from None
            if error.option_name == "--watch":
                again = f"watch -n 1 {ctx.command_path} shows it again and again"
                text = f"{again}, and gpurt watch FILE tells of what does not hold"
                raise click.UsageError(f"there is no --watch: {text}", ctx) from None
            raise
        except click.UsageError as error:
            if self.extra and "extra argument" in error.message:
                raise click.UsageError(f"{error.message}: {self.extra}", ctx) from None
            raise

    def invoke(self, ctx: click.Context) -> Any:
        """Calls the command.  Raises UsageError if --device is given and the command asks no host."""
        root = ctx.find_root()
        if not self.asks and root.get_parameter_source("device") is click.core.ParameterSource.COMMANDLINE:
            none = f"--device names a host to ask, and {ctx.command_path} asks none"
            raise click.UsageError(f"{none}; {self.instead}", ctx)
        if self.computes:
            ctx.with_resource(ending.soon(ctx.meta.get(CUT_OFF, lambda code: None)))
        return super().invoke(ctx)


def command(**more: Any) -> Callable[[Callable[..., Any]], click.Command]:
    """Makes a function a command."""
    return click.command(cls=Subcommand, **more)


FILE = click.argument("file", type=click.Path(path_type=Path))
JSON = click.option("--json", "as_json", is_flag=True, is_eager=True, callback=partial(_kept, ASKED_FOR_JSON),
                    help="Print JSON (docs/output.md); errors too.")  # fmt: skip


class Pid(click.IntRange):
    """The id of a process."""

    name = "process id"


#: How many letters of a process's name the kernel keeps.
COMM = 15


class Clients(Other):
    """Processes of clients: a process id, which need not be a client's, or the name of client processes."""

    name = "process id or name"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[int, ...]:
        """The process ids: the given one, or those of the name."""
        if isinstance(value, tuple):
            return value
        if ctx is None or value.lstrip("+-").isdecimal() or not value:
            return (Pid(1).convert(value, param, ctx),)
        found = tuple(dict.fromkeys(pid for pid, name in _clients(ctx) if name == value[:COMM]))
        if not found:
            raise RefusedError(f"no client is called {value!r}; `gpurt status clients` lists them")
        return found

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """The names of the clients, if there is a host."""
        with suppress(GpurtError):
            names = {name for _, name in _clients(ctx)}
            return [CompletionItem(one) for one in sorted(names) if one.startswith(incomplete)]
        return []


def _clients(ctx: click.Context) -> list[tuple[int, str]]:
    with _host(ctx) as control:
        return [(one.pid, one.comm) for one in control.clients() if one.pid]


def _host(ctx: click.Context) -> Control:
    from pycontrol.link.control import connect  # completion and names need it, --help does not

    return connect(ctx.find_root().params.get("device"))


def clients(*, required: bool) -> Callable[[Callable[..., int]], Callable[..., int]]:
    """The argument ``pids``: processes by id or name."""
    return click.argument(
        "pids", nargs=-1, required=required, type=Clients(), metavar="PID|NAME..." if required else "[PID|NAME]...",
        callback=lambda ctx, param, values: tuple(dict.fromkeys(pid for one in values for pid in one)),
    )  # fmt: skip


PIDS = click.argument("pids", nargs=-1, required=True, type=Pid(1), metavar="PID...")


class Parsed(Other):
    """A value that a function reads from a text.  The function raises ValueError, which says what is wrong."""

    def __init__(self, name: str, read: Callable[[str], Any]) -> None:
        self.name, self.read = name, read

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The value."""
        try:
            return self.read(value) if isinstance(value, str) else value
        except ValueError as error:
            self.fail(str(error), param, ctx)


def _group_name(text: str) -> str:
    if not re.fullmatch("[ -~]{1,31}", text):
        raise ValueError(f"{text[:40]!r} is not 1 to 31 printable ASCII characters")
    return text


#: A time with a unit, as nanoseconds; and the name of a group of processes.
TIME, GROUP = Parsed("time", parse_time), Parsed("group", _group_name)


class _NotEmpty(Other):
    """Refuses an empty value: a script's unset variable must not mean "no option", nor an empty path this folder."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The value."""
        if value == "":
            self.fail("is empty; leave the option out if that is meant", param, ctx)
        return super().convert(value, param, ctx)


class Given(_NotEmpty, click.types.StringParamType):
    """A text that is not empty."""


class GivenPath(_NotEmpty, click.Path):
    """A path that is not empty."""


class Host(Given):
    """A host: the module's device, or a socket."""

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """The hosts that exist, and files."""
        from pycontrol.link.control import places  # completion needs it, --help does not

        there = [str(one) for one in places() if one.exists() and str(one).startswith(incomplete)]
        return [*map(CompletionItem, there), CompletionItem(incomplete, type="file")]


class Word(Given):
    """A name that completion knows.  ``words``: all names with their help; only completion calls it."""

    def __init__(self, name: str, words: Callable[[], Mapping[str, str | None]]) -> None:
        self.name, self.words = name, words

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """The names with this beginning."""
        return [CompletionItem(one, help=text) for one, text in self.words().items() if one.startswith(incomplete)]


def _tests() -> dict[str, str | None]:
    from analysis.answers.registry import TESTS  # completion needs it, --help does not

    return {name: test.title for name, test in TESTS.items()}


def _tasks() -> dict[str, str | None]:
    """The tasks of the file on the command line, as far as the file can be read."""
    from analysis.taskset import load  # completion needs it, --help does not

    words = os.environ.get("COMP_WORDS", "").split()  # click has not read the arguments of an unfinished line
    for file in (word for word in words if word.endswith(".toml")):
        with suppress(GpurtError):
            return dict.fromkeys(task.name for task in load(Path(file)).taskset)
    return {}


#: Names of a schedulability test, of a task of the command's file, and of a policy.
TEST_NAME, TASK_NAME = Word("test", _tests), Word("task", _tasks)
POLICY_NAME = Word("policy", lambda: dict.fromkeys(Policy.words()))


class GpuNumber(click.IntRange):
    """The number of a GPU of the host."""

    def __init__(self) -> None:
        super().__init__(0, 2**32 - 1)

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """The GPUs of the host, if there is one."""
        with suppress(GpurtError), _host(ctx) as control:
            numbers = [str(one.gpu) for one in control.gpus()]
            return [CompletionItem(one) for one in numbers if one.startswith(incomplete)]
        return []


GPU = click.option("--gpu", type=GpuNumber(), metavar="NUMBER",
                   help="Only on this GPU; all unless given.")  # fmt: skip
TEST = click.option("--test", "name", type=TEST_NAME, metavar="NAME",
                    help="Use this test, not the one that the file's verdict rests on.")  # fmt: skip


class KeyValues(Other):
    """KEY=VALUE,...: keys of ``kinds``, each with a value of its type."""

    name = "values"

    def __init__(self, **kinds: Other) -> None:
        self.kinds = kinds

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> dict[str, Any]:
        """The values by key.  A value may contain commas."""
        found = {}
        for one in re.split(",(?=[a-z_]+=)", value):
            key, _, text = one.partition("=")
            if key not in self.kinds or not text or text != text.strip():
                self.fail(f"{one!r} is not KEY=VALUE with a key of {', '.join(self.kinds)}", param, ctx)
            try:
                found[key] = self.kinds[key].convert(text, param, ctx)
            except click.BadParameter as error:
                self.fail(f"{key}: {error.message}", param, ctx)
        return found


def keyed_option(flag: str, name: str, what: str, **kinds: Other) -> Callable[[Any], Any]:
    """The option for several values by key, as one dictionary; the last value of a key counts."""

    def joined(_context: click.Context, _: click.Parameter, values: tuple[dict[str, Any], ...]) -> dict[str, Any]:
        return {key: value for one in values for key, value in one.items()}

    return click.option(flag, name, multiple=True, type=KeyValues(**kinds), metavar="KEY=VALUE,...",
                        callback=joined, help=what)  # fmt: skip


class Output(click.Path):
    """A file to write.  ``-`` is refused: stdout has the command's answer."""

    def __init__(self) -> None:
        super().__init__(path_type=Path)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The path."""
        if str(value) == "-":
            self.fail("'-' names no file here; stdout is /dev/stdout", param, ctx)
        return super().convert(value, param, ctx)


def files_apart(outputs: Iterable[Path | None], *inputs: Path) -> None:
    """Checks the names of files that a command is to write.

    Raises UsageError: an output is also an input, which would be lost, or occurs twice.
    """
    taken = [_place(path) for path in inputs]
    for path in filter(None, outputs):
        if (place := _place(path)) is None:
            continue
        if place in taken:
            raise UsageError(f"{visible(path)}: this command reads or writes it already; name another file to write")
        taken.append(place)


def _place(path: Path) -> tuple[int, int] | str | None:
    """The identity of a file, which need not exist; None for a device or a pipe."""
    try:
        seen = os.stat(path)
    except (OSError, ValueError):  # the name has a NUL
        with suppress(OSError, ValueError):  # the current folder was removed
            return os.path.realpath(path)
        return None
    return (seen.st_dev, seen.st_ino) if stat.S_ISREG(seen.st_mode) else None


FOLDER = click.option("-o", "--output", type=GivenPath(path_type=Path, file_okay=False), default=Path("results"),
                      show_default=True, help="Folder for the results.")  # fmt: skip
