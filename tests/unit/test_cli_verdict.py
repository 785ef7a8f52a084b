# SPDX-License-Identifier: GPL-2.0
"""The verdict on a file: analyze, sensitivity, assign and simulate follow its policy and waiting modes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from calls import Gpurt, caller

from analysis.answers import registry
from analysis.answers.choose import choices
from analysis.answers.verdict import answer, covering, stated
from analysis.model import Waiting
from analysis.papers import registry as papers
from analysis.taskset import load

ROOT = Path(__file__).resolve().parents[2]
CASE_STUDY = str(ROOT / "examples/case-study.toml")
TWO = str(ROOT / "examples/two-programs.toml")

#: Schedulable if both suspend; b misses its deadlines because a waits busily.
SPINNER = """
[platform]
cpus = 1
epsilon = "1ms"
[[task]]
name = "a"
cpu = 0
priority = 20
period = "100ms"
waiting = "busy"
segments = [{ misc = "1ms", gpu = "60ms" }]
[[task]]
name = "b"
cpu = 0
priority = 10
period = "100ms"
deadline = "80ms"
segments = [{ cpu = "30ms" }]
"""
#: The same for the policy of the papers.
SEGMENT = SPINNER.replace("cpus = 1", 'cpus = 1\npolicy = "segment"')

Write = Callable[[str], str]


@pytest.fixture
def gpurt(capfd: pytest.CaptureFixture[str]) -> Gpurt:
    """Runs the command in this process: exit code, stdout, stderr."""
    return caller(capfd)


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Writes a taskset file; its path."""

    def one(text: str) -> str:
        path = tmp_path / "set.toml"
        path.write_text(text)
        return str(path)

    return one


def test_analyze_answers_for_the_files_waiting_modes(gpurt: Gpurt, write: Write) -> None:
    for text, tests in ((SPINNER, "boosted"), (SEGMENT, "gcaps")):
        code, out, _ = gpurt("analyze", write(text))
        assert code == 1
        assert out.count("WCRT ms") == 1
        assert out.startswith(f"{tests}-busy ")
        assert out.count("no bound below the deadline") == 1
        code, out, _ = gpurt("analyze", write(text.replace('"busy"', '"suspend"')))
        assert code == 0
        assert out.startswith(f"{tests}-suspend ")


def test_commands_agree_on_the_verdict(gpurt: Gpurt, write: Write) -> None:
    for text in (SPINNER, SEGMENT):
        for mode, code in (("busy", 1), ("suspend", 0)):
            path = write(text.replace('"busy"', f'"{mode}"'))
            assert [gpurt(name, path)[0] for name in ("analyze", "margins", "plan priorities",
                                                      "simulate")] == [code] * 4  # fmt: skip


def test_analyze_answers_for_the_files_policy(gpurt: Gpurt, write: Write) -> None:
    text = Path(TWO).read_text()
    assert gpurt("analyze", write(text))[0] == 0
    shared = write(text.replace("cpus = 2", 'cpus = 2\npolicy = "timesliced"'))
    code, out, _ = gpurt("analyze", shared, "--json")
    data = json.loads(out)
    assert code == 1
    assert (data["policy"], data["schedulable"]) == ("timesliced", False)
    assert [test["test"] for test in data["tests"]] == ["tsg-rr-suspend"]
    assert "detector" in data["why"]
    assert gpurt("simulate", shared, "--runs", "10")[0] == 1


def test_a_policy_without_a_covering_test_is_not_proved(gpurt: Gpurt, write: Write) -> None:
    text = Path(TWO).read_text().replace("cpus = 2", 'cpus = 2\npolicy = "job"')
    code, out, _ = gpurt("analyze", write(text))
    assert code == 1
    assert "no sound test is known for tasks that wait in mode suspend under policy job" in out
    mixed = text.replace('"job"', '"lock-fifo"').replace('waiting = "suspend"', 'waiting = "busy"', 1)
    code, out, _ = gpurt("analyze", write(mixed))
    assert code == 1
    assert "some suspend and some wait busily under policy lock-fifo" in out
    code, out, _ = gpurt("margins", write(text))
    assert code == 1
    assert "no sound test is known" in out


@pytest.mark.parametrize("policy", ["job", "lock-fifo", "segment", "timesliced", "boosted"])
def test_tasks_without_the_gpu_wait_in_no_mode(gpurt: Gpurt, write: Write, policy: str) -> None:
    """Any test of the policy covers them, also where there is none for the default mode."""
    text = SPINNER.replace("cpus = 1", f'cpus = 1\npolicy = "{policy}"').replace('waiting = "busy"\n', "")
    text = text.replace('{ misc = "1ms", gpu = "60ms" }', '{ cpu = "40ms" }')
    for name in ("analyze", "margins"):
        assert gpurt(name, write(text))[0] == 0
    code, out, _ = gpurt("analyze", write(text.replace('"30ms"', '"41ms"')))
    assert (code, "no bound below the deadline" in out) == (1, True)


@pytest.mark.parametrize(
    ("name", "how"),
    [
        ("gcaps-suspend", "tasks that all wait in mode suspend"),
        ("lock-fifo-busy", "policy lock-fifo"),
        ("gcaps-busy+gpu-priority", "GPU priorities that `gpurt plan priorities` finds where the file's fail"),
        ("thesis-kthread-busy", "policy job, a thread that stays on CPU 0"),
        ("boosted-busy-fence", "policy boosted, tasks of other forms"),
        ("gcaps-busy", ""),
        ("gcaps-mixed", ""),
    ],
)
def test_a_named_test_of_another_system_is_told_apart(gpurt: Gpurt, write: Write, name: str, how: str) -> None:
    path = write(SEGMENT)
    note = f"note: {name} is about {how}: the file's system is another one\n"
    assert gpurt("analyze", path, "--test", name)[2] == (note if how else "")
    assert gpurt("margins", path, "--test", name)[2] == (note if how else "")
    document = json.loads(gpurt("analyze", path, "--test", name, "--json")[1])
    assert document["notes"] == ([note[6:-1]] if how else [])


#: Two tasks of one priority spin on one CPU, and a third one uses the GPU: they can wait for each other for ever.
EQUALS = """
[platform]
cpus = 2
policy = "segment"
epsilon = "0ns"
""" + "".join(f"""
[[task]]
name = "{name}"
cpu = {cpu}
priority = 5
period = "100ms"
waiting = "busy"
segments = [{{ misc = "1ms", gpu = "1ms" }}]
""" for name, cpu in (("a", 0), ("b", 0), ("c", 1)))


def test_assigned_priorities_are_analysed(gpurt: Gpurt, write: Write) -> None:
    """No assignment helps equals that spin, although each level of it passes."""
    path = write(EQUALS)
    assert load(path).taskset.platform.cpus == 2
    why = "a and b use the GPU and have the same priority on their CPU"
    for name in ("analyze", "plan priorities"):
        code, out, _ = gpurt(name, path)
        assert (code, why in out) == (1, True), out
    code, out, _ = gpurt("plan", "priorities", path, "--write", "--json")
    assert (code, json.loads(out)["schedulable"], json.loads(out)["files"]) == (1, False, [])
    assert Path(path).read_text() == EQUALS


def test_choose_proposes_what_a_file_can_state(write: Write) -> None:
    """And analyze says of that file what choose said.  No test is proposed that needs what the file does not state."""
    for statement in ("cpus = 1", "cpus = 1\nthread_cpu = 0"):
        proposed = {choice.test for choice in choices(load(write(SPINNER.replace("cpus = 1", statement))).taskset)}
        assert ("thesis-kthread-busy" in proposed) == ("thread_cpu" in statement)
        assert all(stated(registry.find_test(name)) for name in proposed)


def test_what_cannot_be_simulated_is_not_proved_either(gpurt: Gpurt, write: Write) -> None:
    """simulate and analyze agree on a file with policy job whose tasks suspend."""
    path = write(Path(TWO).read_text().replace("cpus = 2", 'cpus = 2\npolicy = "job"'))
    for arguments in ([path], [TWO, "--policy", "job"]):
        code, out, err = gpurt("simulate", *arguments)
        assert (code, err) == (1, "")
        assert out.startswith("NOT SIMULATED under policy job: detector")
    assert gpurt("analyze", path)[0] == 1
    assert gpurt("simulate", TWO, "--policy", "job", "--waiting", "busy", "--runs", "5")[0] in (0, 1)


def test_an_unsound_test_never_answers_yes(gpurt: Gpurt, write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its bounds are printed, but they can be exceeded."""
    monkeypatch.setitem(registry.TESTS, "gcaps-suspend-printed", papers.find("gcaps-suspend-printed"))
    text = Path(TWO).read_text()
    text = text.replace("cpus = 2", 'cpus = 2\npolicy = "segment"')
    path, name = write(text), "gcaps-suspend-printed"
    why = f"{name} is unsound: its bound can be exceeded"
    assert gpurt("analyze", path, "--test", "gcaps-suspend")[0] == 0
    for command in ("analyze", "margins"):
        code, out, _ = gpurt(command, path, "--test", name)
        assert (code, f"NOT PROVED: {why}" in out.splitlines()) == (1, True)
        code, out, _ = gpurt(command, path, "--test", name, "--json")
        document = json.loads(out)
        assert (code, document["schedulable"], document["why"]) == (1, False, why)
    assert f"NOT PROVED: {why}" in gpurt("analyze", path, "--test", name, "--explain", "detector")[1]
    (test,) = json.loads(gpurt("analyze", path, "--test", name, "--json")[1])["tests"]
    assert (test["sound"], test["schedulable"], test["tasks"]["detector"]["in_time"]) == (False, True, True)
    assert gpurt("analyze", path, "--test", name, "--test", "gcaps-suspend")[0] == 0
    assert gpurt("plan", "priorities", path, "--test", name, "--write")[0] == 2
    assert Path(path).read_text() == text


def test_a_named_test_without_real_time_tasks_proves_nothing(gpurt: Gpurt, write: Write) -> None:
    path = write('[platform]\ncpus = 1\nepsilon = "0ns"\n')
    for command in ("analyze", "margins", "plan priorities"):
        code, out, _ = gpurt(command, path, "--test", "gcaps-suspend")
        assert (code, "there is no real-time task, so nothing was proved" in out) == (1, True)


def test_epsilon_is_never_taken_as_zero(gpurt: Gpurt, write: Write) -> None:
    """Zero gives the smallest bounds of all values: a file without it gets no answer, and 0ns must be written."""
    without = SPINNER.replace('epsilon = "1ms"\n', "").replace('"busy"', '"suspend"')
    for name in ("analyze", "plan modes", "plan priorities", "margins", "simulate", "apply"):
        code, out, err = gpurt(name, write(without))
        assert (code, out) == (3, "")
        assert ":2: platform: epsilon is missing: what a runlist update costs" in err
    for given, code in (('epsilon = "0ns"', 0), ('alpha = "0ns"\ntheta = "0ns"', 0), ('alpha = "1ms"', 3)):
        assert gpurt("analyze", write(without.replace("cpus = 1", f"cpus = 1\n{given}")))[0] == code
    cpu_only = without.replace('{ misc = "1ms", gpu = "60ms" }', '{ cpu = "60ms" }').replace("30ms", "10ms")
    assert gpurt("analyze", write(cpu_only))[0] == 0


def test_the_answer_comes_first(gpurt: Gpurt, write: Write) -> None:
    """In words of the field, with units, and the same word for no."""
    yes, no = SPINNER.replace('"busy"', '"suspend"'), SPINNER
    for name, words in (
        ("plan priorities", "schedulable under boosted-suspend with the priorities in the file"),
        ("plan modes", "schedulable under policy boosted if tasks wait so: all suspend; least slack 37.0 %"),
        ("margins", "schedulable under boosted-suspend; the tightest: a's GPU time may grow to "),
    ):
        code, out, _ = gpurt(name, write(yes))
        assert (code, out.startswith(words)) == (0, True), out
    for name in ("plan priorities", "margins"):
        code, out, _ = gpurt(name, write(no))
        assert (code, out.startswith("NOT PROVED under boosted-busy: ")) == (1, True), out
    code, out, _ = gpurt("plan", "modes", write(no.replace('"80ms"', '"20ms"')))
    assert (code, out.startswith("NOT PROVED: ")) == (1, True), out


def test_sensitivity_says_what_must_shrink(gpurt: Gpurt, write: Write) -> None:
    out = gpurt("margins", write(SPINNER))[1]
    assert "one of these must shrink" in out
    assert "GPU time                 a     61.000" in out
    assert "epsilon and theta alike" in out
    assert "the largest epsilon, with theta's share of it: " in out


def test_assign_says_why_nothing_helps(gpurt: Gpurt, write: Write) -> None:
    hopeless = SPINNER.replace('"busy"', '"suspend"').replace('"80ms"', '"20ms"')
    code, out, _ = gpurt("plan", "priorities", write(hopeless))
    assert code == 1
    assert "no GPU priorities help tasks that use no GPU\n  b: no bound below the deadline of 20 ms" in out


@pytest.mark.parametrize("own", [True, False])
def test_assign_promises_nothing_where_threads_spin_for_longer_than_hosts_let_them(
    gpurt: Gpurt, write: Write, own: bool
) -> None:
    """The last of six tasks may wait for five others' updates, each 2 of 3 ms: with the file's order, and with others.

    Where the file's order fails, t5 has the highest GPU priority, and t0 no time for its segment.
    """
    text = '[platform]\ncpus = 6\npolicy = "boosted"\nepsilon = "3ms"\ntheta = "0ns"\n'
    for at in range(6):
        text += f'[[task]]\nname = "t{at}"\ncpu = {at}\npriority = {9 - at}\nperiod = "900ms"\nwaiting = "busy"\n'
        text += 'segments = [{ misc = "1ms", gpu = "2ms" }]\n'
        text += "" if own else f'gpu_priority = {at + 1}\n' + ('deadline = "22ms"\n' if not at else "")
    path = write(text)
    assert registry.find_test("boosted-busy").run(load(path).taskset).schedulable == own
    assigning = ["plan priorities"], ["plan priorities", "--test", "boosted-busy"]
    for asked in (*assigning, ["analyze", "--test", "boosted-busy+gpu-priority"]):
        code, out, _ = gpurt(*asked, path, "--json")
        told = json.loads(out)
        assert (code, told["schedulable"]) == (1, False)
        assert "longer than 20 ms for its turn at the update lock" in told["why"]


def test_assign_names_the_policy_that_the_user_chose(gpurt: Gpurt, write: Write) -> None:
    """Not a test that nobody named, nor one of another policy, whose yes would not be about the file."""
    path = write(SPINNER.replace("cpus = 1", 'cpus = 1\ntheta = "0ns"\npolicy = "lock-fifo"'))
    code, out, err = gpurt("plan", "priorities", path)
    assert (code, out) == (2, "")
    assert "policy is lock-fifo" in err
    assert "--test" not in err


def test_a_failure_has_one_unit(gpurt: Gpurt, write: Write) -> None:
    for name in ("analyze", "plan priorities", "margins"):
        out = gpurt(name, write(SPINNER))[1]
        assert " ms" in out
        assert " us" not in out


def test_a_key_is_not_called_a_table(gpurt: Gpurt, write: Write) -> None:
    text = 'x = 1\n"y\\u001b[2J" = []\n' + SPINNER + "[z]\n[[w]]\n"
    code, _, err = gpurt("analyze", write(text))
    assert code == 3
    said = [line.split(":", 3)[3] for line in err.splitlines()]
    tables = "[platform], [[task]], [[thread]], [[partition]], [[chain]], [[resource]], [[gpu]] and [[profile]]"
    assert said == [f" unknown {what}; a taskset file has {tables}" for what in
                    ('key "x"', 'key "y\\u001b[2J"', 'table "z"', 'table "w"')]  # fmt: skip


def test_nothing_is_proved_of_no_task(gpurt: Gpurt, write: Write) -> None:
    code, out, _ = gpurt("analyze", write("[platform]\ncpus = 1\n"))
    assert code == 1
    assert "NOT PROVED under policy boosted: there is no real-time task" in out
    code, out, _ = gpurt("analyze", write("[platform]\ncpus = 1\n"), "--json")
    assert json.loads(out)["schedulable"] is False
    for name in ("plan modes", "margins", "plan priorities", "simulate"):
        assert gpurt(name, write("[platform]\ncpus = 1\n"))[0] == 1


def test_ties_are_noted(gpurt: Gpurt, write: Write) -> None:
    _, _, err = gpurt("analyze", write(SPINNER.replace("priority = 10", "priority = 20")))
    assert "a, b have the same priority on CPU 0, 20" in err
    assert "same priority" not in gpurt("analyze", write(SPINNER))[2]


def test_updates_that_cost_nothing_are_noted(gpurt: Gpurt, write: Write) -> None:
    free = SEGMENT.replace('epsilon = "1ms"', 'epsilon = "0ns"')
    assert "epsilon is 0: every bound assumes" in gpurt("analyze", write(free))[2]
    assert "epsilon" not in gpurt("analyze", write(SEGMENT))[2]


@pytest.mark.parametrize(
    ("policy", "words"),
    [
        ("timesliced", "theta is 0: every bound for policy timesliced assumes that context switches cost nothing"),
        ("lock-fifo", "theta is 0: every bound for policy lock-fifo assumes"),
        ("segment", ""),
    ],
)
def test_what_bounds_of_a_policy_assume_is_noted(gpurt: Gpurt, write: Write, policy: str, words: str) -> None:
    text = SPINNER.replace("cpus = 1", f'cpus = 1\ntheta = "0ns"\npolicy = "{policy}"')
    err = gpurt("analyze", write(text))[2]
    assert (words in err, bool(err)) == (True, bool(words))
    rest = gpurt("analyze", write(text.replace('"0ns"', '"1ms"')))[2]
    assert ("theta" in rest, "all its GPU work at once" in rest) == (False, policy == "timesliced")
    assert rest.count("note: ") == (policy == "timesliced")


@pytest.mark.parametrize("name", ["analyze", "plan priorities", "margins"])
def test_the_verdict_on_policy_job_follows_where_the_file_says_the_thread_is(
    gpurt: Gpurt, write: Write, name: str
) -> None:
    """The hosts' default is any CPU, and every bound is for CPU 0; updates without cost take no CPU from anybody."""
    why = "the bounds for policy job are for a host's thread that stays on CPU 0"
    text = SPINNER.replace('"30ms"', '"3ms"')
    cases = (("", "1ms", 1), ("thread_cpu = 1", "1ms", 1), ("thread_cpu = 0", "1ms", 0), ("", "0ns", 0))
    for statement, epsilon, code in cases:
        platform = f'cpus = 2\npolicy = "job"\n{statement}'
        got, out, _ = gpurt(name, write(text.replace("cpus = 1", platform).replace('"1ms"\n', f'"{epsilon}"\n')))
        assert (got, why in out) == (code, bool(code)), out
    code, _, err = gpurt(name, write(text.replace("cpus = 1", "cpus = 1\nthread_cpu = 1")))
    assert (code, "thread_cpu: the platform has CPUs 0 to 0, got 1" in err) == (3, True)


def test_choose_notes_what_the_bounds_of_its_choice_assume(gpurt: Gpurt, write: Write) -> None:
    free = write(SPINNER.replace("cpus = 1", 'cpus = 1\ntheta = "0ns"'))
    code, out, err = gpurt("plan", "modes", free)
    assert (code, out.startswith("schedulable under policy timesliced")) == (0, True)
    turns, note = err.removesuffix("\n").split("\n")
    assert "note: under policy timesliced every bound assumes that a GPU segment hands over" in turns
    assert note == "note: theta is 0: every bound for policy timesliced assumes that context switches cost nothing"
    notes = [one.removeprefix("note: ") for one in (turns, note)]
    assert json.loads(gpurt("plan", "modes", free, "--json")[1])["notes"] == notes


@pytest.mark.parametrize("policy", ["timesliced", "lock-priority", "lock-fifo"])
def test_nothing_is_proved_with_a_context_switch_that_nobody_stated(gpurt: Gpurt, write: Write, policy: str) -> None:
    """Zero would make the bounds too small."""
    text = SPINNER.replace("cpus = 1", f'cpus = 1\npolicy = "{policy}"').replace('"30ms"', '"3ms"')
    for name in ("analyze", "margins"):
        code, out, _ = gpurt(name, write(text))
        assert (code, "needs theta in [platform]" in out) == (1, True), out
        assert gpurt(name, write(text.replace("[platform]", '[platform]\ntheta = "0ns"')))[0] == 0


def test_an_unstated_context_switch_counts_as_an_update_under_boosted(gpurt: Gpurt, write: Write) -> None:
    """Theta is a part of epsilon.  The bounds for tasks that suspend do not depend on it."""
    spinning = '[platform]\ncpus = 2\nepsilon = "1ms"\n' + "".join(f"""
[[task]]
name = "{name}"
cpu = {cpu}
priority = {priority}
period = "100ms"
waiting = "busy"
segments = [{{ misc = "1ms", gpu = "5ms" }}]
""" for name, cpu, priority in (("high", 0, 20), ("low", 0, 10), ("far", 1, 5)))
    note = "theta is missing in [platform]: it counts as epsilon, the most that it can be"

    def analysed(text: str) -> tuple[dict[str, int], list[str]]:
        code, out, _ = gpurt("analyze", write(text), "--json")
        document = json.loads(out)
        assert code == 0
        return {name: task["wcrt_ns"] for name, task in document["tests"][0]["tasks"].items()}, document["notes"]

    unstated, notes = analysed(spinning)
    largest, nothing = (
        analysed(spinning.replace("[platform]", f'[platform]\ntheta = "{theta}"'))[0] for theta in ("1ms", "0ns")
    )
    assert note in notes
    assert all(unstated[name] >= max(largest[name], nothing[name]) for name in largest)
    assert any(nothing[name] < unstated[name] for name in largest)
    assert note not in analysed(spinning.replace('"busy"', '"suspend"'))[1]


@pytest.mark.parametrize("name", ["analyze", "plan modes"])
def test_priorities_that_a_host_refuses_are_noted(gpurt: Gpurt, write: Write, name: str) -> None:
    """The bounds hold for any numbers of the same order; a host raises threads above those that it orders."""
    text = SPINNER.replace('"busy"', '"suspend"')
    for priority, words in (
        ("24", ""),
        ("30", "hosts order priorities 1 to 24 unless started with --normal 30, and a has 30: gpurt run and apply"),
        ("50", "hosts order priorities 1 to 24, and a has 50: gpurt run and apply refuse that"),
        ("20\ngpu_priority = 99", "hosts order priorities 1 to 24, and a has 99"),
    ):
        code, _, err = gpurt(name, write(text.replace("priority = 20", f"priority = {priority}")))
        assert (code, words in err, "hosts order" in err) == (0, True, bool(words)), err
    assert "hosts order" not in gpurt("analyze", write(SEGMENT.replace("priority = 20", "priority = 50")))[2]


def test_a_no_names_the_policies_that_say_yes(gpurt: Gpurt, write: Write) -> None:
    """A task that uses no GPU pays for boosted owners.  Locks need theta; a yes names no other policy."""
    text = """[platform]
cpus = 1
epsilon = "0ns"
[[task]]
name = "cpu"
cpu = 0
priority = 2
period = "100ms"
deadline = "12ms"
segments = [{ cpu = "10ms" }]
[[task]]
name = "gpu"
cpu = 0
priority = 1
period = "100ms"
segments = [{ misc = "5ms", gpu = "10ms" }]
"""
    for costs, policies in (
        ('epsilon = "1ms"', ["segment"]),
        ('epsilon = "1ms"\ntheta = "0ns"', ["timesliced", "segment", "lock-priority", "lock-fifo"]),
    ):
        path = write(text.replace('epsilon = "0ns"', costs))
        code, out, _ = gpurt("analyze", path)
        told = [line.split()[4].rstrip(":") for line in out.splitlines() if line.startswith("would hold under policy")]
        assert (code, told) == (1, policies), out
        others = json.loads(gpurt("analyze", path, "--json")[1])["would_hold"]
        assert [one["under"] for one in others] == [f"policy {one}" for one in policies]
    assert "would hold" not in gpurt("analyze", write(text.replace('"12ms"', '"20ms"')))[1]


def test_ways_that_need_an_unstated_context_switch_are_left_out(gpurt: Gpurt, write: Write) -> None:
    for theta, left_out in (("", True), ('theta = "0ns"', False)):
        path = write(SPINNER.replace("[platform]", f"[platform]\n{theta}"))
        _, out, err = gpurt("plan modes", path)
        assert ("theta is missing" in err) is left_out
        assert "boosted-suspend" in out
        assert "boosted-busy" in out
        for name in ("tsg-rr-suspend", "lock-fifo-suspend"):
            assert (name in out) is not left_out
    code, out, _ = gpurt("analyze", "--test", "tsg-rr-suspend", write(SPINNER))
    assert (code, "NOT PROVED: tsg-rr-suspend needs theta" in out) == (1, True)


def test_a_wrong_policy_is_a_mistake_in_the_file(gpurt: Gpurt, write: Write) -> None:
    code, _, err = gpurt("analyze", write(SPINNER.replace("cpus = 1", 'cpus = 1\npolicy = "fastest"')))
    assert code == 3
    assert "line 4" in err or ":4:" in err


def test_choose_writes_the_policy(gpurt: Gpurt, write: Write) -> None:
    text = Path(TWO).read_text().replace("cpus = 2", 'cpus = 2\npolicy = "timesliced"')
    path = write(text)
    assert gpurt("analyze", path)[0] == 1
    assert gpurt("plan", "modes", path, "--write")[0] == 0
    assert load(path).taskset.platform.policy == "boosted"
    assert gpurt("analyze", path)[0] == 0
    assert Path(path).read_text().splitlines()[0] == text.splitlines()[0]


def test_only_bounds_of_the_described_system_count() -> None:
    """No test that assigns priorities, assumes strictly periodic releases, or polls in another period."""
    taskset = load(CASE_STUDY).taskset
    for policy in ("segment", "job", "lock-fifo", "timesliced"):
        for test in covering(taskset, policy):
            assert test.sound
            assert (test.assigns, test.periodic, test.policy) == (False, False, policy)
            assert test.waiting in (None, Waiting.SUSPEND)
    assert answer(taskset).schedulable


def test_output_that_cannot_be_written_is_no_verdict() -> None:
    """141 if the reader goes, 3 and one line if stdout is full or closed; never 1, which means no."""
    gpurt = f"{Path(sys.executable).parent}/gpurt"
    analyze = f"{gpurt} analyze {CASE_STUDY} --test gcaps-suspend --explain dxtc"

    def shell(command: str) -> tuple[int, str]:
        done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
        return done.returncode, done.stderr

    code, err = shell(f"set -o pipefail; {analyze} | true")
    assert (code, err) == (141, "")
    assert shell(f"set -o pipefail; {gpurt} | true") == (141, "")  # help, for want of arguments
    assert shell(f"{gpurt} >/dev/full")[0] == 3
    code, err = shell(f"{analyze} >/dev/full")
    assert (code, err) == (3, "gpurt: stdout cannot be written: No space left on device\n")
    code, err = shell(f"{analyze} >&-")
    assert code == 3
    assert err.count("\n") == 1


def test_a_stderr_that_cannot_be_written_changes_no_exit_code(write: Write) -> None:
    """Notes and errors are lost then; the answer on stdout and the exit code are not."""
    equals = write(SEGMENT.replace("priority = 20", "priority = 10").replace('"busy"', '"suspend"'))
    reader, gone = os.pipe()
    os.close(reader)
    with open("/dev/full", "w") as full, os.fdopen(gone, "w") as pipe:
        for stderr, words, code in (
            (full, ["analyze", equals], 0), (full, ["analyze", equals + "x"], 3),
            (pipe, ["analyze", equals], 0), (pipe, ["analyze", equals + "x", "--json"], 3),
        ):  # fmt: skip
            command = [f"{Path(sys.executable).parent}/gpurt", *words]
            done = subprocess.run(command, stdout=subprocess.PIPE, stderr=stderr, check=False)
            assert (done.returncode, bool(done.stdout)) == (code, code == 0), words


def test_bounds_of_a_file_without_epsilon_are_not_compared_with(gpurt: Gpurt, write: Write, tmp_path: Path) -> None:
    trace = str(tmp_path / "run.json")
    path = write(SPINNER.replace('"busy"', '"suspend"'))
    assert gpurt("simulate", path, "--runs", "1", "-o", trace)[0] == 0
    path = write(Path(path).read_text().replace('epsilon = "1ms"\n', ""))
    code, _, err = gpurt("trace", "check", trace, path)
    assert (code, "the file has no epsilon: updates, and the lengths of segments, were not judged" in err) == (1, True)
    assert gpurt("trace", "check", trace, path, "--test", "gcaps-suspend")[0] == 3


def test_several_files_get_a_line_each_and_the_highest_exit_code(gpurt: Gpurt, tmp_path: Path) -> None:
    late = tmp_path / "late.toml"
    late.write_text(SPINNER)
    code, out, err = gpurt("analyze", TWO, str(late), CASE_STUDY)
    first, second, third = out.splitlines()
    assert (code, err) == (1, "")
    assert (first, third) == (f"{TWO}: schedulable", f"{CASE_STUDY}: schedulable")
    assert second.startswith(f"{late}: NOT PROVED: ")
    code, out, _ = gpurt("analyze", TWO, str(late), "--json")
    assert [json.loads(line)["schedulable"] for line in out.splitlines()] == [True, False]
    assert code == 1
    code, out, err = gpurt("analyze", TWO, str(tmp_path / "none.toml"), CASE_STUDY)
    assert (code, out.count("\n"), err.count("\n")) == (3, 2, 1)
    assert gpurt("analyze", TWO, CASE_STUDY, "--explain", "detector")[0] == 2


OWN = """
from analysis.rta import boosted

POLICY, WAITING = "boosted", "suspend"
CONSTANT = 5


def mine(task, system):
    return boosted.SUSPEND.demands(task, system)
"""


def test_a_formula_outside_of_the_tree_runs_as_a_draft_and_proves_nothing(gpurt: Gpurt, tmp_path: Path) -> None:
    """It runs in analyze and scripts/attack; its mistakes get a line."""
    file = tmp_path / "own.py"
    file.write_text(OWN)
    mine = f"{file}:mine"
    code, out, _ = gpurt("analyze", TWO, "--test", mine, "--json")
    own = json.loads(out)
    known = json.loads(gpurt("analyze", TWO, "--test", "boosted-suspend", "--json")[1])
    assert (code, own["schedulable"], known["schedulable"]) == (1, False, True)
    assert "draft" in own["why"]
    bounds = [{name: one["wcrt_ns"] for name, one in each["tests"][0]["tasks"].items()} for each in (own, known)]
    assert bounds[0] == bounds[1]
    assert "A DRAFT, do not rely on it" in gpurt("analyze", TWO, "--test", mine)[1]
    few = ("--tasksets", "2", "--runs", "1", "--steps", "1", "-o", str(tmp_path))
    words = [sys.executable, str(ROOT / "scripts/attack"), "search", mine, *few]
    assert f"| `{mine}` | draft |" in subprocess.run(words, capture_output=True, text=True, check=True).stdout
    file.write_text(OWN.replace('"boosted"', '"fair"'))
    for name, said in ((f"{file}:other", "has no other"), (f"{file}:CONSTANT", "POLICY is one of"),
                       (f"{tmp_path}/none.py:f", "FileNotFoundError"), (f"{file}:mine2", "has no mine2")):  # fmt: skip
        code, _, err = gpurt("analyze", TWO, "--test", name)
        assert (code, said in err, err.count("\n")) == (2, True, 1), err


def test_a_copy_of_another_partition_is_no_region_of_this_one(gpurt: Gpurt, write: Write) -> None:
    """x has 4 ms and a switch of 1 ms before and after; as if it waited for y's copy, its bound would be exceeded."""
    task = '[[task]]\nname = "{}"\ncpu = {}\npriority = {}\nperiod = "40ms"\npartition = "{}"\nsegments = [{}]\n'
    parts = "".join(f'[[partition]]\nname = "{name}"\ncompute_units = 4\n' for name in "ab")
    rows = (("x", 0, 2, "a", '{ misc = "0ns", gpu = "4ms" }'), ("y", 1, 1, "b", '{ copy = "6ms" }'))
    tasks = "".join(task.format(*row) for row in rows)
    head = '[platform]\ncpus = 2\nepsilon = "2ms"\ntheta = "1ms"\npolicy = "segment"\ncompute_units = 8\n'
    code, out, _ = gpurt("attack", write(head + parts + tasks), "--json")
    found = json.loads(out)["tasks"]["x"]
    assert (code, found["exact_ns"], found["wcrt_ns"], found["broken"]) == (0, 7_000_000, 12_000_000, False)


def test_schedules_of_another_system_show_nothing_of_the_file(gpurt: Gpurt, write: Write) -> None:
    """They are of the test's policy, and meet the deadlines."""
    tiny = ('[platform]\ncpus = 1\nepsilon = "0ns"\npolicy = "{}"\n[[task]]\nname = "a"\ncpu = 0\npriority = 2\n'
            'waiting = "suspend"\nperiod = "8ms"\nsegments = [{{ cpu = "1ms" }}, {{ misc = "0ns", gpu = "1ms" }}]\n')
    for policy, code in (("boosted", 0), ("segment", 1)):
        found, out, _ = gpurt("attack", write(tiny.format(policy)), "--test", "boosted-suspend", "--json")
        document = json.loads(out)
        assert (found, document["tasks"]["a"]["broken"], document["late"]) == (code, False, None)
        assert (document["why"] is None) == (code == 0)
        _, out, _ = gpurt("attack", write(tiny.format(policy)), "--test", "boosted-suspend")
        assert ("nothing of the file is shown: boosted-suspend" in out) == (code == 1)


def test_schedules_with_critical_sections_elsewhere_are_not_said_to_be_seen(gpurt: Gpurt, write: Write) -> None:
    """A bound covers them, if there is one."""
    tiny = ('[platform]\ncpus = 1\nepsilon = "1ms"\npolicy = "{}"\n[[resource]]\nname = "r"\nprotocol = "ceiling"\n'
            'sections = [{{ task = "a", time = "1ms" }}, {{ task = "b", time = "1ms" }}]\n')
    for name, priority in (("a", 2), ("b", 1)):
        tiny += f'[[task]]\nname = "{name}"\ncpu = 0\npriority = {priority}\nperiod = "8ms"\n' \
                'waiting = "suspend"\nsegments = [{{ cpu = "2ms" }}]\n'  # fmt: skip
    for policy, code in (("boosted", 0), ("segment", 1)):
        found, out, _ = gpurt("attack", write(tiny.format(policy)))
        assert (found, "elsewhere in CPU segments" in out, "with all critical sections at" in out) == (code, code, True)


def test_no_schedule_is_looked_at_whose_switches_cost_nobody_knows_what(gpurt: Gpurt, write: Write) -> None:
    """As free ones a takes 9 ms, and as all of epsilon 11."""
    task = 'period = "40ms"\nwaiting = "suspend"\nsegments = [{ misc = "1ms", gpu = "4ms" }]\n'
    platform = '[platform]\ncpus = 2\npolicy = "timesliced"\ntime_slice = "2ms"\nepsilon = "2ms"\n'
    tasks = f'[[task]]\nname = "a"\ncpu = 0\npriority = 2\ndeadline = "9ms"\n{task}' \
            f'[[task]]\nname = "b"\ncpu = 1\npriority = 1\n{task}'
    named = ("--test", "tsg-rr-suspend")
    code, out, err = gpurt("attack", write(platform + tasks), *named)
    assert (code, out, "tsg-rr-suspend needs theta in [platform]" in err) == (2, "", True)
    assert gpurt("attack", write(f'{platform}theta = "2ms"\n{tasks}'), *named)[0] == 1


def test_a_release_between_units_is_not_said_to_be_seen(gpurt: Gpurt, write: Write) -> None:
    """high waits for the raised low for almost 20 us if it comes just after low's begin, at no whole 10 us."""
    tiny = ('[platform]\ncpus = 1\nepsilon = "0ns"\npolicy = "boosted"\n[[task]]\nname = "low"\ncpu = 0\n'
            'priority = 1\nperiod = "100us"\nwaiting = "suspend"\nsegments = [{ misc = "20us", gpu = "0us" }]\n'
            '[[task]]\nname = "high"\ncpu = 0\npriority = 2\nperiod = "100us"\ndeadline = "20us"\n'
            'segments = [{ cpu = "10us" }]\n')
    code, out, _ = gpurt("attack", write(tiny))
    assert (code, "releases between units may make responses longer" in out) == (1, True)
    assert gpurt("simulate", write(tiny))[0] == 1
    assert gpurt("attack", write(tiny.replace('deadline = "20us"', 'deadline = "30us"')))[0] == 0
