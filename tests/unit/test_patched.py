# SPDX-License-Identifier: GPL-2.0
"""The control plane reads the lines in which the module tells of patched drivers."""

from __future__ import annotations

from pathlib import Path

import pytest

from pycontrol.link import patched
from pycontrol.link.patched import PatchedGpu

ON = "driver=amdgpu device=0000:03:00.0 gpu=0 state=on error=0 asks=17\n"
REFUSED = "driver=nvgpu device=17000000.gpu gpu=- state=refused error=0 asks=0 reason=a = b reason=c\n"
OTHER = "driver=nvgpu device=- gpu=- state=refused error=0 asks=0 reason=its port has version 2, this module needs 1\n"
MORE = "driver=- device=- gpu=- state=more error=0 asks=0 reason=3 more GPUs are not listed\n"
UNABLE = "driver=nvgpu device=17000000.gpu gpu=1 state=unable error=-95 asks=3\n"


def read(folder: Path, text: str) -> list[PatchedGpu]:
    file = folder / "patched"
    file.write_text(text)
    return patched.read_patched(file)


def test_without_a_module_there_are_none(tmp_path: Path) -> None:
    assert patched.read_patched(tmp_path / "none") == []
    assert read(tmp_path, "") == []


def test_what_a_line_says(tmp_path: Path) -> None:
    assert read(tmp_path, ON + REFUSED) == [
        PatchedGpu("amdgpu", "0000:03:00.0", "on", 0, 17, None, 0),
        PatchedGpu("nvgpu", "17000000.gpu", "refused", 0, 0, "a = b reason=c"),
    ]


def test_what_a_user_has_to_know(tmp_path: Path) -> None:
    on, refused, other, unable, more = read(tmp_path, ON + REFUSED + OTHER + UNABLE + MORE)
    assert on.trouble is None
    assert (on.title, refused.title) == ("GPU 0 is amdgpu 0000:03:00.0", "nvgpu 17000000.gpu")
    assert refused.trouble == "nvgpu 17000000.gpu: not switched by gpurt.ko: a = b reason=c"
    assert other.trouble == "nvgpu: not switched by gpurt.ko: its port has version 2, this module needs 1"
    assert unable.trouble is not None
    assert "cannot switch" in unable.trouble
    assert more.trouble == "3 more GPUs are not listed"


@pytest.mark.parametrize("line", ["", "driver=amdgpu", "nonsense", ON.replace("17", "x"), ON.replace("state", "st")])
def test_a_line_that_is_not_understood_is_told(tmp_path: Path, line: str) -> None:
    with pytest.raises(ValueError, match="not understood"):
        read(tmp_path, line.strip() + "\n")
