# SPDX-License-Identifier: GPL-2.0
"""Exemptions by cgroup on a machine whose cgroups are of version 1."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from gpurt.errors import RefusedError
from pycontrol.link.control import Control

MOUNTED = Path("/sys/fs/cgroup")


def test_a_rule_that_could_never_match_is_refused(module: Control) -> None:
    module.set_exempt(True, cgroup="/there/may/be/one/later")
    module.set_exempt(False, cgroup="/there/may/be/one/later")
    subprocess.run(["umount", MOUNTED], check=True)
    try:
        with pytest.raises(RefusedError, match="version 2"):
            module.set_exempt(True, cgroup="/x")
        module.set_exempt(False, cgroup="/x")
    finally:
        subprocess.run(["mount", "-t", "cgroup2", "none", MOUNTED], check=True)
