"""The way of a decision in the user-space host: connections that end, and commands that meet, in the middle of one."""

from __future__ import annotations

import errno
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from worlds import go_on

from gpurt._gpurt import ffi, lib
from gpurt.enums import Cause, Command, EventKind, Policy, Tier
from pycontrol.host.agents import AgentGpu, Obedience, order_of
from pycontrol.host.budgets import Allowance, Budgets
from pycontrol.host.calls import Calls
from pycontrol.host.commands import Commands
from pycontrol.host.gpu import Decision, Gpu, GpuClient
from pycontrol.host.groups import Groups
from pycontrol.host.peer import Named, Peer, Rules
from pycontrol.host.users import Account, UserLimits
from pycontrol.host.virtual import Shape, VirtualGpu
from pycontrol.host.waiter import Deadlines, Waiter
from pycontrol.host.wire import Refusal
from pycontrol.machine import procs

MS = 1_000_000
NOBODY = 65534


class World:
    """One GPU in a time of its own; `said` has the result of each request by its name."""

    def __init__(self, make: Callable[..., Gpu], how: Obedience | Shape) -> None:
        self.now = 0
        self.events: list[tuple[int, EventKind]] = []
        self.said: dict[str, Any] = {}
        self.gpu: Any = make(0, how, int(Policy.SEGMENT), self.tell, lambda: self.now)
        self.rules = Rules()
        self.commands = Commands([self.gpu], self.rules, Budgets(), lambda: 0, lambda: self.now)

    def tell(self, _gpu: Gpu, client: GpuClient | None, kind: EventKind, *_: object) -> None:
        self.events.append((client.id if client else 0, kind))

    def client(self, number: int, pid: int = 0) -> GpuClient:
        """A client of a process of its own, unless `pid` says which."""
        client: GpuClient = self.gpu.join(number, Peer(pid or number, 1000, f"c{number}", 1), False)
        return client

    def says(self, name: str) -> Callable[..., None]:
        return lambda *result: self.said.update({name: result})

    def begin(self, client: GpuClient, priority: int) -> None:
        def decide(now: int) -> int:
            return int(lib.gpurt_begin(self.gpu.sched, client.core, 0, priority, now))

        self.gpu.update(Decision(decide, self.says(f"begin {client.id}"), lambda: priority, client, call=True))

    def agent(self, client: GpuClient) -> None:
        """The client becomes its process's agent."""
        self.gpu.register(client, "test", Tier.UNPATCHED, 1, self.says(f"agent {client.id}"))

    def obeys(self, client: GpuClient) -> None:
        """The agent has carried out its last order."""
        self.gpu.answer(client, client.own.raw.sequence, 0)
        go_on(self.commands)

    def command(self, command: Command, **request: int | str) -> None:
        administrator = Peer(1, 0, "admin", 1)
        self.commands.carry_out(administrator, command, request, self.says(command.name))
        go_on(self.commands)


def busy() -> tuple[World, GpuClient, GpuClient]:
    """Two processes with agents: the first takes the GPU, and the update waits for the second."""
    world = World(AgentGpu, Obedience())
    owner, other = world.client(1), world.client(2)
    for client in (owner, other):
        world.agent(client)
        world.obeys(client)
    world.begin(owner, 10)
    assert "begin 1" not in world.said
    return world, owner, other


def test_an_agent_whose_connection_ended_before_its_turn_registers_nothing() -> None:
    world, _, other = busy()
    ending, second = world.client(3, pid=7), world.client(4, pid=7)
    ending.core.level = 99  # so that it queues before its own end
    world.agent(ending)
    world.gpu.leave(ending)
    world.obeys(other)
    assert world.said["begin 1"] == (0,)
    assert 3 not in world.gpu.clients
    world.agent(second)
    assert world.said["agent 4"] == (0, False, 1)


def test_no_decision_about_a_client_is_taken_once_its_connection_has_ended() -> None:
    world, _, other = busy()
    ending = world.client(3)
    world.begin(ending, 99)
    world.gpu.leave(ending)
    world.obeys(other)
    assert (3, EventKind.BEGIN) not in world.events
    assert world.events.count((3, EventKind.GONE)) == 1


def test_the_last_word_about_an_exemption_counts() -> None:
    world, _, other = busy()
    third = world.client(3)
    for exempt in (1, 0, 1, 0):
        world.command(Command.SET_EXEMPT, EXEMPT=exempt, COMM="c3")
    world.obeys(other)
    assert world.said["SET_EXEMPT"] == ([],)
    assert not third.core.exempt
    assert third.own.raw.exempt == 0


def test_an_exemption_that_is_removed_and_added_again_stays() -> None:
    world, _, other = busy()
    third, fourth = world.client(3), world.client(4)
    world.obeys(other)
    world.command(Command.SET_EXEMPT, EXEMPT=1, COMM="c3")
    world.command(Command.SET_EXEMPT, EXEMPT=1, COMM="c4")
    assert (third.core.exempt, fourth.core.exempt) == (True, True)
    world.begin(other, 20)  # waits for the owner's agent
    world.command(Command.SET_EXEMPT, EXEMPT=0, COMM="c3")
    world.command(Command.SET_EXEMPT, EXEMPT=1, COMM="c3")
    world.now += Obedience().bound
    world.gpu.advance(world.now)
    go_on(world.commands)
    assert (third.core.exempt, third.own.raw.exempt) == (True, 1)


def test_what_cannot_be_read_for_a_command_in_its_turn_refuses_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def unreadable(_pid: int) -> None:
        raise procs.Unreadable("it", errno.ENOMEM)

    world, _, other = busy()
    world.client(3)
    world.command(Command.SET_EXEMPT, EXEMPT=1, COMM="c3")
    monkeypatch.setattr(procs, "process", unreadable)
    world.command(Command.SET_EXEMPT, EXEMPT=1, PID=1)
    assert "SET_EXEMPT" not in world.said  # the first one waits for the update
    world.obeys(other)
    (refusal,) = world.said["SET_EXEMPT"]
    assert isinstance(refusal, Refusal)
    assert refusal.error == errno.ENOMEM


def test_states_are_those_of_the_runlist_that_holds() -> None:
    world, owner, other = busy()
    assert world.gpu.state(owner) == lib.GPURT_STATE_RUNNING  # everyone is on the runlist still
    world.obeys(other)
    world.begin(other, 20)
    assert world.gpu.state(owner) == lib.GPURT_STATE_PENDING
    assert world.gpu.state(other) == lib.GPURT_STATE_PENDING
    world.obeys(owner)
    world.obeys(other)
    assert world.gpu.state(other) == lib.GPURT_STATE_RUNNING


def test_an_update_that_failed_leaves_its_client_pending() -> None:
    world = World(AgentGpu, Obedience(go_on=False))
    owner, late = world.client(1), world.client(2)
    world.agent(late)
    world.begin(owner, 10)
    world.now += Obedience().bound
    world.gpu.advance(world.now)
    go_on(world.commands)
    assert world.gpu.faults == 1
    assert world.gpu.state(owner) == lib.GPURT_STATE_PENDING
    world.obeys(late)
    world.obeys(late)
    world.gpu.advance(world.now)
    go_on(world.commands)
    assert world.gpu.state(owner) == lib.GPURT_STATE_RUNNING


def test_work_that_completed_with_other_work_is_reported_before_its_client_goes() -> None:
    """The answer to one client's wait ends another client whose work has completed at the same time."""
    world = World(VirtualGpu, Shape(alpha=MS))
    first, second, third = (world.client(number) for number in (1, 2, 3))
    tsgs: list[int] = []
    for client in (first, second):
        world.gpu.open_tsg(client, tsgs.append)
    world.begin(third, 10)
    for client, tsg in zip((first, second), tsgs, strict=True):
        world.gpu.mark(client, True, world.now)
        world.gpu.submit(client, ffi.new("struct gpurt_submit *", {"tsg": tsg, "duration_ns": lib.GPURT_MIN_WORK_NS}))
    world.gpu.wait_idle(first, Waiter(lambda *_: world.begin(first, 5)))
    world.gpu.leave(second)
    world.now += 2 * MS
    world.gpu.advance(world.now)
    go_on(world.commands)
    assert [one for one in world.events if one[1] is EventKind.WORK] == [(1, EventKind.WORK), (2, EventKind.WORK)]
    assert world.said["begin 1"] == (0,)
    assert 2 not in world.gpu.clients


def test_without_cgroups_of_version_2_a_rule_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It would never match."""
    monkeypatch.setattr(procs, "PROC", tmp_path)
    own = tmp_path / str(os.getpid())
    own.mkdir()
    (own / "cgroup").write_text("3:cpuset:/\n2:cpu:/\n")
    rules = Named()
    with pytest.raises(Refusal, match="version 2") as refused:
        rules.change("CGROUP", "/x", True)
    assert refused.value.error == errno.EOPNOTSUPP
    rules.change("CGROUP", "/x", False)
    (own / "cgroup").write_text("3:cpuset:/\n0::/\n")
    rules.change("CGROUP", "/x", True)


class Caller:
    """The part of a connection with one client that calls need."""

    def __init__(self, world: World, number: int) -> None:
        self._client, self.world = world.client(number), world
        self.peer = self._client.peer
        self.results: list[int] = []

    def client(self, _gpu: Gpu) -> GpuClient:
        return self._client

    def thread(self) -> Any:
        raise Refusal(errno.EPERM, "it has ended")

    def mark(self, what: int) -> None:
        made = ffi.new("struct gpurt_job_mark *", {"what": what, "task": b"t"})
        calls = Calls([self.world.gpu], lambda: self.world.now, Deadlines(), None)
        calls.job_mark(self, made, self.results.append)  # type: ignore[arg-type]


def test_marks_of_a_client_are_told_up_to_its_share() -> None:
    """Lost marks are counted for the client that told of too many, and no other client loses any."""
    world = World(VirtualGpu, Shape())
    world.now = 10 * MS
    one, other = Caller(world, 1), Caller(world, 2)
    for _ in range(lib.GPURT_MARKS):
        one.mark(lib.GPURT_MARK_BEGIN)
    other.mark(lib.GPURT_MARK_BEGIN)
    assert one.results == [0] * lib.GPURT_MARKS  # to the program it makes no difference
    assert world.events == [(1, EventKind.JOB_BEGIN)] * (lib.GPURT_MARKS // 2) + [(2, EventKind.JOB_BEGIN)]
    clients = one.client(world.gpu), other.client(world.gpu)
    assert [world.gpu.marks_lost.get(client, 0) for client in clients] == [lib.GPURT_MARKS // 2, 0]
    one.mark(lib.GPURT_MARK_END)
    assert world.events[-1] == (1, EventKind.JOB_END)


def ends(world: World) -> list[int]:
    """The clients whose segments have ended, in order."""
    return [client for client, kind in world.events if kind is EventKind.END]


def nets(client: GpuClient) -> list[int | None]:
    """Begins less ends of those of its calls that were posted; None: of another call."""
    return [call.posted.net if call.posted else None for call in client.calls]


def test_ends_that_are_posted_wait_at_the_gate_as_one_decision() -> None:
    """What the client asks for later comes after them."""
    world, owner, other = busy()
    world.obeys(other)
    for _ in range(3):
        world.begin(owner, 10)
    third = world.client(3)
    world.begin(third, 20)  # the owner has to be off first
    for _ in range(3):
        world.gpu.end_posted(owner)
    assert nets(owner) == [-3]
    assert (owner.core.depth, world.gpu.open_segments(owner)) == (4, 1)
    world.begin(owner, 10)
    world.gpu.end_posted(owner)
    assert nets(owner) == [-3, None, -1]
    world.obeys(owner)
    assert (owner.core.depth, list(owner.calls), ends(world)) == (1, [], [])
    world.gpu.end_posted(owner)
    assert (owner.core.depth, ends(world)) == (0, [1])


@pytest.mark.parametrize("priority", [10, 99])
def test_an_end_that_was_posted_is_taken_before_its_client_is_gone(priority: int) -> None:
    """It waits for an update, behind or before the client's last decision."""
    world, owner, other = busy()
    world.obeys(other)
    dying = world.client(3)
    world.begin(dying, priority)
    world.obeys(owner)

    def takes_off(now: int) -> int:
        for only in (ffi.NULL, dying.core):
            world.gpu.on_commit(only, Cause.BEGIN, now)
        return 0

    world.gpu.update(Decision(takes_off, lambda _result: None, lambda: 99))
    world.gpu.end_posted(dying)
    world.gpu.leave(dying)
    assert not ends(world)
    for client in (owner, other, owner, other):
        world.obeys(client)
    assert [kind for client, kind in world.events if client == 3][-2:] == [EventKind.END, EventKind.GONE]


def alone() -> tuple[World, GpuClient]:
    """A process that is alone, may begin without asking, and knows it."""
    world = World(AgentGpu, Obedience())
    first = world.client(1)
    world.gpu.register(first, "test", Tier.UNPATCHED, 1, world.says("agent 1"), flags=lib.GPURT_AGENT_FREE)
    assert world.said["agent 1"][:2] == (0, lib.GPURT_ORDER_ON | lib.GPURT_ORDER_FREE)
    world.obeys(first)
    return world, first


def test_another_agent_comes_after_what_a_process_that_was_alone_had_begun() -> None:
    world, first = alone()
    second = world.client(2)
    world.agent(second)
    assert (first.own.raw.free, "agent 2" in world.said) == (False, False)  # it is told, and has not answered
    world.gpu.begin_posted(first, 50, 0)
    world.obeys(first)
    assert world.said["agent 2"][:2] == (0, 0)  # for the first one owns the GPU
    world.gpu.end_posted(first)
    assert second.own.raw.on
    assert not first.own.raw.free
    world.gpu.leave(second)
    assert first.own.raw.free


def test_another_agent_comes_when_the_one_that_was_alone_is_late() -> None:
    world, _ = alone()
    second = world.client(2)
    world.agent(second)
    world.now += Obedience().bound
    world.gpu.advance(world.now)
    go_on(world.commands)
    assert world.said["agent 2"][:2] == (0, lib.GPURT_ORDER_ON)


@pytest.mark.parametrize("what", ["policy", "exempt", "budget"])
def test_nothing_that_a_process_with_the_flag_must_not_have_comes_before_it_is_taken_back(what: str) -> None:
    world, first = alone()
    if what == "policy":
        world.command(Command.SET_POLICY, POLICY=int(Policy.BOOSTED))
    elif what == "exempt":
        world.gpu.exempt(first, True, lambda _result: None)
    else:
        world.gpu.put_under(first, Allowance(1), lambda _result: None)
    before = int(world.gpu.sched.policy), bool(first.core.exempt), first.core.budget == ffi.NULL
    assert before == (Policy.SEGMENT, False, True)
    world.obeys(first)
    after = int(world.gpu.sched.policy), bool(first.core.exempt), first.core.budget == ffi.NULL
    assert sum(one != other for one, other in zip(before, after, strict=True)) == 1
    assert not first.own.raw.free


def test_begins_that_are_posted_wait_at_the_gate_with_what_follows() -> None:
    """At the level of the last outermost one.  A wait that follows is for that one's grant."""
    world, owner, other = busy()
    for priority in (30, 40):
        world.gpu.begin_posted(other, priority, 0)
        world.gpu.end_posted(other)
    world.gpu.begin_posted(other, 20, 0)
    assert (nets(other), world.gpu.open_segments(other)) == ([1], 1)
    assert other.calls[0].turn.level == 20
    world.gpu.wait_grant(other, Waiter(lambda result, _when: world.said.update(granted=(result,))))
    assert "granted" not in world.said
    for client in (other, owner, other):
        world.obeys(client)
    assert (world.said["granted"], other.core.level) == ((0,), 20)
    world.gpu.end_posted(other)
    world.gpu.begin_posted(other, 5, 0)
    assert [kind for client, kind in world.events if client == 2].count(EventKind.END) == 1


def test_another_agent_comes_after_a_begin_that_waits_behind_another_call_of_its_client() -> None:
    world, first = alone()
    second = world.client(2)
    world.agent(second)
    world.gpu.exempt(first, False, lambda _result: None, call=True)
    world.gpu.begin_posted(first, 50, 0)
    world.obeys(first)
    assert world.said["agent 2"][:2] == (0, 0)


@pytest.mark.parametrize("behind", [False, True])
def test_a_begin_that_was_posted_before_its_process_ended_keeps_the_gpu_from_nobody(behind: bool) -> None:
    """It waits: ``behind`` a call of the process that waits for its own flag, or for the update in flight."""
    world, first = alone()
    if behind:
        world.gpu.exempt(first, True, lambda _result: None, call=True)
        world.gpu.begin_posted(first, 50, 0)
        world.gpu.leave(first)
        second = world.client(2)
    else:
        second = world.client(2)
        world.gpu._turns.held = True
        world.gpu.begin_posted(first, 50, 0)
        world.gpu.leave(first)
        world.gpu._turns.held = False
        world.gpu.settle()
    go_on(world.commands)
    world.begin(second, 10)
    assert world.said["begin 2"] == (0,)
    assert world.gpu.state(second) == lib.GPURT_STATE_RUNNING


@pytest.mark.parametrize(("user", "level"), [(0, 50), (NOBODY, 0)])
def test_a_begin_that_is_posted_has_the_level_that_the_process_has_the_right_to(user: int, level: int) -> None:
    """The process has ended since, and with it the thread."""
    with subprocess.Popen(["true"]) as child:
        pass
    world = World(AgentGpu, Obedience())
    poster: Any = Caller(world, 1)
    poster.peer = Peer(child.pid, user, "poster", 1)
    fields = {"size": ffi.sizeof("struct gpurt_begin"), "flags": lib.GPURT_BEGIN_POST, "raised": 50}
    payload, groups = bytes(ffi.buffer(ffi.new("struct gpurt_begin *", fields))), Groups([world.gpu], True)
    calls = Calls([world.gpu], lambda: world.now, Deadlines(), groups)
    calls.call(poster, lib.GPURT_IOC_BEGIN, payload, lambda *_: None, posted=True)
    core = poster.client(world.gpu).core
    assert (core.depth, core.level) == (1, level)


def yielding() -> tuple[World, GpuClient, GpuClient]:
    """A client that begins beside another one."""
    world = World(AgentGpu, Obedience(yields=True))
    flags = lib.GPURT_AGENT_FREE | lib.GPURT_AGENT_SINGLE | lib.GPURT_AGENT_AUTOMATIC
    clients = world.client(11), world.client(12)
    for one in clients:
        world.gpu.register(one, "test", Tier.UNPATCHED, 1, world.says(f"agent {one.id}"), flags)
        world.obeys(clients[0])  # it gives the flag back, with which it began while it was alone
        world.obeys(one)
    world.gpu.update(Decision(
        lambda now: int(lib.gpurt_set_priority(world.gpu.sched, clients[0].core, 50, now)), world.says("set"),
        lambda: 0, clients[0], call=True,
    ))  # fmt: skip
    for one in (*clients, *clients):
        world.obeys(one)
    assert world.gpu.facts().ready == 1
    assert [world.gpu.yielding(one) for one in clients] == [True, True]  # whichever is the more urgent
    world.gpu.begin_posted(clients[0], 0, lib.GPURT_BEGIN_YIELD)
    assert clients[1].own.raw.on
    return world, *clients


@pytest.mark.parametrize("flag", [lib.GPURT_AGENT_FREE, lib.GPURT_AGENT_SINGLE, lib.GPURT_AGENT_AUTOMATIC])
def test_a_client_says_whether_its_process_can_begin_by_yield(flag: int) -> None:
    """Not with an older library, nor beside a process whose slice nobody shortens, nor if it marks its segments."""
    every = lib.GPURT_AGENT_FREE | lib.GPURT_AGENT_SINGLE | lib.GPURT_AGENT_AUTOMATIC
    for other in (every & ~flag, every):
        world = World(AgentGpu, Obedience(yields=True))
        one, two = world.client(11), world.client(12)
        assert world.gpu.yielding(one) is False  # it has no agent
        for agent, flags in ((one, every), (two, other)):
            world.gpu.register(agent, "test", Tier.UNPATCHED, 1, world.says(f"agent {agent.id}"), flags)
            world.obeys(one)
        world.obeys(two)
        short = bool(other & lib.GPURT_AGENT_SINGLE)
        assert (world.gpu.yielding(one), world.gpu.yielding(two)) == (short, other == every)
        one.core.exempt = True
        assert world.gpu.yielding(one) is False
    world = World(AgentGpu, Obedience())
    assert world.gpu.yielding(world.client(11)) is None


def test_who_waits_for_the_gpu_beside_others_has_it_when_they_are_off() -> None:
    """It is told so when their agents have answered, not while they may run."""
    world, urgent, other = yielding()
    world.gpu.wait_grant(urgent, Waiter(world.says("granted")))
    assert not other.own.raw.on
    assert "granted" not in world.said
    world.obeys(other)
    assert world.said["granted"][0] == 0


def test_who_waits_for_the_gpu_before_its_begin_is_taken_has_it_when_others_are_off() -> None:
    """The begin and the wait for the GPU come while another update is in flight."""
    world, urgent, other = yielding()
    world.gpu.end_posted(urgent)
    urgent.alone = True  # as before its first begin of that kind
    world.gpu._turns.held = True
    world.gpu.begin_posted(urgent, 0, lib.GPURT_BEGIN_YIELD)
    world.gpu.wait_grant(urgent, Waiter(world.says("granted")))
    world.gpu._turns.held = False
    world.gpu.settle()
    assert not other.own.raw.on
    assert "granted" not in world.said
    world.obeys(other)
    assert world.said["granted"][0] == 0


def test_a_begin_that_is_no_yield_has_others_off_when_it_is_answered() -> None:
    world, urgent, other = yielding()
    world.gpu.update(Decision(
        lambda now: world.gpu.begin(urgent, 0, 0, 0, now), world.says("begin"), lambda: 50, urgent, call=True
    ))  # fmt: skip
    assert not other.own.raw.on
    assert "begin" not in world.said
    world.obeys(other)
    assert world.said["begin"] == (0,)


def begins(world: World, client: GpuClient, own: int) -> None:
    """By a call that permits the most urgent process to stay on."""
    world.gpu.update(Decision(
        lambda now: world.gpu.begin(client, own, 0, lib.GPURT_BEGIN_YIELD, now), world.says(f"begin {client.id}"),
        lambda: own, client, call=True,
    ))  # fmt: skip


def test_who_begins_for_the_first_time_does_not_do_so_beside_a_less_urgent_process() -> None:
    """It has the GPU when that is off, although it was the most urgent one up to then."""
    world, before, first = yielding()
    begins(world, first, 60)
    assert not before.own.raw.on
    assert "begin 12" not in world.said
    world.obeys(before)
    world.obeys(first)
    assert world.said["begin 12"] == (0,)


@pytest.mark.parametrize("owns", [False, True])
def test_the_most_urgent_process_is_off_while_its_own_segment_is_less_urgent(owns: bool) -> None:
    """It was preempted, or begins beside the owner: without asking, for it may be on until the host knows the level."""
    world, urgent, other = yielding()
    world.gpu.end_posted(urgent)
    world.gpu.update(Decision(
        lambda now: int(lib.gpurt_set_priority(world.gpu.sched, urgent.core, lib.GPURT_PRIORITY_OWN, now)),
        world.says("unset"), lambda: 0, urgent, call=True,
    ))  # fmt: skip
    for one in (urgent, other, urgent, other):
        world.obeys(one)
    if not owns:
        world.gpu.begin_posted(urgent, 5, lib.GPURT_BEGIN_YIELD)
    begins(world, other, 10)
    for one in (urgent, other):
        world.obeys(one)
    assert (world.said["begin 12"], urgent.own.raw.on) == ((0,), owns)
    if owns:
        world.gpu.begin_posted(urgent, 5, lib.GPURT_BEGIN_YIELD)
        assert not urgent.own.raw.on


def test_others_that_are_taken_off_before_they_had_to_be_took_no_time(capfd: pytest.CaptureFixture[str]) -> None:
    world, urgent, other = yielding()
    before = int(world.gpu.latency[Cause.BEGIN].count)
    world.gpu.recall(over=False)
    for one in (other, urgent):
        world.obeys(one)
    assert (world.gpu.latency[Cause.BEGIN].count, capfd.readouterr().err) == (before + 1, "")


def test_one_call_never_has_more_channels_than_fit() -> None:
    """An agent whose driver refused, and which tells more channels before it gets its order again, is left out."""
    now, sent = [10**12], []
    gpu = AgentGpu(0, Obedience(), int(Policy.SEGMENT), lambda *_: None, lambda: now[0])
    clients = [gpu.join(at, Peer(10 + at, 1000, "x", 1), False, None, Account(1000, UserLimits())) for at in range(3)]
    caller, refused, _ = clients

    def tell(client: GpuClient, state: int, count: int) -> None:
        channels = [(client.id, at) for at in range(count)]
        gpu.register(client, "d", Tier(lib.GPURT_TIER_UNPATCHED), 1, lambda result, *_: sent.append(result),
                     lib.GPURT_AGENT_MANY, state, channels)  # fmt: skip

    for client in clients:
        tell(client, 1, 1)
        gpu.answer(client, 1, 0)
    lib.gpurt_agents_commit(gpu.agents, caller.own.raw.number, lib.GPURT_AGENTS_ALONE, now[0])
    gpu.in_flight = None
    assert len(gpu.channels_of_others(caller.own)) == 2
    gpu.answer(refused, refused.own.raw.sequence, -errno.EIO)
    tell(refused, 2, lib.GPURT_MAX_CHANNELS)
    now[0] += lib.GPURT_AGENT_AGAIN_NS
    lib.gpurt_agents_tick(gpu.agents, now[0])
    assert sent == [0] * 4
    assert len(gpu.channels_of_others(caller.own)) <= lib.GPURT_MAX_CHANNELS
    assert order_of(refused.own) & (lib.GPURT_ORDER_TAKEN | lib.GPURT_ORDER_ANEW) == lib.GPURT_ORDER_ANEW
