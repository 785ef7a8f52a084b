# SPDX-License-Identifier: GPL-2.0
"""Copies over the bus in C, C++ and Python, by the library and its example."""

from __future__ import annotations

import contextlib
import errno
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
from effort import tries
from library import PATIENCE, ROOT, Run

from gpurt import copies
from gpurt.copies import chunks, copy
from gpurt.segments import Client
from pycontrol.link.control import connect

C = r"""
#include <assert.h>
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/time.h>
#include <gpurt.h>

static struct gpurt_handle *mine, *other;
static char seen[10];

static int part(void *context, size_t at, size_t length)
{
	assert(gpurt_copy_begin(other, 0, 0) == -ETIMEDOUT);	/* the bus is held */
	memset(seen + at, 'x', length);
	return at == *(size_t *)context ? -EIO : 0;
}

static void ignore(int signal)
{
	(void)signal;
}

/* An alarm interrupts a call that waits, and nothing of it stays. */
static void interrupted(void)
{
	struct sigaction action = { .sa_handler = ignore };
	struct itimerval soon = { .it_value.tv_usec = 20000, .it_interval.tv_usec = 20000 }, off = { 0 };

	assert(!sigaction(SIGALRM, &action, NULL));
	assert(!gpurt_copy_begin(other, 9, GPURT_FOREVER));
	assert(!setitimer(ITIMER_REAL, &soon, NULL));
	assert(gpurt_copy_begin(mine, 5, GPURT_FOREVER) == -EINTR);
	assert(gpurt_copy_begin(mine, 5, GPURT_FOREVER) == -EINTR);
	assert(!setitimer(ITIMER_REAL, &off, NULL));
	assert(!gpurt_copy_end(other));
	assert(gpurt_copy_end(mine) == -ENOENT);
	assert(!gpurt_copy_begin(mine, 5, 0) && !gpurt_copy_end(mine));
}

int main(void)
{
	size_t never = 99, third = 6;

	assert(!gpurt_open(&mine, NULL) && !gpurt_open(&other, NULL));
	assert(!gpurt_copy_begin(mine, 0, GPURT_FOREVER));
	assert(gpurt_copy_begin(mine, 0, GPURT_FOREVER) == -EBUSY);
	assert(gpurt_copy_begin(other, 0, 1000000) == -ETIMEDOUT);
	assert(!gpurt_copy_next(mine, 0) && !gpurt_copy_end(mine));
	assert(gpurt_copy_end(mine) == -ENOENT && gpurt_copy_next(mine, 0) == -ENOENT);
	assert(gpurt_copy_begin(mine, 100, 0) == -EINVAL);
	assert(gpurt_copy_chunks(mine, 0, 10, 0, part, &never) == -EINVAL);
	assert(!gpurt_copy_chunks(mine, 0, 0, 3, part, &never) && !seen[0]);
	assert(!gpurt_copy_chunks(mine, 0, 10, 3, part, &never));
	assert(!memcmp(seen, "xxxxxxxxxx", 10));
	memset(seen, 0, 10);
	assert(gpurt_copy_chunks(mine, 0, 10, 3, part, &third) == -EIO);	/* and the rest is not copied */
	assert(!memcmp(seen, "xxxxxxxxx", 10));
	assert(!gpurt_copy_begin(NULL, 0, 0) && !gpurt_copy_end(NULL));
	interrupted();
	gpurt_close(mine);
	gpurt_close(other);
	return 0;
}
"""
CPP = r"""
#include <gpurt.hpp>
#include <cstdio>
int main()
{
	gpurt::copy own;
	if (!own.managed()) {
		own.next();
		std::puts("unmanaged");
		return 0;
	}
	gpurt::client client;
	if (gpurt_copy_begin(client.get(), 0, 0) != -ETIMEDOUT)
		return 1;
	gpurt::copy moved(std::move(own));
	moved.next();
	try {
		gpurt::copy again;
		return 2;
	} catch (const std::system_error &error) {
		if (error.code().value() != EBUSY)
			return 3;
	}
	std::puts("managed");
}
"""


VICTIM = r"""
#include <gpurt.h>
int main(void)
{
	struct gpurt_handle *h;

	for (;;) {
		if (gpurt_open(&h, NULL) || gpurt_copy_begin(h, 60, GPURT_FOREVER))
			return 1;
		if (gpurt_copy_next(h, GPURT_FOREVER) || gpurt_copy_end(h))
			return 1;
		gpurt_close(h);
	}
}
"""


def build(prefix: Path, source: Path, *flags: str) -> Path:
    """Compiles a program as a user does, against the installed library."""
    compiler = "g++" if source.suffix == ".cpp" else "cc"
    program = source.with_suffix("")
    command = [compiler, "-Wall", "-Wextra", "-Werror", *flags, source, f"-I{prefix}/include", f"-L{prefix}/lib"]
    subprocess.run([*command, "-lgpurt", f"-Wl,-rpath,{prefix}/lib", "-o", program], check=True)
    return program


def test_every_function_as_the_header_says(prefix: Path, tmp_path: Path, run: Run, emulator: Path) -> None:
    source = tmp_path / "copies.c"
    source.write_text(C)
    done = run(build(prefix, source), emulator)
    assert done.returncode == 0, done.stderr


def test_the_cpp_wrapper(prefix: Path, tmp_path: Path, run: Run, emulator: Path) -> None:
    source = tmp_path / "copies.cpp"
    source.write_text(CPP)
    program = build(prefix, source, "-std=c++11", "-Wpedantic")
    done = run(program, emulator)
    assert (done.returncode, done.stdout) == (0, "managed\n"), done.stderr
    assert run(program, None).stdout == "unmanaged\n"


def test_the_example_copies_in_chunks(prefix: Path, tmp_path: Path, run: Run, emulator: Path) -> None:
    source = tmp_path / "copy_chunks.c"
    source.write_text((ROOT / "userlib/examples/copy_chunks.c").read_text())
    program = build(prefix, source)
    assert run(program, emulator, "5", "2").stdout == "3 parts, right\n"
    with connect(str(emulator)) as plane:
        assert plane.buses()[0].count == 3
    assert run(program, None, "5", "2").stdout == "1 parts, right\n"  # unmanaged
    for wrong in ([], ["0", "1"], ["1", "x"], ["1", "99999"]):
        assert run(program, emulator, *wrong).returncode == 2


def test_a_program_killed_at_any_instant_leaves_nothing(prefix: Path, tmp_path: Path, emulator: Path) -> None:
    source = tmp_path / "victim.c"
    source.write_text(VICTIM)
    program, rng = build(prefix, source), random.Random(4)
    environment = {**os.environ, "GPURT_DEVICE": str(emulator)}
    with Client(str(emulator)) as mine, connect(str(emulator)) as plane:
        for _ in range(tries(15, 5)):
            before = plane.buses()[0].count
            with subprocess.Popen([program], env=environment) as victim:
                while plane.buses()[0].count == before:
                    assert victim.poll() is None
                time.sleep(rng.uniform(0, 0.003))
                victim.kill()
            with copy(client=mine, priority=50, timeout=int(PATIENCE * 1e9)):
                pass
            assert victim.returncode == -signal.SIGKILL
        assert (plane.buses()[0].client, plane.buses()[0].waiters) == (None, 0)


def test_python_copies(emulator: Path) -> None:
    with Client(str(emulator)) as mine, Client(str(emulator)) as other, connect(str(emulator)) as plane:
        with copy(client=mine, priority=3) as held:
            assert plane.buses()[0].priority == 3
            with pytest.raises(OSError, match="begin a copy") as error, copy(client=other, timeout=0):
                raise AssertionError("two copy at once")
            assert error.value.errno == errno.ETIMEDOUT
            held.next()
            with pytest.raises(OSError, match="open already"), held:
                raise AssertionError("one copy twice")
        with pytest.raises(KeyError), copy(client=mine):
            raise KeyError("mine")
        assert plane.buses()[0].client is None
        assert list(chunks(10, 4, client=mine)) == [(0, 4), (4, 4), (8, 2)]
        with contextlib.closing(chunks(10, 4, client=mine)) as parts:
            assert next(parts) == (0, 4)
            assert plane.buses()[0].client is not None
        assert plane.buses()[0].client is None
        assert list(chunks(0, 4, client=mine)) == []
        for size, chunk in ((-1, 1), (1, 0), (1, -1)):
            with pytest.raises(ValueError, match="cannot be copied"):
                chunks(size, chunk)


def test_python_without_a_host_copies_unmanaged() -> None:
    code = "import gpurt\nwith gpurt.copy() as one: one.next(); print(list(gpurt.chunks(3, 2)))"
    environment = {**os.environ, "GPURT_DEVICE": "/none"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, env=environment)
    assert done.stdout == "[(0, 2), (2, 1)]\n"
    assert "no host" in done.stderr


def test_a_copy_that_signals_interrupt_waits_for_the_rest_of_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    asked, answers, clock = list[int](), [-errno.EINTR, -errno.EINTR, 0], iter([100, 130, 500])

    def ask(_handle: object, _priority: int, left: int, status: list[int]) -> None:
        asked.append(left)
        status[0] = answers.pop(0)

    monkeypatch.setattr(copies, "lib", SimpleNamespace(gpurt_py_copy=ask))
    monkeypatch.setattr(copies, "time", SimpleNamespace(monotonic_ns=lambda: next(clock)))
    copy(timeout=50)._ask(object(), [0])
    assert asked == [50, 20, 0]
