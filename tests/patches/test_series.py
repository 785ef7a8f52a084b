# SPDX-License-Identifier: GPL-2.0
"""Rules that hold for every patch of a GPU driver, without the driver's sources."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SERIES = sorted((ROOT / "kmod/patches").glob("*/*/series"))
RELEASES = [pytest.param(one.parent, id="-".join(one.parent.parts[-2:])) for one in SERIES]
PATCHES = [
    pytest.param(patch, id=f"{'-'.join(one.parent.parts[-2:])}-{patch.name[:4]}")
    for one in SERIES
    for patch in sorted(one.parent.glob("*.patch"))
]
#: Where the files are that a driver's patches change, and how their subjects begin.
FOLDERS = {
    "nvgpu": (("drivers/gpu/nvgpu/",), ("gpu: nvgpu: ",)),
    "amdgpu": (
        ("drivers/gpu/drm/amd/amdkfd/", "drivers/gpu/drm/amd/amdgpu/", "amd/amdkfd/"),
        ("drm/amdkfd: ", "drm/amdgpu: "),
    ),
    "nvidia-open": (("kernel-open/nvidia/", "src/nvidia/"), ("kernel-open: ", "rm: ")),
}
#: NVIDIA's driver is two programs, one of which knows neither the kernel nor gpurt.
LIMITS = {"nvgpu": 100, "amdgpu": 100, "nvidia-open": 150}


def added(patch: str) -> list[str]:
    return re.findall(r"^\+(?!\+\+ )(.*)$", patch.split("\ndiff --git ", 1)[1], re.M)


def test_there_are_patches_for_each_release_that_is_supported() -> None:
    assert [str(one.parent.relative_to(ROOT / "kmod/patches")) for one in SERIES] == [
        "amdgpu/6.1", "amdgpu/6.12", "amdgpu/7.2", "amdgpu/7.3", "amdgpu/rocm-6.4", "nvgpu/r35", "nvgpu/r36",
        "nvidia-open/570", "nvidia-open/580", "nvidia-open/590", "nvidia-open/595"]  # fmt: skip


@pytest.mark.parametrize("release", RELEASES)
def test_a_series_lists_all_patches_in_order(release: Path) -> None:
    names = (release / "series").read_text().split()
    assert names == sorted(one.name for one in release.glob("*.patch"))
    assert [name[:5] for name in names] == [f"{number:04}-" for number in range(1, len(names) + 1)]


@pytest.mark.parametrize("release", RELEASES)
def test_base_names_what_the_patches_were_made_against(release: Path) -> None:
    said = dict(line.split(": ", 1) for line in (release / "base").read_text().splitlines() if line[0] != " ")
    assert {"driver", "release", "made against"} <= said.keys()
    text = (release / "base").read_text()
    exact = (
        r"(linux-source-\S+|amdgpu-dkms), version \d" if release.parent.name == "amdgpu" else r"commit [0-9a-f]{40}$"
    )
    assert re.search(exact, text, re.M)


@pytest.mark.parametrize("patch", PATCHES)
def test_a_patch_is_small_and_says_why(patch: Path) -> None:
    text = patch.read_text()
    head, _, rest = text.partition("\n---\n")
    subject, _, body = head.split("Subject: [PATCH] ", 1)[1].partition("\n\n")
    folders, prefixes = FOLDERS[patch.parts[-3]]
    assert subject.replace("\n ", " ").startswith(prefixes)
    assert len(body.split()) > 15
    assert all(len(line) <= 75 for line in body.splitlines() if not line.startswith("Signed-off-by: "))
    assert 0 < len(added(text)) < LIMITS[patch.parts[-3]]
    assert all(name.startswith(folders) for name in re.findall(r"^diff --git a/(\S+)", rest, re.M))
    assert not [line for line in added(text) if line != line.rstrip()]


@pytest.mark.parametrize("patch", PATCHES)
def test_a_patch_is_signed_off_by_who_sends_it(patch: Path) -> None:
    author, *_, last = patch.read_text().partition("\n---\n")[0].splitlines()
    assert author.startswith("From: ")
    assert last == f"Signed-off-by: {author.removeprefix('From: ')}"


@pytest.mark.parametrize("release", RELEASES)
def test_the_driver_gets_the_header_that_gpurt_has(release: Path) -> None:
    ours = (ROOT / "kmod/drv/port.h").read_text().splitlines()
    texts = [one.read_text() for one in release.glob("*.patch")]
    theirs = [added(text) for text in texts if re.search(r"^\+\+\+ b/\S*/gpurt_port\.h$", text, re.M)]
    assert theirs == [ours]


def test_the_table_of_lines_is_what_the_patches_add() -> None:
    folder = ROOT / "kmod/patches/nvidia-open"
    *rows, total = re.findall(r"^\| (\d{4}|all) \| (\d+) \| ", (folder / "README").read_text(), re.M)
    counted = [(one.name[:4], len(added(one.read_text()))) for one in sorted((folder / "595").glob("*.patch"))]
    assert [(name, int(lines)) for name, lines in rows] == counted
    assert total == ("all", str(sum(lines for _, lines in counted)))


UPSTREAM = sorted((ROOT / "kmod/patches/upstream").glob("*.patch"))


@pytest.mark.parametrize("patch", UPSTREAM, ids=[one.name[:4] for one in UPSTREAM])
def test_what_can_be_sent_is_the_first_of_a_series_and_knows_nothing_of_gpurt(patch: Path) -> None:
    """Hence it applies by itself, and there is one text of it."""
    assert patch.is_symlink()
    text = patch.read_text()
    first = (patch.resolve().parent / "series").read_text().split()[0]
    assert patch.resolve().name == first
    assert "gpurt" not in text.lower()
    assert patch.name in (ROOT / "docs/out-of-tree.md").read_text()


def test_something_can_be_sent() -> None:
    assert UPSTREAM
