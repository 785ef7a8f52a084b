# SPDX-License-Identifier: GPL-2.0
"""The effort of tests that search, or try many cases of one kind: little in `scripts/test`, all with --all."""

from __future__ import annotations

import os
from collections.abc import Iterable

#: conftest.py sets it if --all is given, before any test file is imported.
ALL = "GPURT_ALL_TESTS"
#: The divisor of the number of examples without --all.
FEWER = 8


def everything() -> bool:
    """Whether tests do all they can: with --all, or with GPURT_LONG, which asks for even more."""
    return bool(os.environ.get(ALL) or os.environ.get("GPURT_LONG"))


def tries(number: int, at_least: int = 15) -> int:
    """The number of examples for a test that tries ``number`` with --all."""
    return number if everything() else min(number, max(number // FEWER, at_least))


def some(names: Iterable[str]) -> list[str]:
    """The cases to try out of many of one kind: all with --all."""
    return list(names)[:: 1 if everything() else FEWER // 2]
