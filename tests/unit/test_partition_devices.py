# SPDX-License-Identifier: GPL-2.0
"""`gpurt plan partitions --mechanism green-context|mig`: sizes that are read from a GPU, here from fake libraries."""

from __future__ import annotations

import ctypes
import itertools
import json
import random
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from calls import Gpurt, caller
from effort import tries

from analysis.partition import mechanism
from analysis.partition.instances import GRAINS, Grain, InstanceProfile, placed, plainest
from analysis.taskset import load
from pycontrol.act.plan.offered import Offer, unconfirmed
from pycontrol.machine import cuda_device, mig

HERE = Path(__file__).resolve().parent
EXAMPLE = (HERE.parents[1] / "examples/partitions.toml").read_text().replace("units = { minimum = 4, step = 2 }\n", "")
FLAGS = ("-std=gnu11", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC")
NO_MIG, MIG, NO_PLACES, NO_SMS = range(4)  # enum mig of the fake
#: The A100's, by NVIDIA's guide to MIG.
A100 = (
    InstanceProfile(19, 14, 1, 7, tuple((at, 1) for at in range(7))),
    InstanceProfile(14, 28, 2, 3, ((0, 2), (2, 2), (4, 2))),
    InstanceProfile(9, 42, 3, 2, ((0, 4), (4, 4))),
    InstanceProfile(5, 56, 4, 1, ((0, 4),)),
    InstanceProfile(0, 98, 7, 1, ((0, 8),)),
)  # fmt: skip


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


def test_profiles_are_read(fake_nvml: Any) -> None:
    """Three profiles have 14 SMs: the one of which seven fit is taken."""
    fake_nvml.fake_mig(0, MIG)
    assert mig.read_mig(0) == ("Fake 0", A100)


def test_the_a100_s_combinations() -> None:
    """NVIDIA's guide to MIG: seven of 1g, three of 2g and one of 1g, 4g and 3g, two of 3g and no 1g beside them."""

    def starts(*sizes: int) -> list[int] | None:
        found = placed(A100, sizes)
        return None if found is None else [start for _, start in found]

    assert starts(*[14] * 7) == list(range(7))
    assert starts(*[14] * 8) is None
    assert starts(28, 28, 14, 28) == [0, 2, 6, 4]
    assert starts(28, 28, 28, 28) is None
    assert starts(42, 56) == [4, 0]
    assert starts(42, 42) == [0, 4]
    assert starts(42, 42, 14) is None  # 98 SMs of 98, and 7 slices of 7: the places overlap
    assert starts(56, 56) is None
    assert starts(98) == [0]
    assert starts() == []
    with pytest.raises(KeyError):
        starts(15)


def test_places_are_what_trying_all_finds() -> None:
    """Against all choices of one place for each instance, on random profiles."""
    rng = random.Random(5)
    met = set()
    for _ in range(tries(150)):
        profiles = plainest([
            InstanceProfile(number, 10 * number, rng.randint(1, 3), rng.randint(1, 4),
                    tuple((start, rng.randint(1, 3)) for start in rng.sample(range(6), rng.randint(1, 4))))
            for number in range(1, 4)
        ])  # fmt: skip
        profiles = (*profiles, InstanceProfile(9, 900, 7, 1, ((0, 9),)))
        sizes = [rng.choice((10, 20, 30)) for _ in range(rng.randint(1, 4))]
        chosen = [next(one for one in profiles if one.units == size) for size in sizes]
        possible = sum(one.slices for one in chosen) <= 7 and all(chosen.count(one) <= one.most for one in chosen)
        possible = possible and any(
            all(a + b <= c or c + d <= a for (a, b), (c, d) in itertools.combinations(places, 2))
            for places in itertools.product(*(one.places for one in chosen))
        )
        found = placed(profiles, sizes)
        assert (found is not None) == possible, (profiles, sizes)
        met.add(possible)
    assert met == {True, False}


def test_the_plainest_profile_of_a_size() -> None:
    first, second = A100[0], replace(A100[0], number=20, most=1)
    assert plainest([second, first]) == plainest([first, second]) == (first,)


def test_a_plan_of_instances(gpurt: Gpurt, fake_nvml: Any, tmp_path: Path) -> None:
    """Sizes are the profiles', and the note has the profiles and places to make; the A100 has 108 SMs without MIG."""
    fake_nvml.fake_mig(0, MIG)
    out = tmp_path / "out.toml"
    code, text, err = gpurt("plan", "partitions", file_of(tmp_path, 108), "--mechanism", "mig", "-o", out, "--json")
    assert code == 0, err
    found = json.loads(text)
    sizes = [one["compute_units"] for one in found["partitions"]]
    assert sizes
    assert set(sizes) <= {one.units for one in A100}
    tuples = ",".join(f"{one.number}:{start}" for one, start in placed(A100, sizes) or ())
    assert f"nvidia-smi mig -i 0 -cgi {tuples} -C, and write their names as mig" in found["notes"][-1]
    assert "confirm it with nvidia-smi mig -lgipp" in found["notes"][-1]
    assert [one.size for one in load(out).taskset.partitions] == sizes


def test_instances_that_do_not_fit_together() -> None:
    parts = [("a", 42), ("b", 42), ("c", 14)]
    made, why = mechanism.realised("mig", 98, parts, A100)
    assert [one.size for one in made] == [42, 42, 14]
    assert why == "no instances of MIG have these sizes together: a 42, b 42, c 14"
    assert mechanism.most("mig", A100) == 7
    assert mechanism.sizes("mig", 60, A100) == (14, 28, 42, 56)


@pytest.mark.parametrize(
    ("state", "units", "arguments", "code", "why"),
    [
        (NO_MIG, 108, [], 4, "GPU 0 (Fake 0) has no MIG: it has no profile of an instance; without it give the sizes"),
        (NO_PLACES, 108, [], 4, "profile 19 may be: NVML says: Insufficient Permissions; ask as root"),
        (NO_SMS, 108, [], 4, "profile 19: NVML says what cannot be"),
        (MIG, 108, ["--gpu", "1"], 4, "NVML has no GPU 1, it has 1"),
        (MIG, 97, [], 2, "with instances of 98 SMs; the platform has 97"),
    ],
)
def test_bad_gpus_for_mig(
    gpurt: Gpurt, fake_nvml: Any, tmp_path: Path, state: int, units: int, arguments: list[str], code: int, why: str
) -> None:
    fake_nvml.fake_mig(0, state)
    found, text, err = gpurt("plan", "partitions", file_of(tmp_path, units), "--mechanism", "mig", *arguments)
    assert (found, text, why in err) == (code, "", True), err


def test_mig_without_a_driver(gpurt: Gpurt, fake_nvml: Any, tmp_path: Path) -> None:
    fake_nvml.fake_reset(1, 0)
    code, text, err = gpurt("plan", "partitions", file_of(tmp_path, 108), "--mechanism", "mig")
    assert (code, text, "NVML says: Driver Not Loaded; without it give the sizes: --units" in err) == (4, "", True), err
