# SPDX-License-Identifier: GPL-2.0
"""No packet has the user-space host work for long in one turn of its loop: every packet, at its limit.

A turn is measured by the functions that it calls, of Python and of C, and by its system calls.  The host's loop serves
the most urgent connection after each turn, so that one turn is what a stranger's packet costs it.
"""

from __future__ import annotations

import errno
import gc
import os
import re
import select
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import IO, Any

import pytest
from links import SocketClient, structure
from worlds import World

from gpurt._gpurt import lib
from gpurt.enums import Command, Packet, Policy
from pycontrol.host import loop, peer
from pycontrol.host.calls import KINDS
from pycontrol.host.connection import MOST_CALLS
from pycontrol.host.units import Mechanism, Space, setup_of
from pycontrol.host.users import UserLimits
from pycontrol.link.netlink import NLM_F_DUMP, NLM_F_REQUEST, PACKET, SOCKET_FAMILY, encode

#: The most in a turn.  Python calls some 5 functions in a microsecond, and one system call takes 2 to 10.
CALLS, SYSTEM = 4000, 80
GPUS, MS = 16, 1_000_000
#: The page with the table.
DESIGN = Path(__file__).resolve().parents[2] / "docs/design.md"
BEGIN, END, WAIT = lib.GPURT_IOC_BEGIN, lib.GPURT_IOC_END, lib.GPURT_IOC_WAIT
GRANT = {"what": lib.GPURT_WAIT_GRANT, "timeout_ns": lib.GPURT_FOREVER}


class Crowd(World):
    """A host for which this user is no administrator; each turn counts.  `most` has the most of any."""

    most, _counting = (0, 0), True

    def __init__(self, path: Path, gpus: int = GPUS, alpha: int = 0, space: Space | None = None) -> None:
        super().__init__(path, UserLimits(), gpus, alpha, space)
        turn = self.host.turn
        self.host.turn = lambda wake: self._counted(lambda: turn(wake))  # type: ignore[method-assign]

    def _counted(self, turn: Callable[[], None]) -> None:
        if not self._counting:
            turn()
            return
        calls = system = 0

        def count(_frame: FrameType, event: str, what: Any) -> None:
            nonlocal calls, system
            calls += event in ("call", "c_call")
            if event == "c_call":
                of = getattr(what, "__self__", None)
                system += isinstance(of, (select.epoll, socket.socket)) or getattr(what, "__module__", "") == "posix"

        sys.setprofile(count)
        try:
            turn()
        finally:
            sys.setprofile(None)
        self.most = max(self.most[0], calls), max(self.most[1], system)

    @contextmanager
    def uncounted(self) -> Iterator[None]:
        """Turns do not count, and each call has only those that answer it: what a test prepares takes less time so."""
        self._counting = False
        yield
        self.settle()
        self._counting = True

    def ask(self, client: SocketClient, code: int, **fields: int) -> int:
        """The result of a call."""
        if self._counting:
            return super().ask(client, code, **fields)
        call = client.start(code, **fields)
        while not call.done():
            self.host.turn(self.wake)
        return call.result()[0]

    def clients(self, count: int, gpus: int = GPUS) -> list[SocketClient]:
        """Connections with a client on each of so many GPUs, which all have been in a segment."""
        made = [self.client() for _ in range(count)]
        with self.uncounted():
            for one in made:
                for gpu in range(gpus):
                    assert self.ask(one, BEGIN, gpu=gpu) == 0
                    assert self.ask(one, END, gpu=gpu) == 0
        return made

    def waiting(self, client: SocketClient, count: int) -> None:
        """So many calls of a client wait for the GPU."""
        for _ in range(count):
            client.start(WAIT, **GRANT)
            self.turn()

    def netlink(self, client: SocketClient, command: Command, flags: int = 0, **attributes: int | str) -> None:
        asked = encode(command, attributes, SOCKET_FAMILY, NLM_F_REQUEST | flags, 1)
        client.sock.send(PACKET.pack(Packet.NETLINK, 0, 0, 0) + asked)
        self.settle()

    def check(self) -> None:
        assert self.most[0] > 0
        assert self.most[0] <= CALLS, self.most
        assert self.most[1] <= SYSTEM, self.most


@pytest.fixture
def crowd(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Crowd]]:
    """Makes hosts, whose turns are checked after the test."""
    gc.collect()  # else a turn may do so, and name each socket that other tests have left open
    for module in (loop, peer):
        monkeypatch.setattr(module, "administers", lambda _uid: False)
    made: list[Crowd] = []

    def one(**options: int) -> Crowd:
        made.append(Crowd(tmp_path / f"host{len(made)}.sock", **options))
        return made[-1]

    yield one
    for world in made:
        world.settle()
        world.close()
        world.check()


#: A process with so many threads and so many processes above it sends a packet, and prints the result of the answer.
STRANGER = """
import os, socket, sys, threading
path, packet, threads, above = *sys.argv[1:3], *map(int, sys.argv[3:])
for _ in range(above):
    if os.fork():
        os.wait()
        os._exit(0)
for _ in range(threads):
    threading.Thread(target=threading.Event().wait, daemon=True).start()
sock = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
sock.connect(path)
sock.send(bytes.fromhex(packet))
print("sent", flush=True)
print(int.from_bytes(sock.recv(1 << 16)[12:16], sys.byteorder, signed=True), flush=True)
sys.stdin.read()
"""


@contextmanager
def stranger(world: World, tid: int, threads: int, above: int, *command: str) -> Iterator[IO[str]]:
    """A process whose BEGIN has been sent; what it prints of the answer."""
    packet = PACKET.pack(Packet.IOCTL, BEGIN, 1, tid) + structure(BEGIN)
    arguments = [world.path, packet.hex(), str(threads), str(above)]
    with subprocess.Popen(
        [*command, sys.executable, "-c", STRANGER, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout
        assert process.stdin
        assert process.stdout.readline() == "sent\n"
        yield process.stdout
        process.stdin.close()


# Each packet, at its limit


def joins(world: Crowd) -> None:
    """The last member joins with a client on each GPU, and all members wait to copy."""
    members = world.clients(12)
    for one in members:
        for gpu in range(GPUS):
            one.start(lib.GPURT_IOC_COPY, gpu=gpu, what=lib.GPURT_COPY_BEGIN, timeout_ns=lib.GPURT_FOREVER, request=1)
            world.turn()
    for one in members:
        assert world.ask(one, lib.GPURT_IOC_GROUP_JOIN, name=b"g") == 0
    for code in (BEGIN, END):
        assert world.ask(members[0], code) == 0


def waits(world: Crowd) -> None:
    """Each member of the group that gets the GPU waits for it with many calls."""
    owner, members = world.client(), world.clients(8, 1)
    assert world.ask(owner, BEGIN, priority=90) == 0
    for one in members:
        assert world.ask(one, lib.GPURT_IOC_GROUP_JOIN, name=b"g") == 0
        assert world.ask(one, BEGIN) == 0
        world.waiting(one, 60)
    assert world.ask(owner, END) == 0


def decisions(world: Crowd) -> None:
    """Many decisions have come to the gate while an update was in flight."""
    clients = world.clients(200, 1)
    world.host.gpus[0]._turns.held = True
    for one in clients:
        one.start(BEGIN)
        world.turn()
    world.host.gpus[0]._turns.held = False
    world.settle()
    assert world.host.gpus[0].sched.runner or all(one.core.depth for one in world.host.gpus[0].clients.values())


def works(world: Crowd) -> None:
    """A TSG with as much work as it may have is closed, and a client ends that has as many TSGs as it may have."""
    one = world.client()
    with world.uncounted():
        for _ in range(lib.GPURT_MAX_CLIENT_TSGS):
            assert world.ask(one, lib.GPURT_IOC_TSG_OPEN) == 0
        for _ in range(lib.GPURT_MAX_QUEUED - 1):
            assert world.ask(one, lib.GPURT_IOC_SUBMIT, tsg=0, duration_ns=lib.GPURT_MAX_WORK_NS) == 0
    assert world.ask(one, lib.GPURT_IOC_SUBMIT, tsg=0, duration_ns=lib.GPURT_MAX_WORK_NS) == 0
    assert world.ask(one, lib.GPURT_IOC_TSG_SHAPE, tsg=0, slice_ns=MS) == 0
    assert world.ask(one, lib.GPURT_IOC_TSG_CLOSE, tsg=0) == 0
    one.close()


def completions(world: Crowd) -> None:
    """Much short work of a client could have completed since the last turn."""
    owner, one = world.client(), world.client()
    assert world.ask(one, lib.GPURT_IOC_TSG_OPEN) == 0
    assert world.ask(owner, BEGIN, priority=90) == 0
    with world.uncounted():
        for _ in range(1000):
            assert world.ask(one, lib.GPURT_IOC_SUBMIT, duration_ns=lib.GPURT_MIN_WORK_NS) == 0
    owner.start(END)
    world.turn(2)
    time.sleep(0.01)  # longer than that work takes


def marks(world: Crowd) -> None:
    clients = world.clients(2)
    for _ in range(lib.GPURT_MARKS):
        assert world.ask(clients[0], lib.GPURT_IOC_JOB_MARK, what=lib.GPURT_MARK_BEGIN, task=b"t") == 0


def orders(world: Crowd) -> None:
    """As many agents as a user may have, in processes of their own, which the world sees as this one."""
    assert world.ask(world.client(), lib.GPURT_IOC_AGENT, driver=b"d") == -errno.EOPNOTSUPP
    assert world.ask(world.client(), lib.GPURT_IOC_ORDER) == -errno.EOPNOTSUPP


def queries(world: Crowd) -> None:
    """All that there is to read, of many clients, and subscribers who then get each event."""
    one = world.clients(20)[0]
    assert world.ask(one, lib.GPURT_IOC_QUERY) == 0
    for command in (Command.GET_STATUS, Command.GET_CLIENTS, Command.GET_LATENCY, Command.GET_BUS, Command.GET_RULES):
        world.netlink(one, command, NLM_F_DUMP)
    readers = [world.subscriber() for _ in range(40)]
    readers[0].sock.send(PACKET.pack(Packet.INTERRUPT, 0, 1, 0))
    world.settle()


def ends(world: Crowd) -> None:
    """Members of a group on all GPUs go, inside segments."""
    members = world.clients(12)
    for one in members:
        assert world.ask(one, lib.GPURT_IOC_GROUP_JOIN, name=b"g") == 0
        for gpu in range(GPUS):
            assert world.ask(one, BEGIN, gpu=gpu) == 0
    for one in members:
        one.close()


ATTACKS = [joins, waits, decisions, works, completions, marks, orders, queries, ends]


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda one: one.__name__)
def test_a_turn_has_a_bound(crowd: Callable[..., Crowd], attack: Callable[[Crowd], None]) -> None:
    attack(crowd())


#: So many tasks, of which one job has the only unit.
TASKS = 60
FILE = """
[[gpu]]
name = "gpu"
compute_units = 1
static_power = "1W"
idle_power = "250mW"
[[profile]]
name = "long"
  [[profile.on]]
  gpu = "gpu"
  kernel = { work = "800s", saturates = 1 }
  power = "1W"
""" + "".join(
    f'[[task]]\nname = "t{number}"\nperiod = "{2000 + number}s"\nsegments = [{{ profile = "long" }}]\n'
    for number in range(TASKS)
)


def test_jobs_that_many_calls_wait_for(crowd: Callable[..., Crowd], tmp_path: Path) -> None:
    """A client has a job of each task, and all calls that it may have wait for two of them; then it ends."""
    (tmp_path / "tasks.toml").write_text(FILE)
    how = Mechanism.GREEN_CONTEXTS
    space = Space(setup_of(tmp_path / "tasks.toml", "rm", how), how, time.monotonic_ns)
    world = crowd(gpus=1, space=space)
    one, jobs = world.client(), []
    for task in range(TASKS):
        ready = one.start(lib.GPURT_IOC_JOB_READY, task=b"t%d" % task)
        world.settle()
        result, made = ready.result()
        assert result == 0
        jobs.append(int(made.job))
    waits = []
    for number in range(MOST_CALLS - 2):
        waits.append(one.start(lib.GPURT_IOC_JOB_WAIT, job=jobs[number % 2 + 1], timeout_ns=lib.GPURT_FOREVER))
        world.turn()
    for job in jobs[:2]:
        for code in (lib.GPURT_IOC_JOB_KERNEL_DONE, lib.GPURT_IOC_JOB_DONE):
            assert world.ask(one, code, job=job) == 0
    assert {wait.result()[0] for wait in waits} <= {0, -errno.ENOENT}
    one.close()


def change_priority(world: Crowd, admin: SocketClient) -> None:
    world.netlink(admin, Command.SET_PRIORITY, PID=os.getpid(), PRIORITY=9)


def change_group(world: Crowd, admin: SocketClient) -> None:
    world.netlink(admin, Command.SET_GROUP, PID=os.getpid(), GROUP="g")


def change_policy(world: Crowd, admin: SocketClient) -> None:
    for policy in (Policy.LOCK_FIFO, Policy.TIMESLICED, Policy.SEGMENT):
        world.netlink(admin, Command.SET_POLICY, POLICY=int(policy))


def change_budget(world: Crowd, admin: SocketClient) -> None:
    for budget in (MS, 0):
        world.netlink(admin, Command.SET_BUDGET, PID=1, BUDGET_NS=budget, PERIOD_NS=100 * MS)


def change_exemptions(world: Crowd, admin: SocketClient) -> None:
    for exempt in (1, 0):
        world.netlink(admin, Command.SET_EXEMPT, PID=os.getpid(), EXEMPT=exempt)


def change_bars(world: Crowd, admin: SocketClient) -> None:
    for barred in (1, 0):
        world.netlink(admin, Command.SET_BARRED, PID=os.getpid(), BARRED=barred)


CHANGES = [change_bars, change_exemptions, change_budget, change_priority, change_policy, change_group]


def test_what_the_administrator_changes_for_many_clients(
    crowd: Callable[..., Crowd], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The clients are a stranger's; a process of many has a client on each GPU, and calls that wait."""
    monkeypatch.setattr(peer, "administers", lambda _uid: True)
    world = crowd()
    members = world.clients(30)
    assert world.ask(members[0], BEGIN) == 0
    for one in members[1:]:
        assert world.ask(one, BEGIN) == 0
        world.waiting(one, 4)
    admin = world.client()
    for change in CHANGES:
        change(world, admin)
        world.check()


def test_clients_that_cannot_be_looked_at_go_in_pieces(crowd: Callable[..., Crowd]) -> None:
    """The host has forgotten, or cannot find out, what decides about them."""
    world = crowd()
    members = world.clients(30)
    for client in [one for connection in world.host.connections.values() for one in connection.clients.values()]:
        world.host.expel(client, OSError(errno.EMFILE, "no descriptor"))
    world.settle()
    assert members
    assert not world.host.connections


def one_urgent_call_comes_in_between(world: Crowd, client: SocketClient) -> None:
    world.turn(4)  # the connection, and some pieces of its packet
    begin = client.start(BEGIN, priority=90)
    world.turn()
    assert begin.done()
    assert any(one.packet for one in world.host.connections.values())
    world.settle()


def test_a_thread_of_a_container_is_searched_for_in_pieces(crowd: Callable[..., Crowd]) -> None:
    """Its process has no such thread, and that takes a look at all that it has."""
    if os.geteuid():
        pytest.skip("needs root, to make a pid namespace")
    world = crowd()
    urgent = world.urgent()
    with stranger(world, 30_000, 150, 0, "unshare", "--pid", "--fork") as said:
        one_urgent_call_comes_in_between(world, urgent)
        assert int(said.readline()) == -errno.EPERM


def test_a_budget_is_looked_for_in_pieces(crowd: Callable[..., Crowd]) -> None:
    """It is of a process far above the client's."""
    world = crowd()
    urgent = world.urgent()
    allowance = world.host.budgets.named(os.getpid(), make=True)
    assert allowance
    with stranger(world, 0, 0, 60) as said:
        one_urgent_call_comes_in_between(world, urgent)
        assert int(said.readline()) == 0
        assert allowance in [one.allowance for one in world.host.gpus[0].clients.values()]


def test_a_budget_that_comes_while_one_is_looked_for_counts(crowd: Callable[..., Crowd]) -> None:
    world = crowd()
    before = world.host.budgets.named(os.getppid(), make=True)
    with stranger(world, 0, 0, 60) as said:
        world.turn(4)
        after = world.host.budgets.named(os.getpid(), make=True)
        world.settle()
        assert int(said.readline()) == 0
        assert [one.allowance for one in world.host.gpus[0].clients.values()] == [after] != [before]


def test_nothing_that_a_client_leaves_needs_the_collector(crowd: Callable[..., Crowd]) -> None:
    """It visits all objects of all clients in one go: 18 ms beside 1,600 clients."""
    world = crowd(gpus=2)
    owner = world.client()
    gc.collect()
    gc.disable()
    try:
        one = world.client()
        for code in (lib.GPURT_IOC_TSG_OPEN, lib.GPURT_IOC_TSG_CLOSE, lib.GPURT_IOC_TSG_CLOSE, BEGIN):
            one.start(code)
        one.start(lib.GPURT_IOC_GROUP_JOIN, name=b"g")  # refused, as one of those before is
        member = world.client()
        for code in (lib.GPURT_IOC_GROUP_JOIN, BEGIN):
            member.start(code, **({} if code == BEGIN else {"name": b"g"}))
        assert world.ask(owner, BEGIN, priority=90) == 0
        world.waiting(one, 3)
        one.start(lib.GPURT_IOC_COPY, what=lib.GPURT_COPY_BEGIN, timeout_ns=1, request=1)
        world.netlink(one, Command.GET_CLIENTS, NLM_F_DUMP)
        assert world.ask(owner, END) == 0
        member.start(WAIT, what=lib.GPURT_WAIT_GRANT, timeout_ns=3_600_000 * MS)
        member.sock.send(PACKET.pack(Packet.IOCTL, WAIT, 0, 0) + structure(WAIT, **GRANT))
        assert world.ask(owner, BEGIN, priority=90) == 0
        world.waiting(one, 2)  # it is in a segment
        one.close()
        member.close()
        world.settle()
        gc.set_debug(gc.DEBUG_SAVEALL)
        gc.collect()
        found = [thing for thing in gc.garbage if (getattr(thing, "__module__", "") or "").startswith("pycontrol.host")]
        assert found == []
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()


def test_the_table_has_every_packet_and_every_command() -> None:
    """docs/design.md: what a packet's work grows with, and its limit."""
    text = DESIGN.read_text().partition("## A packet has a bound")[2].partition("\n## ")[0]
    rows = [name for row in re.findall(r"^\| (`.*?) \|", text, re.MULTILINE) for name in re.findall(r"`(\w+)`", row)]
    calls = [name.removeprefix("GPURT_IOC_") for name in dir(lib) if getattr(lib, name) in KINDS and "_IOC_" in name]
    packets = [one.name for one in Packet if one not in (Packet.IOCTL, Packet.NETLINK, Packet.REPLY)]
    assert sorted(rows) == sorted([*calls, *packets, *(one.name for one in Command if one is not Command.EVENT)])
