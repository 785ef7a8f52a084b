# SPDX-License-Identifier: GPL-2.0
"""The commands that run a host: `gpurt emulate` for virtual GPUs, `gpurt serve` for real GPUs with agents."""

from __future__ import annotations

import fcntl
import grp
import os
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import click

from analysis.model import DEFAULT_POLICY, POLICIES
from analysis.model.platform import ISOLATED, YIELD
from analysis.taskset.file import load
from gpurt._gpurt import lib
from gpurt.enums import Begin, Policy
from gpurt.errors import UsageError
from gpurt.units import format_time
from pycontrol.commands.options import GivenPath, Time, Whole, Wholes, command
from pycontrol.host.agents import AgentGpu, Obedience
from pycontrol.host.endpoint import Access, default_socket
from pycontrol.host.gpu import Gpu, Tell
from pycontrol.host.serve import PRIORITY, Config, run_host
from pycontrol.host.threads import Band, may_raise
from pycontrol.host.units import UNIT_POLICIES, Mechanism, Space, setup_of
from pycontrol.host.users import UserLimits
from pycontrol.host.virtual import Shape, VirtualGpu
from pycontrol.host.whole import LEAST_NS, Layout, alike, of_taskset, read_slow_down
from pycontrol.machine import drivers
from pycontrol.machine.placement import fifo_permitted
from pycontrol.output import render

#: The policy that a host starts with where files default to one that needs rights that it does not have.
WITHOUT_RIGHTS = "segment"
#: The mechanisms by which programs on real GPUs may keep to units.
MECHANISMS = [one.value for one in Mechanism if one is not Mechanism.VIRTUAL]


class Mode(Whole):
    """Permission bits of a socket, in octal."""

    name = "mode"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Reads it.  Nobody executes a socket, and its owner must be able to open it."""
        if isinstance(value, int):
            return value
        if not re.fullmatch(r"0?6[0246][0246]", value):
            self.fail(f"{value!r} is not 600 to 666, in octal digits 0, 2, 4 and 6", param, ctx)
        return int(value, 8)


class UnitsType(Wholes):
    """Compute units of partitions: numbers with commas between."""

    name = "units"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[int, ...]:
        """Reads them."""
        if not re.fullmatch(r"[1-9][0-9]{0,6}(,[1-9][0-9]{0,6})*", value):
            self.fail(f"{value!r} is not a list of numbers of units, as 12,56", param, ctx)
        units = tuple(int(one) for one in value.split(","))
        if len(units) > lib.GPURT_MAX_GPUS:
            self.fail(f"{len(units)} partitions are too many; at most {lib.GPURT_MAX_GPUS}", param, ctx)
        return units


class Factor(Whole):
    """A slow-down, in thousandths."""

    name = "factor"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Reads it."""
        if not re.fullmatch(r"[0-9]{1,3}(\.[0-9]{1,9})?", value):
            self.fail(f"{value!r} is not a factor, as 1.5", param, ctx)
        try:
            return read_slow_down(Fraction(value), "the factor")
        except UsageError as error:
            self.fail(str(error), param, ctx)


class Group(Whole):
    """A group of users, by name or number."""

    name = "group"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Looks it up."""
        if isinstance(value, int):
            return value
        try:
            return grp.getgrgid(int(value)).gr_gid if value.isdecimal() else grp.getgrnam(value).gr_gid
        except (KeyError, OverflowError):
            self.fail(f"there is no group {value!r}", param, ctx)


LIMITS = tuple(field.name for field in fields(UserLimits))


class UserLimit(Wholes):
    """A limit of each user, as the number of a field of `UserLimits` and its value."""

    name = "limit"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[int, ...]:
        """Reads it."""
        found = re.fullmatch(r"(connections|calls|memory)=([1-9][0-9]{0,8})", value)
        if not found:
            self.fail(f"{value!r} is not connections=N, calls=N or memory=MIB", param, ctx)
        return LIMITS.index(found[1]), int(found[2]) << (20 if found[1] == "memory" else 0)


class Descriptor(Whole):
    """A file descriptor that this process was given to write to."""

    name = "descriptor"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Checks it before the host opens files of its own, one of which would have that number."""
        number = click.INT.convert(value, param, ctx)
        try:
            access = fcntl.fcntl(number, fcntl.F_GETFL) & os.O_ACCMODE
        except (OSError, ValueError, OverflowError):
            self.fail(f"descriptor {number} is not open", param, ctx)
        if access == os.O_RDONLY:
            self.fail(f"descriptor {number} is not open for writing", param, ctx)
        return number


def band_of(normal: int, priority: int) -> Band:
    """The band of raised threads.  A host raises threads only if it executes above them itself, to lower them again."""
    made = Band(normal)
    return replace(made, able=may_raise() and priority > made.cpu(lib.GPURT_RAISED_TOP))


def first_policy(named: str | None, band: Band, of_file: str = "") -> tuple[str, str]:
    """The policy that a host starts with, and the words for it, which say why it is not the one that files are for.

    Policy `boosted` needs a host that raises threads, or threads that may raise themselves (form `self`).

    ``named``: by the user.  ``of_file``: what the file of --taskset is for.
    """
    wanted = of_file or DEFAULT_POLICY
    highest = 2 * band.normal
    if named or wanted != DEFAULT_POLICY or band.able or fifo_permitted(highest):
        return named or wanted, f"policy {named or wanted}"
    return WITHOUT_RIGHTS, (
        f"policy {WITHOUT_RIGHTS} (not {DEFAULT_POLICY}, which files are for that name none: neither this host nor its "
        f"user may use SCHED_FIFO up to priority {highest}, see gpurt doctor)"
    )


def _bounded(gpus: Sequence[Gpu], lock_bound: int, stuck_bound: int) -> list[Gpu]:
    """The GPUs: how long best effort may hold a lock, and an owner be stuck before that is told, ns; 0: for ever."""
    for gpu in gpus:
        gpu.sched.lock_bound = lock_bound
        gpu.stuck.limit = stuck_bound
    return list(gpus)


def shared(policy: str, path: Path | None, gpus: int | None, mechanism: Mechanism) -> tuple[int, int, Space | None]:
    """The number of GPUs, the policy of their runlists, and who shares their units, if that is to be shared.

    Raises TasksetError, FileError, UsageError.
    """
    if policy not in UNIT_POLICIES:
        if path:
            raise UsageError(f"--energy-file goes with --policy {', '.join(UNIT_POLICIES)}")
        return gpus or 1, int(Policy.parse(policy)), None
    if not path:
        raise UsageError(f"--policy {policy} needs --energy-file FILE: what the tasks' kernels take")
    setup = setup_of(path, policy, mechanism)
    count = len(setup.system.gpus)
    if gpus not in (None, count):
        raise UsageError(f"--gpus {gpus}: the file of --energy-file has {count}")
    return count, int(Policy.TIMESLICED), Space(setup, mechanism, time.monotonic_ns)


def divided_by(path: Path, policy: str | None, band: Band, gpus: int | None) -> tuple[Layout, str]:
    """The virtual GPUs that a taskset's tasks use, one for each partition of its file; their policy in words.

    ``policy``: of partitions for which the file states none; None: the file's.

    Raises TasksetError, FileError; UsageError where options say what the file says.
    """
    context = click.get_current_context()
    for option in ("alpha", "theta", "slice_", "no_copy_engine", "units", "cross"):
        if context.get_parameter_source(option) is click.core.ParameterSource.COMMANDLINE:
            names = {"slice_": "slice", "cross": "cross-contention", "units": "partitions"}
            name = names.get(option, option.replace("_", "-"))
            raise UsageError(f"--{name}: the file of --taskset says it")
    taskset = load(path).taskset
    if taskset.platform.begin == YIELD:
        raise UsageError("--taskset: the file's segments begin by yield, which virtual GPUs do not know")
    of_file = POLICIES[taskset.platform.policy].number.word
    chosen, words = first_policy(policy, band, of_file)
    layout = of_taskset(taskset, int(Policy.parse(chosen)))
    if min(taskset.platform.costs(part)[0] for part in taskset.parts) < LEAST_NS:
        text = f"the file's alpha is below {format_time(LEAST_NS)}: updates may take longer, for this host is a program"
        render.note(f"{text} (gpurt status latency)", as_json=False)
    if gpus not in (None, len(layout.shapes)):
        raise UsageError(f"--gpus {gpus}: the file of --taskset has {len(layout.shapes)}")
    return layout, words


def serving(command: Callable[..., Any]) -> Callable[..., Any]:
    """Adds the options that both commands have."""
    for option in reversed((
        click.option("--socket", "path", type=GivenPath(path_type=Path),
                     help="Socket to serve on, in a folder that exists; /run/gpurt/host.sock if writable."),
        click.option("--mode", default="660", show_default=True, type=Mode(), metavar="MODE",
                     help="Permission bits of the socket."),
        click.option("--socket-group", "group", type=Group(), metavar="GROUP",
                     help="Group of the socket, whose members may use the GPUs; yours unless given."),
        click.option("--gpus", type=click.IntRange(1, lib.GPURT_MAX_GPUS),
                     help="Number of GPUs; 1 unless given, or as many as the file has that is given."),
        click.option("--policy", type=click.Choice([*Policy.words(), *UNIT_POLICIES]),
                     help=f"{DEFAULT_POLICY} unless given, or {WITHOUT_RIGHTS} without the right to SCHED_FIFO.  "
                     f"{', '.join(UNIT_POLICIES)} share a GPU's units by jobs, and need --energy-file."),
        click.option("--energy-file", "energy_path", metavar="FILE", type=GivenPath(path_type=Path),
                     help="For these policies: the file of `gpurt plan energy`."),
        click.option("--normal", default=lib.GPURT_NORMAL_DEFAULT, show_default=True,
                     type=click.IntRange(1, lib.GPURT_NORMAL_MAX), metavar="N",
                     help="Policy boosted: threads execute at CPU priorities 1 to N, raised ones at N+1 to 2N."),
        click.option("--lock-bound", default=format_time(lib.GPURT_LOCK_BOUND_NS), type=Time(), show_default=True,
                     help="Policies lock-*: how long best effort may hold the GPU; 0s: for ever."),
        click.option("--stuck-bound", default=format_time(lib.GPURT_STUCK_DEFAULT_NS), type=Time(), show_default=True,
                     help="When to report that the GPU idles, its owner sleeps and others wait; 0s: never."),
        click.option("--priority", default=PRIORITY, show_default=True, type=click.IntRange(1, 99),
                     help="SCHED_FIFO priority of the host."),
        click.option("--user-limit", "user_limits", multiple=True, type=UserLimit(), metavar="KIND=N",
                     help="A limit of all processes of a user, except root and the host's own user: "
                     f"connections={UserLimits.connections}, calls={UserLimits.calls} that wait for answers, or "
                     f"memory={UserLimits.memory >> 20} MiB for TSGs, queued work and unread answers, unless given; "
                     "may be repeated."),
        click.option("--ready-fd", type=Descriptor(), metavar="NUMBER",
                     help="Descriptor to write a line to once the host serves."),
    )):  # fmt: skip
        command = option(command)
    return command


@command(
    extra="a taskset file is --taskset FILE",
    instead="give --socket PATH to say where it serves",
    epilog="""\b
Examples:
  gpurt emulate
  gpurt emulate --gpus 2 --alpha 0.8ms --theta 200us --policy segment
  gpurt emulate --partitions 12,56 --cross-contention 1.5     two partitions of one GPU
  gpurt emulate --taskset examples/every-key.toml        its partitions
  gpurt emulate --policy sbeet-mg --energy-file examples/energy/toy.toml
  sudo gpurt emulate --socket-group video   members of that group may use it

\b
Members of the group, or everybody with --mode 666, may do what they may do with the module's /dev/gpurt: use the GPUs
at their own real-time priority, up to RLIMIT_RTPRIO, and read the status.  To change settings needs root or your user.

\b
Exit codes: 0 ended by a signal; 2 wrong usage; 3 a file is wrong, or stdout or --ready-fd is not writable; 4 the socket
cannot be used.""",
)
@serving
@click.option("--taskset", "taskset_path", metavar="FILE", type=GivenPath(path_type=Path),
              help="A taskset file, whose platform the GPU is; each partition is a GPU to clients.")  # fmt: skip
@click.option("--alpha", default="0ns", type=Time(), show_default=True, help="Runlist update cost.")
@click.option("--theta", default="0ns", type=Time(), show_default=True, help="GPU context switch cost.")
@click.option("--slice", "slice_", metavar="TIME", default="1024us", type=Time(), show_default=True,
              help="Time slice L.")  # fmt: skip
@click.option("--no-copy-engine", is_flag=True, help="Copies use the execution engine.")
@click.option("--partitions", "units", default=None, type=UnitsType(), metavar="N,M,...",
              help="Compute units of the partitions of a GPU, each a GPU of its own to clients.")
@click.option("--cross-contention", "cross", default="1", type=Factor(), show_default=True, metavar="FACTOR",
              help="Slow-down of memory intensive work while another partition executes such.")
def emulate_command(
    path: Path | None, mode: int, group: int | None, gpus: int | None, policy: str | None, energy_path: Path | None,
    normal: int, lock_bound: int, stuck_bound: int, priority: int, user_limits: tuple[tuple[int, ...], ...],
    ready_fd: int | None, taskset_path: Path | None, alpha: int, theta: int, slice_: int, no_copy_engine: bool,
    units: tuple[int, ...] | None, cross: int,
) -> int:  # fmt: skip
    """Serve virtual GPUs with the kernel module's interface on a Unix socket."""
    if slice_ <= 0:
        raise UsageError("--slice must be longer than 0")
    shape = Shape(alpha, theta, slice_, not no_copy_engine)
    band = band_of(normal, priority)
    space = None
    if taskset_path:
        if policy in UNIT_POLICIES:
            raise UsageError(f"--taskset: policy {policy} takes --energy-file instead")
        if energy_path:
            raise UsageError("--taskset excludes --energy-file")
        layout, words = divided_by(taskset_path, policy, band, gpus)
    else:
        wanted = gpus or (len(units) if units else None)
        chosen, words = first_policy(policy, band)
        count, number, space = shared(chosen, energy_path, wanted, Mechanism.VIRTUAL)
        layout = alike(shape, number, count, units or (), cross)

    def make(tell: Tell) -> list[Gpu]:
        gpus = zip(layout.shapes, layout.policies, layout.wholes(), strict=True)
        made = [
            VirtualGpu(index, shape, policy, tell, time.monotonic_ns, band, whole)
            for index, (shape, policy, whole) in enumerate(gpus)
        ]
        return _bounded(made, lock_bound, stuck_bound)

    what = f"{len(layout.shapes)} virtual GPU(s), {words},"
    access = Access(mode, group)
    limits, quiet = UserLimits(**{LIMITS[field]: value for field, value in user_limits}), render.quiet()
    run_host(Config(path or default_socket(), access, what, make, priority, ready_fd, quiet, band.able, space, limits))
    return 0


@command(
    instead="give --socket PATH to say where it serves",
    epilog="""\b
Examples:
  gpurt serve
  gpurt serve --gpus 2 --answer-bound 20ms --when-late wait
  gpurt serve --policy sbeet --energy-file system.toml --mechanism green-contexts
  sudo gpurt serve --socket-group video

\b
Exit codes: 0 ended by a signal; 2 wrong usage; 3 a file is wrong, or stdout or --ready-fd is not writable; 4 the socket
cannot be used.""",
)
@serving
@click.option("--mechanism", default="none", show_default=True, type=click.Choice(MECHANISMS),
              help="Policies that share units: how programs keep their kernels to them.  none: a job gets them all.")
@click.option("--answer-bound", default=format_time(lib.GPURT_AGENT_BOUND_NS), type=Time(), show_default=True,
              help="How long an agent may take to carry out an order.")
@click.option("--agent-limit", default=lib.GPURT_AGENT_LIMIT, type=click.IntRange(0, 2**32 - 1), show_default=True,
              help="How many agents a user may have on each GPU; not for root and the host's own user.")
@click.option("--when-late", default="go-on", show_default=True, type=click.Choice(["go-on", "wait"]),
              help="What to do when an agent is late: go on and lose isolation, or wait for it.")  # fmt: skip
@click.option("--begin", default=ISOLATED, show_default=True, type=click.Choice(Begin.words()),
              help="How urgent work begins on NVIDIA's GPUs: others are off before, or go off while it executes.")
def serve_command(
    path: Path | None, mode: int, group: int | None, gpus: int | None, policy: str | None, energy_path: Path | None,
    normal: int, lock_bound: int, stuck_bound: int, priority: int, user_limits: tuple[tuple[int, ...], ...],
    ready_fd: int | None, mechanism: str, answer_bound: int, agent_limit: int, when_late: str, begin: str,
) -> int:  # fmt: skip
    """Schedule real GPUs on unmodified drivers, through the agents of programs run by `gpurt run --auto`.

    Each process takes its own time-slice groups off the GPU and puts them back when this host orders it to.  The page
    docs/unpatched.md lists the drivers that this works on, and its limits.
    """
    if not lib.GPURT_AGENT_BOUND_MIN_NS <= answer_bound <= lib.GPURT_AGENT_BOUND_MAX_NS:
        raise UsageError("--answer-bound must be 1 ms to 60 s")
    if begin == YIELD and when_late == "wait":
        raise UsageError("--begin yield: with --when-late wait each begin asks")
    obedience = Obedience(answer_bound, when_late == "go-on", agent_limit, begin == YIELD)
    band = band_of(normal, priority)
    chosen, words = first_policy(policy, band)
    count, number, space = shared(chosen, energy_path, gpus, Mechanism(mechanism))

    def make(tell: Tell) -> list[Gpu]:
        made = [AgentGpu(index, obedience, number, tell, time.monotonic_ns, band) for index in range(count)]
        return _bounded(made, lock_bound, stuck_bound)

    if not drivers.unpatched():
        text = "no unpatched GPU driver is found here: without one no program comes; 'gpurt emulate' has virtual GPUs"
        render.note(text, as_json=False)
    what = f"agents of programs on GPU {count - 1}," if count == 1 else f"agents of programs on GPUs 0 to {count - 1},"
    what += f" {words},"
    access = Access(mode, group)
    limits, quiet = UserLimits(**{LIMITS[field]: value for field, value in user_limits}), render.quiet()
    run_host(Config(path or default_socket(), access, what, make, priority, ready_fd, quiet, band.able, space, limits))
    return 0
