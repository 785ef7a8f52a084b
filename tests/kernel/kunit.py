# SPDX-License-Identifier: GPL-2.0
"""The KUnit suites of kmod/tests/kunit*.c: what there is, and what a kernel's log says of it."""

from __future__ import annotations

import re

from kernels import ROOT

CASE = re.compile(r"^(?:\[[ .\d]+\] )? +(not ok|ok) \d+ (\w+)", re.MULTILINE)


def cases() -> set[str]:
    """The names of all cases in the sources."""
    sources = [path.read_text() for path in (ROOT / "kmod/tests").glob("kunit*.c")]
    return {name for text in sources for name in re.findall(r"KUNIT_CASE\((\w+)\)", text)}


def results(log: str) -> dict[str, str]:
    """The verdict on each case, "ok" or "not ok"."""
    return {name: verdict for verdict, name in CASE.findall(log)}
