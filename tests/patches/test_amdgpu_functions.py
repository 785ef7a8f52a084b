# SPDX-License-Identifier: GPL-2.0
"""The functions that the patches change in amdgpu, in user space (amdgpu/harness.c), under HWS and MES."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from test_real_trees import CASES, FOLDERS, OWN, _stays, copy_of
from trees import PATCH_DRIVER, ROOT, patch_driver

__all__ = ["_stays"]  # a fixture
pytestmark = pytest.mark.timeout(3600)
HERE = ROOT / "tests/patches/amdgpu"
USER_QUEUES = "drivers/gpu/drm/amd/amdgpu/amdgpu_userq.c"
#: In the order in which one calls another.
FUNCTIONS = [
    "increment_queue_count", "decrement_queue_count", "map_queues_cpsch", "unmap_queues_cpsch", "execute_queues_cpsch",
    "evict_queues_locked", "evict_process_queues_cpsch", "restore_queues_locked", "restore_process_queues_cpsch",
    "switch_processes", "kfd_dqm_commit", "register_process", "unregister_process", "create_queue_cpsch",
    "wait_on_destroy_queue", "destroy_queue_cpsch", "process_termination_cpsch",
]  # fmt: skip
#: Features of newer releases, and how their code shows them.
FEATURES = {"PARTITIONS": "node->node_id", "HIBERNATES": "dqm_evict_mqd_bo", "USER_QUEUES": "userq_doorbell_xa",
            "FLUSHES": "Heavy-weight TLB flush"}
#: In evict_process_queues_cpsch(); older versions of Debian's kernels have none.
FLUSH = re.compile(r"\n\t/\*\n\t \* Heavy-weight TLB flush after MES(?:.(?!\*/))*.\*/\n\tif \([^;]*;\n\n", re.S)
ONLY_IN_NEWER = {"wait_on_destroy_queue"}
AMDGPU = [case for case in CASES if case.values[0] == "amdgpu"]
#: Mutants that must be noticed, by what each breaks: a line of the driver, and what it becomes.
MUTANTS = {
    "an eviction stays when the last queue goes": ("qpd->evicted -= qpd->off;", ";"),
    "new processes are not born off": ("if (qpd->off && qpd->evicted++ == 0)", "if (false)"),
    "the runlist is not updated": ("dqm->stale = true;", ";"),
    "a failure is not reported": ("retval = hangs || dqm->stale ? -ETIMEDOUT : 0;", "retval = 0;"),
    "a failed update is not tried again": ("if (dqm->stale && !", "if (!retval && false && !"),
    "MES is called before the reset": ("if (!hangs && !switch", "if (!switch"),
    "a commit waits for a flush":
        ("\tif (qpd->evicted++ > 0)", "\tkfd_flush_tlb(qpd_to_pdd(qpd));\n\tif (qpd->evicted++ > 0)"),
    "each process has an update": ("evict_queues_locked(dqm, qpd, false", "evict_queues_locked(dqm, qpd, true"),
    "processes without an owner are asked for": ("!hooks || !qpd->owner ||", "!hooks ||"),
    "nobody comes back": ("kfd_gpurt_may_run(dqm, qpd) == off", "kfd_gpurt_may_run(dqm, qpd) == off || !off"),
    "the reference to a process is kept": ("put_pid(owner);", ";"),
    "nobody comes back when gpurt goes": ("(void)kfd_dqm_commit(dqm);", ";"),
    "processes are switched without the lock": ("dqm_lock(dqm);\n\thangs", "hangs"),
    "older queues are not told of": ("tell(dqm, qpd, 1);\n}\n\nvoid kfd_gpurt_gpu", ";\n}\n\nvoid kfd_gpurt_gpu"),
    "those without a scheduler are off": ("dqm->sched_policy == KFD_SCHED_POLICY_NO_HWS ||", ""),
    "partitions have one name": ("if (node->kfd->num_nodes > 1)", "if (false)"),
    "who is off is lost in hibernation": ("if (qpd->off && !q->needs_mqd_repin)", "if (false)"),
    "user queues are not seen": ("if (!xa_empty(&dqm->dev->adev->userq_doorbell_xa))", "if (false)"),
    "user queues are made": ("ret = hooks;", "ret = false;"),
    "a reset does not end what is not known": ("dqm->stale = !dqm->dev", "dqm->stale = dqm->stale || !dqm->dev"),
    "the TLB of no VM is flushed": ("enable_mes && qpd_to_pdd(qpd)->drm_", "enable_mes || !qpd_to_pdd(qpd)->drm_"),
}

NEWER_MUTANTS = {
    "partitions have one name", "who is off is lost in hibernation", "user queues are not seen", "user queues are made",
    "the TLB of no VM is flushed",
}  # fmt: skip


def driver(source: Path, tmp_path: Path, older: bool = False) -> str:
    """The code of the patched driver that runs here; or of the driver before a flush came into it."""
    tree = copy_of(source, "amdgpu", tmp_path / "tree", whole=False)
    if older:
        file = tree / FOLDERS["amdgpu"] / "amdkfd/kfd_device_queue_manager.c"
        text, count = FLUSH.subn("", file.read_text())
        if not count:
            pytest.skip("there is none")
        file.write_text(text)
        if f"{PATCH_DRIVER.linux_version(tree)}-older" not in PATCH_DRIVER.names_of("amdgpu"):
            pytest.skip("there are no patches for a version of that release without it")
    code, out, err = patch_driver("amdgpu", tree)
    assert code == 0, err
    assert "-older: " in out or not older
    folder = next(one for one in (tree / FOLDERS["amdgpu"] / "amdkfd", tree / OWN / "amdkfd") if one.is_dir())
    files = {name: (folder / name).read_text() for name in ("gpurt_port.h", "kfd_gpurt.h", "kfd_gpurt.c")}
    parts = [re.sub(r"^#include .*\n", "", text, flags=re.M) for text in files.values()]
    text = (folder / "kfd_device_queue_manager.c").read_text()
    for name in FUNCTIONS:
        found = re.search(rf"^(?:static )?(?:int|void) {name}\([^;{{]*\)\n\{{.*?^\}}\n", text, re.M | re.S)
        assert found or name in ONLY_IN_NEWER, name
        parts.append(found[0] if found else "")
    for name, sign in FEATURES.items():
        parts.insert(0, f"#define {name} {int(any(sign in part for part in parts))}\n")
    parts.insert(len(FEATURES) + 1, "int kfd_dqm_commit(struct device_queue_manager *dqm);\n")
    return "\n".join(parts)


@pytest.mark.parametrize(("_driver", "source"), AMDGPU)
def test_a_user_queue_is_refused_after_commits_can_see_it_and_before_it_runs(
    _driver: str, source: Path, tmp_path: Path
) -> None:
    tree = copy_of(source, "amdgpu", tmp_path / "tree", whole=False)
    if not (tree / USER_QUEUES).exists():
        pytest.skip("there are user queues from Linux 6.16 on: GPURT_AMDGPU_SOURCE names no such tree")
    assert patch_driver("amdgpu", tree)[0] == 0
    text = (tree / USER_QUEUES).read_text()
    found = re.search(r"^amdgpu_userq_create\(.*?^\}\n", text, re.M | re.S)
    assert found
    steps = ("xa_insert_irq", "if (kfd_gpurt_attached())", "goto erase_doorbell", "amdgpu_userq_map_helper",
             "erase_doorbell:")  # fmt: skip
    assert [found[0].count(one) for one in steps[:2]] == [1, 1]
    places = [found[0].index(one) for one in steps]
    assert places == sorted(places)
    assert "xa_erase_irq" in found[0][places[-1] :]


def run(code: str, folder: Path, *flags: str) -> subprocess.CompletedProcess[str]:
    if not shutil.which("gcc"):
        pytest.skip("needs a C compiler (gcc)")
    (folder / "driver.inc").write_text(code)
    command = ["gcc", "-std=gnu11", "-g", "-Wall", "-Werror", "-Wno-unused", *flags, f"-I{folder}", HERE / "harness.c"]
    subprocess.run([*command, "-o", folder / "harness"], check=True)
    return subprocess.run([folder / "harness"], capture_output=True, text=True)


@pytest.mark.parametrize("older", [False, True])
@pytest.mark.parametrize(("_driver", "source"), AMDGPU)
def test_the_hardware_has_what_gpurt_says(_driver: str, source: Path, older: bool, tmp_path: Path) -> None:
    flags = ["-O1", "-fsanitize=address,undefined", "-fno-sanitize-recover"]
    done = run(driver(source, tmp_path, older), tmp_path, *flags)
    assert done.returncode == 0, done.stderr[-3000:]
    updates, calls = map(int, re.findall(r"\d+", done.stdout))
    assert min(updates, calls) > 10_000


@pytest.mark.slow(0.5)
@pytest.mark.parametrize(("_driver", "source"), AMDGPU)
def test_planted_bugs_are_found(_driver: str, source: Path, tmp_path: Path) -> None:
    code = driver(source, tmp_path)
    for name, (old, new) in MUTANTS.items():
        if name in NEWER_MUTANTS and old not in code:
            continue
        assert code.count(old) == 1, name
        done = run(code.replace(old, new), tmp_path, "-O0", "-fsanitize=undefined", "-fno-sanitize-recover")
        assert done.returncode != 0, name
