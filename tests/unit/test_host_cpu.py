# SPDX-License-Identifier: GPL-2.0
"""The host stays above the threads that it serves, on a CPU that none of them may use."""

from __future__ import annotations

import ast
import os
import socket
import subprocess
import sys

import pytest
from unobserved import strangers

from pycontrol.machine import procs
from pycontrol.machine.placement import fifo_permitted
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


def test_real_time_threads_of_other_programs_are_seen() -> None:
    """Not of the kernel, nor of programs that the asking process has started."""
    if not fifo_permitted(7):
        pytest.skip("needs SCHED_FIFO")
    other = subprocess.Popen(["chrt", "-f", "7", "cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert other.stdin
    assert other.stdout
    with other:
        other.stdin.write(b"\n")
        other.stdin.flush()
        other.stdout.readline()
        words = "a, b = socket.socketpair(); print(host_cpu.strangers(a, ()))"
        program = f"import socket; from pycontrol.observe import host_cpu; {words}"
        found = ast.literal_eval(subprocess.check_output([sys.executable, "-c", program], text=True))
        with socket.socketpair()[0] as mine:
            assert other.pid not in strangers(mine, ())
        other.stdin.close()
    assert found[other.pid] == [(7, sorted(os.sched_getaffinity(0)))]
    assert not any((stat := procs.stat(pid)) and stat.kernel for pid in found)
