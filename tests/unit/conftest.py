# SPDX-License-Identifier: GPL-2.0
"""Searches that are made once."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest

from analysis.answers.growth import Growth, Show, growth
from analysis.model import Taskset
from pycontrol.commands import margins
from pycontrol.observe.report import evidence
from pycontrol.output import render


@cache
def _searched(taskset: Taskset, name: str | None, own: bool) -> Growth:
    return growth(taskset, name, render.progress, own)


@pytest.fixture
def margins_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The margins of a taskset are searched once for all tests of a page: that is most of what it takes."""

    def searched(taskset: Taskset, name: str | None, _show: Show, own: bool = True, interrupted: Any = None) -> Growth:
        return _searched(taskset, name, own)

    for module in (evidence, margins):
        monkeypatch.setattr(module, "growth", searched)
