# SPDX-License-Identifier: GPL-2.0
"""How much tests do that search at random: little in `scripts/test`, all with --all."""

from __future__ import annotations

import os

#: Set by conftest.py where --all is given, before any test file is imported.
ALL = "GPURT_ALL_TESTS"
#: So many times fewer examples without it.
FEWER = 8


def tries(number: int, at_least: int = 15) -> int:
    """How many examples a test looks at that looks at ``number`` with --all."""
    return number if os.environ.get(ALL) else min(number, max(number // FEWER, at_least))
