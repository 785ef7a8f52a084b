# SPDX-License-Identifier: GPL-2.0
"""Rules that hold for every patch of a GPU driver, without the driver's sources."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest
from trees import PATCH_DRIVER, RELEASES, ROOT, SCRIPT, contents, patch_driver, texts

PATCHES = [
    pytest.param(driver, text, id=f"{driver}-{release}-{name[:4]}")
    for driver, release in RELEASES
    for name, text in texts(driver, release).items()
]
#: Where the files are that a driver's patches change, and how their subjects begin.
FOLDERS = {
    "nvgpu": (("drivers/gpu/nvgpu/",), ("gpu: nvgpu: ",)),
    "amdgpu": (
        ("drivers/gpu/drm/amd/amdkfd/", "drivers/gpu/drm/amd/amdgpu/", "amd/amdkfd/"),
        ("drm/amdkfd: ", "drm/amdgpu: "),
    ),
    "nvidia-open": (
        ("kernel-open/nvidia/", "kernel-open/common/inc/nv-linux.h", "src/nvidia/"),
        ("kernel-open: ", "rm: "),
    ),
}
#: NVIDIA's driver is two programs, one of which knows neither the kernel nor gpurt.
LIMITS = {"nvgpu": 100, "amdgpu": 100, "nvidia-open": 150}


def added(patch: str) -> list[str]:
    return re.findall(r"^\+(?!\+\+ )(.*)$", patch.split("\ndiff --git ", 1)[1], re.M)


@pytest.mark.parametrize(("driver", "release"), RELEASES)
def test_a_series_lists_all_patches_in_order(driver: str, release: str) -> None:
    names = list(texts(driver, release))
    kept = {one.stem for one in (ROOT / "kmod/patches" / driver / release).glob("0*")}
    assert kept <= {Path(name).stem for name in names}
    assert [name[:5] for name in names] == [f"{number:04}-" for number in range(1, len(names) + 1)]


@pytest.mark.parametrize(("driver", "release"), RELEASES)
def test_base_names_what_the_patches_were_made_against(driver: str, release: str) -> None:
    text = (ROOT / "kmod/patches" / driver / release / "base").read_text()
    said = dict(line.split(": ", 1) for line in text.splitlines() if line[0] != " ")
    assert {"driver", "release", "made against"} <= said.keys()
    exact = r"(linux-source-\S+|amdgpu-dkms), version \d" if driver == "amdgpu" else r"commit [0-9a-f]{40}$"
    assert re.search(exact, text, re.M)


@pytest.mark.parametrize("driver", sorted({driver for driver, _ in RELEASES}))
def test_one_release_of_a_driver_is_kept_whole_and_all_are_stored_again(driver: str, tmp_path: Path) -> None:
    folder = ROOT / "kmod/patches" / driver
    assert len({one.parent for one in folder.glob("*/*.patch")}) == 1
    copy = tmp_path / "gpurt/kmod/patches"
    shutil.copytree(folder, copy / driver)
    script = tmp_path / "gpurt/scripts/patch-driver"
    script.parent.mkdir()
    shutil.copy(SCRIPT, script)
    for release in PATCH_DRIVER.names_of(driver):
        for option in ("--write", "--store"):
            assert patch_driver(option, tmp_path / release, driver, release, script=script) == (0, "", "")
        for name, text in texts(driver, release).items():
            assert (tmp_path / release / name).read_text() == text
    assert contents(copy / driver) == contents(folder)


def test_a_delta_is_of_one_text_only() -> None:
    old, new = "one\ntwo\nthree\n", "zero\none\nthree\nfour\n"
    differences = PATCH_DRIVER.delta(old, new)
    assert PATCH_DRIVER.with_delta(old, differences) == new
    with pytest.raises(ValueError, match="line 2"):
        PATCH_DRIVER.with_delta(old.replace("two", "2"), differences)


def test_a_release_that_there_is_none_of_and_a_folder_without_a_series_are_refused(tmp_path: Path) -> None:
    code, _, err = patch_driver("--write", tmp_path, "nvgpu", "r32")
    assert (code, "r32 is no release of nvgpu that there are patches for: r35, r36" in err) == (2, True), err
    code, _, err = patch_driver("--store", tmp_path, "nvgpu", "r35")
    assert (code, "has no file 'series'" in err) == (2, True), err


@pytest.mark.parametrize(("driver", "text"), PATCHES)
def test_a_patch_is_small_and_says_why(driver: str, text: str) -> None:
    head, _, rest = text.partition("\n---\n")
    subject, _, body = head.split("Subject: [PATCH] ", 1)[1].partition("\n\n")
    folders, prefixes = FOLDERS[driver]
    assert subject.replace("\n ", " ").startswith(prefixes)
    assert len(body.split()) > 15
    assert all(len(line) <= 75 for line in body.splitlines() if not line.startswith("Signed-off-by: "))
    assert 0 < len(added(text)) < LIMITS[driver]
    assert all(name.startswith(folders) for name in re.findall(r"^diff --git a/(\S+)", rest, re.M))
    assert not [line for line in added(text) if line != line.rstrip()]


@pytest.mark.parametrize(("driver", "text"), PATCHES)
def test_a_patch_is_signed_off_by_who_sends_it(driver: str, text: str) -> None:
    author, *_, last = text.partition("\n---\n")[0].splitlines()
    assert author.startswith("From: ")
    assert last == f"Signed-off-by: {author.removeprefix('From: ')}"


@pytest.mark.parametrize(("driver", "release"), RELEASES)
def test_the_driver_gets_the_header_that_gpurt_has(driver: str, release: str) -> None:
    ours = (ROOT / "kmod/drv/port.h").read_text().splitlines()
    port = re.compile(r"^\+\+\+ b/\S*/gpurt_port\.h$", re.M)
    theirs = [added(text) for text in texts(driver, release).values() if port.search(text)]
    assert theirs == [ours]


def test_the_table_of_lines_is_what_the_patches_add() -> None:
    folder = ROOT / "kmod/patches/nvidia-open"
    *rows, total = re.findall(r"^\| (\d{4}|all) \| (\d+) \| ", (folder / "README").read_text(), re.M)
    counted = [(name[:4], len(added(text))) for name, text in texts("nvidia-open", "595").items()]
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
