# SPDX-License-Identifier: GPL-2.0
"""Each key of the taskset file by each test that an answer rests on: the key counts, or the file is refused.

A base file has the system of the test.  Each key gets a value there that must not leave the answer as it is: a bound
gets larger, or the answer is no.  Where the same bounds come with a yes, the key has to be in `NO_MATTER` for that
test.  A new key of the file, and a new test, fail here until they have decided.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from analysis.answers import registry, verdict
from analysis.answers.loading import refuse_file
from analysis.model import Sharing
from analysis.taskset import TasksetFile, fields, parse, spatial
from analysis.taskset.clocks import CLOCKS
from analysis.taskset.schema import LINEAR_FIELDS, SPAN_FIELDS
from analysis.taskset.segments import SEGMENT
from gpurt.enums import Form
from gpurt.errors import TasksetError

if TYPE_CHECKING:
    from analysis.rta import Test

Document = dict[str, Any]
#: The tests on which answers rest.
TESTS = {**{name: test for name, test in registry.TESTS.items() if not test.assigns}, **registry.UNITS}
#: The tables of a file with their keys.
TABLES = {
    "platform": fields.PLATFORM, "units": fields.UNITS, "yield": fields.YIELDING, "clocks": CLOCKS, "task": fields.TASK,
    "own partition": fields.OWN_PARTITION, "thread": fields.THREAD, "chain": fields.CHAIN, "resource": fields.RESOURCE,
    "section": fields.SECTION, "partition": fields.SHARED_PARTITION, "segment": SEGMENT, "linear": LINEAR_FIELDS,
    "span": SPAN_FIELDS, "gpu": spatial.GPU, "profile": spatial.PROFILE, "on": spatial.ON,
}  # fmt: skip
KEYS = [f"{table}.{key}" for table, keys in TABLES.items() for key in keys]


def toml(value: Any) -> str:
    """A value as TOML."""
    if isinstance(value, dict):
        return f"{{ {', '.join(f'{json.dumps(key)} = {toml(one)}' for key, one in value.items())} }}"
    return f"[{', '.join(map(toml, value))}]" if isinstance(value, list) else json.dumps(value)


def text(document: Document) -> str:
    return "\n".join(f"{key} = {toml(value)}" for key, value in document.items())


def base(test: Test) -> Document:
    """A file of the test's system: `hi` above `lo` on CPU 0, `far` on CPU 1, `rest` is best effort on CPU 2."""
    form = {"form": test.forms[0].word} if test.forms == (Form.FENCE,) else {}
    units, slices = test.rules.units, test.sharing is not None
    tasks = []
    rows = (("hi", 0, 30, 100), ("lo", 0, 20, 200), ("far", 1, 10, 400), ("rest", 2, 0, 800))
    for name, cpu, priority, period in rows:
        waiting = test.waiting.value if test.waiting else "busy" if name == "hi" else "suspend"
        use = [{"misc": "1ms", "gpu": "2ms"}] if not units else [{"copy": "1ms"}, {"kernel_times": ["4ms", "2ms"]}]
        task: Document = {
            "name": name, "cpu": cpu, "priority": priority, "period": f"{period}ms", "waiting": waiting,
            "segments": [{"cpu": "2ms"}, *use, {"cpu": "1ms"}], **(form if priority else {}),
        }  # fmt: skip
        if units and priority:
            task["partition"] = {"compute_units": 2}
        elif units:
            task["segments"] = [{"copy": "1ms"}]
        elif test.rules.locks and not priority:
            task["segments"] = [{"cpu": "1ms"}]
        elif test.partitions or slices:
            task["partition"] = "b" if name == "far" else "c" if name == "rest" and slices else "a"
        tasks.append(task)
    platform = {"cpus": 3, "alpha": "300us", "theta": "100us", "policy": test.policy, "compute_units": 8}
    if test.rules.jobs:
        platform["thread_cpu"] = 0
    parts: list[Document] = []
    if test.partitions:
        parts = [{"name": "a", "compute_units": 4}, {"name": "b", "compute_units": 4}]
    elif test.sharing is not None:
        parts = [{"name": "a", "slice": "2ms", "shared": test.sharing.value}, {"name": "b", "slice": "1ms"},
                 {"name": "c", "slice": "1ms"}]  # fmt: skip
    return {"platform": platform, "partition": parts, "task": tasks}


Change = Callable[[Document], object]


def platform(**values: Any) -> Change:
    """Sets keys of [platform]; None removes one."""
    return lambda file: changed(file["platform"], values)


def task(name: str = "hi", **values: Any) -> Change:
    return lambda file: changed(next(one for one in file["task"] if one["name"] == name), values)


def changed(table: Document, values: Document) -> None:
    table.update(values)
    for key in [key for key, value in table.items() if value is None]:
        del table[key]


def segment(name: str = "hi", **values: Any) -> Change:
    """Replaces the task's GPU segment."""
    return lambda file: next(one for one in file["task"] if one["name"] == name).update(
        segments=[{"cpu": "2ms"}, values, {"cpu": "1ms"}])  # fmt: skip


def table(name_: str, **values: Any) -> Change:
    """Adds a table."""
    return lambda file: file.setdefault(name_, []).append(values)


def part(**values: Any) -> Change:
    """Sets keys of the first partition, or of one that all tasks have."""

    def change(file: Document) -> None:
        if not file["partition"]:
            file["partition"] = [{"name": "a"}]
            for one in file["task"]:
                one["partition"] = "a"
        changed(file["partition"][0], values)

    return change


def every(*changes: Change) -> Change:
    return lambda file: [change(file) for change in changes]


def thread(**values: Any) -> Change:
    """`hi` and `lo` are served by one thread."""
    served = {"cpu": None, "priority": None, "thread": "t"}
    whole = {"name": "t", "cpu": 0, "priority": 30, "order": "priority", **values}
    return every(task("hi", rank=0, **served), task("lo", rank=1, **served), table("thread", **whole))


def third(**values: Any) -> Change:
    """The thread of `hi` and `lo` serves a third task."""
    served = {"name": "z", "thread": "t", "rank": 2, "waiting": "suspend", "period": "40ms"}
    return table("task", **served, segments=[{"cpu": "3ms"}], **values)


def chain(**values: Any) -> Change:
    """From `hi` to `far`, unless other tasks are given; all are periodic."""
    periodic = (task(name, releases="periodic") for name in ("hi", "lo", "far"))
    return every(*periodic, table("chain", **{"name": "c", "tasks": ["hi", "far"], **values}))


def intense(hi: str, **values: Any) -> Change:
    """`hi` has this intensity, all others are memory-intensive."""
    others = (task(name, intensity="memory") for name in ("lo", "far", "rest"))
    return every(*others, task("hi", intensity=hi, **values))


def ros2(*kinds: str) -> Change:
    """The kinds of `hi`, `lo` and a third task of their thread."""
    one, two, three = kinds
    return every(thread(order="ros2-live-timers"), task("hi", kind=one), task("lo", kind=two), third(kind=three))


def resource(first: Document | None = None, **values: Any) -> Change:
    section = {"task": "lo", "time": "1ms", **(first or {})}
    whole = {"name": "r", "protocol": "ceiling", "sections": [section, {"task": "hi", "time": "1ms"}], **values}
    return table("resource", **whole)


def spinning(times: int) -> Change:
    """`hi` spins for `far`, so often a job."""
    asks, other = ({"task": name, "time": "100us", "times": times} for name in ("hi", "far"))
    return table("resource", name="r", protocol="spin", sections=[asks, other])


def yields(**values: Any) -> Change:
    measured = {"slice": "1ms", "groups": 1, "decision": "50us", "stall": "0us", **values}
    return platform(begin="yield", **{"yield": measured})


def profile(gpu: Document | None = None, **on: Any) -> Change:
    """`hi` has a kernel of a profile."""
    whole = {"gpu": "g", "copy_in": "1ms", "kernel": ["4ms", "2ms"], "power": "1W", **on}
    unit = {"name": "g", "compute_units": 2, "static_power": "4W", "idle_power": "1W", **(gpu or {})}
    one = {"name": "p", "on": [whole]}
    return every(platform(compute_units=None), table("gpu", **unit), table("profile", **one), segment(profile="p"))


def workers(**values: Any) -> Change:
    """`hi` starts `w`."""
    worker = {"name": "w", "cpu": 1, "priority": 30, "waiting": "suspend", "segments": [{"cpu": "20ms"}]}
    start = [{"cpu": "2ms"}, {"workers": ["w"], **values}, {"cpu": "1ms"}]
    return every(table("task", **worker), task("hi", segments=start, group="g"))


def same(file: Document) -> None:
    """The base file as it is."""


THREE = ["4ms", "2ms", "2ms"]
READY = segment(misc="1ms", gpu="2ms", ready=1)
#: Each key with a gentle value and a harsh one: the answer must not be the same.
VALUES: dict[str, tuple[Change, Change]] = {
    "platform.epsilon": (same, platform(alpha=None, epsilon="2ms")),
    "platform.alpha": (same, platform(alpha="2ms")), "platform.theta": (same, platform(theta="2ms")),
    "platform.time_slice": (same, platform(time_slice="4ms")),
    "platform.copy_engine": (segment(copy="2ms"), every(segment(copy="2ms"), platform(copy_engine=False))),
    "platform.compute_units": (same, platform(compute_units=1)),
    "platform.cross_contention": (intense("memory"), every(intense("memory"), platform(cross_contention=1.5))),
    "platform.bus_chunk": (platform(bus_chunk="100us"), platform(bus_chunk="900us")),
    "platform.region": (same, platform(region="2ms")), "platform.cpu_latency": (same, platform(cpu_latency="1ms")),
    "platform.policy": (same, platform(policy="lock-fifo")),
    "platform.begin": (same, platform(begin="yield")), "platform.yield": (same, yields()),
    "platform.thread_cpu": (same, platform(thread_cpu=1)),
    "yield.slice": (every(yields(slice="10us"), READY), every(yields(slice="1ms"), READY)),
    "yield.groups": (every(yields(slice="10us"), READY), every(yields(slice="10us", groups=3), READY)),
    "yield.decision": (yields(), yields(decision="500us")), "yield.stall": (yields(), yields(stall="1us")),
    "task.cpu": (same, task("far", cpu=0)), "task.priority": (same, task("lo", priority=40)),
    "task.gpu_priority": (same, task("lo", gpu_priority=50)), "task.period": (same, task("hi", period="6ms")),
    "task.jitter": (same, task("hi", jitter="95ms", deadline="150ms")),
    "task.deadline": (same, task("hi", deadline="4ms")),
    "task.waiting": (task("hi", waiting="suspend"), task("hi", waiting="busy")),
    "task.form": (same, task("hi", form="owner")), "task.segments": (same, segment(cpu="90ms")),
    "task.group": (same, task("hi", group="g")),
    "task.process": (same, every(task("hi", process="p"), task("far", process="p"))),
    "task.partition": (same, task("hi", partition={"compute_units": 1})),
    "task.intensity": (intense("compute", conflict=2), intense("memory", conflict=2)),
    "task.conflict": (intense("memory"), intense("memory", conflict=2)),
    "task.thread": (same, thread()),
    "task.rank": (every(thread(), third()), every(thread(), third(), task("hi", rank=5))),
    "task.kind": (ros2("timer", "waitable", "client"), ros2("waitable", "timer", "timer")),
    "task.max_period": (every(chain(max_age="950ms"), task("hi", releases=None, max_period="120ms")),
                        every(chain(max_age="950ms"), task("hi", releases=None, max_period="900ms"))),
    "task.releases": (chain(max_age="950ms"), every(chain(max_age="950ms"), task("hi", releases="sporadic"))),
    "thread.cpu": (thread(), thread(cpu=1)), "thread.priority": (thread(), thread(priority=5)),
    "thread.gpu_priority": (thread(), thread(gpu_priority=5)), "thread.order": (thread(), thread(order="fifo")),
    "thread.group": (thread(), thread(group="g")),
    "thread.process": (thread(), every(thread(process="p"), task("far", process="p"))),
    "chain.tasks": (chain(max_reaction="600ms"), chain(max_reaction="600ms", tasks=["hi", "lo", "far"])),
    "chain.links": (same, chain(links=["triggered"])),
    "chain.stimulus": (chain(max_reaction="500ms", stimulus="event"), chain(max_reaction="500ms")),
    "chain.max_reaction": (chain(), chain(max_reaction="1ms")), "chain.max_age": (chain(), chain(max_age="1ms")),
    "chain.max_age_at_output": (chain(), chain(max_age_at_output="1ms")),
    "resource.protocol": (resource(), resource(protocol="spin")), "resource.sections": (same, resource()),
    "section.task": (resource(), resource({"task": "rest"})), "section.time": (resource(), resource({"time": "2ms"})),
    "section.times": (spinning(1), spinning(2)),
    "partition.compute_units": (part(compute_units=4), part(compute_units=1)),
    "partition.cu_mask": (part(), part(cu_mask="0x1")),
    "partition.policy": (part(), part(policy="lock-fifo")), "partition.epsilon": (part(), part(epsilon="3ms")),
    "partition.theta": (part(), part(theta="200us")), "partition.slice": (part(), part(slice="4ms")),
    "partition.interleave": (part(interleave="high"), part(interleave="low")),
    "partition.shared": (part(), part(shared="deadline")),
    "partition.mps_percentage": (part(), part(mps_percentage=10)),
    "partition.mps_partition": (part(), part(mps_partition="GPU-6f1b5b1c-3a54-5b6c-9d3e-111111111111/Dx4")),
    "partition.green_context": (part(), part(green_context=1)),
    "partition.mig": (part(), part(mig="MIG-6f1b5b1c-3a54-5b6c-9d3e-111111111111")),
    "own partition.compute_units": (same, task("hi", partition={"compute_units": 1})),
    "own partition.cu_mask": (same, task("hi", partition={"cu_mask": "0x1"})),
    "segment.cpu": (same, segment(cpu="90ms")), "segment.misc": (same, segment(misc="90ms", gpu="1ms")),
    "segment.gpu": (same, segment(misc="1ms", gpu="90ms")), "segment.copy": (same, segment(copy="90ms")),
    "segment.ready": (every(yields(slice="10us"), READY),
                      every(yields(slice="10us"), segment(misc="1ms", gpu="2ms", ready=2))),
    "segment.kernel": (segment(kernel="4ms"), segment(kernel="90ms")),
    "segment.overhead": (segment(kernel="4ms"), segment(kernel="4ms", overhead="3ms")),
    "segment.interleave": (segment(kernel="4ms", interleave="1.5"), segment(kernel="4ms", interleave="2")),
    "segment.block": (segment(kernel="4ms"), segment(kernel="4ms", block="3ms")),
    "segment.kernel_times": (segment(kernel_times=["4ms", "2ms"]), segment(kernel_times=["40ms", "20ms"])),
    "segment.profile": (same, every(profile(copy_in="90ms"))), "segment.workers": (same, workers()),
    "segment.hold": (workers(), workers(hold=True)),
    "linear.parallel": (segment(misc="1ms", gpu={"parallel": "1ms"}), segment(misc="1ms", gpu={"parallel": "90ms"})),
    "linear.serial": (segment(misc="1ms", gpu={"parallel": "1ms"}),
                      segment(misc="1ms", gpu={"parallel": "1ms", "serial": "5ms"})),
    "span.worst": (same, segment(misc="1ms", gpu={"worst": "90ms", "best": "1ms"})),
    "gpu.limit": (profile(), profile({"limit": 1})),
    "gpu.granularity": (profile({"compute_units": 3}, kernel=THREE),
                        profile({"compute_units": 3, "granularity": 2}, kernel=THREE)),
    "span.best": (segment(kernel_times=["4ms", "2ms"]),
                  segment(kernel_times=["4ms", {"worst": "2ms", "best": "0ms"}])),
    "platform.units": (same, platform(units={"minimum": 5})), "units.minimum": (same, platform(units={"minimum": 5})),
    "units.step": (same, platform(units={"minimum": 1, "step": 2})),
    "gpu.compute_units": (profile(), profile({"compute_units": 1})),
    "on.copy_in": (profile(), profile(copy_in="5ms")), "on.copy_out": (profile(), profile(copy_out="5ms")),
    "on.kernel": (profile(), profile(kernel=["40ms", "20ms"])),
}


def outcome(test: Test, *changes: Change) -> dict[str, int] | str:
    """The bounds with a yes of the changed base file; else why there is none."""
    file = base(test)
    for change in changes:
        change(file)
    return answer(test.name, text(file))


@cache
def answer(name: str, toml: str) -> dict[str, int] | str:
    """What a test says of a file with that text; many changes change nothing."""
    test = TESTS[name]
    try:
        loaded = read(toml)
        refuse_file(loaded, [test], workers=True)
    except TasksetError as error:
        return str(error)
    result = test.run(loaded.taskset)
    why = verdict.no_proof(test, loaded.taskset) or verdict.unlike_the_file(test, loaded.taskset)
    if why := why or result.why or verdict.beyond(test, loaded.taskset, result):
        return why
    return {one.name: result.wcrt(one.name) or 0 for one in loaded.taskset.real_time}


@cache
def read(toml: str) -> TasksetFile:
    """Several tests have the same file."""
    return parse(Path("set.toml"), toml)


def turns(test: Test) -> bool:
    return test.rules.turns


def units(test: Test) -> bool:
    return test.rules.units


def shared(test: Test) -> bool:
    """Tasks share one GPU in time, which is no partition."""
    return not (units(test) or test.partitions)


#: Where a key changes no answer, for which tests, and why.
NO_MATTER: dict[str, tuple[Callable[[Test], bool], str]] = {
    **dict.fromkeys(("platform.epsilon", "platform.alpha"),
                    (lambda test: turns(test) or units(test), "no runlist is updated")),
    **dict.fromkeys(("platform.theta", "platform.region"), (units, "nothing preempts a task's own units")),
    "platform.time_slice": (lambda test: not turns(test) or test.sharing is not None,
                            "nobody has turns beside an owner, and TSGs of the base file have slices"),
    "platform.copy_engine": (shared, "a copy is a part of its GPU segment, beside which nothing executes"),
    "platform.compute_units": (shared, "times of the base file are those on all units"),
    "platform.bus_chunk": (lambda test: not units(test), "copies share no bus with others'"),
    "platform.policy": (lambda test: test.policy == "lock-fifo", "it is that"),
    "platform.thread_cpu": (lambda test: not test.rules.jobs, "no thread of the host updates runlists"),
    **dict.fromkeys(("platform.units", "units.minimum", "units.step"), (shared, "there are no partitions")),
    "task.gpu_priority": (turns, "turns have no priorities, except in a TSG that is shared by priority"),
    "task.form": (lambda test: Form.OWNER in test.forms or test.policy != "boosted", "bounds hold for form owner, too"),
    **dict.fromkeys(("task.partition", "own partition.compute_units", "own partition.cu_mask"),
                    (shared, "times are those on its units, and the GPU is another task's meanwhile")),
    "partition.compute_units": (lambda test: not units(test), "times are those on its units"),
    "partition.slice": (lambda test: test.partitions, "nobody has turns beside an owner"),
    "partition.interleave": (lambda test: not turns(test), "nobody has turns beside an owner"),
    "partition.shared": (lambda test: test.sharing is Sharing.DEADLINE, "it is that"),
    **dict.fromkeys(("partition.mps_partition", "partition.green_context", "partition.mig"),
                    (lambda test: test.partitions, "compute_units says how many it has")),
}  # fmt: skip
#: Keys that are no part of the system that bounds are about, by reason.
NOT_OF_BOUNDS = {
    "a name": ("task.name", "thread.name", "chain.name", "resource.name", "partition.name", "gpu.name", "gpu.type",
               "profile.name", "profile.on", "on.gpu", "on.source"),
    "the host is compared with it (fit)": (
        "platform.clocks", "task.clocks", *(f"clocks.{key}" for key in CLOCKS), "task.command", "task.cgroup",
        "thread.command", "thread.cgroup"),
    "plans of energy alone": ("task.offset", "task.gpu", "gpu.slots", "gpu.static_power", "gpu.idle_power", "gpu.clock",
                              "on.power", "on.measured_power", "on.clock"),
    "a limit of other keys": ("platform.cpus", "platform.chip"),
}  # fmt: skip


def test_every_key_of_the_file_has_decided() -> None:
    others = {key for keys in NOT_OF_BOUNDS.values() for key in keys}
    assert sorted([*VALUES, *others]) == sorted(KEYS)
    assert NO_MATTER.keys() <= VALUES.keys()


@pytest.mark.parametrize("key", VALUES)
def test_the_gentle_value_of_each_key_has_a_yes_of_some_test(key: str) -> None:
    assert any(isinstance(outcome(test, VALUES[key][0]), dict) for test in TESTS.values())


@pytest.mark.parametrize("name", TESTS)
def test_every_test_uses_each_key_or_refuses_it_or_says_why_not(name: str) -> None:
    test = TESTS[name]
    assert isinstance(outcome(test), dict)
    silent = {key for key, (gentle, harsh) in VALUES.items() if not _heard(outcome(test, gentle), outcome(test, harsh))}
    assert silent - {key for key, (where, _) in NO_MATTER.items() if where(test)} == set()


def _heard(before: dict[str, int] | str, after: dict[str, int] | str) -> bool:
    """Whether a yes became a no, or a bound larger."""
    if isinstance(before, str) or isinstance(after, str):
        return isinstance(after, str) or isinstance(before, str)
    return any(after.get(name, 0) > bound for name, bound in before.items())
