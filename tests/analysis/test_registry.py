# SPDX-License-Identifier: GPL-2.0
"""The registry and what refers to it: the compiled formulas, the choice, the figures, README and the documentation."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
from attack_outcome import Effort
from attack_search import attack
from builders import cpu, gpu, task, taskset
from recorded import formula_of

from analysis import rta
from analysis.answers import choose, compiled
from analysis.answers import registry as product
from analysis.answers.verdict import answer, no_proof
from analysis.model import POLICIES, Task, Taskset, Waiting
from analysis.papers import registry
from analysis.papers.experiments import EXPERIMENTS
from analysis.rta import TermKind, attacks
from analysis.rta.recurrence import Demand
from analysis.rta.system import System
from gpurt.enums import Policy

ROOT = Path(__file__).resolve().parents[2]


def test_every_name_is_used_once() -> None:
    names = [row.name for row in registry.ALL_ROWS]
    assert len(set(names)) == len(names)
    assert not [name for name in names if name.endswith(rta.SUFFIX)]
    assert {test.base for test in registry.TESTS.values()} == set(names)
    assigning = {test.base for test in registry.TESTS.values() if test.assigns}
    assert assigning == {row.name for row in registry.ALL_ROWS if row.assignable}


def test_c_has_every_formula_that_a_row_names_and_no_other() -> None:
    named = {row.compiled for row in registry.ALL_ROWS if row.compiled}
    assert set(compiled.FORMULAS) == named
    assert sorted(compiled.FORMULAS.values()) == list(range(len(compiled.FORMULAS)))


def test_rows_of_one_compiled_formula_have_one_readable_formula() -> None:
    """Both rows then have equal bounds."""
    rows = [row for row in registry.ALL_ROWS if row.compiled]
    for one in rows:
        assert {other.demands for other in rows if other.compiled == one.compiled} == {one.demands}


def test_a_test_that_reduces_another_speaks_of_the_same_system() -> None:
    for name, reduced in registry.REDUCES.items():
        row, other = registry.find(name), registry.find(reduced)
        assert (other.policy, other.waiting, other.assignable) == (row.policy, row.waiting, row.assignable)
        assert other.compiled is not None
        assert row.compiled is None


@pytest.mark.parametrize("row", registry.ALL_ROWS, ids=lambda row: row.name)
def test_a_row_states_facts_that_fit_together(row: rta.Test) -> None:
    assert row.policy in POLICIES
    assert row.title
    assert row.source
    assert row.sound is not bool(row.note), "an unsound test says why, a sound one has nothing to say"
    assert row.poll == 0 or row.policy == "job"
    assert not (row.assignable and not (row.ordered or row.any_order))
    assert row.policy == "boosted" or (row.forms == (None,) and not row.any_order)


def test_every_shipped_policy_has_a_test_that_can_be_chosen() -> None:
    tests = {choice.test for choice in choose.choices(taskset(task("t", 0, 1, 10, cpu(1), gpu(1, 1))))}
    assert set(Policy.words()) <= POLICIES.keys(), "each needs a record in analysis/model/policy.py"
    missing = set(Policy.words()) - {registry.find(name).policy for name in tests}
    assert not missing, "each needs a test in ROWS of analysis/answers/registry.py, and its attack on record"


def test_no_answer_rests_on_what_only_a_paper_has() -> None:
    assert all(test.sound and test.policy in (*Policy.words(), "federated") for test in product.ROWS)
    with pytest.raises(ValueError, match="no test is called"):
        product.find_test("gcaps-suspend-printed")


def test_every_curve_of_a_figure_is_a_test() -> None:
    curves = [curve for experiment in EXPERIMENTS.values() for curve in experiment.curves]
    assert {registry.find(curve.test).sound for curve in curves if curve.dashed} == {False}


def test_soundness_says_of_every_test_what_the_registry_says() -> None:
    text = (ROOT / "docs/soundness.md").read_text(encoding="utf-8")
    shown = dict(re.findall(r"^\| `([^`]+)` \| (sound|unsound) \|", text, re.MULTILINE))
    every = (*registry.TESTS.values(), *registry.UNITS.values())
    said = {test.name: "sound" if test.sound else "unsound" for test in every}
    assert shown.items() ^ said.items() == set(), "a line of the table in docs/soundness.md for each test, as it is"


def test_rows_of_tasks_that_own_units_state_facts_that_fit_together() -> None:
    assert not registry.UNITS.keys() & registry.TESTS.keys()
    assert list(registry.UNITS) == list(registry.METHODS)
    for row in registry.UNITS_ROWS:
        assert row.policy == "federated"
        assert row.waiting is (Waiting.SUSPEND if registry.METHODS[row.name].forms else Waiting.BUSY)
        assert row.sound is not bool(row.note)
        assert row.analysis is not None
        assert registry.find(row.name) is row


def test_a_page_names_every_family_of_tests() -> None:
    text = (ROOT / "docs/policies.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`([a-z0-9-]+)`", text))
    families = {re.split("-(?:suspend|busy|mixed)", row.name)[0] for row in registry.ALL_ROWS}
    assert {family for family in families if not any(name.startswith(family) for name in named)} == set(), (
        "docs/policies.md names each")  # fmt: skip


def pessimistic(row: rta.Test) -> rta.Test:
    """A row for an analysis that nothing else in this repository knows."""
    return replace(row, name="tomorrow", title="tomorrow's bound", demands=row.demands, compiled=None)


def test_a_new_row_is_all_that_a_new_analysis_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Found by name, listed, analysed, assigned priorities, chosen and attacked, all from the row alone."""
    row = pessimistic(registry.find("gcaps-suspend"))
    for test in (row, row.with_assignment()):
        monkeypatch.setitem(product.TESTS, test.name, test)
    system = taskset(task("a", 0, 2, 20, cpu(1), gpu(0.5, 2)), task("b", 1, 1, 40, gpu(1, 3)), epsilon=0.1)
    assert product.find_test("tomorrow").run(system).wcrt("b") == registry.find("gcaps-suspend").run(system).wcrt("b")
    assert compiled.run_compiled(product.find_test("tomorrow"), system).schedulable
    monkeypatch.setitem(attacks.ATTACKS, "tomorrow", attacks.ATTACKS["gcaps-suspend"])
    assert "tomorrow" in [choice.test for choice in choose.choices(system)]
    outcome = attack(product.find_test("tomorrow+gpu-priority"), 5, effort=Effort(2, 2))
    assert outcome.tasksets == 5
    assert outcome.violations == 0


def optimistic(task: Task, _system: System) -> list[Demand]:
    """A draft of a formula that has forgotten all other tasks."""
    return [Demand(TermKind.OWN, task.cpu_time + task.gpu_time, "a draft")]


def test_a_draft_runs_by_name_and_decides_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Although its row says that it is sound: no attack is recorded."""
    system = taskset(task("a", 0, 2, 20, cpu(1), gpu(1, 12)), task("b", 1, 1, 20, gpu(1, 12)), epsilon=0.1)
    before = {choice.test: choice.schedulable for choice in choose.choices(system)}
    row = replace(pessimistic(registry.find("boosted-suspend")), demands=optimistic, instead=None, ends=None)
    everything = {row.name: row, **product.TESTS}
    monkeypatch.setattr(product, "TESTS", everything)
    assert product.find_test("tomorrow").run(system).schedulable
    assert "tomorrow is a draft" in no_proof(row, system)
    assert not answer(system).schedulable
    assert {choice.test: choice.schedulable for choice in choose.choices(system)} == before
    monkeypatch.setitem(attacks.ATTACKS, "tomorrow", attacks.ATTACKS["gcaps-suspend"])
    assert answer(system).schedulable  # as it would with a record


@pytest.mark.parametrize("name", [name for name, test in {**registry.TESTS, **registry.UNITS}.items() if test.sound])
def test_the_attack_on_a_sound_test_is_recorded(name: str) -> None:
    record = attacks.ATTACKS.get(name)
    assert record is not None, f"scripts/record-attacks {name}"
    assert record.formula == formula_of(registry.find(name)), f"its formula changed: scripts/record-attacks {name}"
    assert min(record.bounded, record.jobs) > 0


def test_an_unknown_name_is_answered_with_near_ones() -> None:
    with pytest.raises(ValueError, match="did you mean gcaps-busy"):
        registry.find("gcaps-buzy")


def test_refusal_follows_from_policy_and_waiting() -> None:
    """Equals of one CPU: only where one can wait for the other for ever is a bound refused."""
    equals = taskset(task("a", 0, 1, 20, gpu(0, 1)), task("b", 0, 1, 20, gpu(0, 1)))
    contended = Taskset(equals.platform, (*equals, task("c", 1, 2, 20, gpu(0, 1))))
    refused = {
        row.name: tuple(row.refusal(row.seen(one)) is not None for one in (equals, contended))
        for row in registry.ALL_ROWS
    }
    assert refused["thesis-kthread-busy"] == (True, True)
    assert refused["gcaps-busy"] == (False, True)
    for row in registry.ALL_ROWS:
        if row.waiting is Waiting.SUSPEND or row.policy not in ("segment", "job"):
            assert refused[row.name] == (False, False)
