# SPDX-License-Identifier: GPL-2.0
"""Policy `boosted`: when the host raises the threads of clients, and that it leaves none raised."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import itertools
import os
import resource
import signal
import threading
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from actors import Actor, at, enter, fork_sleeper, in_child, of
from links import MS, PENDING, RUNNING, Client, client_of, eventually, is_device

import gpurt
from gpurt._gpurt import lib
from gpurt.enums import Cause, Form, Overrun, Policy, State
from gpurt.errors import RefusedError
from pycontrol.link.control import Control
from pycontrol.link.control import connect as control
from pycontrol.machine import procs

Spawn = Callable[..., Actor]
N = lib.GPURT_NORMAL_DEFAULT
TOP = 2 * N + 1
ALL = lib.GPURT_GROUP_ALL
STAYS, THREADS = threading.Event(), list[threading.Thread]()  # of a child
OWNER, FENCE, SELF = lib.GPURT_BEGIN_OWNER, lib.GPURT_BEGIN_FENCE, 0
CLONE_NEWPID = 0x20000000
#: The id before that of the next thread of the caller's pid namespace.
LAST_PID = Path("/proc/sys/kernel/ns_last_pid")
LIBC = ctypes.CDLL(None, use_errno=True)
FIFO, RR, OTHER = os.SCHED_FIFO, os.SCHED_RR, os.SCHED_OTHER

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to give threads real-time priorities")


@pytest.fixture(autouse=True)
def boosted(plane: Control) -> None:
    """The policy, on a host that raises threads."""
    if not plane.status()[0].normal_priorities:
        with pytest.raises(RefusedError, match="raised threads"):
            plane.set_policy(Policy.BOOSTED)
        pytest.skip("this host cannot do policy boosted")
    plane.set_policy(Policy.BOOSTED)


@pytest.fixture(params=[SELF, OWNER], ids=["self", "owner"])
def form(request: pytest.FixtureRequest) -> int:
    """The flags of a begin: of a thread that sleeps, and of one that spins."""
    return int(request.param)


def has(tid: int) -> tuple[int, int]:
    """A thread's policy without flags, and its priority."""
    return os.sched_getscheduler(tid) & ~os.SCHED_RESET_ON_FORK, os.sched_getparam(tid).sched_priority


def becomes(tid: int, priority: int, policy: int = FIFO) -> None:
    """Waits until a thread has that.  A host that is a kernel changes a thread beside the call that is the reason."""
    eventually(lambda: has(tid) == (policy, priority))


def begin_code(client: Client, **fields: int) -> int:
    """A begin of which only the result counts."""
    return client.code(lib.GPURT_IOC_BEGIN, **fields)


def test_an_owner_is_raised_while_it_owns_the_gpu(spawn: Spawn, plane: Control) -> None:
    low, high = spawn(at(5)), spawn(at(7))
    assert low.do("begin", flags=OWNER) == RUNNING
    assert has(low.pid) == (FIFO, N + 5)
    seen = of(plane, low.pid)
    assert (seen.form, seen.raised, seen.own_priority, seen.priority) == (Form.OWNER, N + 5, 5, 5)
    assert high.do("begin", flags=OWNER) == RUNNING
    assert has(high.pid) == (FIFO, N + 7)
    becomes(low.pid, 5)
    assert of(plane, low.pid).raised == 0
    high.do("end")
    assert has(high.pid) == (FIFO, 7)
    becomes(low.pid, N + 5)
    low.do("end")
    assert has(low.pid) == (FIFO, 5)


def test_a_thread_of_form_self_is_raised_while_it_waits_too(spawn: Spawn, plane: Control) -> None:
    low, high = spawn(at(5, RR)), spawn(at(7))
    assert high.do("begin") == RUNNING
    assert low.do("begin") == PENDING
    assert (has(low.pid), has(high.pid)) == ((FIFO, N + 5), (FIFO, N + 7))
    assert [of(plane, one.pid).form for one in (low, high)] == [Form.SELF] * 2
    low.do("end")
    assert (has(low.pid), has(high.pid)) == ((RR, 5), (FIFO, N + 7))
    high.do("end")
    assert has(high.pid) == (FIFO, 7)


def test_members_of_a_group_are_raised_while_they_are_inside_and_it_owns(spawn: Spawn) -> None:
    first, second, other = spawn(at(5)), spawn(at(7)), spawn(at(6))
    for one in (first, second):
        one.do("tsg")
        assert one.do("join", group="llm") == 0
    assert first.do("begin", flags=OWNER) == RUNNING
    assert (has(first.pid), has(second.pid)) == ((FIFO, N + 7), (FIFO, 7))  # the group's level is that of both threads
    assert other.do("begin", flags=OWNER) == PENDING
    assert second.do("begin", flags=OWNER) == RUNNING
    assert has(second.pid) == (FIFO, N + 7)
    first.do("end")
    assert (has(first.pid), has(second.pid), has(other.pid)) == ((FIFO, 5), (FIFO, N + 7), (FIFO, 6))
    second.do("end")
    becomes(other.pid, N + 6)


def together(spawn: Spawn) -> tuple[Actor, Actor]:
    """A parent of priority 5 and a worker of 3 in a group that raises all."""
    members = spawn(at(5)), spawn(at(3))
    for one in members:
        one.do("tsg")
        assert one.do("join", group="llm", flags=ALL) == 0
    return members


def test_a_group_raises_all_while_it_owns(spawn: Spawn, plane: Control) -> None:
    parent, worker = together(spawn)
    other, above = spawn(at(4)), spawn(at(9))
    assert parent.do("begin", flags=SELF) == RUNNING
    becomes(worker.pid, N + 5)
    assert (has(parent.pid), of(plane, worker.pid).raised) == ((FIFO, N + 5), N + 5)
    eventually(lambda: any(one.cause is Cause.RAISE and one.maximum for one in plane.latency()))
    assert worker.do("begin", flags=SELF) == RUNNING
    worker.do("end")
    becomes(worker.pid, N + 5)  # it is in no segment, and its parent is
    assert above.do("begin", flags=OWNER) == RUNNING
    for one, own in ((parent, 5), (worker, 3)):
        becomes(one.pid, own)
    assert other.do("begin", flags=OWNER) == PENDING
    above.do("end")
    for one in (parent, worker):
        becomes(one.pid, N + 5)
    parent.do("end")
    for one, own in ((parent, 5), (worker, 3)):
        becomes(one.pid, own)
    becomes(other.pid, N + 4)


def test_a_group_raises_the_thread_that_joined_last_and_later_members_at_once(spawn: Spawn, plane: Control) -> None:
    parent, worker = spawn(at(5)), spawn(at(3))
    assert parent.do("join", group="llm", flags=ALL) == 0
    parent.do("tsg")
    assert parent.do("begin", flags=OWNER) == RUNNING
    worker.do("tsg")
    assert worker.do("join", group="llm", flags=ALL) == 0
    becomes(worker.pid, N + 5)
    tid, codes = worker.run(thread_joins)
    assert codes == [0, 0]
    becomes(tid, N + 5)
    becomes(worker.pid, 3)
    worker.run(wait_for_thread)  # it ends while it is raised
    assert worker.do("join", group="llm", flags=ALL) == 0
    becomes(worker.pid, N + 5)
    plane.set_barred(True, pid=worker.pid)
    becomes(worker.pid, 3)
    assert worker.do("join", group="llm", flags=ALL) == -errno.EPERM


def test_who_joins_so_can_and_may_be_raised(spawn: Spawn, plane: Control, host: Path) -> None:
    ordinary, much, barred, plain = spawn(), spawn(at(N + 1)), spawn(at(5)), spawn(at(5))
    assert [one.do("join", group="llm", flags=ALL) for one in (ordinary, much)] == [-errno.ERANGE] * 2
    with gpurt.Client(str(host)) as client, pytest.raises(OSError, match="needs a SCHED_FIFO or SCHED_RR"):
        client.join("llm", raise_all=True)
    barred.do("tsg")
    plane.set_barred(True, pid=barred.pid)
    assert barred.do("join", group="llm", flags=ALL) == -errno.EPERM
    assert plain.do("join", group="llm") == 0
    assert plain.do("join", group="llm", flags=ALL) == -errno.EBUSY
    assert spawn(at(5)).do("join", group="llm", flags=ALL) == -errno.EBUSY


def test_a_thread_that_its_group_does_not_raise_is_lowered_at_its_end(spawn: Spawn) -> None:
    parent, worker = together(spawn)
    assert parent.do("begin", flags=OWNER) == RUNNING
    tid, seen = worker.run(thread_begins, "stay", SELF)
    assert seen[0] == (FIFO, N + 5)
    worker.do("end")
    becomes(tid, 6)
    becomes(worker.pid, N + 5)
    assert worker.do("begin") == RUNNING
    worker.do("end")
    assert has(tid) == (FIFO, 6)
    parent.do("end")
    becomes(worker.pid, 3)


def test_a_member_that_is_barred_before_it_uses_a_gpu_is_refused_there(spawn: Spawn, plane: Control) -> None:
    worker = spawn(at(3))
    assert worker.do("join", group="llm", flags=ALL) == 0
    plane.set_barred(True, pid=worker.pid)
    assert worker.do("code", code=lib.GPURT_IOC_BEGIN) == -errno.EPERM
    assert has(worker.pid) == (FIFO, 3)


def test_a_kept_thread_that_changes_its_priority_is_raised_with_the_next_tenure(spawn: Spawn) -> None:
    parent, worker = together(spawn)
    parent.do("begin", flags=OWNER)
    becomes(worker.pid, N + 5)
    worker.run(changes, 4)
    parent.do("end")
    assert has(worker.pid) == (FIFO, 4)
    parent.do("begin", flags=OWNER)
    becomes(worker.pid, N + 5)
    parent.do("end")
    becomes(worker.pid, 4)


def changes(_client: Client, priority: int) -> None:
    """The process's main thread gives itself a priority."""
    at(priority)()


def test_who_is_moved_into_such_a_group_is_raised_again_when_it_owns_again(spawn: Spawn, plane: Control) -> None:
    parent, moved, above = spawn(at(5)), spawn(at(3)), spawn(at(9))
    for one in (parent, moved):
        one.do("tsg")
    assert parent.do("join", group="llm", flags=ALL) == 0
    assert moved.do("begin", flags=SELF) == RUNNING
    plane.set_group(moved.pid, "llm")
    assert above.do("begin", flags=OWNER) == RUNNING
    becomes(moved.pid, 3)
    above.do("end")
    eventually(lambda: has(moved.pid)[1] > N)
    moved.do("end")
    becomes(moved.pid, 3)


def thread_joins(client: Client) -> tuple[int, list[int]]:
    """A thread of priority 2 joins twice, and stays: its id, and the results."""
    told: list[int] = []
    done = threading.Event()

    def body() -> None:
        os.sched_setscheduler(0, FIFO, os.sched_param(2))
        named(client)
        told.extend(client.join("llm", ALL) for _ in range(2))
        done.set()
        STAYS.wait()

    thread = threading.Thread(target=body)
    THREADS.append(thread)
    thread.start()
    done.wait()
    client.tid = 0
    assert thread.native_id
    return thread.native_id, told


def wait_for_thread(_client: Client) -> None:
    """The thread of `thread_joins` ends."""
    STAYS.set()
    THREADS.pop().join()


def test_form_fence_is_not_raised_while_it_waits_for_its_own_work(spawn: Spawn, plane: Control) -> None:
    actor = spawn(at(5))
    tsg = actor.do("tsg")
    assert actor.do("begin", flags=FENCE) == RUNNING
    work = actor.do("submit", tsg=tsg, duration=lib.GPURT_MAX_WORK_NS)
    assert has(actor.pid) == (FIFO, N + 5)
    spins = {"code": lib.GPURT_IOC_WAIT, "what": lib.GPURT_WAIT_WORK, "tsg": tsg, "work": work, "timeout_ns": 0}
    assert actor.do("code", **spins) == -errno.ETIMEDOUT
    assert has(actor.pid) == (FIFO, 5)
    assert of(plane, actor.pid).form is Form.FENCE
    actor.do("close_tsg", tsg=tsg)  # which ends the segment
    tsg = actor.do("tsg")
    actor.do("begin", flags=FENCE)
    assert has(actor.pid) == (FIFO, N + 5)
    work = actor.do("submit", tsg=tsg, duration=MS)
    actor.do("finished", tsg=tsg, work=work)
    becomes(actor.pid, N + 5)
    actor.do("end")
    assert has(actor.pid) == (FIFO, 5)


def test_another_thread_that_waits_for_work_lowers_nobody(spawn: Spawn) -> None:
    """Only the thread that is raised spins for its own G^e."""
    actor = spawn(at(5))
    tsg = actor.do("tsg")
    actor.do("begin", flags=FENCE)
    work = actor.do("submit", tsg=tsg, duration=lib.GPURT_MAX_WORK_NS)
    for what in (lib.GPURT_WAIT_WORK, lib.GPURT_WAIT_IDLE):
        wait = {"what": what, "tsg": tsg, "work": work} if what == lib.GPURT_WAIT_WORK else {"what": what}
        assert actor.run(wait_in_another_thread, wait) == -errno.ETIMEDOUT
        assert has(actor.pid) == (FIFO, N + 5)
    assert actor.do("code", code=lib.GPURT_IOC_WAIT, **wait) == -errno.ETIMEDOUT
    assert has(actor.pid) == (FIFO, 5)
    actor.do("close_tsg", tsg=tsg)  # which ends the segment, and with it the wait


def wait_in_another_thread(client: Client, fields: dict[str, int]) -> int:
    """The result of GPURT_IOC_WAIT with no time to wait, called by another thread than the main one."""
    results = []

    def body() -> None:
        named(client)
        results.append(client.code(lib.GPURT_IOC_WAIT, timeout_ns=0, **fields))

    thread = threading.Thread(target=body)
    thread.start()
    thread.join()
    client.tid = 0
    return results[0]


def test_the_level_is_that_of_the_gpu_priority(spawn: Spawn, plane: Control, form: int) -> None:
    actor = spawn(at(5))
    actor.do("begin", flags=form, priority=9)
    assert has(actor.pid) == (FIFO, N + 9)
    plane.set_priority(actor.pid, 11)
    assert has(actor.pid) == (FIFO, N + 11)
    with pytest.raises(RefusedError) as caught:
        plane.set_priority(actor.pid, N + 1)
    assert caught.value.errno == errno.ERANGE
    with pytest.raises(RefusedError) as caught:
        plane.set_priority(1, N + 1)  # no client of the GPU
    assert caught.value.errno == errno.ESRCH
    actor.do("end")
    assert has(actor.pid) == (FIFO, 5)
    actor.do("begin")
    assert (of(plane, actor.pid).own_priority, has(actor.pid)) == (5, (FIFO, N + 11))


def test_best_effort_is_never_raised(spawn: Spawn) -> None:
    actor = spawn()
    assert actor.do("begin", flags=OWNER) == RUNNING
    assert has(actor.pid) == (OTHER, 0)


def test_what_cannot_be_ordered_begins_nothing(spawn: Spawn, plane: Control) -> None:
    for how, priority in (((OTHER, 0), 5), ((FIFO, N + 1), 0), ((FIFO, 5), N + 1), ((RR, 60), 5)):
        actor = spawn(at(how[1], how[0]))
        assert actor.run(begin_code_at, priority) == -errno.ERANGE
        assert of(plane, actor.pid).depth == 0
        assert has(actor.pid) == how


def begin_code_at(client: Client, priority: int) -> int:
    """A begin at a priority."""
    return begin_code(client, priority=priority)


def ordinary(limit: int) -> None:
    """An ordinary user at priority 5, with that RLIMIT_RTPRIO; a container may keep a limit of its own."""
    at(5)()
    with contextlib.suppress(ValueError):
        resource.setrlimit(resource.RLIMIT_RTPRIO, (limit, limit))
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)


def limit(_client: Client) -> int:
    """The highest priority that the process may take without privilege."""
    return resource.getrlimit(resource.RLIMIT_RTPRIO)[0]


def test_the_right_to_the_highest_raised_level_is_needed(
    host: Path, spawn: Spawn, plane: Control, form: int
) -> None:
    needed = N + 5 if form == SELF else 2 * N + 1
    mode = host.stat().st_mode & 0o777
    host.chmod(0o666)
    try:
        for wanted in (needed - 1, needed):
            actor = spawn(partial(ordinary, wanted))
            may = actor.run(limit) >= needed
            assert actor.do("code", code=lib.GPURT_IOC_BEGIN, flags=form) == (0 if may else -errno.EPERM)
            assert has(actor.pid) == (FIFO, N + 5 if may else 5)
            actor.kill()
    finally:
        host.chmod(mode)


@contextlib.contextmanager
def bar(plane: Control, **rule: int | str) -> Iterator[None]:
    """Bars processes inside the context, and undoes it at the end."""
    plane.set_barred(True, **rule)  # type: ignore[arg-type]
    try:
        yield
    finally:
        plane.set_barred(False, **rule)  # type: ignore[arg-type]


def test_a_barred_process_begins_nothing_that_would_be_raised(spawn: Spawn, plane: Control, form: int) -> None:
    one, other, ordinary_one = spawn(at(5)), spawn(at(6)), spawn()
    for actor in (one, other):
        actor.do("begin", flags=form)
        actor.do("end")
    with bar(plane, pid=one.pid), bar(plane, pid=ordinary_one.pid):
        assert one.run(begin_code_at, 0) == -errno.EPERM
        assert (of(plane, one.pid).barred, of(plane, one.pid).depth, has(one.pid)) == (True, 0, (FIFO, 5))
        assert not of(plane, other.pid).barred
        assert other.do("begin", flags=form) == RUNNING
        assert has(other.pid) == (FIFO, N + 6)
        assert ordinary_one.do("begin") == PENDING  # best effort is raised by nobody
        assert plane.status()[0].barred_count == 2
        plane.set_policy(Policy.SEGMENT)
        assert one.do("begin") == PENDING
        one.do("end")
        plane.set_policy(Policy.BOOSTED)
    assert plane.status()[0].barred_count == 0
    other.do("end")
    assert one.do("begin", flags=form) == RUNNING
    assert has(one.pid) == (FIFO, N + 5)


def test_a_raised_thread_that_is_barred_is_lowered_and_stays_so(spawn: Spawn, plane: Control, form: int) -> None:
    actor = spawn(at(5))
    actor.do("begin", flags=form)
    with bar(plane, pid=actor.pid):
        assert has(actor.pid) == (FIFO, 5)
        assert of(plane, actor.pid).state is State.RUNNING
        actor.do("begin", flags=form)  # nested
        assert has(actor.pid) == (FIFO, 5)
        actor.do("end")
    assert has(actor.pid) == (FIFO, 5)
    plane.set_priority(actor.pid, 7)
    assert has(actor.pid) == (FIFO, 5)
    actor.do("end")
    assert actor.do("begin", flags=form) == RUNNING
    assert has(actor.pid) == (FIFO, N + 7)


def enter_at(folder: Path, priority: int) -> None:
    enter(folder)
    at(priority)()


def test_bars_by_name_and_by_cgroup_hold_for_clients_to_come(group: Path, spawn: Spawn, plane: Control) -> None:
    enters = partial(enter_at, group / "inner", 5)
    first = spawn(enters)
    rules: tuple[dict[str, Any], ...] = (
        {"cgroup": procs.cgroup(first.pid).removesuffix("/inner")},
        {"comm": procs.name(first.pid)},
    )
    for rule in rules:
        with bar(plane, **rule):
            inside = spawn(enters)
            assert inside.run(begin_code_at, 0) == -errno.EPERM
            assert of(plane, inside.pid).barred
            assert not of(plane, inside.pid).exempt
        inside.kill()
    assert first.run(begin_code_at, 0) == 0
    first.kill()


def test_who_began_without_that_right_is_not_raised_by_another_policy(host: Path, spawn: Spawn, plane: Control) -> None:
    plane.set_policy(Policy.SEGMENT)
    mode = host.stat().st_mode & 0o777
    host.chmod(0o666)
    try:
        actor = spawn(partial(ordinary, 5))
        assert actor.do("begin", flags=OWNER) == RUNNING
    finally:
        host.chmod(mode)
    plane.set_policy(Policy.BOOSTED)
    assert has(actor.pid) == (FIFO, 5)


def test_what_a_user_changes_meanwhile_stays(spawn: Spawn, plane: Control, form: int) -> None:
    for changed in ((FIFO, 9), (OTHER, 0), (RR, N + 5), (FIFO, 90)):
        actor = spawn(at(5))
        actor.do("begin", flags=form)
        os.sched_setscheduler(actor.pid, changed[0], os.sched_param(changed[1]))
        assert of(plane, actor.pid).raised == 0
        actor.do("end")
        assert has(actor.pid) == changed


def test_no_thread_is_left_raised(spawn: Spawn, plane: Control) -> None:
    for flags, how in itertools.product((SELF, OWNER, FENCE), ("close", "budget", "exec", "policy")):
        plane.set_policy(Policy.BOOSTED)
        actor = spawn(at(5))
        actor.do("begin", flags=flags)
        assert has(actor.pid) == (FIFO, N + 5)
        lower(actor, plane, how)
        eventually(lambda pid=actor.pid: has(pid) == (FIFO, 5))
        actor.kill()


def lower(actor: Actor, plane: Control, how: str) -> None:
    """Has a raised thread lowered in one of several ways."""
    if how == "policy":
        plane.set_policy(Policy.SEGMENT)
        actor.do("end")
    elif how == "close":
        actor.run(close)
    elif how == "budget":
        plane.set_budget(actor.pid, MS, 10**17, Overrun.DEMOTE)
    else:
        actor.start(execute)


def close(client: Client) -> None:
    """Ends the client, in the middle of its segment."""
    client.close()


def execute(_client: Client) -> None:
    """Executes another program."""
    os.execv("/bin/sleep", ["sleep", "1000"])


def test_what_a_raised_thread_makes_is_not_raised(spawn: Spawn, form: int) -> None:
    actor = spawn(at(5))
    actor.do("begin", flags=form)
    child = actor.run(fork_sleeper)
    try:
        assert has(child) == (OTHER, 0)
    finally:
        os.kill(child, signal.SIGKILL)


def test_a_killed_owner_hands_the_gpu_on(spawn: Spawn, plane: Control) -> None:
    victim, heir = spawn(at(9)), spawn(at(5))
    victim.do("begin", flags=OWNER)
    assert heir.do("begin", flags=OWNER) == PENDING
    victim.kill()
    eventually(lambda: has(heir.pid) == (FIFO, N + 5))


# Threads of a process


#: In the child: tells its thread to execute another program.
go_on = threading.Event()


def tell_thread(_client: Client) -> None:
    """Lets the thread of `thread_begins` go on; what it does then may end the process before this is answered."""
    go_on.set()


def thread_begins(client: Client, how: str, form: int) -> tuple[int, list[tuple[int, int]]]:
    """Another thread than the main one begins in that form.  Returns its id, and what both threads have then.

    The thread stays, or exits before this returns, or executes another program after `tell_thread`.
    """
    begun, seen = threading.Event(), []

    def body() -> None:
        at(6)()
        named(client)
        client.begin(flags=form)
        seen.append(has(0))
        begun.set()
        go_on.wait()
        if how == "exec":
            execute(client)

    thread = threading.Thread(target=body, daemon=True)
    thread.start()
    begun.wait()
    seen.append(has(os.getpid()))
    if how == "exit":
        go_on.set()
        thread.join()
    return thread.native_id or 0, seen


def named(client: Client) -> None:
    """From now on the client's calls are those of this thread: the module knows, packets say it."""
    client.tid = threading.get_native_id()


def test_the_thread_that_began_is_raised_and_no_other(spawn: Spawn, plane: Control, form: int) -> None:
    actor = spawn(at(5))
    tid, seen = actor.run(thread_begins, "stay", form)
    assert seen == [(FIFO, N + 6), (FIFO, 5)]
    assert of(plane, actor.pid).own_priority == 6
    actor.do("end")
    assert has(tid) == (FIFO, 6)


def test_a_thread_that_ends_while_it_is_raised_troubles_nobody(spawn: Spawn, plane: Control, form: int) -> None:
    actor, other = spawn(at(5)), spawn(at(4))
    tid, seen = actor.run(thread_begins, "exit", form)
    assert seen == [(FIFO, N + 6), (FIFO, 5)]
    eventually(lambda: tid not in procs.threads(actor.pid))
    assert of(plane, actor.pid).raised == 0
    assert other.do("begin", flags=form) == PENDING
    actor.do("end")
    assert has(actor.pid) == (FIFO, 5)
    becomes(other.pid, N + 4)


def test_a_raised_thread_that_executes_another_program_is_lowered(spawn: Spawn, form: int) -> None:
    actor = spawn(at(5))
    tid, seen = actor.run(thread_begins, "exec", form)
    assert seen == [(FIFO, N + 6), (FIFO, 5)]
    actor.start(tell_thread)
    eventually(lambda: tid not in procs.threads(actor.pid))
    eventually(lambda: has(actor.pid) == (FIFO, 6))


def test_a_thread_of_another_process_cannot_be_named(host: Path, plane: Control) -> None:
    if is_device(host):
        pytest.skip("the module knows the thread that calls")
    with client_of(host) as client:
        client.tid = 1
        assert begin_code(client) == -errno.EPERM
        client.tid = 2**31 - 1
        assert begin_code(client) == -errno.EPERM


def in_new_namespace(client: Client, form: int) -> str:
    """Has a thread of a process in a new pid namespace begin, where its id is another one."""
    assert LIBC.unshare(CLONE_NEWPID) == 0
    return in_child(lambda: thread_begins(client_of(client.host), "exit", form))


def test_a_thread_in_a_container_is_found(spawn: Spawn, form: int) -> None:
    assert spawn(at(5)).run(in_new_namespace, form) == repr((2, [(FIFO, N + 6), (FIFO, 5)]))


def two_clients(client: Client, form: int) -> str:
    """In a new pid namespace: a thread begins as one client, and while it is raised as another one."""
    assert LIBC.unshare(CLONE_NEWPID) == 0
    return in_child(lambda: begins_twice([client_of(client.host) for _ in range(2)], form))


def begins_twice(clients: list[Client], form: int) -> list[tuple[int, tuple[int, int]]]:
    """For each client, what its begin returns, and what the calling thread has then."""
    seen = []

    def body() -> None:
        at(6)()
        for client in clients:
            named(client)
            seen.append((begin_code(client, flags=form), has(0)))

    thread = threading.Thread(target=body)
    thread.start()
    thread.join()
    return seen


def test_a_thread_in_a_container_is_known_again(spawn: Spawn, form: int) -> None:
    """It is raised when it begins as another client, and that is not its own priority."""
    assert spawn(at(5)).run(two_clients, form) == repr([(0, (FIFO, N + 6))] * 2)


def name_of_another(client: Client) -> str:
    """In a new pid namespace: two threads begin; the id of the second one there is that of the first one outside."""
    assert LIBC.unshare(CLONE_NEWPID) == 0
    return in_child(lambda: both_begin([client_of(client.host) for _ in range(2)]))


def both_begin(clients: list[Client]) -> list[tuple[int, int]]:
    """The scheduling of each thread once the thread has begun."""
    seen, ids, begun, done = [], [], threading.Event(), threading.Event()

    def body(client: Client, priority: int) -> None:
        at(priority)()
        named(client)
        status = Path("/proc/thread-self/status").read_text()
        ids.append([int(one) for one in status.partition("NSpid:")[2].splitlines()[0].split()])
        client.begin()
        seen.append(has(0))
        begun.set()
        done.wait()

    for client, priority in zip(clients, (7, 6), strict=True):
        begun.clear()
        threading.Thread(target=body, args=(client, priority), daemon=True).start()
        begun.wait()
        LAST_PID.write_text(str(ids[0][0] - 1))
    assert ids[1][-1] == ids[0][0]
    return seen


@pytest.mark.skipif(not LAST_PID.exists(), reason="needs a kernel with CONFIG_CHECKPOINT_RESTORE")
def test_a_thread_in_a_container_is_not_taken_for_another(spawn: Spawn) -> None:
    assert spawn(at(5)).run(name_of_another) == repr([(FIFO, N + 7), (FIFO, N + 6)])


def test_a_client_that_closes_while_its_begin_waits_is_lowered(start_host: Callable[..., Path]) -> None:
    """A thread of form self is raised before it has its turn."""
    host = start_host(alpha=300 * MS)
    if is_device(host):
        pytest.skip("a thread that waits in the kernel keeps the descriptor open")
    with control(str(host)) as plane, Actor(host, at(7)) as first, Actor(host, at(5)) as second:
        plane.set_policy(Policy.BOOSTED)
        first.run(send_begin)
        second.run(send_begin)
        eventually(lambda: has(second.pid) == (FIFO, N + 5))
        second.run(close)
        eventually(lambda: has(second.pid) == (FIFO, 5))
        eventually(lambda: [one.pid for one in plane.clients()] == [first.pid])
        assert has(second.pid) == (FIFO, 5)


def send_begin(client: Client) -> None:
    """Begins, and does not wait for the answer."""
    client.start(lib.GPURT_IOC_BEGIN)


def test_a_begin_that_waits_while_its_process_is_barred_begins_and_is_lowered(start_host: Callable[..., Path]) -> None:
    """It was checked before.  A thread of form self shows that: it is raised as it comes to the gate."""
    host = start_host(alpha=300 * MS)
    with control(str(host)) as plane, Actor(host, at(7)) as first, Actor(host, at(5)) as second:
        plane.set_policy(Policy.BOOSTED)
        first.start(begin_code)
        second.start(begin_code)
        eventually(lambda: has(second.pid) == (FIFO, N + 5))
        with bar(plane, pid=second.pid):
            assert (first.answer(), second.answer()) == (0, 0)
            becomes(second.pid, 5)
            seen = of(plane, second.pid)
            assert (seen.state, seen.depth, seen.barred) == (State.PENDING, 1, True)
            second.do("end")
            assert second.run(begin_code) == -errno.EPERM
        assert has(first.pid) == (FIFO, N + 7)
