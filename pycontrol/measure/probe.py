# SPDX-License-Identifier: GPL-2.0
"""Finds out what a patched driver really does: `gpurt measure board`, the trial before a board is trusted.

Each check is a process with a time limit: if it hangs, that is reported and the other checks still run.  Such a process
owns the GPU for seconds at most, and loses the GPU when it is killed.  Nothing here has run on hardware.
"""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from gpurt._gpurt import ffi, lib
from gpurt.enums import Tier
from gpurt.errors import DeviceError, GpurtError
from gpurt.segments import explain
from pycontrol.ending import later
from pycontrol.link import patched
from pycontrol.link.control import Control, GpuStatus, connect, update_times
from pycontrol.observe.doctor import Diagnosis, Status
from pycontrol.readable import readable

#: The priority of the probe's own segments: above every program that it may disturb.
PRIORITY = 98
SEGMENTS = 1_000
#: How often a program is taken off and put back.
SWITCH_ROUNDS = 20
#: How long the program stays off, s: nvgpu's watchdog kills work that makes no progress for this long (defect 16).
OFF_FOR = 6.0
#: How long a program may still print about work from before it was taken off, s.
DRAIN = 0.5
#: How many prints are awaited to learn a program's pace, and the longest pace allowed, s.
PACE_PRINTS, RAREST = 5, 1.0
#: A program counts as off after silence for this multiple of its usual time, and at least for this long, s.
SILENT_TIMES, SILENT_FOR = 3, 0.3
#: The least time for which a program is watched that begins while another has the GPU, s.
BESIDE = 3.0
#: A print later than this was not already on its way, ns.
AT_ONCE_NS = 5_000_000
#: How long a killed process may take to end, s.  A process that waits for the driver cannot be killed.
KILL_PATIENCE_S = 5.0
MODULES = Path("/sys/module")
LOOK_INTO_LOG = "look into the kernel's log (dmesg) before anything else"


@dataclass(frozen=True, slots=True)
class Target:
    """The probed host and GPU of a patched driver, and a program that uses that GPU all the time."""

    device: str
    gpu: int
    driver: str
    load: str | None


@dataclass(frozen=True, slots=True)
class Check:
    """A check: its name, its time limit (s), and its function."""

    name: str
    limit: float
    find: Callable[[Target], Diagnosis]


def probe_target(device: str | None, load: str | None) -> Target:
    """The first GPU of a patched driver.

    Raises:
        DeviceError: there is no host, or it has no such GPU.
    """
    with connect(device) as control:
        found = [one for one in control.status() if one.tier is Tier.PATCHED]
        place = control.device
    if not found:
        said = [one.trouble for one in patched.read_patched() if one.trouble]
        raise DeviceError("; ".join(["the host has no GPU of a patched driver", *said, "docs/kernel.md says how"]))
    return Target(place, found[0].gpu, found[0].driver, load)


def run_probe(checks: list[Check], probed: Target) -> Iterator[Diagnosis]:
    """The findings of each check, in order.  A check without an answer, or above its time limit, has failed."""
    for check in checks:
        yield _limited(check, probed)


def _limited(check: Check, probed: Target) -> Diagnosis:
    reader, writer = os.pipe()
    pid, ended = -1, False
    try:
        with later():  # else a process could start and not be noted
            pid = os.fork()
        if pid == 0:
            os.setpgid(0, 0)
            os.close(reader)
            _answer(check, probed, writer)
        os.close(writer)
        finding = _heard(check, reader)
    finally:
        if pid == 0:  # the signal came before the fork
            os._exit(0)
        os.close(reader)
        ended = pid > 0 and _end(pid)
    if not ended:
        text = f"{finding.text}; its process waits for the driver, and cannot be killed"
        return Diagnosis(check.name, Status.FAIL, text, finding.cure or LOOK_INTO_LOG)
    return finding


def _end(pid: int) -> bool:
    """Kills the check's process and its children; returns whether they ended soon."""
    with suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
    end = time.monotonic() + KILL_PATIENCE_S
    while os.waitpid(pid, os.WNOHANG) == (0, 0):
        if time.monotonic() > end:
            return False
        time.sleep(0.01)
    return True


def _answer(check: Check, probed: Target, writer: int) -> None:
    """Runs in the check's process.  Does not return."""
    try:
        try:
            finding = check.find(probed)
        except (GpurtError, OSError, ValueError) as error:
            finding = Diagnosis(check.name, Status.FAIL, str(error))
        os.write(writer, json.dumps(asdict(finding)).encode())
    finally:
        os._exit(0)


def _heard(check: Check, reader: int) -> Diagnosis:
    text, end = b"", time.monotonic() + check.limit
    while readable(reader, end - time.monotonic()):
        part = os.read(reader, 1 << 16)
        if not part:
            break
        text += part
    else:
        return Diagnosis(check.name, Status.FAIL, f"no answer within {check.limit:.0f} s", LOOK_INTO_LOG)
    if not text:
        return Diagnosis(check.name, Status.FAIL, "ended without an answer", LOOK_INTO_LOG)
    said = json.loads(text)
    return Diagnosis(said["name"], Status(said["status"]), said["text"], said["cure"])


@contextmanager
def _client(probed: Target) -> Iterator[Callable[[bool], None]]:
    """A client of that GPU: a call with True begins a segment, a call with False ends it.  Raises DeviceError."""
    handle = ffi.new("struct gpurt_handle **")
    _must(probed, lib.gpurt_open(handle, probed.device.encode()))
    try:
        _must(probed, lib.gpurt_use_gpu(handle[0], probed.gpu))

        def own(begins: bool) -> None:
            if begins:
                _must(probed, lib.gpurt_segment_begin(handle[0], lib.GPURT_BEGIN_WAIT, PRIORITY))
            else:
                _must(probed, lib.gpurt_segment_end(handle[0], 0))

        yield own
    finally:
        lib.gpurt_close(handle[0])


def _must(probed: Target, result: int) -> None:
    if result < 0:
        raise DeviceError(explain(probed.device, result))


@contextmanager
def _owning(probed: Target) -> Iterator[None]:
    """While the context is entered, this process owns the GPU."""
    with _client(probed) as own:
        own(True)
        try:
            yield
        finally:
            own(False)


def _port(probed: Target) -> Diagnosis:
    """Defects 10, 14, 21: the loaded driver is the patched one, and nothing else uses its runlists."""
    troubles = [one.trouble for one in patched.read_patched() if one.trouble]
    if troubles:
        return Diagnosis("driver", Status.FAIL, "; ".join(troubles))
    return Diagnosis("driver", Status.OK, f"{probed.driver} is patched, and switches GPU {probed.gpu}")


def _real_time(probed: Target) -> Diagnosis:
    """Defect 11: RT_GROUP_SCHED makes SCHED_FIFO fail even for root, and a test then seems to pass."""
    name = "real-time priority"
    try:
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
    except PermissionError:
        return Diagnosis(
            name, Status.FAIL, "SCHED_FIFO is refused", "run this as root; `gpurt doctor` names other reasons"
        )
    return Diagnosis(name, Status.OK, "SCHED_FIFO is given")


def _preemption(probed: Target) -> Diagnosis:
    """Whether taking off waits until kernels end: amdgpu states it once for all, nvgpu for each TSG."""
    name = "preemption"
    if probed.driver == "nvidia":
        return Diagnosis(name, Status.WARN, "not tried: the firmware says that what is switched off is preempted",
                       "name a program with --load, whose kernels are long")  # fmt: skip
    if probed.driver != "amdgpu":
        return Diagnosis(name, Status.WARN, "not tried: `gpurt set slice PID` tells no compute preemption modes yet",
                       "see that programs use CILP")  # fmt: skip
    file = MODULES / "amdgpu/parameters/cwsr_enable"
    try:
        chosen = file.read_text().strip()
    except OSError as error:
        return Diagnosis(name, Status.WARN, f"cannot be told: {file}: {error.strerror}")
    if chosen == "0":
        return Diagnosis(name, Status.FAIL, "cwsr_enable=0: an update waits for the end of the kernels that execute",
                       "load amdgpu without cwsr_enable=0")  # fmt: skip
    return Diagnosis(name, Status.OK, "waves are saved in the middle of kernels (cwsr_enable)")


def _status(control: Control, probed: Target) -> GpuStatus:
    """The GPU's status.  The list may have gaps, since GPUs that are gone free their numbers."""
    for one in control.status():
        if one.gpu == probed.gpu:
            return one
    raise DeviceError(f"GPU {probed.gpu} is gone")


def _now(probed: Target) -> GpuStatus:
    with connect(probed.device) as control:
        return _status(control, probed)


def _updates(probed: Target) -> Diagnosis:
    """A thousand updates: the GPU is given to one client, and to all again."""
    with connect(probed.device) as control, _client(probed) as own:
        before = _status(control, probed)
        for _ in range(SEGMENTS):
            own(True)
            own(False)
            time.sleep(0.002)
        after = _status(control, probed)
        _, worst = update_times(control.latency(probed.gpu))
    failed, done = after.faults - before.faults, after.updates - before.updates
    text = f"{done} updates, {failed} failed; the longest since the module was loaded took {worst / 1e6:.3f} ms"
    return Diagnosis("updates", Status.FAIL if failed or done < 2 * SEGMENTS else Status.OK, text)


def _idle(probed: Target) -> Diagnosis:
    """Defect 8: a GPU that has gone to sleep (nvgpu: after half a second) must be woken, which takes time."""
    name = "first update after 3 s of idleness"
    with connect(probed.device) as control:
        _, longest = update_times(control.latency(probed.gpu))
    time.sleep(3)
    began = time.monotonic_ns()
    with _owning(probed):
        took = time.monotonic_ns() - began
    text = f"took {took / 1e6:.3f} ms"
    if took > longest:
        return Diagnosis(name, Status.WARN, f"{text}, and none before took more than {longest / 1e6:.3f} ms",
                         "epsilon has to contain it, or keep the GPU awake")  # fmt: skip
    return Diagnosis(name, Status.OK, text)


@contextmanager
def _loaded(probed: Target) -> Iterator[subprocess.Popen[bytes]]:
    """The user's program, which prints something for each item of GPU work that has completed."""
    with _started(probed) as program:
        if not _progress(program, 20):
            raise DeviceError(f"{probed.load}: prints nothing; it has to print for each piece of work that is done")
        yield program


@contextmanager
def _started(probed: Target) -> Iterator[subprocess.Popen[bytes]]:
    """The user's program; the context kills it, even if a signal raises an exception just after its start."""
    assert probed.load
    program = None
    try:
        with later():
            program = subprocess.Popen(shlex.split(probed.load), stdout=subprocess.PIPE, bufsize=0)
        yield program
    finally:
        if program:
            program.kill()
            program.wait()
            assert program.stdout
            program.stdout.close()


def _progress(program: subprocess.Popen[bytes], seconds: float) -> bool:
    """Whether the program prints something within that time.  Drops the printed bytes."""
    assert program.stdout
    return readable(program.stdout, seconds) and bool(os.read(program.stdout.fileno(), 1 << 16))


def _silence(program: subprocess.Popen[bytes], load: str | None) -> float:
    """The time for which a program that works is never silent, s.

    Raises DeviceError if it prints too rarely to tell a working program from a program that is off.
    """
    longest, before = 0.0, time.monotonic()
    for _ in range(PACE_PRINTS):
        seen = _progress(program, RAREST)
        longest, before = max(longest, time.monotonic() - before), time.monotonic()
        if not seen:
            text = f"{load}: was silent for {RAREST:.0f} s though nothing kept it off the GPU, as if it were off"
            raise DeviceError(f"{text}; have it print for smaller pieces of work, and flush each print")
    return max(SILENT_FOR, SILENT_TIMES * longest)


def _start_time(probed: Target) -> float:
    """How long a program takes from its start to its first print if nothing keeps it off the GPU, s."""
    began = time.monotonic()
    with _loaded(probed):
        return time.monotonic() - began


def _code(program: subprocess.Popen[bytes]) -> int | None:
    """The program's exit status, which is known a moment after its output has closed; None: it still runs."""
    assert program.stdout
    if readable(program.stdout, 0):
        with suppress(subprocess.TimeoutExpired):
            return program.wait(KILL_PATIENCE_S)
    return program.poll()


def _drain(program: subprocess.Popen[bytes]) -> None:
    """Drops what the program has printed until now."""
    end = time.monotonic() + DRAIN
    while time.monotonic() < end:
        _progress(program, DRAIN / 10)


def _stops(probed: Target) -> Diagnosis:
    """Defect 15: a program that is taken off stops, and continues when it is put back, even after many changes."""
    name = "a program that is taken off stops and goes on"
    with _loaded(probed) as program:
        silence = _silence(program, probed.load)
        for count in range(SWITCH_ROUNDS):
            with _owning(probed):
                _drain(program)
                if _progress(program, silence):
                    return Diagnosis(name, Status.FAIL, f"it went on while it was off, time {count + 1}")
            if not _progress(program, 20):
                return Diagnosis(name, Status.FAIL, f"it did not go on, time {count + 1}")
    return Diagnosis(name, Status.OK, f"{SWITCH_ROUNDS} times")


def _newcomer(probed: Target) -> Diagnosis:
    """Whether a program that begins beside the owner starts off: its channels are scheduled while it must not run."""
    name = "a program that begins while another has the GPU"
    watched = max(BESIDE, 2 * _start_time(probed))
    with ExitStack() as stack:
        with _owning(probed):
            program = stack.enter_context(_started(probed))
            if _progress(program, watched):
                return Diagnosis(name, Status.FAIL, "it executed work: what schedules it also switches it on")
            early = _code(program)
        if early is not None:
            return Diagnosis(name, Status.FAIL, f"it ended with {early} instead of waiting")
        if not _progress(program, 30):
            return Diagnosis(name, Status.FAIL, "it did not go on when the GPU was everybody's")
    return Diagnosis(name, Status.OK, "waits, and goes on")


def _stop_time(probed: Target) -> Diagnosis:
    """Whether taking off stops a kernel at once or waits for its end: how long a program prints after an update."""
    name = "the last print of a program that is taken off"
    worst = 0
    with _loaded(probed) as program:
        silence = max(DRAIN, _silence(program, probed.load))
        for _ in range(SWITCH_ROUNDS):
            with _owning(probed):
                off = last = time.monotonic_ns()
                while _progress(program, silence):
                    last = time.monotonic_ns()
                worst = max(worst, last - off)
            _progress(program, 20)
    text = f"came {worst / 1e6:.3f} ms after the update at worst; one that is on its way takes its time, too"
    if worst > AT_ONCE_NS:
        return Diagnosis(name, Status.WARN, text, "if that is as long as its kernels, an update does not stop them")
    return Diagnosis(name, Status.OK, text)


def _watchdog(probed: Target) -> Diagnosis:
    """Defect 16: the driver's watchdog kills a program that is off for too long."""
    name = f"a program that is off for {OFF_FOR:.0f} s"
    with _loaded(probed) as program:
        with _owning(probed):
            time.sleep(OFF_FOR)
        if program.poll() is not None or not _progress(program, 20):
            return Diagnosis(name, Status.FAIL, "did not survive it: the driver's watchdog counts the time")
    return Diagnosis(name, Status.OK, "survives")


def _killed(probed: Target) -> Diagnosis:
    """Defect 17: how long it takes until a killed program that is off has ended."""
    with _loaded(probed) as program, _owning(probed):
        program.kill()
        began = time.monotonic_ns()
        program.wait()
        took = time.monotonic_ns() - began
    return Diagnosis("a program that is killed while it is off", Status.OK, f"is gone after {took / 1e6:.3f} ms")


def _foreign(probed: Target) -> Diagnosis:
    """Defect 18: lists that the driver builds because another program comes and goes while this one has the GPU."""
    there = max(2.0, 2 * _start_time(probed))
    before = sum(one.asks for one in patched.read_patched())
    with _owning(probed), _started(probed):
        time.sleep(there)
    asks = sum(one.asks for one in patched.read_patched()) - before
    text = f"the driver asked {asks} times for lists of its own; on Tegra each costs the owner a context switch"
    return Diagnosis("programs that come and go beside the owner", Status.OK, text)


BASIC = [
    Check("driver", 10, _port), Check("real-time priority", 10, _real_time), Check("preemption", 10, _preemption),
    Check("updates", 60, _updates), Check("first update after 3 s of idleness", 20, _idle),
]  # fmt: skip
WITH_LOAD = [
    Check("a program that is taken off stops and goes on", 120, _stops),
    Check("the last print of a program that is taken off", 180, _stop_time),
    Check("a program that begins while another has the GPU", 120, _newcomer),
    Check("a program that is off for 6 s", 60, _watchdog),
    Check("a program that is killed while it is off", 60, _killed),
    Check("programs that come and go beside the owner", 90, _foreign),
]
#: Checks that only the user can do, and how.
BY_HAND = {
    "TSG ids from 64 (defect 4)": "run the probe again with 70 idle GPU programs beside it",
    "spinning tasks (defect 12)": "run the taskset, and look for `timeout` and `recover` in dmesg",
    "many contexts that start at once (defect 13)": "start your programs while one owns the GPU; stagger what fails",
    "suspend and resume": "rtcwake -m mem -s 20 while a program is off: it has to stay off, and to go on afterwards",
    "sleep of an idle GPU (RTD3, GC6, Thor's rail gating)": "leave it idle until it sleeps; the probe again afterwards",
    "a reset, and memory pressure, while a program is off": "only on a machine that may crash",
}


def probe_all(probed: Target) -> Iterator[Diagnosis]:
    """All checks; some report that they need a program or a person."""
    yield from run_probe(BASIC, probed)
    if probed.load:
        yield from run_probe(WITH_LOAD, probed)
    else:
        for check in WITH_LOAD:
            yield Diagnosis(check.name, Status.WARN, "not tried", "name a program with --load")
    for name, cure in BY_HAND.items():
        yield Diagnosis(name, Status.WARN, "not tried", cure)
