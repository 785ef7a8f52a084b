# SPDX-License-Identifier: GPL-2.0
"""The patches on the drivers' sources: Linux 6.1, which the tests build a kernel from, and trees that a person names.

GPURT_NVGPU_SOURCE, GPURT_AMDGPU_SOURCE (of Linux, or of AMD's package amdgpu-dkms) and GPURT_OPENRM_SOURCE
(open-gpu-kernel-modules) name trees, several with colons between them, and are not changed.  An nvgpu tree that is
named with GPURT_NVIDIA_OOT (nvidia-oot, of the same release) is compiled for arm64 as well.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from trees import all_texts, contents, patch_driver, texts

#: A test may wait for sources that scripts/kernel fetches.
pytestmark = pytest.mark.timeout(3600)
CACHE = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "gpurt/kernels"
FOLDERS = {"nvgpu": "drivers/gpu/nvgpu", "amdgpu": "drivers/gpu/drm/amd", "nvidia-open": "src/nvidia"}
#: Where amdgpu is in AMD's own package, which DKMS builds.
OWN = "amd"
VARIABLES = {"nvgpu": "GPURT_NVGPU_SOURCE", "nvidia-open": "GPURT_OPENRM_SOURCE"}


def named(variable: str) -> list[Path]:
    return [Path(one) for one in os.environ.get(variable, "").split(":") if one]


TREES = {driver: named(variable) for driver, variable in VARIABLES.items()}
TREES["amdgpu"] = [CACHE / "source-6.1", *named("GPURT_AMDGPU_SOURCE")]
CASES = [pytest.param(driver, tree, id=f"{driver}-{tree.name}") for driver, trees in TREES.items() for tree in trees]
CASES += [pytest.param(driver, None, id=driver) for driver, trees in TREES.items() if not trees]
OPEN = [case for case in CASES if case.values[0] == "nvidia-open"]


@pytest.fixture(autouse=True)
def _stays() -> Iterator[None]:
    """While a test reads the sources in the cache, scripts/kernel does not fetch others."""
    if not CACHE.is_dir():
        yield
        return
    with (CACHE / ".lock-source").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_SH)
        yield


def copy_of(source: Path | None, driver: str, copy: Path, whole: bool) -> Path:
    """The files that patches touch; or all, as links, so that what is written does not change them."""
    if source is None:
        pytest.skip(f"{VARIABLES[driver]} names no tree with the sources of {driver}; no package has them")
    if not (source / FOLDERS[driver]).is_dir() and not (source / OWN / "amdkfd").is_dir():
        pytest.skip(f"the sources of Linux 6.1 are not there ({source}); scripts/kernel uml fetches them")
    if not whole:
        names = set(re.findall(r"^diff --git a/(\S+)", all_texts(driver), re.M)) | {"Makefile", "version.mk"}
        for name in names:
            if (source / name).exists():
                (copy / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(source / name, copy / name)
        return copy
    top = Path(FOLDERS[driver]) if driver == "amdgpu" else Path()
    shutil.copytree(source / top, copy / top, copy_function=os.symlink, ignore=shutil.ignore_patterns(".git"))
    if driver == "amdgpu":
        shutil.copy(source / "Makefile", copy / "Makefile")
    return copy


@pytest.mark.parametrize(("driver", "source"), CASES)
def test_patches_apply_to_a_driver_and_are_taken_back(driver: str, source: Path | None, tmp_path: Path) -> None:
    tree = copy_of(source, driver, tmp_path / "tree", whole=False)
    before = contents(tree)
    code, out, err = patch_driver(driver, tree)
    assert code == 0, err
    patched = contents(tree)
    assert patched.keys() > before.keys()
    assert patch_driver(driver, tree)[:2] == (0, f"{out.rstrip()}, as before\n")
    assert contents(tree) == patched
    assert patch_driver("--reverse", driver, tree)[0] == 0
    assert contents(tree) == before


def amd64_headers(tree: Path) -> list[str | Path]:
    version = re.findall(r"^(?:VERSION|PATCHLEVEL) = (\d+)$", (tree / "Makefile").read_text(), re.M)
    folder = CACHE / f"amd64-{'.'.join(version)}/build"
    if not folder.exists():
        pytest.skip(f"that kernel's headers are not there ({folder}); scripts/kernel {folder.parent.name} fetches them")
    return ["--kernel", folder]


def arm64_headers() -> list[str | Path]:
    if not shutil.which("aarch64-linux-gnu-gcc"):
        pytest.skip("needs a compiler for arm64 (aarch64-linux-gnu-gcc)")
    folder = CACHE / "arm64-6.1/build"
    if not folder.exists():
        pytest.skip(f"that kernel's headers are not there ({folder}); scripts/kernel arm64-6.1 fetches them")
    if not named("GPURT_NVIDIA_OOT"):
        pytest.skip("GPURT_NVIDIA_OOT names no tree with the headers that nvgpu includes")
    return ["--kernel", folder, "--oot", named("GPURT_NVIDIA_OOT")[0]]


@pytest.mark.slow(0.5)
@pytest.mark.parametrize(("driver", "source"), OPEN)
def test_what_is_patched_in_rm_compiles_without_a_warning(driver: str, source: Path | None, tmp_path: Path) -> None:
    """Ten seconds of CPU time each; that RM has what NVIDIA's own sources must have is no proof that it has all."""
    tree = copy_of(source, driver, tmp_path / "tree", whole=True)
    assert patch_driver(driver, tree)[0] == 0
    release = re.findall(r"^NVIDIA_VERSION = (\d+)", (tree / "version.mk").read_text(), re.M)[0]
    names = set(re.findall(r"^\+\+\+ b/src/nvidia/(\S+\.c)$", "".join(texts(driver, release).values()), re.M))
    assert len(names) > 6
    objects = [f"_out/here/{Path(name).stem}.o" for name in names]
    command = ["make", "-C", tree / "src/nvidia", "-j2", "OUTPUTDIR=_out/here", *objects]
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.returncode, "warning" in done.stderr) == (0, False), done.stderr[-3000:]


#: Of a control, in generated/*_nvoc.c: RM sends it to GSP by itself, and its handler here never runs.
ROUTE_TO_PHYSICAL = 0x40


@pytest.mark.parametrize(("driver", "source"), OPEN)
def test_rm_runs_the_handlers_that_the_patches_change(driver: str, source: Path | None, tmp_path: Path) -> None:
    tree = copy_of(source, driver, tmp_path / "tree", whole=True)
    assert patch_driver(driver, tree)[0] == 0
    release = re.findall(r"^NVIDIA_VERSION = (\d+)", (tree / "version.mk").read_text(), re.M)[0]
    changed = set(re.findall(r"^@@ .* @@ (\w*CtrlCmd\w+_IMPL)$", "".join(texts(driver, release).values()), re.M))
    assert len(changed) >= 5
    row = r"void\)\) &?(\w+?)_(?:IMPL|DISPATCH|\w{6}),\n#endif.*\n\s+/\*flags=\*/\s+0x(\w+)u"
    generated = (tree / "src/nvidia/generated").glob("g_*_nvoc.c")
    rows = {name: int(flags, 16) for file in generated for name, flags in re.findall(row, file.read_text())}
    handlers = {name.removesuffix("_IMPL") for name in changed}
    assert not handlers - rows.keys()
    assert [name for name in sorted(handlers) if rows[name] & ROUTE_TO_PHYSICAL] == []


#: Of a control, likewise: RM takes no lock of a GPU for it.
NO_GPUS_LOCK = 0x1


@pytest.mark.parametrize(("driver", "source"), OPEN)
def test_rm_has_the_lock_after_calls_by_which_channels_may_come_back(driver: str, source: Path | None) -> None:
    if source is None:
        pytest.skip("GPURT_OPENRM_SOURCE names no tree of open-gpu-kernel-modules; no package has all of them")
    own = (Path(__file__).parent / "nvidia/rm.h").read_text()
    (patch,) = [text for text in texts(driver, "595").values() if "+static NvBool _mayEnable(" in text]
    names = re.findall(r"^\+        case (NV\w+):$", patch.partition("_mayEnable")[2].partition("+}\n")[0], re.M)
    wanted = {re.findall(rf"^#define {name} 0x(\w+)$", own, re.M)[0] for name in names}
    row = r"/\*flags=\*/\s+0x(\w+)u,\s+/\*accessRight=\*/.*\s+/\*methodId=\*/\s+0x(\w+)u,"
    generated = (source / "src/nvidia/generated").glob("g_*_nvoc.c")
    rows = {number: int(flags, 16) for file in generated for flags, number in re.findall(row, file.read_text())}
    assert len(wanted) == 13
    assert [number for number in sorted(wanted) if rows[number] & NO_GPUS_LOCK] == []


@pytest.mark.parametrize(("driver", "source"), OPEN)
def test_a_call_that_gsp_fails_is_followed_while_rm_has_the_lock(
    driver: str, source: Path | None, tmp_path: Path
) -> None:
    """Such a call has no epilogue; and a channel that is freed leaves its group in no call of a process."""
    tree = copy_of(source, driver, tmp_path / "tree", whole=False)
    assert patch_driver(driver, tree)[0] == 0
    again = "NV_RM_RPC_CONTROL(", "gpurtAfterSchedule(", "else if (pSchedParams->bEnable)"
    steps = [
        ("rmapi/resource.c", "rmresControl_Prologue_IMPL", "NV_RM_RPC_CONTROL(", "if (status != NV_OK)\n",
         "gpurtAfterControl(", "rmGpuGroupLockRelease("),
        ("gpu/fifo/kernel_channel.c", "kchannelDestruct_IMPL", "gpurtChannelRemoved(", "NV_RM_RPC_FREE(",
         "gpurtChannelFreed("),
        ("gpu/fifo/kernel_channel.c", "kchannelCtrlCmdGpFifoSchedule_IMPL", *again),
        ("gpu/fifo/kernel_channel_group_api.c", "kchangrpapiCtrlCmdGpFifoSchedule_IMPL", *again),
    ]  # fmt: skip
    for name, function, *wanted in steps:
        text = (tree / "src/nvidia/src/kernel" / name).read_text()
        found = re.search(rf"^{function}\n\(\n.*?^\}}\n", text, re.M | re.S)
        assert found
        assert [found[0].count(one) for one in wanted] == [1] * len(wanted)
        assert sorted(wanted, key=found[0].index) == wanted


@pytest.mark.skipif(not os.environ.get("GPURT_LONG"), reason="takes a minute of CPU time; GPURT_LONG=1 has it run")
@pytest.mark.parametrize(("driver", "source"), OPEN)
def test_what_is_patched_around_rm_compiles(driver: str, source: Path | None, tmp_path: Path) -> None:
    """NVIDIA's build first compiles some hundred small files, to find out what this kernel has."""
    tree = copy_of(source, driver, tmp_path / "tree", whole=True)
    code, out, err = patch_driver("--compile", "--kernel", CACHE / "amd64-6.1/build", driver, tree)
    assert (code, "nv-gpurt.c: warning" in err) == (0, False), err[-3000:]
    assert "compiled what the patches change" in out


@pytest.mark.slow(0.5)
@pytest.mark.parametrize(("driver", "source"), [case for case in CASES if case.values[0] != "nvidia-open"])
def test_what_is_patched_compiles_without_a_warning(driver: str, source: Path | None, tmp_path: Path) -> None:
    """Some seconds of CPU time each."""
    if source and (source / OWN / "amdkfd").is_dir():
        pytest.skip("DKMS builds AMD's own tree, after it has changed it and found out what the kernel has")
    tree = copy_of(source, driver, tmp_path / "tree", whole=True)
    headers = amd64_headers(tree) if driver == "amdgpu" else arm64_headers()
    variables = [] if driver == "amdgpu" else ["ARCH=arm64", "CROSS_COMPILE=aarch64-linux-gnu-"]
    code, out, err = patch_driver("--compile", *headers, driver, tree, *variables)
    assert code == 0, err[-3000:]
    assert "compiled what the patches change" in out
