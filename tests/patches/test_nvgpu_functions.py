# SPDX-License-Identifier: GPL-2.0
"""nvgpu's own runlists, patched, in user space (nvgpu/harness.c), for trees that GPURT_NVGPU_SOURCE names.

The port that the patches add (nvgpu/port.c) is tested, too, and needs no tree.

Tested defects of published patches, and of the driver: a TSG comes back by the driver's own updates; ids from 64 up;
TSGs without channels.  Others are R36's stale list, the watchdog, and user domains of the GSP's scheduler.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from test_real_trees import CASES, copy_of
from trees import ROOT, need_patch, patch_driver, texts

HERE = ROOT / "tests/patches/nvgpu"
TOP = "drivers/gpu/nvgpu"
NVGPU = [case for case in CASES if case.values[0] == "nvgpu"]
INCLUDES = [TOP, f"{TOP}/include", "nvsched/include", f"{TOP}/include/external-nvs", "include", "include/uapi",
            "userspace/include", f"{TOP}/common"]  # fmt: skip
#: Mutants to be noticed, by what each breaks: a line of the driver, and what it becomes.  Only R36 has the last three.
MUTANTS = {
    "all are on the list": ("if ((f->tsg_may_run != NULL) && !f->tsg_may_run(g, tsg)) {", "if (false) {"),
    "nothing is preempted": ("tsg->preempt_due = tsg->preempt_due || !tsg->off_runlist;", ";"),
    "who comes back is off": ("\ttsg->off_runlist = false;\n\ttsg->preempt_due = false;\n\n\tif (*", "\n\tif (*"),
    "a preemption has one try": ("\t\t\tret = -ETIMEDOUT;\n\t\t} else {\n", "\t\t\tret = -ETIMEDOUT;\n\t\t}\n\t\t{\n"),
    "a stuck engine counts as preempted": ("(rl->reset_eng_bitmask != 0U)", "false"),
    "a pending list is not reported": ("if (submitted && (ret != 0)) {\n", "ret = 0;\n\tif (0) {\n"),
    "what is closed meanwhile is preempted": ("if (!tsg->preempt_due || (rl == NULL)) {", "if (false) {"),
    "the watchdog kills what is off": ("(tsg != NULL) && tsg->off_runlist", "false"),
    "what is off takes no room": ("*entries_left -= room;", ";"),
    "an empty list takes room twice": ("\t\t*entries_left = all_left;\n", ""),
    "the list before last is submitted": ("not rebuilt */\n\t\t\treturn 1;", "*/\n\t\t\treturn 0;"),
    "user domains are ignored": ("if (nvgpu_nvs_gsp_usr_domain_present(g)) {\n\t\treturn", "if (false) {\n\t\treturn"),
    "a user domain that comes is ignored": (
        "_usr_domain_present(g)) {\n\t\tret = ",
        "_usr_domain_present(g) && 0) {\n\t\tret = ",
    ),
}
ONLY_R36 = 3


def patched(source: Path | None, tmp_path: Path) -> tuple[Path, int]:
    """A patched tree, and the driver's release."""
    tree = copy_of(source, "nvgpu", tmp_path / "tree", whole=True)
    code, out, err = patch_driver("nvgpu", tree)
    assert code == 0, err
    return tree, int(out.removeprefix("nvgpu r").split(":")[0])


def flags(tree: Path, folder: Path) -> list[str]:
    """The driver's configuration, as its Makefile has it for user space."""
    rules = "NVGPU_POSIX=1\ninclude Makefile.shared.configs\nprint:\n\t@echo $(NVGPU_COMMON_CFLAGS)\n"
    (folder / "flags.mk").write_text(rules)
    command = ["make", "-s", "-C", tree / TOP, "-f", folder / "flags.mk", "print"]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()[-1].split()


def run(tree: Path, release: int, code: str, folder: Path, *more: str) -> subprocess.CompletedProcess[str]:
    """Compiles the driver's runlist.c and the check of its watchdog, both in the code, and runs them."""
    runlist, _, watchdog = code.partition("\f")
    (folder / "runlist.c").write_text(runlist)
    (folder / "watchdog.inc").write_text(watchdog)
    defined = [f"-DR={release}", "-D__NVGPU_POSIX__", "-D__ARM_FEATURE_UNALIGNED=1", *flags(tree, folder)]
    found = [f"-I{folder}", *(f"-I{tree / one}" for one in INCLUDES)]
    sources = [folder / "runlist.c", HERE / "harness.c"]
    command = ["gcc", "-std=gnu11", "-g", "-O1", "-w", *more, *defined, *found, *sources, "-o", folder / "harness"]
    subprocess.run(command, check=True)
    return subprocess.run([folder / "harness"], capture_output=True, text=True)


def code_of(tree: Path) -> str:
    if not shutil.which("gcc") or not shutil.which("make"):
        pytest.skip("needs a C compiler (gcc) and make")
    check = re.search(r"^static void nvgpu_channel_check_wdt\(.*?^\}\n",
                      (tree / TOP / "common/fifo/channel_wdt.c").read_text(), re.M | re.S)  # fmt: skip
    assert check
    return (tree / TOP / "common/fifo/runlist.c").read_text() + "\f" + check[0]


@pytest.mark.parametrize(("_driver", "source"), NVGPU)
def test_the_hardware_has_what_gpurt_says(_driver: str, source: Path | None, tmp_path: Path) -> None:
    tree, release = patched(source, tmp_path)
    done = run(tree, release, code_of(tree), tmp_path, "-fsanitize=address,undefined", "-fno-sanitize-recover")
    assert done.returncode == 0, done.stderr[-3000:]
    submits, preemptions = map(int, re.findall(r"\d+", done.stdout))
    assert min(submits, preemptions) > 1000


@pytest.mark.slow(1)
@pytest.mark.parametrize(("_driver", "source"), NVGPU)
def test_planted_bugs_are_found(_driver: str, source: Path | None, tmp_path: Path) -> None:
    tree, release = patched(source, tmp_path)
    code = code_of(tree)
    for name, (old, new) in list(MUTANTS.items())[: None if release == 36 else -ONLY_R36]:
        assert code.count(old) == 1, name
        assert run(tree, release, code.replace(old, new), tmp_path).returncode != 0, name


def port_of(release: str, folder: Path) -> str:
    """The file that connects nvgpu with gpurt, without what it includes.  The patches alone make it."""
    need_patch()
    names = [f"{TOP}/os/linux/{name}" for name in ("gpurt_port.h", "gpurt.h", "gpurt.c")]
    for patch in texts("nvgpu", release).values():
        sections = re.split(r"^(?=diff --git )", patch, flags=re.M)[1:]
        ours = "".join(one for one in sections if one.split()[3].removeprefix("b/") in names)
        subprocess.run(["patch", "-s", "-p1", "-F0"], cwd=folder, input=ours, text=True, check=True)
    return "\n".join(re.sub(r"^#include .*\n", "", (folder / name).read_text(), flags=re.M) for name in names)


#: Again a line, and what it becomes.
PORT_MUTANTS = {
    "older TSGs are not told of": ("\t\ttell(g, &g->fifo.tsg[i], 1);", "\t\t;"),
    "the reference to a process is kept": ("put_pid(owner);", ";"),
    "a TSG of the driver is asked for": ("!hooks || !tsg->owner ||", "!hooks ||"),
    "nobody comes back when gpurt goes": ("(void)commit(&l->g);", ";"),
    "a second gpurt is let in": ("err = -EBUSY;", "set_hooks(new);"),
    "another version is let in": ("new->version != GPURT_PORT_VERSION", "false"),
    "the GPU stays powered": ("gk20a_idle(g);", ";"),
    "a hypervisor's GPU is committed": ("refused(g) ? -EOPNOTSUPP : gk20a_busy(g)", "gk20a_busy(g)"),
    "TSGs of a GPU that is gone are told of": ("&& g->sched_ctrl.sw_ready", ""),
    "a GPU that goes keeps its processes": ("\t\tnvgpu_gpurt_tsg_released(g, &g->fifo.tsg[i]);", "\t\t;"),
}


@pytest.mark.parametrize("release", ["r35", "r36"])
def test_the_port_tells_and_asks(release: str, tmp_path: Path) -> None:
    flags = ["-fsanitize=address,undefined", "-fno-sanitize-recover"]
    assert run_port(port_of(release, tmp_path), release, tmp_path, *flags) == 0


@pytest.mark.slow(0.5)
@pytest.mark.parametrize("release", ["r35", "r36"])
def test_planted_bugs_of_the_port_are_found(release: str, tmp_path: Path) -> None:
    code = port_of(release, tmp_path)
    for name, (old, new) in PORT_MUTANTS.items():
        assert code.count(old) == 1, name
        assert run_port(code.replace(old, new), release, tmp_path) != 0, name


def run_port(code: str, release: str, folder: Path, *flags: str) -> int:
    if not shutil.which("gcc"):
        pytest.skip("needs a C compiler (gcc)")
    (folder / "driver.inc").write_text(code)
    command = ["gcc", "-std=gnu11", "-g", "-Wall", "-Werror", "-Wno-unused", *flags, f"-I{folder}", HERE / "port.c"]
    subprocess.run([*command, "-o", folder / "port"], check=True)
    arguments = ["may have a thread that switches runlists"] if release == "r36" else []
    return subprocess.run([folder / "port", *arguments], capture_output=True).returncode
