# SPDX-License-Identifier: GPL-2.0
"""Calls of `gpurt` in this process."""

from __future__ import annotations

import importlib
import pkgutil
import sys
from collections.abc import Callable
from typing import Any

import pytest

from pycontrol import cli, commands

#: Takes arguments; returns the exit code, stdout and stderr.
Gpurt = Callable[..., tuple[int, str, str]]


def caller(capture: pytest.CaptureFixture[Any], *first: str) -> Gpurt:
    """What runs the command with ``first`` and then its own arguments."""

    def call(*arguments: object) -> tuple[int, str, str]:
        code = cli.run([*first, *map(str, arguments)])
        out, err = capture.readouterr()
        return code, out, err

    return call


def everywhere(patch: pytest.MonkeyPatch, known: object, fake: object) -> None:
    """Puts ``fake`` in the place of ``known`` in each module that has it, also in those of commands."""
    for one in pkgutil.walk_packages(commands.__path__, "pycontrol.commands."):
        importlib.import_module(one.name)
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] in ("pycontrol", "analysis"):
            for key in [key for key, value in vars(module).items() if value is known]:
                patch.setattr(module, key, fake)
