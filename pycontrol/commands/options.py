# SPDX-License-Identifier: GPL-2.0
"""Arguments, options and parameter types that several commands share."""

from __future__ import annotations

import math
import os
import stat
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from gpurt.errors import TasksetError, UsageError
from gpurt.text import visible
from gpurt.units import parse_time

if TYPE_CHECKING:  # at run time the imports take longer than many commands need
    from analysis.answers.beside import Beside
    from analysis.rta import Test
    from analysis.taskset import TasksetFile

    Whole = click.ParamType[int]
    Wholes = click.ParamType[tuple[int, ...]]
else:
    Whole = Wholes = click.ParamType  # generic in late releases of click only: Debian 12 has 8.1
#: Key of a context's ``meta``: whether the user asked for JSON.
ASKED_FOR_JSON = "gpurt.json"


def _ask_for_json(context: click.Context, _: click.Parameter, asked: bool) -> bool:
    context.meta[ASKED_FOR_JSON] = asked
    return asked


FILE = click.argument("file", type=click.Path(path_type=Path))
JSON = click.option("--json", "as_json", is_flag=True, is_eager=True, callback=_ask_for_json,
                    help="Print JSON (docs/output.md); errors too.")  # fmt: skip
GPU = click.option("--gpu", type=click.IntRange(0, 2**32 - 1), metavar="NUMBER",
                   help="Only on this GPU; all unless given.")  # fmt: skip


class Pid(click.IntRange):
    """The id of a process."""

    name = "process id"


PIDS = click.argument("pids", nargs=-1, required=True, type=Pid(1), metavar="PID...")


class Seconds(click.FloatRange):
    """A number of seconds within a range."""

    name = "seconds"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Reads it.  No comparison with a limit holds for nan, so that the range alone accepts it."""
        number = super().convert(value, param, ctx)
        if math.isnan(number):
            self.fail(f"{value!r} is not a number of seconds", param, ctx)
        return number


class Given(click.types.StringParamType):
    """A text that is not empty.  An option whose variable is unset in a script is not the option left out."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The text."""
        if value == "":
            self.fail("is empty; leave the option out if that is meant", param, ctx)
        return super().convert(value, param, ctx)


class GivenPath(click.Path):
    """A path that is not empty: that would be the folder where the command runs."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The path."""
        if value == "":
            self.fail("is empty; leave the option out if that is meant", param, ctx)
        return super().convert(value, param, ctx)


class Time(Whole):
    """A time with a unit, as nanoseconds."""

    name = "time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Reads it."""
        try:
            return value if isinstance(value, int) else parse_time(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)


class Output(click.Path):
    """A file to write.  ``-`` is refused: stdout has the command's answer."""

    def __init__(self) -> None:
        super().__init__(path_type=Path)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The path."""
        if str(value) == "-":
            self.fail("'-' names no file here; stdout is /dev/stdout", param, ctx)
        return super().convert(value, param, ctx)


def apart(outputs: Iterable[Path | None], *inputs: Path) -> None:
    """Checks the names of files that a command is to write.

    Raises UsageError: one is a file that the command reads, which would be lost, or is there twice.
    """
    taken = [_place(path) for path in inputs]
    for path in filter(None, outputs):
        if (place := _place(path)) is None:
            continue
        if place in taken:
            raise UsageError(f"{visible(path)}: this command reads or writes it already; name another file to write")
        taken.append(place)


def _place(path: Path) -> tuple[int, int] | str | None:
    """What tells a file from others, whether it is there or not; None of a device or a pipe."""
    try:
        seen = os.stat(path)
    except (OSError, ValueError):  # a NUL in the name
        with suppress(OSError, ValueError):  # the current folder was removed
            return os.path.realpath(path)
        return None
    return (seen.st_dev, seen.st_ino) if stat.S_ISREG(seen.st_mode) else None


def tests(names: tuple[str, ...]) -> list[Any]:
    """The schedulability tests of these names; all sound ones where there are none.

    Raises:
        UsageError: no test has such a name.
    """
    from analysis import rta

    try:
        return [rta.find(name) for name in names] or [test for test in rta.TESTS.values() if test.sound]
    except ValueError as error:
        raise UsageError(f"--test: {error}") from None


class Chosen(NamedTuple):
    """The test that a command uses, None if there is none.

    ``why``: why there is none, or why the taskset's passing the test is no proof.  ``notes``: remarks on the test.
    """

    test: Test | None
    why: str
    notes: list[str]


def covering_test(taskset: Any, name: str | None) -> Chosen:
    """The test of that name; without one, the test that the verdict on the taskset rests on."""
    from analysis.answers.elsewhere import another
    from analysis.verdict import answer, no_proof, unlike_the_file

    if name:
        test = tests((name,))[0]
        how = unlike_the_file(test, taskset)
        return Chosen(test, no_proof(test, taskset) or (another(test, how) if how else ""),
                      about_others([test], taskset))
    found = answer(taskset)
    passed = found.result is not None and found.result.schedulable
    return Chosen(found.test, found.why if passed or not found.test else "", [])


def beside_of(taskset: Any, test: Test | None, why: str, name: str | None, command: str) -> Beside:
    """What is known beside a command's no, where it rests on this test; ``name``: of the test that the user named."""
    from analysis import compiled
    from analysis.answers.beside import Beside, beside

    if not why:
        return Beside()
    results = [(test, compiled.run(test, taskset))] if test and taskset.real_time else []
    return beside(taskset, why, results, bool(name), command)


def about_others(chosen: Sequence[Test], taskset: Any) -> list[str]:
    """A remark for each test that the user named which is about another system than the file's, and what it assumes."""
    from analysis.answers.elsewhere import another
    from analysis.rta.registry import UNITS
    from analysis.rtgpu.verdict import assumed
    from analysis.verdict import unlike_the_file

    remarks = [another(test, how) for test in chosen if (how := unlike_the_file(test, taskset))]
    return remarks + (assumed(taskset) if any(test.name in UNITS for test in chosen) else [])


def analysable(file: Path, chosen: Sequence[Test] = ()) -> Any:
    """A taskset file that has what bounds of these tests need; see `refuse`.  Raises FileError and TasksetError."""
    return analysable_text(file, chosen)[0]


def analysable_text(file: Path, chosen: Sequence[Test] = ()) -> tuple[Any, str]:
    """The same, and its text.  The file is read once, so that it may be a pipe."""
    from analysis import taskset

    text = taskset.read(file)
    loaded = taskset.parse(file, text)
    refuse(loaded, chosen)
    return loaded, text


def refuse(loaded: TasksetFile, chosen: Sequence[Test] = ()) -> None:
    """Raises TasksetError for a file that lacks what bounds need, or has what no bound is about.

    Epsilon has no default: zero would make every bound too small.  Only tests of tasks that own units do without it.
    ``chosen``: the tests that were named, if any were.
    """
    updates = not chosen or any(test.policy != "federated" for test in chosen)
    if problems := [*(loaded.lacks if updates else ()), *loaded.unmodelled]:
        raise TasksetError(loaded.path, problems)


def modelled(file: Path) -> Any:
    """A taskset file that bounds can be about once it has what they need, as options say.

    Raises FileError and TasksetError.
    """
    from analysis import taskset

    loaded = taskset.load(file)
    if loaded.unmodelled:
        raise TasksetError(file, loaded.unmodelled)
    return loaded


def connect(device: str | None) -> Any:
    """The host's control plane.  Raises DeviceError if there is no host."""
    from pycontrol.live.control import connect

    return connect(device)


def time_of(text: str, option: str) -> int:
    """A time with a unit as ns.  Raises UsageError, which names the option."""
    try:
        return parse_time(text)
    except ValueError as error:
        raise UsageError(f"{option}: {error}") from None
