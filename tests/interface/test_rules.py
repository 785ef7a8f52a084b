# SPDX-License-Identifier: GPL-2.0
"""The rules about processes are listed: which there are, all of them, and of one time."""

from __future__ import annotations

import contextlib
import errno
import itertools
import os
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from actors import Actor
from links import PATIENCE, Client, eventually, is_device, transport_of
from messages import SEQUENCE

from gpurt._gpurt import lib
from gpurt.enums import Command
from gpurt.errors import RefusedError
from pycontrol.host.wire import GENERIC
from pycontrol.link.control import Control, RuleInfo
from pycontrol.link.control import connect as control
from pycontrol.link.netlink import (
    HEADER,
    NLM_F_DUMP,
    NLM_F_DUMP_INTR,
    NLM_F_REQUEST,
    NLMSG_DONE,
    NLMSG_ERROR,
    Transport,
    decode,
    split,
)
from pycontrol.readable import readable

ME = os.getpid()
LIMIT = lib.GPURT_MAX_RULES


@pytest.fixture(autouse=True)
def none_left(plane: Control) -> Iterator[None]:
    """The module keeps its rules: a test begins without any, and leaves none."""
    module = is_device(Path(plane.device))
    if module:
        forget(plane)
    yield
    if module:
        forget(plane)


def forget(plane: Control) -> None:
    """Removes all rules."""
    for one in plane.rules():
        change = plane.set_exempt if one.exempt else plane.set_barred
        change(False, pid=one.pid, comm=one.comm, cgroup=one.cgroup)


def cgroups(plane: Control) -> bool:
    """Whether there can be rules by cgroup."""
    try:
        plane.set_exempt(True, cgroup="/")
    except RefusedError:
        return False
    plane.set_exempt(False, cgroup="/")
    return True


def what(one: RuleInfo) -> tuple[bool, int | str | None]:
    """The effect of a rule, and the processes that the rule names."""
    return one.exempt, one.pid or one.comm or one.cgroup


def test_rules_are_listed_in_the_order_in_which_they_were_made(plane: Control) -> None:
    before = time.monotonic_ns()
    plane.set_exempt(True, comm="Xorg")
    plane.set_barred(True, pid=ME)
    plane.set_exempt(True, pid=ME)
    plane.set_barred(True, comm="Xorg")
    between = time.monotonic_ns()
    found = plane.rules()
    assert [what(one) for one in found] == [(True, "Xorg"), (False, ME), (True, ME), (False, "Xorg")]
    times = [before, *(one.since_ns for one in found), between]
    assert times == sorted(times)
    plane.set_exempt(True, comm="Xorg")  # it is in force already
    assert plane.rules() == found
    plane.set_barred(False, pid=ME)
    assert plane.rules() == [found[0], *found[2:]]
    plane.set_barred(True, pid=ME)
    assert [what(one) for one in plane.rules()] == [(True, "Xorg"), (True, ME), (False, "Xorg"), (False, ME)]


def test_a_rule_by_cgroup_is_listed(plane: Control) -> None:
    longest = "/" + "x" * (lib.GPURT_CGROUP_LEN - 2)
    if not cgroups(plane):
        pytest.skip("needs cgroups of version 2")
    plane.set_exempt(True, cgroup=longest)
    plane.set_exempt(True, comm="/x")
    plane.set_exempt(True, cgroup="/x")
    plane.set_exempt(False, comm="/x")
    assert [(one.pid, one.comm, one.cgroup) for one in plane.rules()] == [(None, None, longest), (None, None, "/x")]


def test_a_rule_about_a_process_that_has_ended_is_not(spawn: Callable[..., Actor], plane: Control) -> None:
    actor = spawn()
    plane.set_exempt(True, pid=actor.pid)
    plane.set_exempt(True, pid=ME)
    assert [what(one) for one in plane.rules()] == [(True, actor.pid), (True, ME)]
    actor.kill()
    eventually(lambda: [what(one) for one in plane.rules()] == [(True, ME)])


def test_as_many_as_there_may_be_are_all_listed(plane: Control, connect: Callable[[], Client]) -> None:
    """Longest texts where there are cgroups: the answer takes many buffers of the kernel, and of the host's socket.

    The module's limit is tested by kunit.c (rules_are_limited): it takes a minute in an emulated machine.
    """
    module = is_device(Path(plane.device))
    rules = [{"comm": f"rule {number}"} for number in range(600 if module else LIMIT)]
    if cgroups(plane):
        rules = [{"cgroup": f"/{number:0{lib.GPURT_CGROUP_LEN - 2}}"} for number in range(len(rules))]
    for rule in rules:
        plane.set_exempt(True, **rule)  # type: ignore[arg-type]
    if not module:
        with pytest.raises(RefusedError, match="such rules") as refused:
            plane.set_exempt(True, comm="one more")
        assert refused.value.errno == errno.ENOBUFS
    plane.set_exempt(True, **rules[0])  # type: ignore[arg-type]
    plane.set_barred(True, comm="barred")
    expected = [(True, *rule.values()) for rule in rules] + [(False, "barred")]
    assert [what(one) for one in plane.rules()] == expected
    slow = asked(plane)
    with contextlib.closing(slow):
        client = connect()  # one that does not read its answer keeps nobody waiting
        client.begin(priority=3)
        client.end()
        told = [one for part in parts(slow) for _, one in part if one]
    assert told == expected


def asked(plane: Control) -> Transport:
    """A connection that has asked for the rules, and has not read the answer."""
    transport = transport_of(Path(plane.device))
    payload = GENERIC.pack(Command.GET_RULES, 1, 0)
    flags = NLM_F_REQUEST | NLM_F_DUMP
    transport.send(HEADER.pack(HEADER.size + len(payload), transport.family, flags, SEQUENCE, 0) + payload)
    return transport


def parts(transport: Transport) -> Iterator[list[tuple[bool, tuple[bool, int | str] | None]]]:
    """Reads the answer part by part: of each message whether it says that rules changed, and the rule; None last."""
    while True:
        assert readable(transport, PATIENCE), "no answer"
        made: list[tuple[bool, tuple[bool, int | str] | None]] = []
        for kind, flags, sequence, data in split(transport.receive()):
            assert (sequence, kind != NLMSG_ERROR) == (SEQUENCE, True)
            told = None if kind == NLMSG_DONE else decode(data).attributes
            rule = told and ("EXEMPT" in told, told.get("COMM", told.get("CGROUP", told.get("PID"))))
            made.append((bool(flags & NLM_F_DUMP_INTR), rule))  # type: ignore[arg-type]
        yield made
        if made[-1][1] is None:
            return


def test_an_answer_ends_although_rules_are_made_all_the_time(plane: Control) -> None:
    """Rules that change while the answer is read are in it or not; the module says that there was a change."""
    names = [f"rule {number}" for number in range(600)]
    for name in names:
        plane.set_exempt(True, comm=name)
    transport, told, changed = asked(plane), [], False
    with contextlib.closing(transport):
        for number, part in enumerate(parts(transport)):
            told += [rule[1] for _, rule in part if rule]
            changed = part[-1][0]
            plane.set_exempt(True, comm=f"later {number}")
            plane.set_exempt(False, comm=names[-1])
    assert told[:-1] == names[: len(told) - 1]
    assert len(told) in (len(names) - 1, len(names))
    assert set(told) <= set(names)
    assert changed == is_device(Path(plane.device))  # the user-space host answers with the rules of one time


def test_rules_that_change_are_told_as_of_one_time(plane: Control) -> None:
    """One of two rules is always there, never both: another administrator exchanges them."""
    for number in range(400):
        plane.set_exempt(True, comm=f"rule {number}")
    over = threading.Event()

    def exchange(other: Control) -> None:
        for number in itertools.cycle(range(2)):
            other.set_barred(True, comm=f"it {number}")
            other.set_barred(False, comm=f"it {1 - number}")
            if over.wait(0.01):
                return

    with control(plane.device) as other:
        plane.set_barred(True, comm="it 1")
        thread = threading.Thread(target=exchange, args=(other,))
        thread.start()
        try:
            for _ in range(20):
                found = plane.rules()
                assert sum(one.exempt for one in found) == 400
                assert 1 <= sum(not one.exempt for one in found) <= 2
        finally:
            over.set()
            thread.join()
