"""The command line without a host: outputs, exit codes, and errors of one line."""

from __future__ import annotations

import getpass
import inspect
import json
import os
import platform
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import click
import pytest
from calls import Gpurt, caller
from effort import tries
from hypothesis import given, settings
from hypothesis import strategies as st
from links import listening

from pycontrol import cli
from pycontrol.table import paths

ROOT = Path(__file__).resolve().parents[2]
CASE_STUDY = str(ROOT / "examples/case-study.toml")
MINIMAL = str(ROOT / "examples/minimal.toml")
JSON_FILE = str(ROOT / "docs/output.schema.json")
EXAMPLE2 = str(ROOT / "examples/example2.toml")


@pytest.fixture
def gpurt(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Gpurt:
    """Runs the command in this process: exit code, stdout, stderr."""
    monkeypatch.setenv("GPURT_DEVICE", str(tmp_path / "no-host"))
    return caller(capsys)


def one_line(err: str) -> bool:
    return err.count("\n") == 1 and err.startswith("gpurt: ") and "Traceback" not in err


def exit_codes(gpurt: Gpurt, name: str) -> set[int]:
    """The exit codes that a command's help lists."""
    text = " ".join(gpurt(*name.split(), "--help")[1].partition("Exit codes:")[2].split())
    return {int(word) for word in re.findall(r"(?:^|[;,] )(\d+)(?= |;|\.|$)", text.strip())}


def commands() -> list[str]:
    """All commands, with their groups."""
    return list(cli.LEAVES)


@pytest.mark.parametrize("name", commands())
def test_every_command_has_examples_and_exit_codes(gpurt: Gpurt, name: str) -> None:
    code, out, _ = gpurt(*name.split(), "--help")
    assert code == 0
    assert "Examples:" in out
    assert f"gpurt {name}" in out
    assert all(c.isprintable() or c == "\n" for c in out)
    assert gpurt(*name.split(), "--no-such-option")[0] == 2


@pytest.mark.parametrize("name", commands())
def test_help_lists_the_exit_codes(gpurt: Gpurt, name: str) -> None:
    """Those of every command; of commands with files also 3, of those that ask a host also 4."""
    listed = exit_codes(gpurt, name)
    command = cli.find_command(name)
    files = any(isinstance(one.type, click.Path) and one.name != "path" for one in command.params)
    asks = "device" in inspect.signature(inspect.unwrap(command.callback or print)).parameters
    hosts = asks and name not in ("doctor", "report")  # which say that there is none
    assert listed >= {0, 2} | ({3} if files else set()) | ({4} if hosts else set())


def test_man_pages_are_those_of_the_commands(tmp_path: Path) -> None:
    """Each command has a page, with each option that its --help has."""
    subprocess.run([sys.executable, str(ROOT / "scripts/make-man"), "--out", str(tmp_path)], check=True)
    pages = {path.stem: path.read_text(encoding="utf-8").replace("\\-", "-") for path in tmp_path.iterdir()}
    assert pages.keys() == {"gpurt"} | {f"gpurt-{name.replace(' ', '-')}" for name, _ in paths()}
    for name in commands():
        for option in (one for known in cli.find_command(name).params for one in known.opts if one.startswith("--")):
            assert option in pages[f"gpurt-{name.replace(' ', '-')}"], (name, option)


def test_help_and_version_are_quick_to_import() -> None:
    """The list of all commands imports none of them."""
    slow = ("matplotlib", "numpy", "pyroute2", "analysis", "pycontrol.link", "prometheus_client", "jinja2")
    code = (
        "import sys; from pycontrol.cli import cli; cli(['--help'], standalone_mode=False); "
        f"print(*[name for name in {slow} if name in sys.modules], file=sys.stderr)"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "analyze" in run.stdout
    assert run.stderr.split() == []


def test_a_user_s_own_package_named_analysis_is_not_taken_for_ours(tmp_path: Path) -> None:
    """ROS workspaces set PYTHONPATH for every program."""
    (tmp_path / "analysis").mkdir()
    (tmp_path / "analysis/__init__.py").write_text("raise RuntimeError('the user's own')\n")
    command = [sys.executable, "-c", "from pycontrol.start import main; main()", "analyze", MINIMAL]
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    run = subprocess.run(command, capture_output=True, text=True, check=False, env=environment, cwd=tmp_path)
    assert run.returncode == 0, run.stderr
    assert "yes" in run.stdout


def test_a_file_that_may_not_be_read_is_no_wrong_usage(gpurt: Gpurt, monkeypatch: pytest.MonkeyPatch) -> None:
    """Exit code 3 is of such files: who opens one tells, and click, which asks access(2) before, does not."""
    monkeypatch.setattr(os, "access", lambda *_, **__: False)
    assert gpurt("analyze", MINIMAL)[0] == 0


def test_analyze_exit_codes(gpurt: Gpurt) -> None:
    assert gpurt("analyze", MINIMAL)[0] == 0
    assert gpurt("analyze", EXAMPLE2, "--test", "gcaps-suspend")[0] == 1
    assert gpurt("analyze", CASE_STUDY, "--test", "tsg-rr-busy", "--test", "gcaps-suspend")[0] == 0


def test_analyze_prints_what_the_registry_says(gpurt: Gpurt) -> None:
    from analysis.answers import registry
    from analysis.taskset import load

    code, out, _ = gpurt("analyze", CASE_STUDY, "--json", "--test", "gcaps-busy")
    assert code == 1  # its tasks suspend
    (test,) = json.loads(out)["tests"]
    result = registry.find_test("gcaps-busy").run(load(CASE_STUDY).taskset)
    for task, entry in test["tasks"].items():
        assert entry["wcrt_ns"] == result.wcrt(task)
        if entry["terms"]:
            assert sum(term["amount_ns"] for term in entry["terms"]) == entry["wcrt_ns"]


def test_analyze_explains_and_warns(gpurt: Gpurt) -> None:
    out = gpurt("experiment", "bounds", EXAMPLE2, "--test", "gcaps-suspend-printed", "--explain", "t3")[1]
    assert "UNSOUND" in out
    assert "lemma 13" in out
    assert "153.000" in out
    code, out, _ = gpurt("analyze", EXAMPLE2, "--test", "gcaps-suspend")
    assert code == 1
    assert "NOT PROVED" in out
    assert "t4: no bound below the deadline" in out


def test_assign_writes_only_when_asked(gpurt: Gpurt, tmp_path: Path) -> None:
    path = tmp_path / "set.toml"
    text = """# keep me
[platform]
cpus = 2
epsilon = "0ns"
[[task]]
name = "b"
cpu = 0
priority = 9
period = "100ms"
segments = [{ misc = "0ms", gpu = "30ms" }]
[[task]]
name = "c"
cpu = 1
priority = 1
period = "120ms"
deadline = "20ms"
segments = [{ misc = "0ms", gpu = "8ms" }]
"""
    path.write_text(text)
    code, out, _ = gpurt("plan", "priorities", str(path), "--json")
    assert code == 0
    assert {name: one["gpu_priority"] for name, one in json.loads(out)["tasks"].items()} == {"b": 1, "c": 9}
    assert path.read_text() == text
    assert gpurt("analyze", str(path), "--test", "boosted-suspend")[0] == 1
    assert gpurt("plan", "priorities", str(path), "--write")[0] == 0
    assert path.read_text().startswith("# keep me\n")
    assert gpurt("analyze", str(path), "--test", "boosted-suspend")[0] == 0
    assert "nothing to assign" in gpurt("plan", "priorities", str(path))[1]
    assert gpurt("plan", "priorities", EXAMPLE2)[0] == 1


def test_simulate_and_check(gpurt: Gpurt, tmp_path: Path) -> None:
    trace = tmp_path / "run.json"
    code, out, _ = gpurt("simulate", MINIMAL, "--runs", "20", "-o", str(trace), "--json")
    assert code == 0
    seen = json.loads(out)["tasks"]
    assert all(entry["mort_ns"] <= entry["wcrt_ns"] for entry in seen.values())
    code, out, _ = gpurt("trace", "check", str(trace), MINIMAL, "--test", "boosted-suspend", "--json")
    assert code == 0
    assert {name: entry["verdict"] for name, entry in json.loads(out)["tasks"].items()} == dict.fromkeys(seen, "ok")


def test_check_finds_a_miss_and_a_broken_bound(gpurt: Gpurt, tmp_path: Path) -> None:
    from analysis.traces.trace import Event, Kind, Trace, load_trace

    trace = tmp_path / "bad.json"
    Trace({"policy": "segment"}, (Event(31_000_000, Kind.COMPLETE, "camera", 1, 31_000_000),)).save(trace)
    code, out, err = gpurt("trace", "check", str(trace), MINIMAL)
    assert code == 1
    assert "MISSED" in out
    assert "note: tasks were late: `gpurt doctor` says what delays them on this machine" in err
    code, out, err = gpurt("trace", "check", str(trace), MINIMAL, "--test", "gcaps-suspend")
    assert code == 1
    assert "ABOVE ITS BOUND" in out
    assert "`gpurt doctor`" in err
    Trace({"clock": "virtual"}, load_trace(trace).events).save(trace)  # no machine delays a simulated task
    assert "late" not in gpurt("trace", "check", str(trace), MINIMAL)[2]


def test_check_counts_what_never_finished(gpurt: Gpurt, tmp_path: Path) -> None:
    from analysis.traces.trace import Event, Kind, Trace

    trace = tmp_path / "cut.json"
    done = (Event(0, Kind.RELEASE, "camera"), Event(5_000_000, Kind.COMPLETE, "camera", 1, 5_000_000))
    released = Event(10_000_000, Kind.RELEASE, "camera")
    for until, misses in ((40_000_000, 0), (40_000_001, 1)):  # camera's deadline is 30 ms
        Trace({}, (*done, released), until=until).save(trace)
        code, out, _ = gpurt("trace", "check", str(trace), MINIMAL, "--json")
        assert code == 1  # mapping was not seen
        assert json.loads(out)["tasks"]["camera"]["misses"] == misses


def test_check_says_which_names_it_does_not_know(gpurt: Gpurt, tmp_path: Path) -> None:
    from analysis.traces.trace import Event, Kind, Trace

    trace = tmp_path / "names.json"
    Trace({}, tuple(Event(0, Kind.BEGIN, name) for name in ("camera-12", "camera-x", "mapping", "x-1"))).save(trace)
    code, _, err = gpurt("trace", "check", str(trace), MINIMAL)
    assert code == 1
    assert f"in the trace, but no task of {MINIMAL}: camera-x, x-1" in err
    twins = tmp_path / "twins.toml"
    twins.write_text("[platform]\ncpus = 1\n" + "".join(
        f'[[task]]\nname = "{name}"\ncpu = 0\npriority = 1\nperiod = "1s"\nsegments = [{{ cpu = "1ms" }}]\n'
        f'command = ["/usr/bin/camera"]\n' for name in "ab"))  # fmt: skip
    Trace({}, (Event(0, Kind.BEGIN, "camera-12"),)).save(trace)
    assert gpurt("trace", "check", str(trace), str(twins))[0] == 3  # it could be either


def test_check_says_what_a_trace_lacks(gpurt: Gpurt, tmp_path: Path) -> None:
    from analysis.traces.trace import Event, Kind, Trace

    trace = tmp_path / "lost.json"
    job = Event(5_000_000, Kind.COMPLETE, "camera", 1, 5_000_000)
    about = {"policy": "segment", "placement": "folded"}
    Trace(about, (job, Event(6_000_000, Kind.LOST, detail="9 events lost"))).save(trace)
    _, _, err = gpurt("trace", "check", str(trace), MINIMAL, "--test", "gcaps-suspend")
    assert "note: 9 events lost" in err
    assert "folded the file's CPUs" in err
    assert "folded the file's CPUs" in gpurt("trace", "check", str(trace), MINIMAL)[2]  # whatever the test


def test_a_trace_has_named_tracks_and_preemptions(gpurt: Gpurt, tmp_path: Path) -> None:
    trace = tmp_path / "run.json"
    assert gpurt("simulate", CASE_STUDY, "--policy", "segment", "--runs", "1", "-o", str(trace))[0] in (0, 1)
    entries = json.loads(trace.read_text())["traceEvents"]
    tracks = [entry["args"]["name"] for entry in entries if entry["name"] == "thread_name"]
    tasks = ["histogram", "mmul_gpu_1", "mmul_cpu", "projection", "dxtc", "mmul_gpu_2", "simpleTexture3D"]
    assert tracks == ["CPU 1", "CPU 2", "CPU 4", "CPU 5", "GPU 0", *tasks, "all tasks"]
    preempted = {entry["args"].get("by") for entry in entries if entry.get("cat") == "preempt"}
    assert None not in preempted
    assert preempted <= set(tasks)


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["nope"], 2, "no command"),
        (["analyze"], 2, "Missing argument"),
        (["analyze", "/nonexistent"], 3, "No such file"),
        (["analyze", MINIMAL, "--test", "gcaps"], 2, "did you mean"),
        (["analyze", MINIMAL, "--explain", "nobody"], 2, "no task"),
        (["plan", "priorities", MINIMAL, "--test", "tsg-rr-busy"], 2, "no GPU priorities"),
        (["simulate", MINIMAL, "--policy", "fair"], 2, "no policy"),
        (["simulate", MINIMAL, "--runs", "0"], 2, "0 is not in the range"),
        (["trace", "check", MINIMAL, MINIMAL], 3, "the trace comes first"),
        (["trace", "check", MINIMAL, JSON_FILE], 3, "the trace comes first"),
        (["analyze", JSON_FILE], 3, "this is JSON, and taskset files are TOML: examples/minimal.toml is one"),
        (["simulate", MINIMAL, "--policy", "GCAPS"], 2, 'what others call GCAPS is "segment" here'),
        (["trace", "check", "/nonexistent", MINIMAL], 3, "No such file"),
        (["status"], 4, "no host"),
        (["status", "clients"], 4, "no host"),
        (["trace", "record", "-o", "x"], 4, "no host"),
        (["run", MINIMAL], 4, "no host"),
        (["apply", MINIMAL], 4, "no host"),
        (["measure", "times", "--", "true"], 4, "no host"),
        (["set", "priority", "100", "1"], 2, "is not in the range 0<=x<=99"),
        (["status", "clients", "--gpu", "99999999999999999999"], 2, "is not in the range 0<=x<=4294967295"),
        (["set", "budget", "1", "--time", "5"], 2, "no unit"),
        (["set", "budget", "1", "--time", "5ms"], 2, "needs a --period"),
        (["set", "budget", "--time", "5ms", "--period", "1s"], 2, "name a process"),
        (["status", "rules"], 4, "no host"),
        (["set", "rule", "bar", "--pid", "1", "--name", "x"], 2, "exactly one"),
        (["set", "priority", "1", "abc"], 4, "no host"),
        (["set", "slice", "abc"], 2, "'abc' is not a valid process id"),
        (["set", "priority", "1", ""], 2, "'' is not a valid process id"),
        (["set", "policy", "boosted", "--poll-period", "1ms"], 2, "go with policy job"),
        (["demo", "--policy", "fair"], 2, "no set-up"),
        (["help", "completion", "tcsh"], 2, "name a shell"),
        (["help", "completion"], 2, "help completion bash|zsh|fish"),
        (["set", "rule", "exempt", "camera"], 2, "(camera): name exactly one of --pid"),
        (["status", "--device", "x"], 2, "before the command: gpurt --device PATH status"),
        (["set", "group", "", "1"], 2, "'' is not 1 to 31 printable"),
        (["run", "--group", "a\x01", "--", "true"], 2, "is not 1 to 31 printable"),
        (["run", "/bin/true"], 2, "gpurt run --auto -- /bin/true"),
    ],
)
def test_mistakes_get_one_line_and_their_exit_code(gpurt: Gpurt, arguments: list[str], code: int, words: str) -> None:
    got, out, err = gpurt(*arguments)
    assert (got, out) == (code, "")
    assert one_line(err)
    assert words in err
    known = dict(paths())
    name = next((name for name in (" ".join(arguments[:count]) for count in (3, 2, 1)) if name in known), "")
    assert not name or code in exit_codes(gpurt, name)


def test_every_problem_of_a_file_gets_its_line(gpurt: Gpurt, tmp_path: Path) -> None:
    path = tmp_path / "bad.toml"
    path.write_text("[platform]\ncpus = 0\nfoo = 1\n")
    code, _, err = gpurt("analyze", str(path))
    assert code == 3
    assert [line.split(": ")[1] for line in err.splitlines()] == [f"{path}:2", f"{path}:3"]


def test_doctor_names_a_cure_for_everything_that_is_not_well(gpurt: Gpurt) -> None:
    code, out, _ = gpurt("doctor", "--json")
    findings = json.loads(out)["findings"]
    assert code == 1  # there is no host
    assert {finding["name"] for finding in findings if finding["status"] == "fail"} == {"host"}
    assert all(finding["cure"] for finding in findings if finding["status"] != "ok")


def test_doctor_reads_what_the_machine_says(tmp_path: Path) -> None:
    from pycontrol.observe.doctor import Status, examine

    def write(name: str, text: str) -> None:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    write("proc/sys/kernel/sched_rt_runtime_us", "-1\n")
    write("proc/sys/kernel/sched_rt_period_us", "1000000\n")
    write("sys/kernel/realtime", "1\n")
    write("sys/devices/system/cpu/isolated", "2-3\n")
    write("sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "powersave\n")
    write("dev/kfd", "")
    found = {finding.name: finding for finding in examine(str(tmp_path / "none"), tmp_path)}
    assert found["real-time throttling"].status is Status.OK
    assert found["kernel preemption"].status is Status.OK
    assert "2-3" in found["CPU isolation"].text
    assert found["CPU frequency"].status is Status.WARN
    assert "amdgpu" in found["GPU driver"].text
    assert "tier T1" in found["GPU driver"].text
    write("sys/module/amdgpu/parameters/cwsr_enable", "0\n")
    _, driver = (one for one in examine(str(tmp_path / "none"), tmp_path) if one.name == "GPU driver")
    assert "nothing is preempted (tier T0)" in driver.text
    assert "cwsr_enable=1" in driver.cure
    write("sys/module/amdgpu/parameters/user_queue", "1\n")
    daemon = listening(tmp_path / "tmp/nvidia-mps/control")
    write("usr/lib/x86_64-linux-gnu/libamdhip64.so.5.7.31921", "")
    assert not [one for one in examine(str(tmp_path / "none"), tmp_path) if one.name == "HIP"]
    write("opt/rocm-9.10.0/lib/libamdhip64.so.9.10.1", "")
    (newer,) = (one for one in examine(str(tmp_path / "none"), tmp_path) if one.name == "HIP")
    assert (newer.status, newer.text[:9]) == (Status.WARN, "HIP 9.10 ")
    found = {finding.name: finding for finding in examine(str(tmp_path / "none"), tmp_path)}
    for name, cure in (("user queues", "user_queue=0"), ("MPS", "echo quit | nvidia-cuda-mps-control")):
        assert (found[name].status, "(tier T0)" in found[name].text) == (Status.WARN, True)
        assert cure in found[name].cure
    daemon.close()
    assert "MPS" not in [one.name for one in examine(str(tmp_path / "none"), tmp_path)]


def test_doctor_knows_what_refuses_real_time_priorities_and_what_compiles_modules(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """RT_GROUP_SCHED beside cgroup v2, a filter of system calls, a kernel that clang compiled."""
    from pycontrol.observe import doctor

    def found(name: str, **files: str) -> doctor.Diagnosis | None:
        for path, content in files.items():
            there = tmp_path / path.replace("__", "/")
            there.parent.mkdir(parents=True, exist_ok=True)
            there.write_text(content)
        return next((one for one in doctor.examine(str(tmp_path / "none"), tmp_path) if one.name == name), None)

    monkeypatch.setattr(doctor, "fifo_permitted", lambda priority=1: True)
    assert "not published" in str(found("RT group scheduling"))
    assert "off, as far as" in str(found("RT group scheduling", proc__kallsyms="0 T rt_mutex_lock\n"))
    assert "not published" in str(found("RT group scheduling", proc__version="Linux version 6.12 (clang version 19)\n"))
    named = found("RT group scheduling", proc__kallsyms="0 T sched_group_set_rt_runtime\n", proc__version="gcc\n")
    assert "this cgroup may" in str(named)
    config = {f"boot__config-{platform.release()}": "CONFIG_RT_GROUP_SCHED=y\n"}
    said = found("RT group scheduling", **config)
    assert said
    assert (said.status, "this cgroup may" in said.text) == (doctor.Status.OK, True)
    monkeypatch.setattr(doctor, "fifo_permitted", lambda priority=1: False)
    assert "write a budget" in str(found("RT group scheduling", **config))
    said = found("RT group scheduling", **{"sys__fs__cgroup__cgroup.controllers": "cpu\n"})
    assert said
    assert (said.status, "can give no cgroup a budget" in said.text) == (doctor.Status.WARN, True)
    assert "rt_group_sched=0" in (said.cure or "")
    said = found("RT group scheduling", proc__cmdline="quiet rt_group_sched=0\n")
    assert said
    assert said.status is doctor.Status.OK
    monkeypatch.setattr(doctor, "fifo_forbidden", lambda priority: False)
    assert "RestrictRealtime" not in str(found("SCHED_FIFO", proc__self__status="Seccomp:\t0\n"))
    assert "RestrictRealtime=no" in str(found("SCHED_FIFO", proc__self__status="Seccomp:\t2\n"))
    assert found("kernel's compiler", proc__version="Linux version 6.12 (gcc 14.2)") is None
    built = "Linux version 6.12 (Debian clang version 19.1.7)"
    assert "install clang" in str(found("kernel's compiler", proc__version=built))
    said = found("kernel's compiler", usr__bin__clang="")
    assert said
    assert (said.status, said.cure) == (doctor.Status.OK, "make -C kmod LLVM=1")


def test_doctor_names_no_group_that_there_is_not(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from pycontrol.observe import doctor

    def cure() -> str:
        (said,) = (one for one in doctor.examine(str(tmp_path / "none"), tmp_path) if one.name == "SCHED_FIFO")
        return said.cure or ""

    monkeypatch.setattr(doctor, "fifo_permitted", lambda priority: False)
    monkeypatch.setattr(doctor, "fifo_forbidden", lambda priority: True)
    monkeypatch.setattr(doctor.grp, "getgrnam", lambda name: {}[name])
    assert cure().startswith(f"add '{getpass.getuser()} - rtprio 98'")
    monkeypatch.setattr(doctor.grp, "getgrnam", lambda name: SimpleNamespace(gr_name=name))
    assert cure().startswith("add '@gpurt - rtprio 98'")


@pytest.mark.parametrize(
    ("said", "text"),
    [
        ("NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  595.45.04  Release\n", "patches for release 595"),
        ("NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  550.120  Release\n", "release 550 has no patches"),
        ("NVRM version: NVIDIA UNIX x86_64 Kernel Module  595.45.04  Tue\n", "proprietary modules cannot be patched"),
    ],
)
def test_doctor_knows_which_of_nvidias_modules_can_be_patched(tmp_path: Path, said: str, text: str) -> None:
    from pycontrol.observe.doctor import examine

    for name, content in (("dev/nvidiactl", ""), ("proc/driver/nvidia/version", said)):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(content)
    (driver,) = (one for one in examine(str(tmp_path / "none"), tmp_path) if one.name == "GPU driver")
    assert text in driver.text


@pytest.mark.parametrize(
    ("files", "host"),
    [
        ({}, "start 'gpurt emulate'"),
        ({"dev/nvidiactl": "", "proc/kallsyms": "0 t nvidia_open [nvidia]\n"}, "start 'gpurt serve'"),
        ({"dev/kfd": ""}, "start 'gpurt serve'"),
        ({"dev/nvidiactl": "", "proc/kallsyms": "0 D nvidia_gpurt_port [nvidia]\n"}, "load gpurt.ko"),
    ],
)
def test_the_host_that_is_missing_is_the_one_that_fits_the_machine(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, files: dict[str, str], host: str
) -> None:
    from pycontrol.machine import drivers
    from pycontrol.observe.doctor import examine

    for name, content in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(content)
    (none,) = (one for one in examine(str(tmp_path / "none"), tmp_path) if one.name == "host")
    assert none.cure.startswith(host)
    found = [one for one in examine(str(tmp_path / "none"), tmp_path) if one.name == "GPU driver"]
    assert len(found) == 1
    assert (found[0].cure or "").startswith(host) == (host == "load gpurt.ko")
    monkeypatch.setattr(drivers.first_host, "__defaults__", (tmp_path,))
    code, _, err = caller(capfd)("--device", tmp_path / "none", "status")
    assert (code, f"; {host}" in err) == (4, True)


def test_doctor_knows_the_releases_that_there_are_patches_for() -> None:
    from pycontrol.observe.doctor import PATCHED_NVIDIA

    folder = Path(__file__).resolve().parents[2] / "kmod/patches/nvidia-open"
    assert sorted(one.parent.name for one in folder.glob("*/series")) == list(PATCHED_NVIDIA)


def test_doctor_believes_no_patched_driver_before_its_board_was_tried(tmp_path: Path) -> None:
    from pycontrol.observe.doctor import Status, examine

    facts = tmp_path / "sys/module/gpurt/parameters/patched"
    facts.parent.mkdir(parents=True)
    for line, text in (
        ("gpu=1 state=on error=0 asks=0", "GPU 1 is nvidia 0000:01:00.0: switched by gpurt.ko (tier T2)"),
        ("gpu=- state=refused error=0 asks=0 reason=MIG is enabled", "not switched by gpurt.ko: MIG is enabled"),
    ):
        facts.write_text(f"driver=nvidia device=0000:01:00.0 {line}\n")
        (driver,) = (one for one in examine(str(tmp_path / "none"), tmp_path) if one.name == "GPU driver")
        assert (driver.status, text in driver.text) == (Status.WARN, True), driver.text


def test_doctor_knows_what_runs_ahead_of_the_modules_threads(tmp_path: Path) -> None:
    from pycontrol.observe.doctor import Diagnosis, Status, examine

    def finding(name: str) -> Diagnosis:
        return next(one for one in examine(str(tmp_path / "none"), tmp_path) if one.name == name)

    def found(name: str) -> tuple[Status, str]:
        one = finding(name)
        assert one.cure or one.status is Status.OK
        return one.status, one.text

    (tmp_path / "proc/sys/kernel").mkdir(parents=True)
    release = tmp_path / "proc/sys/kernel/osrelease"
    release.write_text("6.1.0-56-amd64\n")
    assert found("fair server")[0] is Status.OK
    release.write_text("6.12.117+deb12-amd64\n")
    assert found("fair server")[0] is Status.WARN  # it cannot be read
    assert "mount debugfs" in str(finding("fair server").cure)
    (tmp_path / "sys/kernel/security").mkdir(parents=True)
    (tmp_path / "sys/kernel/security/lockdown").write_text("none [integrity] confidentiality\n")
    assert "debugfs" not in str(finding("fair server").cure)
    assert "isolcpus" in str(finding("fair server").cure)
    for cpu, runtime in (("cpu0", "50000000"), ("cpu1", "0")):
        folder = tmp_path / "sys/kernel/debug/sched/fair_server" / cpu
        folder.mkdir(parents=True)
        (folder / "runtime").write_text(f"{runtime}\n")
        (folder / "period").write_text("1000000000\n")
    status, text = found("fair server")
    assert status is Status.WARN
    assert "50000000 of every 1000000000 ns" in text
    assert "SCHED_FIFO 99" in text
    (tmp_path / "sys/kernel/debug/sched/fair_server/cpu0/runtime").write_text("0\n")
    assert found("fair server") == (Status.OK, "off")

    assert found("SCHED_DEADLINE")[0] is Status.OK
    for pid, policy in ((7, 1), (8, 6)):
        (tmp_path / f"proc/{pid}/task/{pid}").mkdir(parents=True)
        fields = " ".join(["S", *["0"] * 37, str(policy), "0"])
        (tmp_path / f"proc/{pid}/task/{pid}/stat").write_bytes(b"%d (\xff task %d) %s\n" % (pid, pid, fields.encode()))
    status, text = found("SCHED_DEADLINE")
    assert status is Status.WARN
    assert "task 8" in text
    assert "task 7" not in text
    assert "best effort" in text


def test_doctor_leaves_the_highest_priority_to_the_module(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    import resource

    from pycontrol.observe.doctor import Status, examine

    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    limit = {"value": 0, "refused": False}
    monkeypatch.setattr(resource, "getrlimit", lambda _: (limit["value"], limit["value"]))

    def permitted(priority: int) -> bool:
        return not limit["refused"] and priority <= limit["value"]

    monkeypatch.setattr("pycontrol.observe.doctor.fifo_permitted", permitted)

    def fifo() -> tuple[Status, str, str]:
        finding = next(one for one in examine(str(tmp_path / "none"), tmp_path) if one.name == "SCHED_FIFO")
        return finding.status, finding.text, finding.cure

    assert "rtprio 98" in fifo()[2]
    limit["value"] = 98
    assert fifo()[0] is Status.OK
    assert "up to 98" in fifo()[1]
    # as in a cgroup without real-time budget: the limit permits it, and the kernel refuses
    limit["refused"] = True
    assert fifo()[0] is Status.FAIL
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert fifo()[0] is Status.FAIL


def test_schema_and_completion(gpurt: Gpurt) -> None:
    assert json.loads(gpurt("help", "schema")[1])["title"] == "gpurt taskset"
    for shell in ("bash", "zsh", "fish"):
        assert "_GPURT_COMPLETE" in gpurt("help", "completion", shell)[1]


def test_a_bug_is_one_line_too(gpurt: Gpurt, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("surprise")

    monkeypatch.setattr("analysis.taskset.parse", broken)
    code, _, err = gpurt("analyze", MINIMAL)
    assert code == 70
    assert one_line(err)
    assert "this is a bug" in err


def test_the_installed_command_works(tmp_path: Path) -> None:
    command = [str(Path(sys.executable).parent / "gpurt"), "analyze", MINIMAL]
    run = subprocess.run(command, capture_output=True, text=True, check=False, env={**os.environ, "NO_COLOR": "1"})
    assert run.returncode == 0
    assert "schedulable" in run.stdout


WORDS = st.sampled_from(
    ["analyze", "plan", "priorities", "simulate", "trace", "check", "set", "policy", "budget", "rule", "exempt",
     MINIMAL, CASE_STUDY, "--json", "--test", "gcaps-busy", "--runs", "1", "-1", "", "--explain", "camera",
     "--policy", "segment", "é"]
)  # fmt: skip


@settings(max_examples=tries(150))
@given(arguments=st.lists(WORDS, max_size=5))
def test_no_arguments_give_a_traceback(gpurt: Gpurt, arguments: list[str]) -> None:
    code, _, err = gpurt(*arguments)
    assert code in {0, 1, 2, 3, 4}, (arguments, err)
    assert "Traceback" not in err


@pytest.mark.parametrize(("asked", "shown"), [("1", True), ("0", False)])
def test_a_bug_shows_where_it_is_if_the_user_asks(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], asked: str, shown: bool
) -> None:
    monkeypatch.setenv("GPURT_DEBUG", asked)
    try:
        raise LookupError("odd")
    except LookupError as error:
        said = cli.explain_error(error)
    assert "LookupError: odd; this is a bug" in said.lines[0]
    assert ("test_cli.py" in capsys.readouterr().err) is shown


@pytest.mark.parametrize(
    ("key", "wrong"),
    [("duration", -5), ("job", -5), *((key, wrong) for key in ("duration", "job", "ns") for wrong in
                                      (float("nan"), 1.5, "x", True, [1])),
     ("task", 1), ("task", ["x"]), ("detail", {})],
)  # fmt: skip
def test_a_trace_with_a_wrong_number_is_damaged(gpurt: Gpurt, tmp_path: Path, key: str, wrong: object) -> None:
    from analysis.traces.trace import Event, Kind, Trace

    trace = tmp_path / "run.json"
    Trace({}, (Event(5_000_000, Kind.COMPLETE, "camera", 1, 5_000_000),)).save(trace)
    document = json.loads(trace.read_text())
    document["traceEvents"][-1]["args"][key] = wrong
    trace.write_text(json.dumps(document))
    code, out, err = gpurt("trace", "check", str(trace), MINIMAL)
    assert (code, out, one_line(err)) == (3, "", True)
    assert "is a damaged trace: " in err
