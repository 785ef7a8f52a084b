# SPDX-License-Identifier: GPL-2.0
"""Turns of the user-space host's loop: whose packet is read, what is sent, and what a user may have.

The host is in this process, and each turn of its loop is one that a test asks for.
"""

from __future__ import annotations

import errno
import os
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from actors import Actor
from links import PATIENCE, Client, SocketClient, eventually, structure
from worlds import World

from gpurt._gpurt import lib
from gpurt.enums import Command, EventKind, Packet
from pycontrol.host import feed, loop, pace
from pycontrol.host.connection import Timer
from pycontrol.host.gpu import MAX_DECISIONS_A_TURN
from pycontrol.host.pace import Pace
from pycontrol.host.peer import Peer
from pycontrol.host.users import TSG, Account, UserLimits
from pycontrol.host.wire import Refusal
from pycontrol.link.netlink import NLM_F_DUMP, NLM_F_REQUEST, PACKET, SOCKET_FAMILY, decode, encode
from pycontrol.readable import readable

QUERY, BEGIN, END, WAIT = lib.GPURT_IOC_QUERY, lib.GPURT_IOC_BEGIN, lib.GPURT_IOC_END, lib.GPURT_IOC_WAIT
FOREVER = {"what": lib.GPURT_WAIT_GRANT, "timeout_ns": lib.GPURT_FOREVER}
MS = 1_000_000


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Callable[[UserLimits], World]]:
    """Makes hosts."""
    made: list[World] = []

    def one(limits: UserLimits) -> World:
        made.append(World(tmp_path / f"host{len(made)}.sock", limits))
        return made[-1]

    yield one
    for world in made:
        world.close()


@pytest.fixture
def world(make: Callable[[UserLimits], World]) -> World:
    """A host."""
    return make(UserLimits())


@pytest.fixture
def few(make: Callable[[UserLimits], World], monkeypatch: pytest.MonkeyPatch) -> World:
    """A host for which this user is no administrator, and that permits a user little."""
    monkeypatch.setattr(loop, "administers", lambda _uid: False)
    return make(UserLimits(connections=3, calls=4, memory=2 * TSG))


def told(reader: SocketClient) -> list[tuple[EventKind, int]]:
    """Kinds of the events that have arrived, and how many each says that were lost."""
    found = []
    reader.sock.setblocking(False)
    while True:
        try:
            packet = reader.sock.recv(1 << 16)
        except BlockingIOError:
            return found
        message = decode(packet[PACKET.size :])
        found.append((EventKind(int(message.attributes["EVENT"])), int(message.attributes.get("LOST", 0))))


def post(client: SocketClient) -> None:
    """Ends a segment, and asks for no answer."""
    client.sock.send(PACKET.pack(Packet.IOCTL, END, 0, 0) + structure(END))


def test_the_most_urgent_connection_is_read_first(world: World) -> None:
    urgent, others = world.urgent(), [world.client() for _ in range(40)]
    queries = [one.start(QUERY) for one in others for _ in range(5)]
    begin = urgent.start(BEGIN, priority=90)
    world.turn()
    assert begin.done()
    assert not any(one.done() for one in queries)
    world.settle()
    assert all(one.done() for one in queries)


def test_connections_that_are_equal_are_read_in_turn(world: World) -> None:
    greedy, modest = world.client(), world.client()
    many = [greedy.start(QUERY) for _ in range(20)]
    one = modest.start(QUERY)
    world.turn(2)
    assert one.done()
    assert sum(query.done() for query in many) == 1


def test_a_priority_that_is_set_counts_from_then_on(world: World) -> None:
    """An administrator's word, as well as the thread's own priority, which root may exceed."""
    urgent = world.urgent()
    (client,) = world.host.gpus[0].clients.values()
    client.core.set = 0  # as GPURT_CMD_SET_PRIORITY has it
    assert world.ask(urgent, QUERY) == 0
    assert world.host.connections[next(iter(world.host.connections))].lane.level == 0


def test_new_connections_wait_for_urgent_ones_and_are_in_turn_with_others(world: World) -> None:
    urgent, other = world.urgent(), world.client()
    before = len(world.host.connections)
    fresh = [SocketClient(world.path) for _ in range(10)]
    begin, query = urgent.start(BEGIN, priority=90), other.start(QUERY)
    world.turn()
    assert begin.done()
    assert len(world.host.connections) == before
    world.turn(2)
    assert query.done()
    assert len(world.host.connections) == before + 1
    world.settle()
    assert len(world.host.connections) == before + len(fresh)


def test_events_are_sent_after_the_answer(world: World) -> None:
    urgent, readers = world.urgent(), [world.subscriber() for _ in range(30)]
    begin = urgent.start(BEGIN, priority=90)
    world.turn()
    assert begin.done()
    assert not any(told(one) for one in readers)
    world.settle()
    stories = [[kind for kind, _ in told(one)] for one in readers]
    assert EventKind.GRANT in stories[0]
    assert stories == [stories[0]] * len(readers)


def test_an_urgent_call_waits_for_one_piece_of_what_readers_are_owed_at_most(world: World) -> None:
    urgent, readers = world.urgent(), [world.subscriber() for _ in range(30)]
    for _ in range(50):
        for code, fields in ((BEGIN, {"priority": 90}), (END, {})):
            call = urgent.start(code, **fields)
            world.turn()
            assert call.done()
    assert len(world.host._owing) >= len(readers)
    begin = urgent.start(BEGIN, priority=90)
    world.turn()
    assert begin.done()


def test_a_reader_that_does_not_read_loses_its_own_events_and_learns_how_many(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(feed, "MAX_EVENTS_KEPT", 64)
    world.host.feed.forget()
    urgent, slow, fast = world.urgent(), world.subscriber(), world.subscriber()
    slow.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1)
    seen = 0
    for _ in range(500):
        assert world.ask(urgent, BEGIN, priority=90) == 0
        assert world.ask(urgent, END) == 0
        heard = told(fast)
        assert not any(lost for _, lost in heard)
        seen += len(heard)
    late = []
    while more := told(slow):
        late += more
        world.settle()
    assert sum(lost for _, lost in late) > 0
    assert sum(lost or 1 for _, lost in late) == seen
    assert len(world.host.feed._ring) == 64


def test_answers_come_after_the_events_before_them(world: World) -> None:
    urgent, reader = world.urgent(), world.subscriber()
    begin = urgent.start(BEGIN, priority=90)
    asked = encode(Command.GET_STATUS, {}, SOCKET_FAMILY, NLM_F_REQUEST | NLM_F_DUMP, 1)
    reader.sock.send(PACKET.pack(Packet.NETLINK, 0, 0, 0) + asked)
    world.settle()
    assert begin.done()
    commands = []
    for _ in range(world.host.feed.head + 1):
        commands.append(decode(reader.sock.recv(1 << 16)[PACKET.size :]).command)
        if commands[-1] is Command.GET_STATUS:
            break
    assert len(commands) > 1
    assert commands[:-1] == [Command.EVENT] * (len(commands) - 1)


def test_those_that_wait_for_the_gpu_are_answered_in_pieces(world: World) -> None:
    urgent, others = world.urgent(), [world.client() for _ in range(6 * MAX_DECISIONS_A_TURN)]
    assert world.ask(urgent, BEGIN, priority=90) == 0
    for one in others:
        assert world.ask(one, BEGIN) == 0
    waits = [one.start(WAIT, **FOREVER) for one in others for _ in range(3)]
    world.settle()
    assert not any(one.done() for one in waits)
    end = urgent.start(END)
    world.turn()
    assert end.done()
    assert 0 < sum(one.done() for one in waits) <= 3 * MAX_DECISIONS_A_TURN
    begin = urgent.start(BEGIN, priority=90)
    world.turn()
    assert begin.done()
    world.settle()
    assert not all(one.done() for one in waits)  # the GPU is the urgent client's again
    assert world.ask(urgent, END) == 0
    assert {one.result()[0] for one in waits} == {0}


def test_a_list_of_clients_is_made_as_it_is_read(world: World) -> None:
    clients = [world.client() for _ in range(200)]
    for one in clients:
        assert world.ask(one, BEGIN) == 0
    reader, urgent = world.client(), world.urgent()
    asked = encode(Command.GET_CLIENTS, {}, SOCKET_FAMILY, NLM_F_REQUEST | NLM_F_DUMP, 1)
    reader.sock.send(PACKET.pack(Packet.NETLINK, 0, 0, 0) + asked)
    world.turn(3)
    clients[-1].close()  # before its turn
    begin = urgent.start(BEGIN, priority=90)
    world.turn()
    assert begin.done()
    found, last = [], None
    reader.sock.setblocking(False)
    while last is None or last.command is Command.GET_CLIENTS:
        world.settle()
        try:
            packet = reader.sock.recv(1 << 16)[PACKET.size :]
        except BlockingIOError:
            continue
        if int.from_bytes(packet[4:6], "little") == lib.GPURT_PACKET_NETLINK:
            break  # NLMSG_DONE
        last = decode(packet)
        found.append(last.attributes["CLIENT"])
    assert len(found) == len(set(found)) == 200


# What a user may have


def refusal(client: SocketClient) -> tuple[int, int]:
    """Cookie and result of the packet that turns a connection away."""
    kind, _, cookie, result = PACKET.unpack_from(client.sock.recv(1 << 16))
    assert kind == Packet.REPLY
    assert client.sock.recv(1) == b""
    return cookie, result


def test_a_timer_that_is_put_off_costs_nothing_before_it_goes_off() -> None:
    def left() -> int:
        """Hours until it goes off, rounded up; 0: it does not."""
        text = Path(f"/proc/self/fdinfo/{timer.fd}").read_text()
        return -(-int(text.partition("it_value: (")[2].partition(",")[0]) // 3_600)

    timer, now, hour, never = Timer(), time.monotonic_ns(), 3_600 * 10**9, lib.GPURT_FOREVER
    seen = []
    for when in (never, now + 3 * hour, now + 9 * hour, never, now + 2 * hour):
        timer.arm(when)
        seen.append(left())
    assert seen == [0, 3, 3, 3, 2]
    timer.arm(now)
    assert readable(timer.fd, PATIENCE)
    timer.clear()
    timer.arm(now + 3 * hour)
    assert left() == 3
    os.close(timer.fd)


def test_a_user_has_so_many_connections(few: World) -> None:
    first, *others = [few.client() for _ in range(3)]
    assert refusal(few.client()) == (0, -errno.EDQUOT)
    first.close()
    few.settle()
    assert few.ask(few.client(), QUERY) == 0
    assert few.ask(others[0], QUERY) == 0


def test_a_user_has_so_many_calls_under_way(few: World) -> None:
    owner, other = few.client(), few.client()
    assert few.ask(owner, BEGIN, priority=90) == 0
    for one in (other, few.client()):
        assert few.ask(one, BEGIN) == 0
        for _ in range(2):
            one.start(WAIT, **FOREVER)
    few.settle()
    assert few.ask(other, WAIT, **FOREVER) == -errno.EDQUOT
    assert few.ask(owner, END) == -errno.EDQUOT  # of the same user
    other.close()
    few.settle()
    assert few.ask(owner, END) == 0


def test_an_end_that_is_posted_is_refused_for_no_limit(few: World) -> None:
    """Its segment would last for ever."""
    owner, other = few.client(), few.client()
    assert few.ask(owner, BEGIN, priority=90) == 0
    assert few.ask(other, BEGIN) == 0
    waits = [other.start(WAIT, **FOREVER) for _ in range(4)]
    assert few.ask(other, QUERY) == -errno.EDQUOT
    post(owner)
    few.settle()
    assert [wait.result()[0] for wait in waits] == [0] * 4


def begin_and_ask(client: SocketClient) -> None:
    """In a process of its own: it begins a segment, and leaves an answer unread."""
    client.begin(priority=50)
    client.start(QUERY)
    readable(client.sock, PATIENCE)


def ask_post_and_exit(client: SocketClient) -> None:
    """In that process: it ends the segment, leaves answers unread, and exits."""
    client.start(QUERY)
    client.start(QUERY)
    post(client)
    os._exit(0)


def test_what_a_process_sent_is_taken_before_it_is_gone(world: World) -> None:
    """One answer is unread, and two cannot be given any more."""
    reader, actor = world.subscriber(), Actor(world.path)
    actor.start(begin_and_ask)
    while not actor.pipe.poll(0):
        world.turn()
    actor.answer()
    actor.start(ask_post_and_exit)
    actor.reap()
    world.settle()
    kinds = [kind for kind, _ in told(reader)]
    assert EventKind.END in kinds[: kinds.index(EventKind.GONE)]


def test_a_user_has_so_much_memory(few: World) -> None:
    one, other = few.client(), few.client()
    assert few.ask(one, lib.GPURT_IOC_TSG_OPEN) == 0
    works = 0
    while (result := few.ask(one, lib.GPURT_IOC_SUBMIT, duration_ns=lib.GPURT_MAX_WORK_NS)) == 0:
        works += 1
    assert result == -errno.EDQUOT
    assert 0 < works < lib.GPURT_MAX_QUEUED
    assert few.ask(other, lib.GPURT_IOC_TSG_OPEN) == -errno.EDQUOT
    assert few.ask(one, lib.GPURT_IOC_TSG_CLOSE) == 0
    assert few.ask(other, lib.GPURT_IOC_TSG_OPEN) == 0


def test_what_a_connection_had_is_given_back_when_it_ends(few: World) -> None:
    """Whatever it is in the middle of."""
    owner, other = few.client(), few.client()
    few.host.users.limits = UserLimits()
    few.host.connections[next(iter(few.host.connections))].account.limits = None
    assert few.ask(owner, BEGIN, priority=90) == 0
    assert few.ask(other, BEGIN) == 0
    assert few.ask(other, lib.GPURT_IOC_TSG_OPEN) == 0
    assert few.ask(other, lib.GPURT_IOC_SUBMIT, duration_ns=lib.GPURT_MAX_WORK_NS) == 0
    for what in (lib.GPURT_WAIT_GRANT, lib.GPURT_WAIT_IDLE):
        other.start(WAIT, what=what, timeout_ns=lib.GPURT_FOREVER)
    asked = encode(Command.GET_CLIENTS, {}, SOCKET_FAMILY, NLM_F_REQUEST | NLM_F_DUMP, 1)
    other.sock.send(PACKET.pack(Packet.SUBSCRIBE, 0, 0, 0))
    for _ in range(200):
        other.sock.send(PACKET.pack(Packet.NETLINK, 0, 0, 0) + asked)
        few.settle()
    (account,) = few.host.users._all.values()
    assert account.calls > 2
    assert account.memory > TSG
    other.close()
    few.settle()
    assert (account.connections, account.calls, account.memory) == (1, 0, 0)
    owner.close()
    few.settle()
    assert few.host.users._all == {}
    assert few.host.lanes._by_key == {}


def test_a_user_may_have_all_that_the_limits_permit() -> None:
    account = Account(7, UserLimits(connections=2, calls=1, memory=100))
    account.take(60)
    account.take(40)
    account.call()
    account.connections = 2
    account.check()
    account.connections = 3
    for refused in (lambda: account.take(1), account.call, account.check):
        with pytest.raises(Refusal) as caught:
            refused()
        assert caught.value.error == errno.EDQUOT
    assert (account.memory, account.calls) == (100, 1)


def test_descriptors_that_are_sent_along_do_not_arrive(world: World) -> None:
    client = world.client()
    before = len(os.listdir("/proc/self/fd"))
    packet = PACKET.pack(Packet.IOCTL, QUERY, 1, 0)
    with open(os.devnull) as file:
        for _ in range(30):
            socket.send_fds(client.sock, [packet], [file.fileno()])
        world.settle()
    assert len(os.listdir("/proc/self/fd")) == before


def test_a_process_that_has_ended_or_is_hidden_is_turned_away() -> None:
    with pytest.raises(loop.Refusal) as refused:
        Peer.of(0, os.geteuid())
    assert refused.value.error == errno.ESRCH


class Tired(Pace):
    """It has worked too much whenever it is asked."""

    def rests(self, now: int, worked: int) -> int:
        return now + 10**18


def test_a_host_that_rests_works_for_urgent_connections_only(world: World) -> None:
    """The kernel stops real-time threads that never rest, for longer than anybody may wait."""
    urgent, other = world.urgent(), world.client()
    before = len(world.host.connections)
    world.host._pace = Tired()
    first = other.start(QUERY)
    world.turn()
    assert first.done()
    query, fresh, begin = other.start(QUERY), SocketClient(world.path), urgent.start(BEGIN, priority=90)
    world.settle()
    assert (begin.done(), query.done(), len(world.host.connections)) == (True, False, before)
    world.host._pace, world.host._resting = None, 1
    world.host.turn(world.wake)
    world.settle()
    assert (query.done(), len(world.host.connections)) == (True, before + 1)
    fresh.close()


def begins(client: Client) -> None:
    """Begins a segment, and waits for nothing."""
    client.start(BEGIN, priority=90)


def ends(client: Client) -> None:
    """Ends it, and waits for nothing."""
    client.start(END)


def registers(client: Client) -> None:
    """Registers an agent, which has carried out its first order."""
    client.start(lib.GPURT_IOC_AGENT, tsgs=1, driver=b"d", tier=lib.GPURT_TIER_UNPATCHED)
    client.start(lib.GPURT_IOC_ORDER, answered=1, timeout_ns=lib.GPURT_FOREVER)


def answers(client: Client) -> None:
    """The agent has carried out its second order."""
    client.start(lib.GPURT_IOC_ORDER, answered=2, timeout_ns=lib.GPURT_FOREVER)


@pytest.fixture
def agents(tmp_path: Path) -> Iterator[tuple[World, SocketClient, SocketClient]]:
    """A host, this process's agent, which has carried out its first order, and another client of this process."""
    world = World(tmp_path / "host.sock", UserLimits(), by_agents=True)
    agent, other = world.client(), world.client()
    assert world.ask(agent, lib.GPURT_IOC_AGENT, tsgs=1, driver=b"d", tier=lib.GPURT_TIER_UNPATCHED) == 0
    agent.start(lib.GPURT_IOC_ORDER, answered=1, timeout_ns=lib.GPURT_FOREVER)
    world.settle()
    yield world, agent, other
    world.close()


def tire(world: World, other: SocketClient) -> None:
    """The host rests for good after this call of an ordinary client."""
    world.host._pace = Tired()
    assert world.ask(other, QUERY) == 0


def test_an_agent_is_read_in_a_rest_only_if_an_answer_is_awaited(
    agents: tuple[World, SocketClient, SocketClient],
) -> None:
    """Then an urgent client's update may wait for it.  Otherwise an agent is any user's."""
    world, agent, other = agents
    tire(world, other)
    junk = agent.start(QUERY)
    world.settle()
    assert not junk.done()
    world.host._pace, world.host._resting = None, 1
    with Actor(world.path) as stranger:
        stranger.start(begins)

        def awaited() -> bool:
            world.settle()
            return world.host.gpus[0].awaits_agents

        eventually(awaited)  # that the agent's process is off
        tire(world, other)
        query, answer = other.start(QUERY), agent.start(QUERY)
        world.settle()
        assert (query.done(), answer.done()) == (False, True)


def test_an_agent_after_which_others_come_on_is_read_in_a_rest(
    agents: tuple[World, SocketClient, SocketClient],
) -> None:
    """Else they were off for as long as the rest goes on."""
    world, agent, other = agents
    core = world.host.gpus[0].agents

    def settled(off: int) -> bool:
        world.settle()
        return sum(not one.raw.on for one in world.host.gpus[0]._processes.values() if one.raw.registered) == off

    with Actor(world.path) as owner, Actor(world.path) as second:
        second.start(registers)
        eventually(lambda: settled(0) and core.registered.next != core.registered.prev)
        owner.start(begins)
        eventually(lambda: settled(2))
        agent.start(lib.GPURT_IOC_ORDER, answered=2, timeout_ns=lib.GPURT_FOREVER)
        second.start(answers)
        eventually(lambda: settled(2) and not core.step)
        owner.start(ends)
        eventually(lambda: settled(1))
        tire(world, other)
        query, answer = other.start(QUERY), agent.start(lib.GPURT_IOC_ORDER, answered=3, timeout_ns=lib.GPURT_FOREVER)
        assert settled(0)
        assert (query.done(), answer.done()) == (False, False)


def test_a_client_with_a_priority_and_an_agent_is_read_in_a_rest(
    agents: tuple[World, SocketClient, SocketClient],
) -> None:
    world, agent, other = agents
    (client,) = world.host.gpus[0].clients.values()
    client.core.set = 90  # as GPURT_CMD_SET_PRIORITY has it
    assert world.ask(agent, QUERY) == 0
    tire(world, other)
    assert world.ask(agent, QUERY) == 0


def test_work_for_agents_in_a_rest_does_not_lead_to_the_next_one() -> None:
    made = Pace()
    assert made.rests(10**12, 0) == 0
    until = made.rests(10**12 + MS, MS)
    made.restart(until, 9 * MS)
    assert made.rests(until + MS // 16, 9 * MS + MS // 16) == 0


def test_how_much_is_worked_before_a_rest() -> None:
    """Half of the time, in pieces of 0.1 ms; what took longer is followed by a longer rest."""
    made, now, worked = Pace(), 10**12, 0
    assert made.rests(now, worked + MS) == 0  # in a long time
    for _ in range(100):  # one that has idle time in between never rests
        now, worked = now + 2 * MS, worked + MS
        assert made.rests(now, worked) == 0
    now, worked = now + MS * 6 // 100, worked + MS * 6 // 100
    assert made.rests(now, worked) == 0
    now, worked = now + MS * 6 // 100, worked + MS * 6 // 100
    assert made.rests(now, worked) == now + MS * 12 // 100
    for _ in range(3):  # pieces of a slow machine
        made.restart(now + 4 * MS, worked)
        now, worked = now + 8 * MS, worked + 4 * MS
        assert made.rests(now, worked) == now + 4 * MS


class Fresh(Pace):
    """It has never worked too much."""

    def rests(self, now: int, worked: int) -> int:
        return 0


@pytest.mark.parametrize("longest", [10**18, 0])
def test_an_urgent_client_reads_its_answer_before_the_host_goes_on(
    world: World, monkeypatch: pytest.MonkeyPatch, longest: int
) -> None:
    """They may share a CPU.  For so long at most, since it may never read."""
    monkeypatch.setattr(pace, "LOOK_NS", 10**18)
    monkeypatch.setattr(pace, "MAX_SPARED_NS", longest)
    urgent, other = world.urgent(), world.client()
    world.host._pace = Fresh()
    answer = urgent.start(QUERY)
    world.turn()
    query = other.start(QUERY)
    world.settle()
    assert query.done() == (not longest)
    assert answer.done()
    world.host._resting = min(world.host._resting, 1)  # until when it looks again
    world.settle()
    assert query.done()
