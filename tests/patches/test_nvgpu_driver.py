# SPDX-License-Identifier: GPL-2.0
"""nvgpu's own files in user space (nvgpu/driver.c), for trees that GPURT_NVGPU_SOURCE names.

Runlists, TSGs, channels, preemption, recovery, watchdog, the opening and closing of TSGs, and what the patches add.
The scheduler of kmod/core says who may run.  After each random step the hardware, which decodes runlists, may execute
that and nothing else.  Tested defects: a TSG that is released by its last channel; drifting copies; ids from 64 up;
TSGs without channels; R36's stale list; the watchdog.  Actions of the driver by itself put nobody back.
"""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
from test_nvgpu_functions import HERE, INCLUDES, NVGPU, TOP, flags, patched
from trees import ROOT

FILES = ["common/fifo/runlist.c", "common/fifo/tsg.c", "common/fifo/channel.c", "common/fifo/preempt.c",
         "common/fifo/channel_wdt.c", "common/fifo/watchdog.c", "common/fifo/pbdma_status.c", "common/rc/rc.c",
         "hal/rc/rc_gv11b.c", "hal/fifo/tsg_gv11b_fusa.c", "hal/fifo/preempt_gv11b_fusa.c"]  # fmt: skip
CUT = {"sched.c": [f"gk20a_sched_ctrl_{name}" for name in ("tsg_added", "tsg_removed", "init", "cleanup")],
       "ioctl_tsg.c": [f"nvgpu_ioctl_tsg_{name}" for name in ("open", "release", "dev_release")]}  # fmt: skip
CORE = [ROOT / f"kmod/core/{one}.c" for one in ("sched", "queue", "budget", "boost")]
OURS = [HERE / "driver.c", HERE / "core.c", *CORE]
#: Mutants to be noticed, by what each breaks: a file, a line of it, and what it becomes.  Only R36 has the last one.
MUTANTS = {
    "a channel that is closed last releases its TSG untold":
        ("common/fifo/tsg.c", "\t\tg->fifo.tsg_released(g, tsg);", "\t\t;"),
    "gpurt is not told of releases": ("os/linux/gpurt.c", "\ttell(g, tsg, -1);", "\t;"),
    "the owner is inherited": ("os/linux/gpurt.c", "\tset_owner(tsg, NULL);\n", ""),
    "gpurt is not told of aborts": ("common/fifo/tsg.c", "\t\tg->fifo.tsg_aborted(g, tsg);", "\t\t;"),
    "all are on the list":
        ("common/fifo/runlist.c", "if ((f->tsg_may_run != NULL) && !f->tsg_may_run(g, tsg)) {", "if (false) {"),
    "nothing is preempted":
        ("common/fifo/runlist.c", "tsg->preempt_due = tsg->preempt_due || !tsg->off_runlist;", ";"),
    "a preemption has one try":
        ("common/fifo/runlist.c", "\t\t\tret = -ETIMEDOUT;\n\t\t} else {\n", "\t\t\tret = -ETIMEDOUT;\n\t\t}\n\t\t{\n"),
    "a stuck engine counts as preempted": ("common/fifo/runlist.c", "(rl->reset_eng_bitmask != 0U)", "false"),
    "a pending list is not reported":
        ("common/fifo/runlist.c", "if (submitted && (ret != 0)) {\n", "ret = 0;\n\tif (0) {\n"),
    "the watchdog kills what is off": ("common/fifo/channel_wdt.c", "(tsg != NULL) && tsg->off_runlist", "false"),
    "the list before last is submitted":
        ("common/fifo/runlist.c", "not rebuilt */\n\t\t\treturn 1;", "*/\n\t\t\treturn 0;"),
}  # fmt: skip
ONLY_R36 = 1


def system_file(tree: Path) -> str:
    """The driver's part for Linux: the port, and functions cut out of two files."""
    top = tree / TOP / "os/linux"
    parts = [re.sub(r"^#include .*\n", "", (top / name).read_text(), flags=re.M)
             for name in ("gpurt_port.h", "gpurt.h", "gpurt.c")]  # fmt: skip
    private = re.search(r"^struct tsg_private \{.*?^\};\n", (top / "ioctl_tsg.c").read_text(), re.M | re.S)
    assert private
    parts.append(private[0])
    for name, functions in CUT.items():
        text = (top / name).read_text()
        for function in functions:
            found = re.search(rf"^[\w ]+\b{function}\([^;]*?\)\n\{{.*?^\}}\n", text, re.M | re.S)
            assert found, function
            parts.append(found[0])
    return "\n".join(parts)


def compiler(tree: Path, release: int, folder: Path, *more: str) -> list[str | Path]:
    """With the driver's own configuration; what R36 shares TSGs with is part of its kernel's only."""
    shared = ["-DCONFIG_NVGPU_TSG_SHARING"] if release == 36 else []
    return ["gcc", "-std=gnu11", "-g", "-O1", "-w", "-no-pie", *more, f"-DR={release}", "-D__NVGPU_POSIX__",
            "-D__ARM_FEATURE_UNALIGNED=1", *flags(tree, folder), *shared, f"-I{folder}",
            *(f"-I{tree / one}" for one in INCLUDES)]  # fmt: skip


def build(tree: Path, command: list[str | Path], folder: Path, changed: str | None = None) -> Path:
    """Compiles it; if one file has changed since, that one only.  A function that nothing needs may lack others."""
    program = folder / "driver"
    (folder / "driver.inc").write_text(system_file(tree))
    sources = [tree / TOP / one for one in FILES] + OURS
    for source in sources:
        unit = folder / f"{source.stem}.o"
        if changed is None or str(source).endswith(changed) or source in OURS[:1]:
            subprocess.run([*command, "-c", source, "-o", unit], check=True)
    units = [folder / f"{source.stem}.o" for source in sources]
    subprocess.run([*command, "-Wl,--unresolved-symbols=ignore-all", *units, "-o", program], check=True)
    return program


@pytest.mark.parametrize(("_driver", "source"), NVGPU)
def test_random_steps_of_processes_on_the_drivers_own_code(_driver: str, source: Path | None, tmp_path: Path) -> None:
    tree, release = patched(source, tmp_path)
    sanitizers = ["-fsanitize=address,undefined", "-fno-sanitize-recover"]
    program = build(tree, compiler(tree, release, tmp_path, *sanitizers), tmp_path)
    done = subprocess.run([program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    print(done.stdout)
    # Nothing of it is empty: checks, checks with TSGs off, submits, preemptions, failures, aborts, resets.
    assert min(map(int, re.findall(r"\d+", done.stdout))) > 100, done.stdout


@pytest.mark.slow(1)
@pytest.mark.parametrize(("_driver", "source"), NVGPU)
def test_planted_bugs_of_the_driver_are_found(_driver: str, source: Path | None, tmp_path: Path) -> None:
    tree, release = patched(source, tmp_path)
    command = compiler(tree, release, tmp_path)
    build(tree, command, tmp_path)
    for what, (name, old, new) in list(MUTANTS.items())[: None if release == 36 else -ONLY_R36]:
        path = tree / TOP / name
        text = path.read_text()
        assert text.count(old) == 1, what
        assert not path.is_symlink(), "this would change the user's tree"
        path.write_text(text.replace(old, new))
        program = build(tree, command, tmp_path, name)
        assert subprocess.run([program], capture_output=True).returncode != 0, what
        path.write_text(text)
        build(tree, command, tmp_path, name)
