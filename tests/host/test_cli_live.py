"""The command line against a running host."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import struct
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import click
import pytest
from links import PATIENCE, SocketClient, eventually
from processes import EMULATE, StartHost, at_priority, has, started

from analysis.traces.trace import Kind, load_trace
from gpurt._gpurt import lib
from pycontrol import cli
from pycontrol.act.run import task_program
from pycontrol.link.control import Control, connect
from pycontrol.machine import procs
from pycontrol.observe import doctor

ROOT = Path(__file__).resolve().parents[2]
MINIMAL = str(ROOT / "examples/minimal.toml")
PARTS = str(ROOT / "examples/partitions.toml")
ME = os.getpid()
#: The command of this process, as a file has it.
MINE = json.dumps(procs.command_line_of(ME))

Gpurt = Callable[..., tuple[int, str, str]]


@pytest.fixture
def gpurt(host: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Gpurt:
    """Runs the command in this process against the host: exit code, stdout, stderr."""
    monkeypatch.setenv("GPURT_DEVICE", str(host))

    def call(*arguments: str) -> tuple[int, str, str]:
        code = cli.run([*arguments])
        out, err = capsys.readouterr()
        return code, out, err

    return call


def test_status_and_clients(gpurt: Gpurt, host: Path) -> None:
    with SocketClient(host) as client:
        client.begin(priority=33)
        status = json.loads(gpurt("status", "--json")[1])
        assert (status["gpus"][0]["policy"], status["gpus"][0]["runner_pid"]) == ("segment", ME)
        latency = json.loads(gpurt("status", "latency", "--json")[1])["latency"]
        lines = gpurt("status", "latency")[1].splitlines()[-1 - len(latency) : -1]
        for one, line in zip(latency, lines, strict=True):
            counted = [int(count) for count in re.findall(r"(\d+) up to [0-9.]+ ms", line)]
            assert (line.startswith(f"GPU 0, {one['cause']}: "), sum(counted)) == (True, one["updates"])
        assert [entry["cause"] for entry in latency] == ["begin"]
        (one,) = json.loads(gpurt("status", "clients", "--json")[1])["clients"]
        assert (one["pid"], one["priority"], one["state"]) == (ME, 33, "running")
        for command in (["status"], ["status", "clients"]):
            code, out, _ = gpurt(*command)
            assert code == 0
            assert str(ME) in out


def test_priority_is_shown_set_and_undone(gpurt: Gpurt, host: Path) -> None:
    with SocketClient(host) as client:
        client.begin(priority=5)
        assert json.loads(gpurt("set", "priority", "44", str(ME), "--json")[1])["clients"][0]["priority"] == 44
        assert json.loads(gpurt("status", "clients", "--json")[1])["clients"][0]["set_priority"] == 44
        assert json.loads(gpurt("set", "priority", "own", str(ME), "--json")[1])["clients"][0]["priority"] == 5
        name = Path(f"/proc/{ME}/comm").read_text().strip()
        assert json.loads(gpurt("set", "priority", "43", name, str(ME), "--json")[1])["clients"][0]["priority"] == 43
        code, _, err = gpurt("set", "budget", "no-such", "--time", "1ms", "--period", "1s")
        assert (code, "no client is called 'no-such'" in err) == (5, True)
        with SocketClient(host) as other:
            other.begin(priority=50)
            shown = json.loads(gpurt("status", "clients", "--json")[1])["clients"]
            assert sorted(one["priority"] for one in shown) == [43, 50]
            assert gpurt("set", "priority", "own", name)[0] == 0
            shown = json.loads(gpurt("status", "clients", "--json")[1])["clients"]
            assert sorted(one["priority"] for one in shown) == [5, 50]
    code, _, err = gpurt("set", "priority", "4", "1")
    assert code == 5
    assert "no client of the GPU" in err


def test_policy_budget_and_exemption(gpurt: Gpurt, host: Path) -> None:
    (shown,) = json.loads(gpurt("set", "policy", "lock-fifo", "--json")[1])["gpus"]
    assert (shown["policy"], shown["notice"], shown["poll_ns"], shown["tier"]) == ("lock-fifo", "poll", 10**6, "T3")
    assert gpurt("set", "policy", "fair")[0] == 2
    assert "did you mean segment?" in gpurt("set", "policy", "segmnt")[2]
    code, _, err = gpurt("set", "policy", "job", "--notice", "notify")
    assert code == 5
    assert "kernel module" in err
    with SocketClient(host) as client:
        client.begin()
        assert gpurt("set", "budget", str(ME), "--time", "5ms", "--period", "1s", "--on-overrun", "demote")[0] == 0
        assert gpurt("set", "rule", "exempt", "--pid", str(ME))[0] == 0
        (one,) = json.loads(gpurt("status", "clients", "--json")[1])["clients"]
        assert (one["budget_ns"], one["period_ns"], one["exempt"]) == (5_000_000, 1_000_000_000, True)
        assert gpurt("set", "rule", "exempt", "--pid", str(ME), "--off")[0] == 0
        assert not json.loads(gpurt("status", "clients", "--json")[1])["clients"][0]["exempt"]


def test_no_policy_ends_a_program_that_runs(gpurt: Gpurt, host: Path) -> None:
    """Under boosted the next segment of a thread without SCHED_FIFO is refused, and most programs end then."""
    with SocketClient(host) as client:
        client.begin(priority=5)
        client.end()
        assert gpurt("set", "policy", "boosted")[0] == 0
        assert gpurt("set", "policy", "segment")[0] == 0
        assert gpurt("set", "priority", "5", str(ME))[0] == 0
        code, _, err = gpurt("set", "policy", "boosted")
        assert (code, f"-{ME} (needs SCHED_FIFO and GPU priorities 1 to 24, has 0 and 5)" in err) == (5, True)
        assert json.loads(gpurt("status", "--json")[1])["gpus"][0]["policy"] == "segment"
        assert gpurt("set", "priority", "own", str(ME))[0] == 0
        assert gpurt("set", "policy", "boosted")[0] == 0
        code, _, err = gpurt("set", "priority", "5", str(ME))
        assert (code, f"-{ME} (needs SCHED_FIFO and GPU priorities 1 to 24, has 0 and 5)" in err) == (5, True)
        assert gpurt("set", "policy", "segment")[0] == 0
        assert gpurt("set", "priority", "5", str(ME))[0] == 0
        assert gpurt("set", "rule", "bar", "--pid", str(ME))[0] == 0  # it is to be refused
        assert gpurt("set", "policy", "boosted")[0] == 0


def test_several_processes_are_changed_together_or_not_at_all(gpurt: Gpurt, host: Path) -> None:
    with SocketClient(host) as client:
        client.begin(priority=5)
        assert gpurt("set", "priority", "44", str(ME), "1")[0] == 5
        assert gpurt("set", "budget", str(ME), "4194304", "--time", "1ms", "--period", "1s")[0] == 5
        (one,) = json.loads(gpurt("status", "clients", "--json")[1])["clients"]
        assert (one["set_priority"], one["budget_ns"]) == (None, None)


def test_a_run_that_lacks_its_program_has_not_set_the_policy(
    gpurt: Gpurt, host: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(task_program.PROGRAM_VARIABLE, "/nonexistent")
    before = gpurt("status", "--json")[1]
    assert gpurt("run", str(ROOT / "examples/minimal.toml"), "--policy", "lock-fifo")[0] == 6
    assert gpurt("status", "--json")[1] == before


def test_a_user_without_rights_may_name_the_policy_that_the_host_has(
    gpurt: Gpurt, host: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Control, "set_policy", lambda *_: pytest.fail("it is set, which takes CAP_SYS_NICE"))
    policy = json.loads(gpurt("status", "--json")[1])["gpus"][0]["policy"]
    assert gpurt("run", MINIMAL, "--policy", policy, "--duration", "0.1s")[0] in (0, 1)


def test_a_recording_of_nothing_says_so(gpurt: Gpurt, host: Path, tmp_path: Path) -> None:
    code, _, err = gpurt("trace", "record", "-o", str(tmp_path / "run.json"), "--duration", "0.1s")
    assert (code, "no event came: no program used this host meanwhile" in err) == (0, True)


def test_what_a_rule_changed_is_shown(gpurt: Gpurt, host: Path) -> None:
    with SocketClient(host) as client:
        client.begin()
        out = gpurt("set", "budget", str(ME), "--time", "5ms", "--period", "1s", "--on-overrun", "demote")[1]
        assert out.startswith(f"process {ME}: 5ms in each 1s, demote\n")
        document = json.loads(gpurt("set", "budget", str(ME), "--time", "1.5ms", "--period", "1s", "--json")[1])
        budget = {"pid": ME, "budget_ns": 1_500_000, "period_ns": 10**9, "on_overrun": "report"}
        assert document["budgets"] == [budget]
        assert gpurt("set", "budget", str(ME), "--time", "0ns")[1].startswith(f"process {ME}: no budget\n")
        assert gpurt("status", "rules")[1].splitlines()[-1] == "no client has a budget"
        gpurt("set", "budget", str(ME), "--time", "3ms", "--period", "1s")
        document = json.loads(gpurt("status", "rules", "--json")[1])
        assert document["budgets"] == [{**budget, "budget_ns": 3_000_000}]
        assert [one["on_overrun"] for one in document["clients"]] == ["report"]
        gpurt("set", "budget", str(ME), "--time", "3ms", "--period", "1s", "--on-overrun", "demote")
        assert json.loads(gpurt("status", "rules", "--json")[1])["budgets"][0]["on_overrun"] == "demote"
        assert re.search(rf"\n *{ME} .* 3\.000 +1000\.000 +demote ", gpurt("status", "rules")[1])
        gpurt("set", "budget", str(ME), "--time", "0ns")
        said = gpurt("set", "budget", "--cgroup", "/nope", "--time", "0ns")[1]
        assert "cgroup /nope: no budget\nthere is no cgroup /nope now" in said or procs.cgroup_folder("/") is None
        document = json.loads(gpurt("set", "budget", "--cgroup", "/", "--time", "0ns", "--json")[1])
        assert document["budgets"] == [{"cgroup": "/", "budget_ns": None, "period_ns": None, "on_overrun": None}]
        assert document["notes"] == []
        document = json.loads(gpurt("set", "budget", "--cgroup", "/nope", "--time", "0ns", "--json")[1])
        assert len(document["notes"]) == 1 or procs.cgroup_folder("/") is None
        assert f"exempt clients now: {ME}" in gpurt("set", "rule", "exempt", "--pid", str(ME))[1]
        assert re.search(rf"^exempt +process {ME} +20..-..-.. ..:..:..$", gpurt("status", "rules")[1], re.MULTILINE)
        document = json.loads(gpurt("status", "rules", "--json")[1])
        assert [(one["effect"], one["named_by"], one["pid"], one["name"]) for one in document["rules"]] == [
            ("exempt", "pid", ME, None)
        ]
        assert 0 <= document["rules"][0]["age_ns"] < 10**12
        assert [one["pid"] for one in document["clients"]] == [ME]
        assert "exempt clients now: none" in gpurt("set", "rule", "exempt", "--pid", str(ME), "--off")[1]
        assert f"barred clients now: {ME}" in gpurt("set", "rule", "bar", "--pid", str(ME))[1]
        assert gpurt("status", "clients")[1].splitlines()[2].endswith(" barred")
        status = json.loads(gpurt("status", "--json")[1])["gpus"][0]
        assert (status["barred_count"], status["client_count"]) == (1, 1)
        assert f"process {ME}: no longer barred" in gpurt("set", "rule", "bar", "--pid", str(ME), "--off")[1]
        assert not json.loads(gpurt("status", "clients", "--json")[1])["clients"][0]["barred"]


#: Names of the interface's attributes, which no user has to know.
INTERNAL = {name.removeprefix("GPURT_A_") for name in dir(lib) if name.startswith("GPURT_A_")} - {"GPU", "PID"}


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["set", "rule", "exempt", "--off"], 2, "exactly one of --pid"),
        (["set", "rule", "exempt", "--cgroup", "/nope"], 2, "no cgroup /nope"),
        (["set", "rule", "exempt", "--cgroup", f"/{'x' * 300}"], 2, "no cgroup /xxx"),
        (["set", "rule", "exempt", "--cgroup", "system.slice"], 2, "system.slice is no cgroup's path"),
        (["set", "rule", "exempt", "--cgroup", "/../etc"], 2, "is no cgroup's path"),
        (["set", "rule", "exempt", "--name", "display-manager-1"], 2, "display-manager"),
        (["set", "rule", "exempt", "--name", ""], 2, "1 to 15 bytes"),
        (["set", "rule", "exempt", "--pid", "4194304"], 5, "no process with pid"),
        (["set", "rule", "bar", "--pid", "4194304"], 5, "no process with pid"),
        (["set", "rule", "bar", "--cgroup", "/nope"], 2, "no cgroup /nope"),
        (["set", "policy", "segment", "--poll-period", "1ms"], 2, "go with policy job"),
        (["set", "policy", "segment", "--notice", "poll"], 2, "go with policy job"),
        (["set", "policy", "job", "--notice", "notify", "--poll-period", "1ms"], 2, "does not poll"),
        (["set", "policy", "job", "--poll-period", "1us"], 2, "0.1 ms to 10 s"),
        (["set", "policy", "job", "--poll-period", "60s"], 2, "0.1 ms to 10 s"),
        (["set", "policy", "segment", "--gpu", "7"], 5, "no GPU 7"),
        (["status", "clients", "--gpu", "7"], 5, "no GPU 7"),
        (["set", "budget", str(ME), "--time", "0ns", "--on-overrun", "demote"], 2, "--on-overrun goes with a budget"),
        (["set", "budget", str(ME), "--time", "0ns", "--period", "3ms"], 2, "--period goes with a budget"),
        (["set", "budget", "--cgroup", "user.slice", "--time", "0ns"], 2, "user.slice is no cgroup's path"),
        (["set", "rule", "exempt", "--cgroup", "system.slice", "--off"], 2, "system.slice is no cgroup's path"),
        (["set", "rule", "exempt", "--name", "display-manager-1", "--off"], 2, "1 to 15 bytes"),
        (["set", "rule", "exempt", "--name", "nobody", "--off"], 5, "no such rule about nobody"),
        (["set", "rule", "bar", "--pid", str(ME), "--off"], 5, "no such rule about"),
        (["set", "priority", "20", "nobody"], 5, "no client is called 'nobody'"),
        (["set", "group", "", str(ME)], 2, "printable"),
        (["set", "budget", "--cgroup", "/"], 2, "Missing option '--time'"),
        (["set", "rule", "exempt"], 2, "name exactly one"),
        (["set", "rule", "bar"], 2, "name exactly one"),
        (["set", "budget", str(ME), "--time", "1ms"], 2, "needs a --period"),
        (["set", "budget", str(ME), "--time", "5ms", "--period", "1ms"], 5, "longer than its period"),
        (["set", "budget", "4194304", "--time", "1ms", "--period", "1s"], 5, "no process with pid"),
    ],
)
def test_what_cannot_work_is_refused_and_changes_nothing(
    gpurt: Gpurt, arguments: list[str], code: int, words: str
) -> None:
    if words.startswith("no cgroup") and procs.cgroup_folder("/") is None:
        pytest.skip("the cgroup v2 hierarchy is not mounted")
    before = gpurt("status", "--json")[1]
    got, out, err = gpurt(*arguments)
    assert (got, out, err.count("\n")) == (code, "", 1)
    assert words in err
    assert not INTERNAL & set(re.findall(r"\w+", err))
    assert gpurt("status", "--json")[1] == before
    if arguments[-1] == "/nope":
        assert gpurt(*arguments, "--off")[0] in (0, 5)  # a rule for a cgroup that is gone is still there to be removed


#: A host without a GPU, as the kernel module is without parameters; `gpurt emulate` has at least one.
BARE = """
import sys
from pathlib import Path
from pycontrol.host.endpoint import Access
from pycontrol.host.serve import Config, run_host
options = dict(argument[2:].split("=") for argument in sys.argv[1:])
run_host(Config(Path(options["socket"]), Access(0o660), "no GPU,", lambda tell: []))
"""
NO_GPU = "the host has no GPU; load gpurt-vgpu.ko, or gpurt.ko with agent_gpus=1"


def test_a_host_without_a_gpu_is_no_bug(start_host: StartHost, gpurt: Gpurt, monkeypatch: pytest.MonkeyPatch,
                                        tmp_path: Path) -> None:  # fmt: skip
    monkeypatch.setenv("GPURT_DEVICE", str(start_host(program=("-c", BARE))))
    output = ["-o", str(tmp_path / "trace.json"), "--duration", "10ms"]
    for command in (["run", MINIMAL, "--duration", "0.1s"], ["run", MINIMAL, "--policy", "lock-fifo"],
                    ["status", "latency"], ["set", "policy", "segment"], ["trace", "record", *output],
                    ["analyze", MINIMAL, "--measured"],
                    ["demo", "--device", os.environ["GPURT_DEVICE"], "-o", str(tmp_path / "demo")]):  # fmt: skip
        code, _, err = gpurt(*command)
        assert code == 4
        assert NO_GPU in err
        assert err.count("\n") == 1
    code, out, _ = gpurt("status")
    assert (code, NO_GPU in out) == (0, True)
    findings = {entry["name"]: entry for entry in json.loads(gpurt("doctor", "--json")[1])["findings"]}
    assert findings["host"]["status"] == "warn"
    assert findings["host"]["text"] == "the host has no GPU"


def test_status_shows_the_partitions_of_a_virtual_gpu(start_host: StartHost, gpurt: Gpurt) -> None:
    host = str(start_host("--platform=partitions=1,12,cross_contention=1.5"))
    said = gpurt("--device", host, "status")[1]
    slowed = "; memory-intensive work beside such of another partition takes 1.5 times as long"
    assert f"\nGPU 0: a partition of virtual GPU 0, with 1 compute unit{slowed}\n" in said
    assert f"GPU 1: a partition of virtual GPU 0, with 12 compute units{slowed}\n" in said
    gpus = json.loads(gpurt("--device", host, "status", "--json")[1])["gpus"]
    found = [(one["partition_of"], one["partition_units"], one["cross_thousandths"]) for one in gpus]
    assert found == [(0, 1, 1500), (0, 12, 1500)]
    assert "partition" not in gpurt("status")[1]
    (one,) = json.loads(gpurt("status", "--json")[1])["gpus"]
    assert (one["partition_of"], one["partition_units"], one["cross_thousandths"]) == (None, None, None)


def test_status_tells_of_malformed_calls(gpurt: Gpurt, host: Path) -> None:
    assert "malformed" not in gpurt("status")[1]
    with SocketClient(host) as client:
        assert client.exchange(0x12345678, bytes(64))[0] < 0
    assert "1 malformed calls were refused" in gpurt("status")[1]


def test_status_says_which_forms_clients_have(start_host: StartHost, gpurt: Gpurt) -> None:
    host = start_host("--policy", "boosted")
    with SocketClient(host) as one, SocketClient(host) as other, SocketClient(host):
        one.begin()
        other.begin(flags=lib.GPURT_BEGIN_OWNER)
        assert "GPU 0: clients by form: 1 self, 1 owner (`gpurt status clients`)" in gpurt("--device", str(host),
                                                                                           "status")[1]  # fmt: skip
    assert "by form" not in gpurt("status")[1]


def test_doctor_finds_the_host(gpurt: Gpurt) -> None:
    findings = {entry["name"]: entry for entry in json.loads(gpurt("doctor", "--json")[1])["findings"]}
    assert findings["host"]["status"] == "ok"
    assert findings["host"]["text"].startswith("gpurt emulate, ")


def test_doctor_does_not_wait_for_a_host_that_is_stopped(
    gpurt: Gpurt, host: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doctor, "PATIENCE_S", 0.1)
    with SocketClient(host) as client:
        pid = struct.unpack_from("i", client.sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))[0]
        os.kill(pid, signal.SIGSTOP)
        try:
            code, out, _ = gpurt("doctor", "--json")
        finally:
            os.kill(pid, signal.SIGCONT)
    (found,) = (one for one in json.loads(out)["findings"] if one["name"] == "host")
    assert (code, found["status"], "has not answered" in found["text"]) == (1, "fail", True)
    assert "kill -CONT" in found["cure"]


def test_doctor_says_whether_the_host_does_policy_boosted(start_host: StartHost, gpurt: Gpurt) -> None:
    host = start_host("--normal=30", "--priority=40")  # too low to raise anybody
    found = json.loads(gpurt("--device", str(host), "doctor", "--json")[1])["findings"]
    (boosted,) = (one for one in found if one["name"] == "policy boosted")
    assert boosted["status"] == "warn"
    assert "threads raise themselves" in boosted["text"]
    assert "priorities 1 to 30, raised threads 31 to 60" in boosted["text"]
    assert boosted["cure"]


def test_run_then_check(gpurt: Gpurt, tmp_path: Path) -> None:
    trace = tmp_path / "run.json"
    code, out, _ = gpurt("run", MINIMAL, "--duration", "3s", "-o", str(trace), "--json")
    assert code in (0, 1)  # deadlines may be missed on a loaded machine; nothing else may fail
    ran = json.loads(out)
    assert ran["tasks"]["camera"]["jobs"] > ran["tasks"]["mapping"]["jobs"] > 0
    again, out, _ = gpurt("trace", "check", str(trace), MINIMAL, "--json")
    keys = ("test", "comparable", "in_time", "why", "tasks", "findings", "objections")
    assert (again, {key: json.loads(out)[key] for key in keys}) == (code, {key: ran[key] for key in keys})


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, pytest.param(signal.SIGHUP, marks=pytest.mark.slow)])
def test_an_interrupted_run_keeps_what_was_seen(host: Path, tmp_path: Path, number: signal.Signals) -> None:
    """The signal comes when a job is over, and while a program that tells of no jobs is there."""
    trace, path = tmp_path / "run.json", tmp_path / "set.toml"
    path.write_text(
        Path(MINIMAL).read_text() + '[[task]]\nname = "mark"\ncpu = 0\npriority = 0\nperiod = "1s"\n'
        'segments = [{ cpu = "1ms" }]\ncommand = ["sleep", "600"]\n'
    )
    command = [sys.executable, "-m", "pycontrol", "--device", str(host), "run", str(path), "--duration", "600s",
               "-o", str(trace), "--json"]  # fmt: skip
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment) as run:
        eventually(lambda: has(Path(f"{trace}.partial"), Kind.END, 2))
        run.send_signal(number)
        out, _ = run.communicate(timeout=PATIENCE)
    assert run.returncode == (143 if number == signal.SIGTERM else 130)
    document = json.loads(out)
    assert document["interrupted"] is True
    assert any(note.startswith("interrupted after") for note in document["notes"])
    assert document["tasks"]["camera"]["jobs"] > 0
    assert len(load_trace(trace).responses()["camera"]) == document["tasks"]["camera"]["jobs"]
    assert not [*tmp_path.glob("gpurt-run-*")]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_recording_outlives_its_host(tmp_path: Path, number: signal.Signals) -> None:
    path, socket = tmp_path / "trace.json", tmp_path / "h.sock"
    command = [sys.executable, "-m", "pycontrol", "--device", str(socket), "trace", "record", "-o", str(path),
               "--json"]  # fmt: skip
    host = started(socket)
    with subprocess.Popen([*command[:-1]], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as recorder:
        assert recorder.stderr
        assert b"recording" in recorder.stderr.readline()  # it has subscribed
        with SocketClient(socket) as client:
            client.begin(priority=9)
            client.end()
            with connect(str(socket)) as plane:
                plane.status()  # answered after the events were sent
            host.send_signal(number)
            host.wait(PATIENCE)
        out, err = recorder.communicate(timeout=PATIENCE)
    assert recorder.returncode == 4
    assert b"events in" in out
    assert b"what it did after that was not seen" in err
    kinds = [event.kind for event in load_trace(path).events]
    assert [kinds.count(kind) for kind in (Kind.BEGIN, Kind.END, Kind.LOST)] == [1, 1, 1]
    assert subprocess.run(command, check=False, capture_output=True).returncode == 4  # no host


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_trace_records_what_clients_do(host: Path, tmp_path: Path, number: signal.Signals) -> None:
    path = tmp_path / "trace.json"
    command = [sys.executable, "-m", "pycontrol", "--device", str(host), "trace", "record", "-o", str(path)]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, **pipes) as recorder, SocketClient(host) as client:  # type: ignore[call-overload]
        assert recorder.stderr
        assert b"recording" in recorder.stderr.readline()  # it has subscribed
        for _ in range(3):
            client.begin(priority=9)
            client.end()
            for what in (lib.GPURT_COPY_BEGIN, lib.GPURT_COPY_NEXT, lib.GPURT_COPY_END):
                assert client.code(lib.GPURT_IOC_COPY, what=what) == 0
        assert client.code(lib.GPURT_IOC_COPY, what=lib.GPURT_COPY_BEGIN) == 0  # which does not end
        recorder.send_signal(number)
        out, _ = recorder.communicate(timeout=PATIENCE)
    assert recorder.returncode == 0
    assert b"events in" in out
    events = load_trace(path).events
    kinds = [event.kind for event in events]
    assert kinds.count(Kind.BEGIN) == kinds.count(Kind.END) == 3
    assert kinds.count(Kind.GPU) == kinds.count(Kind.COPY) == 3
    assert all((event.duration or 0) > 0 for event in events if event.kind is Kind.COPY)


def test_trace_as_json(gpurt: Gpurt, tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    code, out, err = gpurt("trace", "record", "-o", str(path), "--duration", "200ms", "--json")
    document = json.loads(out)
    assert (code, err, document["events"], document["files"]) == (0, "", 0, [str(path)])
    assert document["policy"] == load_trace(path).meta["policy"] == "segment"
    assert gpurt("trace", "record", "-o", "/dev/full", "--duration", "100ms")[0] == 3


def writers() -> list[tuple[str, str]]:
    """Every option that names a file or a folder to write, with its command.  Sockets are no files: exit code 4.

    The --trace of `report` and --profiles name what is read.
    """
    read = {("report", "--trace"), ("experiment run", "--profiles")}
    apart = ("emulate", "serve", "plan energy", "measure kernels")
    commands = [
        (name, cli.find_command(name)) for name in cli.LEAVES if not name.startswith(apart) and "masks" not in name
    ]
    return [
        (name, one.opts[-1])
        for name, command in commands
        for one in command.params
        if isinstance(one, click.Option) and isinstance(one.type, click.Path) and (name, one.opts[-1]) not in read
    ]


def test_nothing_runs_whose_result_could_not_be_written(gpurt: Gpurt, tmp_path: Path) -> None:
    before = json.loads(gpurt("status", "--json")[1])["gpus"]
    mark, nowhere, trace = tmp_path / "mark", f"{tmp_path}/file/x", str(tmp_path / "trace")
    (tmp_path / "file").touch()
    assert gpurt("simulate", MINIMAL, "--runs", "1", "-o", trace)[0] == 0
    needed = {
        "plan partitions": [PARTS], "plan units": [PARTS],
        "run": [MINIMAL, "--duration", "600s", "--policy", "lock-fifo"], "measure times": ["--", "touch", str(mark)],
        "simulate": [MINIMAL, "--runs", "1000000"],
        "report": [MINIMAL],
        "experiment run": ["gcaps-fig8a"],
        "demo": ["--duration", "600s"], "trace record": [],
    }  # fmt: skip
    assert {name for name, _ in writers()} == {key.split(" --")[0] for key in needed}
    for name, option in writers():
        code, out, err = gpurt(*name.split(), option, nowhere, *needed.get(f"{name} {option}", needed[name]))
        assert (code, out) == (3, ""), (name, err)
        assert err.startswith(f"gpurt: {nowhere}: ")
        assert "Not a directory" in err
        assert err.count("\n") == 1
    assert gpurt("run", MINIMAL, "--duration", "0s", "--policy", "lock-fifo")[0] == 2
    assert not mark.exists()
    assert json.loads(gpurt("status", "--json")[1])["gpus"] == before


def test_apply_sets_running_tasks(gpurt: Gpurt, host: Path, tmp_path: Path) -> None:
    path = tmp_path / "set.toml"
    path.write_text(patient(taskset_of(("mine", f"command = {MINE}"))))
    assert gpurt("apply", str(path))[0] == 1  # no such process is a client
    with SocketClient(host) as client:
        with at_priority(21):
            client.begin()
        code, out, _ = gpurt("apply", str(path), "--json")
        assert (code, json.loads(out)["tasks"]["mine"]) == (0, {"gpu_priority": 21, "pids": [ME], "group": None})
        assert json.loads(gpurt("status", "clients", "--json")[1])["clients"][0]["set_priority"] == 21


def test_apply_refuses_what_is_not_schedulable(gpurt: Gpurt, host: Path, tmp_path: Path) -> None:
    path = tmp_path / "set.toml"
    path.write_text(
        f'[platform]\ncpus = 1\npolicy = "segment"\nepsilon = "0ns"\n[[task]]\nname = "mine"\ncpu = 0\npriority = 21\n'
        f'period = "1s"\n'
        f'segments = [{{ misc = "1ms", gpu = "1s" }}]\ncommand = {MINE}\n'
    )
    with SocketClient(host) as client:
        client.begin()
        before = json.loads(gpurt("status", "clients", "--json")[1])["clients"][0]["set_priority"]
        code, out, _ = gpurt("apply", str(path))
        assert code == 1
        assert "not applied" in out
        assert "--force" in out
        assert json.loads(gpurt("status", "clients", "--json")[1])["clients"][0]["set_priority"] == before
        code, out, _ = gpurt("apply", str(path), "--force")
        assert code == 0
        assert "applied by force, without a proof: under policy segment, mine" in out
        path.write_text(path.read_text().replace('epsilon = "0ns"\n', ""))
        assert gpurt("apply", str(path))[0] == 3
        assert gpurt("apply", str(path), "--force")[0] == 0
        assert json.loads(gpurt("status", "clients", "--json")[1])["clients"][0]["set_priority"] == 21


def taskset_of(*tasks: tuple[str, str], epsilon: str = "0ns", policy: str = "segment") -> str:
    """A file of tasks of priority 21, each with its command or other lines; for a host that was given no policy."""
    text = f'[platform]\ncpus = 1\npolicy = "{policy}"\nepsilon = "{epsilon}"\n'
    for name, lines in tasks:
        text += (f'[[task]]\nname = "{name}"\ncpu = 0\npriority = 21\nperiod = "1s"\n'
                 f'segments = [{{ misc = "1ms", gpu = "1ms" }}]\n{lines}\n')  # fmt: skip
    return text


def patient(text: str) -> str:
    """The file with such costs that updates of a host of a busy machine take no longer."""
    costs = text.replace('epsilon = "0ns"', 'epsilon = "20s"\ntheta = "1s"')
    return costs.replace('period = "1s"', 'period = "3000s"')


def test_apply_and_check_tell_tasks_of_one_program_apart_by_their_arguments(
    gpurt: Gpurt, host: Path, tmp_path: Path
) -> None:
    """A process that may be either of two tasks gets the priority of neither; with other arguments it is none."""
    path, comm = tmp_path / "set.toml", Path(f"/proc/{ME}/comm").read_text().strip()
    other = f'command = ["/usr/bin/{comm}", "other.py"]'
    with SocketClient(host) as client:
        with at_priority(21):
            client.begin()
        path.write_text(patient(taskset_of(("a", f"command = {MINE}"), ("b", f"{other}\ngpu_priority = 7"))))
        code, out, _ = gpurt("apply", str(path), "--json")
        assert {name: one["pids"] for name, one in json.loads(out)["tasks"].items()} == {"a": [ME], "b": []}
        assert code == 1
        assert gpurt("apply", str(path), "--ignore-missing")[0] == 0
        assert json.loads(gpurt("status", "clients", "--json")[1])["clients"][0]["set_priority"] == 21
        assert gpurt("set", "priority", "own", str(ME))[0] == 0
        path.write_text(patient(taskset_of(("b", other))))
        code, out, _ = gpurt("apply", str(path))
        assert (code, f"not applied: process {ME} ({comm}) is real time and no task of the file" in out) == (1, True)
        path.write_text(patient(taskset_of(("a", f"command = {MINE}"), ("b", f"command = {MINE}"))))
        code, out, _ = gpurt("apply", str(path))
        assert (code, f"not applied: process {ME} ({comm}) may be a or b: their commands" in out) == (1, True)
        assert json.loads(gpurt("status", "clients", "--json")[1])["clients"][0]["set_priority"] is None


@pytest.mark.parametrize(("priority", "cpus"), [(0, {0}), (5, {0, 1}), (5, {0})])
def test_apply_looks_at_programs_that_are_no_clients(
    gpurt: Gpurt, host: Path, tmp_path: Path, priority: int, cpus: set[int]
) -> None:
    """A task without GPU work delays those of the CPU that it executes on."""
    if cpus - os.sched_getaffinity(0):
        pytest.skip("needs CPUs 0 and 1")
    path, words = tmp_path / "set.toml", ["sleep", f"{600 + os.getpid()}"]
    path.write_text(patient(taskset_of(("mine", ""))) + (
        f'[[task]]\nname = "log"\ncpu = 0\npriority = 5\nperiod = "9000s"\nsegments = [{{ cpu = "1ms" }}]\n'
        f"command = {json.dumps(words)}\n"))  # fmt: skip
    with at_priority(1), subprocess.Popen(words) as program:
        eventually(lambda: procs.command_line_of(program.pid) == words)  # it is empty for a moment after execve()
        os.sched_setaffinity(program.pid, cpus)
        if priority:
            os.sched_setscheduler(program.pid, os.SCHED_FIFO, os.sched_param(priority))
        code, out, _ = gpurt("apply", "--ignore-missing", str(path))
        program.kill()
    who = f"not applied: process {program.pid} (sleep)"
    said = {(0, 1): f"{who} has no thread of priority 5, the file says so for log",
            (5, 2): f"{who} may execute at priority 5 on CPUs 0, 1, the file has log on CPU 0"}  # fmt: skip
    why = said.get((priority, len(cpus)), "")
    assert (code, why in out) == (1 if why else 0, True), out


def test_apply_says_what_bounds_do_not_speak_of(gpurt: Gpurt, host: Path, tmp_path: Path) -> None:
    path, comm = tmp_path / "set.toml", Path(f"/proc/{ME}/comm").read_text().strip()
    process = f"process {ME} ({comm})"
    with SocketClient(host) as client:
        client.begin(priority=5)
        path.write_text(patient(taskset_of(("mine", f"command = {MINE}"))))
        code, out, _ = gpurt("apply", str(path), "--json")
        told = json.loads(out)
        assert (code, told["applied"], told["schedulable"]) == (1, False, False)
        why = f"{process} executes at priority 0, the file says 21 for mine; gpurt run starts it so"
        assert told["why"].startswith(why)
        assert [(one["code"], one["defeats"]) for one in told["objections"]] == [("cpu-priority", ["bounds"])]
        client.end()
        with at_priority(21):
            client.begin(priority=5)
        code, out, _ = gpurt("apply", str(path), "--json")
        assert (code, json.loads(out)["schedulable"], json.loads(out)["objections"]) == (0, True, [])
        assert gpurt("set", "rule", "exempt", "--pid", str(ME))[0] == 0
        assert f"not applied: {process} is exempt" in gpurt("apply", str(path))[1]
        assert gpurt("set", "rule", "exempt", "--pid", str(ME), "--off")[0] == 0
        path.write_text(patient(taskset_of(("nobody", ""))))
        stranger = f"{process} is real time and no task of the file"
        assert f"not applied: {stranger}" in gpurt("apply", str(path))[1]
        told = json.loads(gpurt("apply", str(path), "--json")[1])
        assert (told["applied"], told["schedulable"], told["why"].startswith(stranger)) == (False, False, True)
        assert [one["code"] for one in told["objections"]] == ["stranger"]
        assert f"applied by force, without a proof: {stranger}" in gpurt("apply", str(path), "--force")[1]


BUSY = 'waiting = "busy"'


@pytest.mark.parametrize(
    ("options", "lines", "said"),
    [
        (("--priority=40",), BUSY, "not applied: mine has form owner, and this host cannot raise other processes"),
        (("--priority=40",), 'form = "owner"', "not applied: mine has form owner"),
        (("--priority=40",), "", "not running"),
        ((), "gpu_priority = 50", "has 50; give the tasks other numbers in the same order\n"),
        ((), "gpu_priority = 30", "numbers in the same order, or start the host with --normal 30"),
        (("--normal=30",), "gpu_priority = 30", "not running"),
        (("--gpus=2",), "", "not applied: the host has 2 GPUs, and the bounds for policy boosted are for one"),
        ((), "", "not running"),
    ],
)
def test_apply_looks_at_what_bounds_of_boosted_demand_of_a_host(
    start_host: StartHost, gpurt: Gpurt, tmp_path: Path, options: tuple[str, ...], lines: str, said: str
) -> None:
    device = ["--device", str(start_host("--policy", "boosted", *options))]
    path = tmp_path / "set.toml"
    path.write_text(taskset_of(("mine", lines), policy="boosted"))
    code, out, err = gpurt(*device, "apply", str(path))
    assert (code, said in out + err) == (1, True), out + err


@pytest.mark.parametrize("policy", ["boosted", "segment"])
def test_measured_bounds_are_those_of_the_host_s_policy(gpurt: Gpurt, host: Path, tmp_path: Path, policy: str) -> None:
    """A host's measurements say nothing of another policy than the one that the host runs."""
    path = tmp_path / "set.toml"
    path.write_text(taskset_of(("mine", ""), policy=policy))
    with SocketClient(host) as client:
        client.begin(priority=5)
    notes = json.loads(gpurt("analyze", str(path), "--measured", "--json")[1])["notes"]
    assert any(note.startswith("alpha is") for note in notes)
    assert any("the host runs segment" in note for note in notes) == (policy == "boosted")


@pytest.mark.parametrize(
    ("costs", "virtual", "code", "says"),
    [
        ('epsilon = "1ms"', False, 3, "set.toml: [platform] lacks theta"),  # all that the file knows has theta in it
        ("", False, 3, "set.toml: [platform] lacks theta"),
        ('theta = "0ns"', False, 4, "no runlist update yet"),
        ('epsilon = "1ms"\nalpha = "1ms"', False, 4, "no runlist update yet"),
        ('epsilon = "0ns"', False, 4, "no runlist update yet"),
        ("", True, 4, "no runlist update yet"),
    ],
)
def test_what_a_host_cannot_measure_is_in_the_file(
    start_host: StartHost, gpurt: Gpurt, tmp_path: Path, costs: str, virtual: bool, code: int, says: str
) -> None:
    """A host measures updates.  It knows context switches of virtual GPUs; of others 0 is no measurement."""
    device = start_host(program=EMULATE if virtual else ("-m", "pycontrol", "serve"))
    path = tmp_path / "set.toml"
    path.write_text(taskset_of(("mine", "")).replace('epsilon = "0ns"', costs))
    found, _, err = gpurt("--device", str(device), "analyze", str(path), "--measured")
    assert (found, says in err) == (code, True), err


def test_run_refuses_a_host_that_would_refuse_the_tasks(start_host: StartHost, gpurt: Gpurt, tmp_path: Path) -> None:
    """Before anything starts, and with what to do."""
    host = start_host("--policy", "boosted", "--priority=40")
    path = tmp_path / "set.toml"
    path.write_text(taskset_of(("mine", BUSY), policy="boosted"))
    code, out, err = gpurt("--device", str(host), "run", str(path), "--duration", "1s")
    assert (code, out) == (5, "")
    assert "SCHED_FIFO" in err or "mine has form owner, and this host cannot raise other processes' threads" in err


def test_apply_refuses_a_host_with_agents_for_tasks_that_spin(
    start_host: StartHost, gpurt: Gpurt, tmp_path: Path
) -> None:
    host = start_host("--policy", "boosted", program=("-m", "pycontrol", "serve"))
    path = tmp_path / "set.toml"
    for lines, refused in ((BUSY, True), ("", False)):
        path.write_text(taskset_of(("mine", lines), policy="boosted"))
        code, out, _ = gpurt("--device", str(host), "apply", str(path))
        assert (code, "not applied: mine waits busily, and updates by agents sleep" in out) == (1, refused)


@pytest.mark.parametrize(
    ("lines", "said"), [(BUSY, "begins its segments in form self, the file says owner for mine"), ("", "")]
)
def test_apply_says_which_clients_state_another_form(
    start_host: StartHost, gpurt: Gpurt, tmp_path: Path, lines: str, said: str
) -> None:
    """A thread of form self that spins breaks every bound."""
    host = start_host("--policy", "boosted")
    path, comm = tmp_path / "set.toml", Path(f"/proc/{ME}/comm").read_text().strip()
    path.write_text(taskset_of(("mine", f"command = {MINE}\n{lines}"), policy="boosted"))
    with SocketClient(host) as client:
        client.begin()
        notes = json.loads(gpurt("--device", str(host), "apply", "--force", str(path), "--json")[1])["notes"]
    told = [note for note in notes if "begins its segments in form" in note]
    assert [note.partition(";")[0] for note in told] == ([f"process {ME} ({comm}) {said}"] if said else [])


@pytest.mark.parametrize(
    ("policy", "lines", "why"),
    [
        ("segment", 'epsilon = "1.2ms"',
         "a runlist update and a context switch takes 1.25 ms, the file's epsilon is 1.2 ms"),
        ("lock-fifo", 'epsilon = "2ms"\ntheta = "0.2ms"',
         "a context switch takes 0.25 ms, the file's theta is 0.2 ms"),
        ("lock-priority", 'epsilon = "2ms"\nalpha = "0.5ms"',
         "a runlist update takes 1 ms, the file's alpha is 0.5 ms"),
        ("timesliced", 'epsilon = "2ms"\ntheta = "1ms"\ntime_slice = "2ms"',
         "a time slice takes 3 ms, the file's time_slice is 2 ms"),
        ("timesliced", 'epsilon = "2ms"\ntheta = "1ms"\ntime_slice = "4ms"',
         "a time slice takes 3 ms only, the file's time_slice is 4 ms"),
        ("boosted", 'epsilon = "1.25ms"\nalpha = "0.95ms"',
         "a runlist update takes 1 ms, the file's alpha is 0.95 ms"),
        ("boosted", 'epsilon = "1.25ms"\ntheta = "0.2ms"',
         "a context switch takes 0.25 ms, the file's theta is 0.2 ms"),
        ("boosted", 'epsilon = "1.25ms"', ""),
        ("segment", 'epsilon = "1.25ms"', ""),
    ],
)  # fmt: skip
def test_a_host_whose_updates_cost_more_than_the_file_says(
    start_host: StartHost, gpurt: Gpurt, tmp_path: Path, policy: str, lines: str, why: str
) -> None:
    device = ["--device", str(start_host("--policy", policy, "--platform=alpha=1ms,theta=0.25ms,time_slice=3ms"))]
    path = tmp_path / "set.toml"
    path.write_text(taskset_of(("mine", ""), policy=policy).replace('epsilon = "0ns"', lines))
    code, out, _ = gpurt(*device, "apply", str(path))
    assert code == 1
    assert ("not applied: on the host's virtual GPU " + why in out) == bool(why)
    assert ("not running" in out) != bool(why)


def test_slices_that_nobody_sets_on_a_virtual_gpu_prove_nothing(
    start_host: StartHost, gpurt: Gpurt, tmp_path: Path
) -> None:
    """The host has 1.024 ms for all TSGs at level low, whatever the file says."""
    device = ["--device", str(start_host("--policy", "timesliced", "--platform", "alpha=0ns,theta=0ns"))]
    path = tmp_path / "set.toml"
    text = taskset_of(("mine", 'partition = "p"'), policy="timesliced").replace("cpus", 'theta = "0ns"\ncpus', 1)
    path.write_text(text + '[[partition]]\nname = "p"\nslice = "50ms"\n')
    assert gpurt("analyze", str(path))[0] == 0
    code, out, _ = gpurt(*device, "apply", str(path), "--ignore-missing")
    assert (code, "only programs themselves can set on a virtual GPU" in out) == (1, True)
    path.write_text(text.replace('partition = "p"', ""))
    assert gpurt(*device, "apply", str(path), "--ignore-missing")[0] == 0


def test_the_unit_hides_no_refusal(gpurt: Gpurt, host: Path, tmp_path: Path) -> None:
    """It fails if the taskset is refused, and not because a program does not run yet."""
    unit = (ROOT / "kmod/dist/gpurt.service").read_text()
    assert "SuccessExitStatus" not in unit
    (command,) = re.findall(r"^ExecStart=/bin/sh -c '(.*)'$", unit, re.MULTILINE)
    path = tmp_path / "taskset.toml"
    command = command.replace("/etc/gpurt/taskset.toml", str(path)).replace("/dev/gpurt", str(host))
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin"}

    def start() -> int:
        return subprocess.run(["/bin/sh", "-c", command], env=environment, capture_output=True, check=False).returncode

    assert start() == 0  # no taskset
    path.write_text(taskset_of(("mine", "")))
    assert start() == 0
    path.write_text(path.read_text().replace('gpu = "1ms"', 'gpu = "1s"'))
    assert start() == 1


def test_a_file_for_another_policy_than_the_host_s_is_told_apart(gpurt: Gpurt, host: Path, tmp_path: Path) -> None:
    """Bounds for one policy say nothing of a host that runs another."""
    path = tmp_path / "set.toml"
    text = (
        f'[platform]\ncpus = 1\nepsilon = "0ns"\npolicy = "segment"\n[[task]]\nname = "mine"\ncpu = 0\n'
        f'priority = 21\nperiod = "1s"\nsegments = [{{ misc = "1ms", gpu = "1ms" }}]\ncommand = {MINE}\n'
    )
    text = patient(text)
    with SocketClient(host) as client:
        with at_priority(21):
            client.begin(priority=5)
        for policy in ("boosted", "lock-priority"):
            cure = f"`gpurt set policy {policy}`"
            path.write_text(text.replace("segment", policy, 1))
            why = f"the file is for policy {policy}, the host runs segment; {cure}"
            code, out, _ = gpurt("apply", str(path))
            assert (code, f"not applied: {why}" in out) == (1, True)
            document = json.loads(gpurt("apply", str(path), "--json")[1])
            assert (document["applied"], document["schedulable"]) == (False, False)
            assert document["why"].startswith(why)
            assert json.loads(gpurt("status", "clients", "--json")[1])["clients"][0]["set_priority"] is None
        assert gpurt("set", "policy", "lock-priority")[0] == 0
        assert gpurt("apply", str(path))[0] == 0
        assert gpurt("set", "policy", "segment")[0] == 0
        code, out, _ = gpurt("apply", str(path), "--force")
        assert (code, f"applied by force, without a proof: {why}" in out) == (0, True)
    # Its stand-in has room for what its calls cost.
    text = text.replace("segment", "lock-priority", 1).replace('misc = "1ms"', 'misc = "100ms"')
    path.write_text(text.split("command =")[0])
    short = ["run", str(path), "--duration", "0.3s"]
    code, out, err = gpurt(*short)
    assert (code, f"note: {why}" in err, f"NO: {why}" in out) == (1, True, True)
    assert any(note.startswith(why) for note in json.loads(gpurt(*short, "--json")[1])["notes"])
    assert why not in gpurt(*short, "--policy", "lock-priority")[2]


def test_a_file_with_bounds_for_another_polling_period(gpurt: Gpurt, host: Path, tmp_path: Path) -> None:
    path = tmp_path / "set.toml"
    path.write_text('[platform]\ncpus = 1\nepsilon = "0ns"\npolicy = "job"\n[[task]]\nname = "mine"\ncpu = 0\n'
                    'priority = 21\nperiod = "1s"\nwaiting = "busy"\n'
                    'segments = [{ misc = "1ms", gpu = "1ms" }]\n')  # fmt: skip
    assert gpurt("set", "policy", "job", "--notice", "poll", "--poll-period", "10ms")[0] == 0
    assert "not applied: the bounds for policy job are for a polling period of 1 ms" in gpurt("apply", str(path))[1]
    assert gpurt("set", "policy", "job", "--notice", "poll", "--poll-period", "1ms")[0] == 0
    assert "not running" in gpurt("apply", str(path))[1]
    path.write_text(path.read_text().replace('"0ns"', '"1ms"'))
    why = "not applied: under policy job, the bounds for policy job are for a host's thread that stays on CPU 0; where"
    assert why in gpurt("apply", str(path))[1]
    path.write_text(path.read_text().replace("cpus = 1", "cpus = 1\nthread_cpu = 0"))
    assert "not applied: the bounds for policy job are for a host's thread that stays" in gpurt("apply", str(path))[1]


def test_nothing_observed_is_not_yes(gpurt: Gpurt, tmp_path: Path) -> None:
    path, trace = tmp_path / "set.toml", tmp_path / "run.json"
    path.write_text(
        '[platform]\ncpus = 1\n[[task]]\nname = "mine"\ncpu = 0\npriority = 1\nperiod = "1s"\n'
        'segments = [{ cpu = "1ms" }]\ncommand = ["true"]\n'
    )
    check = ["trace", "check", str(trace), str(path)]
    for command in (["run", str(path), "--duration", "3s", "-o", str(trace)], check):
        code, out, err = gpurt(*command)
        assert code == 1
        assert "NO JOB SEEN" in out
        assert re.search(r"^note: mine: its program ended after \d+\.\d s, before the run did", err, re.MULTILINE)


@pytest.mark.parametrize("tasks", ["", '[[task]]\nname = "mine"\ncpu = 0\npriority = 0\nperiod = "100ms"\n'
                                       'segments = [{ cpu = "1ms" }]\n'])  # fmt: skip
def test_a_file_without_real_time_tasks_is_not_in_time(gpurt: Gpurt, tmp_path: Path, tasks: str) -> None:
    why = "there is no real-time task, so nothing was observed"
    path, trace = tmp_path / "set.toml", tmp_path / "run.json"
    path.write_text('[platform]\ncpus = 1\nepsilon = "0ns"\n' + tasks)
    check = ["trace", "check", str(trace), str(path)]
    for command in (["run", str(path), "--duration", "0.3s", "-o", str(trace)], check):
        assert f"note: {why}" in gpurt(*command)[2].splitlines()
        code, out, _ = gpurt(*command, "--json")
        document = json.loads(out)
        assert (code, document["in_time"]) == (1, False)
        assert why in document["notes"]
    assert gpurt("simulate", str(path), "--runs", "1")[1].splitlines()[-1] == why
    code, out, _ = gpurt("simulate", str(path), "--runs", "1", "--json")
    assert (code, json.loads(out)["in_time"], json.loads(out)["why"]) == (1, False, why)


def test_a_process_in_a_trace_is_the_task_of_that_name(gpurt: Gpurt, host: Path, tmp_path: Path) -> None:
    """`gpurt trace record` records this process as COMM-PID; a task is found by its name or by its command."""
    comm = Path(f"/proc/{ME}/comm").read_text().strip()
    trace, path = tmp_path / "trace.json", tmp_path / "set.toml"
    task = ('[platform]\ncpus = 1\n[[task]]\nname = "{}"\ncpu = 0\npriority = 1\nperiod = "1s"\n'
            'segments = [{{ misc = "1ms", gpu = "1ms" }}]\n')  # fmt: skip
    command = [sys.executable, "-m", "pycontrol", "--device", str(host), "trace", "record", "-o", str(trace)]
    with subprocess.Popen(command, stderr=subprocess.PIPE) as recorder, SocketClient(host) as client:
        assert recorder.stderr
        recorder.stderr.readline()  # it has subscribed
        client.begin(priority=9)
        client.end()
        recorder.send_signal(signal.SIGINT)
        recorder.wait(PATIENCE)
    assert load_trace(trace).names() == [f"{comm}-{ME}"]
    for name, text in ((comm, task.format(comm)), ("other", task.format("other") + f"command = {MINE}\n")):
        path.write_text(text)
        code, out, _ = gpurt("trace", "check", str(trace), str(path), "--json")
        (seen,) = json.loads(out)["tasks"].values()
        assert (code, seen["segments"], seen["verdict"]) == (1, 1, "unseen")
        assert f"no job, of {name} (1)" in " ".join(json.loads(out)["notes"])
    for text in (task.format("other"), task.format("other") + f'command = ["/bin/{comm}", "other.py"]\n'):
        path.write_text(text)
        code, _, err = gpurt("trace", "check", str(trace), str(path))
        assert code == 3
        assert f"speaks of {comm}-{ME}, none of which is a task" in err


def test_an_own_command_in_the_file_is_started(start_host: StartHost, tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    path = tmp_path / "set.toml"
    path.write_text(
        '[platform]\ncpus = 1\n[[task]]\nname = "mine"\ncpu = 0\npriority = 0\nperiod = "1s"\n'
        f'segments = [{{ cpu = "1ms" }}]\ncommand = ["touch", "{mark}"]\n'
    )
    host = start_host()
    cli.run(["--device", str(host), "run", str(path), "--duration", "4s"])
    assert mark.exists()
    assert task_program.find_task_program().exists()


def test_status_tells_who_copies(gpurt: Gpurt, host: Path) -> None:
    with SocketClient(host) as client:
        assert "bus" not in gpurt("status")[1]
        assert client.code(lib.GPURT_IOC_COPY, what=lib.GPURT_COPY_BEGIN, priority=7) == 0
        text = gpurt("status")[1]
        assert "GPU 0: bus: copies 1, waits 0.000 ms on average" in text
        assert f"bus: process {os.getpid()} ({procs.name(os.getpid())}) has copied at priority 7 for" in text
        (bus,) = json.loads(gpurt("status", "--json")[1])["buses"]
        assert (bus["holder"]["pid"], bus["waiters"], bus["copies"]) == (os.getpid(), 0, 1)


LEAVES = """
import os, gpurt
with gpurt.Client() as client:
    for _ in gpurt.periodic("mine", 100_000_000, client=client):
        with gpurt.segment(client=client):
            {what}
"""


@pytest.mark.parametrize(
    ("what", "told"),
    [("pass", ""), ("os.sched_setaffinity(0, {0, 1})", "may execute at priority 21 on CPUs 0, 1"),
     ("os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(9))", "executes at priority 9, the file says 21")],
)  # fmt: skip
def test_run_looks_at_what_programs_do_meanwhile(
    gpurt: Gpurt, host: Path, tmp_path: Path, what: str, told: str
) -> None:
    """A program that leaves its CPU, or its priority, delays tasks that no bound has it delay."""
    if {0, 1} - os.sched_getaffinity(0):
        pytest.skip("needs CPUs 0 and 1")
    path, program = tmp_path / "set.toml", tmp_path / "program.py"
    program.write_text(LEAVES.format(what=what))
    path.write_text(patient(taskset_of(("mine", f'gpu_priority = 21\ncommand = ["{sys.executable}", "{program}"]'))))
    with at_priority(21):
        pass
    out = gpurt("run", str(path), "--duration", "3s", "--json")[1]
    texts = [one["message"] for one in json.loads(out)["objections"] if one["code"] == "cpu-priority"]
    assert [told in one for one in texts] == ([True] if told else []), out
