# SPDX-License-Identifier: GPL-2.0
"""Chains in taskset files: what is read, what is refused, and what commands say of them."""

from __future__ import annotations

import json
import re
from pathlib import Path

import jsonschema
import pytest
from calls import Gpurt, caller

from analysis import taskset
from analysis.model import MS
from gpurt.errors import TasksetError

ROOT = Path(__file__).parent.parent.parent
EXAMPLE = ROOT / "examples/chains.toml"
TEXT = EXAMPLE.read_text()


@pytest.fixture
def gpurt(capfd: pytest.CaptureFixture[str]) -> Gpurt:
    return caller(capfd)


def test_the_example_is_read() -> None:
    loaded = taskset.load(EXAMPLE)
    (chain,) = loaded.taskset.chains
    assert (chain.name, chain.tasks, chain.event) == ("brake", ("detect", "plan", "drive"), False)
    assert (chain.max_reaction, chain.max_age, chain.max_age_at_output) == (90 * MS, 90 * MS, 80 * MS)
    assert [task.longest_gap for task in loaded.taskset] == [33 * MS, 22 * MS, 10 * MS]


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('"plan", "drive"]', '"plane", "drive"]', 'tasks: no [[task]] is called "plane"'),
        ('"plan", "drive"]', '"plan", "detect"]', "detect is in the chain twice: a loop has no end"),
        ('"sampled", "sampled"', '"sampled"', "links: 3 tasks have 2 links, got 1"),
        ('"sampled", "sampled"', '"sampled", "triggered"', "released by the end of plan, and so has its period"),
        ('"sampled", "sampled"', '"triggered", "sampled"', "it has neither jitter nor releases nor max_period"),
        ('max_period = "22ms"', "", "plan is sporadic, and may be silent for ever"),
        ('max_period = "22ms"', 'max_period = "19ms"', "max_period: must be at least the period"),
        ('max_period = "22ms"', 'max_period = "22ms"\nreleases = "periodic"', "says already that it is the period"),
        ("priority = 12", "priority = 0", "plan is best effort"),
        ('tasks = ["detect", "plan", "drive"]\nlinks = ["sampled", "sampled"]', 'tasks = ["detect"]', "at least two"),
        ('tasks = ["detect", "plan", "drive"]', 'tasks = [["detect", "plan"], "drive"]',
         "a fork or a join is a [[chain]] for each way"),
        ('max_age = "90ms"', "join = true", "no bound is known for forks and joins"),
        ('max_age = "90ms"', "depth = 2", "no bound is known for a buffer of several"),
        ("priority = 12", "priority = 12\nin_flight = 2", "threads that take turns are a task each"),
        ('stimulus = "sampled"', 'stimulus = "frame"', 'stimulus: expected "sampled" or "event"'),
    ],
)  # fmt: skip
def test_mistakes_are_told_with_their_line(tmp_path: Path, old: str, new: str, said: str) -> None:
    path = tmp_path / "tasks.toml"
    assert old in TEXT
    path.write_text(TEXT.replace(old, new))
    with pytest.raises(TasksetError) as error:
        taskset.load(path)
    assert any(said in problem.message and problem.line > 1 for problem in error.value.problems)


def test_a_first_task_that_an_event_releases_may_be_silent(tmp_path: Path) -> None:
    text = TEXT.replace('stimulus = "sampled"', 'stimulus = "event"').replace('releases = "periodic"\n', "", 1)
    path = tmp_path / "tasks.toml"
    path.write_text(text.replace('max_age = "90ms"\nmax_age_at_output = "80ms"\n', ""))
    assert taskset.load(path).taskset.chains[0].event
    path.write_text(text)
    with pytest.raises(TasksetError, match="detect is sporadic"):
        taskset.load(path)


def test_analyze_says_no_beyond_a_limit(gpurt: Gpurt, tmp_path: Path) -> None:
    code, out, _ = gpurt("analyze", EXAMPLE, "--json")
    chain = json.loads(out)["chains"]["brake"]
    assert (code, chain["holds"], chain["max_reaction"]["bound_ns"]) == (0, True, 83_400_000)
    assert sum(term["amount_ns"] for term in chain["max_age"]["terms"]) == chain["max_age"]["bound_ns"]
    path = tmp_path / "tasks.toml"
    path.write_text(TEXT.replace('max_reaction = "90ms"', 'max_reaction = "83ms"'))
    code, out, _ = gpurt("analyze", path)
    assert code == 1
    said = "NOT PROVED under policy boosted: chain brake: max_reaction can be 83.4 ms, and the file allows 83 ms"
    assert (out.count("NOT PROVED"), said in out, out.count("can be 83.4 ms")) == (1, True, 1)
    assert "schedulable" not in out
    code, out, _ = gpurt("margins", path)
    assert code == 1
    assert "Every task is in time; limits of chains are what fails, and these are the least that are proved:" in out
    assert ["brake", "max_reaction", "83.400", "83.000", "not", "proved"] in map(str.split, out.splitlines())
    assert "To be schedulable, one of these must shrink" not in out
    code, out, _ = gpurt("analyze", path, "--json")
    assert (code, json.loads(out)["schedulable"]) == (1, False)
    assert gpurt("analyze", path, "--test", "boosted-suspend")[0] == 1


def test_explain_takes_a_chain(gpurt: Gpurt) -> None:
    code, out, _ = gpurt("analyze", EXAMPLE, "--explain", "brake")
    assert code == 0
    assert "brake: max_age_at_output" in out
    assert "a more urgent producer that never sleeps" in out
    code, _, err = gpurt("analyze", EXAMPLE, "--explain", "brakes")
    assert code == 2
    assert "no task and no chain" in err


def test_the_document_is_of_the_schema_of_outputs(gpurt: Gpurt) -> None:
    document = json.loads(gpurt("analyze", EXAMPLE, "--json")[1])
    jsonschema.validate(document, json.loads((ROOT / "docs/output.schema.json").read_text()))


RELEASED = """[platform]
cpus = 1
epsilon = "0ms"
[[task]]
name = "a"
cpu = 0
priority = 3
period = "10ms"
releases = "periodic"
segments = [{ cpu = "1ms" }]
[[task]]
name = "b"
cpu = 0
priority = 2
period = "10ms"
segments = [{ cpu = "2ms" }]
[[task]]
name = "c"
cpu = 0
priority = 1
period = "10ms"
segments = [{ cpu = "1ms" }]
[[chain]]
name = "one"
tasks = ["a", "b"]
links = ["triggered"]
stimulus = "event"
max_reaction = "15ms"
"""


def second(tasks: str, link: str) -> str:
    return f'{RELEASED}[[chain]]\nname = "two"\ntasks = [{tasks}]\nlinks = ["{link}"]\nstimulus = "event"\n'


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (second('"b", "a"', "triggered").replace('releases = "periodic"\n', ""), "itself: a loop has no end"),
        (second('"c", "b"', "triggered").replace('name = "c"', 'name = "c"\nreleases = "periodic"'),
         "b is released by jobs that begin with a and with c, which come as they like: all but those of one are"),
        (second('"c", "b"', "sampled").replace('releases = "periodic"\n', "").replace("event", "sampled"),
         "a is sporadic, and may be silent for ever"),
        (second('"a", "b"', "sampled").replace('name = "b"', 'name = "b"\nmax_period = "10ms"', 1),
         "it has neither jitter nor releases nor max_period"),
        (second('"b", "c"', "triggered"), "b is released by a, so that its link is triggered here, too"),
    ],
)  # fmt: skip
def test_triggers_that_have_no_bound_are_one_line_each(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "tasks.toml"
    path.write_text(text)
    with pytest.raises(TasksetError) as error:
        taskset.load(path)
    assert any(said in problem.message for problem in error.value.problems), error.value.problems


def test_a_triggered_link_is_analysed_and_simulated(gpurt: Gpurt, tmp_path: Path) -> None:
    path = tmp_path / "tasks.toml"
    path.write_text(RELEASED)
    code, out, _ = gpurt("analyze", str(path), "--json")
    assert code == 0
    assert json.loads(out)["chains"]["one"]["max_reaction"]["bound_ns"] == (1 + 3) * MS  # a's next job, too
    code, out, _ = gpurt("simulate", str(path), "--runs", "3", "--json")
    assert (code, json.loads(out)["chains"]["one"]["max_reaction"]["bound_ns"]) == (0, (1 + 3) * MS)
    code, out, err = gpurt("plan", "partitions", str(path))
    assert code != 0
    assert "released by the end of another task" in out + err


def test_a_job_that_releases_another_may_take_no_time_where_the_file_has_worst_cases_alone(
    gpurt: Gpurt, tmp_path: Path
) -> None:
    """Jobs of a that always take 8 ms release b each 10 ms; after a shorter one two jobs of b can delay c."""
    path, always = tmp_path / "tasks.toml", '{ worst = "8ms", best = "8ms" }'
    text = RELEASED.replace("cpu = 0", "cpu = 1", 1).replace("cpus = 1", "cpus = 2\ncompute_units = 2")
    for span, bound in (
        (f"cpu = {always}", 3), ('cpu = "8ms"', 5), ('cpu = { worst = "8ms" }', 5),
        (f'misc = "0ms", gpu = {always}', 3), ('misc = "0ms", gpu = { parallel = "16ms" }', 5),
        ('kernel_times = ["9ms", "8ms"]', 5), ('kernel = "16ms"', 5),
    ):  # fmt: skip
        path.write_text(text.replace("15ms", "30ms").replace('cpu = "1ms"', span, 1))
        code, out, _ = gpurt("analyze", str(path), "--json")
        (found,) = json.loads(out)["tests"]
        assert (code, found["tasks"]["c"]["wcrt_ns"]) == (0, bound * MS)


def test_a_row_says_what_is_limited_and_what_has_no_bound(gpurt: Gpurt, tmp_path: Path) -> None:
    path = tmp_path / "tasks.toml"
    path.write_text(TEXT.replace('max_age = "90ms"', ""))
    _, out, _ = gpurt("analyze", str(path))
    assert re.search(r"brake +max_reaction +83.400 +90.000 +yes\n", out)
    assert re.search(r"brake +max_age +83.400 +- +no limit\n", out)
    path.write_text(TEXT.replace('cpu = "4ms"', 'cpu = "21ms"'))
    _, out, _ = gpurt("analyze", str(path))
    assert re.search(r"brake +max_reaction +none +90.000 +not proved\n", out)


def test_a_best_effort_task_has_no_deadline_to_compare_with(gpurt: Gpurt, tmp_path: Path) -> None:
    path = tmp_path / "tasks.toml"
    logger = '[[task]]\nname = "logger"\ncpu = 0\npriority = 0\nperiod = "1s"\nsegments = [{ cpu = "1ms" }]\n'
    path.write_text(RELEASED + logger)
    _, out, _ = gpurt("simulate", str(path), "--runs", "3")
    assert re.search(r"logger +\d+ +[\d.]+ +- +- +-\n", out), out


def test_run_refuses_a_triggered_task_without_a_command(gpurt: Gpurt, tmp_path: Path) -> None:
    path = tmp_path / "tasks.toml"
    path.write_text(RELEASED)
    code, _, err = gpurt("run", str(path), "--duration", "1s")
    assert code == 2
    assert "b is released by the end of a, of which no stand-in hears: give it a command" in err
