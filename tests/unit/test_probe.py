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

from probe import command, parts, running, summary, text  # noqa: E402

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


def on_fake(fake: Path, part: str, **extra: str) -> list[dict[str, Any]]:
    around = {**os.environ, "LD_LIBRARY_PATH": str(fake.parent), **extra}
    outcome = running.run_part(fake, part, running.Limits(30, 40, PATIENCE), environment=around)
    records, broken = summary.parse(outcome.output)
    assert (outcome.status, broken) == ("ok", 0), outcome
    return records


@needs_compiler
def test_groups_are_seen_through_the_process_s_own_calls(fake: Path) -> None:
    records = on_fake(fake, "objects")
    (group,) = [record for record in records if record["record"] == "group"]
    assert (group["handle"], group["subdevice"], group["channels"], group["compute"]) == ("0x4", "0x3", [5, 6], 1)
    freed = [record for record in records if record["record"] == "object" and not record["live"]]
    assert [record["handle"] for record in freed] == ["0x8"]
    assert group["gpu_instance"] == -1
    (divided,) = [one for one in on_fake(fake, "objects", FAKE_MIG="9") if one["record"] == "group"]
    assert divided["gpu_instance"] == 9


@needs_compiler
def test_controls_by_owner_and_by_others(fake: Path) -> None:
    records = on_fake(fake, "controls")
    assert records[-1] == {"record": "after", "synchronize": "ok", "guard_fired": 0}
    rights = "0" if os.geteuid() == 0 else "27"
    for caller in ("owner", "scm_rights", "pidfd_getfd"):
        own = [one for one in records if one.get("caller") == caller and one["uid"] == os.geteuid()]
        assert {status for one in own for status in one["statuses"]} <= {"0", rights}
        assert {one["control"] for one in own if set(one["statuses"]) == {"0"}} >= {"PREEMPT wait", "SET_TIMESLICE"}
        assert {status for one in own if one["control"] == "MAKE_REALTIME" for status in one["statuses"]} == {rights}
        assert all(len(one["ns"]) in (20, 30) for one in own)
    if os.geteuid() == 0:
        others = [one for one in records if one.get("uid") == 65534]
        assert [one for one in others if one.get("statuses") == {"27": 20} and one["control"] == "RESTART_RUNLIST"]


@needs_compiler
@pytest.mark.parametrize("release", ["535.54", "535.161", "545.23", "550.54", "570.86", "575.51", "595.45"])
def test_groups_are_scheduled_on_every_release(release: str, fake: Path) -> None:
    """GPFIFO_SCHEDULE has 2 bytes before 575.51.02, and what the driver says to other sizes is another in releases."""
    records = on_fake(fake, "controls", FAKE_RELEASE=release)
    scheduled = [one for one in records if str(one.get("control", "")).startswith("GPFIFO_SCHEDULE")]
    assert scheduled
    assert {status for one in scheduled for status in one["statuses"]} == {"0"}


@needs_compiler
def test_kernels_are_seen_to_stop_and_to_end_intact(fake: Path) -> None:
    for _ in range(10):  # on a busy machine the watching thread may miss stops, even all of a run
        records = [one for one in on_fake(fake, "stop") if one["record"] == "stop"]
        by_method = {one["method"]: one for one in records if one["load"] == "full"}
        stopped = by_method["GPFIFO_SCHEDULE + PREEMPT"]
        if stopped["stopped"]:
            break
    assert (stopped["off_status"], stopped["kernel_ended"]) == (0, "ok")
    assert stopped["stopped"] > 0
    assert max(stopped["gap_ns"]) >= 2_000_000
    assert by_method["PREEMPT"]["off_status"] == 0
    done = on_fake(fake, "intact")
    assert 0 < sum(one["preemptions"] for one in done) <= 40
    assert [one["wrong_words"] for one in done] == [0, 0]


@needs_compiler
def test_processes_side_by_side(fake: Path) -> None:
    records = on_fake(fake, "mps")
    assert [(one["percent"], one["others"]) for one in records] == [(100, 0), (25, 0), (50, 1), (25, 1)]
    assert all(one["ns"] and min(one["ns"]) >= 50_000 for one in records)


@needs_compiler
@no_driver
def test_a_crew_whose_members_die_leaves_errors_only(program: Path) -> None:
    result = subprocess.run([program, "mps", "1", "1", "30"], capture_output=True, text=True, check=True)
    records, broken = summary.parse(result.stdout)
    assert broken == 0
    assert {one["record"] for one in records} == {"error"}
    assert [one["what"] for one in records].count("a process of several") == 4


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--parts", "objects,clocks"], "no part is called 'clocks'"),
        (["--parts", ""], "no part is called ''"),
        (["--calls", "0"], "is not a number"),
        (["--calls", "ten"], "is not a number"),
        (["--preemptions", "-1"], ""),
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
    for part, code in (("info", 4), ("objects", 1), ("stop", 1), ("partition", 1)):
        result = subprocess.run([program, part, "1", "1", "10"], capture_output=True, text=True, check=False)
        records, broken = summary.parse(result.stdout)
        assert (result.returncode, broken) == (code, 0)
        assert [record["record"] for record in records] == ["error"]


@needs_compiler
@pytest.mark.parametrize(
    "arguments", [[], ["objects"], ["clocks", "1", "1", "1"], ["objects", "0", "1", "1"], ["objects", "1", "x", "1"]]
)
def test_program_refuses_what_it_does_not_know(program: Path, arguments: list[str]) -> None:
    result = subprocess.run([program, *arguments], capture_output=True, text=True, check=False)
    assert (result.returncode, result.stdout) == (2, "")


@needs_compiler
@pytest.mark.skipif(shutil.which("ptxas") is None, reason="needs ptxas")
@pytest.mark.parametrize("architecture", ["sm_75", "sm_90", "sm_100"])
def test_kernels_assemble(program: Path, tmp_path: Path, architecture: str) -> None:
    texts = subprocess.run([program, "ptx", "1", "1", "5"], capture_output=True, check=True).stdout.split(b"\0")
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
    stubborn = running.run(["sh", "-c", 'trap "" TERM; echo "{}"; sleep 100000 & wait'], 2)
    assert (stubborn.status, stubborn.output) == ("timeout", "{}\n")
    assert running.run(["sh", "-c", "exit 3"], PATIENCE).status == "timeout"
    assert running.run(["sh", "-c", "echo why >&2; exit 1"], PATIENCE).detail == "why"
    assert running.run(["sh", "-c", "exit 1"], PATIENCE).detail == "exit status 1"
    assert running.run(["true"], PATIENCE).status == "ok"


def test_what_a_part_leaves_behind_is_ended(tmp_path: Path) -> None:
    outcome = running.run(["sh", "-c", "sleep 100000 & echo $!"], PATIENCE)
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
    assert summary.parse('{"record":"a"}\n\n{"record":"b","ns":[1,\n[1]\n{"x":1}\n') == ([{"record": "a"}], 3)


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


def slices(process: int, start: int, end: int, gaps: list[int]) -> dict[str, Any]:
    record = {"record": "slices", "processes": 2, "load": "full", "slice_us": 0, "set_status": 0}
    return {**record, "clock_resolution_ns": 32, "process": process, "start": start, "end": end, "gaps": gaps}


def test_slices_and_switches() -> None:
    # A runs 0-100, 230-330, 460-560 and B 110-220, 340-450, 570-600: every switch takes 10
    records = [slices(0, 0, 560, [100, 230, 330, 460]), slices(1, 110, 600, [220, 340, 450, 570])]
    (found,) = summary.summarise(records)
    assert found["theta_ns"] == {"count": 5, "min": 10, "p50": 10, "p99": 10, "max": 10}
    assert found["slice_ns"] == {"count": 2, "min": 100, "p50": 100, "p99": 110, "max": 110}
    assert found["overlaps"] == 0
    assert summary.switches([[(0, 10)], [(5, 15)]]) == ([], 1)


def report() -> dict[str, Any]:
    records: list[dict[str, Any]] = [
        {"record": "control", "control": "PREEMPT wait", "caller": "owner", "statuses": {"0": 3}, "ns": [1500, 10, 20]},
        {"record": "stop", "off_status": 0x1B, "stop_ns": [], "alone_ns": 5_000_000},
        {"record": "group", "channels": list(range(20))},
    ]
    part = {"status": "timeout", "seconds": 1.0, "detail": "its time was up", "findings": summary.summarise(records)}
    return {
        "command": ["scripts/probe-nvidia"],
        "date": "2020-01-01T00:00:00+00:00",
        "gpu": {"name": "NVIDIA T0", "sm_count": 4, "cc_major": 7, "cc_minor": 5},
        "driver": {"version": "999.1", "known": summary.known_release("999.1"), "banner": "NVRM"},
        "system": {"kernel": "6.1", "uid": 0, "ptrace_scope": "none"},
        "notes": ["a note"],
        "parts": {"controls": part},
    }


def test_report_as_text() -> None:
    shown = text.render(json.loads(json.dumps(report())))
    for line in (
        "driver   999.1 (its layouts were not read before this run)",
        "note     a note",
        "controls: timeout after 1.0 s",
        "  its time was up",
        "  control: control PREEMPT wait, caller owner, statuses OK x 3",
        "      ns           p50 20 ns  p99 1.5 us  max 1.5 us  (3)",
        "  stop: off_status INSUFFICIENT_PERMISSIONS, alone_ns 5 ms",
        "      stop_ns      no samples",
    ):
        assert line in shown.splitlines()
    assert "and 8 more" in shown


def test_durations() -> None:
    given = (0, 999, 1000, 250_400, 999_999, 1_500_000_000)
    assert [text.duration(ns) for ns in given] == ["0 ns", "999 ns", "1 us", "250 us", "1000 us", "1.5 s"]


def test_parts_fit_into_eight_minutes() -> None:
    assert sum(part.seconds for part in parts.PARTS.values()) + 20 <= parts.TOTAL_S <= 480
    assert parts.refusal("mps", False, 400) is not None
    assert parts.refusal("mps", True, 400) is None
    assert parts.refusal("stop", True, 1) == "the whole run's time was up"


def test_a_partial_report_has_its_own_name() -> None:
    whole, some = command.arguments([]), command.arguments(["--parts", "stop,objects"])
    assert command.file_name(whole.parts, report()) == "t0-999.1"
    assert command.file_name(some.parts, report()) == "t0-999.1-objects-stop"
    assert os.fspath(whole.out).endswith("docs/hardware")
