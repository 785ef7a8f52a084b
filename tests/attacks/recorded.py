# SPDX-License-Identifier: GPL-2.0
"""The record of the attacks on the tests, without which a test proves nothing by default (analysis/rta/attacks.py)."""

from __future__ import annotations

import ast
import hashlib
import inspect
import textwrap
from collections.abc import Mapping
from pathlib import Path

from attack_outcome import Effort
from attack_search import attack
from own_units import attack_own

from analysis.rta import Test, attacks
from analysis.rta.attacks import Attack
from analysis.rtgpu import bounds

#: The effort of a recorded attack; docs/soundness.md has longer ones.
TASKSETS, SEED, EFFORT = 400, 7, Effort(2, 4)


def formula_of(test: Test) -> str:
    """A hash of the function that is the test's formula; comments and docstrings do not count."""
    formula = bounds if test.analysis else getattr(test.demands, "func", test.demands)
    tree = ast.parse(textwrap.dedent(inspect.getsource(formula)))
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.Module, ast.ClassDef)) and ast.get_docstring(node) is not None:
            node.body = node.body[1:]
    return hashlib.sha256(repr(_shape(tree)).encode()).hexdigest()[:16]


def _shape(part: object) -> object:
    """As ast.dump(), but the same in every release of Python: what is empty or None does not count."""
    if isinstance(part, list):
        return [_shape(one) for one in part]
    if not isinstance(part, ast.AST):
        return part
    fields = ((name, value) for name, value in ast.iter_fields(part) if value is not None and value != [])
    return type(part).__name__, [(name, _shape(value)) for name, value in fields]


def attacked(test: Test) -> Attack:
    """Attacks the test, for the record.  Raises ValueError if that breaks a bound, or finds none to attack."""
    outcome = (attack_own if test.analysis else attack)(test, TASKSETS, SEED, effort=EFFORT)
    if outcome.violations or not outcome.schedulable:
        raise ValueError(f"{test.name}: {outcome.violations} of {outcome.schedulable} tasksets exceed a bound")
    return Attack(outcome.schedulable, outcome.jobs, formula_of(test))


def save(found: Mapping[str, Attack]) -> None:
    """Writes the record."""
    path = Path(str(attacks.__file__))
    head, _, _ = path.read_text(encoding="utf-8").partition("ATTACKS: ")
    rows = "".join(
        f'    "{name}": Attack({one.bounded:_}, {one.jobs:_}, "{one.formula}"),\n' for name, one in found.items()
    )
    path.write_text(f"{head}ATTACKS: dict[str, Attack] = {{\n{rows}}}\n", encoding="utf-8")
