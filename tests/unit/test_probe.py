"""scripts/probe-nvidia and userlib/probe, as far as they can run without a GPU."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from once import once

ROOT = Path(__file__).resolve().parent.parent.parent
COMMAND = ROOT / "scripts/probe-nvidia"
FAKES = Path(__file__).resolve().parent / "probe_fake"
#: How long a part may take before it counts as hung, seconds: far longer than a busy machine needs.
PATIENCE = 200
sys.path.insert(0, str(ROOT / "userlib"))

from probe import command, judge, parts, running, summary  # noqa: E402

needs_compiler = pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")
no_driver = pytest.mark.skipif(Path("/dev/nvidiactl").exists(), reason="an NVIDIA driver is here")


def probe_nvidia(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, str(COMMAND), *arguments], capture_output=True, text=True, check=False)


@pytest.fixture(scope="session")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return once(tmp_path_factory, "probe", running.build) / "probe"


@pytest.fixture(scope="session")
def fake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The probe on a fake driver and a fake libcuda (probe_fake); returns the program."""
    return once(tmp_path_factory, "fake", build_fake) / "probe"


def build_fake(folder: Path) -> None:
    program, driver = folder / "probe", folder / "driver.o"
    sources = sorted(map(str, running.SOURCES.glob("*.c")))
    subprocess.run(["cc", *running.FLAGS, "-c", str(FAKES / "driver.c"), "-o", str(driver)], check=True)
    both = ["cc", *running.FLAGS, "-Dsyscall=fake_syscall", *sources, str(driver), *running.LINK]
    subprocess.run([*both, "-o", str(program)], check=True)
    shared = ["-shared", "-fPIC", str(FAKES / "cuda.c"), "-o", str(folder / "libcuda.so.1")]
    subprocess.run(["cc", *running.FLAGS, *shared], check=True)


def on_fake(fake: Path, part: str, calls: int = 30, **extra: str) -> list[dict[str, Any]]:
    around = {**os.environ, "LD_LIBRARY_PATH": str(fake.parent), **extra}
    outcome = running.run_part(fake, part, PATIENCE, calls, around)
    records, broken = summary.parse_records(outcome.output)
    assert (outcome.status, broken) == ("ok", 0), outcome
    return records


@needs_compiler
@pytest.mark.parametrize("release", ["535.54", "570.86", "595.45"])
def test_groups_are_scheduled_on_every_release(release: str, fake: Path) -> None:
    """GPFIFO_SCHEDULE has 2 bytes before 575.51.02, and what the driver says to other sizes is another in releases."""
    records = on_fake(fake, "stop", FAKE_RELEASE=release)
    scheduled = [one for one in records if one.get("method") == "GPFIFO_SCHEDULE + PREEMPT"]
    assert [(one["off_status"], one["tried"] > 0) for one in scheduled] == [(0, True)] * 2


@needs_compiler
def test_kernels_are_seen_to_stop(fake: Path) -> None:
    for _ in range(10):  # on a busy machine the watching thread may miss stops, even all of a run
        records = [one for one in on_fake(fake, "stop") if one["record"] == "stop"]
        by_method = {one["method"]: one for one in records if one["load"] == "full"}
        stopped = by_method["GPFIFO_SCHEDULE + PREEMPT"]
        if stopped["stopped"]:
            break
    assert (stopped["off_status"], stopped["kernel_ended"]) == (0, "ok")
    assert stopped["stopped"] > 0
    assert max(stopped["gap_ns"]) >= 2_000_000
    assert by_method["FIFO_DISABLE_CHANNELS"]["off_status"] == 0


@needs_compiler
def test_every_scene_of_yield_is_told_and_judged(fake: Path) -> None:
    """The fake has no slices, and few samples are taken: nothing about delays may be said, but every question is."""
    records = on_fake(fake, "yield", calls=6)
    assert not [one for one in records if one["record"] == "error"]
    said = judge.judge_records(map(summary.summarise_one, records))
    asked = judge.judge_records(map(summary.summarise_one, yield_records()))
    assert [one["name"] for one in said] == [one["name"] for one in asked]
    assert {one["verdict"] for one in said if "a kernel waits" in one["name"]} == {"not known"}


@needs_compiler
@no_driver
def test_a_crew_whose_members_die_leaves_errors_only(program: Path) -> None:
    result = subprocess.run([program, "yield", "1", "60"], capture_output=True, text=True, check=True)
    records, broken = summary.parse_records(result.stdout)
    assert broken == 0
    assert {one["record"] for one in records} == {"error"}
    assert [one["what"] for one in records].count("a process of several") == 4


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--parts", "stop,clocks"], "no part is called 'clocks'"),
        (["--parts", ""], "no part is called ''"),
        (["--calls", "0"], "is not a number"),
        (["--calls", "ten"], "is not a number"),
        (["--reset"], "unrecognized arguments: --reset"),
    ],
)
def test_wrong_usage(arguments: list[str], says: str) -> None:
    result = probe_nvidia(*arguments)
    assert result.returncode == 2
    assert says in result.stderr
    assert result.stdout == ""


@no_driver
def test_no_gpu_is_one_line_and_exit_code_4(tmp_path: Path) -> None:
    result = probe_nvidia("--out", str(tmp_path / "reports"))
    assert result.returncode == 4
    assert result.stderr.splitlines() == ["probe-nvidia: no NVIDIA driver here: there is no /dev/nvidiactl"]
    assert result.stdout == ""
    assert not (tmp_path / "reports").exists()


@needs_compiler
@no_driver
def test_every_part_says_that_there_is_no_gpu(program: Path) -> None:
    for part, code in (("info", 4), ("stop", 1)):
        result = subprocess.run([program, part, "1", "10"], capture_output=True, text=True, check=False)
        records, broken = summary.parse_records(result.stdout)
        assert (result.returncode, broken) == (code, 0)
        assert [record["record"] for record in records] == ["error"]


@needs_compiler
@pytest.mark.parametrize(
    "arguments", [[], ["stop"], ["clocks", "1", "1"], ["stop", "0", "1"], ["stop", "1", "x"]]
)
def test_program_refuses_what_it_does_not_know(program: Path, arguments: list[str]) -> None:
    result = subprocess.run([program, *arguments], capture_output=True, text=True, check=False)
    assert (result.returncode, result.stdout) == (2, "")


@needs_compiler
@pytest.mark.skipif(shutil.which("ptxas") is None, reason="needs ptxas")
@pytest.mark.parametrize("architecture", ["sm_75", "sm_90", "sm_100"])
def test_kernels_assemble(program: Path, tmp_path: Path, architecture: str) -> None:
    texts = subprocess.run([program, "ptx", "1", "5"], capture_output=True, check=True).stdout.split(b"\0")
    assert len(texts) == 3
    for index, kernel in enumerate(texts[:2]):
        source = tmp_path / f"{index}.ptx"
        source.write_bytes(kernel)
        subprocess.run(["ptxas", f"-arch={architecture}", source, "-o", tmp_path / "out"], check=True)


def test_a_compiler_that_is_missing_or_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CC", "no-such-compiler")
    with pytest.raises(running.CannotBuild, match="no C compiler"):
        running.build(tmp_path)
    monkeypatch.setenv("CC", "false")
    with pytest.raises(running.CannotBuild, match="fails: without a word"):
        running.build(tmp_path)


def test_parts_end_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running, "GRACE_S", 0.3)
    # if it were not ended, it would outlast the limit that pytest has for a test
    stubborn = running.run_session(["sh", "-c", 'trap "" TERM; echo "{}"; sleep 100000 & wait'], 2)
    assert (stubborn.status, stubborn.output) == ("timeout", "{}\n")
    assert running.run_session(["sh", "-c", "exit 3"], PATIENCE).status == "timeout"
    assert running.run_session(["sh", "-c", "echo why >&2; exit 1"], PATIENCE).detail == "why"
    assert running.run_session(["sh", "-c", "exit 1"], PATIENCE).detail == "exit status 1"
    assert running.run_session(["true"], PATIENCE).status == "ok"


def test_what_a_part_leaves_behind_is_ended(tmp_path: Path) -> None:
    outcome = running.run_session(["sh", "-c", "sleep 100000 & echo $!"], PATIENCE)
    assert outcome.status == "ok"
    state = Path(f"/proc/{int(outcome.output)}/stat")
    end = time.monotonic() + PATIENCE
    while alive(state):
        assert time.monotonic() < end
        time.sleep(0.01)


def alive(state: Path) -> bool:
    """Whether the process of that /proc/PID/stat runs.  A zombie does not: its new parent may be slow to reap it."""
    try:
        return state.read_text().split()[2] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_percentiles_are_nearest_ranks() -> None:
    samples = list(range(100, 0, -1))
    assert [summary.percentile(samples, percent) for percent in (0, 1, 50, 99, 99.5, 100)] == [1, 1, 50, 99, 100, 100]
    assert summary.percentile([7], 50) == 7
    for bad in ([], [1]):
        with pytest.raises(ValueError, match="percentile"):
            summary.percentile(bad, 101)
    assert summary.spread([]) == {"count": 0}
    assert summary.spread([3, 1, 2]) == {"count": 3, "min": 1, "p50": 2, "p99": 3, "max": 3}


def test_broken_lines_are_counted() -> None:
    assert summary.parse_records('{"record":"a"}\n\n{"record":"b","ns":[1,\n[1]\n{"x":1}\n') == ([{"record": "a"}], 3)


def test_statuses_have_names() -> None:
    assert len(summary.status_names()) == 22
    assert [summary.status_name(status) for status in (0, 0x1B, -25, 0x7777)] == [
        "OK",
        "INSUFFICIENT_PERMISSIONS",
        "errno 25",
        "status 0x7777",
    ]


@pytest.mark.parametrize(
    ("version", "known"),
    [
        ("515.43.04", True),
        ("550.90.07", True),
        ("580.82", True),
        ("595.45.04", True),
        ("595.45.05", False),
        ("470.57.02", False),
        ("unknown", False),
        ("", False),
    ],
)
def test_releases_that_are_known(version: str, known: bool) -> None:
    assert summary.known_release(version) is known


YIELD = {"slice_status": 0, "calls": 200, "others": 1, "own_us": 10**6, "slice_us": 2}
SECOND = 10**9


def turns(scene: str, slice_us: int, gaps: int, **more: Any) -> dict[str, Any]:
    each = {"executed_ns": [slice_us * 1000 - 5000] * gaps, "gap_ns": [2 * 220_000 + slice_us * 1000] * gaps}
    return {"record": "turns", **YIELD, "scene": scene, "slice_us": slice_us, "wall_ns": SECOND, **each, **more}


def delay(scene: str, others: int, slice_us: int) -> dict[str, Any]:
    ns = [70_000 + (others > 0) * 220_000 + others * (220_000 + 1000 * slice_us) * step // 2000 for step in range(2000)]
    return {"record": "delay", **YIELD, "scene": scene, "others": others, "slice_us": slice_us, "ns": ns}


def yield_records() -> list[dict[str, Any]]:
    """Part yield on a GPU as the specification's model has it: a switch takes 220 us."""
    scenes = ("others go off and on", "others set slices", "others make contexts")
    marks = ("slice after off and on", "slice of a new channel", "slice changed while running")
    own = [{"record": "own calls", **YIELD, "what": what, "busy": busy, "status": 0, "tried": 50, "stopped": 50 * busy,
            "off_ns": [800_000] * 50} for busy in (0, 1) for what in ("all groups", "compute groups")]  # fmt: skip
    return [
        *(turns("turns", us, 200) for us in (1, 2, 5, 10, 20, 50, 100, 200)),
        *(turns(scene, 2, 0) for scene in ("alone, one stream", "alone, two streams", "bursts")),
        delay("no others", 0, 0), *(delay("delays", others, us) for us in (2, 500) for others in (1, 2, 3, 4)),
        *(delay(scene, 1, 2) for scene in ("registers and shared memory", "copies", "managed memory")),
        {"record": "burst", **YIELD, "kernels": 200, "kernel_ns": 50_000, "wall_ns": 200 * 55_000},
        *({"record": "pauses", **YIELD, "pause_us": us, "ns": [70_000 if us < 50 else 500_000] * 200}
          for us in (0, 1, 2, 5, 10, 20, 50, 100)),
        *(turns(scene, 2, 0) for scene in scenes), *(turns(scene, 200, 100) for scene in marks), *own,
        *({"record": "kept off", **YIELD, "what": what, "status": 0, "moved": 0}
          for what in ("PREEMPT after FIFO_DISABLE_CHANNELS", "bOnlyDisableScheduling")),
        *({"record": "strangers", "others": others, "groups": "compute", "off_status": 0, "tried": 25, "stopped": 25,
           "off_ns": [800_000]} for others in (1, 2, 4)),
    ]  # fmt: skip


def verdicts(**changed: Any) -> dict[str, str]:
    """The verdicts that differ from confirmed, where records of that kind or scene have other values."""
    records = yield_records()
    for where, values in changed.items():
        for one in records:
            if where.replace("_", " ") in (one["record"], one.get("scene")):
                one.update(values)
    found = judge.judge_records(map(summary.summarise_one, records))
    return {one["name"]: one["verdict"] for one in found if one["verdict"] != "confirmed"}


def test_a_gpu_as_the_model_has_it_confirms_all_but_pauses() -> None:
    assert verdicts() == {"it keeps the GPU between kernels up to 100 us apart": "refuted"}


@pytest.mark.parametrize(
    ("changed", "name", "expected"),
    [
        ({"turns": {"executed_ns": [3_000_000] * 99}}, "a group past its slice yields at once", "refuted"),
        ({"turns": {"executed_ns": [1000]}}, "a group past its slice yields at once", "not known"),
        ({"turns": {"slice_status": 0x1B}}, "a switch takes 250 us at most", "not known"),
        ({"turns": {"gap_ns": [2_000_000] * 99}}, "a switch takes 250 us at most", "refuted"),
        ({"alone,_two streams": {"gap_ns": [30_000]}}, "a group that is alone, two streams, is not cut", "refuted"),
        ({"alone,_two streams": {"wall_ns": 10}}, "a group that is alone, two streams, is not cut", "not known"),
        ({"others_go off and on": {"gap_ns": [99_000]}}, "it executes on while others go off and on", "refuted"),
        ({"others_make contexts": {"calls": 0}}, "it executes on while others make contexts", "not known"),
        ({"slice_of a new channel": {"executed_ns": [2_000_000] * 99}}, "slice of a new channel: 200 us", "refuted"),
        ({"kept_off": {"moved": 1}}, "bOnlyDisableScheduling: the group is off", "refuted"),
        ({"strangers": {"stopped": 3}}, "one call takes 4 other processes off", "refuted"),
        ({"own_calls": {"status": 0x1B}}, "a busy process goes off, all groups", "not known"),
        ({"burst": {"wall_ns": 200 * 490_000}}, "it keeps the GPU for kernels back to back", "refuted"),
    ],
)  # fmt: skip
def test_what_was_measured_decides(changed: dict[str, Any], name: str, expected: str) -> None:
    assert verdicts(**changed)[name] == expected


@pytest.mark.parametrize(("worst", "count", "expected"), [(5, 2000, None), (90, 1, "not known"), (90, 90, "refuted")])
def test_one_late_sample_may_be_the_cpu_s(worst: int, count: int, expected: str | None) -> None:
    """The worst of all decides only together with the 99th percentile; few samples decide nothing."""
    ns = [300_000] * (2000 - count) + [worst * 100_000] * count
    name = "beside 1 at 2 us a kernel waits for 1 slices and 2 switches at most"
    assert verdicts(delays={"ns": ns}).get(name) == expected


REPORT = {"gpu": {"name": "NVIDIA T0"}, "driver": {"version": "999.1"}}


def test_a_report_has_a_line_for_each_finding(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Samples as their spread, and statuses by their names."""
    records: list[dict[str, Any]] = [
        {"record": "pauses", "pause_us": 5, "slice_status": 0, "ns": [1500, 10, 20]},
        {"record": "stop", "off_status": 0x1B, "stop_ns": [], "alone_ns": 5_000_000},
    ]
    findings = [summary.summarise_one(one) for one in records]
    command.write_report(command.arguments(["--out", str(tmp_path)]), {**REPORT, "findings": findings * 9})
    shown = (tmp_path / "t0-999.1.json").read_text()
    assert capsys.readouterr().out == shown
    lines = [json.loads(line.strip().strip(",")) for line in shown.splitlines() if '"record"' in line]
    assert lines == findings * 9
    spread = {"count": 3, "min": 10, "p50": 20, "p99": 1500, "max": 1500}
    assert findings[0] == {**records[0], "slice_status": "OK", "ns": spread}
    assert findings[1] == {**records[1], "off_status": "INSUFFICIENT_PERMISSIONS", "stop_ns": {"count": 0}}


def test_parts_fit_into_eight_minutes() -> None:
    assert sum(parts.PARTS[name].seconds + parts.SPARE_S for name in parts.WHOLE) <= 300
    assert parts.PARTS["yield"].seconds + parts.SPARE_S <= parts.TOTAL_S <= 480


def test_a_part_for_which_no_time_is_left_is_not_run(program: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parts, "TOTAL_S", 1)
    ((name, part),) = parts.run_all(parts.Options(("stop",), 1), program)
    assert (name, part["status"], part["detail"]) == ("stop", "not run", "the run's time was up")


def test_a_partial_report_has_its_own_name() -> None:
    whole, some = command.arguments([]), command.arguments(["--parts", "stop,yield"])
    assert command.file_name(whole.parts, REPORT) == "t0-999.1"
    assert command.file_name(some.parts, REPORT) == "t0-999.1-stop-yield"
    assert os.fspath(whole.out).endswith("docs/hardware")
