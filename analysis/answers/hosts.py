# SPDX-License-Identifier: GPL-2.0
"""The kinds of hosts, and whether each can do what a choice of policy and waiting modes asks for."""

from __future__ import annotations

from collections.abc import Iterable

from analysis.model import POLICIES, Waiting


def unable(host: str, policy: str, modes: Iterable[Waiting]) -> str:
    """Why this kind of host cannot meet the bounds under this policy and waiting mode; empty if it can.

    ``host``: agents of programs (`gpurt serve`), the kernel module, or virtual GPUs in user space (`emulate`).
    """
    if POLICIES[policy].jobs and host != "module":
        return "policy job has bounds for a host's thread that stays on its CPU, which gpurt.ko alone has"
    if host == "agents" and POLICIES[policy].raises and any(mode.spins for mode in modes):
        return "updates by agents sleep: no bound of policy boosted holds then for tasks that wait busily"
    return ""
