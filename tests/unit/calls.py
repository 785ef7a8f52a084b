# SPDX-License-Identifier: GPL-2.0
"""Calls of `gpurt` in this process."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from pycontrol import cli

#: Takes arguments; returns the exit code, stdout and stderr.
Gpurt = Callable[..., tuple[int, str, str]]


def caller(capture: pytest.CaptureFixture[Any], *first: str) -> Gpurt:
    """What runs the command with ``first`` and then its own arguments."""

    def call(*arguments: object) -> tuple[int, str, str]:
        code = cli.run([*first, *map(str, arguments)])
        out, err = capture.readouterr()
        return code, out, err

    return call
