# SPDX-License-Identifier: GPL-2.0
"""The demonstration from end to end, with short runs, and how it reports bad results."""

from __future__ import annotations

import json
import os
import pickle
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from links import PATIENCE, eventually
from matplotlib import rcParams
from once import once

from analysis import taskset
from analysis.traces.trace import Kind, load_trace
from gpurt.enums import Policy
from gpurt.errors import DeviceError, FileError, UsageError
from pycontrol import cli
from pycontrol.act.demo import boosted
from pycontrol.act.demo import plot as demo_plot
from pycontrol.act.demo import study as demo
from pycontrol.act.demo.results import SETUPS, Results, SetupResult, TaskInfo, TaskResult
from pycontrol.act.demo.study import short_ms
from pycontrol.act.run.emulator import Emulator
from pycontrol.link import control as client

SECONDS = 0.9
ROOT = Path(__file__).resolve().parents[2]


def whole(options: demo.StudyOptions) -> tuple[Results, str]:
    """The results, and the text that is printed of them."""
    results = demo.demonstrate(options)
    return results, demo.text_of(results, demo.draw_study(results, options))


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Results, str]:
    """The folder of results, the results themselves, and what was printed."""

    def run(folder: Path) -> None:
        made = whole(demo.StudyOptions(seconds=SECONDS, out=folder / "results"))
        (folder / "pickled").write_bytes(pickle.dumps(made))

    folder = once(tmp_path_factory, "demo", run)
    return folder / "results", *pickle.loads((folder / "pickled").read_bytes())


def test_every_setup_and_every_task_is_there(shown: tuple[Path, Results, str]) -> None:
    _, results, _ = shown
    names = [task.name for task in taskset.load(demo.case_study()).taskset]
    assert [one.setup for one in results.setups] == list(SETUPS)
    for one in results.setups:
        assert list(one.tasks) == names
        assert all(result.jobs + result.misses > 0 for result in one.tasks.values()) or not one.trace
        assert all(result.simulated for result in one.tasks.values())
    assert results.unsound == []


def test_bounds_of_every_policy(shown: tuple[Path, Results, str]) -> None:
    _, results, _ = shown
    bounded = {one.setup.name: [name for name, r in one.tasks.items() if r.bound is not None] for one in results.setups}
    urgent = [task.name for task in results.tasks if not task.best_effort]
    assert [bounded[name] for name in ("timesliced", "segment-suspend", "segment-busy", "job")] == 4 * [urgent]
    assert bounded["boosted"] == urgent
    # under a lock, histogram may wait for the longest best-effort segment, and its bound exceeds its deadline
    assert bounded["lock-fifo"] == []


def test_files_are_written_and_readable(shown: tuple[Path, Results, str]) -> None:
    out, results, text = shown
    assert (out / "case-study.png").read_bytes().startswith(b"\x89PNG")
    assert "<svg" in (out / "case-study.svg").read_text()
    document = json.loads((out / "results.json").read_text())
    assert list(document["setups"]) == [setup.name for setup in SETUPS]
    for one in results.setups:
        if one.trace is None:
            continue
        trace = load_trace(out / f"trace-{one.setup.name}.json")
        assert trace.meta["policy"] == one.setup.policy
        assert trace.observed_worst() == {n: r.observed for n, r in one.tasks.items() if r.observed is not None}
        saved = document["setups"][one.setup.name]["tasks"]["histogram"]
        assert saved["mort_ns"] == one.tasks["histogram"].observed
        assert saved["virtual_mort_ns"] == one.tasks["histogram"].simulated
        assert f"trace-{one.setup.name}.json" in text


def test_the_published_run_has_today_s_form_bounds_and_virtual_times(shown: tuple[Path, Results, str]) -> None:
    """docs/experiments/case-study-module: what was observed there is that run's, all else is computed from the file."""
    out, _, _ = shown
    ours = json.loads((out / "results.json").read_text())
    theirs = json.loads((ROOT / "docs/experiments/case-study-module/results.json").read_text())
    assert theirs.keys() == ours.keys()
    assert list(theirs["setups"]) == list(ours["setups"])
    for name, published in theirs["setups"].items():
        setup = ours["setups"][name]
        assert {**published, "tasks": 0, "trace": 0} == {**setup, "tasks": 0, "trace": 0}
        assert list(published["tasks"]) == list(setup["tasks"])
        for task, seen in setup["tasks"].items():
            assert published["tasks"][task].keys() == seen.keys()
            computed = ("priority", "best_effort", "deadline_ns", "wcrt_ns", "virtual_mort_ns")
            assert [published["tasks"][task][key] for key in computed] == [seen[key] for key in computed]


def test_the_policies_were_in_force(shown: tuple[Path, Results, str]) -> None:
    _, results, _ = shown
    events = {one.setup.name: load_trace(one.trace).events for one in results.setups if one.trace}
    kinds = {name: {event.kind for event in some} for name, some in events.items()}
    preempted = {name: {e.task for e in some if e.kind is Kind.PREEMPT} for name, some in events.items()}
    assert not kinds["timesliced"] & {Kind.GRANT, Kind.PREEMPT, Kind.COMMIT}
    assert "" in preempted["segment-suspend"]  # all best-effort tasks, at once
    assert preempted["lock-fifo"] <= {""}  # no policy takes a lock from its holder
    assert Kind.BEGIN not in kinds["job"]
    if os.geteuid() == 0:
        assert "" in preempted["boosted"]
    assert Kind.GRANT in kinds["job"]


def test_circumstances_are_said_and_the_table_fits(shown: tuple[Path, Results, str]) -> None:
    _, results, text = shown
    assert any("Virtual GPU" in note for note in results.notes)
    assert "Bounds are claims" in demo.claim(results)
    assert all(len(line) <= 80 for line in text.splitlines()[: 2 + len(results.tasks) * len(SETUPS)])


@pytest.mark.parametrize("comparable", [False, True])
def test_the_tables_fit_however_late_everything_is(shown: tuple[Path, Results, str], comparable: bool) -> None:
    _, results, _ = shown
    worst = [
        replace(one, tasks={
            name: replace(seen, observed=999_900_000, simulated=888_800_000, bound=777_700_000, jobs=299, misses=299)
            for name, seen in one.tasks.items()
        }) for one in results.setups
    ]  # fmt: skip
    text = table_text(replace(results, setups=tuple(worst), comparable=comparable))
    assert max(map(len, text.splitlines()[: 2 + len(results.tasks) * len(SETUPS)])) <= 80
    assert ("999.9!>" in text) == comparable
    assert "888.8!>" in text


def test_no_bound_speaks_of_a_machine_that_is_not_the_file_s(shown: tuple[Path, Results, str]) -> None:
    """On a machine with fewer CPUs than the file, nothing looks like a broken bound."""
    _, results, text = shown
    folded = len(os.sched_getaffinity(0)) < 4
    assert results.comparable <= (not folded)
    assert ("no bound speaks of it" in text) == (not results.comparable)


@pytest.mark.parametrize("time", [0, 7, 99_994_999, 99_996_000, 999_949_999, 999_960_000, 9_999_000_000])
def test_times_of_the_table_are_short(time: int) -> None:
    text = short_ms(time)
    assert len(text) <= 5
    assert float(text) == pytest.approx(time / 1e6, rel=1e-3, abs=5e-3)


def test_a_running_host_gets_its_policy_back(tmp_path: Path) -> None:
    with Emulator(taskset.load(demo.case_study()).taskset.platform, "lock-priority") as emulator:
        device = str(emulator.socket)
        results = demo.demonstrate(demo.StudyOptions(device, 0.5, ("segment-busy",), tmp_path / "out"))
        with client.connect(device) as control:
            assert control.status()[0].policy is Policy.LOCK_PRIORITY
    assert [one.setup.name for one in results.setups] == ["segment-busy"]


def test_the_command_prints_one_document(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    words = ["--duration", "0.5s", "--policy", "segment-suspend", "-o", str(out), "--json", "--no-progress"]
    code = cli.run(["demo", *words])
    printed = capfd.readouterr()
    document = json.loads(printed.out)
    assert (code, printed.err, document["command"]) == (0, "", "demo")
    assert list(document["setups"]) == ["segment-suspend"]
    assert any(note.startswith("Bounds are claims") for note in document["notes"])
    assert sorted(map(Path, document["files"])) == sorted(out.iterdir())


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to give up CAP_SYS_NICE")
@pytest.mark.parametrize("limit", [0, 29])
def test_boosted_runs_where_threads_may_be_raised_and_else_the_demo_says_why(tmp_path: Path, limit: int) -> None:
    """Five priorities, 1 to 5, and threads that raise themselves to 24 above those."""
    if subprocess.run(["prlimit", f"--rtprio={limit}", "true"], capture_output=True, check=False).returncode:
        pytest.skip("may not raise RLIMIT_RTPRIO here")
    rights = ["prlimit", f"--rtprio={limit}", "setpriv", "--bounding-set=-sys_nice", "--inh-caps=-sys_nice"]
    demo_only = ["-m", "pycontrol", "demo", "--duration=0.5s", "--policy=boosted", f"--output={tmp_path}", "--json"]
    done = subprocess.run([*rights, sys.executable, *demo_only], capture_output=True, text=True, check=True)
    document = json.loads(done.stdout)
    result = document["setups"]["boosted"]["tasks"]["histogram"]
    assert result["wcrt_ns"] > result["virtual_mort_ns"] > 0
    refused = [note for note in document["notes"] if note.startswith("policy boosted was not run on this machine: ")]
    if limit == 29:
        assert not refused
        assert result["jobs"] + result["misses"] > 0
        assert "under policy boosted, tasks had priorities 1 to 5 in the order of the file's" in str(document["notes"])
    else:
        assert "SCHED_FIFO priority 29; become root, or set RLIMIT_RTPRIO to 29 or more" in refused[0]
        assert (result["jobs"], result["mort_ns"], result["jobs_per_second"]) == (0, None, None)
        assert document["setups"]["boosted"]["trace"] is None


@pytest.mark.slow
def test_nothing_is_left_of_a_demo_that_is_ended(tmp_path: Path) -> None:
    (tmp_path / "tmp").mkdir()
    command = [sys.executable, "-m", "pycontrol", "demo", "--policy=segment", f"--output={tmp_path}/out"]
    environment = {**os.environ, "TMPDIR": str(tmp_path / "tmp")}
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment) as process:
        eventually(lambda: any((tmp_path / "tmp").glob("gpurt-run-*/*")))
        process.terminate()
        process.communicate(timeout=PATIENCE)
    assert process.returncode in (130, 143)
    assert not list((tmp_path / "tmp").iterdir())


def test_boosted_orders_what_the_file_orders() -> None:
    file = taskset.load(demo.case_study())
    tasks = file.taskset.with_gpu_priorities({"dxtc": 90, "histogram": 70})
    given = replace(file, taskset=tasks)
    mapped, remark = boosted.within_file(given, 24)
    assert [(one.priority, one.gpu_priority) for one in mapped.taskset] == [
        (5, 5), (4, None), (3, None), (2, None), (1, 6), (0, None), (0, None),
    ]  # fmt: skip
    assert "priorities 1 to 6" in remark
    assert boosted.within_file(mapped, 24) == (mapped, "")
    assert boosted.within_file(given, 5) == (given, "")
    assert "priorities 1 to 5, and the file has more" in boosted.unable_here(given, 5)
    assert boosted.unable_here(given, 0) == "the host cannot do it"


def test_a_set_up_that_was_not_run_has_no_figures() -> None:
    text = table_text(made_up(observed=None, jobs=0, throughput=None))
    assert text.splitlines()[2].split()[-3:] == ["15.00", "-", "-"]


def test_choosing_a_policy_takes_both_ways_to_wait() -> None:
    assert [s.name for s in demo.StudyOptions(policies=("segment",)).setups()] == ["segment-suspend", "segment-busy"]
    with pytest.raises(UsageError, match="choose from"):
        demo.StudyOptions(policies=("fastest",)).setups()


def test_mistakes_are_told_before_anything_runs(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="seconds"):
        demo.demonstrate(demo.StudyOptions(seconds=0, out=tmp_path / "a"))
    (tmp_path / "file").write_text("")
    with pytest.raises(FileError, match="-o"):
        demo.demonstrate(demo.StudyOptions(out=tmp_path / "file"))
    with pytest.raises(DeviceError):
        demo.demonstrate(demo.StudyOptions(str(tmp_path / "none"), out=tmp_path / "b"))


def made_up(**changes: object) -> Results:
    base = TaskResult(12_000_000, 10, 0, 1.0, 11_000_000, 15_000_000, "")
    task = TaskInfo("alpha", 1, 50, 100_000_000, 100_000_000)
    one = SetupResult(SETUPS[2], {"alpha": replace(base, **changes)}, Path("t.json"))  # type: ignore[arg-type]
    return Results("made-up", (task,), (one,), 1.0, 10, True, ())


def table_text(results: Results) -> str:
    return demo.text_of(results, [])


def test_an_observation_above_its_bound_is_marked_where_the_bound_speaks_of_it() -> None:
    def row(results: Results) -> str:
        return table_text(results).splitlines()[2]

    assert "16.00>" in row(made_up(observed=16_000_000))
    assert ">" not in row(made_up(observed=15_000_000))
    assert ">" not in row(replace(made_up(observed=16_000_000), comparable=False))


def test_a_simulation_above_its_bound_is_marked_as_an_error() -> None:
    results = made_up(simulated=15_000_001)
    assert "15.00>" in table_text(results)
    assert results.unsound == ["alpha under segment-suspend: simulated 15.000001 ms, bound 15 ms"]
    assert made_up(simulated=15_000_000).unsound == []


def test_an_unsound_bound_ends_with_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "\x1b[31m"
    folder.mkdir()
    monkeypatch.setattr(demo, "demonstrate", lambda _options: made_up(simulated=99_000_000))
    code = cli.run(["demo", "-o", str(folder)])
    told = capfd.readouterr()
    assert code == 6
    assert "exceeded in virtual time: alpha" in told.err
    assert "do NOT hold" in told.err
    assert "/\\x1b[31m/" in told.out


@pytest.mark.parametrize(
    ("changes", "colour"),
    [({}, demo_plot.BEST), ({"bound": None}, demo_plot.OTHER), ({"simulated": 100_000_001}, demo_plot.LATE)],
)
def test_a_bar_has_the_colour_of_what_is_known(tmp_path: Path, changes: dict[str, object], colour: str) -> None:
    """In the picture's two places: the bar, and the legend."""
    demo_plot.save_plot(made_up(**changes), tmp_path / "x", "nothing")
    drawn = re.findall(r"fill: (#[0-9a-f]{6})", (tmp_path / "x.svg").read_text(encoding="utf-8"))
    assert [one for one in (demo_plot.BEST, demo_plot.OTHER, demo_plot.LATE) if drawn.count(one) == 2] == [colour]


def test_a_number_beside_a_bar_is_told_from_the_bound_and_triangles_are_explained(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(rcParams, "svg.fonttype", "none")  # text as text
    demo_plot.save_plot(made_up(observed=10**12, simulated=13_480_000, bound=14_910_000), tmp_path / "x", "nothing")
    drawn = (tmp_path / "x.svg").read_text(encoding="utf-8")
    assert "13.5 \u2264 15" in drawn
    assert "the same, longer than the panel is wide" in drawn
    demo_plot.save_plot(made_up(bound=None), tmp_path / "x", "nothing")
    assert "\u2264 ?" in (tmp_path / "x.svg").read_text(encoding="utf-8")


def test_a_picture_of_nothing_observed(tmp_path: Path) -> None:
    results = made_up(observed=None, simulated=None, bound=None)
    assert [path.suffix for path in demo_plot.save_plot(results, tmp_path / "x", "nothing")] == [".png", ".svg"]
    with pytest.raises(FileError, match="cannot be written"):
        demo_plot.save_plot(results, tmp_path / "none" / "x", "nothing")
