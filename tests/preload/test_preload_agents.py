# SPDX-License-Identifier: GPL-2.0
"""Agents carry out the host's decisions on every driver family, even when calls fail or processes die."""

from __future__ import annotations

import os
import re
import resource
import shutil
import signal
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from links import PATIENCE, eventually
from machines import ALWAYS, LONG, FakeGpu, Program, Served, Start, real_time, stop

from gpurt.enums import Cause, EventKind, State, Tier
from pycontrol.link.control import Control
from pycontrol.link.control import connect as control
from pycontrol.machine.procs import threads
from pycontrol.observe.doctor import Status, _begin, _host_cpu
from pycontrol.observe.host_cpu import scheduled_now
from pycontrol.readable import readable

FAMILIES = ["nvidia", "nvgpu", "hip"]
DRIVERS = {"nvidia": "nvidia-rm", "nvgpu": "nvgpu-tsg", "hip": "kfd-queue"}
SHORT = "launch 0 20000"


@pytest.fixture(params=FAMILIES)
def family(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_real_time_work_comes_first(family: str, start: Start, plane: Control, gpu: FakeGpu) -> None:
    background, urgent = start(family=family), real_time(plane, start(family=family))
    background.do(LONG, LONG)
    urgent.do(SHORT, "all", SHORT, "all")
    assert background.pid not in gpu.order()
    gpu.finish(background.pid)
    background.do("all")
    assert gpu.order() == [urgent.pid] * 2 + [background.pid] * 2
    assert gpu.groups(background.pid)[0]["turns"] >= 1
    status = plane.status()[0]
    assert (status.driver, status.tier, status.late, status.faults) == (DRIVERS[family], Tier.UNPATCHED, 0, 0)


def test_nothing_of_the_others_runs_while_the_owner_does(start: Start, plane: Control, gpu: FakeGpu) -> None:
    others = [start() for _ in range(3)]
    urgent = real_time(plane, start())
    for one in others:
        one.do(LONG)
    for _ in range(5):
        urgent.do("launch 0 10000", "all")
    owned = gpu.groups(urgent.pid)[0]["log"]
    for one in others:
        for begin, end in gpu.groups(one.pid)[0]["log"]:
            assert all(end <= first or begin >= last for first, last in owned)


def test_what_is_made_while_another_owns_it_is_off(family: str, start: Start, plane: Control, gpu: FakeGpu) -> None:
    urgent = real_time(plane, start(family=family))
    urgent.do(LONG)
    late_comer = start(family=family)
    late_comer.do(SHORT)
    gpu.finish(urgent.pid)
    urgent.do("all")
    late_comer.do("all")
    assert gpu.order() == [urgent.pid, late_comer.pid]


def test_a_call_that_makes_a_group_of_a_process_that_is_off_tries_again_before_it_returns(
    start: Start, plane: Control, gpu: FakeGpu
) -> None:
    urgent, background = real_time(plane, start()), start()
    urgent.do(LONG)
    gpu.refuse("disable", 50, 0x65)
    background.do("context 0 0")
    assert gpu.ask()["refuse"] == {"disable": 0}
    assert {group["enabled"] for group in gpu.groups(background.pid)} == {False}
    assert "it may run beside the GPU's owner" not in background.said()


def test_an_equal_never_preempts_and_a_higher_one_does(start: Start, plane: Control, gpu: FakeGpu) -> None:
    first, equal, higher = (real_time(plane, start(), priority) for priority in (20, 20, 30))
    first.do(LONG)
    equal.do(SHORT)
    higher.do(SHORT, "all")
    gpu.finish(first.pid)
    first.do("all")
    equal.do("all")
    assert gpu.order() == [higher.pid, first.pid, equal.pid]


def test_a_preempted_process_that_dies_gives_its_place_up(start: Start, plane: Control, gpu: FakeGpu) -> None:
    low, urgent, background = real_time(plane, start(), 10), real_time(plane, start(), 20), start()
    low.do(LONG)
    background.do(SHORT)
    urgent.do(LONG)
    eventually(lambda: not gpu.enabled(low.pid))
    low.kill()
    gpu.finish(urgent.pid)
    urgent.do("all")
    background.do("all")
    assert gpu.order() == [urgent.pid, background.pid]
    eventually(lambda: {one.pid for one in plane.clients()} == {urgent.pid, background.pid})


def test_an_owner_that_dies_hands_the_gpu_on(family: str, start: Start, plane: Control, gpu: FakeGpu) -> None:
    urgent, background = real_time(plane, start(family=family)), start(family=family)
    urgent.do(LONG)
    background.do(SHORT)
    urgent.kill()
    background.do("all")
    assert gpu.order() == [background.pid]


def test_refusals_are_tried_again(family: str, start: Start, plane: Control, gpu: FakeGpu) -> None:
    background, urgent = start(family=family), real_time(plane, start(family=family))
    background.do(LONG)
    operation, status = {"nvidia": ("disable", 0x65), "nvgpu": ("disable", 110), "hip": ("update", 110)}[family]
    gpu.refuse(operation, 3, status)
    urgent.do(SHORT, "all")
    assert gpu.order() == [urgent.pid]
    assert gpu.ask()["refuse"] == {operation: 0}  # it has refused as often as it was told
    assert (plane.status()[0].faults, plane.status()[0].late) == (0, 0)  # no update failed


@pytest.mark.parametrize("begin", ["isolated", "strict"])
def test_an_agent_that_is_late(begin: str, start: Start, serve: Callable[..., Served], gpu: FakeGpu) -> None:
    host = serve("--bound=answer=1s", f"--begin={begin}").path

    def state(program: Program) -> State:
        return next(one.state for one in plane.clients() if one.pid == program.pid)

    with control(str(host)) as plane:
        background, urgent = start(at=host), real_time(plane, start(at=host))
        background.do(LONG)
        stop(background)  # it cannot answer, but its work goes on
        urgent.send(LONG)
        eventually(lambda: plane.status()[0].late == 1)
        if begin == "isolated":
            assert urgent.answer() == "ok"
            eventually(lambda: state(urgent) is State.RUNNING)
            gpu.finish(urgent.pid)
            urgent.do("all")
            assert plane.status()[0].faults == 0  # the update went on without it
        else:
            eventually(lambda: plane.status()[0].faults >= 3)  # tried again and again
            assert state(urgent) is State.PENDING  # its work may run beside the late one's, and it is told so
        os.kill(background.pid, signal.SIGCONT)
        if begin == "strict":
            assert urgent.answer() == "ok"
            eventually(lambda: state(urgent) is State.RUNNING)
            gpu.finish(urgent.pid)
            urgent.do("all")
        eventually(lambda: plane.status()[0].late == 0)
        assert gpu.order() == [urgent.pid]


def test_a_late_process_that_dies_is_not_waited_for(start: Start, serve: Callable[..., Served], gpu: FakeGpu) -> None:
    host = serve("--bound=answer=1s", "--begin=strict").path
    with control(str(host)) as plane:
        background, urgent = start(at=host), real_time(plane, start(at=host))
        background.do(LONG)
        stop(background)
        urgent.send(SHORT, "all")
        eventually(lambda: plane.status()[0].late == 1)
        background.kill()
        assert [urgent.answer(), urgent.answer()] == ["ok", "ok"]
        eventually(lambda: plane.status()[0].late == 0)


def test_late_answers_of_the_driver(start: Start, serve: Callable[..., Served], gpu: FakeGpu) -> None:
    host = serve("--bound=answer=1s", "--begin=isolated").path
    with control(str(host)) as plane:
        background, urgent = start(at=host), real_time(plane, start(at=host))
        background.do(LONG)
        gpu.ask("delay", name="disable 1", ns=3_000_000_000)
        with control(str(host)) as listener:
            events = listener.events(timeout=PATIENCE)
            urgent.do(SHORT)
            assert next(one for one in events if one.kind is EventKind.LATE).pid == background.pid
        assert plane.status()[0].faults == 0
        eventually(lambda: plane.status()[0].late == 0)
        urgent.do("all")


def test_without_its_host_a_program_goes_on(
    family: str, start: Start, served: Served, plane: Control, gpu: FakeGpu
) -> None:
    background, urgent = start(family=family), real_time(plane, start(family=family))
    urgent.do(LONG)
    background.do(SHORT)
    eventually(lambda: not gpu.enabled(background.pid))
    served.process.kill()
    served.process.wait()
    background.do("all", SHORT, "all")
    assert "runs unmanaged" in background.said()
    assert gpu.order()[0] == background.pid


def test_descriptors_that_are_duplicated_and_closed(family: str, start: Start, plane: Control, gpu: FakeGpu) -> None:
    background, urgent = start(family=family), real_time(plane, start(family=family))
    background.do("shuffle", LONG)
    urgent.do(SHORT, "all")
    assert gpu.order() == [urgent.pid]
    assert gpu.groups(background.pid)[0]["turns"] == 1


def test_a_child_leaves_its_parents_groups_alone(start: Start, plane: Control, gpu: FakeGpu) -> None:
    background, urgent = start(), real_time(plane, start())
    background.do(LONG, "child 0", "child 1")  # the first child closes all it inherited, the second uses the GPU
    urgent.do(SHORT, "all")
    assert gpu.groups(background.pid)[0]["turns"] >= 1
    gpu.finish(background.pid)
    background.do("all")
    eventually(lambda: {one.pid for one in plane.clients()} == {urgent.pid, background.pid})


def test_exec_in_the_middle(start: Start, plane: Control, gpu: FakeGpu) -> None:
    program, urgent = start(), real_time(plane, start())
    program.do(LONG)
    urgent.do(LONG)
    eventually(lambda: not gpu.enabled(program.pid))
    program.send("exec")
    program.do("context 0 0", SHORT)
    gpu.finish(urgent.pid)
    urgent.do("all")
    program.do("all")
    assert gpu.order()[-1] == program.pid
    assert len(gpu.groups(program.pid)) == 1
    assert len([one for one in plane.clients() if one.pid == program.pid]) == 1


def test_sixty_four_processes(start: Start, plane: Control, gpu: FakeGpu) -> None:
    programs = [start() for _ in range(64)]
    for index, program in enumerate(programs[:32]):
        plane.set_priority(program.pid, 1 + index)
    for program in programs:
        program.send(*["launch 0 1000", "all"] * 4)
    for program in programs:
        assert [program.answer() for _ in range(8)] == ["ok"] * 8, program.said()
    assert len(gpu.order()) == 256
    eventually(lambda: all(one.state is State.IDLE for one in plane.clients()))
    assert plane.status()[0].late == 0
    for program in programs:
        program.process.kill()
    eventually(lambda: plane.clients() == [])
    begun = next(one for one in plane.latency() if one.cause is Cause.BEGIN)
    assert begun.count > 0


def test_an_unknown_release_is_refused_unless_forced(start: Start, plane: Control) -> None:
    stranger = start(version="390.157")
    stranger.do(SHORT, "all")
    assert "driver release 390.157 is not one whose calls are known" in stranger.said()
    assert plane.clients() == []
    forced = start(version="390.157", GPURT_FORCE="1")
    assert [one.pid for one in plane.clients()] == [forced.pid]


def test_what_cannot_be_verified_is_refused_though_forced(start: Start, plane: Control, gpu: FakeGpu) -> None:
    """The size of an allocation's parameters does not tell where they have the device: another call must agree."""
    gpu.refuse("id-info", ALWAYS, 0x56)
    text = (Path(__file__).resolve().parents[2] / "userlib/preload/nvidia_rm.c").read_text()
    known = re.findall(r"\d+", text.split("releases[] = {")[1].split("}")[0])
    later = f"{max(map(int, known)) + 1}.10"
    forced = start(version=later, GPURT_FORCE="1")
    forced.do(SHORT, "all")
    assert plane.clients() == []
    assert f"driver release {later} is not one whose calls are known, and the device" in forced.said()


@pytest.mark.parametrize("version", ["610.43.02", "615.62.00", "620.06"])
def test_releases_that_a_second_source_knows(version: str, start: Start, plane: Control, gpu: FakeGpu) -> None:
    """The engine of a channel is at another place there, which this library does not read."""
    program = start(version=version, FAKE_BARE="1")
    program.do(SHORT, "all")
    assert [one.pid for one in plane.clients()] == [program.pid]
    assert f"the calls of driver release {version} are known from a second source only" in program.said()
    assert gpu.order() == [program.pid]


def test_a_host_that_is_not_there(start: Start, tmp_path: Path) -> None:
    alone = start(at=tmp_path / "none")
    alone.do(SHORT, "all")
    assert "GPU work runs unmanaged" in alone.said()
    quiet = start(at=tmp_path / "none", GPURT_QUIET="1")
    quiet.do(SHORT, "all")


def test_a_host_that_has_no_agents(start: Start) -> None:
    from analysis.model import Platform
    from pycontrol.act.run.emulator import Emulator

    with Emulator(Platform(1)) as emulator:
        program = start(at=emulator.socket)
        program.do(SHORT, "all")
        assert "has no agents" in program.said()


@pytest.fixture
def open_folder(built: Path) -> Iterator[Path]:
    """A folder that other users may enter, with a copy of what was built: pytest keeps its own folders closed."""
    folder = Path(tempfile.mkdtemp(prefix="gpurt-"))
    folder.chmod(0o755)
    shutil.copytree(built, folder / "built", symlinks=True)
    (folder / "built").chmod(0o755)
    yield folder
    shutil.rmtree(folder)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to start programs of another user")
def test_a_program_for_which_there_is_no_room_is_managed_when_there_is(open_folder: Path) -> None:
    with ExitStack() as stack:
        gpu = FakeGpu(open_folder / "gpu.sock", 1)
        stack.callback(gpu.close)
        served = Served(open_folder / "host.sock", "--user-limit=agents=1", "--bound=answer=60s")
        stack.callback(served.stop)
        served.path.chmod(0o666)

        def start(user: str = "") -> Program:
            extra = {"user": user} if user else {}
            made = Program(open_folder / "built", gpu, served.path, "proc", "nvidia", extra)
            stack.callback(made.kill)
            made.do("context 0 0")
            return made

        plane = stack.enter_context(control(str(served.path)))
        first, second = start("nobody"), start("nobody")
        assert "runs unmanaged until there is room" in second.said()
        assert plane.status()[0].refused >= 1  # it asks again after a second
        first.kill()
        eventually(lambda: plane.status()[0].client_count == 1)  # that of the second, which is no agent
        second.do("context 0 0")  # it makes a group, and the host is asked again
        urgent = real_time(plane, start())
        second.do(LONG)
        urgent.do(LONG)
        eventually(lambda: not gpu.enabled(second.pid))
        assert second.said().count("runs unmanaged") == 1
    assert served.log.read_text().count("runs unmanaged") == 1


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to start programs of another user")
@pytest.mark.parametrize("user", ["root", "nobody"])
def test_an_agent_without_the_right_to_sched_fifo_says_so(open_folder: Path, user: str) -> None:
    with ExitStack() as stack:
        before = resource.getrlimit(resource.RLIMIT_RTPRIO)
        stack.callback(resource.setrlimit, resource.RLIMIT_RTPRIO, before)
        resource.setrlimit(resource.RLIMIT_RTPRIO, (0, before[1]))
        gpu = FakeGpu(open_folder / "gpu.sock", 1)
        stack.callback(gpu.close)
        served = Served(open_folder / "host.sock", "--bound=answer=60s")
        stack.callback(served.stop)
        served.path.chmod(0o666)
        program = Program(open_folder / "built", gpu, served.path, "proc", "nvidia", {"user": user})
        stack.callback(program.kill)
        program.do("context 0 0")  # starts the agent
        assert ("the agent runs without SCHED_FIFO" in program.said()) == (user == "nobody")


def test_gpus_are_told_apart(start: Start, plane: Control, gpu: FakeGpu) -> None:
    one, other = start(), real_time(plane, start())
    one.do("context 1 1", LONG)
    other.do(LONG)
    gpu.finish(one.pid)
    eventually(lambda: gpu.order(1) == [one.pid])  # the work on GPU 0 is not in its way
    assert gpu.order(0) == []
    assert {client.gpu for client in plane.clients() if client.pid == one.pid} == {0, 1}


def test_a_process_that_is_alone_does_not_wait_for_the_host(
    start: Start, depth: Callable[..., int], served: Served, plane: Control
) -> None:
    """The host is stopped, and hears of the segments later."""
    program = start()
    program.do("launch 0 1000", "all")
    assert depth(program) == 0
    os.kill(served.process.pid, signal.SIGSTOP)
    for _ in range(4):
        program.do("launch 0 1000", "all")
    program.do("launch 0 1000")
    os.kill(served.process.pid, signal.SIGCONT)
    assert depth(program) == 1
    assert [one.segments for one in plane.clients() if one.pid == program.pid] == [6]


@pytest.mark.parametrize(
    ("family", "before", "call"),
    [("nvgpu", "query-host", "own-mode 0"), ("hip", "own-queue 100", "own-percentage 50"),
     ("nvidia", "query-host", "own-schedule 1")],
)  # fmt: skip
def test_a_call_that_leaves_the_channels_as_they_are_does_not_wait_for_the_host(
    family: str, before: str, call: str, start: Start, served: Served
) -> None:
    """The host is stopped meanwhile."""
    program = start(family=family)
    program.do(before)
    os.kill(served.process.pid, signal.SIGSTOP)
    program.send(call)
    assert program.process.stdout
    answered = readable(program.process.stdout.fileno(), PATIENCE)
    os.kill(served.process.pid, signal.SIGCONT)
    assert (program.answer(), answered) == ("ok", True)


def test_doctor_sees_real_time_threads_that_the_host_cannot_be_above(
    start: Start, served: Served, depth: Callable[..., int]
) -> None:
    """Agents' threads have priorities where that is permitted, and may use each CPU here, as the host may."""
    program = start()
    assert depth(program) == 0
    (finding,) = _host_cpu(str(served.path))
    real_time = [one for tid in threads(program.pid) if (one := scheduled_now(program.pid, tid)) and one.priority]
    assert finding.status is (Status.WARN if real_time else Status.OK)
    assert f"of process {program.pid}" in finding.text or not real_time


def test_doctor_names_the_other_ways_to_begin_where_there_are_any(
    start: Start, served: Served, depth: Callable[..., int], family: str
) -> None:
    assert depth(start(family=family)) == 0
    found = [(one.status, one.text.partition(":")[0]) for one in _begin(str(served.path))]
    assert found == ([(Status.OK, "isolated")] if family == "nvidia" else [])
