# SPDX-License-Identifier: GPL-2.0
"""The attack on what `gpurt analyze` says of files: random ones with every key, alone and together.

Other attacks draw tasksets that one test is about.  Here a file comes first, and each sound test that covers it answers
for it, as for a user.  Every schedule is looked at where they are few.  Else some are simulated.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from attack_outcome import limits_of, named
from drawn import Drawn
from related import Related

from analysis.answers import compiled
from analysis.answers.pool import processes
from analysis.answers.verdict import covering, lacks_theta
from analysis.attack.exact import exact_ways as systems
from analysis.attack.exact import explore
from analysis.chains.bounds import bound_of
from analysis.chains.observed import MEASURE_KEYS, observed
from analysis.model import Taskset
from analysis.rta import Result, Test
from analysis.simulation.simulate import Options, SimulationError, simulate, worst_over_offsets
from analysis.taskset.file import parse
from gpurt.errors import TasksetError

#: Files that one process takes at a time.  The files of a seed do not depend on it.
FILES_A_BATCH = 200
#: States of a file; one that has more is simulated.
MAX_STATES_OF_A_FILE = 6_000
#: Random first releases of a simulated file, and of one whose chains are measured.
RUNS, RUNS_OF_CHAINS = 8, 4
#: Events of a run in which chains are measured.
EVENTS = 4_000
#: The counts of each kind of files.
FILE_COUNTS = ("tasksets", "bounded", "yes", "explored", "states", "simulated", "jobs", "broken")
#: A task without a bound: the search leaves a schedule whose response is above this many periods.
MAX_PERIODS_FOLLOWED = 4


@dataclass(frozen=True)
class Found:
    """Counts of files, by what they have and by what was done; ``broken``: what is exceeded, and the file."""

    counts: Counter[tuple[str, str]] = field(default_factory=Counter)
    broken: tuple[tuple[str, str], ...] = ()

    def joined(self, other: Found) -> Found:
        """Both as one."""
        return Found(self.counts + other.counts, self.broken + other.broken)

    @property
    def kinds(self) -> list[str]:
        """The kinds of files, the most frequent first."""
        return sorted({kind for kind, _ in self.counts}, key=lambda kind: -self.counts[kind, "tasksets"])


def files_table(found: Found) -> str:
    """The counts as a Markdown table."""
    lines = [f"| with | {' | '.join(FILE_COUNTS)} |", "|---|" + "--:|" * len(FILE_COUNTS)]
    for kind in found.kinds:
        lines.append(f"| {kind} | {' | '.join(f'{found.counts[kind, what]:,}' for what in FILE_COUNTS)} |")
    return "\n".join(lines)


def attack_files(files: int, seed: int, jobs: int, progress: Callable[[int], None] | None = None) -> Found:
    """Attacks the bounds of so many files in so many processes; ``progress`` is called with the number done.

    The same seed has the same files, whatever the number of processes.
    """
    parts = [range(start, min(start + FILES_A_BATCH, files)) for start in range(0, files, FILES_A_BATCH)]
    found, done = Found(), 0
    with processes(jobs) as pool:
        each = pool.map(partial(_batch, seed), parts) if jobs > 1 else map(partial(_batch, seed), parts)
        for part, more in zip(parts, each, strict=True):
            found, done = found.joined(more), done + len(part)
            if progress:
                progress(done)
    return found


def _batch(seed: int, numbers: range) -> Found:
    found = Found()
    for number in numbers:
        found = found.joined(_look(random.Random(f"files {seed} {number}")))
    return found


def _look(rng: random.Random) -> Found:
    """One file, drawn again until it has no mistake and bounds can be about it: its bounds against its schedules."""
    while True:
        drawn = Related(rng) if rng.random() < 0.8 else Drawn(rng)
        text = drawn.text()
        try:
            file = parse(Path("set.toml"), text)
        except TasksetError:
            continue
        if file.taskset.real_time and not file.lacks:
            break
    kinds, done, broken = ["all", *_kinds(file.taskset)], {"tasksets": 1}, ""
    results = [(test, compiled.run_compiled(test, file.taskset)) for test in _tests(file.taskset)]
    if any(_bounds(result, file.taskset) for _, result in results):
        more, broken = _against(file.taskset, results, rng)
        done |= {"bounded": 1, "yes": any(result.schedulable for _, result in results), "broken": bool(broken), **more}
    counts = Counter({(kind, what): count for kind in kinds for what, count in done.items() if count})
    return Found(counts, ((broken, text),) if broken else ())


def _tests(taskset: Taskset) -> list[Test]:
    """The tests that answer for the file."""
    return [test for test in covering(taskset) if not lacks_theta(test, taskset)]


def _kinds(taskset: Taskset) -> Iterator[str]:
    """The rows of the table that the file counts in."""
    has = {
        "chains, sampled": any(len(one.triggered) < len(one.tasks) - 1 for one in taskset.chains),
        "chains, triggered": bool(taskset.triggers), "threads": bool(taskset.threads),
        "workers": any(not fork.hold for fork in taskset.forks), "holds": bool(taskset.held),
        "resources": bool(taskset.resources), "processes": bool(taskset.processes),
        "jitter": any(t.jitter for t in taskset.real_time),
        "D > T": any(t.deadline > t.period for t in taskset.real_time),
        "cpu_latency": bool(taskset.platform.cpu_latency),
        "partitions": len(taskset.parts) > 1 or taskset.time_partitioned,
    }  # fmt: skip
    found = [kind for kind, there in has.items() if there]
    yield from found
    yield "none of these" if not found else "several of these" if len(found) > 1 else "one of these"


def _bounds(result: Result, taskset: Taskset) -> dict[str, int]:
    return {t.name: wcrt for t in taskset.real_time if (wcrt := result.wcrt(t.name)) is not None}


def _against(taskset: Taskset, results: list[tuple[Test, Result]], rng: random.Random) -> tuple[dict[str, int], str]:
    """Counts of what was looked at, and a sentence on each bound that is exceeded; empty: none is."""
    done, broken = _explored(taskset, results)
    if not done:
        done, broken = _simulated(taskset, results, rng)
    return done, broken or _chains_exceeded(taskset, results, rng)


def _explored(taskset: Taskset, results: list[tuple[Test, Result]]) -> tuple[dict[str, int], str]:
    """Every schedule; nothing is done where they have too many states, or cannot be explored."""
    states = 0
    for test, result in results:
        bounds, chains = _bounds(result, taskset), limits_of(taskset, result)
        limits = {t.name: bounds.get(t.name, MAX_PERIODS_FOLLOWED * max(t.period, t.deadline)) for t in taskset}
        for options in systems(test, taskset) if bounds else ():
            try:
                found = explore(taskset, options, limits, MAX_STATES_OF_A_FILE, chains, periodic=test.periodic)
            except SimulationError:
                return {}, ""
            states += found.states
            seen = {**found.worst, **named(found.chains)}
            if why := _exceeded(test.name, bounds | named(chains), seen, options):
                return {"explored": 1, "states": states}, why
    return {"explored": 1, "states": states}, ""


def _simulated(
    taskset: Taskset, results: list[tuple[Test, Result]], rng: random.Random
) -> tuple[dict[str, int], str]:  # fmt: skip
    """Worst cases, and random ones with late releases."""
    jobs = 0
    for options in demand_runs(taskset, rng):
        try:
            seen = worst_over_offsets(taskset, options, RUNS).tasks
        except SimulationError:
            return {}, ""
        jobs += sum(one.jobs for one in seen.values())
        worst = {name: one.worst for name, one in seen.items()}
        rounded = sum(len(task.segments) for task in taskset) * options.contention
        for test, result in results:
            bounds = {name: bound + rounded for name, bound in _bounds(result, taskset).items()}
            if why := _exceeded(test.name, bounds, worst, options):
                return {"simulated": 1, "jobs": jobs}, why
    return ({"simulated": 1, "jobs": jobs} if jobs else {}), ""


def demand_runs(taskset: Taskset, rng: random.Random) -> Iterator[Options]:
    """Worst and random demands; GPU work as the file has it, and slowed down as it happens."""
    if any((part.policy or taskset.platform.policy) != taskset.policies[0] for part in taskset.parts):
        return  # the simulator has one policy everywhere
    horizon, cpu = 6 * max(task.period for task in taskset), taskset.platform.thread_cpu or 0
    happens = not taskset.time_partitioned and any(task.intensity for task in taskset)
    for execution in ("worst", "random"):
        for contention in (False, True)[: 1 + happens]:
            yield Options(taskset.policies[0], None, execution, execution == "random", horizon, job_cpu=cpu,
                          seed=rng.getrandbits(60), contention=contention)  # fmt: skip


def _chains_exceeded(taskset: Taskset, results: list[tuple[Test, Result]], rng: random.Random) -> str:
    """Runs with periodic releases, in which reactions and ages of chains are measured."""
    bounds = [
        (test.name, chain, bounded.latencies) for test, result in results for chain in taskset.chains
        if (bounded := bound_of(chain, taskset, result)).latencies
    ]  # fmt: skip
    for options in demand_runs(taskset, rng) if bounds else ():
        for _ in range(RUNS_OF_CHAINS if not options.contention else 0):
            offsets = [rng.randrange(task.period) for task in taskset]
            one = replace(options, sporadic=False, seed=rng.getrandbits(60))
            try:
                trace = simulate(taskset, one, offsets, EVENTS).trace
            except SimulationError:
                return ""
            assert trace is not None
            for name, chain, latencies in bounds:
                seen = observed(chain, trace, taskset)
                known = {key: latencies[key].bound for key in MEASURE_KEYS if key in latencies}
                worst = {key: value for key in MEASURE_KEYS if (value := getattr(seen, key)) is not None}
                if why := _exceeded(f"{name}, chain {chain.name}", known, worst, (one, offsets)):
                    return why
    return ""


def _exceeded(name: str, bounds: Mapping[str, int], worst: Mapping[str, int], how: object) -> str:
    above = [f"{one} takes {worst[one]}, bound {bound}" for one, bound in bounds.items() if worst.get(one, 0) > bound]
    return f"{name}: {'; '.join(above)} ({how})" if above else ""
