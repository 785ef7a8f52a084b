# SPDX-License-Identifier: GPL-2.0
"""The fingerprint of the code that computes results: results depend on this code beside settings and seeds."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from functools import cache
from pathlib import Path

from gpurt import _gpurt


@cache
def fingerprint() -> str:
    """A hash of the package `analysis` and of the compiled scheduler and formulas.

    Results of two versions of the code are results of nothing, so that checkpoints have it.
    """
    return _hash([*_sources(), Path(str(_gpurt.__file__))])


@cache
def source_fingerprint() -> str:
    """The same without what is compiled, so that it is one for all machines."""
    return _hash(_sources())


def _sources() -> list[Path]:
    return sorted(Path(__file__).parents[1].rglob("*.py"))


def _hash(paths: Iterable[Path]) -> str:
    digest = hashlib.sha256()
    for path in paths:
        digest.update(f"{path.name}\0".encode() + hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()
