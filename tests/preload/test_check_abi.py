# SPDX-License-Identifier: GPL-2.0
"""scripts/check-abi, on made-up sources that have little more than the facts that matter."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest
from links import PATIENCE
from machines import ROOT

pytestmark = pytest.mark.skipif(not shutil.which("cc"), reason="needs a C compiler")

KFD = """
#include <drm/drm.h>
#include <linux/ioctl.h>
struct kfd_ioctl_create_queue_args {
	__u64 ring_base_address, write_pointer_address, read_pointer_address, doorbell_offset;
	__u32 ring_size, gpu_id, queue_type, queue_percentage, queue_priority, queue_id;
	__u64 eop_buffer_address, eop_buffer_size, ctx_save_restore_address;
	__u32 ctx_save_restore_size, ctl_stack_size;
	__u64 more;
};
struct kfd_ioctl_destroy_queue_args { __u32 queue_id, pad; };
struct kfd_ioctl_update_queue_args {
	__u64 ring_base_address;
	__u32 queue_id, ring_size, queue_percentage, queue_priority;
};
struct kfd_ioctl_set_cu_mask_args { __u32 queue_id, num_cu_mask; __u64 cu_mask_ptr; };
#define KFD_IOC_QUEUE_TYPE_COMPUTE 0
#define KFD_IOC_QUEUE_TYPE_COMPUTE_AQL 2
#define AMDKFD_IOC_CREATE_QUEUE _IOWR('K', 0x02, struct kfd_ioctl_create_queue_args)
#define AMDKFD_IOC_DESTROY_QUEUE _IOWR('K', 0x03, struct kfd_ioctl_destroy_queue_args)
#define AMDKFD_IOC_UPDATE_QUEUE _IOW('K', 0x07, struct kfd_ioctl_update_queue_args)
#define AMDKFD_IOC_SET_CU_MASK _IOW('K', 0x1A, struct kfd_ioctl_set_cu_mask_args)
"""
NVGPU = """
#include <linux/ioctl.h>
#define NVGPU_IOCTL_TSG_ENABLE _IO('T', 3)
#define NVGPU_IOCTL_TSG_DISABLE _IO('T', 4)
#define NVGPU_IOCTL_TSG_PREEMPT _IO('T', 6)
"""
SCHEDULE = """
typedef struct { unsigned char bEnable, bSkipSubmit%s; } NVA06F_CTRL_GPFIFO_SCHEDULE_PARAMS;
typedef NVA06F_CTRL_GPFIFO_SCHEDULE_PARAMS NVA06C_CTRL_GPFIFO_SCHEDULE_PARAMS;
"""


def check(tree: Path, *options: str) -> subprocess.CompletedProcess[str]:
    command = [ROOT / "scripts/check-abi", tree, *options]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=PATIENCE)


def tree(folder: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


def kfd(folder: Path, text: str) -> Path:
    makefile = "VERSION = 6\nPATCHLEVEL = 1\nSUBLEVEL = 7\n"
    return tree(folder, {"include/uapi/linux/kfd_ioctl.h": text, "Makefile": makefile})


def test_sources_that_agree(tmp_path: Path) -> None:
    done = check(kfd(tmp_path, KFD))
    assert (done.returncode, done.stdout) == (0, "kfd 6.1.7: 63 facts compared, 0 differ\n"), done.stderr


@pytest.mark.parametrize(
    ("old", "new", "lines"),
    [
        ("__u32 queue_id, num_cu_mask; __u64 cu_mask_ptr;", "__u64 cu_mask_ptr; __u32 queue_id, num_cu_mask; __u64 x;",
         ["offsetof(kfd_cu_mask, queue) is 0x0, the driver has 0x8",
          "offsetof(kfd_cu_mask, bits) is 0x4, the driver has 0xc",
          "offsetof(kfd_cu_mask, address) is 0x8, the driver has 0x0",
          "sizeof(kfd_cu_mask) is 0x10, the driver has 0x18",
          "KFD_SET_CU_MASK: request is 0x40104b1a, the driver has 0x40184b1a"]),
        ("'K', 0x07", "'L', 0x08",
         ["KFD_UPDATE_QUEUE is 0x7, the driver has 0x8", "KFD_UPDATE_QUEUE: type is 0x4b, the driver has 0x4c",
          "KFD_UPDATE_QUEUE: request is 0x40184b07, the driver has 0x40184c08"]),
        ("TYPE_COMPUTE_AQL", "TYPE_COMPUTE_NEW", ["KFD_COMPUTE_AQL is 0x2, the driver has none"]),
    ],
    ids=["order", "number", "missing"],
)  # fmt: skip
def test_sources_that_differ(old: str, new: str, lines: list[str], tmp_path: Path) -> None:
    made = kfd(tmp_path, KFD.replace(old, new))
    done = check(made)
    *said, last = done.stdout.splitlines()
    assert (done.returncode, set(said)) == (1, set(lines)), done.stderr
    assert last == f"kfd 6.1.7: 63 facts compared, {len(lines)} differ"
    answer = json.loads(check(made, "--json").stdout)
    assert (answer["kind"], answer["release"], len(answer["differences"])) == ("kfd", "6.1.7", len(lines))
    assert {one["fact"] for one in answer["differences"]} == {line.rpartition(" is ")[0] for line in lines}


USERQ = """
#define DRM_AMDGPU_USERQ 0x16
#define AMDGPU_USERQ_OP_CREATE 1
#define AMDGPU_USERQ_OP_FREE 2
struct drm_amdgpu_userq_in { __u32 op, queue_id, ip_type; };
"""


def test_what_only_newer_releases_have(tmp_path: Path) -> None:
    """A second context of KFD from 7.0 on, user queues of /dev/dri from 6.16 on."""
    made = kfd(tmp_path, KFD + "#define AMDKFD_IOC_CREATE_PROCESS _IO('K', 0x27)\n")
    tree(tmp_path, {"include/uapi/drm/amdgpu_drm.h": USERQ})
    assert check(made).stdout == "kfd 6.1.7: 72 facts compared, 0 differ\n"
    other = USERQ.replace("0x16", "0x17").replace("op, queue_id", "queue_id, op")
    tree(tmp_path, {"include/uapi/drm/amdgpu_drm.h": other})
    said = check(made).stdout
    assert "USERQ is 0x56, the driver has 0x57" in said
    assert "offsetof(userq, op) is 0x0, the driver has 0x4" in said


def test_a_larger_structure_than_gpurt_reads_is_no_difference(tmp_path: Path) -> None:
    assert check(kfd(tmp_path, KFD.replace("__u64 more;", "__u64 more[9];"))).returncode == 0


def test_nvgpu(tmp_path: Path) -> None:
    done = check(tree(tmp_path, {"include/uapi/linux/nvgpu.h": NVGPU}), "--json")
    answer = json.loads(done.stdout)
    facts = {one["fact"]: one["theirs"] for one in answer["differences"]}
    assert (done.returncode, answer["kind"]) == (1, "nvgpu")
    assert facts["TSG_PREEMPT: request"] == 0x5406
    assert facts["OPEN_TSG"] is None
    assert "TSG_ENABLE: request" not in facts
    assert "hints.TSG_GET_PARAMS: request" in facts


@pytest.mark.parametrize(("release", "size", "same"), [("570.211.01", 2, True), ("575.51.02", 3, True),
                                                       ("570.211.01", 3, False), ("575.51.02", 2, False)])  # fmt: skip
def test_what_depends_on_nvidias_release(release: str, size: int, same: bool, tmp_path: Path) -> None:
    sdk = "src/common/sdk/nvidia/inc"
    made = tree(tmp_path, {
        "version.mk": f"NVIDIA_VERSION = {release}\n", f"{sdk}/nvos.h": "",
        f"{sdk}/class/clc86f.h": "#define A_CHANNEL_GPFIFO_A (0xC86F)\n",
        f"{sdk}/class/cl906d.h": "#define A_CHANNEL_GPFIFO_B (0x906D)\n",
        f"{sdk}/ctrl/ctrla06f/ctrla06fgpfifo.h": SCHEDULE % (", bSkipEnable" if size == 3 else ""),
    })  # fmt: skip
    answer = json.loads(check(made, "--json").stdout)
    facts = {one["fact"]: (one["ours"], one["theirs"]) for one in answer["differences"]}
    assert (answer["kind"], answer["release"]) == ("nvidia", release)
    assert ("sizeof(rm_schedule, NVA06C)" not in facts) is same
    assert "RM_CLASS_IS_CHANNEL(A_CHANNEL_GPFIFO_A)" not in facts
    assert facts["RM_CLASS_IS_CHANNEL(A_CHANNEL_GPFIFO_B)"] == (0, 1)


@pytest.mark.parametrize(
    ("text", "why"), [(None, "no driver's sources; none of "), ("struct {", "the headers cannot be used: ")]
)
def test_what_is_no_drivers_sources(text: str | None, why: str, tmp_path: Path) -> None:
    done = check(kfd(tmp_path, text) if text else tmp_path)
    assert (done.returncode, done.stdout, len(done.stderr.splitlines())) == (2, "", 1)
    assert f"check-abi: {tmp_path}: {why}" in done.stderr
