# SPDX-License-Identifier: GPL-2.0
"""How much tests do that search, or try many cases of one kind: little in `scripts/test`, all with --all."""

from __future__ import annotations

import os
from collections.abc import Iterable

#: Set by conftest.py where --all is given, before any test file is imported.
ALL = "GPURT_ALL_TESTS"
#: So many times fewer examples without it.
FEWER = 8


def everything() -> bool:
    """Whether tests do all they can: --all, or GPURT_LONG, which asks for more than that."""
    return bool(os.environ.get(ALL) or os.environ.get("GPURT_LONG"))


def tries(number: int, at_least: int = 15) -> int:
    """How many examples a test looks at that looks at ``number`` with --all."""
    return number if everything() else min(number, max(number // FEWER, at_least))


def some(names: Iterable[str]) -> list[str]:
    """Which of many cases of one kind are tried: all with --all."""
    return list(names)[:: 1 if everything() else FEWER // 2]
