# SPDX-License-Identifier: GPL-2.0
"""`gpurt measure times` without a host: the order of runs, conditions, what is written, and what events mean."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpurt.enums import Cause, EventKind
from gpurt.errors import RefusedError, RuntimeFailure, UsageError
from pycontrol.commands.times import CONDITIONS
from pycontrol.link.control import EventRecord
from pycontrol.machine.clocks import Clock, MachineClocks
from pycontrol.measure import conditions
from pycontrol.measure.campaign import compare_runs
from pycontrol.measure.conditions import Condition, Here, choose
from pycontrol.measure.entry import Account, entry, run_remarks
from pycontrol.measure.plan import MOST_RUNS, Planned, plan_runs
from pycontrol.measure.processes import start
from pycontrol.measure.run import ProfileOptions, ProfileResult, read_run
from pycontrol.measure.segments import Costs, Jobs, MeasuredJob, Segment, jobs, segments
from pycontrol.measure.summary import enlarged, read_margin, reduced, summary_times

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

MS = 1_000_000
ALL = list(Condition)


@given(st.integers(1, 40), st.integers(0, 6), st.integers(1, 5), st.integers(0, 2**32))
def test_a_plan_has_every_input_and_condition_and_pairs_equally_often(
    runs: int, inputs: int, count: int, seed: int
) -> None:
    named, chosen = [f"input{at}" for at in range(inputs)], ALL[:count]
    if runs < max(inputs, count):
        with pytest.raises(UsageError, match=f"--runs {runs} is too few"):
            plan_runs(runs, named, chosen, seed)
        return
    made = plan_runs(runs, named, chosen, seed)
    assert [one.number for one in made] == list(range(1, runs + 1))
    assert {one.condition for one in made} == set(chosen)
    assert {one.given for one in made} == (set(named) or {None})
    pairs = Counter((one.condition, one.given) for one in made)
    every = (inputs or 1) * count
    assert max(pairs.values()) - (min(pairs.values()) if len(pairs) == every else 0) <= 1
    assert plan_runs(runs, named, chosen, seed) == made


def test_every_order_is_drawn() -> None:
    orders = Counter(tuple(one.condition for one in plan_runs(3, [], ALL[:3], seed)) for seed in range(600))
    assert len(orders) == 6
    assert min(orders.values()) > 60  # 100 are expected


def test_how_many_runs_there_are_if_nobody_says_it() -> None:
    assert len(plan_runs(None, [], ALL[:2], 1)) == 20
    assert len(plan_runs(None, ["a"] * 10, ALL[:5], 1)) == 50
    with pytest.raises(UsageError, match="is more than"):
        plan_runs(MOST_RUNS + 1, [], ALL[:1], 1)


def test_an_input_goes_where_its_place_is() -> None:
    words = ["./detect", "--file={}", "{}", "x"]
    assert Planned(1, Condition.QUIET, "a b;c").command(words) == ["./detect", "--file=a b;c", "a b;c", "x"]
    assert Planned(1, Condition.QUIET).command(words) == words


@given(st.integers(0, 10**15), st.fractions(0, 10))
def test_a_margin_is_never_rounded_away(time: int, margin: Fraction) -> None:
    worst, best = enlarged(time, margin), reduced(time, margin)
    assert 0 <= worst - time * (1 + margin) < 1000
    assert 0 <= time - best * (1 + margin) < 1000 * (1 + margin)
    assert (worst % 1000, best % 1000) == (0, 0)


WRONG = ["", "20", "-5%", "%", "nan%", "1e9%", "٢٠%", "1.2.3%", "1001%", "9" * 400 + "%", ".%"]


@pytest.mark.parametrize("text", WRONG)
def test_a_margin_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match=r"^--margin: "):
        read_margin(text)
    assert (read_margin("0%"), read_margin(" 12.5% "), read_margin("1000%")) == (0, Fraction(1, 8), 10)


def test_the_command_line_knows_every_condition() -> None:
    assert list(CONDITIONS) == [one.value for one in Condition]


def test_conditions_that_cannot_be_made_are_told_or_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    chosen, without = choose([], Here([], None))
    assert chosen == [Condition.QUIET, Condition.COLD, Condition.CPU]
    assert set(without) == {Condition.GPU, Condition.BESIDE}
    assert choose([], Here([], 7, ["x"]))[0] == ALL[:5]
    assert choose(["cpu"], Here([], 7))[1][Condition.QUIET] == "not asked for"
    with pytest.raises(RefusedError, match="--beside"):
        choose(["beside"], Here([], None))
    with pytest.raises(UsageError, match="--beside"):
        choose(["quiet"], Here([], None, ["x"]))
    own = os.sched_getaffinity(0)
    conditions.chill(Condition.COLD, ["true"])
    assert os.sched_getaffinity(0) == own


def test_cold_runs_forget_the_program_and_the_files_that_it_is_given(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("x")
    command = ["true", str(tmp_path / "data"), str(tmp_path), "/nonexistent", "a\0b"]
    assert [Path(one).name for one in conditions.files(command)] == ["true", "data"]


def test_a_program_begins_with_the_signals_of_a_shell_s() -> None:
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        process, used = start(["cat", "/proc/self/status"], os.environ, stdout=subprocess.PIPE)
    finally:
        signal.signal(signal.SIGINT, before)
    status = dict(line.split(":\t", 1) for line in process.communicate()[0].decode().splitlines() if ":\t" in line)
    pythons = (signal.SIGINT, signal.SIGPIPE, signal.SIGXFSZ)  # a shell that runs the tests beside it ignores more
    assert [one for one in pythons if int(status["SigIgn"], 16) >> (one - 1) & 1] == []
    assert int(status["SigBlk"], 16) == 0
    assert used > 0


def event(kind: EventKind, time: int, spent: int = 0, client: int = 1, **more: object) -> EventRecord:
    return replace(EventRecord(kind, time * MS, 0, client, 7, "x", 5, None, spent * MS, 0), **more)  # type: ignore[arg-type]


B, G, P, R, E, W, X = (
    EventKind.BEGIN, EventKind.GRANT, EventKind.PREEMPT, EventKind.RESUME, EventKind.END, EventKind.WORK,
    EventKind.GONE,
)  # fmt: skip
#: A host whose own work takes no time.
FREE = Costs(0, {})
JOB, DONE = EventKind.JOB_BEGIN, EventKind.JOB_END


def test_the_parts_of_a_segment_by_hand() -> None:
    # owned 2..6 and 9..14; work 3..5, 4..10 (of which 6..9 not owned): G^e = 3 + 1, G^m = 9 - 4
    events = [event(B, 1), event(G, 2), event(W, 5, 2), event(P, 6), event(R, 9), event(W, 10, 6), event(E, 14)]
    (one,) = segments(events, FREE)
    assert (one.begin, one.end, one.misc, one.pure, one.work) == (MS, 14 * MS, 5 * MS, 4 * MS, True)
    (blind,) = segments([event(B, 1), event(G, 2), event(P, 6), event(R, 9), event(E, 14)], Costs(None, {}))
    assert (blind.misc, blind.pure, blind.work, blind.least) == (None, 9 * MS, True, (0, 0))


def test_what_updates_and_switches_may_have_taken_is_in_no_best_time() -> None:
    # owned 2..20, of which work 5..12; updates 1..3 and 11..13 take 1 + 2 of it, and one of another GPU nothing
    events = [event(B, 1), event(G, 2), event(W, 12, 7), event(E, 20)]
    updates = [event(EventKind.COMMIT, at, 2, 0) for at in (1, 11, 30)]
    (one,) = segments(events, Costs.of([*updates, replace(updates[1], gpu=1, time_ns=15 * MS)], 2 * MS))
    assert (one.misc, one.pure) == (11 * MS, 7 * MS)
    assert one.least == (8 * MS, 2 * MS)


def test_segments_of_two_clients_do_not_mix_and_one_that_is_cut_off_does_not_count() -> None:
    events = (
        [event(B, 1), event(G, 1), event(B, 2, client=2), event(W, 3, 1), event(E, 4), event(G, 4, client=2),
         event(W, 6, 1, client=2), event(E, 7, client=2), event(B, 8), event(G, 8), event(X, 9)]
    )  # fmt: skip
    with pytest.raises(RuntimeFailure, match="had not ended"):
        segments(events, FREE)
    found = segments(events, FREE, cut=True)
    assert [(one.client[1], one.misc, one.pure) for one in found] == [(1, 2 * MS, MS), (2, 2 * MS, MS)]


def test_what_hangs_until_it_is_cut_off_is_not_left_out_in_silence() -> None:
    events = [event(B, 1), event(G, 1), event(W, 3, 1), event(E, 4), event(B, 5), event(G, 5)]
    assert len(segments([*events, event(X, 11)], FREE, cut=True)) == 1  # 6 ms, and the other took 3
    with pytest.raises(RuntimeFailure, match=r"a GPU segment had taken 7ms and had not ended, and none .* than 3ms"):
        segments([*events, event(X, 12)], FREE, cut=True)
    records = [event(JOB, 1, task="a", job=4), event(DONE, 4, task="a", job=4), event(JOB, 5, task="a", job=5)]
    assert len(jobs([*records, event(X, 11)], [segment(2)], None, None, True).jobs) == 1
    with pytest.raises(RuntimeFailure, match="a job of a had taken 7ms"):
        jobs([*records, event(X, 12)], [segment(2)], None, None, True)


def test_jobs_and_segments_of_which_events_are_missing_have_no_times() -> None:
    begun, done = event(JOB, 1, task="a", job=4), event(DONE, 9, task="a", job=4)
    for records, match in (
        ([begun], "job 4 of a did not end"), ([begun, replace(begun, job=5), done], "job 4 of a did not end"),
        ([done, replace(begun, time_ns=10 * MS)], "job 4 of a ended, and had not begun"),
        ([begun, replace(done, job=5)], "job 5 of a ended, and had"),
        ([begun, done, replace(begun, job=5, time_ns=10 * MS)], "job 5 of a did not end"),
    ):  # fmt: skip
        with pytest.raises(RuntimeFailure, match=match):
            jobs(records, [segment(2)], "a", None, False)
    with pytest.raises(RuntimeFailure, match="began before the one before it had ended"):
        segments([event(B, 1), event(G, 1), event(B, 2), event(G, 2), event(E, 3)], FREE)
    with pytest.raises(RuntimeFailure, match="the host's clock went back"):
        segments([event(B, 5), event(G, 5), event(E, 3)], FREE)
    late = [event(B, 5), event(G, 5), event(W, 8, 2), event(W, 7, 1), event(E, 9)]
    assert segments(late, FREE)[0].pure == 2 * MS  # what completed is told of later, and in any order


def test_work_that_outlives_its_segment_has_no_known_time() -> None:
    with pytest.raises(RuntimeFailure, match="after the end of its segment"):
        segments([event(B, 1), event(G, 1), event(E, 3), event(W, 5, 3)], FREE)
    assert segments([event(W, 1, 1), event(B, 2), event(G, 2), event(E, 3), event(W, 5, 1)], FREE)[0].work is False


def segment(begin: int, pure: int = 1, client: int = 1) -> Segment:
    return Segment((0, client), begin * MS, (begin + 2) * MS, 5, MS, pure * MS, True, (MS, pure * MS))


def test_jobs_that_are_announced() -> None:
    records = [event(JOB, 1, task="a", job=4), event(DONE, 9, task="a", job=4, cpu_ns=7),
               event(JOB, 10, task="a", job=5), event(DONE, 19, task="a", job=5)]  # fmt: skip
    made = jobs(records, [segment(2), segment(5), segment(20), segment(12)], None, None, False)
    assert [(len(job.segments), job.cpu) for job in made.jobs] == [(2, 7), (1, None)]
    assert (made.task, made.outside) == ("a", 1)
    assert made.jobs[0].inside == 4 * MS
    both = [*records, event(JOB, 20, task="b", job=1), event(DONE, 21, task="b", job=1)]
    for said, task, per_job, match in (
        (both, None, None, "of a, b; choose one"), (records, "c", None, "no jobs of c, only of a"),
        (records, None, 2, "leave it out"), ([], "a", None, "announces no jobs"),
        ([event(JOB, 3, task="a", job=1), event(DONE, 9, task="a", job=1)], None, None, "goes across"),
        ([event(JOB, 1, task="a", job=1), event(DONE, 3, task="a", job=1)], None, None, "goes across"),
        ([*records, event(JOB, 12, task="a", job=9, client=2), event(DONE, 13, task="a", job=9, client=2)], None, None,
         "overlap"),
    ):  # fmt: skip
        with pytest.raises(RuntimeFailure, match=match):
            jobs(said, [segment(2)], task, per_job, False)
    assert len(jobs(both, [], "b", None, False).jobs) == 1


def test_jobs_that_are_counted() -> None:
    found = [segment(at) for at in (1, 4, 7, 10)]
    assert [len(job.segments) for job in jobs([], found, None, 2, False).jobs] == [2, 2]
    assert len(jobs([], found, None, None, False).jobs) == 4
    with pytest.raises(RuntimeFailure, match="4 GPU segments are no whole number of jobs of --segments 3"):
        jobs([], found, None, 3, False)
    cut = jobs([], found, None, 3, True)
    assert ([len(job.segments) for job in cut.jobs], cut.outside) == ([3], 1)
    with pytest.raises(RuntimeFailure, match="2 clients"):
        jobs([], [segment(1), segment(4, client=2)], None, None, False)


def test_a_run_of_which_not_all_was_seen_does_not_count() -> None:
    run, free = Planned(1, Condition.QUIET), ProfileOptions(["./x"], theta=0)
    whole = [event(B, 1), event(G, 1), event(W, 3, 1), event(E, 4), event(X, 5)]
    assert read_run(run, free, whole, 7, (1, 2)).jobs.jobs[0].segments[0].pure == MS
    lost = replace(event(EventKind.LOST, 6), pid=0, client=0, lost=1)
    update = replace(event(EventKind.COMMIT, 2, 1, 0), pid=0)
    assert read_run(run, free, [*whole, replace(update, cause=Cause.PRIORITY)], 7, (1, 2)).jobs.jobs
    assert read_run(run, free, [*whole, event(EventKind.OVERRUN, 2, pid=9)], 7, (1, 2)).jobs.jobs
    for records, options, pid, match in (
        ([*whole, lost], free, 7, "events were lost"),
        ([*whole, replace(update, cause=Cause.POLICY)], free, 7, "the policy of GPU 0 was changed during the run"),
        ([*whole, replace(update, cause=Cause.RESET)], free, 7, "GPU 0 was reset or resumed during the run"),
        ([*whole, event(EventKind.OVERRUN, 2)], free, 7, "used its budget up"),
        ([one for one in whole if one.kind is not W], free, 7, "no GPU segment with work was seen, 1 without"),
        (whole, free, 8, "no GPU segment was seen; x-7 had some: a shell must `exec`"),
        (whole, replace(free, per_job=2, duration=1), 7, "none of its 1 GPU segments is in a whole job"),
        ([replace(one, priority=0) for one in whole], free, 7, "best effort"),
    ):
        with pytest.raises(RuntimeFailure, match=match):
            read_run(Planned(1, Condition.GPU), options, records, pid, (1, 2))
    blind = read_run(run, ProfileOptions(["./x"]), [one for one in whole if one.kind is not W], 7, (1, 2))
    assert [(one.misc, one.pure) for one in blind.segments] == [(None, 3 * MS)]


def test_runs_of_other_jobs_are_not_compared() -> None:
    first, second = results((Condition.QUIET, [(8,)]), (Condition.CPU, [(8, 1)]))
    compare_runs([first, first], ProfileOptions(["x"]))
    with pytest.raises(RuntimeFailure, match=r"job 1 of run 2 \(cpu\) has 2 GPU segments, job 1 of run 1 .* has 1; "):
        compare_runs([first, second], ProfileOptions(["x"]))
    with pytest.raises(RuntimeFailure, match=r"announces jobs of no task, run 1 .* others"):
        compare_runs([first, replace(first, jobs=replace(first.jobs, task="a"))], ProfileOptions(["x"]))


def results(*rows: tuple[Condition, list[tuple[int, ...]]], cpu: int | None = None) -> list[ProfileResult]:
    """A run for each row, whose jobs have segments of so many ms of work."""
    made = []
    for number, (condition, row) in enumerate(rows, 1):
        announced = Jobs(tuple(MeasuredJob(tuple(segment(0, pure) for pure in job), cpu) for job in row))
        made.append(ProfileResult(Planned(number, condition), announced, (), 5 * MS, 9 * MS))
    return made


def test_times_are_those_of_segments_that_correspond() -> None:
    quiet, cold = Condition.QUIET, Condition.COLD
    found = summary_times(results((quiet, [(8, 1), (9, 2)]), (cold, [(7, 4)]), (quiet, [(9, 1)])), Fraction(1, 5))
    seen = {(one.segment, one.what): (one.best // MS, one.worst // MS, one.count, one.run.number) for one in found}
    assert seen == {(1, "misc"): (1, 1, 4, 1), (1, "gpu"): (7, 9, 4, 1), (2, "misc"): (1, 1, 4, 1),
                    (2, "gpu"): (1, 4, 4, 2)}  # fmt: skip
    assert found[3].by_condition == {quiet: 2 * MS, cold: 4 * MS}
    assert found[3].written == (4_800_000, 833_000)
    (cpu, *_) = summary_times(results((quiet, [(8, 1)]), cpu=12 * MS), Fraction(0))
    assert (cpu.name, cpu.worst, cpu.best) == ("the job's cpu", 12 * MS, 8 * MS)  # its segments took 4 ms


def test_a_largest_time_that_grows_is_a_warning_and_what_the_margin_covers_is_none() -> None:
    def warned(values: list[int], margin: str) -> list[str]:
        rows = [(Condition.QUIET, [(value,)]) for value in values]
        return [line for one in summary_times(results(*rows), read_margin(margin)) for line in one.warnings]

    assert warned([100, 101, 99, 100, 98, 100], "20%") == []
    drift = warned([100, 101, 102, 103, 104, 105], "20%")
    assert len(drift) == 1
    assert "exceeded all before 3 times" in drift[0]
    late = warned([100, 101, 99, 100, 98, 130], "20%")
    assert late == ["segment 1's gpu still grows: the first 3 runs and the margin give 121.2ms, and a later run took "
                    "130ms; measure more runs, or take a larger margin"]  # fmt: skip
    assert warned([100, 101, 99, 100, 98, 130], "30%") == []
    assert warned([100, 200, 400, 800], "0%") == []  # too few to say


def account(made: list[ProfileResult], command: list[str], **more: object) -> Account:
    whole = Account("x\ny", 10 * MS, command, [one.planned for one in made], made, "", Fraction(1, 5),
                    Here([], None), {})  # fmt: skip
    return replace(whole, **more)  # type: ignore[arg-type]


def test_cpu_time_of_no_job_is_a_remark_where_it_is_much() -> None:
    (silent,) = results((Condition.QUIET, [(8,)]))
    (announced,) = results((Condition.QUIET, [(8,)]), cpu=9 * MS)
    much = "of 10ms of CPU time, threads that announce jobs used 9ms"
    for one, cpu, said in (
        (announced, 9 * MS, []), (announced, 10 * MS, []), (announced, 10 * MS + 10, [much]), (silent, 10 * MS, []),
    ):  # fmt: skip
        account = Account("x", MS, ["x"], [one.planned], [replace(one, cpu=cpu)], "", Fraction(0), Here([], 9), {})
        assert [note.partition(" in them")[0] for note in run_remarks(account) if "CPU time" in note] == said


@pytest.mark.parametrize(("cpu", "length", "blind", "word"), [
    (1, 9, False, "suspend"), (2, 9, False, "?"), (6, 9, False, "busy"), (6, 9, True, "?"), (9, 9, True, "busy"),
    (None, None, False, "?"), (9, 30, False, "?"), (8, 18, False, "?"), (0, 30, False, "suspend"),
])  # fmt: skip
def test_how_a_thread_waits_is_what_its_cpu_time_says(
    cpu: int | None, length: int | None, blind: bool, word: str
) -> None:
    """Of a job with 8 ms of GPU work; a host may not see work, and a thread that spins may sleep elsewhere."""
    one = replace(segment(0, 8), end=9 * MS, misc=None if blind else MS)
    whole = MeasuredJob((one,), *(None if time is None else time * MS for time in (cpu, length)))
    made = ProfileResult(Planned(1, Condition.QUIET), Jobs((whole,)), (one,), 5 * MS, 9 * MS)
    text = entry(account([made], ["x"]), summary_times([made], Fraction(1, 5)))
    assert f'waiting = "{word}"' in text


@pytest.mark.parametrize(("sure", "word"), [(1, "?"), (2, "suspend")])
def test_one_job_that_slept_inside_its_segments_does_not_speak_for_others(sure: int, word: str) -> None:
    """The others slept for as long, perhaps elsewhere."""
    one = replace(segment(0, 8), end=9 * MS, misc=MS)
    jobs = tuple(MeasuredJob((one,), (0 if at < sure else 9) * MS, 30 * MS) for at in range(3))
    made = ProfileResult(Planned(1, Condition.QUIET), Jobs(jobs), (one,) * 3, 5 * MS, 9 * MS)
    assert f'waiting = "{word}"' in entry(account([made], ["x"]), summary_times([made], Fraction(1, 5)))


@pytest.mark.parametrize(("second", "how"), [(3, "some at the same time"), (5, "if one thread does both")])
def test_a_process_that_tells_of_jobs_of_several_tasks_is_written(second: int, how: str) -> None:
    """`second`: when the job of the other task begins; the first is over after 4 ms."""
    marks = [(1, JOB, "eye"), (4, DONE, "eye"), (second, JOB, "ear"), (6, DONE, "ear")]
    records = [event(kind, at, task=task) for at, kind, task in sorted(marks, key=lambda mark: mark[0])]
    (made,) = results((Condition.QUIET, [(8,)]))
    seen = jobs(records, [segment(2)], "eye", None, False)
    made = replace(made, jobs=replace(made.jobs, beside=seen.beside, at_once=seen.at_once))
    assert (seen.beside, seen.at_once) == (("ear",), second == 3)
    text = entry(account([made], ["/opt/robot"]), summary_times([made], Fraction(0)))
    assert re.search(f'^process = "robot"  # it told of jobs of ear, too, .*{how}', text, re.MULTILINE)


def test_nothing_that_others_name_gets_out_of_the_comments() -> None:
    evil = '\n[[task]]\nname = "evil"\r\x1b[2J\u2028'
    (made,) = results((Condition.QUIET, [(8,)]), cpu=MS)
    made = replace(made, planned=replace(made.planned, given=evil))
    told = account([made], ["prog" + evil], stopped=evil, without={Condition.GPU: evil})
    text = entry(told, summary_times([made], Fraction(0)))
    assert [task["name"] for task in tomllib.loads(text)["task"]] == ["x-y"]
    assert "\x1b" not in text


def test_what_was_not_measured_is_no_number() -> None:
    made = results((Condition.QUIET, [(8,), (9,)]))
    (task,) = tomllib.loads(entry(account(made, ["x"]), summary_times(made, Fraction(0))))["task"]
    assert task["segments"] == [{"cpu": "?"}, {"misc": {"worst": "1ms", "best": "1ms"},
                                               "gpu": {"worst": "9ms", "best": "8ms"}}]  # fmt: skip
    blind = [replace(made[0], jobs=Jobs(tuple(MeasuredJob(tuple(replace(s, misc=None) for s in job.segments))
                                              for job in made[0].jobs.jobs)))]  # fmt: skip
    (task,) = tomllib.loads(entry(account(blind, ["x"]), summary_times(blind, Fraction(0))))["task"]
    assert task["segments"][1]["misc"] == "?"


def test_an_entry_has_the_clocks() -> None:
    made = results((Condition.QUIET, [(8,)]))
    seen = MachineClocks((Clock("CPU 0", "performance", 1_000_000_000, cpu=0),), power_mode="MAXN")
    measured = account(made, ["x"], here=Here([], None, (), seen), after=seen)
    text = entry(measured, summary_times(made, Fraction(0)))
    (task,) = tomllib.loads(text)["task"]
    assert task["clocks"] == {"cpu": "1000MHz", "governor": "performance", "power_mode": "MAXN"}
    assert "# Clocks: CPU 0 held at 1000MHz (governor performance); power mode MAXN; the GPU's unknown" in text
    changed = entry(account(made, ["x"], here=Here([], None, (), seen)), summary_times(made, Fraction(0)))
    assert "clocks = {" not in changed
    assert "the settings of clocks have changed" in changed


@pytest.mark.parametrize("word", ["bound of", "WCET", "worst-case", "guarantee"])
def test_no_observation_is_called_a_bound(word: str) -> None:
    made = results(*[(Condition.QUIET, [(at,)]) for at in range(1, 9)])
    text = entry(account(made, ["x"]), summary_times(made, Fraction(0)))
    assert "no bounds" in text
    assert word not in text
