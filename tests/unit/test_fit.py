# SPDX-License-Identifier: GPL-2.0
"""Does this host match this file?  Every host against every file, and what each kind of objection is about."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from fit_cases import CLIENT, FILES, HOSTS, MS, REAL, US, VIRTUAL, File, text, under, updates

from analysis.answers.registry import find_test
from analysis.model import Waiting
from analysis.taskset import TasksetFile, parse
from analysis.traces.trace import HOST, Event, Kind, Trace
from gpurt.enums import Begin, Cause, Form, Overrun, Policy, Tier
from gpurt.errors import DeviceError, FileError
from pycontrol.machine.clocks import MachineClocks
from pycontrol.machine.programs import fingerprint
from pycontrol.observe.fit import fit
from pycontrol.observe.fit.fit import Code, Defeats, Host, Ran, objections
from pycontrol.observe.fit.trace import joined_looks
from pycontrol.observe.report.assumptions import Evidence, Support, judged_assumptions

ROOT = Path(__file__).resolve().parents[2]
PARSED = {name: parse(Path("set.toml"), file.text) for name, file in FILES.items()}
#: The clients of the files' two tasks, which have begun and ended many segments.
THERE: dict[str, Any] = {"names": {4711: ("camera",), 4712: ("lidar",)}, "clients": [
    replace(CLIENT, segments=5000), replace(CLIENT, segments=5000, pid=4712, client=8, priority=10, own_priority=10)]}
PAIRS = [(host, file) for host in HOSTS for file in FILES]


def codes(file: TasksetFile, host: Host) -> dict[str, tuple[Defeats, ...]]:
    return {one.code.value: one.defeats for one in objections(file, host)}


def expected(host: Host, file: File, name: str) -> Iterator[str]:
    """The objections that a reader of the manual expects, from what the file is about and what the host says."""
    runs, real = host.gpus[0].policy.word, host.gpus[0].tier is not Tier.VIRTUAL
    if runs != file.policy:
        yield "policy"
    if file.policy == "boosted" and len(host.gpus) > 1:
        yield "gpus"
    if file.policy == "boosted" and file.busy and (real or host.sleeps):
        yield "asleep"
    if "boosted" in (file.policy, runs) and file.forms and not host.raises:
        yield "raises"
    if "boosted" in (file.policy, runs) and name == "boosted high":
        yield "priorities"
    if file.policy == "job" and not host.thread_stays:
        yield "thread"
    if file.parts > 1 and len(host.gpus) != file.parts:
        yield "partitions"
    if name == "slices" and not real:
        yield "shapes"
    if name in ("no epsilon", "no theta"):
        yield name.replace(" ", "-")
    if host.gpus[0].unit_policy:
        yield "units"
    if host.gpus[0].alpha_ns > 500 * US and name != "no epsilon":
        yield "costs" if name != "no theta" or host.gpus[0].alpha_ns + 100 * US > MS else ""
    if host.gpus[0].tier is Tier.HINTS:
        yield "tier"


#: Kinds that `expected` leaves to tests of their own: they depend on the host alone, or on its clients.
OTHERS = {
    "isolation", "driver", "cpus", "fifo", "stranger", "ambiguous", "exempt", "form", "barred", "demoted",
    "gpu-priority", "cpu-priority", "cpu-stranger", "measured", "group",
}  # fmt: skip


@pytest.mark.parametrize("name", FILES)
def test_each_host_is_objected_to_for_what_it_is(name: str) -> None:
    for title, host in HOSTS.items():
        found = codes(PARSED[name], host).keys() - OTHERS
        assert found == {one for one in expected(host, FILES[name], name) if one}, title


def test_what_the_issue_found() -> None:
    """Each was a yes of some commands."""
    busy = PARSED["boosted busy"]
    assert "asleep" in codes(busy, HOSTS["serve kfd boosted"])
    assert "gpus" in codes(PARSED["boosted suspend"], HOSTS["two GPUs boosted"])
    assert "policy" in codes(PARSED["boosted suspend"], HOSTS["emulator segment"])


@pytest.mark.parametrize(
    ("host", "code", "defeats"),
    [
        ("serve, go on when late", "isolation", "bounds"), ("serve, refused agents", "isolation", "bounds"),
        ("patched, unable", "driver", "bounds"), ("few CPUs", "cpus", "bounds"),
        ("slow updates", "measured", "bounds"), ("unprivileged segment", "fifo", ""),
        ("unprivileged boosted", "fifo", "run"), ("a client exempt", "exempt", "bounds"),
        ("a client barred", "barred", "bounds"), ("a client demoted", "demoted", "bounds"),
        ("a client in another form", "form", "bounds"), ("a client of another GPU priority", "gpu-priority", "bounds"),
        ("a client of another CPU priority", "cpu-priority", "bounds"), ("a stranger", "stranger", "bounds"),
        ("two tasks in one", "ambiguous", "bounds"),
    ],
)  # fmt: skip
def test_what_depends_on_the_host_alone(host: str, code: str, defeats: str) -> None:
    """The file is for the host's policy."""
    policy = HOSTS[host].gpus[0].policy.word
    found = codes(PARSED[f"{policy} suspend"], HOSTS[host])
    assert {code: tuple(Defeats(one) for one in [defeats] if one)} == found


def test_a_host_of_the_file_is_not_objected_to() -> None:
    for policy in Policy.words():
        host = under(policy, thread_stays=True)
        assert objections(PARSED[f"{policy} suspend"], host) == []
    assert objections(PARSED["boosted suspend"], HOSTS["a client of the file"]) == []
    assert objections(PARSED["partitions"], HOSTS["two GPUs segment"]) == []


@pytest.mark.parametrize("slow", [False, True])
def test_partitions_on_gpus_of_their_own_are_compared_each_with_its_own(slow: bool) -> None:
    """The second has dearer updates and another policy, as the file says; `gpurt emulate --taskset` makes that."""
    second = 'name = "b"\ncompute_units = 4\npolicy = "boosted"\nepsilon = "3ms"\ntheta = "1ms"'
    file = FILES["partitions"].text.replace('name = "b"\ncompute_units = 4', second)
    first, other = under("segment", count=2).gpus
    dear = replace(other, policy=Policy.BOOSTED, alpha_ns=2 * MS, theta_ns=(2 if slow else 1) * MS)
    found = codes(parse(Path("set.toml"), file), replace(under("segment", count=2), gpus=[first, dear]))
    assert found.keys() - {"gpus"} == ({"costs"} if slow else set())


def test_clients_of_partitions_have_a_gpu_each() -> None:
    file = PARSED["partitions"]
    names = {4711: ("camera",), 4712: ("lidar",)}
    other = replace(CLIENT, pid=4712, comm="lidar", priority=10, own_priority=10)
    host = under("segment", count=2, names=names)
    assert codes(file, replace(host, clients=[CLIENT, replace(other, gpu=1)])) == {}
    assert codes(file, replace(host, clients=[CLIENT], homes={4711: "a 4"})) == {}
    placed = [([CLIENT, other], {}), ([CLIENT, replace(CLIENT, gpu=1)], {})]
    for clients, homes in (*placed, *(([CLIENT], {4711: home}) for home in ("b 4", "a", "a 2", "a 4 cu_mask=0xf"))):
        assert codes(file, replace(host, clients=clients, homes=homes)).keys() == {"partitions"}


@pytest.mark.parametrize(("home", "objected"), [(None, True), ("a 4 cu_mask=0xf", False), ("a 4", True)])
def test_a_program_that_nobody_confined_is_not_taken_to_be_confined(home: str | None, objected: bool) -> None:
    """Masks confine what `gpurt run` started in them; a GPU cannot tell which mask a process has."""
    file = FILES["partitions"].text.replace('name = "a"\ncompute_units = 4', 'name = "a"\ncu_mask = "0xf"')
    host = under("segment", count=2, names={4711: ("camera",)}, clients=[CLIENT], homes={4711: home} if home else {})
    assert ("partitions" in codes(parse(Path("set.toml"), file), host)) == objected


@pytest.mark.parametrize("beside", [False, True], ids=["the only one", "beside best effort in another"])
def test_the_partition_of_the_only_real_time_task_is_compared_too(beside: bool) -> None:
    """Its GPU work takes 26 ms on its 4 units, and 101 on one; another partition slows it down."""
    segments = 'segments = [{ misc = "0ms", gpu = { parallel = "100ms", serial = "1ms" } }]\nperiod = "1s"'
    file = (
        '[platform]\ncpus = 2\npolicy = "segment"\ncompute_units = 8\nalpha = "500us"\ntheta = "100us"\n'
        '[[partition]]\nname = "a"\ncompute_units = 4\n'
        f'[[task]]\nname = "camera"\ncpu = 0\npriority = 20\npartition = "a"\n{segments}\n'
    )
    if beside:
        file += '[[partition]]\nname = "b"\ncompute_units = 4\n' \
                f'[[task]]\nname = "idle"\ncpu = 1\npriority = 0\npartition = "b"\n{segments}\n'
    parsed, host = parse(Path("set.toml"), file), under("segment", count=2 if beside else 1, clients=[CLIENT])
    assert not parsed.taskset.partitioned
    for home, kinds in (("a 4", set()), ("a 1", {"partitions"}), ("b 4", {"partitions"})):
        there = replace(host, names={4711: ("camera",)}, homes={4711: home})
        assert codes(parsed, there).keys() == kinds
        slow = replace(there, gpus=[replace(one, cross_thousandths=1500) for one in host.gpus])
        assert codes(parsed, slow).keys() == kinds | ({"cross"} if beside else set())


@pytest.mark.parametrize("policy", Policy.words())
def test_best_effort_that_no_file_has_matters_where_real_time_tasks_are_not_alone(policy: str) -> None:
    """It has turns on the GPU, or holds the lock, and bounds count the file's tasks alone."""
    matters = policy not in ("segment", "boosted", "job")
    other = replace(CLIENT, pid=12, comm="x", priority=0, own_priority=0)
    idle = replace(other, segments=0, tsgs=0)
    for client, there in ((other, True), (replace(other, segments=0), True), (idle, False)):
        found = codes(PARSED[f"{policy} suspend"], under(policy, clients=[client], thread_stays=True))
        assert found.keys() == ({"stranger"} if matters and there else set())


@pytest.mark.parametrize("policy", ["segment", "boosted"])
def test_switches_between_workers_are_compared_whatever_the_policy(policy: str) -> None:
    """While a group owns the GPU its TSGs take turns, each of which begins with a switch."""
    path = ROOT / "examples/every-key-of-workers.toml"
    file = parse(path, path.read_text(encoding="utf-8").replace("cpus = 3", f'cpus = 3\npolicy = "{policy}"'))
    platform = file.taskset.platform
    as_said = {"alpha_ns": platform.alpha, "theta_ns": platform.theta, "slice_ns": platform.time_slice,
               "normal_priorities": 40}  # fmt: skip
    for change, kinds in (
        ({}, set()), ({"theta_ns": platform.theta + US, "alpha_ns": platform.alpha - US}, {"costs"}),
        ({"slice_ns": platform.time_slice - US}, {"costs"}), ({"slice_ns": 0}, set()),
    ):  # fmt: skip
        host = under(policy, replace(VIRTUAL, **(as_said | change)), latency=[updates(platform.alpha // 2)])
        assert codes(file, host).keys() == kinds, change
    unsaid = parse(path, path.read_text(encoding="utf-8").replace('time_slice = "1ms"', f'policy = "{policy}"'))
    assert "time_slice" in {one.key for one in unsaid.taskset.assumed}


@pytest.mark.parametrize(
    "known", [{"segments": 0}, {"depth": 1}, {"copies": 1}, {"own_priority": 5}], ids=lambda known: next(iter(known))
)
def test_a_cpu_priority_that_no_call_has_stated_is_not_judged(known: dict[str, Any]) -> None:
    """A program that only tells of its jobs states none, and the host has 0 of it."""
    client = replace(replace(CLIENT, segments=0, own_priority=0), **known)
    found = codes(PARSED["segment suspend"], under("segment", clients=[client], names={4711: ("camera",)}))
    assert ("cpu-priority" in found) == ("segments" not in known)


@pytest.mark.parametrize(
    ("priorities", "has", "objected"),
    [
        ((20, None), 20, False), ((20, None), 0, True), ((0, None), 0, False), ((0, None), 5, True),
        ((20, 10), 20, False), ((20, 10), 10, False), ((20, 10), 7, True),
    ],
)  # fmt: skip
@pytest.mark.parametrize("gpu", [True, False], ids=["the other uses the GPU", "the other does not"])
def test_the_cpu_priority_is_that_of_a_thread_that_uses_the_gpu(
    priorities: tuple[int, int | None], has: int, objected: bool, gpu: bool
) -> None:
    """Of each task, best effort or not; in a process of two threads that use the GPU, of either."""
    mine, mate = priorities
    own = text("segment", task='process = "node"' if mate else "", priority=mine)
    if mate and not gpu:
        first, name, last = own.partition('name = "lidar"')
        own = first + name + last.replace(', { misc = "10us", gpu = "200us" }', "")
        objected = has != mine
    client = replace(CLIENT, own_priority=has, priority=mine)
    host = under("segment", clients=[client], names={4711: ("camera",)})
    found = codes(parse(Path("set.toml"), own), host)
    assert found == ({"cpu-priority": (Defeats.BOUNDS,)} if objected else {})


def test_two_processes_of_one_task_are_one_too_many() -> None:
    """A program that was started twice; in a trace they may have come one after the other."""
    for name, best, code in (("segment", 20, True), ("segment", 0, False), ("timesliced", 0, True)):
        file = parse(Path("set.toml"), text(name, priority=best))
        mine = replace(CLIENT, priority=best, own_priority=best)
        two = [mine, replace(mine, pid=12, client=9)]
        host = under(name, clients=two, names=dict.fromkeys((4711, 12), ("camera",)))
        assert ("ambiguous" in codes(file, host)) == code
        assert "ambiguous" not in codes(file, replace(host, ran=Ran()))


@pytest.mark.parametrize(
    ("threads", "strays"),
    [([], False), ([(20, [0, 1])], True), ([(20, [1])], True), ([(20, [0])], False), ([(7, [0, 1])], False)],
)  # fmt: skip
def test_a_thread_at_the_files_priority_that_may_leave_its_cpu(threads: list[Any], strays: bool) -> None:
    """The file has camera on CPU 0."""
    file = PARSED["segment suspend"]
    host = under("segment", clients=[CLIENT], programs={4711: ("camera", "")}, threads={4711: threads})
    recorded = Trace({"source": "runtime", HOST: fit.saved(joined_looks(host, host))}, ())
    for known in (host.named(file), fit.of_trace(recorded, file)):
        assert [one.code.value for one in objections(file, known)] == ["cpu-priority"] * strays


@pytest.mark.parametrize(
    ("policy", "helper", "defeats"),
    [("segment", (90, [0]), ("bounds",)), ("segment", (20, [0, 1]), ("bounds",)), ("segment", (90, [7]), None),
     ("segment", (20, [0]), ()), ("boosted", (90, [0]), ("bounds",))],
)  # fmt: skip
def test_a_real_time_thread_of_a_tasks_process_that_is_no_tasks(policy: str, helper: Any, defeats: Any) -> None:
    """Beside the thread of camera at 20 on CPU 0; at that priority it may be one that a library has started."""
    file = parse(Path("set.toml"), text(policy))
    for threads in ([(20, [0]), helper], [helper, (20, [0])]):
        host = under(policy, clients=[CLIENT], programs={4711: ("camera", "")}, threads={4711: threads}, raises=True)
        found = [one.defeats for one in objections(file, host.named(file)) if one.code is Code.CPU_STRANGER]
        assert found == ([] if defeats is None else [defeats])
    earlier = replace(host, threads={4711: [(20, [0])]})
    for looks in (joined_looks(host, earlier), joined_looks(earlier, host)):
        found = [one.defeats for one in objections(file, looks.named(file)) if one.code is Code.CPU_STRANGER]
        assert found == ([] if defeats is None else [defeats])
    other = under(policy, clients=[replace(CLIENT, comm="x", priority=0, own_priority=0)], threads={4711: [helper]})
    assert (Code.CPU_STRANGER in {one.code for one in objections(file, other)}) == (defeats is not None)
    raised = replace(host, threads={4711: [(44, [0])]}).named(file)
    assert (Code.CPU_STRANGER in {one.code for one in objections(file, raised)}) == (policy != "boosted")


def test_what_cannot_be_seen_is_said() -> None:
    """As a note: it is an assumption that no hidden thread disturbs, nor the other thread of a core."""
    file = PARSED["segment suspend"]
    host = under("segment", unseen="/proc hides it", siblings=[[0, 1]], instances=[3])
    recorded = Trace({"source": "runtime", HOST: fit.saved(joined_looks(host, host))}, ())
    for known in (host, fit.of_trace(recorded, file)):
        said = {one.code.value: one.text for one in objections(file, known)}
        assert set(said) == {"cpu-stranger", "cpus"}
        assert "/proc hides it" in said["cpu-stranger"]
    for count in (1, 2):
        parts = [f'[[partition]]\nname = "{name}"\ncompute_units = 4\nmig = "MIG-{name}"\n' for name in "ab"[:count]]
        divided = text("segment").replace("[platform]", "[platform]\ncompute_units = 8", 1) + "".join(parts)
        for task, part in (("camera", "a"), ("lidar", "ab"[count - 1])):
            divided = divided.replace(f'name = "{task}"', f'name = "{task}"\npartition = "{part}"', 1)
        found = objections(parse(Path("set.toml"), divided), host)
        assert ("GPU 3 of a host stands for several GPU instances" in str(fit.lines(found))) == (count == 2)


@pytest.mark.parametrize("left_out", ["strangers", "unseen", "threads", "exempted"])
def test_a_record_of_a_host_that_lacks_a_fact_is_none(left_out: str) -> None:
    kept = json.loads(fit.saved(under("segment", clients=[CLIENT])))
    assert fit.of_trace(Trace({HOST: json.dumps(kept)}, ()), PARSED["segment suspend"]).known
    parts = [kept, kept["gpus"][0], kept["clients"][0]] if left_out == "unseen" else [kept]
    for part, key in zip(parts, (left_out, "ready", "yields"), strict=False):
        value = part.pop(key)
        assert not fit.of_trace(Trace({HOST: json.dumps(kept)}, ()), PARSED["segment suspend"]).known
        part[key] = value


@pytest.mark.parametrize(
    ("threads", "said"),
    [({}, ""), ({4711: [(20, [0])]}, ""), ({4711: []}, "has no thread of priority 20, the file says so for camera"),
     ({4711: [(20, [0, 1])]}, "may execute at priority 20 on CPUs 0, 1, the file has camera on CPU 0"),
     ({4711: [(9, [0])]}, "has no thread of priority 20, the file says so for camera")],
)  # fmt: skip
def test_a_task_without_gpu_work_executes_as_the_file_says(threads: dict[int, Any], said: str) -> None:
    """It may be a client, which tells of jobs, or none, which the host does not know."""
    file = parse(Path("set.toml"), text("segment").replace(', { misc = "10us", gpu = "200us" }', "", 1))
    assert not file.taskset.tasks[0].uses_gpu
    for clients in ([replace(CLIENT, segments=0, own_priority=0, priority=0)], []):
        host = under("segment", clients=clients, programs={4711: ("camera", "")}, threads=threads)
        recorded = Trace({"source": "runtime", HOST: fit.saved(joined_looks(host, host))}, ())
        for known in (host.named(file), fit.of_trace(recorded, file)):
            assert [one.text for one in objections(file, known)] == [f"process 4711 (camera) {said}"] * bool(said)


@pytest.mark.parametrize(
    ("comm", "threads", "objected"),
    [("x", [(90, [0])], True), ("x", [(20, [0, 1])], True), ("x", [(19, [0])], False), ("x", [(90, [2])], False),
     ("camera", [(90, [0])], False)],
)  # fmt: skip
def test_a_real_time_thread_of_a_program_that_is_no_client(comm: str, threads: list[Any], objected: bool) -> None:
    """It may take the CPU of camera, which has priority 20 on CPU 0; a program of a task may not be a client yet."""
    file = PARSED["segment suspend"]
    host = under("segment", strangers={812: (comm, "", threads)})
    recorded = Trace({"source": "runtime", HOST: fit.saved(joined_looks(host, under("segment")))}, ())
    for known in (host, fit.of_trace(recorded, file)):
        assert codes(file, known) == ({"cpu-stranger": (Defeats.BOUNDS,)} if objected else {})
        evidence = Evidence(file, find_test("gcaps-suspend"), objections=objections(file, known))
        assert ("process 812" in [*judged_assumptions(evidence)][-1].text) == objected


def test_a_stranger_whose_budget_is_spent_is_real_time_again() -> None:
    stranger = replace(CLIENT, pid=12, comm="x", priority=0, demoted=True)
    assert "stranger" in codes(PARSED["segment suspend"], under("segment", clients=[stranger]))


@pytest.mark.parametrize(
    ("budget", "overrun", "objected"),
    [(1, Overrun.DEMOTE, True), (9, Overrun.DEMOTE, True), (10, Overrun.DEMOTE, False), (1, Overrun.REPORT, False)],
)
def test_a_task_that_a_budget_may_make_best_effort(budget: int, overrun: Overrun, objected: bool) -> None:
    """Nobody knows for how long a task owns the GPU beside the others: no budget below its period is known to last."""
    client = replace(CLIENT, budget_ns=budget * MS, period_ns=10 * MS, on_overrun=overrun)
    host = under("segment", clients=[client], names={4711: ("camera",)})
    assert ("demoted" in codes(PARSED["segment suspend"], host)) == objected


def test_a_rule_that_exempts_programs_that_come_later_counts() -> None:
    """`gpurt run` and `apply` look before the file's programs are clients."""
    file, host = PARSED["segment suspend"], under("segment", exempted=["processes named camera"])
    back = fit.of_trace(Trace({HOST: fit.saved(joined_looks(host, under("segment")))}, ()), file)
    assert [list(codes(file, one)) for one in (host, back)] == [["exempt"], ["exempt"]]


@pytest.mark.parametrize("wrong", [{"exempt": True}, {"demoted": True}, {"priority": 3}, {"own_priority": 3}])
def test_what_was_wrong_with_a_client_at_any_look_counts(wrong: dict[str, Any]) -> None:
    file, names = PARSED["segment suspend"], {4711: ("camera",)}
    before, after = (under("segment", replace(VIRTUAL, ready=ready), clients=[one], names=names)
                     for ready, one in ((5, replace(CLIENT, **wrong)), (1, CLIENT)))  # fmt: skip
    both = joined_looks(joined_looks(before, before), after)
    assert codes(file, both).keys() == codes(file, before).keys() != set()
    assert (both.gpus[0].ready, len(both.clients)) == (5, 2)


@pytest.mark.parametrize(
    ("change", "code"), [({}, ""), ({"priority": 3}, "gpu-priority"), ({"form": Form.FENCE}, "form")]
)  # fmt: skip
def test_a_thread_is_looked_at_whose_first_task_has_no_gpu_work(change: dict[str, Any], code: str) -> None:
    """Its clients' priority and form are those of the thread's other task."""
    own = text("boosted").replace("cpu = 0\npriority = 20\n", "thread = \"node\"\nrank = 1\n", 1)
    first = '[[task]]\nname = "check"\nthread = "node"\nrank = 0\nperiod = "1s"\nsegments = [{ cpu = "1us" }]\n'
    thread = '[[thread]]\nname = "node"\ncpu = 0\npriority = 20\norder = "priority"\n'
    file = parse(Path("set.toml"), own + first + thread)
    host = under("boosted", clients=[replace(CLIENT, **change)], names={4711: ("check",)})
    assert codes(file, host) == ({code: (Defeats.BOUNDS,)} if code else {})


@pytest.mark.parametrize(("pid", "yields", "objected"),
                         [(1, True, False), (1, False, True), (1, None, False), (2, False, False)])  # fmt: skip
def test_the_most_urgent_process_has_to_be_able_to_begin_by_yield(
    pid: int, yields: bool | None, objected: bool
) -> None:
    """Else it begins isolated, which its bound does not have; all others always do."""
    platform = 'begin = "yield"\nyield = { slice = "500us", groups = 1, decision = "50us", stall = "0us" }'
    file, gpu = parse(Path("set.toml"), text("segment", platform)), replace(REAL, begin=Begin.YIELD)
    clients = [replace(CLIENT, pid=1, yields=yields if pid == 1 else True),
               replace(CLIENT, pid=2, priority=10, own_priority=10, yields=yields if pid == 2 else True)]  # fmt: skip
    host = under("segment", gpu, clients=clients, names={1: ("camera",), 2: ("lidar",)})
    assert codes(file, host) == ({"begin": (Defeats.BOUNDS,)} if objected else {})


#: Clients of the file with workers, by name: pid, group and user.
MEMBERS = {"planner": (1, "planner", "0"), "left": (2, "planner", "0"), "camera": (3, "", "0")}


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({}, []),
        ({"left": (2, "", "0")}, [
            "process 2 (left) is in no group, the file says group planner for left; gpurt apply has it join planner"]),
        ({"left": (2, "x", "0")}, [
            "process 2 (left) is in group x, the file says group planner for left; it stays there: start it anew, with "
            "GPURT_GROUP=planner"]),
        ({"camera": (3, "planner", "0")}, [
            "process 3 (camera) is in group planner, the file says no group for camera; it stays there: start it anew, "
            "in no group"]),
        ({"left": (2, "planner", "7")}, [
            "process 2 (left) is of another user than other members of group planner, so that it is in another group; "
            "start all of them as one user"]),
        ({"stranger": (4, "planner", "0")}, [
            "process 4 (stranger) owns the GPU with group planner, and the file has no such member; end it"]),
        ({"stranger": (4, "planner", "7")}, []),
        ({"stranger": (4, "x", "0")}, []),
    ],
)  # fmt: skip
def test_a_task_and_its_workers_are_one_group_of_one_user(
    change: dict[str, tuple[int, str, str]], told: list[str]
) -> None:
    """A bound for members is for them alone.  A trace keeps who they were."""
    path = ROOT / "examples/every-key-of-workers.toml"
    file, members = parse(path, path.read_text(encoding="utf-8")), MEMBERS | change
    clients = [
        replace(CLIENT, pid=pid, client=pid, comm=name, group=group, segments=0, priority=0)
        for name, (pid, group, _) in members.items()
    ]
    users = {pid: user for pid, _, user in members.values()}
    host = under("boosted", clients=clients, users=users, programs={one.pid: (one.comm, "") for one in clients})
    back = fit.of_trace(Trace({HOST: fit.saved(host)}, (), {}, 0), file)
    for known in (host.named(file), joined_looks(back, back)):
        found = [one for one in objections(file, known) if one.code is Code.GROUP]
        assert [one.line() for one in found] == told
        assert all(one.defeats == (Defeats.BOUNDS,) for one in found)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({}, []),
        ({"left": None}, [
            "left is no client, so that group planner raises no thread of it while it owns the GPU; start it; its "
            "thread has to join planner itself, with GPURT_GROUP_ALL"]),
        ({"right": ("planner", False)}, [
            "process 3 (right) has a client with no thread that group planner raises while it owns the GPU; its thread "
            "has to join planner itself, with GPURT_GROUP_ALL"]),
        ({"left": ("", False)}, [
            "process 2 (left) is in no group, the file says group planner for left; its thread has to join planner "
            "itself, with GPURT_GROUP_ALL"]),
        ({"planner": None}, []),
        ({"left ": ("planner", False)}, [
            "process 4 (left) has a client with no thread that group planner raises while it owns the GPU; its thread "
            "has to join planner itself, with GPURT_GROUP_ALL"]),
    ],
)  # fmt: skip
def test_a_group_raises_each_member_of_a_task_that_holds_a_segment(
    change: dict[str, tuple[str, bool] | None], told: list[str]
) -> None:
    path = ROOT / "examples/every-key-of-workers.toml"
    file = parse(path, path.read_text(encoding="utf-8").replace('"right"] }', '"right"], hold = true }'))
    members = dict.fromkeys(("planner", "left", "right"), ("planner", True)) | change
    clients = [
        replace(CLIENT, pid=pid, client=pid, comm=name.strip(), group=known[0], kept=known[1], segments=0, priority=0)
        for pid, (name, known) in enumerate(members.items(), 1) if known
    ]  # fmt: skip
    host = under("boosted", clients=clients, programs={one.pid: (one.comm, "") for one in clients})
    back = fit.of_trace(Trace({HOST: fit.saved(host)}, (), {}, 0), file)
    for known_host in (host.named(file), back):
        assert [one.line() for one in objections(file, known_host) if one.code is Code.GROUP] == told


def test_a_polling_period_and_a_slow_down_that_bounds_do_not_know() -> None:
    polled = under("job", replace(VIRTUAL, poll_ns=2 * MS), thread_stays=True)
    assert codes(PARSED["job suspend"], polled).keys() == {"poll"}
    crossed = under("segment", replace(VIRTUAL, cross_thousandths=1500), count=2)
    assert codes(PARSED["partitions"], crossed).keys() == {"cross"}


def test_threads_of_real_hosts_update_instead_of_tasks() -> None:
    """Bounds of partitions that share CPUs need the task that begins or ends to execute the update."""
    shared = parse(Path("set.toml"), FILES["partitions"].text.replace("cpu = 1\n", "cpu = 0\n"))
    real, virtual = under("segment", REAL, count=2), under("segment", count=2)
    assert codes(shared, real).keys() == {"elsewhere"}
    assert (codes(shared, virtual), codes(PARSED["partitions"], real)) == ({}, {})


def test_a_run_that_folds_or_waits_otherwise_or_has_no_right_to_its_priorities() -> None:
    file = PARSED["segment suspend"]
    for ran, fifo, code in (
        (Ran(folded=True), True, "cpus"), (Ran(Waiting.BUSY), True, "waiting"), (Ran(), False, "fifo")
    ):  # fmt: skip
        assert codes(file, under("segment", ran=ran, fifo=fifo)) == {code: (Defeats.BOUNDS,)}
    assert codes(file, under("segment", ran=Ran(Waiting.SUSPEND))) == {}
    slices = parse(Path("set.toml"), FILES["slices"].text)
    assert "shapes" in codes(slices, under("timesliced", REAL, ran=Ran(shaped=False)))


def test_priorities_that_apply_is_about_to_set_are_no_objection() -> None:
    host = HOSTS["a client of another GPU priority"]
    assert codes(PARSED["boosted suspend"], host.given({4711: 20})) == {}


@pytest.mark.parametrize("title", HOSTS)
def test_a_trace_keeps_the_host(title: str) -> None:
    """Objections of `check` are those to what `run` did on that host."""
    ran = replace(HOSTS[title], ran=Ran(folded=True), fifo=False)
    meta = {"placement": "folded", "scheduling": "default class", "policy": ran.gpus[0].policy.word}
    for file in PARSED.values():
        back = fit.of_trace(Trace(meta | {HOST: fit.saved(ran)}, (), {}, 0), file)
        assert objections(file, back) == objections(file, ran)


def test_a_host_whose_urgent_work_begins_by_yield_is_not_that_of_a_file_for_isolated() -> None:
    file, other = PARSED["segment suspend"], under("segment", replace(REAL, begin=Begin.YIELD))
    [found] = [one for one in objections(file, other) if one.code is Code.BEGIN]
    assert found.line().endswith("the file is for isolated; `gpurt serve --begin isolated` changes that")
    assert found.defeats == (Defeats.BOUNDS,)
    assert not [one for one in objections(file, under("segment", REAL)) if one.code is Code.BEGIN]


@pytest.mark.parametrize(("slice_", "right"), [("500us", True), ("499us", False)])
def test_a_file_for_shorter_slices_than_agents_give_is_not_the_hosts(slice_: str, right: bool) -> None:
    values = f'begin = "yield"\nyield = {{ slice = "{slice_}", groups = 2, decision = "10us", stall = "0us" }}'
    file, host = parse(Path("set.toml"), text("segment", values)), under("segment", replace(REAL, begin=Begin.YIELD))
    assert ("begin" in codes(file, host)) is not right


@pytest.mark.parametrize(
    ("wanted", "groups", "decision", "changes", "why"),
    [
        ("turns", 1, "10us", {"begin": Begin.TURNS, "ready": 5, "at_once": 1}, ""),
        ("turns", 1, "10us", {"begin": Begin.TURNS, "ready": 9, "at_once": 9}, "beside 9 others, more than"),
        ("turns", 1, "10us", {"begin": Begin.TURNS, "at_once": 9}, ""),  # nobody begins so now
        ("turns", 1, "10us", {"begin": Begin.YIELD, "ready": 1}, "begin by yield, the file is for turns"),
        ("turns", 1, "10us", {}, "begin by isolated, the file is for turns"),
        ("yield", 5, "10us", {"begin": Begin.TURNS, "ready": 5, "at_once": 1}, ""),
        ("yield", 4, "10us", {"begin": Begin.TURNS, "ready": 9, "at_once": 1}, "beside 9 others, more than"),
        ("yield", 5, "2ms", {"begin": Begin.TURNS, "ready": 5, "at_once": 1}, "begin by turns, the file is for yield"),
        ("", 0, "", {"begin": Begin.TURNS, "ready": 5, "at_once": 1}, "begin by turns, the file is for isolated"),
    ],
)  # fmt: skip
def test_a_file_with_turns_is_for_a_host_with_turns(
    wanted: str, groups: int, decision: str, changes: dict[str, Any], why: str
) -> None:
    """And for one that has no more processes on at once than the file counts; one with yield for both hosts."""
    values = f'yield = {{ slice = "1ms", groups = {groups}, decision = "{decision}", stall = "0us" }}'
    file = parse(Path("set.toml"), text("segment", f'begin = "{wanted}"\n{values}' if wanted else ""))
    host = under("segment", replace(REAL, **changes))
    found = [one.text for one in objections(file, host) if one.code is Code.BEGIN]
    assert [why in one for one in found] == ([True] if why else [])
    nobody = under("segment", replace(REAL, **{**changes, "ready": None, "at_once": None}))
    assert [one.text for one in objections(file, joined_looks(host, nobody)) if one.code is Code.BEGIN] == found


@pytest.mark.parametrize("broken", ["", "[]", "{}", '{"gpus": 3}', '{"gpus": [{}]}', "null", "nan"])
def test_a_trace_without_its_host_is_no_evidence_and_still_has_its_policy(broken: str) -> None:
    file = PARSED["segment suspend"]
    unknown, found = objections(file, fit.of_trace(Trace({"policy": "job", HOST: broken}, (), {}, 0), file))
    assert (unknown.code, unknown.defeats) == (Code.UNKNOWN, (Defeats.BOUNDS,))
    assert (found.code, found.text) == (Code.POLICY, "the run was under policy job, the file says segment")


def test_a_simulated_trace_needs_no_host() -> None:
    file = PARSED["segment suspend"]
    assert objections(file, fit.of_trace(Trace({"policy": "segment", "clock": "virtual"}, (), {}, 0), file)) == []


def test_a_process_of_a_trace_is_the_task_that_its_program_is_or_whose_jobs_it_told_of() -> None:
    """`gpurt trace record` has no file: the file that the trace is judged with later names the processes."""
    file = PARSED["segment suspend"]
    launched = replace(file, launch={**file.launch, "lidar": replace(file.launch["lidar"], command=("/x/node", "-l"))})
    programs = {1: ("camera", ""), 2: ("a", fingerprint(["/x/node", "-l"])), 3: ("python3", ""), 4: ("b", "")}
    host = under("segment", clients=[replace(CLIENT, pid=pid) for pid in programs], programs=programs)
    jobs = (Event(0, Kind.START, "camera", 1, 0, detail="python3-3"), Event(1, Kind.START, "other", 1, 0, detail="b-4"))
    back = fit.of_trace(Trace({HOST: fit.saved(host), "policy": "segment"}, jobs, {}, 0), launched)
    assert back.names == {1: ("camera",), 2: ("lidar",), 3: ("camera",), 4: ()}
    assert [one.text[:9] for one in objections(launched, back) if one.code is Code.STRANGER] == ["process 4"]


def test_what_was_wrong_at_any_look_at_a_host_is_kept() -> None:
    late, programs = replace(VIRTUAL, late=1), {4711: ("camera", "")}
    first = under("boosted", late, clients=[CLIENT], programs=programs, troubles=["a"])
    other = replace(CLIENT, client=8, pid=12, comm="x")
    last = under("segment", clients=[other], programs={12: ("x", "")}, raises=None)
    both = joined_looks(joined_looks(first, first), last)
    assert (both.gpus[0].late, both.policy, both.raises, both.troubles) == (1, "boosted", True, ["a"])
    assert [one.pid for one in both.clients] == [4711, 12]
    for policy in ("segment", "boosted"):
        file = PARSED[f"{policy} suspend"]
        assert codes(file, both.named(file)).keys() >= {"policy", "isolation", "stranger"}
    assert joined_looks(first, first).policy is None


def test_a_report_refutes_an_assumption_for_each_objection_that_defeats_bounds() -> None:
    for title, name in PAIRS:
        found = objections(PARSED[name], HOSTS[title])
        evidence = Evidence(PARSED[name], None, None, HOSTS[title].gpus, HOSTS[title].latency, objections=found)
        told = " ".join(one.text for one in judged_assumptions(evidence) if one.support is Support.REFUTED)
        assert [one.text for one in found if Defeats.BOUNDS in one.defeats and one.text not in told] == []


def test_a_report_refutes_the_costs_of_a_file_that_begins_by_yield() -> None:
    file = parse(Path("set.toml"), (ROOT / "examples/every-key-yield.toml").read_text(encoding="utf-8"))
    host = under("segment", replace(REAL, begin=Begin.YIELD), latency=[updates(9 * MS)])
    found = objections(file, host)
    assert [one.code for one in found] == [Code.MEASURED]
    told = judged_assumptions(Evidence(file, None, None, host.gpus, host.latency, objections=found))
    assert [one.text for one in told if one.support is Support.REFUTED] == [found[0].text + "; " + found[0].cure]


def test_a_report_says_seen_to_hold_only_of_what_was_seen() -> None:
    """Not in a simulation, in a run that the bounds are not about, of clocks of some tasks, or of no update."""

    def states(file: TasksetFile, **known: Any) -> dict[str, Support]:
        evidence = Evidence(file, find_test("boosted-suspend"), **known)
        return {one.assumption.partition(" ")[0]: one.support for one in judged_assumptions(evidence)}

    file, release = PARSED["boosted suspend"], (Event(0, Kind.RELEASE, "camera", 1),)
    real, simulated = (Trace({"clock": clock}, release) for clock in ("CLOCK_MONOTONIC", "virtual"))
    for trace, compared, support in (
        (real, True, "unrefuted"), (real, False, "unchecked"), (simulated, True, "unchecked"),
    ):  # fmt: skip
        told = states(file, traces=[("run", trace)], findings=[("run", [])] * compared)
        assert (told["Two"], told["Only"]) == (Support(support), Support(support))
    for count, support in ((0, "unchecked"), (1, "unrefuted")):
        host = under("boosted", REAL, latency=[updates(count=count)])
        assert states(file, gpus=host.gpus, latency=host.latency)["No"] is Support(support)
    look, stated = MachineClocks((), (), None, None), 'clocks = { cpu = "1GHz" }'
    clocked = text("boosted", task=stated, other='deadline = "1s"')
    for one, support in ((clocked, "unchecked"), (clocked.replace('deadline = "1s"', stated), "unrefuted")):
        assert states(parse(Path("set.toml"), one), clocks=[look])["Clocks"] is Support(support)


def test_a_report_by_a_test_of_another_policy_than_the_hosts_does_not_say_that_the_host_runs_it() -> None:
    host = under("boosted")
    told = judged_assumptions(Evidence(PARSED["boosted suspend"], find_test("gcaps-suspend"), None, host.gpus))
    (policy,) = [one for one in told if one.assumption.startswith("The GPU is scheduled by policy segment")]
    assert (policy.support, policy.text) == (Support.REFUTED, "the host runs boosted")


@pytest.mark.parametrize(("count", "margin", "few"), [(72, None, True), (72, "1/10", False), (5000, None, False)])
def test_alpha_from_few_updates_needs_a_margin_that_somebody_answers_for(
    count: int, margin: str | None, few: bool
) -> None:
    share = Fraction(margin) if margin else None
    host = under("segment", latency=[updates(500 * US, count)], **THERE)
    changed, said, found = fit.measured(PARSED["no epsilon"], host, share)
    assert changed.taskset.platform.alpha == (550 if margin else 600) * US
    assert [one.code.value for one in found] == ["few-updates"] * few
    assert f"the longest of {count} runlist updates" in said
    assert codes(changed, host) == {}


def test_updates_of_the_hosts_past_are_not_the_files() -> None:
    """5000 were before its programs had begun, or while one of them was not there; a margin is answered for."""
    file, host = PARSED["segment suspend"], under("segment", **THERE)
    assert fit.measured(file, host, None)[2] == []
    new = [replace(one, segments=400) for one in host.clients]
    for changed, said in ((replace(host, clients=new[:1]), "timed 0 runlist updates beside lidar, which is no client"),
                          (replace(host, clients=[]), "timed 0 runlist updates beside camera"),
                          (replace(host, clients=[new[0], replace(new[1], segments=99)]), "timed 998 runlist")):
        (few,) = fit.measured(file, changed, None)[2]
        assert said in few.text
        assert not fit.measured(file, changed, Fraction(1, 2))[2]


def test_alpha_has_the_raise_of_threads_after_an_update() -> None:
    raised = replace(updates(90 * US, 3), cause=Cause.RAISE)
    for policy, raising in (("segment", 0), ("boosted", 90 * US)):
        host = under(policy, latency=[updates(500 * US, 5000), raised], raises=True)
        file = PARSED["no epsilon"]
        platform = replace(file.taskset.platform, policy=policy)
        file = replace(file, taskset=replace(file.taskset, platform=platform))
        changed, said, _ = fit.measured(file, host, Fraction(0))
        assert changed.taskset.platform.alpha == 500 * US + raising
        assert ("host has seen with the longest raise of a thread" in said) == bool(raising)
        slow = replace(host, latency=[updates(500 * US, 5000), replace(raised, maximum=100 * US)])
        assert ("measured" in codes(changed, slow)) == bool(raising)


def test_an_alpha_without_the_raise_of_a_thread_that_the_host_has_to_raise_is_none() -> None:
    file, one = PARSED["boosted owner"], replace(updates(90 * US, 3), cause=Cause.RAISE)
    (none,) = fit.measured(file, under("boosted", latency=[updates()]), Fraction(1, 2))[2]
    assert none.text == "the host has timed 0 raises of threads, too few to take the longest for the worst"
    host = under("boosted", latency=[updates(), one], **THERE)
    assert [one.text for one in fit.measured(file, host, None)[2]] == [
        "the host has timed 3 raises of threads, too few to take the longest for the worst"
    ]
    assert fit.measured(file, host, Fraction(1, 2))[2] == []


def test_an_unknown_switch_of_a_partition_may_be_all_of_its_epsilon() -> None:
    """The host measures updates, not switches: 5 ms do not become the platform's 0.1."""
    own = 'partition = "a"'
    part = '[[partition]]\nname = "a"\ncompute_units = 4\nepsilon = "5ms"'
    file = parse(Path("set.toml"), text("segment", "compute_units = 8", own, more=part))
    for gpu in (VIRTUAL, REAL):
        changed = fit.measured(file, under("segment", gpu, latency=[updates(400 * US)]), None)[0].taskset
        assert changed.platform.costs(changed.partitions[0]) == (480 * US, 5 * MS)
        assert changed.tasks[0].partition == changed.partitions[0]


def test_nothing_is_made_up_where_nothing_was_measured() -> None:
    with pytest.raises(DeviceError, match="no runlist update yet"):
        fit.measured(PARSED["segment suspend"], under("segment", latency=[]), None)
    two = under("segment", count=2, latency=[updates()])
    assert not fit.measured(PARSED["segment suspend"], two, Fraction(1, 2))[2]  # nobody uses the other
    used = replace(two, gpus=[replace(one, tsgs=1) for one in two.gpus])
    with pytest.raises(DeviceError, match="GPU 1 of the host has carried out no"):  # a margin is for what was seen
        fit.measured(PARSED["segment suspend"], used, Fraction(1, 2))
    with pytest.raises(FileError, match="lacks theta"):
        fit.measured(parse(Path("set.toml"), text("segment", costs="")), under("segment", REAL), None)


def test_the_manual_has_every_code_and_what_it_defeats() -> None:
    page = (ROOT / "docs/output.md").read_text(encoding="utf-8")
    rows = dict(re.findall(r"^\| `([a-z-]+)` \| ([a-z, ]+) \|", page.partition("## Objections")[2], re.MULTILINE))
    assert list(rows) == [one.value for one in Code]
    schema = json.loads((ROOT / "docs/output.schema.json").read_text(encoding="utf-8"))
    assert schema["$defs"]["object"]["properties"]["code"]["enum"] == list(rows)
    assert schema["$defs"]["object"]["properties"]["cause"]["enum"] == [cause.word for cause in Cause]
    for title, name in PAIRS:
        for one in objections(PARSED[name], HOSTS[title]):
            assert {what.value for what in one.defeats} <= set(rows[one.code.value].split(", ")), one


OWNED = """
[platform]
cpus = 2
policy = "federated"
compute_units = 4
[[partition]]
name = "p1"
compute_units = 2
[[partition]]
name = "p2"
compute_units = 2
[[task]]
name = "a"
cpu = 0
priority = 2
period = "100ms"
partition = "p1"
segments = [{ cpu = "1ms" }, { kernel = "8ms", overhead = "1ms" }]
[[task]]
name = "b"
cpu = 1
priority = 1
period = "100ms"
partition = "{b}"
segments = [{ cpu = "1ms" }, { kernel = "8ms", overhead = "1ms" }]
"""


def test_tasks_that_own_units_need_a_gpu_each_that_nobody_orders() -> None:
    """Policy federated: virtual GPUs under timesliced, one for each task; a real host does not see where work is."""
    file = parse(Path("set.toml"), OWNED.replace("{b}", "p2"))
    assert not codes(file, under("timesliced", count=2))
    found = objections(file, under("boosted", count=2))
    assert {one.code for one in found if one.code is not Code.GPUS} >= {Code.POLICY}
    assert all("timesliced" in one.cure for one in found if one.code is Code.POLICY)
    assert "units" in codes(file, under("timesliced"))
    assert "units" in codes(file, under("timesliced", REAL, 2))
    shared = parse(Path("set.toml"), OWNED.replace("{b}", "p1"))
    assert "units" in codes(shared, under("timesliced", count=2))
