# SPDX-License-Identifier: GPL-2.0
"""`gpurt watch` beside a real emulator and programs that tell of their jobs."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, nullcontext
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import click
import pytest
from jsonschema import Draft202012Validator
from links import MS, PATIENCE
from processes import StartHost, at_priority, host_at, on_cpu
from watched import BOOT, BRIEF, FILE

from analysis.answers.registry import find_test
from analysis.taskset import load
from analysis.traces.trace import Event, Kind
from gpurt import Client, job, segment
from gpurt.enums import Begin, EventKind, Policy
from pycontrol.commands.watch import Teller
from pycontrol.link.control import ClientInfo, Control, EventRecord, GpuStatus, RuleInfo, connect
from pycontrol.machine import procs
from pycontrol.observe.judge.finding import Finding, What
from pycontrol.observe.judge.judge import Judge
from pycontrol.observe.watch.watch import EVENT_PATIENCE_NS as LATEST
from pycontrol.observe.watch.watch import Watcher

ROOT = Path(__file__).resolve().parents[2]
S = 1_000_000_000
SCHEMA = json.loads((ROOT / "docs/output.schema.json").read_text())


@pytest.fixture(autouse=True)
def as_the_file_says() -> Iterator[None]:
    """The task's thread is the test's, and has the task's priority."""
    with at_priority(7):
        yield


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "tasks.toml"
    path.write_text(FILE)
    return path


class Watch:
    """A running `gpurt watch --json`, which has begun."""

    def __init__(self, host: Path, file: Path, *options: str) -> None:
        command = [sys.executable, "-m", "pycontrol", "--device", host, "watch", file, "--json", *options]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        assert self.process.stdout
        self._lines = iter(self.process.stdout)
        self.begin = self.next()
        assert self.begin["event"] == "begin", self.begin

    def next(self) -> dict[str, Any]:
        """The next document."""
        line = next(self._lines, None)
        assert line, self.process.communicate(timeout=PATIENCE)[1]
        found = json.loads(line)
        assert not [error.message for error in Draft202012Validator(SCHEMA).iter_errors(found)], line
        assert isinstance(found, dict)
        return found

    def end(self, number: signal.Signals | None = signal.SIGINT) -> tuple[int, dict[str, Any]]:
        """Ends it: its exit code and its last document."""
        if number:
            self.process.send_signal(number)
        documents = [self.next()]
        while documents[-1]["event"] != "end":
            documents.append(self.next())
        return self.process.wait(PATIENCE), documents[-1]


@pytest.fixture
def watch(file: Path) -> Iterator[Callable[..., Watch]]:
    running: list[Watch] = []

    def start(host: Path, *options: str) -> Watch:
        running.append(Watch(host, file, *options))
        return running[-1]

    yield start
    for one in running:
        one.process.kill()
        one.process.communicate(timeout=PATIENCE)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_nothing_is_found_where_all_is_well(
    host: Path, watch: Callable[..., Watch], number: signal.Signals
) -> None:  # fmt: skip
    running = watch(host)
    assert (running.begin["test"], running.begin["notes"]) == ("gcaps-suspend", [])
    with Client(str(host)) as client, job("camera", 5, client=client), segment(7, client=client):
        pass
    os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
    with Client(str(host)) as other, segment(client=other):  # of best effort, which changes nothing
        pass
    with connect(str(host)) as plane:
        plane.status()  # answered after the events were sent
    time.sleep(0.1)  # a watch that has read them finds nothing in them
    code, last = running.end(number)
    assert (code, last["in_time"], last["found"]) == (0, True, {})
    seen = last["tasks"]["camera"]
    assert (seen["jobs"], seen["segments"], seen["misses"], seen["verdict"]) == (1, 1, 0, "ok")
    assert last["events"] > 8


def test_what_is_wrong_is_told(host: Path, file: Path, watch: Callable[..., Watch]) -> None:
    file.write_text(BRIEF)
    running = watch(host)
    with Client(str(host)) as client, job("camera", 5, BOOT, client=client):
        pass
    (first, second) = running.next(), running.next()
    assert {first["finding"], second["finding"]} == {"bound", "deadline"}
    assert {(one["task"], one["job"], one["sort"]) for one in (first, second)} == {("camera", 5, "promise")}
    with Client(str(host)) as rogue, segment(30, client=rogue):
        pass
    assert running.next()["finding"] == "undeclared"
    with connect(str(host)) as plane:
        plane.set_policy(Policy.LOCK_FIFO)
    assert running.next()["finding"] == "policy"
    code, last = running.end()
    assert (code, last["in_time"]) == (1, False)
    assert last["found"]["undeclared"] == 1


def test_what_the_host_sent_before_the_end_is_read(host: Path, file: Path) -> None:
    """A watch that has fallen behind when its time is over has not seen that all is well."""
    file.write_text(BRIEF)
    with connect(str(host)) as control, connect(str(host)) as asks:
        watcher, stop = Watcher(control, asks, Judge(load(file), {})), threading.Event()
        batches = watcher.findings(stop, time.monotonic_ns())  # its time is over at once
        assert next(batches) == []
        with Client(str(host)) as client, job("camera", 5, BOOT, client=client):
            pass
        assert [one.what.value for batch in batches for one in batch] == ["deadline"]
        assert watcher.events >= 2


class Busy:
    """A host that has not read yet, when its own events are read, that a job is over: a program said so long ago."""

    def __init__(self, job: list[EventRecord], others: list[EventRecord]) -> None:
        self._come, self._unread = [job[0], *others], job[1:]

    def events(self, _timeout: float) -> Iterator[EventRecord]:
        return self.more(0)

    def more(self, _timeout: float) -> Iterator[EventRecord]:
        while self._come:
            yield self._come.pop(0)

    def status(self) -> list[GpuStatus]:
        self._come, self._unread = self._unread, []
        return []


@pytest.mark.parametrize("others", [0, 1])
def test_a_job_whose_end_the_host_has_not_read_is_not_late(host: Path, file: Path, others: int) -> None:
    file.write_text(BRIEF)
    now = time.monotonic_ns()
    begun = EventRecord(EventKind.JOB_BEGIN, now - 2000 * MS, 0, 1, 9, "a", 7, None, 0, 0, "camera", 5)
    told = replace(begun, kind=EventKind.JOB_END, time_ns=now - 1999 * MS, latency_ns=MS)
    update = replace(begun, kind=EventKind.COMMIT, time_ns=now, task="", job=None)
    with connect(str(host)) as asks:
        control = cast("Control", Busy([begun, told], [update] * others))
        watcher = Watcher(control, asks, Judge(load(file), {}, patience=LATEST))
        batches = watcher.findings(threading.Event())
        assert [next(batches), next(batches)] == [[], []]
        assert watcher.judge.tally("camera").mort == MS


def test_a_watch_that_had_no_cpu_reads_before_it_judges(
    host: Path, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:  # fmt: skip
    ahead = 0

    class Slow(threading.Event):
        """The job begins in the first wait.  In the second it ends, and the watch is not woken for long."""

        def wait(self, timeout: float | None = None) -> bool:
            next(steps, None)
            with connect(str(host)) as plane:
                plane.status()  # answered after the events were sent
            return False

    def steps_of(client: Client) -> Iterator[None]:
        nonlocal ahead
        with job("camera", 5, client=client):
            yield
        ahead = 2000 * S
        yield

    clock = SimpleNamespace(monotonic_ns=lambda: time.monotonic_ns() + ahead, monotonic=time.monotonic)
    monkeypatch.setattr("pycontrol.observe.watch.watch.time", clock)
    with connect(str(host)) as control, connect(str(host)) as asks, Client(str(host)) as client, on_cpu(0):
        steps = steps_of(client)
        watcher = Watcher(control, asks, Judge(load(file), {}, patience=LATEST))
        batches = watcher.findings(Slow())
        assert [next(batches) for _ in range(4)] == [[], [], [], []]
        assert watcher.judge.tally("camera").jobs == 1


#: Two threads of this process, which has neither's name.
NODE = FILE.replace('"camera"', '"camera"\nprocess = "node"') + FILE.partition("[[task]]")[2].join(
    ["[[task]]", 'process = "node"\n']).replace("camera", "lidar")  # fmt: skip


@pytest.mark.parametrize("ending", ["told", "early", "late"])
def test_a_watch_that_begins_inside_segments(
    host: Path, file: Path, watch: Callable[..., Watch], ending: str
) -> None:  # fmt: skip
    """The client is a task of the file if it tells of the end of its job, and none if it never tells of any."""
    file.write_text(NODE if ending != "late" else BRIEF.replace('"900ms"', '"1us"').replace('"50ms"', '"0ns"'))
    with ExitStack() as stack:
        control, asks = (stack.enter_context(connect(str(host))) for _ in "ab")
        client = stack.enter_context(Client(str(host)))
        stack.enter_context(on_cpu(0))  # and the threads that it makes
        stop, inside, begun = threading.Event(), threading.Semaphore(0), threading.Event()
        both = threading.Barrier(2, timeout=PATIENCE)

        def work(task: str) -> None:
            os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(7))  # no thread inherits it of the test's
            with job(task, 5, client=client) if ending == "told" else nullcontext():
                with segment(7, client=client):
                    inside.release()
                    begun.wait(PATIENCE)
                both.wait()  # the next one to begin is not inside the other's
                with segment(7, client=client):
                    both.wait()

        threads = [threading.Thread(target=work, args=(task,)) for task in ("camera", "lidar")]
        for one in threads:
            one.start()
            assert inside.acquire(timeout=PATIENCE)
        batches = Watcher(control, asks, Judge(load(file), {}, patience=LATEST)).findings(stop)
        assert next(batches) == []
        running = watch(host)
        begun.set()
        for one in threads:
            one.join(PATIENCE)
        found = [] if ending != "late" else next(filter(None, batches))
        stop.set()
        found += [one for batch in batches for one in batch]
    who = f"{procs.name(os.getpid())}-{os.getpid()} uses the GPU"
    assert [one.text for one in found] == {
        "told": [], "early": [f"{who}, and no job of it was seen: it may be no task of the file"],
        "late": [f"{who} at GPU priority 7, and no task of the file is it"],
    }[ending]  # fmt: skip
    assert "stranger" not in {one["code"] for one in running.begin["objections"]}
    assert running.end()[1]["found"].get("undeclared", 0) == len(found)


def test_a_job_that_was_late_just_before_the_end_is_told_of(host: Path, file: Path) -> None:
    file.write_text(BRIEF)
    with connect(str(host)) as control, connect(str(host)) as asks, Client(str(host)) as client:
        watcher, stop = Watcher(control, asks, Judge(load(file), {}, patience=LATEST)), threading.Event()
        batches = watcher.findings(stop)
        next(batches)
        release = time.monotonic_ns() - 900 * MS  # its deadline is now
        with job("camera", 5, release, client=client):
            stop.set()
            told = [one.what.value for batch in batches for one in batch]
        assert "deadline" in told


def test_a_job_that_hangs_is_told_of_before_it_ends(host: Path, file: Path, watch: Callable[..., Watch]) -> None:
    file.write_text(FILE.replace('"1000s"', '"100ms"').replace('"10s"', '"1ms"').replace('"100s"', '"1ms"'))
    running = watch(host, "--until", "finding")
    with Client(str(host)) as client, job("camera", 3, client=client):
        first = running.next()
        assert (first["finding"], first["job"]) == ("bound", 3)
    assert running.end(None)[0] == 1


def test_a_program_that_is_killed_in_a_job(host: Path, watch: Callable[..., Watch]) -> None:
    running = watch(host)
    client = Client(str(host))
    begun = job("camera", 3, client=client)
    begun.__enter__()
    client.close()
    assert running.next()["finding"] == "ended"
    with pytest.raises(OSError, match="closed"):
        begun.__exit__(None, None, None)
    with Client(str(host)) as another, job("camera", 4, client=another):
        pass  # the thread has no job open any more


TELL = "import sys; from gpurt import Client, job\nwith Client(sys.argv[1]) as c, job('camera', 6, client=c): pass"


def test_two_processes_that_tell_of_one_task(host: Path, watch: Callable[..., Watch]) -> None:
    """One of them may hide that the other's job hangs."""
    running = watch(host)
    with Client(str(host)) as client, job("camera", 5, client=client):
        subprocess.run([sys.executable, "-c", TELL, host], check=True, timeout=PATIENCE)
        while (told := running.next())["finding"] != "undeclared":
            assert told["finding"] == "period"  # of its release, and that it began inside another job
    assert told["task"] == "camera"
    assert told["message"].endswith(f"and so does process {os.getpid()}: one of them is not that task")
    code, last = running.end()
    assert (code, last["found"]["undeclared"]) == (1, 1)


@pytest.mark.skipif(not procs.has_cgroups(), reason="no cgroup v2 here")
def test_a_process_outside_its_task_s_cgroup(host: Path, file: Path, watch: Callable[..., Watch]) -> None:
    """Also one that tells of no job, and only has the task's name."""
    file.write_text(FILE + 'cgroup = "/no/such"\n')
    running = watch(host)
    command = [sys.executable, "-c", f"{TELL}\nsys.stdin.read()", host]  # the watch has to look while it is there
    with subprocess.Popen(command, stdin=subprocess.PIPE) as program:
        told = running.next()
        program.communicate(timeout=PATIENCE)
    assert (told["finding"], told["sort"]) == ("undeclared", "assumption")
    assert "passes for camera in cgroup " in told["message"]
    assert told["message"].endswith(", and the file has it in /no/such")
    code, last = running.end()
    assert (code, last["found"]) == (1, {"undeclared": 1})


def test_a_program_may_be_started_again(host: Path, watch: Callable[..., Watch]) -> None:
    running = watch(host)
    for _ in range(2):
        subprocess.run([sys.executable, "-c", TELL, host], check=True, timeout=PATIENCE)
    with Client(str(host)) as client, Client(str(host)) as another:
        for one in (client, another):
            with job("camera", 7, client=one):
                pass
    assert (running.next()["finding"], running.end()[1]["found"]) == ("period", {"period": 3})  # told once


def test_another_policy_is_said_at_the_beginning(start_host: StartHost, watch: Callable[..., Watch]) -> None:
    running = watch(start_host("--policy", "timesliced"))
    assert "for policy segment, the host runs timesliced" in running.next()["message"]
    assert any("the host runs timesliced" in note for note in running.begin["notes"])


def test_costs_above_the_file_s_are_found(start_host: StartHost, file: Path, watch: Callable[..., Watch]) -> None:
    """No event tells of context switches, so that nothing else would be found."""
    file.write_text(FILE.replace('epsilon = "100s"', 'alpha = "100s"\ntheta = "1us"'))
    running = watch(start_host("--platform", "theta=101s"), "--until", "1ms")
    told = running.next()
    assert (told["finding"], told["sort"]) == ("policy", "assumption")
    assert "on the host's virtual GPU a runlist update and a context switch takes 101000 ms" in told["message"]
    assert running.end(None)[0] == 1


class Failing:
    """A host that answers as the real one, with failures of updates and of agents."""

    def __init__(self, control: Control) -> None:
        self.control, self.faults, self.refused, self.begin = control, 0, 0, Begin.ISOLATED
        self.exempt = False

    def status(self) -> list[GpuStatus]:
        failed = {"faults": self.faults, "refused": self.refused, "begin": self.begin}
        return [replace(one, **cast("dict[str, Any]", failed)) for one in self.control.status()]

    def rules(self) -> list[RuleInfo]:
        return self.control.rules()

    def clients(self) -> list[ClientInfo]:
        known: dict[str, Any] = {"yields": self.begin is Begin.ISOLATED, "exempt": self.exempt}
        return [replace(one, **known) for one in self.control.clients()]


def test_a_client_of_another_cpu_priority_is_found_that_comes_later(host: Path, file: Path) -> None:
    """No event tells of it: services that start one after the other come after their watch."""
    with connect(str(host)) as control, connect(str(host)) as asks:
        watcher = Watcher(control, asks, Judge(load(file), {}))
        batches = watcher.findings(threading.Event())
        assert next(batches) == []
        os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
        with Client(str(host)) as client, job("camera", 5, client=client), segment(7, client=client):
            found: list[Finding] = []
            while not found:
                found += [*next(batches), *watcher._look()]
            assert watcher._look() == []  # told once
    said = [(one.what, one.text.partition(") ")[2]) for one in found]
    assert said == [(What.PRIORITY, "executes at priority 0, the file says 7 for camera")]


@pytest.mark.parametrize("way", [Begin.YIELD, Begin.TURNS])
def test_a_client_that_cannot_begin_by_yield_is_found(host: Path, file: Path, way: Begin) -> None:
    """No event tells of it, and a client may come after the watch."""
    yields = f'begin = "{way.word}"\nyield = {{ slice = "1ms", groups = 1, decision = "1us", stall = "0us" }}\n'
    file.write_text(FILE.replace('policy = "segment"\n', f'policy = "segment"\ntheta = "1us"\n{yields}'))
    with connect(str(host)) as control, connect(str(host)) as asks:
        failing = Failing(asks)
        failing.begin = way
        watcher = Watcher(control, cast("Control", failing), Judge(load(file), {}))
        batches = watcher.findings(threading.Event())
        assert next(batches) == []
        with Client(str(host)) as client, on_cpu(0), job("camera", 5, client=client), segment(7, client=client):
            found = list[str]()
            while not found:
                found += [one.text for one in (*next(batches), *watcher._look())]
        said = [text.partition(", as the file")[0].partition(") ")[2] for text in found]
        assert said == [f"cannot begin by {way.word}"]
        failing.begin = Begin.ISOLATED
        assert ["segments begin by isolated" in one.text for one in watcher._look()] == [True]


def test_a_task_that_is_exempt_later_is_found(host: Path, file: Path) -> None:
    """From then on its work executes beside that of every other task; no event tells of it."""
    with connect(str(host)) as control, connect(str(host)) as asks:
        failing = Failing(asks)
        watcher = Watcher(control, cast("Control", failing), Judge(load(file), {}))
        assert next(watcher.findings(threading.Event())) == []
        with Client(str(host)) as client, job("camera", 5, client=client), segment(7, client=client):
            failing.exempt = True
            found = [one for one in watcher._look() if "is exempt" in one.text]
        assert [one.what for one in found] == [What.UNDECLARED]


def test_failed_updates_and_refused_agents_are_found(host: Path, file: Path) -> None:
    """No event tells of them."""
    with connect(str(host)) as control, connect(str(host)) as asks:
        failing = Failing(asks)
        watcher = Watcher(control, cast("Control", failing), Judge(load(file), {}))
        batches = watcher.findings(threading.Event())
        assert next(batches) == []
        failing.faults, failing.refused = 2, 1
        assert [one.text for one in watcher._look()] == [
            "GPU 0: 2 runlist updates failed; isolation is lost",
            "GPU 0: 1 agents were refused: their processes are unmanaged; isolation is lost",
        ]
        assert watcher._look() == []  # told once
        failing.faults = 3
        assert [one.text for one in watcher._look()] == ["GPU 0: 3 runlist updates failed; isolation is lost"]


def test_tasks_without_a_bound_are_said(
    host: Path, file: Path, watch: Callable[..., Watch], capsys: pytest.CaptureFixture[str]
) -> None:
    """The analysis says no, and to meet deadlines for a while is no proof."""
    file.write_text(FILE.replace('epsilon = "100s"', 'epsilon = "900s"'))
    lacking = "gcaps-suspend has no bound of camera"
    assert lacking in watch(host).begin["notes"]
    judge = Judge(load(file), {})
    for event in (Event(0, Kind.RELEASE, "camera", 1), Event(1, Kind.COMPLETE, "camera", 1, 1)):
        assert judge.feed(event) == []
    for why in ("", lacking):
        with click.Context(click.Command("watch")):
            code = Teller(True).end(judge, 2, why)
        last = json.loads(capsys.readouterr().out)
        assert (code, last["in_time"], last["why"]) == (1 if why else 0, not why, why or None)


def test_findings_of_one_kind_are_told_once_and_counted(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:  # fmt: skip
    now = 100.0
    clock = SimpleNamespace(monotonic=lambda: now, monotonic_ns=time.monotonic_ns, time_ns=time.time_ns)
    monkeypatch.setattr("pycontrol.commands.watch.time", clock)
    with click.Context(click.Command("watch")):
        teller = Teller(False)
        for task in ("a", "b", "a", "a"):
            teller.tell([Finding(1, What.PERIOD, task, "text")])
        now += 11
        teller.tell([Finding(1, What.PERIOD, "a", "text")])
    said = [line.split("  ")[1] for line in capsys.readouterr().out.splitlines()]
    line = "assumption: period: a: text"
    assert said == [line, line.replace("a: text", "b: text"), f"{line} (2 more like it before)"]


@pytest.mark.parametrize("bounds", [{"camera": 1}, {}])
def test_a_watch_says_what_it_compares_with(bounds: dict[str, int], capsys: pytest.CaptureFixture[str]) -> None:
    test = find_test("gcaps-suspend")
    with click.Context(click.Command("watch")):
        Teller(False).begin(Path("set.toml"), test, bounds, [], ["a note"])
    compared = "the bounds of gcaps-suspend" if bounds else "deadlines only"
    out, err = capsys.readouterr()
    assert (out, err.splitlines()) == ("", ["note: a note", f"watching: {compared}; Ctrl-C ends it"])


def test_a_finding_has_its_time_of_day(capsys: pytest.CaptureFixture[str]) -> None:
    before = datetime.now()
    with click.Context(click.Command("watch")):
        Teller(False).tell([Finding(time.monotonic_ns(), What.PERIOD, "a", "text")])
    day, hour, *_ = capsys.readouterr().out.split()
    about = timedelta(seconds=1)
    assert before - about < datetime.fromisoformat(f"{day} {hour}") < datetime.now() + about


def test_a_time_ends_it_and_no_job_is_no_yes(host: Path, watch: Callable[..., Watch]) -> None:
    code, last = watch(host, "--until", "1ms").end(None)
    assert (code, last["tasks"]["camera"]["verdict"], last["found"]) == (1, "unseen", {})


def test_a_host_that_goes_is_one_line(tmp_path: Path, file: Path, watch: Callable[..., Watch]) -> None:
    place = tmp_path / "own.sock"
    with host_at(place):
        running = watch(place)
    _, err = running.process.communicate(timeout=PATIENCE)
    assert running.process.returncode == 4
    assert "host" in json.loads(err)["error"]["message"]


@pytest.mark.parametrize(
    ("options", "code", "text"),
    [
        (["--until", "5"], 2, "Invalid value for '--until': "), (["--test", "nope"], 2, "--test: "),
    ],
)  # fmt: skip
def test_wrong_options_are_one_line(host: Path, file: Path, options: list[str], code: int, text: str) -> None:
    command = [sys.executable, "-m", "pycontrol", "--device", host, "watch", file, *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert (done.returncode, done.stdout) == (code, "")
    assert done.stderr.startswith(f"gpurt: {text}")
    assert done.stderr.count("\n") == 1
