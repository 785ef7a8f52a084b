# SPDX-License-Identifier: GPL-2.0
"""What results depend on beside settings and seeds: the code that computes them."""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path

from gpurt import _gpurt


@cache
def fingerprint() -> str:
    """A hash of the package `analysis` and of the compiled scheduler and formulas.

    Results of two versions of the code are results of nothing, so that checkpoints have it.
    """
    here = Path(__file__).parent
    digest = hashlib.sha256()
    for path in (*sorted(here.rglob("*.py")), Path(str(_gpurt.__file__))):
        digest.update(f"{path.name}\0".encode() + hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()
