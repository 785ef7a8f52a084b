# SPDX-License-Identifier: GPL-2.0
"""RM with the patches, as a process: rm/harness.c.  RM is the real one (nv-kernel.o), the firmware is made for tests.

RM's start, a card's attachment, clients, devices, calls of processes, and RM's locks are real.  Constructors and
destructors of groups and channels are the harness's own, because NVIDIA's need memory of a card.
"""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import openrm
import pytest
from test_real_trees import OPEN
from trees import ROOT

HERE = ROOT / "tests/patches/rm"
FIFO = "src/nvidia/src/kernel/gpu/fifo"
GROUP = "pKernelChannel->pKernelChannelGroupApi->pKernelChannelGroup"
GPU = "src/nvidia/src/kernel/gpu"
RESOURCE = "src/nvidia/src/kernel/rmapi/resource.c"
#: What each of these breaks is noticed: a file of RM's (its name depends on the release), what the patches have put
#: there, and what it becomes.
MUTANTS = {
    "a group that is scheduled runs": (
        f"{FIFO}/kernel_channel_group_api.c",
        "gpurtAfterSchedule(pGpu, pKernelChannelGroup, NULL, pSchedParams->bEnable);", ";"),
    "a group runs until it is switched off": (
        f"{FIFO}/kernel_channel_group_api.c", "gpurtBeforeSchedule(pGpu, pKernelChannelGroup);", ";"),
    "a channel that is scheduled runs": (
        f"{FIFO}/kernel_channel.c",
        f"gpurtAfterSchedule(pGpu, {GROUP},\n" + 31 * " " + "pKernelChannel, pSchedParams->bEnable);", ";"),
    "what another call may switch on runs": (
        RESOURCE, "if (pGpu != NULL)\n        gpurtAfterControl(pGpu, pResource, pParams->cmd);", ";"),
    "what a call that fails has switched on runs": (
        RESOURCE, "if (status != NV_OK)\n            gpurtAfterControl(pGpu, pResource, pParams->cmd);", ";"),
    "a channel that is reset runs": (
        f"{FIFO}/kernel_fifo_gpurt.c", "        case NV906F_CTRL_CMD_RESET_CHANNEL:\n", ""),
    "GSP enables what is off after a preemption": (
        RESOURCE, "gpurtHandlesControl(pGpu, pResource, pParams, &status)", "NV_FALSE"),
    "what is off is waited for": (f"{FIFO}/kernel_channel.c", "if (gpurtIsOff(pKernelChannel))", "if (NV_FALSE)"),
    "everything is stopped at once": (f"{FIFO}/kernel_channel.c", "if (gpurtIsOff(pKernelChannel))", "if (NV_TRUE)"),
    "a channel that was stopped is switched": (f"{FIFO}/kernel_channel.c", "gpurtStopped(pKernelChannel);", ";"),
    "a process switches itself on": (
        f"{FIFO}/kernel_fifo_ctrl.c", "status = gpurtFilterUser(pGpu, &params);", "status = NV_OK;"),
    "GSP gets what the process has asked for": (
        f"{FIFO}/kernel_fifo_ctrl.c", "                          &params,\n                          pRmCtrlParams",
        "                          pRmCtrlParams->pParams,\n                          pRmCtrlParams"),
    "what a process switched off is forgotten": (
        f"{FIFO}/kernel_fifo_ctrl.c", "gpurtUserSwitched(pGpu, &params);", ";"),
    "RM waits for what is off to get idle": (
        f"{FIFO}/kernel_fifo_ctrl.c",
        "if (gpurtKeepsBusy(pGpu, RES_GET_CLIENT_HANDLE(pDevice), pParams->hChannels, pParams->numChannels))",
        "if (NV_FALSE)"),
    "a list of channels with one that is off is waited for": (
        f"{FIFO}/kernel_idle_channels.c", "if (gpurtKeepsBusy(pGpu, phClients[0], phChannels, numChannels))",
        "if (NV_FALSE)"),
    **{
        f"GSP is told what to switch on later: {version}": (
            f"{FIFO}/kernel_fifo_gpurt.c", f"case NV5080_CTRL_CMD_DEFERRED_API{version}:", "case 0xffffffff:")
        for version in ("", "_V2")
    },
    "a kill that GSP reports is not told": (
        f"{GPU}/gsp/kernel_gsp.c",
        27 * " " + "NV_ERR_INVALID_CHANNEL);\n        gpurtKilled(pGpu, pKernelChannel);",
        27 * " " + "NV_ERR_INVALID_CHANNEL);"),
    "that all is lost is not told": (
        "src/nvidia/src/kernel/gpu/*/kernel_*.c", "nv_gpurt_lost(pGpu->pOsGpuInfo);", ";"),
    "a reset is not told": (
        "src/nvidia/src/kernel/gpu/gpu.c", "nv_gpurt_reset(pGpu->pOsGpuInfo, newState);", ";"),
    "RM is asked for its firmware's client": (
        f"{FIFO}/kernel_fifo_gpurt.c", "GPU_GET_PHYSICAL_RMAPI(pGpu)", "rmapiGetInterface(RMAPI_GPU_LOCK_INTERNAL)"),
    **{
        f"channels are switched: {mode}": (f"{FIFO}/kernel_fifo_gpurt.c", f"    if ({check})\n", "    if (NV_FALSE)\n")
        for mode, check in {
            "in a virtual machine": "IS_VIRTUAL(pGpu)", "on a host of vGPUs": "hypervisorIsVgxHyper()",
            "without GSP": "!IS_GSP_CLIENT(pGpu)", "MIG": "IS_MIG_ENABLED(pGpu)",
            "secrets": "gpuIsCCFeatureEnabled(pGpu)",
        }.items()
    },
    "a commit takes a lock twice": (
        f"{FIFO}/kernel_fifo_gpurt.c", "            status = _commit(pGpu, bResend);",
        "            (void)rmDeviceGpuLocksAcquire(pGpu, GPUS_LOCK_FLAGS_NONE, RM_LOCK_MODULES_FIFO);\n"
        "            status = _commit(pGpu, bResend);"),
}  # fmt: skip


@dataclass(frozen=True)
class Workshop:
    """Where RM is, and how to compile a file as RM's are compiled."""

    tree: Path
    built: Path
    folder: Path
    command: str

    def compile(self, source: Path) -> Path:
        """An object of that file, beside the others."""
        target = self.folder / f"{source.stem}.o"
        line = f"{self.command} -fno-function-sections -c '{source}' -o '{target}'"
        done = subprocess.run(["sh", "-c", line], cwd=self.tree / "src/nvidia", capture_output=True, text=True)
        assert (done.returncode, "warning" in done.stderr) == (0, False), done.stderr[-3000:]
        return target

    def weak(self, source: Path) -> Path:
        """RM's objects, of which each symbol gives way to those of the harness."""
        target = self.folder / f"weak-{source.name}"
        subprocess.run(["objcopy", "--weaken", source, target], check=True)
        return target


def symbols(file: Path, *options: str) -> set[str]:
    done = subprocess.run(["nm", *options, file], capture_output=True, text=True, check=True)
    return {line.split()[-1] for line in done.stdout.splitlines()}


def stubs(rm: Path, ours: list[Path], folder: Path) -> Path:
    """Symbols that RM needs and nobody has: functions that do nothing and return 0, and jumps that kernels replace."""
    have = set().union(*(symbols(one, "--defined-only") for one in ours))
    lines = [".text"]
    for name in sorted(symbols(rm, "--undefined-only") - have):
        _, _, register = name.partition("__x86_indirect_thunk_")
        lines.append(f".globl {name}\n{name}: " + (f"jmp *%{register}" if register else "xor %eax, %eax\nret"))
    lines.append('.section .note.GNU-stack, "", @progbits\n')
    (folder / "stubs.s").write_text("\n".join(lines))
    subprocess.run(["gcc", "-c", folder / "stubs.s", "-o", folder / "stubs.o"], check=True)
    return folder / "stubs.o"


def linked(folder: Path, name: str, objects: list[Path]) -> Path:
    """A program, at addresses that RM's code can have."""
    subprocess.run(["gcc", "-no-pie", "-Wl,-z,noexecstack", *objects, "-o", folder / name], check=True)
    return folder / name


@openrm.LONG
@pytest.mark.slow(3)
@pytest.mark.timeout(14_400)
@pytest.mark.parametrize(("_driver", "source"), OPEN)
def test_whoever_asks_rm_what_must_not_run_does_not(_driver: str, source: Path | None, tmp_path: Path) -> None:
    tree = openrm.patched(source, tmp_path / "tree")
    assert source
    if not (shutil.which("gcc") and shutil.which("objcopy")):
        pytest.skip("needs a C compiler (gcc) and binutils")
    shop = Workshop(tree, openrm.built(source, tree), tmp_path, openrm.compile_command(tree))
    system = tmp_path / "system.o"
    flags = ["-std=gnu11", "-O1", "-g", "-Wall", "-Wextra", "-Werror", "-fno-pic"]
    subprocess.run(["gcc", *flags, "-c", HERE / "system.c", "-o", system], check=True)
    ours = [shop.compile(HERE / "harness.c"), system]
    rm = shop.weak(shop.built / "nv-kernel.o")
    objects = [*ours, stubs(rm, ours, tmp_path)]
    done = subprocess.run([linked(tmp_path, "harness", [*objects, rm])], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "ok\n"), done.stdout + done.stderr[-3000:]
    for name, (pattern, old, new) in MUTANTS.items():
        (text,) = [text for file in tree.glob(pattern) if old in (text := file.read_text())]
        assert text.count(old) == 1, name
        (tmp_path / "mutant.c").write_text(text.replace(old, new))
        mutant = shop.weak(shop.compile(tmp_path / "mutant.c"))
        # The linker takes the first of two weak symbols.
        done = subprocess.run([linked(tmp_path, "mutated", [*objects, mutant, rm])], capture_output=True, text=True)
        assert done.returncode != 0, name
