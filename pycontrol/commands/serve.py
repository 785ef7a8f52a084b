# SPDX-License-Identifier: GPL-2.0
"""The commands that run a host: `gpurt emulate` for virtual GPUs, `gpurt serve` for real GPUs with agents."""

from __future__ import annotations

import grp
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import click

from analysis.model import DEFAULT_POLICY, POLICIES
from analysis.model.platform import ISOLATED, TURNS
from analysis.taskset.file import load
from gpurt._gpurt import lib
from gpurt.enums import Begin, Policy
from gpurt.errors import UsageError
from gpurt.units import format_time, thousandths
from pycontrol.commands.options import TIME, GivenPath, Parsed, command, keyed_option
from pycontrol.host.agents import AgentGpu, Obedience
from pycontrol.host.endpoint import Access, default_socket
from pycontrol.host.gpu import Gpu, Tell
from pycontrol.host.serve import PRIORITY, Config, run_host
from pycontrol.host.threads import Band, may_raise
from pycontrol.host.units import UNIT_POLICIES, Mechanism, Space, setup_of
from pycontrol.host.users import UserLimits
from pycontrol.host.virtual import Shape, VirtualGpu
from pycontrol.host.whole import LEAST_NS, Layout, alike, of_taskset
from pycontrol.machine import drivers
from pycontrol.machine.placement import fifo_permitted
from pycontrol.output import render

#: The policy that a host starts with if the default policy of files needs rights that the host lacks.
WITHOUT_RIGHTS = "segment"
#: The mechanisms by which programs on real GPUs may keep to their units.
MECHANISMS = [one.value for one in Mechanism if one is not Mechanism.VIRTUAL]


#: A value of --begin: isolated, and the host waits for late agents.
STRICT = "strict"
#: The time slice of a virtual GPU, ns.
SLICE_NS = 1024 * 1000


def _units(text: str) -> tuple[int, ...]:
    """The compute units of partitions."""
    if not re.fullmatch(r"[1-9][0-9]{0,6}(,[1-9][0-9]{0,6})*", text):
        raise ValueError(f"{text!r} is not a list of numbers of units, as 12,56")
    units = tuple(map(int, text.split(",")))
    if len(units) > lib.GPURT_MAX_GPUS:
        raise ValueError(f"{len(units)} partitions are too many; at most {lib.GPURT_MAX_GPUS}")
    return units


def _factor(text: str) -> int:
    """A slow-down, in thousandths."""
    if not re.fullmatch(r"[0-9]{1,3}(\.[0-9]{1,9})?", text):
        raise ValueError(f"{text!r} is not a factor, as 1.5")
    return thousandths(Fraction(text))


#: Words for who may use the GPUs besides the host's user and root: permission bits of the socket.
ALLOWED = {"everybody": 0o666, "nobody": 0o600}


def _allowed(text: str) -> Access:
    """Who may use the GPUs: a group of users, by name or number, or a word in `ALLOWED`."""
    if text in ALLOWED:
        return Access(ALLOWED[text])
    try:
        found = grp.getgrgid(int(text)) if text.isdecimal() else grp.getgrnam(text)
    except (KeyError, OverflowError):
        raise ValueError(f"there is no group {text!r}") from None
    return Access(group=found.gr_gid)


def band_of(normal: int, priority: int) -> Band:
    """The band of raised threads.  A host raises threads only if it executes above them: it must lower them again."""
    made = Band(normal)
    return replace(made, able=may_raise() and priority > made.cpu(lib.GPURT_RAISED_TOP))


def first_policy(named: str | None, band: Band, of_file: str = "") -> tuple[str, str]:
    """The policy that a host starts with, and a remark if files are for another policy.

    Policy `boosted` needs a host that raises threads, or threads that may raise themselves (form `self`).

    ``named``: the user's choice.  ``of_file``: the policy of the file of --taskset.
    """
    wanted = of_file or DEFAULT_POLICY
    highest = 2 * band.normal
    if named or wanted != DEFAULT_POLICY or band.able or fifo_permitted(highest):
        return named or wanted, f"policy {named or wanted}"
    return WITHOUT_RIGHTS, (
        f"policy {WITHOUT_RIGHTS} (not {DEFAULT_POLICY}, which files are for that name none: neither this host nor its "
        f"user may use SCHED_FIFO up to priority {highest}, see gpurt doctor)"
    )


def _bounded(gpus: Sequence[Gpu], bounds: Mapping[str, int]) -> list[Gpu]:
    """Sets the GPUs' bounds, ns: until a best-effort task loses a lock, or a stuck owner is reported; 0: never."""
    for gpu in gpus:
        gpu.sched.lock_bound = bounds.get("lock", lib.GPURT_LOCK_BOUND_NS)
        gpu.stuck.limit = bounds.get("stuck", lib.GPURT_STUCK_DEFAULT_NS)
    return list(gpus)


def _limits(given: Mapping[str, int]) -> UserLimits:
    return UserLimits(**{key: value << 20 if key == "memory" else value for key, value in given.items()})


def shared(policy: str, path: Path | None, gpus: int | None, mechanism: Mechanism) -> tuple[int, int, Space | None]:
    """The number of GPUs, the policy of their runlists, and how units are shared (None: not shared).

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
    """The virtual GPUs for a taskset's tasks, one for each partition of its file; and their policies in words.

    ``policy``: for partitions without a policy in the file; None: the file's default.

    Raises TasksetError, FileError; UsageError if an option repeats a setting of the file.
    """
    taskset = load(path).taskset
    if taskset.platform.begin != ISOLATED:
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
    """Adds the common options of both commands."""
    for option in reversed((
        click.option("--socket", "path", type=GivenPath(path_type=Path),
                     help="Socket to serve on, in a folder that exists; /run/gpurt/host.sock if writable."),
        click.option("--allow", "access", type=Parsed("group", _allowed), default=Access(), metavar="GROUP",
                     help="Who may use the GPUs beside you and root: members of that group, everybody, or nobody; "
                     "your group unless given."),
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
        click.option("--priority", default=PRIORITY, show_default=True, type=click.IntRange(1, 99),
                     help="SCHED_FIFO priority of the host."),
    )):  # fmt: skip
        command = option(command)
    return command


#: Keyed values of both commands, with their help.
BOUNDS = {"lock": TIME, "stuck": TIME}
BOUNDS_HELP = (
    f"lock={format_time(lib.GPURT_LOCK_BOUND_NS)}: how long best effort may hold the GPU under policies lock-*, 0s: "
    f"for ever.  stuck={format_time(lib.GPURT_STUCK_DEFAULT_NS)}: when to report that the GPU idles, its owner sleeps "
    "and others wait, 0s: never."
)
LIMITS = {field.name: click.IntRange(1, 10**9 - 1) for field in fields(UserLimits)}
LIMITS_HELP = (
    "Limits of all processes of a user, except root and the host's own user: "
    f"connections={UserLimits.connections}; calls={UserLimits.calls} that wait for answers; "
    f"memory={UserLimits.memory >> 20}, in MiB, for TSGs, queued work and unread answers"
)


@command(
    extra="a taskset file is --taskset FILE",
    instead="give --socket PATH to say where it serves",
    epilog="""\b
Examples:
  gpurt emulate
  gpurt emulate --gpus 2 --platform alpha=0.8ms,theta=200us --policy segment
  gpurt emulate --platform partitions=12,56,cross_contention=1.5     two partitions of one GPU
  gpurt emulate --taskset examples/every-key.toml        its partitions
  gpurt emulate --policy sbeet-mg --energy-file examples/energy/toy.toml
  sudo gpurt emulate --allow video   members of that group may use it

\b
Allowed users may do what the module's /dev/gpurt allows its group: use the GPUs at their own real-time priority, up to
RLIMIT_RTPRIO, and read the status.  To change settings needs root or your user.

\b
Exit codes: 0 ended by a signal; 2 wrong usage; 3 a file is wrong, or stdout is not writable; 4 the socket cannot be
used.""",
)
@serving
@click.option("--taskset", "taskset_path", metavar="FILE", type=GivenPath(path_type=Path),
              help="A taskset file, whose platform the GPU is; each partition is a GPU to clients.")  # fmt: skip
@keyed_option(
    "--platform", "platform",
    "Of the virtual GPU, keys as in a taskset file: alpha=0ns, cost of a runlist update; theta=0ns, of a switch; "
    "time_slice=1024us; copy_engine=true, or false: copies use the execution engine; cross_contention=1, slow-down of "
    "memory intensive work while another partition executes such; and partitions=N,M,...: compute units of partitions, "
    "each a GPU of its own to clients.",
    alpha=TIME, theta=TIME, time_slice=TIME, copy_engine=click.BOOL, cross_contention=Parsed("factor", _factor),
    partitions=Parsed("units", _units),
)
@keyed_option("--bound", "bounds", BOUNDS_HELP, **BOUNDS)
@keyed_option("--user-limit", "limits", f"{LIMITS_HELP}.", **LIMITS)
def emulate_command(
    path: Path | None, access: Access, gpus: int | None, policy: str | None, energy_path: Path | None,
    normal: int, priority: int, taskset_path: Path | None, platform: dict[str, Any],
    bounds: dict[str, int], limits: dict[str, int],
) -> int:  # fmt: skip
    """Serve virtual GPUs with the kernel module's interface on a Unix socket."""
    slice_ = platform.get("time_slice", SLICE_NS)
    if slice_ <= 0:
        raise UsageError("--platform time_slice must be longer than 0")
    shape = Shape(platform.get("alpha", 0), platform.get("theta", 0), slice_, platform.get("copy_engine", True))
    units = platform.get("partitions", ())
    band = band_of(normal, priority)
    space = None
    if taskset_path:
        if policy in UNIT_POLICIES:
            raise UsageError(f"--taskset: policy {policy} takes --energy-file instead")
        if energy_path:
            raise UsageError("--taskset excludes --energy-file")
        if platform:
            raise UsageError(f"--platform {next(iter(platform))}: the file of --taskset says it")
        layout, words = divided_by(taskset_path, policy, band, gpus)
    else:
        wanted = gpus or (len(units) if units else None)
        chosen, words = first_policy(policy, band)
        count, number, space = shared(chosen, energy_path, wanted, Mechanism.VIRTUAL)
        layout = alike(shape, number, count, units, platform.get("cross_contention", 1000))

    def make(tell: Tell) -> list[Gpu]:
        gpus = zip(layout.shapes, layout.policies, layout.wholes(), strict=True)
        made = [
            VirtualGpu(index, shape, policy, tell, time.monotonic_ns, band, whole)
            for index, (shape, policy, whole) in enumerate(gpus)
        ]
        return _bounded(made, bounds)

    what = f"{len(layout.shapes)} virtual GPU(s), {words},"
    run_host(Config(path or default_socket(), access, what, make, priority, render.quiet(), band.able,
                    space, _limits(limits)))  # fmt: skip
    return 0


@command(
    instead="give --socket PATH to say where it serves",
    epilog="""\b
Examples:
  gpurt serve
  gpurt serve --gpus 2 --bound answer=20ms --begin strict
  gpurt serve --policy sbeet --energy-file system.toml --mechanism green-contexts
  sudo gpurt serve --allow video

\b
Exit codes: 0 ended by a signal; 2 wrong usage; 3 a file is wrong, or stdout is not writable; 4 the socket cannot be
used.""",
)
@serving
@click.option("--mechanism", default="none", show_default=True, type=click.Choice(MECHANISMS),
              help="Policies that share units: how programs keep their kernels to them.  none: a job gets them all.")
@keyed_option(
    "--bound", "bounds",
    f"{BOUNDS_HELP}  answer={format_time(lib.GPURT_AGENT_BOUND_NS)}: how long an agent may take to carry out an order.",
    **BOUNDS, answer=TIME,
)
@keyed_option(
    "--user-limit", "limits", f"{LIMITS_HELP}; agents={lib.GPURT_AGENT_LIMIT} on each GPU.",
    **LIMITS, agents=click.IntRange(0, 2**32 - 1),
)
@click.option("--begin", default=ISOLATED, show_default=True, type=click.Choice([*Begin.words(), STRICT]),
              help="How urgent work begins on NVIDIA's GPUs.  isolated: others are off before, except for late "
              "agents; strict: these are waited for; yield: others go off while it executes; turns: yield, and while "
              "a real-time process is there best-effort ones take turns of 20 ms.")
def serve_command(
    path: Path | None, access: Access, gpus: int | None, policy: str | None, energy_path: Path | None,
    normal: int, priority: int, mechanism: str, bounds: dict[str, int], limits: dict[str, int],
    begin: str,
) -> int:  # fmt: skip
    """Schedule real GPUs on unmodified drivers, through the agents of programs run by `gpurt run --auto`.

    Each process takes its own time-slice groups off the GPU and puts them back when this host orders it to.  The page
    docs/unpatched.md lists the drivers that this works on, and its limits.
    """
    answer_bound = bounds.get("answer", lib.GPURT_AGENT_BOUND_NS)
    if not lib.GPURT_AGENT_BOUND_MIN_NS <= answer_bound <= lib.GPURT_AGENT_BOUND_MAX_NS:
        raise UsageError("--bound answer must be 1 ms to 60 s")
    agents = limits.pop("agents", lib.GPURT_AGENT_LIMIT)
    obedience = Obedience(answer_bound, begin != STRICT, agents, begin not in (ISOLATED, STRICT), begin == TURNS)
    band = band_of(normal, priority)
    chosen, words = first_policy(policy, band)
    count, number, space = shared(chosen, energy_path, gpus, Mechanism(mechanism))

    def make(tell: Tell) -> list[Gpu]:
        made = [AgentGpu(index, obedience, number, tell, time.monotonic_ns, band) for index in range(count)]
        return _bounded(made, bounds)

    if not drivers.unpatched():
        text = "no unpatched GPU driver is found here: without one no program comes; 'gpurt emulate' has virtual GPUs"
        render.note(text, as_json=False)
    what = f"agents of programs on GPU {count - 1}," if count == 1 else f"agents of programs on GPUs 0 to {count - 1},"
    what += f" {words},"
    run_host(Config(path or default_socket(), access, what, make, priority, render.quiet(), band.able,
                    space, _limits(limits)))  # fmt: skip
    return 0
