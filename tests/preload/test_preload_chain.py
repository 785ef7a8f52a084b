# SPDX-License-Identifier: GPL-2.0
"""Other libraries that are preloaded, too: each sees what it sees without gpurt's, once; and sanitizers."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from links import PATIENCE
from machines import FAKES, FLAGS, FakeGpu, Start
from once import once

#: How fakes/interposer.c is compiled.
KINDS = {"wraps": ["-DWRAPS"], "handle": ["-DWRAPS", "-DHANDLE"], "own": ["-DWRAPS", "-DOWN"], "hooks": [],
         "past": ["-DPAST"], "calls": ["-DWRAPS", "-DOWN", '-DOPTIMIZED="O0"'], "variable": ["-DVARIABLE"]}  # fmt: skip


@pytest.fixture(scope="module")
def others(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with the other libraries."""

    def build(folder: Path) -> None:
        for name, flags in KINDS.items():
            command = ["cc", *FLAGS, *flags, "-fPIC", "-shared", FAKES / "interposer.c", "-ldl"]
            subprocess.run([*command, "-o", folder / f"{name}.so"], check=True)

    return once(tmp_path_factory, "interposers", build)


def launches(said: str) -> tuple[list[int], int]:
    """How many launches each of the other libraries has seen, and gpurt's, as they say when the program ends."""
    theirs = [int(number) for number in re.findall(r"interposer: (\d+) launches", said)]
    return theirs, int(said.partition(" refused by the driver; ")[2].partition(" launches in ")[0])


def two_launches(start: Start, how: str, built: Path, *libraries: Path) -> tuple[list[int], int, str]:
    """How many of two launches each of the other libraries sees, and gpurt's; all that is on stderr."""
    program = start(how, LD_PRELOAD=":".join(map(str, [*libraries, built / "libdriver.so"])))
    program.do("launch 0 10", "launch 0 10", "all")
    said = program.quit()
    assert ("does not call the next one" in said) is any(one.stem == "past" for one in libraries), said
    return *launches(said), said


@pytest.mark.parametrize("first", [False, True], ids=["behind", "before"])
@pytest.mark.parametrize("kind", ["wraps", "handle", "own", "hooks"])
def test_each_library_sees_each_call_once(kind: str, first: bool, start: Start, built: Path, others: Path) -> None:
    """One that replaces dlsym() sees no calls of a program that is linked to the driver: as without gpurt's library."""
    libraries = [built / "libgpurt-preload.so", others / f"{kind}.so"]
    for how in ("link", "default", "dlsym", "proc"):
        theirs, ours, said = two_launches(start, how, built, *(libraries[::-1] if first else libraries))
        assert (theirs, ours) == ([0 if (kind, how) == ("hooks", "link") else 2], 2), (how, said)


@pytest.mark.parametrize("order", ["wraps handle gpurt", "wraps gpurt handle", "wraps gpurt calls"])
def test_each_of_three_libraries_sees_each_call_once(order: str, start: Start, built: Path, others: Path) -> None:
    """One that looks the driver's function up gets what comes after its own, not the first library's."""
    paths = {"gpurt": built / "libgpurt-preload.so"}
    libraries = [paths.get(name, others / f"{name}.so") for name in order.split()]
    for how in ("link", "dlsym"):
        theirs, ours, said = two_launches(start, how, built, *libraries)
        assert (theirs, ours) == ([2, 2], 2), (how, said)


@pytest.mark.parametrize(("first", "how"), [(False, "link"), (False, "dlsym"), (True, "dlsym"), (True, "proc")])
def test_a_variable_is_not_called(first: bool, how: str, start: Start, built: Path, others: Path) -> None:
    """RTLD_NEXT, or the loader, finds the variable in which a library keeps the driver's function."""
    libraries = [built / "libgpurt-preload.so", others / "variable.so"]
    theirs, ours, said = two_launches(start, how, built, *(libraries[::-1] if first else libraries))
    assert (theirs, ours) == ([0], 2), said


def test_hip_s_own_look_up_finds_another_library_s(start: Start, built: Path, others: Path) -> None:
    libraries = [built / "libgpurt-preload.so", others / "hooks.so", built / "libdriver.so"]
    program = start(family="hip", LD_PRELOAD=":".join(map(str, libraries)))
    program.do("proc-hipGraphLaunch", "all")
    assert launches(program.quit()) == ([1], 1)


def test_a_library_that_asks_libc_alone_is_named(start: Start, built: Path, others: Path) -> None:
    theirs, ours, said = two_launches(start, "dlsym", built, others / "past.so", built / "libgpurt-preload.so")
    assert (theirs, ours) == ([2], 0)
    assert f"gpurt: the dlsym() of {others}/past.so comes first and does not call the next one" in said


ALONE = """
import ctypes
library = ctypes.CDLL("libcuda.so.1")
print(library.cuCtxCreate_v2(ctypes.byref(ctypes.c_void_p()), 0, 0), library.cuLaunchKernel(*[None] * 11))
"""


def test_a_driver_that_others_do_not_find(gpu: FakeGpu, host: Path, built: Path, others: Path) -> None:
    """Python opens libraries for itself (RTLD_LOCAL): what RTLD_NEXT does not find is passed by, as without gpurt's."""
    libraries = [built / "libgpurt-preload.so", others / "wraps.so", built / "libdriver.so"]
    environment = {
        **os.environ, "FAKE_GPU": str(gpu.path), "GPURT_DEVICE": str(host), "LD_LIBRARY_PATH": str(built),
        "LD_PRELOAD": ":".join(map(str, libraries)),
    }  # fmt: skip
    done = subprocess.run([sys.executable, "-c", ALONE], capture_output=True, text=True, check=False, env=environment,
                          timeout=PATIENCE)  # fmt: skip
    assert done.stdout == "0 0\n", done.stderr
    assert done.stderr.count("gpurt: another preloaded library's cuLaunchKernel is passed by") == 1


SANITIZED = """
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

static void *thread(void *nothing)
{
	close(open("/dev/null", O_RDONLY));
	return nothing;
}

int main(void)
{
	pthread_t other;

	pthread_create(&other, NULL, thread, NULL);
	pthread_join(other, NULL);
	return !dlsym(RTLD_DEFAULT, "getpid");
}
"""


@pytest.mark.parametrize("kind", ["thread", "address"])
def test_a_program_with_a_sanitizer_starts(kind: str, built: Path, tmp_path: Path) -> None:
    """ThreadSanitizer looks its functions up before anything of it is ready.  AddressSanitizer must be first."""
    (tmp_path / "program.c").write_text(SANITIZED)
    command = ["cc", f"-fsanitize={kind}", "-g", tmp_path / "program.c", "-o", tmp_path / "program"]
    if subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip(f"needs a compiler with -fsanitize={kind}")
    find = ["cc", "-print-file-name=libasan.so"]
    first = f"{subprocess.check_output(find, text=True).strip()}:" if kind == "address" else ""
    environment = {**os.environ, "LD_PRELOAD": f"{first}{built}/libgpurt-preload.so", "GPURT_DEVICE": "/nowhere"}
    done = subprocess.run([tmp_path / "program"], capture_output=True, text=True, check=False, env=environment)
    assert (done.returncode, done.stderr) == (0, "")
