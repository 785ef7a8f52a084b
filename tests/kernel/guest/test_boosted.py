# SPDX-License-Identifier: GPL-2.0
"""Policy `boosted`: threads are raised for their segments, and whatever happens to them meanwhile, never stay so.

Tests ask the kernel for a thread's scheduling by sched_getscheduler(2) and sched_getparam(2).
"""

from __future__ import annotations

import errno
import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from links import MS, eventually
from loading import DEVICE, MODULE, THOROUGH, load, unload
from modules import insert, parameter

from gpurt._gpurt import lib
from gpurt.enums import Overrun, Policy
from gpurt.errors import RefusedError
from pycontrol.link.control import Control, connect

N = lib.GPURT_NORMAL_DEFAULT
OTHER, FIFO, RR, DEADLINE = os.SCHED_OTHER, os.SCHED_FIFO, os.SCHED_RR, 6
RESET = os.SCHED_RESET_ON_FORK
#: Flags of a begin that state a form.
SELF, OWNER, FENCE = 0, lib.GPURT_BEGIN_OWNER, lib.GPURT_BEGIN_FENCE
#: Drivers whose updates keep the caller's CPU, and drivers whose updates sleep.
DRIVERS = {"busy": ("vgpu_alpha_ns=20000",), "sleeping": ("vgpu_sleeps=1", "vgpu_alpha_ns=20000")}
CORE_PATTERN = Path("/proc/sys/kernel/core_pattern")
CPU1 = Path("/sys/devices/system/cpu/cpu1/online")
THROTTLING = Path("/proc/sys/kernel/sched_rt_runtime_us")
SCHED_FEATURES = Path("/sys/kernel/debug/sched_features"), Path("/sys/kernel/debug/sched/features")  # up to 5.12; since


class Driven:
    """A process of two threads that do what they are told (boosted.c)."""

    def __init__(self, program: Path, form: int) -> None:
        self.form = form
        self.process = subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout
        self.first, self.second = map(int, self.process.stdout.readline().split())
        self.pid = self.process.pid

    def tell(self, *commands: str) -> None:
        """Gives commands, without waiting."""
        assert self.process.stdin
        self.process.stdin.write("".join(command + "\n" for command in commands))
        self.process.stdin.flush()

    def do(self, command: str) -> int:
        """Gives a command; what it answers."""
        self.tell(command)
        return self.answer()

    def answer(self) -> int:
        """The next answer to what it was told."""
        assert self.process.stdout
        return int(self.process.stdout.readline())

    def be(self, policy: int, priority: int, thread: str = "") -> None:
        """Makes a thread that from now on."""
        assert self.do(f"{thread}sched {policy} {priority}") == 0

    def begin(self, priority: int = 0, flags: int | None = None, thread: str = "") -> int:
        """0 or -errno."""
        return self.do(f"{thread}begin {self.form if flags is None else flags} {priority}")

    def end(self, thread: str = "") -> int:
        """0 or -errno."""
        return self.do(f"{thread}end")


def scheduling(thread: int) -> tuple[int, int]:
    """Policy, with its flag, and priority of a thread."""
    return os.sched_getscheduler(thread), os.sched_getparam(thread).sched_priority


def raised(level: int) -> tuple[int, int]:
    """The scheduling of a thread that is raised at that GPU priority."""
    return FIFO | RESET, N + level


def becomes(thread: int, expected: tuple[int, int]) -> None:
    """Waits until a thread has that scheduling: another thread than the one that calls carries it out."""
    eventually(lambda: scheduling(thread) == expected)


def effective(thread: int) -> int:
    """The priority at which the kernel has the thread execute, with what it inherits."""
    text = Path(f"/proc/{thread}/stat").read_text()
    return -int(text.rpartition(")")[2].split()[15]) - 1


@contextmanager
def loaded(*options: str) -> Iterator[Control]:
    load(f"policy={int(Policy.BOOSTED)}", *options)
    with connect(str(DEVICE)) as control:
        yield control
    unload()
    load()


#: Other kernels have one of them each: with PREEMPT_RT what real drivers do, whose updates sleep.
TRIED = list(DRIVERS) if THOROUGH else ["sleeping" if "rt" in os.environ.get("GPURT_TEST_KERNEL", "") else "busy"]


@pytest.fixture(params=TRIED, scope="module")
def module(request: pytest.FixtureRequest) -> Iterator[Control]:
    """The module with policy boosted, loaded once for each kind of driver: loading takes longer than most tests."""
    with loaded(*DRIVERS[request.param]) as control:
        yield control


@pytest.fixture(params=[SELF, OWNER] if THOROUGH else [OWNER], ids=["self", "owner"] if THOROUGH else ["owner"])
def driven(module: Control, compiled: Path, request: pytest.FixtureRequest) -> Iterator[Driven]:
    """A process with one descriptor, whose first thread has priority 10; afterwards no client is left."""
    with started(compiled, request.param) as one:
        yield one
    eventually(lambda: module.clients() == [])


@contextmanager
def started(compiled: Path, form: int = SELF) -> Iterator[Driven]:
    one = Driven(compiled / "boosted", form)
    try:
        one.be(FIFO, 10)
        assert one.do("open") == 0
        yield one
    finally:
        one.process.kill()
        one.process.communicate()


def test_a_thread_is_raised_from_before_its_begin_until_after_its_end(driven: Driven) -> None:
    for own, hint, level in ((10, 0, 10), (10, 20, 20), (24, 1, 1), (1, 24, 24), (N, N, N)):
        driven.be(FIFO, own)
        assert driven.begin(hint) == 0
        assert scheduling(driven.pid) == raised(level)
        assert driven.begin() == 0  # nested: nothing changes
        assert driven.end() == 0
        assert scheduling(driven.pid) == raised(level)
        assert driven.end() == 0
        assert scheduling(driven.pid) == (FIFO, own)


def test_what_the_thread_was_comes_back(driven: Driven) -> None:
    for policy in (RR, RR | RESET, FIFO | RESET):
        driven.be(policy, 5)
        assert driven.begin() == 0
        assert scheduling(driven.pid) == raised(5)
        assert driven.end() == 0
        assert scheduling(driven.pid) == (policy, 5)


@pytest.mark.parametrize("driven", [SELF], indirect=True)
def test_pending_threads_are_raised_too_in_order_of_gpu_priority(driven: Driven, compiled: Path) -> None:
    with started(compiled) as other:
        assert driven.begin(20) == 0
        assert other.begin(15) == 0
        assert (scheduling(driven.pid), scheduling(other.pid)) == (raised(20), raised(15))
        assert driven.end() == 0
        assert (scheduling(driven.pid), scheduling(other.pid)) == ((FIFO, 10), raised(15))
        assert other.end() == 0
        assert scheduling(other.pid) == (FIFO, 10)


def test_best_effort_and_what_cannot_be_ordered_are_left_alone(driven: Driven) -> None:
    driven.be(OTHER, 0)
    assert (driven.begin(), scheduling(driven.pid)) == (0, (OTHER, 0))
    assert driven.end() == 0
    assert driven.begin(5) == -errno.ERANGE  # a GPU priority, and none on the CPU
    driven.be(FIFO, N + 1)
    assert driven.begin() == -errno.ERANGE
    assert driven.begin(5) == -errno.ERANGE
    driven.be(FIFO, 10)
    assert driven.begin(N + 1) == -errno.ERANGE
    assert scheduling(driven.pid) == (FIFO, 10)
    assert driven.end() == -errno.ENOENT
    if not driven.do("deadline"):
        assert (driven.begin(), os.sched_getscheduler(driven.pid)) == (0, DEADLINE)
        assert (driven.end(), os.sched_getscheduler(driven.pid)) == (0, DEADLINE)


@pytest.mark.parametrize("driven", [OWNER, FENCE], indirect=True)
def test_an_owner_is_raised_exactly_while_it_owns_the_gpu(driven: Driven, compiled: Path) -> None:
    with started(compiled, OWNER) as other, started(compiled, FENCE) as last:
        other.be(FIFO, 20)
        assert driven.begin() == 0
        assert scheduling(driven.pid) == raised(10)
        assert last.begin(9) == 0  # it pends
        assert scheduling(last.pid) == (FIFO, 10)
        assert other.begin() == 0
        assert scheduling(other.pid) == raised(20)
        becomes(driven.pid, (FIFO, 10))
        assert other.end() == 0
        assert scheduling(other.pid) == (FIFO, 20)
        becomes(driven.pid, raised(10))
        assert driven.end() == 0
        assert scheduling(driven.pid) == (FIFO, 10)
        becomes(last.pid, raised(9))
        assert (last.end(), scheduling(last.pid)) == (0, (FIFO, 10))


@pytest.mark.parametrize("driven", [FENCE], indirect=True)
def test_form_fence_is_raised_again_when_its_work_completes(driven: Driven, compiled: Path) -> None:
    assert (driven.do("tsg"), driven.begin(), driven.do(f"submit {3600 * 1000 * MS}")) == (0, 0, 0)
    assert scheduling(driven.pid) == raised(10)
    assert driven.do("spin") == -errno.ETIMEDOUT
    assert scheduling(driven.pid) == (FIFO, 10)
    with started(compiled, OWNER) as other:  # it loses the GPU and has it again: that is no completion
        assert other.begin(20) == 0
        assert other.end() == 0
        assert scheduling(driven.pid) == (FIFO, 10)
    assert (driven.do("drop"), driven.end()) == (0, -errno.ENOENT)  # with its last TSG the segment is over
    assert scheduling(driven.pid) == (FIFO, 10)
    assert (driven.do("tsg"), driven.begin(), driven.do(f"submit {20 * MS}")) == (0, 0, 0)
    driven.do("spin")
    becomes(driven.pid, raised(10))
    assert driven.do("spin") == 0
    assert scheduling(driven.pid) == raised(10)
    assert driven.do(f"submit {MS}") == 0
    assert driven.do("wait") == 0
    assert scheduling(driven.pid) == raised(10)  # it has seen the completion itself
    assert (driven.do(f"submit {MS}"), driven.do("idle")) == (0, 0)
    assert scheduling(driven.pid) == raised(10)
    assert (driven.end(), scheduling(driven.pid)) == (0, (FIFO, 10))


@pytest.mark.parametrize("driven", [FENCE], indirect=True)
def test_a_thread_that_waits_for_its_own_work_may_be_barred_killed_and_demoted(
    module: Control, driven: Driven
) -> None:
    assert (driven.do("tsg"), driven.begin(), driven.do(f"submit {50 * MS}")) == (0, 0, 0)
    driven.do("spin")
    module.set_barred(True, pid=driven.pid)
    assert driven.do("wait") == 0
    assert scheduling(driven.pid) == (FIFO, 10)
    module.set_barred(False, pid=driven.pid)
    assert (driven.end(), scheduling(driven.pid)) == (0, (FIFO, 10))
    assert (driven.begin(), driven.do(f"submit {50 * MS}")) == (0, 0)
    driven.do("spin")
    module.set_priority(driven.pid, 0)
    assert driven.do("wait") == 0
    assert scheduling(driven.pid) == (FIFO, 10)
    module.set_priority(driven.pid, None)
    becomes(driven.pid, raised(10))
    assert driven.do(f"submit {3600 * 1000 * MS}") == 0
    driven.do("spin")
    parameter("vgpu_kill").write_text(str(driven.pid))
    eventually(lambda: [one.depth for one in module.clients()] == [0])
    assert driven.end() == -errno.EIO
    assert scheduling(driven.pid) == (FIFO, 10)


@pytest.mark.parametrize("driven", [OWNER], indirect=True)
@pytest.mark.parametrize(("policy", "priority"), [(FIFO, 7), (RR, 12), (OTHER, 0), (FIFO, N + 30)])
def test_what_a_pending_thread_does_to_itself_stays(
    driven: Driven, compiled: Path, policy: int, priority: int
) -> None:
    with started(compiled, OWNER) as other:
        assert other.begin(20) == 0
        assert driven.begin() == 0
        driven.be(policy, priority)
        assert other.end() == 0
        if policy == OTHER or priority > N:  # it is not to be raised, or above that already
            assert (driven.begin(), driven.end()) == (0, 0)
            assert scheduling(driven.pid) == (policy, priority)
        else:
            becomes(driven.pid, raised(10))
    assert driven.end() == 0
    assert scheduling(driven.pid) == (policy, priority)


@pytest.mark.parametrize("driven", [OWNER], indirect=True)
def test_a_raised_owner_that_changed_itself_is_left_alone_however_often_it_gains_the_gpu(
    driven: Driven, compiled: Path
) -> None:
    assert driven.begin() == 0
    driven.be(FIFO, 11)
    with started(compiled, OWNER) as other:
        for _ in range(3):
            assert (other.begin(20), other.end()) == (0, 0)
            assert (driven.begin(), driven.end()) == (0, 0)
            assert scheduling(driven.pid) == (FIFO, 11)
    assert driven.end() == 0
    assert (driven.begin(), scheduling(driven.pid)) == (0, raised(10 + 1))


@pytest.mark.parametrize("driven", [OWNER], indirect=True)
def test_an_owner_without_the_right_begins_nothing(driven: Driven, compiled: Path) -> None:
    assert driven.do(f"user {2 * N}") == 0
    for form in (OWNER, FENCE, OWNER | lib.GPURT_BEGIN_WAIT):
        assert driven.begin(flags=form) == -errno.EPERM
    with started(compiled, OWNER) as other:
        assert (other.begin(), other.end()) == (0, 0)
    assert driven.end() == -errno.ENOENT
    assert scheduling(driven.pid) == (FIFO, 10)


@pytest.mark.parametrize("driven", [OWNER], indirect=True)
def test_owners_that_end_between_raise_and_lower_hand_the_gpu_on(driven: Driven, compiled: Path) -> None:
    assert driven.begin(9) == 0
    for how in ("exit", "exec", "kill", "thread"):
        with started(compiled, OWNER) as other:
            thread = "2 " if how == "thread" else ""
            other.be(FIFO, 10, thread)
            assert other.begin(20, thread=thread) == 0
            becomes(driven.pid, (FIFO, 10))
            if how == "kill":
                os.kill(other.pid, signal.SIGKILL)
            else:
                other.tell(f"{thread}{'exit' if thread else how}")
            becomes(driven.pid, raised(9))


@pytest.mark.parametrize("driven", [OWNER], indirect=True)
def test_another_policy_lowers_an_owner(module: Control, driven: Driven) -> None:
    assert driven.begin() == 0
    module.set_policy(Policy.SEGMENT)
    becomes(driven.pid, (FIFO, 10))
    module.set_policy(Policy.BOOSTED)
    becomes(driven.pid, raised(10))  # the right to that was checked when it began
    module.set_policy(Policy.SEGMENT)
    assert (driven.end(), driven.begin()) == (0, 0)
    module.set_policy(Policy.BOOSTED)
    assert (driven.begin(), driven.end()) == (0, 0)
    assert scheduling(driven.pid) == (FIFO, 10)  # and now it was not
    assert driven.end() == 0


@pytest.mark.parametrize("driven", [OWNER], indirect=True)
def test_nobody_is_raised_while_updates_fail(driven: Driven, compiled: Path) -> None:
    assert driven.begin() == 0
    with started(compiled, OWNER) as other:
        parameter("vgpu_fail").write_text("1000000")
        assert other.begin(20) == 0
        assert scheduling(other.pid) == (FIFO, 10)
        becomes(driven.pid, (FIFO, 10))
        parameter("vgpu_fail").write_text("0")
        becomes(other.pid, raised(20))
        assert scheduling(driven.pid) == (FIFO, 10)
        assert other.end() == 0
    becomes(driven.pid, raised(10))


@pytest.mark.parametrize("driven", [OWNER], indirect=True)
def test_threads_that_contend_for_the_gate_are_lowered_by_every_end(driven: Driven, compiled: Path) -> None:
    """Whether they spin there or sleep, on two CPUs; the second of each CPU can be kept from it by the first."""
    forms = [OWNER, FENCE, SELF, OWNER | lib.GPURT_BEGIN_WAIT, FENCE, OWNER]
    with ExitStack() as stack:
        all_of_them = [stack.enter_context(started(compiled, form)) for form in forms]
        for index, one in enumerate(all_of_them):
            one.be(FIFO, 5 + 3 * index)
            assert one.do(f"cpu {index % 2}") == 0
        for one in all_of_them:
            one.tell(f"loop {one.form} 100")
        for one in all_of_them:
            assert one.answer() == 0


@pytest.fixture
def elsewhere() -> Iterator[None]:
    """Real-time threads may keep CPU 0, where this process does not execute."""
    before, cpus = THROTTLING.read_text(), os.sched_getaffinity(0)
    THROTTLING.write_text("-1")
    os.sched_setaffinity(0, cpus - {0})
    yield
    os.sched_setaffinity(0, cpus)
    THROTTLING.write_text(before)


def is_stopped(pid: int) -> bool:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"


@pytest.mark.usefixtures("elsewhere")
def test_a_thread_that_loses_its_cpu_at_its_end_keeps_no_other_cpu_waiting(driven: Driven, compiled: Path) -> None:
    """A more urgent thread that uses no GPU becomes ready in its segment, and executes once it is lowered.

    In a kernel with full preemption that is in the middle of the change of its priority.
    """
    with started(compiled) as urgent, started(compiled, driven.form) as other:
        for one, priority, cpu in ((driven, 5, 0), (urgent, 15, 0), (other, 10, 1)):
            one.be(FIFO, priority)
            assert one.do(f"cpu {cpu}") == 0
        os.kill(urgent.pid, signal.SIGSTOP)
        eventually(lambda: is_stopped(urgent.pid))
        urgent.tell("hold")
        driven.tell(f"wake {driven.form} {urgent.pid}")
        assert urgent.answer() == 0  # it executes, and goes on until it is told something else
        assert (other.begin(), other.end()) == (0, 0)
        urgent.tell("close")
        assert (urgent.answer(), urgent.answer(), driven.answer()) == (0, 0, 0)


def test_segments_that_began_under_another_policy_are_not_raised(module: Control, driven: Driven) -> None:
    module.set_policy(Policy.SEGMENT)
    assert driven.begin(0) == 0
    module.set_policy(Policy.BOOSTED)
    assert scheduling(driven.pid) == (FIFO, 10)
    assert driven.end() == 0
    assert (driven.begin(), scheduling(driven.pid)) == (0, raised(10))


@pytest.mark.parametrize(("missing", "answer"), [(1, -errno.EPERM), (0, 0)])
def test_the_right_to_the_highest_raised_priority_is_needed(driven: Driven, missing: int, answer: int) -> None:
    limit = (N + 10 if driven.form == SELF else 2 * N + 1) - missing
    assert driven.do(f"user {limit}") == 0
    assert driven.begin() == answer
    assert scheduling(driven.pid) == ((FIFO, 10) if answer else raised(10))
    # being raised gives no right to more
    assert driven.begin(limit + 1) == -errno.EPERM
    assert driven.do(f"sched {FIFO | RESET} {limit + 1}") == -errno.EPERM
    assert driven.end() == (-errno.ENOENT if answer else 0)
    assert scheduling(driven.pid) == (FIFO, 10)


@pytest.mark.parametrize("driven", [SELF], indirect=True)
def test_an_administrator_raises_nobody_above_what_its_user_has_a_right_to(module: Control, driven: Driven) -> None:
    assert driven.do(f"user {N + 12}") == 0
    assert driven.begin() == 0
    module.set_priority(driven.pid, 20)
    assert scheduling(driven.pid) == raised(12)
    assert driven.do(f"sched {FIFO | RESET} {N + 13}") == -errno.EPERM
    assert (driven.end(), scheduling(driven.pid)) == (0, (FIFO, 10))
    assert driven.begin() == -errno.EPERM  # at the priority that it has now
    assert scheduling(driven.pid) == (FIFO, 10)


@pytest.mark.parametrize("driven", [SELF], indirect=True)
def test_what_a_user_has_a_right_to_stays_though_an_administrator_had_it_raised_higher(
    module: Control, driven: Driven
) -> None:
    assert driven.do("user 99") == 0
    assert driven.begin() == 0
    module.set_priority(driven.pid, 20)
    assert scheduling(driven.pid) == raised(20)
    driven.be(FIFO | RESET, N + 16)
    assert (driven.end(), scheduling(driven.pid)) == (0, (FIFO | RESET, N + 16))


@pytest.mark.parametrize(("policy", "priority"), [(FIFO, 7), (FIFO, N + 10), (FIFO, 80), (RR, N + 10), (OTHER, 0)])
def test_what_a_raised_thread_does_to_itself_stays(driven: Driven, policy: int, priority: int) -> None:
    assert driven.begin() == 0
    driven.be(policy, priority)
    assert driven.begin() == 0  # and is not undone by the next call either
    assert driven.end() == 0
    assert scheduling(driven.pid) == (policy, priority)
    assert driven.end() == 0
    assert scheduling(driven.pid) == (policy, priority)
    driven.be(FIFO, 10)
    assert (driven.begin(), scheduling(driven.pid)) == (0, raised(10))


def test_a_raised_thread_moves_and_loses_its_cpu(driven: Driven) -> None:
    assert driven.do("cpu 0") == 0
    assert driven.begin() == 0
    assert driven.do("cpu 1") == 0
    assert scheduling(driven.pid) == raised(10)
    CPU1.write_text("0")
    try:
        assert scheduling(driven.pid) == raised(10)
        assert driven.end() == 0
    finally:
        CPU1.write_text("1")
    assert scheduling(driven.pid) == (FIFO, 10)


def test_what_a_raised_thread_makes_is_not_raised(driven: Driven) -> None:
    assert (driven.do("fork"), driven.do("thread")) == (100 * FIFO + 10, 100 * FIFO + 10)
    assert driven.begin() == 0
    assert (driven.do("fork"), driven.do("thread")) == (100 * OTHER, 100 * OTHER)
    assert driven.end() == 0
    assert (driven.do("fork"), driven.do("thread")) == (100 * FIFO + 10, 100 * FIFO + 10)


def test_one_thread_of_a_client_is_raised_and_another_may_end_its_segment(driven: Driven) -> None:
    driven.be(FIFO, 12, "2 ")
    assert driven.begin() == 0
    assert driven.begin(thread="2 ") == 0
    assert (scheduling(driven.first), scheduling(driven.second)) == (raised(10), (FIFO, 12))
    assert driven.end() == 0
    assert scheduling(driven.first) == raised(10)
    assert driven.end("2 ") == 0
    assert scheduling(driven.first) == (FIFO, 10)
    assert driven.begin(thread="2 ") == 0
    assert (scheduling(driven.first), scheduling(driven.second)) == ((FIFO, 10), raised(12))


def test_a_thread_with_two_descriptors_has_the_higher_of_both(driven: Driven) -> None:
    assert driven.begin(5) == 0
    assert driven.do("open") == 0
    assert driven.begin(15) == 0
    assert scheduling(driven.pid) == raised(15)
    assert driven.end() == 0
    becomes(driven.pid, raised(5))
    assert driven.begin() == 0  # its own priority is still 10
    assert scheduling(driven.pid) == raised(10)
    assert driven.do("close") == 0
    becomes(driven.pid, raised(5))
    assert driven.end() == 0
    assert scheduling(driven.pid) == (FIFO, 10)


def test_a_descriptor_that_closes_lowers_its_thread(driven: Driven) -> None:
    assert driven.begin() == 0
    assert driven.do("close") == 0
    assert scheduling(driven.pid) == (FIFO, 10)


def test_what_a_raised_thread_inherits_is_not_lost(driven: Driven) -> None:
    assert (driven.begin(), driven.do("lock")) == (0, 0)
    driven.be(FIFO, 60, "2 ")
    driven.tell("2 lock")
    eventually(lambda: effective(driven.first) == 60)
    assert scheduling(driven.first) == raised(10)
    driven.tell("end")  # answers come in any order
    eventually(lambda: scheduling(driven.first) == (FIFO, 10))
    assert effective(driven.first) == 60
    driven.tell("unlock")
    assert [driven.answer() for _ in range(3)] == [0, 0, 0]
    assert effective(driven.first) == 10


def test_a_stopped_thread_stays_in_its_segment_and_a_killed_one_is_over(module: Control, driven: Driven) -> None:
    assert driven.begin() == 0
    os.kill(driven.pid, signal.SIGSTOP)
    eventually(lambda: is_stopped(driven.pid))
    assert scheduling(driven.pid) == raised(10)
    os.kill(driven.pid, signal.SIGKILL)
    assert driven.process.wait() == -signal.SIGKILL
    eventually(lambda: module.clients() == [])


def test_a_crashed_thread_is_lowered_before_its_core_is_written(driven: Driven) -> None:
    """As every one that a signal ends: before its memory is torn down."""
    before = CORE_PATTERN.read_text()
    CORE_PATTERN.write_text("|/bin/sleep 1000")
    try:
        assert driven.begin() == 0
        driven.tell("abort")
        eventually(lambda: scheduling(driven.pid) == (FIFO, 10))
        assert driven.process.poll() is None
    finally:
        # its core may not be written yet
        eventually(lambda: subprocess.run(["pkill", "-f", "^/bin/sleep 1000"], check=False).returncode == 0)
        CORE_PATTERN.write_text(before)
    assert driven.process.wait() == -signal.SIGABRT


@pytest.mark.parametrize("thread", ["", "2 "])
def test_another_program_is_not_raised(module: Control, driven: Driven, thread: str) -> None:
    driven.be(FIFO, 12, "2 ")
    assert driven.begin() == 0
    driven.tell(f"{thread}exec")
    eventually(lambda: Path(f"/proc/{driven.pid}/comm").read_text() == "sleep\n")
    eventually(lambda: scheduling(driven.pid) == (FIFO, 12 if thread else 10))
    eventually(lambda: module.clients() == [])


def test_a_process_that_exits_in_a_segment_leaves_nothing(module: Control, driven: Driven) -> None:
    assert driven.begin() == 0
    driven.tell("exit")
    assert driven.process.wait() == 0
    eventually(lambda: module.clients() == [])


def test_a_budget_ends_the_boost(module: Control, driven: Driven) -> None:
    assert driven.begin() == 0
    module.set_budget(driven.pid, MS, 3600_000 * MS, Overrun.DEMOTE)
    eventually(lambda: scheduling(driven.pid) == (FIFO, 10))
    assert [one.depth for one in module.clients()] == [1]
    assert driven.end() == 0
    assert (driven.begin(), scheduling(driven.pid)) == (0, (FIFO, 10))  # best effort until the period is over
    assert driven.end() == 0


@pytest.fixture
def throttling() -> Iterator[None]:
    """Real-time threads of a CPU may execute half of the time, and borrow no time from other CPUs."""
    before, cpus = THROTTLING.read_text(), os.sched_getaffinity(0)
    for features in SCHED_FEATURES:
        if features.exists():
            features.write_text("NO_RT_RUNTIME_SHARE")
    THROTTLING.write_text("500000")
    yield
    os.sched_setaffinity(0, cpus)
    THROTTLING.write_text(before)


@pytest.mark.usefixtures("throttling")
def test_a_raised_thread_that_keeps_its_cpu_is_throttled_and_then_lowered(driven: Driven) -> None:
    """This process, which is not real-time, executes on its CPU all the same; what was raised is lowered as ever."""
    assert (driven.do("cpu 0"), driven.begin()) == (0, 0)
    becomes(driven.pid, raised(10))
    driven.tell("hold")
    assert driven.answer() == 0
    os.sched_setaffinity(0, {0})
    assert scheduling(driven.pid) == raised(10)
    driven.tell("end")
    assert (driven.answer(), driven.answer()) == (0, 0)  # of "hold": a command came in time
    becomes(driven.pid, (FIFO, 10))


@pytest.mark.parametrize("driven", [SELF], indirect=True)
def test_the_administrator_changes_things_meanwhile(module: Control, driven: Driven) -> None:
    assert driven.begin() == 0
    module.set_priority(driven.pid, 17)
    assert scheduling(driven.pid) == raised(17)
    with pytest.raises(RefusedError):
        module.set_priority(driven.pid, N + 1)
    module.set_priority(driven.pid, 0)
    eventually(lambda: scheduling(driven.pid) == (FIFO, 10))
    module.set_priority(driven.pid, None)
    assert scheduling(driven.pid) == (FIFO, 10)  # too late for this segment
    assert driven.end() == 0
    assert (driven.begin(), scheduling(driven.pid)) == (0, raised(10))
    module.set_policy(Policy.SEGMENT)
    assert driven.begin() == 0
    assert driven.end() == 0
    assert scheduling(driven.pid) == raised(10)  # until its end
    assert driven.end() == 0
    assert scheduling(driven.pid) == (FIFO, 10)
    assert (driven.begin(), scheduling(driven.pid)) == (0, (FIFO, 10))
    module.set_policy(Policy.BOOSTED)
    assert scheduling(driven.pid) == (FIFO, 10)  # too late for this segment
    assert driven.end() == 0
    assert (driven.begin(), scheduling(driven.pid)) == (0, raised(10))


def test_work_that_the_driver_kills_ends_the_boost(driven: Driven) -> None:
    assert driven.begin() == 0
    parameter("vgpu_kill").write_text(str(driven.pid))
    eventually(lambda: scheduling(driven.pid) == (FIFO, 10))
    assert driven.end() == -errno.EIO


def test_a_gpu_that_goes_away_lowers_its_threads(module: Control, driven: Driven) -> None:
    assert driven.begin() == 0
    parameter("vgpus").write_text("0")
    assert scheduling(driven.pid) == (FIFO, 10)
    assert driven.end() == -errno.ENODEV
    assert driven.begin() == -errno.ENODEV
    assert scheduling(driven.pid) == (FIFO, 10)
    parameter("vgpus").write_text("1")


def test_parameters_that_make_no_sense_are_refused() -> None:
    unload()
    try:
        for option in ("normal=0", "normal=50", "boost=0 policy=5"):
            with pytest.raises(OSError, match=MODULE):
                insert(MODULE, *option.split())
    finally:
        load()


def test_the_administrator_may_forbid_raised_threads() -> None:
    load("boost=0")
    with connect(str(DEVICE)) as control, pytest.raises(RefusedError, match="boost=0"):
        control.set_policy(Policy.BOOSTED)
    load()


def test_the_band_is_the_administrators(compiled: Path) -> None:
    with loaded("normal=40"), started(compiled) as one:
        one.be(FIFO, 40)
        assert (one.begin(), scheduling(one.pid)) == (0, (FIFO | RESET, 80))
        assert one.end() == 0
