# SPDX-License-Identifier: GPL-2.0
"""The files that the patches add to NVIDIA's driver, in user space, without NVIDIA's sources: nvidia/harness.c.

The header nvidia/rm.h has what those files need of RM.  Its numbers and layouts are held against NVIDIA's headers where
GPURT_OPENRM_SOURCE names trees.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from test_real_trees import OPEN
from trees import RELEASES, ROOT, need_patch, texts

HERE = ROOT / "tests/patches/nvidia"
NVIDIA = [release for driver, release in RELEASES if driver == "nvidia-open"]
KO, RM = "kernel-open/nvidia", "src/nvidia"
FIFO = "kernel/gpu/fifo/kernel_fifo_gpurt"
FILES = [f"{KO}/gpurt_port.h", f"{RM}/inc/{FIFO}.h", f"{RM}/src/{FIFO}.c", f"{KO}/nv-gpurt.h", f"{KO}/nv-gpurt.c"]
#: Mutants that must be noticed, by what each breaks: a line of the driver, and what it becomes.
MUTANTS = {
    "what GSP schedules runs": ("if (bEnable && _apply(pGpu, pGroup) != NV_OK)", "if (NV_FALSE)"),
    "a process switches itself on":
        ("((p->gpurtState & (OFF | UNKNOWN)) || !nv_gpurt_may_run(p->pGpurtOwner))", "NV_FALSE"),
    "a process switches another's channels": ("if (channels[i] != NULL && !_isOwn(channels[i]))", "if (NV_FALSE)"),
    "65 channels in a call": ("if (n == MOST ||", "if (n == MOST + 1 ||"),
    "what failed is not sent again": ("    p->gpurtState |= UNKNOWN;\n    pBatch->", "    pBatch->"),
    "first on, then off": ("status = _switch(pGpu, pGroup, NV_TRUE, SCHEDULED);\n    return",
                           "status = _switch(pGpu, pGroup, NV_FALSE, SCHEDULED);\n"
                           "    status = _switch(pGpu, pGroup, NV_TRUE, SCHEDULED);\n    return"),
    "nothing is sent after a sleep": ("if (bResend && (p->gpurtState & OFF))", "if (NV_FALSE)"),
    "a client's call names another's channel": ("&& _client(batch.channels[0]) != _client(p)", "&& NV_FALSE"),
    "no call of each client": ("? status : _try(pGpu, NV_FALSE)", "? status : status"),
    "each has a call of its own for ever": ("pKernelFifo->bGpurtTogether = bTogether;", ";"),
    "a call is in the context of the one around it":
        ("status = resservSwapTlsCallContext(&pOuter, NULL);", "pOuter = resservGetTlsCallContext(); status = NV_OK;"),
    "what joins a group runs": ("    _add(&batch, pKernelChannel);\n    if (_send", "    if (_send"),
    "what a process switched off is forgotten": ("            p->gpurtState |= USER_OFF;", "            ;"),
    "what a process switched off is switched on": ("if (!bDisable && (p->gpurtState & USER_OFF))", "if (NV_FALSE)"),
    "a channel that is closed stays listed": ("*ppNext = pKernelChannel->pGpurtNext;\n    nv", ";\n    nv"),
    "a process that goes is kept": ("put_pid(o->tgid);", ";"),
    "channels are told twice": ("hooks->tsgs(g, o->tgid, change);", "hooks->tsgs(g, o->tgid, 2 * change);"),
    "a channel of the kernel is switched": ("pClient->pOsPidInfo == NULL", "NV_FALSE"),
    "a kill is not told": ("hooks->killed(g, o->tgid);", ";"),
    "gpurt does not hear that a channel may run":
        ("if (bEnable && _apply(pGpu, pGroup) != NV_OK)\n        nv_gpurt_recommit",
         "if (bEnable && _apply(pGpu, pGroup) != NV_OK && NV_FALSE)\n        nv_gpurt_recommit"),
    "GSP enables what is off after a preemption":
        ("if (_group(p) == pApi->pKernelChannelGroup && (p->gpurtState & (OFF | UNKNOWN)))", "if (NV_FALSE)"),
    "a preemption leaves it on": ("            p->gpurtState |= WANTED_OFF;\n    status", "            ;\n    status"),
    "what another call may switch on runs": ("if (IS_GSP_CLIENT(pGpu) && _mayEnable(cmd))", "if (NV_FALSE)"),
    "what is left of a group runs when a channel was freed":
        ("{\n    _offAgain(pGpu, pGroup);\n}", "{\n}"),
    "a call for a group is one for all": ("pApi != NULL ? pApi->pKernelChannelGroup : NULL", "NULL"),
    "what another call may switch on runs if that cannot be mended":
        ("if (_switch(pGpu, pGroup, NV_TRUE, SCHEDULED) != NV_OK)\n        nv",
         "(void)_switch(pGpu, pGroup, NV_TRUE, SCHEDULED);\n    if (0) nv"),
    "GSP is told of it later": ("return (pParams->flags & NVOS54_FLAGS_FINN_SERIALIZED) ||", "return"),
    "keys are rotated": ("return !gpuIsCCFeatureEnabled(pGpu);", "return NV_FALSE;"),
    "an interrupt waits for a lock": ("WRITE_ONCE(o->killed, true);", "spin_lock(&lock);"),
    "a timer waits for a lock":
        ("WRITE_ONCE(NV_GET_NVL_FROM_NV_STATE(nv)->gpurt_resets, begins);", "spin_lock(&lock);"),
    "a reset is not told": ("hooks->reset(g, resets);", ";"),
    "a lost GPU is not told": ("g->nv && xchg(&NV_GET_NVL_FROM_NV_STATE(g->nv)->gpurt_lost, false)", "false"),
    "everyone waits": ("&& (!o->opener || o->opener == me)", ""),
    "nobody waits": ("return o->channels && !o->told &&", "return false &&"),
    "a child's channel is not told": ("if (!o->told && o->opener != me)", "if (0)"),
    "a wish for a commit ends a reset": ("if (g && hooks && !g->resets) {", "if (g && hooks) {"),
    "the thread spins": ("> SPIN_US;", "> 1000 * SPIN_US;"),
    "any thread naps": ("if (READ_ONCE(g->committer) == current)", "if (g)"),
    "a failure is a success": ("return -ETIMEDOUT;", "return 0;"),
    "MIG is switched": ("if (IS_MIG_ENABLED(pGpu))", "if (NV_FALSE)"),
    "cards that are linked are switched": ("return IsSLIEnabled(pGpu) ?", "return NV_FALSE ?"),
    "a mode that came later is not seen": ("if (g->known && why == g->refused)", "if (g->known)"),
    "nobody comes back when gpurt goes": ("if (g->nv && commit_awake(g))", "if (NV_FALSE)"),
    "a commit while the system sleeps":
        ("if (!down_read_trylock(&nv_system_pm_lock))", "down_read_trylock(1); if (NV_FALSE)"),
    "power is kept": ("rm_unref_dynamic_power(g->sp, g->nv, NV_DYNAMIC_PM_FINE);", ";"),
}  # fmt: skip


def added(release: str, folder: Path) -> str:
    """The files that the patches of a release add, without what they include."""
    need_patch()
    for name, text in texts("nvidia-open", release).items():
        parts = ["diff --git " + one for one in text.split("\ndiff --git ")[1:]]
        ours = [one for one in parts if re.match(r"diff --git a/(\S+)", one)[1] in FILES]  # type: ignore[index]
        if ours:
            done = subprocess.run(["patch", "-p1", "-s", "-F0"], cwd=folder, input="\n".join(ours) + "\n", text=True)
            assert done.returncode == 0, name
    return "\n".join(re.sub(r"^#include .*\n", "", (folder / name).read_text(), flags=re.M) for name in FILES)


def run(code: str, folder: Path, *arguments: str, fast: bool = False) -> subprocess.CompletedProcess[str]:
    if not shutil.which("gcc"):
        pytest.skip("needs a C compiler (gcc)")
    (folder / "driver.inc").write_text(code)
    checks = ["-O0"] if fast else ["-O1", "-Wall", "-Werror", "-Wno-unused"]
    flags = ["-std=gnu11", "-g", *checks, "-fsanitize=address,undefined", "-fno-sanitize-recover", f"-I{folder}"]
    subprocess.run(["gcc", *flags, HERE / "harness.c", "-o", folder / "harness"], check=True)
    return subprocess.run([folder / "harness", *arguments], capture_output=True, text=True)


def test_what_is_added_is_the_same_for_all_releases(tmp_path: Path) -> None:
    codes = []
    for release in NVIDIA:
        (tmp_path / release).mkdir()
        codes.append(added(release, tmp_path / release).replace("NV_FLAG_INITIALIZED", "NV_FLAG_OPEN"))
    assert len(set(codes)) == 1


def test_what_runs_is_what_gpurt_says(tmp_path: Path) -> None:
    done = run(added(NVIDIA[-1], tmp_path), tmp_path)
    assert (done.returncode, done.stdout) == (0, "ok\n"), done.stderr[-3000:]


@pytest.mark.slow(0.5)
def test_planted_bugs_are_found(tmp_path: Path) -> None:
    code = added(NVIDIA[-1], tmp_path)
    for name, (old, new) in MUTANTS.items():
        assert code.count(old) == 1, name
        assert run(code.replace(old, new), tmp_path, "32", fast=True).returncode != 0, name


#: The facts of nvidia/rm.h about GSP and RM, as a program that NVIDIA's headers have to compile.
FACTS = """
#include "nvtypes.h"
#include "nvstatus.h"
#include "ctrl/ctrl0080/ctrl0080fifo.h"
#include "ctrl/ctrl2080/ctrl2080fifo.h"
#include "ctrl/ctrl2080/ctrl2080gr.h"
#include "ctrl/ctrl506f.h"
#include "ctrl/ctrl5080.h"
#include "ctrl/ctrl83de.h"
#include "ctrl/ctrl906f.h"
#include "ctrl/ctrla06c.h"
#define SAME(a, b) _Static_assert((a) == (b), #a)
#define AT(member, offset) SAME(__builtin_offsetof(NV2080_CTRL_FIFO_DISABLE_CHANNELS_PARAMS, member), offset)
"""


def facts(text: str) -> str:
    """The numbers of rm.h, and the offsets that its structure has here."""
    numbers = re.findall(r"^#define (NV_(?:OK|ERR_\w+|WARN_\w+)|NV\w{4}_CTRL_\w+) (\w+)$", text, re.M)
    assert len(numbers) > 25
    found = re.search(r"^typedef struct \{\n\tNvBool bDisable;.*?^\} (\w+);", text, re.M | re.S)
    assert found
    ours = found[0].replace(found[1], "OURS").replace("uint64_t", "NvU64")
    members = re.findall(r"\b(bDisable|numChannels|bOnly\w+|bRewind\w+|pRunlist\w+|hClientList|hChannelList)\b", ours)
    assert len(members) == 7
    lines = [f"SAME({name}, {value});" for name, value in numbers]
    lines += [f"AT({name}, __builtin_offsetof(OURS, {name}));" for name in members]
    return "\n".join([FACTS, ours, *lines, f"SAME(sizeof({found[1]}), sizeof(OURS));"])


@pytest.mark.parametrize(("_driver", "source"), OPEN)
def test_what_this_says_of_rm_is_what_its_headers_say(_driver: str, source: Path | None, tmp_path: Path) -> None:
    if source is None:
        pytest.skip("GPURT_OPENRM_SOURCE names no tree of open-gpu-kernel-modules; no package has all of them")
    file = tmp_path / "facts.c"
    file.write_text(facts((HERE / "rm.h").read_text()))
    includes = [f"-I{source}/src/common/sdk/nvidia/inc", f"-I{source}/src/nvidia/arch/nvalloc/unix/include"]
    done = subprocess.run(["gcc", "-fsyntax-only", *includes, file], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
