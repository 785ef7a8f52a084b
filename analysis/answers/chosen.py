# SPDX-License-Identifier: GPL-2.0
"""The tests that an answer rests on: the tests that the user named, or the test of the file's verdict."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from analysis.answers import compiled, registry
from analysis.answers.beside import Beside, beside
from analysis.answers.elsewhere import another
from analysis.answers.registry import UNITS
from analysis.answers.verdict import answer, no_proof, unlike_the_file
from analysis.model import Taskset
from analysis.rta import Test
from analysis.rtgpu.assumed import assumed_of_units
from gpurt.errors import UsageError


def tests(names: Sequence[str]) -> list[Test]:
    """The schedulability tests with these names.

    Raises:
        UsageError: no test has one of these names.
    """
    try:
        return [registry.find_test(name) for name in names]
    except ValueError as error:
        raise UsageError(f"--test: {error}") from None


class Chosen(NamedTuple):
    """The test that a command uses, or None.

    ``why``: why there is no test, or why passing it proves nothing.  ``notes``: remarks on the test.
    """

    test: Test | None
    why: str
    notes: list[str]


def covering_test(taskset: Taskset, name: str | None) -> Chosen:
    """The test of that name; without a name, the test on which the verdict on the taskset rests."""
    if name:
        test = tests((name,))[0]
        how = unlike_the_file(test, taskset)
        return Chosen(test, no_proof(test, taskset) or (another(test, how) if how else ""),
                      about_others([test], taskset))  # fmt: skip
    found = answer(taskset)
    passed = found.result is not None and found.result.schedulable
    return Chosen(found.test, found.why if passed or not found.test else "", about_others([], taskset))


def beside_of(taskset: Taskset, test: Test | None, why: str, name: str | None, command: str) -> Beside:
    """The known facts beside a no that rests on this test.  ``name``: the test that the user named."""
    if not why:
        return Beside()
    results = [(test, compiled.run_compiled(test, taskset))] if test and taskset.real_time else []
    return beside(taskset, why, results, bool(name), command)


def about_others(chosen: Sequence[Test], taskset: Taskset) -> list[str]:
    """The assumptions of the named tests, and a remark for each test that is for another system than the file's.

    Without one, the assumptions of the tests for the file's policy.
    """
    remarks = [another(test, how) for test in chosen if (how := unlike_the_file(test, taskset))]
    units = any(test.name in UNITS for test in chosen) or (not chosen and all(one.units for one in taskset.rules))
    return remarks + (assumed_of_units(taskset) if units else [])
