"""libgpurt from C, C++ and Python does what its header says, under the sanitizers."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from library import PATIENCE, ROOT, Compile, Run

from gpurt._gpurt import lib
from gpurt.enums import State
from pycontrol.link.control import connect as control

PRELUDE = """
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <gpurt.h>
#define MUST(call, wanted) do { int got_ = (call); if (got_ != (wanted)) { \\
	fprintf(stderr, "line %d: %s = %d, not %d\\n", __LINE__, #call, got_, (int)(wanted)); exit(1); } } while (0)
"""

WHOLE = PRELUDE + """
int main(void)
{
	struct gpurt_handle *h, *none;
	struct gpurt_query query;
	uint32_t tsg, endless;
	uint64_t work, when;

	MUST(gpurt_open(&h, NULL), 0);
	MUST(gpurt_open(&none, "/nonexistent/x"), -ENODEV);
	MUST(gpurt_open(&none, "/etc/passwd"), -EPROTO);
	MUST(gpurt_query_host(h, &query), 0);
	MUST(query.version, GPURT_VERSION);
	MUST(gpurt_use_gpu(h, 1), -ENODEV);
	MUST(gpurt_use_gpu(h, 0), 0);
	MUST(gpurt_segment_end(h, 0), -ENOENT);
	MUST(gpurt_segment_begin(h, 1 << 20, 0), -EINVAL);
	MUST(gpurt_segment_begin(h, 0, 100), -EINVAL);
	MUST(gpurt_segment_begin(h, GPURT_BEGIN_WAIT, 0), 0);
	MUST(gpurt_segment_begin(h, 0, 0), 0);
	MUST(gpurt_segment_wait(h, GPURT_FOREVER), 0);
	MUST(gpurt_tsg_open(h, &tsg), 0);
	MUST(gpurt_tsg_open(h, &endless), 0);
	MUST(gpurt_submit_work(h, endless, GPURT_ENGINE_EXEC, 0, GPURT_MAX_WORK_NS, &work), 0);
	MUST(gpurt_work_wait(h, endless, work, 0, NULL), -ETIMEDOUT);
	MUST(gpurt_tsg_close(h, endless), 0);
	MUST(gpurt_submit_work(h, tsg, GPURT_ENGINE_EXEC, 0, 2000000, &work), 0);
	MUST(gpurt_submit_work(h, tsg, GPURT_ENGINE_COPY, GPURT_SUBMIT_FENCE, 1000000, NULL), 0);
	MUST(gpurt_work_wait(h, tsg, work, GPURT_FOREVER, &when), 0);
	MUST(when > 0, 1);
	MUST(gpurt_submit_kernel(h, tsg, GPURT_SUBMIT_MEMORY, 2300, 1000000, &work), 0);
	MUST(gpurt_work_wait(h, tsg, work, GPURT_FOREVER, NULL), 0);
	MUST(gpurt_submit_kernel(h, tsg, 0, 2300, 1000000, NULL), -EINVAL);
	MUST(gpurt_tsg_shape(h, tsg, GPURT_INTERLEAVE_LOW, GPURT_MIN_SLICE_NS), 0);
	MUST(gpurt_tsg_shape(h, tsg, GPURT_INTERLEAVE_COUNT, 0), -EINVAL);
	MUST(gpurt_tsg_shape(h, 99, GPURT_INTERLEAVE_LOW, 0), -ENOENT);
	MUST(gpurt_work_wait(h, tsg, 99, GPURT_FOREVER, NULL), -ENOENT);
	MUST(gpurt_segment_end(h, GPURT_END_DRAIN), 0);
	MUST(gpurt_segment_end(h, 0), 0);
	MUST(gpurt_tsg_close(h, tsg), 0);
	MUST(gpurt_tsg_close(h, tsg), -ENOENT);
	gpurt_close(h);
	gpurt_close(NULL);
	puts("ok");
	return 0;
}
"""


def test_every_function_as_the_header_says(compile_c: Compile, run: Run, emulator: Path) -> None:
    done = run(compile_c(WHOLE, "-std=c11", "-D_DEFAULT_SOURCE", "-Wpedantic"), emulator)
    assert (done.returncode, done.stdout) == (0, "ok\n"), done.stderr


UNMANAGED = PRELUDE + """
int main(void)
{
	for (int i = 0; i < 3; i++) {
		MUST(gpurt_segment_begin(NULL, 0, 0), -ENODEV);
		MUST(gpurt_segment_end(NULL, 0), -ENODEV);
	}
	puts("ran on");
	return 0;
}
"""


def test_without_a_host_the_program_runs_on_and_says_so_once(compile_c: Compile, run: Run) -> None:
    program = compile_c(UNMANAGED)
    done = run(program, None)
    assert (done.returncode, done.stdout) == (0, "ran on\n")
    assert done.stderr.count("no host") == done.stderr.count("\n") == 1
    required = run(program, None, GPURT_REQUIRED="1")
    assert required.returncode == -signal.SIGABRT
    assert "cannot begin a GPU segment" in required.stderr


#: Nothing comes while a thread polls; what a poll takes is a millisecond of this clock.
POLLS = """
#define _GNU_SOURCE
#include <sys/socket.h>
#include <stdbool.h>
#include <sys/syscall.h>
#include <time.h>
""" + PRELUDE + """
static int polls;

ssize_t recv(int fd, void *buffer, size_t size, int flags)
{
	if (flags & MSG_DONTWAIT) {
		polls++;
		errno = EAGAIN;
		return -1;
	}
	return syscall(SYS_recvfrom, fd, buffer, size, flags, NULL, NULL);
}

int clock_gettime(clockid_t clock, struct timespec *now)
{
	static long ms;

	(void)clock;
	ms++;
	*now = (struct timespec){ ms / 1000, ms % 1000 * 1000000 };
	return 0;
}

static struct gpurt_handle *h;

#define SPINS(call, wanted) do { \\
	polls = 0; MUST(call, 0); MUST(polls > 10, wanted); \\
	} while (0)

int main(void)
{
	MUST(gpurt_open(&h, NULL), 0);
	SPINS(gpurt_segment_begin(h, GPURT_BEGIN_OWNER, 0), true);
	SPINS(gpurt_segment_begin(h, 0, 0), true);
	SPINS(gpurt_segment_end(h, 0), true);
	SPINS(gpurt_segment_end(h, 0), true);
	SPINS(gpurt_segment_begin(h, 0, 0), false);
	SPINS(gpurt_segment_begin(h, GPURT_BEGIN_OWNER, 0), false);
	SPINS(gpurt_segment_end(h, 0), false);
	SPINS(gpurt_segment_end(h, 0), false);
	SPINS(gpurt_segment_begin(h, GPURT_BEGIN_FENCE | GPURT_BEGIN_WAIT, 0), false);
	SPINS(gpurt_segment_end(h, 0), false);
	gpurt_close(h);
	puts("ok");
	return 0;
}
"""


def test_a_thread_keeps_its_cpu_in_calls_as_the_outermost_begin_says(
    compile_c: Compile, run: Run, emulator: Path
) -> None:
    done = run(compile_c(POLLS), emulator)
    assert (done.returncode, done.stdout) == (0, "ok\n"), done.stderr


THREADS = PRELUDE + """
static struct gpurt_handle *handle;

static void *work(void *seed)
{
	uint32_t tsg;
	uint64_t item;

	MUST(gpurt_tsg_open(handle, &tsg), 0);
	for (int i = 0; i < 150; i++) {
		MUST(gpurt_segment_begin(handle, 0, 0), 0);
		if ((i + (long)seed) % 3 == 0) {
			MUST(gpurt_submit_work(handle, tsg, 0, 0, 20000, &item), 0);
			MUST(gpurt_work_wait(handle, tsg, item, GPURT_FOREVER, NULL), 0);
		}
		MUST(gpurt_segment_end(handle, 0), 0);
	}
	return NULL;
}

int main(int argc, char **argv)
{
	pthread_t threads[8];

	(void)argv;
	if (argc > 1)
		MUST(gpurt_open(&handle, NULL), 0);	/* else the process's own client, which all threads open at once */
	for (long i = 0; i < 8; i++)
		pthread_create(&threads[i], NULL, work, (void *)i);
	for (int i = 0; i < 8; i++)
		pthread_join(threads[i], NULL);
	MUST(gpurt_segment_end(handle, 0), -ENOENT);	/* every begin had its end */
	gpurt_close(handle);
	puts("ok");
	return 0;
}
"""


@pytest.mark.parametrize("arguments", [[], ["explicit"]])
def test_threads_share_one_handle(compile_c: Compile, run: Run, emulator: Path, arguments: list[str]) -> None:
    done = run(compile_c(THREADS), emulator, *arguments, ASAN_OPTIONS="detect_leaks=0")
    assert (done.returncode, done.stdout) == (0, "ok\n"), done.stderr


FORK = PRELUDE + """
int main(void)
{
	struct gpurt_handle *h;
	int status;

	MUST(gpurt_open(&h, NULL), 0);
	MUST(gpurt_segment_begin(h, 0, 0), 0);
	MUST(gpurt_segment_begin(NULL, 0, 0), 0);
	if (!fork()) {
		MUST(gpurt_segment_end(h, 0), -ESTALE);		/* the parent's */
		MUST(gpurt_segment_end(NULL, 0), -ENOENT);	/* the child's own has none open */
		MUST(gpurt_segment_begin(NULL, 0, 0), 0);
		gpurt_close(h);
		_exit(0);
	}
	wait(&status);
	MUST(status, 0);
	MUST(gpurt_segment_end(h, 0), 0);
	MUST(gpurt_segment_end(NULL, 0), 0);
	puts("ok");
	gpurt_close(h);
	return 0;
}
"""


def test_a_forked_child_is_a_client_of_its_own(compile_c: Compile, run: Run, emulator: Path) -> None:
    done = run(compile_c(FORK), emulator, ASAN_OPTIONS="detect_leaks=0")
    assert (done.returncode, done.stdout) == (0, "ok\n"), done.stderr


SIGNALS = PRELUDE + """
#define ROUNDS 300
static struct gpurt_handle *handle;
static volatile sig_atomic_t fired, ended;

static void stop(int number)
{
	(void)number;
	ended += !gpurt_segment_end(handle, 0);	/* whatever the thread was doing */
	fired++;
}

int main(void)
{
	/* one signal a round: a periodic one would leave a slow machine no time for anything else */
	const struct itimerval once = { { 0, 0 }, { 0, 700 } };
	int begun = 0, left = 0;

	MUST(gpurt_open(&handle, NULL), 0);
	signal(SIGALRM, stop);
	for (int round = 0; round < ROUNDS; round++) {
		setitimer(ITIMER_REAL, &once, NULL);
		do {
			MUST(gpurt_segment_begin(handle, 0, 0), 0);
			begun++;
		} while (fired == round);
	}
	while (!gpurt_segment_end(handle, 0))
		left++;
	MUST(ended >= ROUNDS - 1, 1);		/* a segment is open when any later round starts */
	MUST(begun, ended + left);
	puts("ok");
	gpurt_close(handle);
	return 0;
}
"""


def test_a_segment_can_be_ended_from_a_signal_handler(compile_c: Compile, run: Run, emulator: Path) -> None:
    source = SIGNALS.replace("#include <sys/wait.h>", "#include <sys/time.h>\n#include <sys/wait.h>")
    done = run(compile_c(source), emulator)
    assert (done.returncode, done.stdout) == (0, "ok\n"), done.stderr


HANG = PRELUDE + """
int main(void)
{
	uint32_t tsg;

	MUST(gpurt_tsg_open(NULL, &tsg), 0);
	MUST(gpurt_segment_begin(NULL, 0, 0), 0);
	MUST(gpurt_submit_work(NULL, tsg, 0, 0, 1000000000000ULL, NULL), 0);
	puts("inside");
	fflush(stdout);
	pause();
	return 0;
}
"""


def test_a_program_killed_in_a_segment_leaves_nothing(compile_c: Compile, emulator: Path) -> None:
    program = compile_c(HANG)
    with control(str(emulator)) as plane:
        with subprocess.Popen(
            [program], stdout=subprocess.PIPE, env={**os.environ, "GPURT_DEVICE": str(emulator)}
        ) as child:
            assert child.stdout
            assert child.stdout.readline() == b"inside\n"
            (one,) = plane.clients()
            assert (one.pid, one.state, one.tsgs) == (child.pid, State.RUNNING, 1)
            child.kill()
        end = time.monotonic() + PATIENCE
        while plane.clients():
            assert time.monotonic() < end
            time.sleep(0.01)
        assert plane.status()[0].tsgs == 0


GONE = PRELUDE + """
int main(void)
{
	char line[8];
	struct gpurt_handle *h;

	MUST(gpurt_open(&h, NULL), 0);
	MUST(gpurt_segment_begin(h, 0, 0), 0);
	puts("inside");
	fflush(stdout);
	MUST(!fgets(line, sizeof(line), stdin), 0);
	MUST(gpurt_segment_end(h, 0), -ENODEV);
	MUST(gpurt_segment_begin(h, 0, 0), -ENODEV);
	gpurt_close(h);
	puts("ok");
	return 0;
}
"""


def test_a_host_that_dies_is_enodev_and_no_sigpipe(compile_c: Compile) -> None:
    from analysis.model import Platform
    from pycontrol.act.run.emulator import Emulator

    program = compile_c(GONE)
    with Emulator(Platform(1)) as host:
        environment = {**os.environ, "GPURT_DEVICE": str(host.socket)}
        child = subprocess.Popen(
            [program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
        )
        assert child.stdout
        assert child.stdout.readline() == "inside\n"
    out, _ = child.communicate("go\n", timeout=PATIENCE)
    assert (child.returncode, out) == (0, "ok\n")


MACROS = PRELUDE + """
typedef void *cudaStream_t;
static int failing;
static int cudaStreamSynchronize(cudaStream_t stream) { (void)stream; return failing; }
#include <gpurt_cuda.h>

int main(void)
{
	int fd = -1;

	MUST(cudaStreamBegin(getpid()), 0);
	MUST(cudaStreamEnd(getpid(), NULL), 0);
	MUST(cudaStreamBegin(getpid() + 1), -EPERM);
	MUST(cudaStreamEnd(getpid() + 1, NULL), -EPERM);
	MUST(cudaStreamEnd(getpid(), NULL), -ENOENT);
	MUST(cudaStreamBegin(getpid()), 0);
	failing = 700;
	MUST(cudaStreamEnd(getpid(), NULL), -EIO);
	MUST(gcapsGpuSegBegin(fd, getpid()), 0);
	MUST(gcapsGpuSegEnd(fd, getpid()), 0);
	MUST(gcapsGpuSegBegin(fd, getpid(), 1), 0);
	MUST(gcapsGpuSegEnd(fd, getpid(), 1), 0);
	MUST(gcapsGpuSegBegin(fd, 1), -EPERM);
	puts("ok");
	return 0;
}
"""


def test_the_papers_macros(compile_c: Compile, run: Run, emulator: Path) -> None:
    done = run(compile_c(MACROS), emulator, ASAN_OPTIONS="detect_leaks=0")
    assert (done.returncode, done.stdout) == (0, "ok\n"), done.stderr


CPP = """
#include <gpurt.hpp>
#include <cstdio>
int main()
{
	try {
		gpurt::client one, two(std::move(one));
		one = std::move(two);
		{
			gpurt::segment outer(one), moved(std::move(outer));
			moved.wait();
			if (!moved.managed() || outer.managed())
				return 1;
			gpurt::segment own;
			if (!own.managed())
				return 2;
		}
		if (gpurt_segment_end(one.get(), 0) != -ENOENT || gpurt_segment_end(nullptr, 0) != -ENOENT)
			return 3;
		try {
			gpurt::segment bad(one, 200);
			return 4;
		} catch (const std::system_error &error) {
			if (error.code().value() != EINVAL)
				return 5;
		}
	} catch (const std::system_error &error) {
		std::puts(error.code().value() == ENODEV ? "no host" : "other");
		gpurt::segment unmanaged;
		return unmanaged.managed();
	}
	std::puts("ok");
}
"""


@pytest.mark.parametrize("standard", ["c++11", "c++20"])
def test_the_cpp_wrapper(compile_c: Compile, run: Run, emulator: Path, standard: str) -> None:
    program = compile_c(CPP, f"-std={standard}", "-Wpedantic", language="c++")
    done = run(program, emulator, ASAN_OPTIONS="detect_leaks=0")
    assert (done.returncode, done.stdout) == (0, "ok\n"), done.stderr
    assert run(program, None).stdout == "no host\n"


def test_an_installed_library_is_found_by_pkg_config_and_exports_its_api_only(prefix: Path, tmp_path: Path) -> None:
    environment = {**os.environ, "PKG_CONFIG_PATH": f"{prefix}/lib/pkgconfig"}
    try:
        query = ["pkg-config", "--cflags", "--libs", "gpurt"]
        flags = subprocess.run(query, capture_output=True, text=True, check=True, env=environment).stdout.split()
    except FileNotFoundError:
        flags = [f"-I{prefix}/include", f"-L{prefix}/lib", "-lgpurt"]
    assert f"-I{prefix}/include" in flags
    source = tmp_path / "use.c"
    source.write_text(UNMANAGED)
    subprocess.run(["cc", source, *flags, f"-Wl,-rpath,{prefix}/lib", "-o", tmp_path / "use"], check=True)
    done = subprocess.run(
        [tmp_path / "use"], capture_output=True, text=True, check=False, env={**os.environ, "GPURT_DEVICE": "/none"}
    )
    assert done.stdout == "ran on\n"
    names = subprocess.run(["nm", "-D", "--defined-only", prefix / "lib/libgpurt.so"], capture_output=True, text=True)
    exported = {line.split()[-1].split("@")[0] for line in names.stdout.splitlines()} - {"GPURT_1"}
    header = (ROOT / "userlib/include/gpurt.h").read_text()
    assert exported
    assert all(f"{name}(" in header for name in exported)
    assert not (prefix / "include/gpurt/uapi.h").is_symlink()


def printed(code: str, **environment: str) -> str:
    """What a program prints that has these variables, too."""
    done = subprocess.run([sys.executable, "-c", code], env={**os.environ, **environment}, capture_output=True,
                          text=True, check=True)  # fmt: skip
    return done.stdout.strip()


def test_the_environment_names_the_gpu(emulator: Path) -> None:
    code = """
from gpurt import Client
try:
    with Client() as client:
        print(client.open_tsg())
except OSError as error:
    print(error.errno, error.strerror)
"""
    def said(gpu: str) -> str:
        return printed(code, GPURT_DEVICE=str(emulator), GPURT_GPU=gpu)

    assert said("0") == "0"
    assert said("7") == f"{errno.ENXIO} the host has no GPU 7 (GPURT_GPU); see gpurt status"
    for wrong in ("", "x", "-1", " 1", "1 ", "16", str(2**64), "0x1"):
        assert said(wrong) == f"{errno.EINVAL} GPURT_GPU is not the number of a GPU, 0 to 15"


def test_a_group_of_the_environment_that_cannot_be_joined_is_explained(emulator: Path) -> None:
    code = f"""
from gpurt import Client
try:
    made = [Client() for _ in range({lib.GPURT_MAX_MEMBERS + 1})]
except OSError as error:
    print(error.errno, error.strerror)
"""
    def said(group: str) -> str:
        return printed(code, GPURT_DEVICE=str(emulator), GPURT_GROUP=group)

    assert said("llm").startswith(f"{errno.EDQUOT} the host permits 64 groups of a user, 32 members of a group, one ")
    assert said("\n").startswith(f"{errno.EINVAL} GPURT_GROUP is not a name of 1 to ")


def test_python_segments(emulator: Path) -> None:
    code = """
from gpurt import Client, segment
with Client() as client:
    tsg = client.open_tsg()
    with segment(client=client, priority=3, wait=True, drain=True):
        first = client.submit(tsg, 1_000_000)
        with segment(client=client):
            pass
    assert client.wait_work(tsg, first) > 0
    try:
        with segment(client=client):
            raise KeyError("mine")
    except KeyError:
        pass
    try:
        client.end()
        raise SystemExit("the segment was left open")
    except OSError as error:
        print(error.errno)
    try:
        client.begin(priority=500)
    except OSError as error:
        print(error.errno)

@segment()
def double(x):
    return 2 * x

print(double(21))
"""
    environment = {**os.environ, "GPURT_DEVICE": str(emulator)}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, env=environment)
    assert done.stdout.split() == [str(errno.ENOENT), str(errno.EINVAL), "42"], done.stderr
    environment["GPURT_DEVICE"] = "/none"
    lone = "from gpurt import segment\nwith segment(): print('ran')"
    done = subprocess.run([sys.executable, "-c", lone], capture_output=True, text=True, check=False, env=environment)
    assert done.stdout == "ran\n"
    assert "no host" in done.stderr
