# SPDX-License-Identifier: GPL-2.0
"""Policy sbeet of the user-space host, with real processes: jobs get units, and what dies gives them back."""

from __future__ import annotations

import errno
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from subprocess import PIPE
from typing import Any

import pytest
from actors import Actor, actors
from links import PATIENCE, SocketClient, eventually
from once import once
from processes import StartHost

from gpurt import Client, Job
from gpurt._gpurt import ffi, lib
from gpurt.enums import Cap, Policy
from gpurt.errors import RefusedError
from pycontrol.link.control import connect as control

ROOT = Path(__file__).resolve().parents[2]
MS = 1_000_000
SECOND = 1000 * MS
READY, WAIT, RUN = lib.GPURT_IOC_JOB_READY, lib.GPURT_IOC_JOB_WAIT, lib.GPURT_IOC_JOB_RUN
KERNEL_DONE, DONE = lib.GPURT_IOC_JOB_KERNEL_DONE, lib.GPURT_IOC_JOB_DONE
#: Two tasks on four units: `long` takes all of them for 200 s, `short` for 2 ms; nothing is skipped while a test runs.
FILE = """
[[gpu]]
name = "gpu"
compute_units = 4
static_power = "1W"
idle_power = "250mW"
{gpu}
[[profile]]
name = "long"
  [[profile.on]]
  gpu = "gpu"
  kernel = {{ work = "800s", saturates = 4 }}
  power = "1W"
[[profile]]
name = "short"
  [[profile.on]]
  gpu = "gpu"
  kernel = {{ work = "8ms", saturates = 4 }}
  power = "1W"
[[task]]
name = "long"
period = "1000s"
segments = [{{ cpu = "1ms" }}, {{ profile = "long" }}]
[[task]]
name = "short"
period = "999s"
segments = [{{ profile = "short" }}]
[[task]]
name = "other"
period = "998s"
segments = [{{ profile = "short" }}]
[[task]]
name = "brief"
period = "200ms"
segments = [{{ profile = "short" }}]
"""
#: More tasks for tests with many clients: a task's next job comes after a period.
TASKS = "".join(
    f'[[task]]\nname = "{kernel}{number}"\nperiod = "{900 + number}s"\nsegments = [{{{{ profile = "{kernel}" }}}}]\n'
    for kernel in ("long", "short") for number in range(10)
)  # fmt: skip


@pytest.fixture
def taskset(tmp_path: Path) -> Path:
    path = tmp_path / "tasks.toml"
    path.write_text((FILE + TASKS).format(gpu=""))
    return path


@pytest.fixture
def host(start_host: StartHost, taskset: Path) -> Path:
    """A virtual GPU of four units; one job at a time, so that who waits is known."""
    return start_host("--policy=rm", f"--energy-file={taskset}")


@pytest.fixture
def spawn(host: Path) -> Iterator[Callable[[], Actor]]:
    """Makes processes that are clients of the host."""
    with actors(host) as made:
        yield made


def announce(client: SocketClient, task: str, release: int = 0) -> int:
    result, made = client.call(READY, task=task.encode(), release_ns=release)
    assert result == 0, os.strerror(-result)
    return int(made.job)


def get_units(client: SocketClient, job: int) -> tuple[int, int, int, int]:
    result, made = client.call(WAIT, job=job, timeout_ns=lib.GPURT_FOREVER)
    assert result == 0, os.strerror(-result)
    return made.gpu, made.first, made.units, made.partition


# What a client has done with a task's jobs when it is killed


def nothing_yet(client: SocketClient, task: str) -> None:
    """It has connected."""


def early(client: SocketClient, task: str) -> None:
    """Its job is released much later."""
    announce(client, task, time.monotonic_ns() + 1000 * SECOND)


def granted(client: SocketClient, task: str = "long") -> int:
    """Its job holds all units."""
    job = announce(client, task)
    get_units(client, job)
    return job


def launched(client: SocketClient, task: str) -> int:
    """Its kernel executes."""
    job = granted(client, task)
    assert client.code(RUN, job=job) == 0
    assert client.code(KERNEL_DONE, job=job) == -errno.EBUSY, "its kernel takes 200 s"
    return job


def waits_for_its_kernel(client: SocketClient, task: str) -> None:
    """The same, and it waits for its end."""
    job = launched(client, task)
    client.start(WAIT, job=job, what=lib.GPURT_JOB_KERNEL, timeout_ns=lib.GPURT_FOREVER)


def copies(client: SocketClient, task: str) -> None:
    """Its kernel has ended; under rm the job holds the units until its copy out is done."""
    assert client.code(KERNEL_DONE, job=granted(client, task)) == 0


def runs_and_waits(client: SocketClient, task: str) -> None:
    """A job holds all units, and the next one waits for them."""
    granted(client, task)
    client.start(WAIT, job=announce(client, task), timeout_ns=lib.GPURT_FOREVER)


def one_job(client: SocketClient, task: str) -> tuple[int, int, int, int]:
    """A whole job; the units that it had."""
    job = announce(client, task)
    had = get_units(client, job)
    assert client.code(RUN, job=job) == 0
    assert client.code(WAIT, job=job, what=lib.GPURT_JOB_KERNEL, timeout_ns=lib.GPURT_FOREVER) == 0
    assert client.code(DONE, job=job) == -errno.EBUSY
    assert client.code(KERNEL_DONE, job=job) == 0
    assert client.code(DONE, job=job) == 0
    assert client.code(DONE, job=job) == client.code(WAIT, job=job, timeout_ns=0) == -errno.ENOENT
    return had


POINTS = [nothing_yet, early, granted, launched, waits_for_its_kernel, copies, runs_and_waits]


def test_a_client_that_is_killed_gives_its_units_back(host: Path, spawn: Callable[[], Actor]) -> None:
    other = spawn()
    with control(str(host)) as plane:

        def holds() -> tuple[int, int]:
            return plane.status()[0].units_held, plane.status()[0].jobs

        for number, point in enumerate(POINTS):
            victim = spawn()
            victim.run(point, f"long{number}")
            assert holds() == ((0, 0) if point in (nothing_yet, early) else (4, 1)), point.__name__
            other.start(one_job, f"short{number}")
            victim.kill()
            assert other.answer() == (0, 0, 4, 3), point.__name__
            assert holds() == (0, 0), point.__name__
            with SocketClient(host) as third:  # the dead client's task is free for another one
                early(third, f"long{number}")


def test_a_client_that_waits_for_units_is_killed(host: Path, spawn: Callable[[], Actor]) -> None:
    holder, victim = spawn(), spawn()
    holder.run(granted)
    victim.run(runs_into_others)
    victim.kill()
    with control(str(host)) as plane:
        assert plane.status()[0].units_held == 4
    holder.kill()
    assert spawn().run(one_job, "other") == (0, 0, 4, 3)


def runs_into_others(client: SocketClient) -> None:
    client.start(WAIT, job=announce(client, "short"), timeout_ns=lib.GPURT_FOREVER)


def test_bad_requests(host: Path) -> None:
    forever = lib.GPURT_FOREVER
    with SocketClient(host) as client, SocketClient(host) as other:
        assert client.code(READY, task=b"nobody") == -errno.ENOENT
        assert client.code(READY, task=b"") == -errno.EINVAL
        assert client.code(READY, task=b"x" * lib.GPURT_TASK_LEN) == -errno.EINVAL
        assert client.code(READY, task=b"long", flags=1) == -errno.EINVAL
        assert client.code(READY, task=b"long", release_ns=2**64 - 1) == -errno.EINVAL
        assert client.code(READY, task=b"short", release_ns=time.monotonic_ns() + 3700 * SECOND) == -errno.EINVAL
        for job in (0, 1, 2**64 - 1):
            assert client.code(WAIT, job=job, timeout_ns=forever) == -errno.ENOENT
            assert client.code(RUN, job=job) == client.code(KERNEL_DONE, job=job) == -errno.ENOENT
            assert client.code(DONE, job=job) == -errno.ENOENT
        job = announce(client, "long")
        assert get_units(client, job) == (0, 0, 4, 3)
        assert client.code(WAIT, job=job, what=lib.GPURT_JOB_KERNEL, timeout_ns=forever) == -errno.ENOENT
        assert client.code(WAIT, job=job, what=lib.GPURT_JOB_WHATS) == -errno.EINVAL
        assert client.code(DONE, job=job) == -errno.EBUSY
        assert client.code(RUN, job=job, units=5) == client.code(RUN, job=job, units=2**32 - 1) == -errno.EINVAL
        assert client.code(RUN, job=job, duration_ns=1) == -errno.EINVAL
        assert client.code(KERNEL_DONE, job=job, flags=1) == -errno.EINVAL
        # another client's jobs are as good as none, and so are its tasks
        for code in (WAIT, RUN, KERNEL_DONE, DONE):
            assert other.code(code, job=job) == -errno.ENOENT
        assert other.code(READY, task=b"long") == -errno.EBUSY
        waiting = announce(client, "long")
        assert client.code(READY, task=b"long") == -errno.EBUSY
        assert client.code(RUN, job=waiting) == client.code(KERNEL_DONE, job=waiting) == -errno.ENOENT
        assert client.code(WAIT, job=waiting, timeout_ns=MS) == -errno.ETIMEDOUT
        assert client.code(RUN, job=job, units=1) == 0
        assert client.code(RUN, job=job) == -errno.EBUSY
        assert client.code(WAIT, job=job, what=lib.GPURT_JOB_KERNEL, timeout_ns=MS) == -errno.ETIMEDOUT
        with control(str(host)) as plane:
            assert (plane.status()[0].units_held, plane.status()[0].malformed) == (4, 0)


def test_a_host_that_shares_no_units_refuses(start_host: StartHost) -> None:
    with SocketClient(start_host()) as client:
        for code in (READY, WAIT, RUN, KERNEL_DONE, DONE):
            fields: dict[str, Any] = {"task": b"long"} if code == READY else {}
            assert client.code(code, **fields) == -errno.EOPNOTSUPP
        assert not client.call(lib.GPURT_IOC_QUERY)[1].caps & Cap.UNITS


def test_segments_go_on_beside_jobs_and_the_policy_stays(host: Path) -> None:
    with SocketClient(host) as client, control(str(host)) as plane:
        assert client.call(lib.GPURT_IOC_QUERY)[1].caps & Cap.UNITS
        granted(client)
        assert client.begin() == lib.GPURT_STATE_RUNNING
        tsg = client.tsg()
        assert client.finished(tsg, client.submit(tsg, MS)) > 0
        client.end()
        with pytest.raises(RefusedError, match="shares units by policy rm"):
            plane.set_policy(Policy.SEGMENT)
        status = plane.status()[0]
        assert (status.unit_policy, status.mechanism, status.units) == ("rm", "virtual", 4)
        assert (status.policy, status.units_held, status.jobs) == (Policy.TIMESLICED, 4, 1)
        assert (status.unit_clients, status.client_count) == (1, 1)


def test_status_shows_units_and_policy(host: Path) -> None:
    with SocketClient(host) as client:
        granted(client)
        words = [sys.executable, "-m", "pycontrol", f"--device={host}", "status"]
        text = subprocess.run(words, capture_output=True, text=True, check=True, timeout=PATIENCE).stdout
    assert re.search(r"^ *0 +vgpu +T3 +rm ", text, re.MULTILINE)
    assert "GPU 0: 4 of 4 units held by 1 job; clients that announce jobs: 1; the GPU is virtual" in text
    assert "schedulable" not in text


def test_jobs_of_several_threads_of_a_python_program(start_host: StartHost, taskset: Path) -> None:
    """`long` would hold all units, if it did not say that its kernel ended."""
    host = start_host("--policy=sbeet", f"--energy-file={taskset}")
    with Client(str(host)) as client:
        first = Job(client, "long")
        held = first.wait()
        assert held
        assert held.mask == (1 << held.units) - 1
        seen: list[object] = []

        def second() -> None:
            job = Job(client, "short")
            seen.append(job.wait())
            seen.append(job.run())
            job.kernel_done()
            job.done()

        thread = threading.Thread(target=second)
        thread.start()
        first.kernel_done()
        thread.join(PATIENCE)
        assert not thread.is_alive()
        first.done()
        assert len(seen) == 2
        with pytest.raises(OSError, match="announce a job of nobody"):
            Job(client, "nobody")
        with pytest.raises(OSError, match="wait for units"):
            first.wait()


def is_skipped(job: Job, timeout: int) -> bool:
    """Whether the job, which gets no units, is skipped within the timeout (ns)."""
    try:
        assert job.wait(timeout=timeout) is None
    except TimeoutError:
        assert job.wait() is None  # the task may have its next one
        return False
    return True


def test_a_job_that_is_pending_at_its_deadline_is_skipped(start_host: StartHost, taskset: Path) -> None:
    host = start_host("--policy=rm", f"--energy-file={taskset}")
    with SocketClient(host) as client, Client(str(host)) as late:
        granted(client)
        job = Job(late, "brief")
        assert job.wait() is None
        assert job.wait() is None, "the answer stays"
        with pytest.raises(OSError, match="run a kernel"):
            job.run()
        eventually(lambda: not is_skipped(Job(late, "brief"), MS))  # on a busy machine it may be at first


def test_jobs_that_are_skipped_as_they_come_are_forgotten(start_host: StartHost, taskset: Path) -> None:
    """Each job ends the one before, also if both were due long ago: a wait for that one must not last for ever."""
    taskset.write_text(FILE.format(gpu="").replace('"999s"', '"1ms"'))
    host = start_host("--policy=rm", f"--energy-file={taskset}")
    with SocketClient(host) as client, control(str(host)) as plane:
        first, second = (announce(client, "short", release=1) for _ in range(2))
        assert client.code(WAIT, job=first, timeout_ns=lib.GPURT_FOREVER) == -errno.ENOENT
        assert client.code(WAIT, job=second, timeout_ns=lib.GPURT_FOREVER) == -errno.ETIME
        assert plane.status()[0].jobs_skipped == 2


def test_a_hundred_clients_one_of_which_hangs(start_host: StartHost, taskset: Path) -> None:
    """Status tells of what hangs, of jobs that were skipped behind it, and of what was lost with it."""
    taskset.write_text(FILE.format(gpu="").replace("800s", "8ms").replace('"1000s"', '"100ms"'))
    host = start_host("--policy=rm", f"--energy-file={taskset}")
    clients = [SocketClient(host) for _ in range(100)]
    try:
        hangs, *others = clients
        granted(hangs)
        assert {one.code(READY, task=b"long") for one in others} == {-errno.EBUSY}
        late = announce(others[0], "brief")
        assert others[0].code(WAIT, job=late, timeout_ns=lib.GPURT_FOREVER) == -errno.ETIME
        with control(str(host)) as plane:
            eventually(lambda: plane.status()[0].jobs_overdue == 1)
        words = [sys.executable, "-m", "pycontrol", f"--device={host}", "status"]
        text = subprocess.run(words, capture_output=True, text=True, check=True, timeout=PATIENCE).stdout
        assert "GPU 0: 1 of them overdue" in text
        assert "jobs on all GPUs: 0 done, 0 of them late; 1 skipped at their deadline; 0 lost" in text
        hangs.close()
        one_job(others[0], "other")
        with control(str(host)) as plane:
            found = plane.status()[0]
        assert (found.jobs_done, found.jobs_late, found.jobs_skipped, found.jobs_lost) == (1, 0, 1, 1)
        assert found.jobs_overdue == 0
    finally:
        for one in clients:
            one.close()


def test_a_signal_leaves_the_job_waiting(host: Path) -> None:
    before = signal.signal(signal.SIGALRM, lambda *_: None)
    try:
        with SocketClient(host) as holder, Client(str(host)) as client:
            job = granted(holder)
            waiting = Job(client, "short")
            signal.setitimer(signal.ITIMER_REAL, 0.02, 0.02)
            with pytest.raises(InterruptedError):
                waiting.wait()
            signal.setitimer(signal.ITIMER_REAL, 0)
            with pytest.raises(TimeoutError):
                waiting.wait(timeout=MS)
            assert holder.code(KERNEL_DONE, job=job) == holder.code(DONE, job=job) == 0
            assert waiting.wait()
            signal.setitimer(signal.ITIMER_REAL, 0.0005, 0.0005)
            assert waiting.run() > 0, "the kernel is waited for again"
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


# The example


EXAMPLE5 = """
[[gpu]]
name = "gpu"
compute_units = 4
static_power = "1W"
idle_power = "250mW"
[[profile]]
name = "long"
  [[profile.on]]
  gpu = "gpu"
  copy_in = "100ms"
  kernel = { work = "2400ms", saturates = 4 }
  power = "1W"
[[profile]]
name = "short"
  [[profile.on]]
  gpu = "gpu"
  copy_in = "100ms"
  kernel = { work = "400ms", saturates = 4 }
  power = "1W"
[[task]]
name = "t1"
period = "10s"
deadline = "1400ms"
segments = [{ profile = "long" }]
[[task]]
name = "t2"
period = "10s"
deadline = "700ms"
segments = [{ profile = "short" }]
"""


@pytest.fixture(scope="module")
def periodic(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """examples/energy/periodic.c, compiled with the library's sources."""
    return once(tmp_path_factory, "periodic", lambda folder: build(folder / "periodic")) / "periodic"


def build(program: Path) -> None:
    sources = sorted((ROOT / "userlib").glob("*.c"))
    flags = ["-std=gnu11", "-Wall", "-Wextra", "-Werror", f"-I{ROOT}/userlib/include"]
    command = ["cc", *flags, ROOT / "examples/energy/periodic.c", *sources, "-pthread", "-o", program]
    subprocess.run(command, check=True)


def test_the_example_runs_example_5_in_processes(start_host: StartHost, periodic: Path, tmp_path: Path) -> None:
    """A hundred times as slow: t1 gets 3 units, because t2 comes soon; t2 runs beside it (figure 2.3b)."""
    taskset = tmp_path / "example5.toml"
    taskset.write_text(EXAMPLE5)
    host = start_host("--policy=sbeet", f"--energy-file={taskset}")
    # Both programs wait for the start, which is far enough away for a slow machine.
    start, environment = time.monotonic_ns() + 5 * SECOND, {**os.environ, "GPURT_DEVICE": str(host)}
    running = {
        name: subprocess.Popen([periodic, name, "10000000", "1", str(start + offset)], stdout=PIPE, text=True,
                               env=environment)
        for name, offset in (("t2", 100 * MS), ("t1", 0))
    }  # fmt: skip
    said = {name: process.communicate(timeout=PATIENCE)[0] for name, process in running.items()}
    assert said == {"t1": "t1 0: GPU 0, units 0 to 2, partition 2\n", "t2": "t2 0: GPU 0, units 3 to 3, partition 4\n"}
    assert [process.returncode for process in running.values()] == [0, 0]


def test_the_example_says_what_is_wrong(start_host: StartHost, taskset: Path, periodic: Path) -> None:
    host = start_host("--policy=rm", f"--energy-file={taskset}")

    def run(*words: str, device: object = None) -> tuple[int, str]:
        environment = {**os.environ, "GPURT_DEVICE": str(device or host)}
        done = subprocess.run([periodic, *words], capture_output=True, text=True, env=environment, timeout=PATIENCE)
        return done.returncode, done.stderr

    assert run()[0] == 2
    assert run("nobody", "1000", "1") == (4, "periodic: nobody: No such file or directory\n")
    assert run("x" * 200, "1000", "1")[0] == 4
    assert run("long", "1000", "1", device="/none")[0] == 4
    taskset.write_text((FILE + TASKS).format(gpu="").replace("200ms", "3ms"))
    host = start_host("--policy=rm", f"--energy-file={taskset}")
    assert run("brief", "1000", "1", "1") == (1, "")  # it was released at boot


# Real GPUs


def test_without_a_mechanism_a_job_gets_the_whole_gpu(start_host: StartHost, taskset: Path) -> None:
    """On a saturating kernel sbeet would give fewer units; nothing would keep the program to them."""
    text = FILE.format(gpu="").replace("saturates = 4", "saturates = 1").replace("800s", "200s")
    taskset.write_text(text)
    serve = ("-m", "pycontrol", "serve")
    for mechanism, units in (("none", 4), ("green-contexts", 1)):
        host = start_host("--policy=sbeet", f"--energy-file={taskset}", f"--mechanism={mechanism}", program=serve)
        with SocketClient(host) as client, control(str(host)) as plane:
            job = announce(client, "long")
            gpu, first, had, partition = get_units(client, job)
            assert (gpu, first, had, partition) == (0, 0, units, 0)
            assert client.code(RUN, job=job) == -errno.EOPNOTSUPP
            assert plane.status()[0].mechanism == mechanism
            assert client.code(KERNEL_DONE, job=job) == client.code(DONE, job=job) == 0


def test_jobs_on_two_gpus(start_host: StartHost) -> None:
    """The toy system: algorithm 4 has c on the little GPU, a on the big one."""
    host = start_host("--policy=sbeet-mg", f"--energy-file={ROOT}/examples/energy/toy.toml")
    with SocketClient(host) as client, control(str(host)) as plane:
        found = [get_units(client, announce(client, task)) for task in ("a", "c")]
        assert [gpu for gpu, *_ in found] == [0, 1]
        assert [one.units for one in plane.status()] == [12, 6]
        assert [one.units_held for one in plane.status()] == [units for _, _, units, _ in found]


@pytest.mark.parametrize(("words", "code", "text"), [
    (["--policy=sbeet"], 2, "--policy sbeet needs --energy-file FILE"),
    (["--energy-file=examples/energy/toy.toml"], 2, "--energy-file goes with --policy sbeet, sbeet-mg, rm, fcfs"),
    (["--policy=sbeet", "--energy-file=examples/energy/toy.toml"], 2, "policy sbeet is for one GPU, and there are 2"),
    (["--policy=sbeet-mg", "--energy-file=examples/energy/toy.toml", "--gpus=3"], 2, "the file of --energy-file has 2"),
    (["--policy=sbeet", "--energy-file=/none.toml"], 3, "/none.toml"),
    (["--policy=sbeet", "--energy-file=examples/minimal.toml"], 3, "[[gpu]] is missing"),
])  # fmt: skip
def test_wrong_use_is_told(tmp_path: Path, words: list[str], code: int, text: str) -> None:
    """Both commands read these options by the same function."""
    command = "serve" if "--gpus=3" in words else "emulate"
    call = [sys.executable, "-m", "pycontrol", command, f"--socket={tmp_path}/host.sock", *words]
    done = subprocess.run(call, capture_output=True, text=True, check=False, timeout=PATIENCE, cwd=ROOT)
    assert (done.returncode, done.stdout) == (code, "")
    assert text in done.stderr
    assert not (tmp_path / "host.sock").exists()


def test_masks_of_grants() -> None:
    grant, mask = ffi.new("struct gpurt_job_wait *", {"first": 30, "units": 5}), ffi.new("uint32_t[]", [7, 7])
    assert lib.gpurt_job_mask(grant, mask, 1) == -errno.EINVAL
    assert list(mask) == [7, 7]
    assert lib.gpurt_job_mask(grant, mask, 2) == 0
    assert list(mask) == [0b11 << 30, 0b111]
    grant.first = 2**32 - 1
    assert lib.gpurt_job_mask(grant, mask, 2) == -errno.EINVAL
