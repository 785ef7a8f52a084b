# SPDX-License-Identifier: GPL-2.0
"""`gpurt measure times` with real programs on the emulator, whose segments take what the programs say."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from links import PATIENCE, eventually
from processes import StartHost, alive

from analysis.taskset import load as load_taskset
from gpurt.errors import TasksetError
from gpurt.units import parse_time
from pycontrol import cli
from pycontrol.machine.placement import fifo_permitted

MS = 1_000_000
#: Segments of so many ms of work each, for each word; appends a line to the file `runs` at the start.
PROGRAM = """import os, sys, time
from gpurt import Client, segment
with open("runs", "a") as file:
    print(os.getpid(), *sys.argv[1:], file=file)
with Client() as c:
    t = c.open_tsg()
    for word in sys.argv[1:]:
        with segment(client=c):
            c.wait_work(t, c.submit(t, int(float(word) * 1_000_000)))
"""
#: Two jobs, each of two segments, 3 ms and 1 ms, and 2 ms of CPU time at least; one segment before them.
ANNOUNCED = """import time
import gpurt
with gpurt.Client() as c:
    t = c.open_tsg()
    def work(ms):
        with gpurt.segment(client=c):
            c.wait_work(t, c.submit(t, ms * 1_000_000))
    work(9)
    for number in range(2):
        with gpurt.job("eye", number, client=c):
            until = time.thread_time_ns() + 2_000_000
            while time.thread_time_ns() < until:
                pass
            work(3)
            work(1)
"""
Profile = Callable[..., tuple[int, str, str]]
QUIET = ("--runs", "1", "--condition", "quiet")


@pytest.fixture
def profile(
    host: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Profile:  # fmt: skip
    """Runs the command in this process, in a folder of its own: exit code, stdout, stderr."""
    monkeypatch.setenv("GPURT_DEVICE", str(host))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "program.py").write_text(PROGRAM)
    (tmp_path / "announced.py").write_text(ANNOUNCED)

    def call(*arguments: str) -> tuple[int, str, str]:
        capfd.readouterr()
        code = cli.run(["measure", "times", *(sys.executable if word == "python" else word for word in arguments)])
        return code, *capfd.readouterr()

    return call


def runs_of(folder: Path) -> list[list[str]]:
    """The arguments of the program's runs."""
    return [line.split()[1:] for line in (folder / "runs").read_text().splitlines()]


def test_inputs_and_conditions_are_varied_and_the_largest_is_found(profile: Profile, tmp_path: Path) -> None:
    code, out, err = profile(
        "--json", "-o", "entry.toml", "--runs", "3", "--input", "2", "--input", "30", "--condition", "cold",
        "--condition", "cpu", "--segments", "2", "--margin", "10%", "--period", "33ms", "--", "python", "program.py",
        "1", "{}",
    )  # fmt: skip
    document = json.loads(out)
    assert (code, err, document["why"]) == (0, "", None)
    runs = runs_of(tmp_path)
    assert [[run["argument"]] for run in document["executions"]] == [words[1:] for words in runs]
    assert {"2", "30"} == {words[1] for words in runs}
    assert [one["runs"] > 0 for one in document["conditions"]] == [False, True, True, False, False]
    assert (document["runs"], document["planned_runs"], document["jobs"], document["segments"]) == (3, 3, 3, 6)
    _, first, _, second = document["observed"]
    assert [one["count"] for one in (first, second)] == [3, 3]
    assert first["minimum_ns"] >= MS
    assert second["minimum_ns"] >= 2 * MS
    assert second["maximum_ns"] >= 30 * MS
    assert second["maximum_argument"] == "30"
    assert runs[second["maximum_run"] - 1][1] == "30"
    assert all(most >= int(words[1]) * MS for most, words in zip(second["maxima_ns"], runs, strict=True))
    assert max(second["maximum_by_condition_ns"].values()) == second["maximum_ns"]
    assert "not measured: gpu: best-effort segments" in " ".join(document["notes"])
    text = (tmp_path / "entry.toml").read_text()
    assert document["entry"] == text
    assert document["files"] == ["entry.toml"]
    written = [parse_time(time) for time in re.findall(r'gpu = { worst = "([^"]*)"', text)]
    assert len(written) == 2
    for each, one in zip(written, (first, second), strict=True):
        assert 0 <= 10 * each - 11 * one["maximum_ns"] < 10_000


def filled(entry: str) -> str:
    """The entry with a CPU, a priority and a period in the place of what was not measured."""
    for key, value in (("cpu", 0), ("priority", 1), ("period", '"100ms"'), ("waiting", '"busy"')):
        entry = re.sub(rf'^{key} = "\?"', f"{key} = {value}", entry, flags=re.MULTILINE)
    return "[platform]\ncpus = 1\n" + entry


def test_what_was_not_measured_is_no_value(profile: Profile, tmp_path: Path) -> None:
    """Neither CPU nor priority is seen, and the period only of a program that tells of jobs: the least distance."""
    entry = profile(*QUIET, "--", "python", "program.py", "3")[1]
    assert re.findall(r'^(\w+) = "\?"', entry, flags=re.MULTILINE) == ["cpu", "priority", "period", "waiting"]
    told = profile(*QUIET, "--period", "33ms", "--", "python", "program.py", "3")[1]
    assert 'period = "33ms"  # as --period says' in told
    periodic = ANNOUNCED.replace("number, client=c)", "number, start + 70_000_000 * number, client=c)")
    periodic = periodic.replace("    work(9)", "    work(9)\n    start = time.monotonic_ns() - 200_000_000")
    (tmp_path / "periodic.py").write_text(periodic)
    seen = profile(*QUIET, "--margin", "0%", "--", "python", "periodic.py")[1]
    assert 'period = "70ms"  # the least distance of 1 between releases, 70ms, less 0%; no bound' in seen


def test_an_entry_needs_the_cpu_time_that_was_not_measured(profile: Profile, tmp_path: Path) -> None:
    code, out, err = profile(*QUIET, "--", "python", "program.py", "3")
    assert code == 0
    assert "note: not measured: cold, cpu: not asked for" in err
    assert "chance of up to 1/2" in err
    whole = tmp_path / "whole.toml"
    whole.write_text(filled(out))
    with pytest.raises(TasksetError, match=r'"\?" is still to be replaced'):
        load_taskset(whole)
    whole.write_text(filled(out).replace('cpu = "?"', 'cpu = "1ms"'))
    (task,) = load_taskset(whole).taskset.tasks
    assert task.name == Path(sys.executable).name
    assert task.gpu_segments[0].pure.best < task.gpu_segments[0].pure.worst > 3 * MS


def test_jobs_that_the_program_announces_have_cpu_times(profile: Profile, tmp_path: Path) -> None:
    code, out, err = profile(*QUIET, "--margin", "0%", "--", "python", "announced.py")
    assert code == 0
    assert "GPU segments of no job, which were left out: 1" in err
    (tmp_path / "whole.toml").write_text(filled(out))
    (task,) = load_taskset(tmp_path / "whole.toml").taskset.tasks
    assert task.name == "eye"
    assert [one.pure.worst >= low * MS for one, low in zip(task.gpu_segments, (3, 1), strict=True)] == [True, True]
    assert task.cpu_time >= 2 * MS


@pytest.mark.slow
def test_the_work_of_other_threads_is_not_passed_over(profile: Profile, tmp_path: Path) -> None:
    helped = """import threading, time
import gpurt
def help(seconds):
    while time.thread_time() < seconds:
        pass
with gpurt.Client() as c:
    t = c.open_tsg()
    for number in range(2):
        with gpurt.job("eye", number, client=c):
            helper = threading.Thread(target=help, args=(0.2,))
            helper.start()
            helper.join()
            with gpurt.segment(client=c):
                c.wait_work(t, c.submit(t, 1_000_000))
"""
    code, out, _ = profile(*QUIET, "--json", "--", "python", "-c", helped)
    document = json.loads(out)
    assert (code, document["jobs"]) == (0, 2)
    (cpu,) = [one for one in document["observed"] if one["part"] == "cpu"]
    assert cpu["maximum_ns"] < 200 * MS <= 400 * MS <= document["cpu_ns"]
    (said,) = [note for note in document["notes"] if "what other threads do for a job" in note]
    assert said.startswith("of ")
    assert f"# Note: {said}." in document["entry"]
    assert "of the thread that announces the job" in document["entry"]


def test_the_program_s_output_is_kept_apart(host: Path, tmp_path: Path) -> None:
    def run(*options: str) -> tuple[int, str, str]:
        words = [sys.executable, "-m", "pycontrol", "--device", str(host), "measure", "times", *QUIET, *options,
                 "--",
                 sys.executable, "-c", f"print('of the program', flush=True)\n{PROGRAM}", "1"]  # fmt: skip
        done = subprocess.run(words, capture_output=True, text=True, check=False, cwd=tmp_path)
        return done.returncode, done.stdout, done.stderr

    code, out, err = run("--json")
    assert (code, json.loads(out)["segments"], err) == (0, 1, "of the program\n")
    code, out, err = run("-o", "entry.toml")
    assert (code, out) == (0, "of the program\n")
    assert all(line.startswith("note: ") for line in err.splitlines())
    assert run("-o", "/dev/full")[0] == 3


def test_a_closed_stderr_is_not_the_host_s_socket(host: Path, tmp_path: Path) -> None:
    """The shell's 2>&-: the program's output goes nowhere, not into whatever got the descriptor's number."""
    (tmp_path / "program.py").write_text(PROGRAM + "print('x' * 10_000, flush=True); print('y', file=sys.stderr)\n")
    words = f"measure times {' '.join(QUIET)} -- {sys.executable} program.py 1"
    done = subprocess.run(
        ["sh", "-c", f"{Path(sys.executable).parent}/gpurt --device {host} {words} 0<&- 2>&-"],
        stdout=subprocess.PIPE, text=True, check=False, timeout=PATIENCE, cwd=tmp_path,
    )  # fmt: skip
    assert (done.returncode, done.stdout.count("[[task]]"), "xx" in done.stdout) == (0, 1, False)


def test_a_run_that_fails_ends_the_measurement_and_those_before_are_written(profile: Profile, tmp_path: Path) -> None:
    (tmp_path / "fails.py").write_text(PROGRAM + "if len(open('runs').readlines()) == 3: sys.exit(7)\n")
    code, out, err = profile("--runs", "5", "--condition", "quiet", "--json", "--", "python", "fails.py", "1")
    document = json.loads(out)
    assert (code, document["exit_code"], document["runs"], document["complete"]) == (6, 6, 2, False)
    assert document["why"].startswith("run 3 of 5: ")
    assert document["why"].endswith("ended with status 7")
    assert "# NOT ALL RUNS: run 3 of 5" in document["entry"]
    assert "# Note: some segments were best effort" in document["entry"]
    assert len(runs_of(tmp_path)) == 3
    for word, message in (("7", "ended with status 7"), ("kill", "was killed by SIGSEGV")):
        (tmp_path / "fails.py").write_text(
            PROGRAM + ("os.kill(os.getpid(), 11)" if word == "kill" else "sys.exit(7)") + "\n"
        )
        code, out, err = profile(*QUIET, "-o", "none", "--", "python", "fails.py", "1")
        assert (code, out) == (6, "")
        assert err == f"gpurt: {sys.executable} {message}\n"
    assert not (tmp_path / "none").exists()


def test_segments_that_do_not_correspond_are_not_merged(profile: Profile, tmp_path: Path) -> None:
    (tmp_path / "differs.py").write_text("import sys\nsys.argv += ['1'] * len(open('runs').readlines())\n" + PROGRAM)
    (tmp_path / "runs").touch()
    words = ["--condition", "quiet", "-o", "none", "--", "python", "differs.py", "1"]
    code, out, err = profile("--runs", "9", *words)
    assert (code, out) == (6, "")
    assert "run 1 (quiet) has 1 GPU segments, run 2 (quiet) has 2; " in err
    assert "--segments" in err
    assert err.count("\n") == 1
    assert not (tmp_path / "none").exists()
    assert len(runs_of(tmp_path)) == 2
    (tmp_path / "runs").unlink()
    (tmp_path / "runs").touch()
    assert profile("--runs", "2", "--segments", "1", *words)[0] == 0  # now the user says that they do
    varied = ANNOUNCED.replace("work(1)", "number and work(1)")
    (tmp_path / "varied.py").write_text(varied)
    code, _, err = profile(*QUIET, "--", "python", "varied.py")
    assert code == 6
    assert "job 2 of run 1 (quiet) has 2 GPU segments, job 1 of run 1 (quiet) has 1; " in err


WAITS_NOT = """from gpurt import Client
with Client() as c:
    t = c.open_tsg()
    c.begin()
    work = c.submit(t, 500_000_000)
    c.end()
    c.wait_work(t, work)
"""
ENDS_NOT = """from gpurt import Client
with Client() as c:
    t = c.open_tsg()
    c.begin()
    c.wait_work(t, c.submit(t, 3_000_000))
"""
THREADS = """from gpurt import Client, segment
with Client() as a, Client() as b:
    for c in (a, b):
        t = c.open_tsg()
        with segment(client=c):
            c.wait_work(t, c.submit(t, 1_000_000))
"""


@pytest.mark.slow
def test_a_run_that_does_not_count_is_one_clear_line(profile: Profile, tmp_path: Path) -> None:
    shell = f"{sys.executable} program.py 1; :"
    quiet, beside = ("--condition", "quiet"), ("--condition", "beside")
    for options, command, message in (
        (quiet, ["true"], "true: no GPU segment was seen"),
        (quiet, ["sh", "-c", shell], "a shell must `exec` the program"),
        (quiet, ["python", "-c", WAITS_NOT], "GPU work went on after the end of its segment"),
        (quiet, ["python", "-c", ENDS_NOT], "a GPU segment had not ended when the program did"),
        (quiet, ["python", "-c", "import os; os.kill(os.getpid(), 40)"], "was killed by signal 40"),
        (quiet, ["python", "-c", THREADS], "2 clients of the program have GPU segments"),
        ((*quiet, "--segments", "3"), ["python", "program.py", "1", "1"], "2 GPU segments are no whole number of jobs"),
        ((*quiet, "--task", "eye"), ["python", "program.py", "1"], "announces no jobs"),
        ((*quiet, "--task", "ear"), ["python", "announced.py"], "no jobs of ear, only of eye"),
        ((*quiet, "--segments", "2"), ["python", "announced.py"], "--segments says less"),
        ((*beside, "--beside", "false"), ["python", "program.py", "1"], "the co-runner false ended before the program"),
        ((*beside, "--beside", "/none"), ["true"], "/none: cannot be started: No such file"),
        (quiet, ["/none"], "/none: cannot be started: No such file"),
        (quiet, ["."], ".: cannot be started: Permission denied"),
        (("--condition", "gpu"), ["python", "program.py", "1"], "1 segments are best effort and share the GPU"),
    ):
        code, out, err = profile("--runs", "1", *options, "-o", "none", "--", *command)
        assert (code, out, err.count("\n")) == (6, "", 1), err
        assert message in err
        assert not (tmp_path / "none").exists()


def test_what_makes_no_sense_is_said_before_anything_runs(profile: Profile, tmp_path: Path) -> None:
    quiet, cold, cpu = ("--condition", "quiet"), ("--condition", "cold"), ("--condition", "cpu")
    for options, code, message in (
        (("--runs", "0"), 2, "0 is not in the range"),
        (("--runs", "2", *quiet, *cold, *cpu), 2, "--runs 2 is too few"),
        (("--runs", "9" * 30), 2, "is more than 100000"),
        (("--margin", "-1%"), 2, "--margin: expected a share"),
        (("--condition", "hot"), 2, "'hot' is not one of"),
        (("--input", "x"), 2, "--input needs a {}"),
        (("--duration", "0s"), 2, "--duration: a time of 0 makes no sense"),
        (("--period", "0ms"), 2, "--period: a time of 0 makes no sense"),
        (("--beside", "'"), 2, "--beside: No closing quotation"),
        (("--beside", ""), 2, "--beside names no program"),
        (("--beside", "x", *quiet), 2, "not among those of --condition"),
        (("--condition", "beside"), 5, "no co-runner is named"),
        (("-o", "/nonexistent/x"), 3, "cannot be written"),
    ):
        got, out, err = profile(*options, "--", "touch", "mark")
        assert (got, out, err.count("\n")) == (code, "", 1), err
        assert message in err
    assert not (tmp_path / "mark").exists()


def background(host: Path, folder: Path, *words: str) -> subprocess.Popen[str]:
    """The command in a process of its own, with a program that waits until the file `go` is there in its second run."""
    (folder / "program.py").write_text(
        PROGRAM + "while len(open('runs').readlines()) == 2 and not os.path.exists('go'): time.sleep(0.005)\n"
    )
    command = [sys.executable, "-m", "pycontrol", "--device", str(host), "measure", "times", *words, "--",
               sys.executable,
               "program.py", "1"]  # fmt: skip
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=folder)


def second_run(folder: Path) -> int:
    """Waits until the second run has begun: its process."""
    eventually(lambda: (folder / "runs").exists() and (folder / "runs").read_text().count("\n") == 2)
    return int((folder / "runs").read_text().splitlines()[1].split()[0])


def test_ctrl_c_keeps_the_runs_that_were_complete(host: Path, tmp_path: Path) -> None:
    running = background(host, tmp_path, "--runs", "9", "--condition", "quiet", "-o", "entry.toml")
    pid = second_run(tmp_path)
    running.send_signal(signal.SIGINT)
    _, err = running.communicate(timeout=PATIENCE)
    assert running.returncode == 130
    assert "note: run 2 of 9: interrupted; complete runs, of which the entry is: 1" in err
    assert "# NOT ALL RUNS: run 2 of 9: interrupted" in (tmp_path / "entry.toml").read_text()
    assert not alive(pid)


def children(pid: int) -> list[int]:
    """The processes whose parent it is."""
    running = (int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit())
    return [number for number in running if parent_of(number) == pid]


def parent_of(pid: int) -> int:
    """A process's parent; 0 if it is gone."""
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return 0


#: Ignores every signal that a program can ignore, and has a child that does, too.
STUBBORN = """import os, signal, subprocess, sys
for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
    signal.signal(number, signal.SIG_IGN)
child = subprocess.Popen(["sleep", "1000"])
print(child.pid, os.getpid(), file=open("mine", "w"), flush=True)
os.replace("mine", "pids")
child.wait()
"""


@pytest.mark.parametrize("number", [
    signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.slow),
    pytest.param(signal.SIGHUP, marks=pytest.mark.slow),
])  # fmt: skip
@pytest.mark.parametrize("stubborn", ["program", pytest.param("co-runner", marks=pytest.mark.slow)])
def test_programs_that_ignore_signals_end_with_their_children(
    host: Path, tmp_path: Path, number: signal.Signals, stubborn: str
) -> None:
    (tmp_path / "stubborn.py").write_text(STUBBORN)
    command = [sys.executable, "-m", "pycontrol", "--device", str(host), "measure", "times", "--runs", "1"]
    beside = ["--condition", "beside", "--beside", f"{sys.executable} stubborn.py", "--", "sleep", "1000"]
    quiet = ["--condition", "quiet", "--", sys.executable, "stubborn.py"]
    whole = [*command, *(quiet if stubborn == "program" else beside)]
    running = subprocess.Popen(whole, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=tmp_path)
    eventually((tmp_path / "pids").exists)
    pids = [*map(int, (tmp_path / "pids").read_text().split()), *children(running.pid)]
    running.send_signal(number)
    if stubborn == "program":
        time.sleep(0.3)
        running.send_signal(number)  # the user does not wait until the program is killed
    running.communicate(timeout=PATIENCE)
    assert running.returncode == (143 if number == signal.SIGTERM else 130)
    assert len(pids) >= 3
    eventually(lambda: not any(alive(one) for one in pids))


def test_a_host_that_changes_in_the_middle_is_not_measured_as_one(profile: Profile, tmp_path: Path) -> None:
    changes = """
from pycontrol.link.control import connect
from gpurt.enums import Policy
if len(open("runs").readlines()) == 2:
    with connect(None) as control:
        control.set_policy(Policy.JOB)
"""
    (tmp_path / "program.py").write_text(PROGRAM + changes)
    words = ["--runs", "3", "--condition", "quiet", "-o", "entry.toml", "--json", "--", "python", "program.py", "1"]
    code, out, _ = profile(*words)
    document = json.loads(out)
    assert (code, document["runs"]) == (6, 1)
    assert "policy of GPU 0 was segment when the measurement began, and is job: restore it" in document["why"]
    assert cli.run(["set", "policy", "segment"]) == 0
    (tmp_path / "entry.toml").unlink()
    code, out, _ = profile(*words)
    assert (code, json.loads(out)["runs"]) == (0, 3)


def test_a_program_that_changes_in_the_middle_is_not_measured_as_one(profile: Profile, tmp_path: Path) -> None:
    words = PROGRAM.replace("sys.argv[1:]:", "sys.argv[1:2]:")
    (tmp_path / "eye").write_text(f"#!{sys.executable}\n{words}")
    (tmp_path / "eye").chmod(0o755)
    with (tmp_path / "eye").open("a") as eye:
        eye.write("""
if len(open("runs").readlines()) == 3:
    open("eye", "a").write("#")
""")
    command = ["--", "./eye", "1"]
    code, out, _ = profile("--runs", "9", "--condition", "quiet", "--json", *command)
    document = json.loads(out)
    assert (code, document["runs"]) == (6, 2)
    assert document["why"].startswith("run 3 of 9: ./eye has changed since the measurement began: begin it anew")


def test_a_child_that_uses_the_gpu_is_not_passed_over(profile: Profile, tmp_path: Path) -> None:
    forks = "import subprocess, sys\nsubprocess.run([sys.executable, 'program.py', '9'], check=True)\n"
    (tmp_path / "forks.py").write_text(PROGRAM + forks)
    code, out, err = profile(*QUIET, "--", "python", "forks.py", "1")
    assert (code, out, err.count("\n")) == (6, "", 1)
    assert "began to use the GPU during the run" in err
    shell = f"{sys.executable} program.py 1; sleep 1000"
    beside = ("--runs", "1", "--condition", "beside", "--beside", f"sh -c '{shell}'")
    waits = "import os, time\nwhile not os.path.exists('runs'): time.sleep(0.01)\n"
    (tmp_path / "waits.py").write_text(waits + PROGRAM)
    assert profile(*beside, "--", "python", "waits.py", "1")[0] == 0  # a co-runner's is no stranger


def test_what_a_run_leaves_behind_is_ended_before_the_next(profile: Profile, tmp_path: Path) -> None:
    leaves = "import subprocess\nprint(subprocess.Popen(['sleep', '1000']).pid, file=open('left', 'w'), flush=True)\n"
    (tmp_path / "leaves.py").write_text(leaves + PROGRAM)
    assert profile(*QUIET, "--", "python", "leaves.py", "1")[0] == 0
    left = int((tmp_path / "left").read_text())
    eventually(lambda: not alive(left))


def test_nothing_is_overwritten(profile: Profile, tmp_path: Path) -> None:
    robot = tmp_path / "robot.toml"
    robot.write_text("# mine\n[platform]\ncpus = 1\n")
    robot.chmod(0o640)
    (tmp_path / "link").symlink_to("robot.toml")
    command = ["--", "python", "program.py", "1"]
    for name in ("robot.toml", "link"):
        code, _, err = profile(*QUIET, "-o", name, *command)
        assert (code, err.count("\n")) == (3, 1)
        assert "has something, which would be lost" in err
    robot.write_text("")
    assert profile(*QUIET, "-o", "link", *command)[0] == 0
    assert (tmp_path / "link").is_symlink()
    assert robot.stat().st_mode & 0o777 == 0o640
    before = robot.read_text()
    assert profile(*QUIET, "-o", "link", *command)[0] == 3
    assert robot.read_text() == before


def test_nothing_is_left_running_when_the_command_is_killed(host: Path, tmp_path: Path) -> None:
    running = background(host, tmp_path, "--runs", "2", "--condition", "cpu")
    pid = second_run(tmp_path)
    mine = children(running.pid)
    assert pid in mine
    idle = [one for one in mine if os.sched_getscheduler(one) == os.SCHED_IDLE]  # before they said that they are ready
    assert (len(idle), len(mine)) == (len(os.sched_getaffinity(0)), len(idle) + 1)  # the program
    running.kill()
    running.communicate(timeout=PATIENCE)
    eventually(lambda: not any(alive(one) for one in mine))


@pytest.mark.slow
def test_a_program_without_an_end_is_ended(profile: Profile, tmp_path: Path) -> None:
    (tmp_path / "loop.py").write_text(PROGRAM.replace("sys.argv[1:]:", "iter(lambda: '20', 0):"))
    for seconds in (5, 20, 80):  # a slow machine needs more than 5 s before the program has a segment
        code, out, _ = profile(*QUIET, "--duration", f"{seconds}s", "--json", "--", "python", "loop.py")
        if not code:
            break
    assert code == 0
    assert json.loads(out)["jobs"] == json.loads(out)["segments"] > 0


@pytest.mark.slow
def test_a_real_time_program_is_measured_alone_beside_a_best_effort_co_runner(
    start_host: StartHost, capfd: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not fifo_permitted(20):
        pytest.skip("SCHED_FIFO is not permitted")
    host = start_host("--platform=alpha=100us,theta=50us,time_slice=2ms")
    monkeypatch.chdir(tmp_path)
    look = (
        "            from pycontrol.link.control import connect\n"
        "            (gpu,) = connect().gpus()\n"
        "            mine = gpu.runner_pid == os.getpid()\n"
        "            print(gpu.client_count, gpu.tsgs, gpu.image.word, mine, file=open('saw', 'w'))\n"
    )
    (tmp_path / "program.py").write_text(PROGRAM + look)
    words = ["--device", str(host), "measure", "times", "--json", "--runs", "2", "--condition", "gpu", "--segments",
             "1"]  # fmt: skip
    assert cli.run([*words, "--priority", "20", "--", sys.executable, "program.py", "6", "6"]) == 0
    document = json.loads(capfd.readouterr().out)
    assert document["observed"][1]["maximum_ns"] >= 6 * MS > document["observed"][1]["minimum_ns"]
    assert (tmp_path / "saw").read_text() == "2 2 one True\n"
    assert "priority = 20\n" in document["entry"]
    assert "best effort" not in " ".join(document["notes"])
    assert cli.run(["--device", str(host), "set", "policy", "timesliced"]) == 0
    capfd.readouterr()
    assert cli.run([*words, "--", "true"]) == 5
    assert "under policy timesliced" in json.loads(capfd.readouterr().err)["error"]["message"]
