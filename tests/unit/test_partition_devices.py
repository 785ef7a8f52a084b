# SPDX-License-Identifier: GPL-2.0
"""`gpurt plan partitions --mechanism green-context`: sizes that are read from a GPU, here from a fake library."""

from __future__ import annotations

import ctypes
import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from calls import Gpurt, caller

from analysis.partition import mechanism
from analysis.partition.mechanism import GRAINS, Grain
from analysis.taskset import load
from pycontrol.act.plan.offered import Offer, unconfirmed
from pycontrol.machine import cuda_device

HERE = Path(__file__).resolve().parent
EXAMPLE = (HERE.parents[1] / "examples/partitions.toml").read_text().replace("units = { minimum = 4, step = 2 }\n", "")
FLAGS = ("-std=gnu11", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC")


@pytest.fixture
def gpurt(capsys: pytest.CaptureFixture[str]) -> Gpurt:
    return caller(capsys)


@pytest.fixture(scope="module")
def libcuda(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if shutil.which("cc") is None:
        pytest.skip("needs a C compiler")
    library = tmp_path_factory.mktemp("cuda") / "libcuda.so.1"
    subprocess.run(["cc", *FLAGS, str(HERE / "partition_fake/cuda.c"), "-o", str(library)], check=True)
    return library


@pytest.fixture
def cuda(libcuda: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Says what GPU there is: SMs, major, minor, whether it is there."""
    monkeypatch.setattr(cuda_device, "LIBRARY", str(libcuda))
    monkeypatch.delenv("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", raising=False)

    def gpu(units: int, major: int, minor: int = 0, there: bool = True) -> None:
        ctypes.CDLL(str(libcuda)).fake_gpu(units, major, minor, int(there))

    return gpu


def file_of(folder: Path, units: int) -> Path:
    file = folder / "set.toml"
    file.write_text(EXAMPLE.replace("compute_units = 24\n", f"compute_units = {units}\n", 1))
    return file


def test_least_sizes_and_steps_are_nvidia_s() -> None:
    """The table of cuDevSmResourceSplitByCount() in the driver API of CUDA 12.4 to 12.9."""
    assert (GRAINS[6], GRAINS[7], GRAINS[8]) == (Grain(1, 1), Grain(2, 2), Grain(4, 2))
    assert {GRAINS[major] for major in (9, 10, 11, 12)} == {Grain(8, 8)}
    assert Grain(4, 2).sizes(9) == (4, 6, 8)
    assert Grain(8, 8).sizes(132)[-1] == 128
    assert Grain(8, 8).sizes(7) == ()


def test_green_contexts_are_written(gpurt: Gpurt, cuda: Callable[..., None], tmp_path: Path) -> None:
    """Sizes are 8 and its multiples; the file's contexts are numbered as `gpurt run` wants them."""
    cuda(24, 9)
    out = tmp_path / "out.toml"
    code, text, err = gpurt("plan", "partitions", file_of(tmp_path, 24), "--mechanism", "green-context", "-o", out)
    assert code == 0, err
    assert "24 SMs: green contexts have 8 SMs or more, in steps of 8" in err
    assert "\033" not in text + err
    parts = load(out).taskset.partitions
    assert [one.green_context for one in parts] == list(range(len(parts)))
    assert parts
    assert not [one for one in parts if (one.size or 1) % 8]


def test_the_driver_says_how_many_sms_there_are(gpurt: Gpurt, cuda: Callable[..., None], tmp_path: Path) -> None:
    """The file, or --units, must agree with it."""
    cuda(48, 8, 6)
    code, text, err = gpurt("plan", "partitions", file_of(tmp_path, 48), "--mechanism", "green-context", "--json")
    assert code == 0, err
    found = json.loads(text)
    assert found["compute_units"] == 48
    assert not [one for one in found["partitions"] if one["compute_units"] < 4 or one["compute_units"] % 2]
    for arguments, units in ((("--units", "47"), 48), ((), 24)):
        code, _, err = gpurt("plan", "partitions", file_of(tmp_path, units), "--mechanism", "green-context", *arguments)
        assert (code, "with 48 SMs, the platform has" in err) == (2, True), err


@pytest.mark.parametrize(
    ("gpu", "arguments", "code", "why"),
    [
        ((24, 13, 1), [], 4, "Fake\\x1b[31m GPU has compute capability 13.1; sizes are known of 6.x to 12.x"),
        ((24, 5, 2), [], 4, "has compute capability 5.2"),
        ((24, 9), ["--gpu", "1"], 4, "CUDA has no GPU 1, it has 1"),
        ((24, 9, 0, False), [], 4, "cuInit: CUDA says CUDA_ERROR_NO_DEVICE; without it give the sizes: --units"),
        ((-3, 9), [], 4, "GPU 0 has -3 SMs, which cannot be"),
        ((24, 9), ["--sizes", "8:8"], 2, "--mechanism excludes --sizes"),
        ((24, 9), ["--gpu", "256"], 2, "'--gpu'"),
    ],
)
def test_bad_cuda_devices(
    gpurt: Gpurt, cuda: Callable[..., None], tmp_path: Path, gpu: tuple[Any, ...], arguments: list[str], code: int,
    why: str,
) -> None:  # fmt: skip
    cuda(*gpu)
    out = tmp_path / "out.toml"
    given = ["plan", "partitions", file_of(tmp_path, 24), "--mechanism", "green-context", "-o", out, *arguments]
    found, text, err = gpurt(*given)
    assert (found, text, why in err, out.exists()) == (code, "", True, False), err


def test_a_share_of_mps_is_refused(
    gpurt: Gpurt, cuda: Callable[..., None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:  # fmt: skip
    cuda(24, 9)
    monkeypatch.setenv("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", "50")
    code, _, err = gpurt("plan", "partitions", file_of(tmp_path, 24), "--mechanism", "green-context")
    assert (code, "would tell a share of the SMs; unset it" in err) == (2, True), err


@pytest.mark.parametrize(("name", "why"), [("libgpurt-none.so.9", "cannot be loaded"), ("libc.so.6", "has no cuInit")])
def test_without_a_driver(
    gpurt: Gpurt, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, why: str
) -> None:  # fmt: skip
    monkeypatch.setattr(cuda_device, "LIBRARY", name)
    monkeypatch.delenv("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", raising=False)
    code, text, err = gpurt("plan", "partitions", file_of(tmp_path, 24), "--mechanism", "green-context")
    assert (code, text, why in err) == (4, "", True), err
    assert "without it give the sizes: --units, --sizes and --max-partitions" in err
    assert err.count("\n") == 1


def test_device_goes_with_a_mechanism_that_reads_one(gpurt: Gpurt, tmp_path: Path) -> None:
    for arguments in ((), ("--mechanism", "tpc")):
        code, _, err = gpurt("plan", "partitions", file_of(tmp_path, 24), "--gpu", "0", *arguments)
        assert (code, "--gpu" in err) == (2, True), err


#: Parts with which a GPU gives what an H200 gave: 15 groups of 8 SMs, not 16 (docs/hardware).
H200 = (18, 18, 18, 16, 16, 16, 16, 14)


def test_the_driver_is_asked_for_the_split(cuda: Callable[..., None], libcuda: Path) -> None:
    """SMs suffice for 16 groups of 8, and the driver makes 15.  4 and 6 SMs are groups of 2, which no split has."""
    cuda(132, 9)
    parts = (ctypes.c_int * len(H200))(*H200)
    ctypes.CDLL(str(libcuda)).fake_clusters(parts, len(H200))
    offer = Offer(mechanism.GREEN, Grain(8, 8), 132, "GPU 0")
    assert unconfirmed(offer, [64, 56]) == ""
    wrong = "contexts of 64, 56, 8 SMs need 16 groups of 8 SMs, the driver makes 15"
    assert unconfirmed(offer, [64, 56, 8]) == wrong
    ctypes.CDLL(str(libcuda)).fake_clusters(None, 0)
    assert unconfirmed(offer, [64, 56, 8]) == ""
    assert "4, 6 SMs is not known" in unconfirmed(Offer(mechanism.GREEN, Grain(4, 2), 48, "GPU 0"), [4, 6])


def test_a_split_that_the_driver_refuses_is_a_no(
    gpurt: Gpurt, cuda: Callable[..., None], libcuda: Path, tmp_path: Path
) -> None:
    cuda(24, 9)
    parts, out = (ctypes.c_int * 4)(6, 6, 6, 6), tmp_path / "out.toml"
    ctypes.CDLL(str(libcuda)).fake_clusters(parts, 4)
    code, text, _ = gpurt("plan", "partitions", file_of(tmp_path, 24), "--mechanism", "green-context", "-o", out)
    ctypes.CDLL(str(libcuda)).fake_clusters(None, 0)
    assert (code, "the driver makes 0" in text, out.exists()) == (1, True, False), text
