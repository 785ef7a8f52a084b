# SPDX-License-Identifier: GPL-2.0
"""Wrong netlink messages get the exact error and a text that says what is wrong, and change nothing."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from links import Client, client_of
from messages import ask, attributes, raw_attribute

from gpurt.enums import Command, Policy
from pycontrol.link.control import Control
from pycontrol.link.netlink import NLM_F_DUMP, NUMBERS

ME = os.getpid()
NESTED, BYTEORDER = 1 << 15, 1 << 14
PID, PRIORITY = attributes(PID=ME), attributes(PRIORITY=5)
SET = Command.SET_PRIORITY
GETS = [Command.GET_STATUS, Command.GET_CLIENTS, Command.GET_LATENCY]
ALL_GETS = [*GETS, Command.GET_BUS, Command.GET_RULES]
SETS = [
    Command.SET_PRIORITY, Command.SET_POLICY, Command.SET_BUDGET, Command.SET_EXEMPT, Command.SET_BARRED,
    Command.SET_GROUP,
]  # fmt: skip
RULES = (Command.SET_EXEMPT, Command.SET_BARRED)


@pytest.fixture
def client(host: Path) -> Iterator[Client]:
    """A client of this process, which commands can name."""
    with client_of(host) as made:
        made.begin(priority=40)
        yield made


def facts(plane: Control) -> list[object]:
    """Everything that a command could have changed."""
    clients = [(one.priority, one.set_priority, one.budget_ns, one.exempt, one.barred) for one in plane.clients()]
    return [clients, [(gpu.policy, gpu.notice, gpu.poll_ns) for gpu in plane.status()]]


def test_right_messages_are_carried_out(host: Path, client: Client) -> None:
    """Right messages pass, so the wrong ones below are refused for what is wrong with them."""
    assert ask(host, SET, PID + PRIORITY) == (0, "")
    assert ask(host, SET, PRIORITY + PID + attributes(GPU=0)) == (0, "")
    assert ask(host, Command.SET_POLICY, attributes(POLICY=1, NOTICE=0, POLL_NS=10**6)) == (0, "")
    assert ask(host, Command.SET_BUDGET, attributes(PID=ME, BUDGET_NS=0, OVERRUN=1)) == (0, "")
    assert ask(host, Command.SET_EXEMPT, attributes(PID=ME, EXEMPT=0)) == (0, "")
    assert ask(host, Command.SET_BARRED, attributes(PID=ME, BARRED=0)) == (0, "")
    assert [ask(host, command, attributes(GPU=0)) for command in GETS] == [(0, "")] * 3
    assert [ask(host, command) for command in ALL_GETS] == [(0, "")] * 5


MALFORMED = {
    "no attributes": (SET, b"", "missing"),
    "no PRIORITY": (SET, PID, "missing.*PRIORITY"),
    "no PID": (SET, PRIORITY, "missing.*PID"),
    "no POLICY": (Command.SET_POLICY, attributes(GPU=0), "missing.*POLICY"),
    "no BUDGET_NS": (Command.SET_BUDGET, PID, "missing.*BUDGET_NS"),
    "no EXEMPT": (Command.SET_EXEMPT, PID, "missing.*EXEMPT"),
    "no BARRED": (Command.SET_BARRED, PID, "missing.*BARRED"),
    "no GROUP": (Command.SET_GROUP, PID, "missing.*GROUP"),
    "EXEMPT of a bar": (Command.SET_BARRED, attributes(BARRED=0, PID=ME, EXEMPT=1), "belong|unsupported|unknown"),
    "PID twice": (SET, PID + PID + PRIORITY, "duplicate.*PID"),
    "GPU twice": (Command.GET_STATUS, attributes(GPU=0) * 2, "duplicate.*GPU"),
    "truncated": (SET, PID + PRIORITY[:-2], "truncated|left"),
    "longer than the message": (SET, PID + raw_attribute("PRIORITY", bytes(4), 64), "truncated|left"),
    "no room for its header": (SET, PID + PRIORITY + raw_attribute("GPU", b"", 2), "truncated|left"),
    "left over": (SET, PID + PRIORITY + b"\0\0", "left"),
    "foreign": (SET, PID + PRIORITY + attributes(BUDGET_NS=5), "belong|unsupported|unknown"),
    "foreign to GET": (Command.GET_STATUS, PID, "belong|unsupported|unknown"),
    "GPU of the rules": (Command.GET_RULES, attributes(GPU=0), "belong|unsupported|unknown"),
    "GPU of an exemption": (Command.SET_EXEMPT, attributes(EXEMPT=0, PID=ME, GPU=0), "belong|unsupported|unknown"),
    "an answer's": (SET, PID + PRIORITY + attributes(UPDATES=5), "belong|unsupported|unknown"),
    "unknown": (SET, PID + PRIORITY + raw_attribute(9999, bytes(4)), "unknown"),
    "attribute 0": (SET, PID + PRIORITY + raw_attribute(0, bytes(4)), "unknown|unsupported"),
    "padding as an attribute": (SET, PID + PRIORITY + raw_attribute("PAD", bytes(4)), "unknown|unsupported"),
    "too wide": (SET, PID + raw_attribute("PRIORITY", bytes(8)), "bytes|length"),
    "too narrow": (SET, PID + raw_attribute("PRIORITY", bytes(2)), "bytes|length"),
    "empty": (SET, PID + raw_attribute("PRIORITY", b""), "bytes|length"),
    "a narrow u64": (Command.SET_BUDGET, PID + raw_attribute("BUDGET_NS", bytes(4)), "bytes|length"),
    "nested": (SET, PID + raw_attribute(NUMBERS["PRIORITY"] | NESTED, bytes(4)), "nest"),
    "within another": (SET, PID + raw_attribute(NUMBERS["PRIORITY"] | NESTED, PRIORITY), "nest|bytes|length"),
    "a string without end": (
        Command.SET_EXEMPT, attributes(EXEMPT=1) + raw_attribute("COMM", b"abc"), "COMM|string|NUL|valid|length"
    ),
    "an empty string": (Command.SET_EXEMPT, attributes(EXEMPT=1, COMM=""), "COMM|empty"),
    "a long name": (Command.SET_EXEMPT, attributes(EXEMPT=1, COMM="x" * 16), "COMM|long|length|range|valid"),
    "a long path": (
        Command.SET_EXEMPT, attributes(EXEMPT=1, CGROUP="/" + "x" * 255), "CGROUP|long|length|range|valid"
    ),
}  # fmt: skip


@pytest.mark.usefixtures("client")
def test_malformed_messages_are_refused(host: Path, plane: Control) -> None:
    before, wrong = facts(plane), {}
    for name, (command, body, words) in MALFORMED.items():
        error, text = ask(host, command, body)
        if error != errno.EINVAL or not re.search(words, text, re.IGNORECASE):
            wrong[name] = (errno.errorcode.get(error, error), text)
    assert wrong == {}
    assert facts(plane) == before


@pytest.mark.usefixtures("client")
def test_messages_of_another_version_are_refused(host: Path, plane: Control) -> None:
    before = facts(plane)
    assert [ask(host, SET, PID + PRIORITY, version=version)[0] for version in (0, 2, 255)] == [errno.EINVAL] * 3
    assert ask(host, SET, PID + PRIORITY, reserved=1)[0] == errno.EINVAL
    assert facts(plane) == before


@pytest.mark.usefixtures("client")
def test_commands_that_there_are_not(host: Path, plane: Control) -> None:
    before = facts(plane)
    for command in (Command.EVENT, 0, 99, 255):
        assert ask(host, command, PID + PRIORITY)[0] == errno.EOPNOTSUPP
        assert ask(host, command, flags=NLM_F_DUMP)[0] == errno.EOPNOTSUPP
    dumped = {ask(host, command, PID + PRIORITY, flags=NLM_F_DUMP)[0] for command in SETS}
    assert dumped == {errno.EOPNOTSUPP}
    assert facts(plane) == before


VALUES = {
    "no such process": (SET, attributes(PID=2**31 - 7, PRIORITY=5), errno.ESRCH, "process"),
    "process 0": (SET, attributes(PID=0, PRIORITY=5), errno.ESRCH, "process"),
    "a process that cannot be": (SET, attributes(PID=2**32 - 1, PRIORITY=5), errno.ESRCH, "process"),
    "no client": (SET, attributes(PID=1, PRIORITY=5), errno.ESRCH, "process"),
    "priority 100": (SET, attributes(PID=ME, PRIORITY=100), errno.EINVAL, "priority"),
    "priority 254": (SET, attributes(PID=ME, PRIORITY=254), errno.EINVAL, "priority"),
    "priority 256": (SET, attributes(PID=ME, PRIORITY=256), errno.EINVAL, "priority"),
    "priority -1": (SET, attributes(PID=ME, PRIORITY=2**32 - 1), errno.EINVAL, "priority"),
    "no such GPU": (SET, attributes(PID=ME, PRIORITY=5, GPU=1), errno.ENODEV, "GPU"),
    "GPU 16": (Command.SET_POLICY, attributes(POLICY=1, GPU=16), errno.ENODEV, "GPU"),
    "GPU -1": (Command.SET_POLICY, attributes(POLICY=1, GPU=2**32 - 1), errno.ENODEV, "GPU"),
    "status of no GPU": (Command.GET_STATUS, attributes(GPU=3), errno.ENODEV, "GPU"),
    "clients of no GPU": (Command.GET_CLIENTS, attributes(GPU=3), errno.ENODEV, "GPU"),
    "latency of no GPU": (Command.GET_LATENCY, attributes(GPU=3), errno.ENODEV, "GPU"),
    "no such policy": (Command.SET_POLICY, attributes(POLICY=len(Policy)), errno.EINVAL, "policy"),
    "policy -1": (Command.SET_POLICY, attributes(POLICY=2**32 - 1), errno.EINVAL, "policy"),
    "no such notice": (Command.SET_POLICY, attributes(POLICY=2, NOTICE=2), errno.EINVAL, "notice"),
    "polling too often": (Command.SET_POLICY, attributes(POLICY=2, POLL_NS=1), errno.EINVAL, "polling period"),
    "polling never": (Command.SET_POLICY, attributes(POLICY=2, POLL_NS=2**64 - 1), errno.EINVAL, "polling period"),
    "no such action": (
        Command.SET_BUDGET, attributes(PID=ME, BUDGET_NS=1, PERIOD_NS=10**9, OVERRUN=2), errno.EINVAL, "overrun"
    ),
    "budget of no process": (
        Command.SET_BUDGET, attributes(PID=2**31 - 7, BUDGET_NS=1, PERIOD_NS=10**9), errno.ESRCH, "process"
    ),
    "budget of nobody": (Command.SET_BUDGET, attributes(BUDGET_NS=1, PERIOD_NS=10**9), errno.EINVAL, "exactly one"),
    "budget of two": (
        Command.SET_BUDGET, attributes(PID=ME, CGROUP="/a", BUDGET_NS=1, PERIOD_NS=10**9), errno.EINVAL, "exactly one"
    ),
    "budget without a period": (Command.SET_BUDGET, attributes(PID=ME, BUDGET_NS=1), errno.EINVAL, "period"),
    "budget of a short period": (
        Command.SET_BUDGET, attributes(PID=ME, BUDGET_NS=1, PERIOD_NS=10**6 - 1), errno.EINVAL, "period"
    ),
    "budget longer than its period": (
        Command.SET_BUDGET, attributes(PID=ME, BUDGET_NS=10**7, PERIOD_NS=10**7 - 1), errno.EINVAL, "longer"
    ),
    "budget of a relative cgroup": (
        Command.SET_BUDGET, attributes(CGROUP="a", BUDGET_NS=1, PERIOD_NS=10**9), errno.EINVAL, "path"
    ),
    "exempt twice": (Command.SET_EXEMPT, attributes(EXEMPT=2, PID=ME), errno.EINVAL, "EXEMPT"),
    "exempt without a rule": (Command.SET_EXEMPT, attributes(EXEMPT=1), errno.EINVAL, "exactly one"),
    "exempt both": (Command.SET_EXEMPT, attributes(EXEMPT=1, PID=ME, COMM="x"), errno.EINVAL, "exactly one"),
    "exempt no process": (Command.SET_EXEMPT, attributes(EXEMPT=1, PID=2**31 - 7), errno.ESRCH, "process"),
    "bar twice": (Command.SET_BARRED, attributes(BARRED=2, PID=ME), errno.EINVAL, "BARRED"),
    "bar without a rule": (Command.SET_BARRED, attributes(BARRED=1), errno.EINVAL, "exactly one"),
    "a relative cgroup": (Command.SET_EXEMPT, attributes(EXEMPT=1, CGROUP="x"), errno.EINVAL, "CGROUP"),
}


@pytest.mark.usefixtures("client")
def test_bad_values_are_refused(host: Path, plane: Control) -> None:
    before, wrong = facts(plane), {}
    for name, (command, body, error, words) in VALUES.items():
        got, text = ask(host, command, body)
        if got != error or not re.search(words, text, re.IGNORECASE):
            wrong[name] = (errno.errorcode.get(got, got), text)
    assert wrong == {}
    assert facts(plane) == before


ATTRIBUTES = st.lists(
    st.builds(raw_attribute, st.integers(0, len(NUMBERS) + 2), st.binary(max_size=12), st.none() | st.integers(0, 40)),
    max_size=6,
).map(b"".join)


@settings(max_examples=40 if os.environ.get("GPURT_TEST_KERNEL") else 120)  # an emulated machine is slow
@given(body=ATTRIBUTES | st.binary(max_size=60), command=st.integers(0, 12).filter(lambda c: c not in RULES))
def test_random_attributes_never_break_the_host(host: Path, plane: Control, body: bytes, command: int) -> None:
    """Rules are left out: one that came about by chance would stay."""
    assert ask(host, command, body)[0] in (0, errno.EINVAL, errno.ERANGE, errno.EOPNOTSUPP, errno.ENODEV, errno.ESRCH)
    assert plane.status()[0].policy in Policy
