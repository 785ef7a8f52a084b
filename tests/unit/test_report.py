# SPDX-License-Identifier: GPL-2.0
"""`gpurt report`: the page is valid and whole, its numbers are those of other commands, and it flatters nothing."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shlex
import shutil
import subprocess
from collections import Counter
from dataclasses import replace
from html.parser import HTMLParser
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
from calls import Gpurt, caller
from placed import COUPLED

from analysis.answers.registry import TESTS, find_test
from analysis.papers import registry as papers
from analysis.simulation.simulate import Options, simulate
from analysis.taskset import load as load_taskset
from analysis.traces.trace import About, Event, Kind
from analysis.traces.trace import load_trace as load_trace
from pycontrol.observe.judge.finding import Finding, Sort, What
from pycontrol.observe.report.assumptions import Evidence, Support, judged_assumptions
from pycontrol.observe.report.page import DOWN, EXACT, _said
from pycontrol.output.render import bound, room

pytestmark = pytest.mark.usefixtures("margins_once")
ROOT = Path(__file__).resolve().parents[2]
CASE_STUDY, TWO = ROOT / "examples/case-study.toml", ROOT / "examples/two-programs.toml"
WORKERS = ROOT / "examples/every-key-of-workers.toml"
VOID = {"meta", "link", "br"}
SECTIONS = ["system", "bounds", "sensitivity", "assumptions", "observed", "uncovered", "again"]
STYLE = (ROOT / "pycontrol/observe/report/templates/style.css").read_text()


class Page(HTMLParser):
    """A page as a reader has it; a mistake in its structure is an AssertionError."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.numbers: list[tuple[str, str | None, str]] = []
        self.headings: list[int] = []
        self.words: list[str] = []
        self.cells: list[str] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        assert len(found) == len(attrs), f"an attribute twice in {tag}"
        self.elements.append((tag, found))
        if re.fullmatch("h[1-6]", tag):
            self.headings.append(int(tag[1]))
        if "data-at" in found:
            self.numbers.append((str(found["data-at"]), found.get("value"), ""))
        if found.get("class") == "n":
            self.cells.append("")
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open, f"</{tag}> closes nothing"
        assert self.open.pop() == tag

    def handle_data(self, text: str) -> None:
        if self.open and self.open[-1] == "style":
            return
        if self.open and self.open[-1] in ("data", "span") and self.numbers:
            at, value, before = self.numbers[-1]
            self.numbers[-1] = (at, value, before + text)
        elif self.open and self.open[-1] == "td" and re.search(r"\d", text):
            self.cells.append(text)
        self.words.append(text)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())

    def attributes(self, name: str) -> list[str]:
        return [value for _, found in self.elements if (value := found.get(name)) is not None]


@pytest.fixture
def gpurt(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Gpurt:
    monkeypatch.setenv("GPURT_DEVICE", "/nonexistent")
    return caller(capfd)


def made(gpurt: Gpurt, file: Path, output: Path, *options: object) -> tuple[int, Page, dict[str, Any]]:
    code, out, err = gpurt("report", file, "-o", output, "--json", *options)
    assert err == ""
    return code, Page(output.read_text(encoding="utf-8")), json.loads(out)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("trace") / "run.json"
    simulate(load_taskset(TWO).taskset, Options("boosted"), events=100_000).trace.save(path)
    return path


def at(document: Any, pointer: str) -> Any:
    """The value at a JSON pointer (RFC 6901)."""
    for word in pointer.split("/")[1:]:
        key = word.replace("~1", "/").replace("~0", "~")
        document = document[int(key)] if isinstance(document, list) else document[key]
    return document


def test_commands_in_messages_are_code() -> None:
    assert _said("see `gpurt doctor` & <x>") == "see <code>gpurt doctor</code> &amp; &lt;x&gt;"


def check_structure(page: Page) -> None:
    ids = page.attributes("id")
    assert [name for name, count in Counter(ids).items() if count > 1] == []
    assert page.headings[0] == 1
    assert page.headings.count(1) == 1
    assert all(after <= before + 1 for before, after in zip(page.headings, page.headings[1:], strict=False))
    for name in ("aria-labelledby", "href"):
        for value in page.attributes(name):
            assert value == "data:," or all(word.lstrip("#") in ids for word in value.split())
    assert "`" not in page.text
    assert "<code>" not in page.text
    assert page.attributes("src") == []
    assert [tag for tag, _ in page.elements if tag in ("script", "img", "iframe", "object", "base")] == []
    assert all(found.get("scope") for tag, found in page.elements if tag == "th")
    tags = [tag for tag, _ in page.elements]
    assert tags.count("caption") == tags.count("table")
    assert [one for one in ids if one in SECTIONS] == SECTIONS


@pytest.mark.parametrize(
    "file",
    ["case-study", "two-programs", "preempted-owner", "slices", "partitions", "federated", "every-key-of-workers"],
)
def test_every_number_is_that_of_the_commands(gpurt: Gpurt, file: str, tmp_path: Path) -> None:
    """Each one names its place in the document, whose parts are what `analyze` and `margins` print."""
    path = ROOT / f"examples/{file}.toml"
    code, page, document = made(gpurt, path, tmp_path / "page.html", "--elsewhere")
    check_structure(page)
    for command, part in (("analyze", "analysis"), ("margins", "sensitivity")):
        got, out, _ = gpurt(command, path, "--json")
        other = json.loads(out)
        assert code == got
        assert document[part] == {key: value for key, value in other.items() if key not in ("schema", "command")}
    assert page.numbers
    for pointer, value, text in page.numbers:
        found = at(document, pointer)
        assert value == (None if found is None else str(found))
        key = pointer.rpartition("/")[2]
        if found is None:
            assert text == "-"
        elif key in EXACT:
            assert float(text) == pytest.approx(found / 1e6, rel=1e-15)
        elif key.endswith("_ns"):
            assert text == (room(found) if key in DOWN else bound(found))
        elif isinstance(found, float):
            assert found - 1e-4 < float(text) <= found
        else:
            assert text == str(found)
    shown = {pointer for pointer, _, _ in page.numbers}
    for number, test in enumerate(document["analysis"]["tests"]):
        for name, task in test["tasks"].items():
            assert f"/analysis/tests/{number}/tasks/{name}/wcrt_ns" in shown
            for index, _ in enumerate(task["terms"] or ()):
                assert f"/analysis/tests/{number}/tasks/{name}/terms/{index}/amount_ns" in shown


def test_a_system_that_fails_still_has_a_report_that_says_so_first(gpurt: Gpurt, tmp_path: Path) -> None:
    late = tmp_path / "late.toml"
    late.write_text(TWO.read_text().replace('"20ms"', '"9ms"'))
    code, page, document = made(gpurt, late, tmp_path / "page.html", "--elsewhere")
    assert (code, document["holds"]) == (1, False)
    check_structure(page)
    assert page.text.index("NOT PROVED") < page.text.index("System Bounds Slack")
    assert "NOT SUPPORTED" in page.text
    assert "Every deadline holds" not in page.text
    empty = tmp_path / "empty.toml"
    empty.write_text("[platform]\ncpus = 1\n")
    code, page, document = made(gpurt, empty, tmp_path / "page.html", "--elsewhere")
    assert code == 1
    assert "there is no real-time task" in page.text
    check_structure(page)


def test_an_unsound_test_is_marked_wherever_its_bounds_are(
    gpurt: Gpurt, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(TESTS, "gcaps-suspend-printed", papers.find("gcaps-suspend-printed"))
    options = ("--elsewhere", "--test", "gcaps-suspend-printed")
    code, page, document = made(gpurt, CASE_STUDY, tmp_path / "page.html", *options)
    assert code == 1
    assert all(one["wcrt_ns"] for one in document["analysis"]["tests"][0]["tasks"].values() if not one["best_effort"])
    assert page.text.count("UNSOUND") >= 4 + 5  # the verdict, the test, the caption, the margins, and each task
    (proof,) = [one for one in document["assumptions"] if one["assumption"] == "The analysis is right."]
    assert proof["support"] == "refuted"


def test_nothing_is_checked_elsewhere(gpurt: Gpurt, tmp_path: Path) -> None:
    code, page, document = made(gpurt, TWO, tmp_path / "page.html", "--elsewhere")
    assert (code, document["machine"], document["host"]) == (0, None, None)
    assert {one["support"] for one in document["assumptions"]} == {"unchecked", "unrefuted", "checked"}
    assert "13 are unchecked" in page.text
    assert page.text.count("UNCHECKED") == 13 + 2  # and machine and host
    subject = next(one for one in document["assumptions"] if "the system of the file" in one["assumption"])
    assert subject["support"] == "checked"


def test_a_host_that_was_named_and_is_not_there_is_not_passed_over(gpurt: Gpurt, tmp_path: Path) -> None:
    code, page, document = made(gpurt, TWO, tmp_path / "page.html")  # GPURT_DEVICE names one
    assert code == 0
    said = "what the host would say is unchecked: no host (tried /nonexistent)"
    assert [note[: len(said)] for note in document["notes"]] == [said]
    assert said in page.text
    code, _, err = gpurt("report", TWO, "--elsewhere", "-o", tmp_path / "page.html")
    assert (code, err) == (0, "")


def test_the_version_of_cffi_is_that_of_its_backend(
    gpurt: Gpurt, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Debian has the backend in a package of its own, without the metadata of Python packages."""

    def of_debian(name: str) -> str:
        if name == "cffi":
            raise metadata.PackageNotFoundError(name)
        return metadata.version(name)

    monkeypatch.setattr("pycontrol.observe.report.evidence.version", of_debian)
    versions = made(gpurt, TWO, tmp_path / "page.html", "--elsewhere")[2]["versions"]
    assert {name: versions[name] for name in ("cffi", "numpy")} == {
        name: metadata.version(name) for name in ("cffi", "numpy")
    }


def test_partitions_that_share_cpus_have_assumptions_of_their_own(gpurt: Gpurt, tmp_path: Path) -> None:
    path = tmp_path / "set.toml"
    path.write_text(COUPLED)
    code, page, document = made(gpurt, path, tmp_path / "report.html", "--elsewhere")
    assert (code, "partitioned-suspend" in page.text) == (0, True)
    updates = [one for one in document["assumptions"] if one["assumption"].endswith("update, on its own CPU.")]
    assert [one["support"] for one in updates] == ["unchecked"]
    code, _, document = made(gpurt, TWO, tmp_path / "report.html", "--elsewhere")
    assert not [one for one in document["assumptions"] if one["assumption"].endswith("update, on its own CPU.")]


def test_workers_are_named_beside_their_task(gpurt: Gpurt, tmp_path: Path) -> None:
    """A bound for members counts from the release of their task, and is for them alone."""
    run = tmp_path / "run.json"
    assert gpurt("simulate", WORKERS, "--runs", 1, "-o", run)[0] == 0
    code, page, document = made(gpurt, WORKERS, tmp_path / "page.html", "--elsewhere", "--trace", run)
    check_structure(page)
    assert (code, document["holds"]) == (0, True)
    assert set(document["system"]["tasks"]) == {"planner", "left", "right", "camera", "logger"}
    for said in ("planner starts its workers left, right after", "as group planner", "from the release of planner."):
        assert said in page.text
    (group,) = [one for one in document["assumptions"] if "they are group planner" in one["assumption"]]
    assert group["assumption"].startswith("planner starts left and right once a job, and sleeps until all are done")
    assert group["support"] == "unchecked"
    assert "no task waits for another one that is no worker of it, for a lock" in page.text
    checked = json.loads(gpurt("trace", "check", run, WORKERS, "--json")[1])
    (seen,) = document["traces"]
    assert {name: one["mort_ns"] for name, one in seen["tasks"].items()} == {
        name: one["mort_ns"] for name, one in checked["tasks"].items()
    }


@pytest.mark.parametrize(("old", "new"), [
    ('deadline = "30ms"', 'deadline = "20ms"'),
    ('{ misc = "0.5ms", gpu = "3ms" }', '{ copy = "1ms" }, { kernel = "1ms", overhead = "0ms" }, { kernel = "1ms" }'),
])  # fmt: skip
@pytest.mark.parametrize("test", [(), ("--test", "boosted-suspend"), ("--test", "gcaps-suspend")])
def test_no_report_of_workers_holds_where_analyze_does_not_know(
    gpurt: Gpurt, tmp_path: Path, old: str, new: str, test: tuple[str, ...]
) -> None:
    text = WORKERS.read_text().replace("[platform]\n", "[platform]\ncompute_units = 8\n")
    assert old in text
    (path := tmp_path / "set.toml").write_text(text.replace(old, new))
    code, page, document = made(gpurt, path, tmp_path / "page.html", "--elsewhere", *test)
    check_structure(page)
    got, out, _ = gpurt("analyze", path, "--json", *test)
    assert (code, document["holds"], got) == (1, False, 1)
    assert document["why"] == f"not proved: {json.loads(out)['why']}"


def test_a_run_with_a_hold_is_compared_with_its_bounds(gpurt: Gpurt, tmp_path: Path) -> None:
    (path := tmp_path / "set.toml").write_text(WORKERS.read_text().replace('"right"] }', '"right"], hold = true }'))
    run, page = tmp_path / "run.json", tmp_path / "page.html"
    gpurt("simulate", path, "--runs", 1, "-o", run)
    code, _, document = made(gpurt, path, page, "--elsewhere", "--trace", run)
    assert (code, document["holds"]) == (0, True)
    assert {name: one["verdict"] for name, one in document["traces"][0]["tasks"].items()}["planner"] == "ok"


def test_a_report_of_a_hold_says_what_analyze_says_and_assumes(gpurt: Gpurt, tmp_path: Path) -> None:
    (path := tmp_path / "set.toml").write_text(WORKERS.read_text().replace('"right"] }', '"right"], hold = true }'))
    code, page, document = made(gpurt, path, tmp_path / "page.html", "--elsewhere")
    assert (code, document["holds"], gpurt("analyze", path)[0]) == (0, True, 0)
    (raised,) = [one for one in document["assumptions"] if "each of these threads is raised" in one["assumption"]]
    assert raised["support"] == "unchecked"
    assert "GPURT_GROUP_ALL" in page.text


def test_without_a_host_updates_are_unchecked_and_the_machine_is_not(gpurt: Gpurt, tmp_path: Path) -> None:
    _, page, document = made(gpurt, TWO, tmp_path / "page.html")
    assert document["host"]["why"].startswith("no host")
    assert document["host"]["why"] in page.text
    findings = {one["name"]: one for one in document["machine"]["findings"]}
    _, out, _ = gpurt("doctor", "--json")
    assert document["machine"]["findings"] == json.loads(out)["findings"]
    assert findings["real-time throttling"]["text"] in page.text


def test_runs_are_compared_with_the_bounds(gpurt: Gpurt, run: Path, tmp_path: Path) -> None:
    code, page, document = made(gpurt, TWO, tmp_path / "page.html", "--elsewhere", "--trace", run)
    assert (code, document["traces"][0]["comparable"]) == (0, True)
    _, out, _ = gpurt("trace", "check", run, TWO, "--test", document["test"], "--json")
    for name, one in json.loads(out)["tasks"].items():
        there = document["traces"][0]["tasks"][name]
        times = sorted(job.response for job in load_trace(run).responses()[name])
        spread = there["distribution"]
        assert one.items() <= there.items()
        assert (spread["minimum_ns"], spread["median_ns"]) == (times[0], times[(len(times) - 1) // 2])
    assert "Simulated in virtual time" in page.text


def changed(run: Path, output: Path, **with_: Any) -> Path:
    replace(load_trace(run), **with_).save(output)
    return output


def checked(gpurt: Gpurt, trace: Path) -> str:
    """Why `gpurt trace check` says no to it."""
    return str(json.loads(gpurt("trace", "check", trace, TWO, "--json")[1])["why"])


def test_a_broken_bound_is_the_answer(gpurt: Gpurt, run: Path, tmp_path: Path) -> None:
    trace = load_trace(run)
    events = [*trace.events, Event(trace.end + 1, Kind.COMPLETE, "detector", 999, 13_500_001)]
    slow = changed(run, tmp_path / "slow.json", events=tuple(events))
    code, page, document = made(gpurt, TWO, tmp_path / "page.html", "--elsewhere", "--trace", slow)
    assert (code, document["why"]) == (1, f"{slow}: detector exceeded its bound")
    assert "NOT SUPPORTED BY WHAT WAS SEEN" in page.text
    assert "ABOVE ITS BOUND" in page.text
    assert "Every deadline holds" not in page.text


@pytest.mark.parametrize(("key", "value", "why"), [
    ("policy", "segment", "under policy segment"), ("placement", "folded", "folded"),
    ("scheduling", "default class", "not permitted SCHED_FIFO"), ("waiting", "busy", "waited in mode busy"),
])  # fmt: skip
def test_a_run_of_another_system_is_not_held_against_the_bounds(
    gpurt: Gpurt, run: Path, tmp_path: Path, key: str, value: str, why: str
) -> None:
    other = changed(run, tmp_path / "other.json", meta={**load_trace(run).meta, key: value})
    code, page, document = made(gpurt, TWO, tmp_path / "page.html", "--elsewhere", "--trace", other)
    assert (code, document["traces"][0]["comparable"]) == (1, False)
    assert why in document["traces"][0]["why"]
    assert document["why"] == f"{other}: {checked(gpurt, other)}"
    assert "Not comparable with the bounds" in page.text
    assert all(one["wcrt_ns"] is None for one in document["traces"][0]["tasks"].values())


def test_a_run_of_unknown_origin_is_shown(gpurt: Gpurt, run: Path, tmp_path: Path) -> None:
    other = changed(run, tmp_path / "other.json", meta={})
    code, page, document = made(gpurt, TWO, tmp_path / "page.html", "--elsewhere", "--trace", other)
    assert (code, document["traces"][0]["comparable"]) == (1, False)
    assert document["why"] == f"{other}: {checked(gpurt, other)}"
    assert "Of unknown origin. Policy unknown" in page.text


def test_a_job_that_hangs_is_not_forgotten(gpurt: Gpurt, run: Path, tmp_path: Path) -> None:
    """It has no response time, and its deadline is yet to come."""
    trace = load_trace(run)
    hung = Event(trace.end + 10**9, Kind.RELEASE, "mapper", 997)
    late = changed(run, tmp_path / "late.json", events=(*trace.events, hung), until=hung.time + 150_000_000)
    code, page, document = made(gpurt, TWO, tmp_path / "page.html", "--elsewhere", "--trace", late)
    one = document["traces"][0]["tasks"]["mapper"]
    assert (one["verdict"], one["unfinished_jobs"], one["waited_ns"]) == ("above-bound", 1, 150_000_000)
    assert (code, document["why"]) == (1, f"{late}: mapper exceeded its bound")
    assert "150.000" in [text for _, _, text in page.numbers]


def test_bounds_of_another_system_prove_nothing_of_this_one(gpurt: Gpurt, tmp_path: Path) -> None:
    code, _, document = made(gpurt, TWO, tmp_path / "page.html", "--elsewhere", "--test", "gcaps-suspend")
    assert (code, document["analysis"]["schedulable"]) == (1, False)
    assert "gcaps-suspend is about policy segment" in document["why"]
    federated = ROOT / "examples/federated.toml"
    code, page, document = made(gpurt, federated, tmp_path / "page.html", "--elsewhere", "--test", "rtgpu")
    check_structure(page)
    assert (code, document["analysis"]["schedulable"]) == (0, True)
    assert "policy federated is meant, which no host has" in page.text


def test_a_machine_with_too_few_cpus_is_not_the_system_s(gpurt: Gpurt, tmp_path: Path) -> None:
    last = tmp_path / "last.toml"
    last.write_text(TWO.read_text().replace("cpus = 2", "cpus = 1024").replace("cpu = 1", "cpu = 1023"))
    code, _, document = made(gpurt, last, tmp_path / "page.html")
    assert code == 1
    assert "tasks on CPU 1023" in document["why"]
    assert made(gpurt, last, tmp_path / "page.html", "--elsewhere")[0] == 0


def test_lost_events_are_said_wherever_the_run_is(gpurt: Gpurt, run: Path, tmp_path: Path) -> None:
    trace = load_trace(run)
    gone = changed(run, tmp_path / "gone.json", events=(*trace.events, Event(trace.end, Kind.LOST)))
    _, page, document = made(gpurt, TWO, tmp_path / "page.html", "--elsewhere", "--trace", gone)
    assert document["traces"][0]["lost"] == 1
    assert document["why"].startswith(f"{gone}: not everything was seen: events lost")
    assert any("events were lost" in note for note in document["notes"])
    assert "INCOMPLETE" in page.text
    code, _, err = gpurt("report", TWO, "--elsewhere", "--trace", gone, "-o", tmp_path / "page.html")
    assert (code, err.count("events were lost")) == (1, 1)


def test_a_run_on_an_unknown_host_or_on_another_one_is_no_evidence(gpurt: Gpurt, run: Path, tmp_path: Path) -> None:
    """As `check` says of the same trace."""
    meta = load_trace(run).meta | {"clock": "CLOCK_MONOTONIC", "source": "runtime"}
    unknown = changed(run, tmp_path / "unknown.json", meta=meta)
    for trace, yes in ((run, True), (unknown, False)):
        code, page, document = made(gpurt, TWO, tmp_path / "page.html", "--elsewhere", "--trace", trace)
        told = json.loads(gpurt("trace", "check", trace, TWO, "--test", "boosted-suspend", "--json")[1])
        assert (code == 0, told["in_time"], told["objections"]) == (yes, yes, document["traces"][0]["objections"])
        assert yes or document["why"] == f"{trace}: {told['why']}"
        assert yes or f"NO: {told['why']}." in page.text


def test_a_task_without_a_job_is_no_yes(gpurt: Gpurt, run: Path, tmp_path: Path) -> None:
    trace = load_trace(run)
    silent = changed(run, tmp_path / "silent.json", events=tuple(e for e in trace.events if e.task != "mapper"))
    code, page, document = made(gpurt, TWO, tmp_path / "page.html", "--elsewhere", "--trace", silent)
    assert (code, document["why"]) == (1, f"{silent}: no job of mapper was seen")
    assert document["traces"][0]["against"] == "no job of mapper was seen"
    assert "NO: no job of mapper was seen." in page.text


def test_a_chain_with_nothing_to_compare_with_is_not_ok(gpurt: Gpurt, tmp_path: Path) -> None:
    """As `trace check` prints it: without bounds, and without a limit in the file."""
    file, run = tmp_path / "set.toml", tmp_path / "run.json"
    file.write_text(re.sub("(?m)^max_(reaction|age).*$", "", (ROOT / "examples/chains.toml").read_text()))
    gpurt("simulate", file, "--runs", 1, "-o", run)
    other = changed(run, tmp_path / "other.json", meta=load_trace(run).meta | {"policy": "job"})
    _, page, document = made(gpurt, file, tmp_path / "page.html", "--elsewhere", "--trace", other)
    seen = [one for keys in document["traces"][0]["chains"].values() for one in keys.values() if one["seen_ns"]]
    assert seen
    assert page.text.count("no limit") == len(seen)


@pytest.mark.parametrize("what", [what for what in What if what.sort is Sort.ASSUMPTION])
def test_whatever_the_judge_finds_refutes_an_assumption(what: What) -> None:
    """No kind of finding may be unknown to the report."""
    file = load_taskset(TWO)
    test = find_test("boosted-suspend")
    found = [("run.json", [Finding(1, what, "detector", "was seen")])]
    (refuted,) = [
        one for one in judged_assumptions(Evidence(file, test, findings=found)) if one.support is Support.REFUTED
    ]
    assert refuted.text == "run.json: detector: was seen"


@pytest.mark.parametrize(
    ("costs", "said"),
    [
        ('alpha = "1ms"\ntheta = "100us"', ", and no context switch longer than theta, 0.1 ms."),
        ('epsilon = "1ms"', " (the file gives no theta of its own)."),
    ],
)
def test_the_assumption_about_updates_has_the_times_of_the_file(costs: str, said: str, tmp_path: Path) -> None:
    path = tmp_path / "set.toml"
    path.write_text(
        f'[platform]\ncpus = 1\n{costs}\n[[task]]\nname = "t"\ncpu = 0\npriority = 1\nperiod = "1s"\n'
        'segments = [{ misc = "1ms", gpu = "1ms" }]\n'
    )
    sentences = [one.assumption for one in judged_assumptions(Evidence(load_taskset(path), find_test("gcaps-suspend")))]
    assert f"No runlist update takes longer than alpha, 1 ms{said}" in sentences


def test_releases_that_are_too_close_refute_an_assumption(gpurt: Gpurt, run: Path, tmp_path: Path) -> None:
    trace = load_trace(run)
    first = next(event for event in trace.events if event.kind is Kind.RELEASE and event.task == "detector")
    begun = replace(first, time=first.time + 1, job=998)
    done = Event(begun.time + 1, Kind.COMPLETE, "detector", 998, 1)
    events = tuple(sorted((*trace.events, begun, done), key=lambda event: event.time))
    close = changed(run, tmp_path / "close.json", events=events)
    code, page, document = made(gpurt, TWO, tmp_path / "page.html", "--elsewhere", "--trace", close)
    assert (code, document["why"]) == (1, f"{close}: {checked(gpurt, close)}")
    (refuted,) = [one for one in document["assumptions"] if one["support"] == "refuted"]
    assert "released sooner after the job before it than the period" in refuted["text"]
    assert "DOES NOT HOLD" in page.text


@pytest.mark.parametrize(("event", "assumed"), [
    (Event(1, Kind.COMMIT, "", None, 10**9, gpu=0, detail="begin"), "No runlist update takes longer"),
    (Event(1, Kind.COMMIT, "", None, 1, gpu=0, detail="policy"), "The GPU is scheduled by policy"),
    (Event(1, Kind.COMMIT, "", None, 1, gpu=0, detail="reset"), "All work on the GPU runs when"),
    (Event(1, Kind.LATE, "Xorg-7", gpu=0), "All work on the GPU runs when"),
    (Event(1, Kind.OVERRUN, "detector", gpu=0), "No segment takes longer"),
    (Event(1, Kind.STUCK, "detector", gpu=0), "Inside a GPU segment no task waits"),
    (Event(1, Kind.MEMBER_DIED, "detector", gpu=0), "Only tasks of the file delay"),
])  # fmt: skip
def test_a_run_that_breaks_an_assumption_refutes_it(
    gpurt: Gpurt, run: Path, tmp_path: Path, event: Event, assumed: str
) -> None:
    """Every deadline was met by luck: the bounds do not hold of such a system."""
    trace = load_trace(run)
    events = (*trace.events, replace(event, time=trace.end + event.time))
    broken = changed(run, tmp_path / "broken.json", events=events)
    code, page, document = made(gpurt, TWO, tmp_path / "page.html", "--elsewhere", "--trace", broken)
    (refuted,) = [one for one in document["assumptions"] if one["support"] == "refuted"]
    assert refuted["assumption"].startswith(assumed)
    assert code == 1
    assert document["why"] == f"{broken}: {checked(gpurt, broken)}"
    assert "DOES NOT HOLD" in page.text


def test_a_trace_that_is_no_evidence_is_refused(gpurt: Gpurt, run: Path, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    known = load_trace(run).tasks
    cut = tmp_path / "cut.json"
    cut.write_bytes(run.read_bytes()[:2000])
    deadline = replace(known["detector"], deadline=21_000_000)
    cases = {
        cut: "is not a complete JSON file",
        tmp_path / "missing.json": "No such file",
        changed(run, tmp_path / "a.json", tasks={**known, "detector": deadline}): "deadline of 21 ms there",
        changed(run, tmp_path / "b.json", tasks={**known, "\x1b[31m": About(1, 5)}): "has task \\x1b[31m, which",
        changed(run, tmp_path / "c.json", tasks={"detector": known["detector"]}): "lacks the file's task mapper",
        changed(run, tmp_path / "d.json",
                tasks={**known, "detector": replace(known["detector"], priority=3)}): "priority 3 there",
        changed(run, tmp_path / "e.json", tasks={}, events=(Event(1, Kind.RELEASE, "x"),)): "lacks the file's task",
    }  # fmt: skip
    for path, message in cases.items():
        code, out, err = gpurt("report", TWO, "--elsewhere", "--trace", path, "-o", page)
        assert (code, out) == (3, "")
        assert re.fullmatch(rf"gpurt: [^\n]*{re.escape(message)}[^\n]*\n", err), err
    assert not page.exists()


def test_names_of_others_are_text(gpurt: Gpurt, tmp_path: Path) -> None:
    """In names of files and of tasks alike; the page has no control character either."""
    text = TWO.read_text().replace('"detector"', '"<b>&amp;</b>"')
    path = Path(os.fsdecode(os.fsencode(tmp_path) + b"/<script>alert(1)<\\script>\x1b\xff\xe2\x80\xae.toml"))
    path.write_text(text)
    output = tmp_path / "page.html"
    assert gpurt("report", path, "--elsewhere", "-o", output)[0] in (0, 3)
    if output.exists():
        raw = output.read_text(encoding="utf-8")
        assert "<script" not in raw
        assert "<b>" not in raw
        assert all(character.isprintable() or character == "\n" for character in raw)
        check_structure(Page(raw))
    plain = tmp_path / "plain.toml"
    plain.write_text(TWO.read_text())
    path.write_text(plain.read_text())
    assert gpurt("report", path, "--elsewhere", "-o", output)[0] == 0
    assert "<script" not in output.read_text(encoding="utf-8")


def test_inputs_are_hashed_and_the_commands_run_again(gpurt: Gpurt, run: Path, tmp_path: Path) -> None:
    output = tmp_path / "a page.html"
    _, page, document = made(gpurt, TWO, output, "--elsewhere", "--trace", run)
    for one, path in zip(document["inputs"], (TWO, run), strict=True):
        assert one["sha256"] == hashlib.sha256(path.read_bytes()).hexdigest()
        assert one["sha256"] in page.text
    before = re.sub("Made [^ ]* by", "", output.read_text())
    commands = [shlex.split(one) for one in document["commands"]]
    called = [["analyze"], ["margins"], ["trace", "check"], ["report"]]
    assert [words[1 : 1 + len(call)] for words, call in zip(commands[1:], called, strict=True)] == called
    for words in commands[1:]:
        assert gpurt(*words[1:])[0] == 0
    assert re.sub("Made [^ ]* by", "", output.read_text()) == before


def test_the_output_is_none_of_the_inputs(gpurt: Gpurt, run: Path, tmp_path: Path) -> None:
    file = tmp_path / "set.toml"
    file.write_text(TWO.read_text())
    for target in (file, run):
        before = target.read_bytes()
        code, _, err = gpurt("report", file, "--elsewhere", "--trace", run, "-o", target)
        assert (code, target.read_bytes()) == (2, before)
        assert "this command reads or writes it already" in err


def colours(block: str) -> dict[str, str]:
    return dict(re.findall(r"--([a-z-]+): (#[0-9a-f]{6})", block))


def contrast(one: str, other: str) -> float:
    """WCAG 2.2, contrast ratio."""

    def luminance(colour: str) -> float:
        parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
        linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
        return sum(weight * part for weight, part in zip((0.2126, 0.7152, 0.0722), linear, strict=True))

    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def test_contrast_suffices_in_light_dark_and_print() -> None:
    """WCAG 2.2 AA: 4.5 for text."""
    blocks = re.findall(r":root \{(.*?)\}", STYLE, re.DOTALL)
    assert len(blocks) == 3
    for block in blocks:
        found = {**colours(blocks[0]), **colours(block)}
        for text in ("text", "quiet", "bad", "warn", "good", "link"):
            assert contrast(found[text], found["page"]) >= 4.5, text
        for text, page in (("text", "head"), ("bad", "bad-page"), ("warn", "warn-page"), ("text", "warn-page")):
            assert contrast(found[text], found[page]) >= 4.5, (text, page)


@pytest.mark.skipif(not shutil.which("chromium"), reason="needs chromium")
def test_a_browser_shows_it_and_fetches_nothing(gpurt: Gpurt, run: Path, tmp_path: Path) -> None:
    output, log = tmp_path / "page.html", tmp_path / "net.json"
    made(gpurt, TWO, output, "--trace", run)
    browser = ["chromium", "--headless=new", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path}/profile",
               "--disable-background-networking", "--disable-component-update", "--no-first-run"]  # fmt: skip
    done = subprocess.run([*browser, "--enable-logging=stderr", f"--log-net-log={log}", "--dump-dom", f"file://{output}"],
                          capture_output=True, text=True, check=True, timeout=1200)  # fmt: skip
    page = Page(done.stdout)
    assert [one for one in page.attributes("id") if one in SECTIONS] == SECTIONS
    assert [tag for tag, _ in page.elements].count("table") > 10
    assert "CONSOLE" not in done.stderr
    fetched = re.findall(r'"url":\s*"((?:https?|wss?|ftp):[^"]*)"', log.read_text())
    assert [url for url in fetched if "127.0.0.1" not in url and "google" not in url and "gvt" not in url] == []
    for suffix, option in (("png", "--screenshot"), ("pdf", "--print-to-pdf")):
        picture = tmp_path / f"page.{suffix}"
        command = [*browser, f"{option}={picture}", f"file://{output}"]
        subprocess.run(command, capture_output=True, check=True, timeout=1200)
        assert picture.stat().st_size > 10_000
