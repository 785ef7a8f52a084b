# SPDX-License-Identifier: GPL-2.0
"""Groups of the user-space host: clients that need one another own the GPUs together (kmod/core/group.h)."""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from gpurt._gpurt import ffi, lib
from gpurt.types import CData
from pycontrol.host.budgets import Allowance
from pycontrol.host.wire import Refusal

if TYPE_CHECKING:
    from pycontrol.host.connection import Connection
    from pycontrol.host.gpu import Gpu, GpuClient
    from pycontrol.host.peer import Peer

TOO_MANY = f"a group has {lib.GPURT_MAX_MEMBERS} at most"


@dataclass(eq=False)
class Seat:
    """A group's place on one GPU: in the queues and on the runlist it stands for its members.

    ``own`` is the record that the kind of GPU keeps about the seat.
    """

    group: Group
    gpu: Gpu
    raw: CData = field(default_factory=lambda: ffi.new("struct gpurt_group_gpu *"))
    own: CData = None
    members: list[GpuClient] = field(default_factory=list)  # in the order in which they joined

    def __post_init__(self) -> None:
        lib.gpurt_group_gpu_init(self.raw, self.group.raw, self.gpu.sched)
        self.core: CData = ffi.addressof(self.raw, "core")

    @property
    def voice(self) -> GpuClient | None:
        """The member that events about the group name: the first member in a segment, else the first member."""
        inside = [one for one in self.members if one.core.depth]
        return next(iter(inside or self.members), None)

    @property
    def allowance(self) -> Allowance | None:
        """The allowance that the group is under: that of its first member with an allowance."""
        return next((one.allowance for one in self.members if one.allowance), None)

    @property
    def quiet(self) -> bool:
        """Whether the GPU executes nothing for the group."""
        return not self.core.depth or bool(self.gpu.quiet()[0])

    def bars(self, allowance: Allowance | None) -> bool:
        """Whether the group is under a budget other than this one."""
        own = self.allowance
        return own is not None and allowance not in (None, own)

    def follow(self, now: int) -> int:
        """Gives the group its tenure's present key, if that changed on another GPU."""
        if self.raw.unsettled:
            lib.gpurt_group_settle(self.raw, now)
        return 0

    def afford(self, now: int) -> None:
        """Puts the group under the budget of its `allowance`."""
        if self.members:
            allowance = self.allowance
            lib.gpurt_join_budget(
                self.gpu.sched, self.core, allowance.budget(self.gpu.index) if allowance else ffi.NULL, now
            )

    def others_of(self, client: GpuClient) -> int:
        """The number of open segments of the other clients of the client's process, on all GPUs of the group."""
        same = [one for one in self.group.connections if one.peer.pid == client.peer.pid]
        every = [one for member in same for one in member.clients.values() if one.group and one is not client]
        return sum(int(one.core.depth) for one in every)


@dataclass(eq=False)
class Group:
    """A group of connections of one user, with a seat on each GPU that they use."""

    name: str
    user: int
    raw: CData = field(default_factory=lambda: ffi.new("struct gpurt_group *"))
    seats: dict[int, Seat] = field(default_factory=dict)
    connections: set[Connection] = field(default_factory=set)

    def seat(self, gpu: Gpu) -> Seat:
        """The group's seat on a GPU, made on first use."""
        if gpu.index not in self.seats:
            self.seats[gpu.index] = Seat(self, gpu)
        return self.seats[gpu.index]

    def dissolve(self) -> None:
        """Forgets the seats, which refer to the group, once the group has neither members nor connections."""
        if not self.connections and not any(seat.members for seat in self.seats.values()):
            self.seats.clear()

    def relevel_copies(self) -> None:
        """Gives the members' copies the group's new level."""
        for seat in self.seats.values():
            for one in seat.members:
                if one.copier.waits:
                    seat.gpu.bus.relevel(one.copier, one.level_of_copies)

    def check(self, gpu: Gpu, peer: Peer, allowance: Allowance | None) -> None:
        """Checks that a client of a process can be a member on a GPU.

        Raises:
            Refusal: EBUSY, the process is in another group there; EDQUOT, the group is under another budget.
        """
        seat = self.seats.get(gpu.index)
        if not gpu.may_unite(peer, seat):
            why = f"process {peer.pid} is in another group by another connection, and is switched as a whole"
            raise Refusal(errno.EBUSY, why)
        if seat and seat.bars(allowance):
            raise Refusal(errno.EDQUOT, f"process {peer.pid} and group {self.name} are under different budgets")

    @property
    def pids(self) -> list[int]:
        """The processes of all members, by pid."""
        return sorted({one.peer.pid for one in self.connections})

    @property
    def spans(self) -> bool:
        """Whether the group is in segments on several GPUs."""
        return sum(int(seat.core.depth > 0) for seat in self.seats.values()) > 1


class Groups:
    """All groups, by their user and their name."""

    def __init__(self, gpus: Sequence[Gpu], able: bool) -> None:
        """Starts without groups; ``able``: whether this host permits groups."""
        self.gpus = gpus
        self.able = able
        self._stamps = ffi.new("u64 *")
        self._all: dict[tuple[int, str], Group] = {}

    @property
    def seats(self) -> Iterator[Seat]:
        """The seats of all groups on all GPUs."""
        return (seat for group in self._all.values() for seat in group.seats.values())

    @property
    def spanning(self) -> Group | None:
        """A group that is in segments on several GPUs, or None."""
        return next((one for one in self._all.values() if one.spans), None)

    def join(
        self, member: Connection, name: str, own: int, moved: bool, done: Callable[[int], None], all_: bool = False
    ) -> None:
        """Makes a connection a member; `done` gets 0 or -errno.

        `own` is the priority of the thread that asks.  `moved`: the administrator has asked, perhaps inside a
        segment.  `all_`: the group raises all its threads.

        Raises:
            Refusal: as in `check`.  Nothing has changed.
        """
        self.check(member, name, moved)
        key = member.peer.uid, name
        if all_ and key in self._all and not self._all[key].raw.all:
            raise Refusal(errno.EBUSY, f"group {name} has members, and is none that raises all its threads")
        if key not in self._all:
            self._all[key] = Group(name, member.peer.uid)
            lib.gpurt_group_init(self._all[key].raw, self._stamps)
            self._all[key].raw.all = all_
        group = member.group = self._all[key]
        group.connections.add(member)
        coming = [index for index, client in sorted(member.clients.items()) if not client.group]
        results: list[int] = []

        def enrolled(result: int) -> None:
            results.append(result)
            if len(results) < len(coming):
                return
            failed = next(filter(None, results), 0)
            if failed and not any(client.group for client in member.clients.values()):
                self.leave(member)
            done(failed)

        if not coming:
            done(0)
        # all in this turn, so that later requests of the program's other threads come after it on every GPU
        for index in coming:
            self.enroll(group, self.gpus[index], member.clients[index], own, moved, enrolled)

    def check(self, member: Connection, name: str, moved: bool, entering: int = 1) -> None:
        """Checks that a connection may join, or is in that group already; ``entering``: how many new connections the
        group would get.

        Raises:
            Refusal: EOPNOTSUPP, EBUSY or EDQUOT.
        """
        if not self.able:
            raise Refusal(errno.EOPNOTSUPP, "this host has no groups: its policy gives jobs units of GPUs")
        pid, user = member.peer.pid, member.peer.uid
        if member.group:
            if member.group.name != name:
                raise Refusal(errno.EBUSY, f"process {pid} is in group {member.group.name}, until it ends")
            return
        busy = [client for client in member.clients.values() if client.core.depth or client.calls]
        if busy and not moved:
            raise Refusal(errno.EBUSY, f"process {pid} is in a segment: join before, or have `gpurt set group` do it")
        group = self._all.get((user, name))
        if group:
            self._check_room(group, member, entering)
        elif entering > lib.GPURT_MAX_MEMBERS:
            raise Refusal(errno.EDQUOT, f"process {pid} has {entering} descriptors: {TOO_MANY}")
        elif sum(one.user == user for one in self._all.values()) >= lib.GPURT_MAX_USER_GROUPS:
            raise Refusal(errno.EDQUOT, f"user {user} has {lib.GPURT_MAX_USER_GROUPS} groups, the most there can be")

    def _check_room(self, group: Group, member: Connection, entering: int) -> None:
        pid, before = member.peer.pid, len(group.connections)
        if before + entering > lib.GPURT_MAX_MEMBERS:
            more = f", and {entering} more would come" if entering > 1 else ""
            raise Refusal(errno.EDQUOT, f"group {group.name} has {before} members{more}: {TOO_MANY}")
        for index, client in member.clients.items():
            group.check(self.gpus[index], member.peer, client.allowance)
        inside = {index for index, client in member.clients.items() if client.core.depth}
        inside |= {index for index, seat in group.seats.items() if seat.core.depth} if inside else set()
        if len(inside) > 1 and any(lib.gpurt_policy_locks(self.gpus[index].sched.policy) for index in inside):
            why = f"process {pid} is in a segment, and group {group.name} on another GPU: lock policies have one GPU"
            raise Refusal(errno.EOPNOTSUPP, why)

    def enroll(
        self, group: Group, gpu: Gpu, client: GpuClient, own: int, moved: bool, done: Callable[[int], None]
    ) -> None:  # fmt: skip
        """Requests the decision that makes a client a member on the client's GPU."""
        seat = group.seat(gpu)

        def decide(now: int) -> int:
            if client.group:  # the connection asked twice
                return 0
            if not gpu.may_unite(client.peer, seat):
                return -errno.EBUSY
            if seat.bars(client.allowance):
                return -errno.EDQUOT
            if refused := int(lib.gpurt_group_refusal(seat.raw, client.core, moved)):
                return refused
            gpu.seated(seat)
            if seat.core.budget != client.core.budget:
                self._share(seat, client, now)
            client.group = seat  # events of this decision name it
            seat.members.append(client)
            gpu.unite(client, seat, now)
            before = group.raw.set, group.raw.level
            if moved:
                lib.gpurt_group_move(seat.raw, client.core, now)
            else:
                lib.gpurt_group_add(seat.raw, client.core, own, now)
            if (group.raw.set, group.raw.level) != before:
                group.relevel_copies()
            gpu.bus.relevel(client.copier, client.level_of_copies)
            return 0

        gpu.update(gpu.decision(decide, done, client))

    def _share(self, seat: Seat, client: GpuClient, now: int) -> None:
        """Puts the group and the joining client under the budget that either is under."""
        allowance = seat.allowance or client.allowance
        budget = allowance.budget(seat.gpu.index) if allowance else ffi.NULL
        if seat.members:
            lib.gpurt_join_budget(seat.gpu.sched, seat.core, budget, now)
        lib.gpurt_join_budget(seat.gpu.sched, client.core, budget, now)

    def leave(self, member: Connection) -> None:
        """Removes a connection that has ended; its group goes with the last connection."""
        group, member.group, member.kept = member.group, None, False
        if group:
            group.connections.discard(member)
            if not group.connections:
                del self._all[group.user, group.name]
                group.dissolve()
