# SPDX-License-Identifier: GPL-2.0
"""The host stays above the threads that it serves, on a CPU that none of them may use."""

from __future__ import annotations

import pytest

from pycontrol.observe.host_cpu import Running, cpu_objections

HOST = Running(1, 1, 98, frozenset({0}))


@pytest.mark.parametrize(
    ("priority", "cpus", "said"),
    [(50, {1, 2}, []), (0, {0, 1}, []), (50, {0, 1}, ["may use CPU 0"]), (98, {1}, ["has priority 98, the host 98"])],
)
def test_what_a_clients_thread_may_have(priority: int, cpus: set[int], said: list[str]) -> None:
    found = list(cpu_objections(HOST, [Running(7, 8, priority, frozenset(cpus))]))
    assert len(found) == len(said)
    assert all(part in text for part, text in zip(said, found, strict=True))


def test_a_host_without_a_priority_is_above_no_real_time_thread() -> None:
    (found,) = cpu_objections(Running(1, 1, 0, frozenset({0})), [Running(7, 8, 1, frozenset({1}))])
    assert found == "thread 8 of process 7 has priority 1, the host 0"
