# SPDX-License-Identifier: GPL-2.0
"""docs/support.md and README's digest are what scripts/make-support writes, which reads the code's own tables."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_the_page_is_up_to_date() -> None:
    done = subprocess.run([sys.executable, ROOT / "scripts/make-support", "--check"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_every_series_and_every_family_has_a_line() -> None:
    """A family of drivers or a release with patches cannot come without its line."""
    page = (ROOT / "docs/support.md").read_text()
    for one in (ROOT / "kmod/patches").glob("*/*/series"):
        driver, release = one.parts[-3:-1]
        assert re.search(rf"\\| {driver} \\| (Linux )?{release}:", page, re.I), one
    sources = "".join(one.read_text() for one in (ROOT / "userlib/preload").glob("*.c"))
    for name in re.findall(r'^\t\.name = "(\S+)",$', sources, re.M):
        assert f"`{name}`" in page, name
