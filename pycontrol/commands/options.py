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
from gpurt.units import LONGEST, parse_time

if TYPE_CHECKING:  # at run time the imports take longer than many commands need
    from analysis.model import Platform, Taskset, Waiting
    from analysis.rta import Test
    from analysis.taskset import TasksetFile
    from pycontrol.live.control import GpuStatus

    Whole = click.ParamType[int]
    Wholes = click.ParamType[tuple[int, ...]]
else:
    Whole = Wholes = click.ParamType  # generic in late releases of click only: Debian 12 has 8.1
#: The module's parameter that says on which CPU the GPUs' threads stay.
THREAD_CPU = Path("/sys/module/gpurt/parameters/thread_cpu")
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
    from analysis.verdict import answer, no_proof

    if name:
        test = tests((name,))[0]
        return Chosen(test, no_proof(test, taskset), about_others([test], taskset))
    found = answer(taskset)
    passed = found.result is not None and found.result.schedulable
    return Chosen(found.test, found.why if passed or not found.test else "", [])


def about_others(chosen: Sequence[Test], taskset: Any) -> list[str]:
    """A remark for each test that the user named which is about another system than the file's, and what it assumes."""
    from analysis.rta.registry import UNITS
    from analysis.rtgpu.verdict import assumed
    from analysis.verdict import unlike_the_file

    found = [(test.name, unlike_the_file(test, taskset)) for test in chosen]
    remarks = [f"{name} is about {how}: the file's system is another one" for name, how in found if how]
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


def demanded(taskset: Taskset) -> Platform:
    """The platform with the policy and the least update costs of the partitions that real-time tasks use."""
    from dataclasses import replace

    platform = taskset.platform
    costs = [platform.costs(task.partition) for task in taskset.real_time if task.uses_gpu]
    alpha, theta = (min(one) for one in zip(*costs, strict=True)) if costs else (platform.alpha, platform.theta)
    policy = taskset.policies[0] if len(taskset.policies) == 1 else platform.policy
    return replace(platform, alpha=alpha, theta=theta, policy=policy)


def unlike(platform: Platform, gpus: Sequence[GpuStatus], apart: bool = False) -> str:
    """Why bounds for this platform do not speak of a host with these GPUs; empty if they do.

    Bounds for `job` with polling are for the default period.  ``apart``: for several partitions, whose bounds charge
    some updates without a context switch.
    """
    from analysis.rta.thesis import POLL
    from gpurt.enums import Notice
    from pycontrol.commands.render import ms

    policy = platform.policy
    for gpu in gpus:
        able, runs = policy != "boosted" or gpu.normal, gpu.policy.word
        cure = f"`gpurt policy {policy}` changes that" if able else f"which cannot do {policy}"
        if runs != policy:
            here = f'a file for this host has policy = "{runs}"'
            return f"the file is for policy {policy}, the host runs {runs}; {cure}; {here}"
        if policy == "job" and gpu.notice is Notice.POLL and gpu.poll_ns != POLL:
            return (
                f"the bounds for policy job are for a polling period of {ms(POLL)} ms, the host has {ms(gpu.poll_ns)} "
                "ms; `gpurt policy job --notice poll --period 1ms` changes that"
            )
        if policy == "job" and platform.alpha and not _thread_stays():
            return "the bounds for policy job are for a host's thread that stays on CPU 0: gpurt.ko with thread_cpu=0"
        if gpu.emulated and (dearer := _dearer(platform, gpu, apart)):
            return dearer
    return ""


def _thread_stays() -> bool:
    """Whether the module keeps its GPUs' threads on CPU 0; the user-space host does not."""
    try:
        return THREAD_CPU.read_text().strip() == "0"
    except OSError:
        return False


def _dearer(platform: Platform, gpu: GpuStatus, apart: bool) -> str:
    """Which cost of this virtual GPU is not the file's; empty if bounds for the file's hold here."""
    from analysis.slices.driver import settled
    from pycontrol.commands.render import ms

    costs = [("a runlist update and a context switch", gpu.alpha_ns + gpu.theta_ns, "epsilon", platform.epsilon)]
    if platform.policy not in ("segment", "job"):  # whose bounds charge both together
        costs.append(("a context switch", gpu.theta_ns, "theta", platform.longest_switch))
    if apart or platform.policy not in ("segment", "timesliced"):  # whose bounds charge some updates without a switch
        costs.append(("a runlist update", gpu.alpha_ns, "alpha", platform.alpha))
    if platform.policy == "timesliced":
        costs.append(("a time slice", gpu.slice_ns or LONGEST, "time_slice", platform.time_slice))
    for what, here, key, there in costs:
        if here > there:
            lasts = f"{what} takes {ms(here)} ms" if here < LONGEST else "there are no time slices"
            return f"on the host's virtual GPU {lasts}, the file's {key} is {ms(there)} ms"
    if platform.policy == "timesliced" and gpu.slice_ns < settled(platform.time_slice):  # work takes more turns then
        return (
            f"on the host's virtual GPU a time slice takes {ms(gpu.slice_ns)} ms only, the file's time_slice is "
            f"{ms(platform.time_slice)} ms"
        )
    return ""


def unshaped(taskset: Taskset, gpus: Sequence[GpuStatus]) -> str:
    """Why bounds for the file's slices and levels need not hold on this host; empty if it has them, or none are stated.

    The scheduling node of a Tegra sets them.  On a virtual GPU only a program can, for its own TSGs.
    """
    if not taskset.time_partitioned or "timesliced" not in taskset.policies or not any(gpu.emulated for gpu in gpus):
        return ""
    return (
        "the file gives TSGs slices and levels, which only programs themselves can set on a virtual GPU "
        "(GPURT_IOC_TSG_SHAPE), and nothing says that they do"
    )


def outside(policy: str, taskset: Taskset, gpus: Sequence[GpuStatus]) -> str:
    """Why a host with these GPUs cannot order the taskset's priorities under the policy; empty if it can.

    A real-time task above the normal priorities, also one that uses no GPU, could preempt a raised thread.
    """
    from gpurt._gpurt import lib

    normal = min((gpu.normal for gpu in gpus), default=0)
    if policy != "boosted" or not normal:
        return ""
    most, name = max(((task.highest_priority, task.name) for task in taskset.real_time), default=(0, ""))
    if most <= normal:
        return ""
    raised = f", or start the host with --normal {most}" if most <= lib.GPURT_NORMAL_MAX else ""
    return (
        f"under policy boosted the host orders priorities 1 to {normal}, and {name} has {most}; give the tasks other "
        f"numbers in the same order{raised}"
    )


def unraised(policy: str, taskset: Taskset, waiting: Waiting | None, device: str | None) -> str:
    """Why the host begins no segments of some task; empty if it does.  ``waiting``: of all tasks, if not the file's.

    Where threads raise themselves, only those of form `self` do.
    """
    from gpurt.enums import Cap, Form
    from gpurt.segments import Client

    forms = {task.name: task.form_in(waiting or task.waiting) for task in taskset.real_time if task.uses_gpu}
    raised = [(name, form) for name, form in forms.items() if form is not Form.SELF]
    if policy != "boosted" or not raised:
        return ""
    with Client(device) as client:
        if client.capabilities & Cap.RAISES:
            return ""
    (name, form), cure = raised[0], "start it as root, at a priority above theirs"
    return f"{name} has form {form.word}, and this host cannot raise other processes' threads; {cure}"


def time_of(text: str, option: str) -> int:
    """A time with a unit as ns.  Raises UsageError, which names the option."""
    try:
        return parse_time(text)
    except ValueError as error:
        raise UsageError(f"{option}: {error}") from None
