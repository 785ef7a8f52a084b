# SPDX-License-Identifier: GPL-2.0
"""The judge of threads that serve several tasks: what the file says, and what processes tell of their jobs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from analysis.simulation.simulate import Options, simulate
from analysis.taskset import TasksetFile, load
from analysis.traces.trace import About, Event, Kind, Trace
from pycontrol.observe.judge.check import judged
from pycontrol.observe.judge.finding import What
from pycontrol.observe.judge.judge import Judge

ROOT = Path(__file__).resolve().parents[2]
MS = 1_000_000
EXAMPLE = ROOT / "examples/every-key-of-threads.toml"


WORK = '{ cpu = "3ms" }, { misc = "3ms", gpu = "40ms" }'


def apart(path: Path, watchdog: int = 10, detect: str = WORK) -> TasksetFile:
    """The example as two tasks without a thread."""
    rows = [("detect", 10, "100ms", detect), ("watchdog", watchdog, "20ms", '{ cpu = "3ms" }')]
    path.write_text('[platform]\ncpus = 1\nepsilon = "1ms"\n' + "".join(
        f'[[task]]\nname = "{name}"\ncpu = 0\npriority = {priority}\nperiod = "100ms"\ndeadline = "{deadline}"\n'
        f"segments = [{segments}]\n" for name, priority, deadline, segments in rows
    ))  # fmt: skip
    return load(path)


def job(name: str, number: int, release: float, start: float, end: float, pid: int = 7) -> list[Event]:
    """The events of a job, as a host tells of them; times in ms."""
    at, begun, over = (round(time * MS) for time in (release, start, end))
    return [
        Event(at, Kind.RELEASE, name, number), Event(begun, Kind.START, name, number, begun - at, detail=f"node-{pid}"),
        Event(over, Kind.COMPLETE, name, number, over - at, detail=f"node-{pid}"),
    ]  # fmt: skip


def told(file: TasksetFile, events: list[Event]) -> Iterator[str]:
    judge = Judge(file, {})
    for event in sorted(events, key=lambda one: one.time):
        yield from (one.line() for one in judge.feed(event) if one.what is What.THREAD)


WAITS = [*job("detect", 0, 0, 0, 46), *job("watchdog", 0, 10, 46, 49)]


def test_one_thread_serves_two_tasks_and_the_file_does_not_say_so(tmp_path: Path) -> None:
    again = [*job("detect", 1, 100, 100, 146), *job("watchdog", 1, 110, 146, 149)]
    (line,) = told(apart(tmp_path / "a.toml"), [*WAITS, *again])
    assert line == (
        "watchdog #0: waited for a job of detect, of the same process: one thread serves both, and the file has no "
        "[[thread]] that does (docs/manual/callbacks.md)"
    )


def test_what_was_under_way_before_events_were_lost_is_not_known(tmp_path: Path) -> None:
    """A job that is open by then may have ended: it is no sign of two threads, and nobody has waited for it."""
    lost = Event(60 * MS, Kind.LOST, detail="7 events lost")
    shifted = [*job("detect", 1, 200, 200, 246), *job("watchdog", 1, 210, 246, 249)]
    begun = job("detect", 0, 0, 0, 46)[:2]
    assert len([*told(apart(tmp_path / "a.toml"), [*begun, lost, *job("watchdog", 0, 70, 70, 73), *shifted])]) == 1
    ended = [*job("detect", 0, 50, 50, 55), lost, *job("watchdog", 0, 52, 100, 103)]
    assert [*told(apart(tmp_path / "a.toml"), ended)] == []


def test_a_thread_that_the_file_has_is_no_finding() -> None:
    assert not [*told(load(EXAMPLE), WAITS)]


@pytest.mark.parametrize(
    "events",
    [
        [*job("detect", 0, 0, 0, 46), *job("watchdog", 0, 10, 46, 49, pid=8)],  # two processes
        [*job("watchdog", 0, 0, 0, 3), *job("detect", 0, 50, 50, 96)],  # nobody waited
        [*job("detect", 0, 0, 0, 46), *job("watchdog", 0, 10, 12, 15), *job("detect", 1, 100, 100, 146),
         *job("watchdog", 1, 110, 146, 149)],  # they were under way at once before
    ],
)  # fmt: skip
def test_two_threads_are_no_finding(events: list[Event], tmp_path: Path) -> None:
    assert not [*told(apart(tmp_path / "a.toml"), events)]


def test_a_more_urgent_task_that_never_sleeps_delays_another_thread(tmp_path: Path) -> None:
    file = apart(tmp_path / "a.toml", watchdog=5, detect='{ cpu = "46ms" }')
    assert not [*told(file, WAITS)]
    assert [*told(apart(tmp_path / "b.toml", watchdog=15, detect='{ cpu = "46ms" }'), WAITS)]


def test_a_more_urgent_task_that_waits_for_its_workers_lets_another_thread_go_first(tmp_path: Path) -> None:
    file = tmp_path / "c.toml"
    apart(file, watchdog=5)
    text = file.read_text().replace(WORK, '{ cpu = "3ms" }, { workers = ["w"] }').replace("cpus = 1", "cpus = 2")
    text = text.replace('name = "detect"', 'name = "detect"\ngroup = "detect"')
    file.write_text(f'{text}[[task]]\nname = "w"\ncpu = 1\npriority = 10\nsegments = [{{ cpu = "40ms" }}]\n')
    assert [*told(load(file), WAITS)]


def server(path: Path, process: str) -> TasksetFile:
    """Two tasks that use the GPU, each with a thread of its own."""
    path.write_text('[platform]\ncpus = 2\nepsilon = "1ms"\npolicy = "segment"\n' + "".join(
        f'[[task]]\nname = "{name}"\ncpu = {cpu}\npriority = {10 - cpu}\nperiod = "100ms"\n{process}'
        'segments = [{ misc = "3ms", gpu = "4ms" }]\n' for cpu, name in enumerate(("detect", "llm"))
    ))  # fmt: skip
    return load(path)


#: A client whose segments nest: the first belongs to one task and the rest to nobody that events tell of.
NESTED = sorted([
    *job("llm", 0, 0, 0, 40), Event(1 * MS, Kind.BEGIN, "llm", gpu=0), *job("detect", 0, 10, 10, 45),
    Event(42 * MS, Kind.END, "detect", gpu=0), *job("detect", 1, 110, 110, 115),
], key=lambda one: one.time)  # fmt: skip


def test_two_threads_of_a_process_use_the_gpu_and_the_file_does_not_say_so(tmp_path: Path) -> None:
    judge = Judge(server(tmp_path / "a.toml", ""), {})
    (one,) = [found for event in NESTED for found in judge.feed(event)]
    assert (one.what, one.task) == (What.THREAD, "detect")
    assert one.text == (
        "node-7 has jobs of it and of llm, and the file has neither a process nor a [[thread]] for both: one waits for "
        "the other's GPU work (docs/manual/callbacks.md)"
    )


def test_threads_of_a_process_that_the_file_has_are_no_finding(tmp_path: Path) -> None:
    judge = Judge(server(tmp_path / "a.toml", 'process = "server"\n'), {})
    assert not [found for event in NESTED for found in judge.feed(event)]


def test_a_process_whose_first_segment_begins_before_it_tells_of_a_job(tmp_path: Path) -> None:
    """The recording began in the middle of a job: its client is a task of the file all the same."""
    file = server(tmp_path / "a.toml", 'process = "server"\n')
    names = ("node-7", "node-8")
    early = [Event(0, Kind.BEGIN, name, gpu=0) for name in names]
    meta, priorities = {"clock": "virtual", "policy": "segment"}, {name: About(9) for name in names}
    trace = Trace(meta, (*early, *NESTED), priorities, 200 * MS)
    assert [one.text for one in judged(trace, file).findings] == [
        "node-8 uses the GPU at GPU priority 9, and no task of the file is it"
    ]


def test_two_jobs_of_a_thread_under_way_at_once() -> None:
    (line,) = told(load(EXAMPLE), [*job("detect", 0, 0, 0, 46), *job("watchdog", 0, 10, 12, 15)])
    assert line.startswith("watchdog #0: began while a job of detect was under way, and thread executor serves both")


def test_simulations_of_threads_are_judged_without_a_finding() -> None:
    file = load(EXAMPLE)
    trace = simulate(file.taskset, Options("boosted", horizon=1000 * MS), [0, 1], events=10_000).trace
    assert trace is not None
    judge = Judge(file, {"detect": 51 * MS, "watchdog": 51 * MS})
    found = [one for event in trace.events for one in judge.feed(event)]
    assert {one.what for one in found} == {What.DEADLINE}
