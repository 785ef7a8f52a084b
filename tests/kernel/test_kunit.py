# SPDX-License-Identifier: GPL-2.0
"""The KUnit suites of kmod/kunit*.c, in user-mode Linux and in the kernel that reports whatever it can."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

# The first test may have to build the kernel.
pytestmark = pytest.mark.timeout(3600)
ROOT = Path(__file__).resolve().parents[2]
MISSING = 3
CASE = re.compile(r"^(?:\[[ .\d]+\] )? +(not ok|ok) \d+ (\w+)", re.MULTILINE)


def cases() -> set[str]:
    """The names of all cases in the sources."""
    sources = [path.read_text() for path in (ROOT / "kmod").glob("kunit*.c")]
    return {name for text in sources for name in re.findall(r"KUNIT_CASE\((\w+)\)", text)}


@pytest.mark.parametrize("script", ["uml-run", "debug-run"])
def test_every_case_passes(script: str) -> None:
    done = subprocess.run([ROOT / "scripts" / script, "--kunit", "dmesg"], capture_output=True, text=True, check=False)
    if done.returncode == MISSING:
        pytest.skip(done.stderr.strip())
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr
    results = {name: verdict for verdict, name in CASE.findall(done.stdout)}
    assert set(results) == cases()
    assert [name for name, verdict in results.items() if verdict != "ok"] == [], done.stdout
