# SPDX-License-Identifier: GPL-2.0
"""`gpurt plan partitions`: answers, exit codes, the files that it writes, and bad input."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from calls import Gpurt, caller
from placed import COUPLED

from analysis.answers import coupled
from analysis.answers import partitions as plan
from analysis.partition import inside
from analysis.taskset import load
from pycontrol.act.plan import division as commands

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "examples/partitions.toml"
LATE = """[[task]]
name = "late"
cpu = 4
priority = 5
period = "200ms"
intensity = "compute"
"""


@pytest.fixture
def gpurt(capsys: pytest.CaptureFixture[str]) -> Gpurt:
    """Runs the command in this process: exit code, stdout, stderr."""
    return caller(capsys)


def test_the_options_are_what_the_planner_has() -> None:
    assert set(commands.COUPLED) == set(coupled.TESTS) == set(plan.COUPLED)
    assert set(commands.INSIDE) == (set(inside.TESTS) | set(coupled.TESTS)) - {"edf"}


def test_the_example_fits_and_says_how(gpurt: Gpurt, tmp_path: Path) -> None:
    """detect on 4 units: 2 + 0.5 + 0.3 + 120/4 + 3 ms."""
    code, out, err = gpurt("plan", "partitions", EXAMPLE, "-o", tmp_path / "out.toml")
    assert (code, err.count("\n"), "a GPU of its own" in err) == (0, 1, True)
    assert "fits in 16 of 24 compute units" in out
    detect = next(line.split() for line in out.splitlines() if " detect " in line)
    assert detect == ["p1", "4", "detect", "35.800", "no", "35.800", "50.000"]
    written = load(tmp_path / "out.toml").taskset
    assert [(one.name, one.size) for one in written.partitions] == [(f"p{i}", 4) for i in range(1, 5)]
    assert [task.partition.name for task in written if task.partition] == ["p1", "p2", "p3", "p4"]
    assert written.tasks[0].pure_time == 33_000_000
    assert "# slow-down beside" in (tmp_path / "out.toml").read_text()


def on_two_cpus(tmp_path: Path, more: str = "", policy: str = "segment") -> Path:
    """The example with two tasks on each of two CPUs."""
    text = EXAMPLE.read_text().replace("cpus = 5", f'cpus = 2\npolicy = "{policy}"')
    for cpu in (2, 3):
        text = text.replace(f"cpu = {cpu}\n", f"cpu = {cpu - 2}\n")
    path = tmp_path / "shared.toml"
    path.write_text(text + more)
    return path


@pytest.mark.parametrize("test", ["gcaps-suspend", "gcaps-busy"])
def test_tasks_that_share_cpus_are_planned_and_analyzed_alike(gpurt: Gpurt, tmp_path: Path, test: str) -> None:
    """The bounds that are printed are those of the written file, by the test of the whole file."""
    path, out = on_two_cpus(tmp_path), tmp_path / "out.toml"
    if test == "gcaps-busy":
        text = path.read_text().replace("compute_units = 24", "compute_units = 64")
        path.write_text(text.replace('waiting = "suspend"', 'waiting = "busy"'))
    code, text, _ = gpurt("plan", "partitions", path, "--inside", test, "-o", out, "--json")
    told = json.loads(text)
    assert (code, told["fits"], told["test"]) == (0, True, test)
    assert len(told["partitions"]) > 1
    code, text, _ = gpurt("analyze", out, "--json")
    analysed = json.loads(text)
    assert (code, analysed["tests"][0]["test"]) == (0, coupled.TESTS[test])
    assert {name: one["wcrt_ns"] for name, one in told["tasks"].items()} == {
        name: one["wcrt_ns"] for name, one in analysed["tests"][0]["tasks"].items()
    }
    assert gpurt("plan", "partitions", path)[0] == 1


def test_a_task_without_gpu_work_counts_where_tasks_share_cpus(gpurt: Gpurt, tmp_path: Path) -> None:
    low = '[[task]]\nname = "low"\ncpu = 0\npriority = 1\nperiod = "{}"\nsegments = [{{ cpu = "20ms" }}]\n'
    assert gpurt("plan", "partitions", on_two_cpus(tmp_path, low.format("1s")), "--inside", "gcaps-suspend")[0] == 0
    code, out, _ = gpurt("plan", "partitions", on_two_cpus(tmp_path, low.format("21ms")), "--inside", "gcaps-suspend")
    assert (code, out.splitlines()[0].startswith("NOT PROVED: low: no bound below the deadline of 21")) == (1, True)


@pytest.mark.parametrize(
    ("options", "policy", "why"),
    [
        ((), "boosted", "gcaps-suspend is for partitions that run policy segment, and the file says boosted"),
    ],
)
def test_what_tests_of_shared_cpus_do_not_cover(
    gpurt: Gpurt, tmp_path: Path, options: tuple[str, ...], policy: str, why: str
) -> None:
    path = on_two_cpus(tmp_path, policy=policy)
    code, _, err = gpurt("plan", "partitions", path, "--inside", "gcaps-suspend", *options)
    assert code == 2
    assert why in err


def test_a_task_that_waits_in_another_mode_is_named(gpurt: Gpurt, tmp_path: Path) -> None:
    code, _, err = gpurt("plan", "partitions", on_two_cpus(tmp_path), "--inside", "gcaps-busy")
    assert (code, "gcaps-busy is for tasks that wait in mode busy, unlike detect" in err) == (2, True)


def test_planning_a_planned_file_again_replaces_its_partitions(gpurt: Gpurt, tmp_path: Path) -> None:
    out = tmp_path / "out.toml"
    assert gpurt("plan", "partitions", EXAMPLE, "-o", out)[0] == 0
    assert gpurt("plan", "partitions", out, "--max-partitions", "2", "-o", out)[0] == 0
    written = load(out).taskset
    assert len(written.partitions) == 2
    assert all(task.partition in written.partitions for task in written)


def test_few_units_need_merges_and_fewer_do_not_fit(gpurt: Gpurt, tmp_path: Path) -> None:
    code, out, _ = gpurt("plan", "partitions", EXAMPLE, "--units", "14", "--json")
    told = json.loads(out)
    assert (code, told["fits"], told["compute_units"]) == (0, True, 14)
    assert told["used_units"] == sum(part["compute_units"] for part in told["partitions"]) <= 14
    code, out, _ = gpurt("plan", "partitions", EXAMPLE, "--units", "4", "-o", tmp_path / "out.toml")
    assert code == 1
    assert "DOES NOT FIT" in out
    assert "of 4 are needed" in out
    assert not (tmp_path / "out.toml").exists()


def test_what_does_not_fit_says_by_how_many_units(gpurt: Gpurt) -> None:
    code, out, _ = gpurt("plan", "partitions", EXAMPLE, "--sizes", "10:2", "--units", "20", "--max-partitions", "1")
    assert (code, "more than" in out) == (1, True), out
    code, out, _ = gpurt("plan", "partitions", EXAMPLE, "--units", "8", "--json")
    told = json.loads(out)
    if told["used_units"]:
        assert f"{told['used_units'] - 8} more than the 8" in told["why"]
    assert code == 1


def test_a_task_that_fits_nowhere_is_named_with_the_lemma(gpurt: Gpurt, tmp_path: Path) -> None:
    path = tmp_path / "long.toml"
    path.write_text(EXAMPLE.read_text().replace('serial = "8ms"', 'serial = "99ms"'))
    code, out, _ = gpurt("plan", "partitions", path)
    assert code == 1
    assert "segmentation: needs 113.3 ms alone on 24 units, and has 100 ms (lemma 2)" in out.replace("exact", "")


def real_time_of_the_case_study() -> str:
    """The case study's file without its best-effort tasks."""
    whole = (ROOT / "examples/case-study.toml").read_text()
    return whole[: whole.index('[[task]]\nname = "mmul_gpu_2"')]


def test_where_tasks_share_a_cpu_nothing_is_proved_of_whole_jobs(gpurt: Gpurt, tmp_path: Path) -> None:
    """The CPUs of the case study's real-time tasks are shared: a yes, or a bound, would be about another system."""
    case, out = tmp_path / "case.toml", tmp_path / "out.toml"
    case.write_text(real_time_of_the_case_study().replace("[platform]\n", "[platform]\ncompute_units = 8\n"))
    code, text, _ = gpurt("plan", "partitions", case, "--units", "8", "-o", out)
    assert (code, out.exists()) == (1, False)
    assert text.startswith("NOT PROVED: histogram, projection, dxtc share CPU 1, and waiting for a CPU is not part")
    told = json.loads(gpurt("plan", "partitions", case, "--units", "8", "--json")[1])
    assert {task["wcrt_ns"] for task in told["tasks"].values()} == {None}


def test_plain_times_hold_for_the_whole_gpu_only(gpurt: Gpurt, tmp_path: Path) -> None:
    """Also if --units says that there is a larger one."""
    path = tmp_path / "set.toml"
    path.write_text(EXAMPLE.read_text().replace('{ parallel = "200ms", serial = "10ms" }', '"18ms"'))
    for units in ("24", "40"):
        _, out, err = gpurt("plan", "partitions", path, "--units", units)
        assert "the GPU time of map is known for one number of units only" in err
        assert next(line.split()[1] for line in out.splitlines() if " map " in line) == "24"
    assert "known for 24 units and more" in gpurt("plan", "partitions", path, "--units", "20")[1]


def test_what_would_not_be_a_taskset_file_is_not_written(gpurt: Gpurt, tmp_path: Path) -> None:
    out = tmp_path / "out.toml"
    code, text, err = gpurt("plan", "partitions", EXAMPLE, "--sizes", "5:5", "-o", out)
    assert (code, text, out.exists()) == (3, "", False)
    assert "cannot be written with these partitions: a partition of this GPU has 4, 6, 8, ... units, not 5" in err


@pytest.mark.parametrize(
    ("file", "name"),
    [(EXAMPLE, "plan partitions"), (ROOT / "examples/federated.toml", "plan units")],
)
def test_a_file_is_not_planned_for_more_units_than_it_says(
    gpurt: Gpurt, tmp_path: Path, file: Path, name: str
) -> None:
    """Its [platform] would contradict its partitions.  A plan with units to spare is one for the file."""
    out, there = tmp_path / "out.toml", load(file).taskset.platform.compute_units
    code, text, err = gpurt(name, file, "--units", there + 1, "-o", out)
    assert (code, text, out.exists(), err.count("\n")) == (2, "", False, 1)
    assert f"--units {there + 1}: [platform] of {file} says compute_units = {there}, and OUT would be the same" in err
    assert gpurt(name, file, "--units", there + 1)[0] == 0
    assert gpurt(name, file, "--units", there - 1, "-o", out)[0] == 0
    assert sum(part.size or 0 for part in load(out).taskset.partitions) < there


def test_a_file_without_units_is_written_with_none(gpurt: Gpurt, tmp_path: Path) -> None:
    case, out = tmp_path / "case.toml", tmp_path / "out.toml"
    case.write_text(real_time_of_the_case_study())
    code, text, err = gpurt("plan", "partitions", case, "--units", "8", "-o", out)
    assert (code, text, out.exists()) == (2, "", False)
    assert "does not say compute_units, and OUT would be the same; write compute_units = 8 there" in err


def test_sizes_of_which_none_fits_are_told(gpurt: Gpurt) -> None:
    code, out, _ = gpurt("plan", "partitions", EXAMPLE, "--units", "3")
    assert (code, out) == (1, "DOES NOT FIT: a partition has 4 units or more, and there are 3\n")
    out = gpurt("plan", "partitions", EXAMPLE, "--sizes", "40,30")[1]
    assert out == "DOES NOT FIT: a partition has 30 units or more, and there are 24\n"


@pytest.mark.parametrize("own", ["partition = { compute_units = 4 }\n", "[task.partition]\ncompute_units = 4\n"])
def test_a_part_of_its_own_is_not_overwritten(gpurt: Gpurt, tmp_path: Path, own: str) -> None:
    path, out = tmp_path / "set.toml", tmp_path / "out.toml"
    path.write_text(EXAMPLE.read_text() + own)
    code, _, err = gpurt("plan", "partitions", path, "-o", out)
    assert (code, out.exists()) == (3, False)
    assert 'task "map" has a part of its own; remove that' in err


def test_no_gpu_task_proves_nothing(gpurt: Gpurt, tmp_path: Path) -> None:
    path = tmp_path / "set.toml"
    path.write_text("[platform]\ncpus = 1\ncompute_units = 4\n")
    code, out, _ = gpurt("plan", "partitions", path)
    assert (code, "no real-time task uses the GPU" in out) == (1, True)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--sizes", "4:0"], "--sizes: expected LEAST:STEP"), (["--sizes", "x"], "--sizes: expected"),
        (["--sizes", "4:2:1"], "--sizes: expected"), (["--sizes", ""], "--sizes: expected"),
        (["--units", "0"], "--units"), (["--inside", "gcaps"], "--inside"),
        (["--inside", "np-fp"], "--inside"), (["--inside", "edf"], "--inside"),
    ],
)  # fmt: skip
def test_wrong_usage(gpurt: Gpurt, options: list[str], says: str) -> None:
    code, out, err = gpurt("plan", "partitions", EXAMPLE, *options)
    assert (code, out) == (2, "")
    assert says in err


def test_policies_that_run_jobs_at_once_are_refused(gpurt: Gpurt, tmp_path: Path) -> None:
    """docs/partitioning.md has the counterexample: what fits one at a time misses when jobs share the units."""
    path = tmp_path / "set.toml"
    path.write_text(EXAMPLE.read_text().replace("cpus = 5\n", 'cpus = 5\npolicy = "timesliced"\n'))
    code, _, err = gpurt("plan", "partitions", path)
    assert (code, "the file says timesliced" in err) == (2, True)


def test_without_epsilon_nothing_is_planned_again(gpurt: Gpurt, tmp_path: Path) -> None:
    """A file that has partitions already is as wrong without epsilon as one without: it is not 0."""
    planned = tmp_path / "planned.toml"
    assert gpurt("plan", "partitions", EXAMPLE, "-o", planned)[0] == 0
    planned.write_text(planned.read_text().replace('epsilon = "0.1ms"\n', ""))
    code, out, err = gpurt("plan partitions", planned)
    assert (code, out, "epsilon is missing" in err) == (3, "", True)


def test_kernels_and_copies_are_refused(gpurt: Gpurt, tmp_path: Path) -> None:
    """Their time is that of the whole GPU, and copies of other partitions are on the same bus."""
    path = tmp_path / "set.toml"
    path.write_text(EXAMPLE.read_text() + LATE + 'segments = [{ copy = "1ms" }, { kernel = "400ms" }]\n')
    code, out, err = gpurt("plan", "partitions", path)
    assert (code, out) == (2, "")
    assert "late has kernels or copies" in err


def test_a_new_partition_would_have_the_policy_of_the_platform(gpurt: Gpurt, tmp_path: Path) -> None:
    planned = tmp_path / "planned.toml"
    assert gpurt("plan", "partitions", EXAMPLE, "-o", planned)[0] == 0
    text = planned.read_text().replace("compute_units = 4\n", 'compute_units = 4\npolicy = "segment"\n')
    planned.write_text(text.replace("cpus = 5\n", 'cpus = 5\npolicy = "timesliced"\n'))
    code, out, err = gpurt("plan", "partitions", planned)
    assert (code, out) == (2, "")
    assert "the file says timesliced" in err


@pytest.mark.parametrize("separator", ["\u2028", "\u0085", "\u2029"])
def test_lines_are_those_of_toml_when_a_file_is_written(gpurt: Gpurt, tmp_path: Path, separator: str) -> None:
    """Python breaks lines in more places than TOML; what was removed were other lines."""
    planned, out = tmp_path / "planned.toml", tmp_path / "out.toml"
    assert gpurt("plan", "partitions", EXAMPLE, "-o", planned)[0] == 0
    planned.write_text(f"#{separator * 7}\n" + planned.read_text(), encoding="utf-8")
    assert gpurt("plan", "partitions", planned, "--max-partitions", "2", "-o", out)[0] == 0
    written = load(out).taskset
    assert len(written.partitions) == 2
    assert [(task.name, task.period, task.eta) for task in written] == [
        (task.name, task.period, task.eta) for task in load(planned).taskset
    ]


def test_arrays_of_tables_written_inline_are_refused_in_words(gpurt: Gpurt, tmp_path: Path) -> None:
    planned, out = tmp_path / "planned.toml", tmp_path / "out.toml"
    assert gpurt("plan", "partitions", EXAMPLE, "-o", planned)[0] == 0
    before = planned.read_text().split("[[partition]]", 1)[0]
    parts = "".join(f'  {{ name = "p{at}", compute_units = 4 }},\n' for at in range(1, 5))
    planned.write_text(f"partition = [\n{parts}]\n{before}")
    code, _, err = gpurt("plan", "partitions", planned, "--max-partitions", "2", "-o", out)
    assert (code, out.exists()) == (3, False)
    assert "its form is not understood well enough" in err


def test_line_endings_stay(gpurt: Gpurt, tmp_path: Path) -> None:
    path, out = tmp_path / "set.toml", tmp_path / "out.toml"
    path.write_bytes(EXAMPLE.read_bytes().replace(b"\n", b"\r\n"))
    assert gpurt("plan", "partitions", path, "-o", out)[0] == 0
    assert out.read_bytes().count(b"\n") == out.read_bytes().count(b"\r\n")


def test_tasks_without_gpu_work_are_named_as_not_covered(gpurt: Gpurt, tmp_path: Path) -> None:
    path = tmp_path / "set.toml"
    path.write_text(EXAMPLE.read_text() + '''[[task]]
name = "log"
cpu = 4
priority = 9
period = "1ms"
segments = [{ cpu = "2ms" }]
''')
    code, _, err = gpurt("plan", "partitions", path)
    assert (code, "log without GPU work: not part of the answer" in err) == (0, True)


def test_partitions_with_policies_of_their_own(gpurt: Gpurt, tmp_path: Path) -> None:
    """The policy of partitions counts, not the platform's; where they differ, commands say so."""
    path = tmp_path / "set.toml"
    policies = ('policy = "segment"\n', 'policy = "lock-fifo"\n')
    text = COUPLED.replace('policy = "segment"\n', "")
    for at, name in enumerate(("one", "two")):
        text = text.replace(f'name = "{name}"\n', f'name = "{name}"\n{policies[at]}')
    path.write_text(text)
    code, out, _ = gpurt("analyze", path)
    assert (code, "partitions have policies lock-fifo and segment, and no test is about several" in out) == (1, True)
    code, _, err = gpurt("simulate", path, "--runs", "2")
    assert (code, "partitions have policies lock-fifo and segment; name one for all with --policy" in err) == (2, True)
    code, _, err = gpurt("plan", "modes", path)
    assert (code, "its partitions have policies of their own" in err) == (2, True)
    path.write_text(text.replace("lock-fifo", "segment"))
    assert gpurt("analyze", path)[1].startswith("partitioned-suspend")
    assert json.loads(gpurt("simulate", path, "--runs", "2", "--json")[1])["policy"] == "segment"
    assert gpurt("plan", "modes", path)[0] == 0


def test_one_partition_that_holds_everything_is_written_if_analyze_says_yes(gpurt: Gpurt, tmp_path: Path) -> None:
    """Its bound is 14.833 ms and 3 updates a segment; that of the whole GPU's test has one update more, 21.833."""
    path, out = tmp_path / "set.toml", tmp_path / "out.toml"
    path.write_text(
        '[platform]\ncpus = 1\npolicy = "segment"\nepsilon = "1ms"\ncompute_units = 16\n[[task]]\nname = "t"\ncpu = 0\n'
        'priority = 34\nperiod = "40ms"\ndeadline = "21ms"\nsegments = [{ misc = "2ms", gpu = { parallel = "9ms", '
        'serial = "2ms" } }, { misc = "1ms", gpu = { parallel = "50ms" } }]\n'
    )
    code, text, _ = gpurt("plan", "partitions", path, "-o", out)
    assert (code, out.exists()) == (1, False)
    assert "nothing was written: of that file gpurt analyze says: t: no bound below the deadline of 21 ms" in text
