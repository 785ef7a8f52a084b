# SPDX-License-Identifier: GPL-2.0
"""kmod/compat.h refuses kernels that the module does not support, each in one line."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

COMPAT = Path(__file__).parents[2] / "kmod/compat.h"
KERNEL = {"LINUX_VERSION_CODE": "KERNEL_VERSION(5, 10, 0)", "CONFIG_64BIT": "1", "CONFIG_TRACEPOINTS": "1"}


def errors(folder: Path, kernel: dict[str, str]) -> list[str]:
    """What the preprocessor has to say for a kernel with these macros.  Its own headers are empty."""
    for header in re.findall(r"#include <(.*)>", COMPAT.read_text()):
        (folder / header).parent.mkdir(parents=True, exist_ok=True)
        (folder / header).touch()
    macros = [f"-D{name}={value}" for name, value in kernel.items()]
    version = "-DKERNEL_VERSION(a, b, c)=((a) << 16 | (b) << 8 | (c))"
    command = [shutil.which("cc") or "gcc", "-E", "-nostdinc", f"-I{folder}", version, *macros, str(COMPAT)]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (run.returncode != 0) == ("error" in run.stderr), run.stderr
    return re.findall(r"#error (.*)", "\n".join(line for line in run.stderr.splitlines() if " error: " in line))


def test_a_supported_kernel_has_nothing_to_be_told(tmp_path: Path) -> None:
    assert errors(tmp_path, KERNEL) == []


@pytest.mark.parametrize(
    ("macro", "value", "why"),
    [
        ("LINUX_VERSION_CODE", "KERNEL_VERSION(5, 9, 255)", "needs Linux 5.10 or newer"),
        ("CONFIG_64BIT", None, "needs a 64-bit kernel"),
        ("CONFIG_TRACEPOINTS", None, "needs CONFIG_TRACEPOINTS"),
    ],
)
def test_another_kernel_is_refused_in_one_line(tmp_path: Path, macro: str, value: str | None, why: str) -> None:
    kernel = {**KERNEL, macro: value}
    (said,) = errors(tmp_path, {name: content for name, content in kernel.items() if content is not None})
    assert why in said
