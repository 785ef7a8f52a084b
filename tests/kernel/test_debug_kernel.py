# SPDX-License-Identifier: GPL-2.0
"""The module in a kernel that reports whatever it can (scripts/debug-run): abused, and with memory that is short.

What is planted in debug/planted is reported there, hence silence about gpurt.ko means something.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

# The first test may have to build the kernel.
pytestmark = pytest.mark.timeout(3600)
ROOT = Path(__file__).resolve().parents[2]
HERE = Path(__file__).resolve().parent / "debug"
LONG = bool(os.environ.get("GPURT_LONG"))
COMPLAINED = 125
MISSING = 3
COUNTS = re.compile(r"^(\w+) (\d+) (\d+)$", re.MULTILINE)
#: What the kernel says of each planted bug.
REPORTS = {
    "use_after_free": "KASAN: use-after-free in use_after_free",
    "overflow": "KASAN: slab-out-of-bounds in overflow",
    "lock_inversion": "possible circular locking dependency detected",
    "sleep_in_atomic": "scheduling while atomic",
    "leak": "unreferenced object",
    "active_timer": "ODEBUG: free active",
    "hang": "blocked for more than",
}


def run(*command: str | Path) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode == MISSING:
        pytest.skip(done.stderr.strip())
    return done


@pytest.fixture(scope="module")
def share(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the programs and the module with planted bugs."""
    if not shutil.which("gcc"):
        pytest.skip("needs gcc")
    kernel = run(ROOT / "scripts/kernel", "debug")
    assert kernel.returncode == 0, kernel.stderr
    folder = tmp_path_factory.mktemp("debug")
    copy = shutil.copytree(HERE / "planted", folder / "planted")
    compiler = "gcc-12" if shutil.which("gcc-12") else "gcc"
    made = run("make", "-C", Path(kernel.stdout.strip()) / "build", f"M={copy}", f"CC={compiler}", "modules")
    assert made.returncode == 0, made.stdout + made.stderr
    out = folder / "share"
    out.mkdir()
    shutil.copy(copy / "planted.ko", out)
    for name in ("hammer", "failslab"):
        flags = ["-static", "-O1", "-Wall", "-Wextra", "-Werror", f"-I{ROOT}/userlib/include"]
        done = run("gcc", *flags, HERE / f"{name}.c", "-o", out / name)
        assert done.returncode == 0, done.stderr
    return out


def debug_run(share: Path, command: str, *options: str) -> subprocess.CompletedProcess[str]:
    """A shell command in the debug kernel; its $GPURT_OUT holds the share's content."""
    return run(ROOT / "scripts/debug-run", "--with", share, *options, "sh", "-c", command)


@pytest.mark.parametrize(
    "options", ["", "vgpus=2 vgpu_alpha_ns=20000", "vgpu_sleeps=1", "agent_gpus=1 agent_bound_ms=2"]
)
def test_random_operations_never_make_the_kernel_complain(share: Path, options: str) -> None:
    count = 1_000_000 if LONG else 100_000 if not options else 20_000
    command = f"$GPURT_OUT/hammer {count} {count + len(options)}"
    done = debug_run(share, command, "--options", options, "--timeout", "3000")
    assert done.returncode == 0, done.stdout + done.stderr
    print(done.stdout)
    # a shell may have something to say of what was killed
    counts = {name: (int(tried), int(well)) for name, tried, well in COUNTS.findall(done.stdout)}
    assert sum(tried for tried, _ in counts.values()) == count, done.stdout
    # every kind of thing was done, and some of each went well: or nothing was tested
    assert all(well for _, well in counts.values()), counts


def test_every_allocation_may_fail(share: Path) -> None:
    done = debug_run(share, "$GPURT_OUT/failslab")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "policy" in done.stdout


@pytest.mark.parametrize("bug", REPORTS)
def test_planted_bugs_are_reported(share: Path, bug: str) -> None:
    wait = "echo 5 >/proc/sys/kernel/hung_task_timeout_secs; " if bug == "hang" else ""
    load = f"{wait}insmod $GPURT_OUT/planted.ko bug={bug}"
    command = f"{load} & sleep 15" if bug == "hang" else load
    done = debug_run(share, command, *([] if bug == "leak" else ["--no-leaks"]))
    assert done.returncode == COMPLAINED, done.stdout + done.stderr
    assert REPORTS[bug] in done.stderr


def test_a_module_without_bugs_is_not_complained_about(share: Path) -> None:
    done = debug_run(share, "insmod $GPURT_OUT/planted.ko bug=none && rmmod planted && exit 7")
    assert done.returncode == 7, done.stdout + done.stderr
