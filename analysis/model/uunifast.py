# SPDX-License-Identifier: GPL-2.0
"""UUniFast (Bini and Buttazzo, 2005).  Tasksets from a seed use another: papers/experiments/generate.py."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def uunifast(drawn: NDArray[np.float64], total: float) -> NDArray[np.float64]:
    """Utilizations of sum ``total``: for each row of numbers drawn from [0, 1), a row with one element more."""
    rows, whole = len(drawn), np.full((len(drawn), 1), total)
    left = np.cumprod(np.concatenate([whole, drawn ** (1 / np.arange(drawn.shape[1], 0, -1))], axis=1), axis=1)
    shares: NDArray[np.float64] = left - np.concatenate([left[:, 1:], np.zeros((rows, 1))], axis=1)
    return shares
