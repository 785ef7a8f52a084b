# SPDX-License-Identifier: GPL-2.0
"""The tables and fields of a taskset file, from which its JSON Schema is made."""

from __future__ import annotations

import re

from analysis.model import DEFAULT_POLICY, POLICIES, Intensity, Protocol, Sharing, Waiting
from analysis.model.callbacks import Callback, Order
from analysis.model.platform import ISOLATED, TURNS, YIELD
from analysis.taskset import schema
from analysis.taskset.clocks import CLOCKS
from analysis.taskset.schema import Field
from analysis.taskset.segments import SEGMENT
from gpurt.enums import Form, Policy

UNITS = {
    "minimum": Field(schema.integer(1, schema.MAX_UNITS), "the smallest partition", required=True),
    "step": Field(schema.integer(1, schema.MAX_UNITS), "by how many units sizes differ; 1 unless given"),
}
YIELDING = {
    "slice": Field(schema.time(1), "the longest slice of a less urgent group, also one just made", required=True),
    "groups": Field(
        schema.integer(0, 1000), "number of groups of processes other than the real-time tasks'", required=True
    ),
    "decision": Field(schema.time(), "time from a post, or a due timer, until the host has decided", required=True),
    "stall": Field(schema.time(), "how long a driver call for one process stops another process", required=True),
}
PLATFORM = {
    "cpus": Field(schema.integer(1, schema.MAX_CPUS), "number of CPUs", required=True),
    "epsilon": Field(schema.time(), "runlist update cost, alpha + theta; needed where a real-time task uses the GPU"),
    "alpha": Field(schema.time(), "the part of epsilon that is not the context switch"),
    "theta": Field(schema.time(), "GPU context switch cost"),
    "time_slice": Field(
        schema.time(1),
        "time slice L of the default driver, as set: it lasts 1.024 times as long; 1024us unless given",
        assumes="the driver's slices are 1024us",
    ),
    "copy_engine": Field(
        schema.boolean(),
        "whether copies run beside kernels; true unless given",
        assumes="copies do not delay kernels of other tasks",
    ),
    "compute_units": Field(schema.integer(0, schema.MAX_UNITS), "SMs or CUs of the GPU"),
    "units": Field(schema.table_of_fields(UNITS), "how many units a partition may have; any number unless given"),
    "cross_contention": Field(
        schema.factor(),
        "slow-down of memory-intensive work while another partition does such work; 1 unless given",
        assumes="partitions do not slow each other's work down",
    ),
    "chip": Field(schema.string("^[A-Za-z0-9_.-]{1,32}$", "the name of a chip"), "the GPU's chip, for CU masks"),
    "bus_chunk": Field(
        schema.time(1),
        "where tasks own units: the longest chunk in which any program copies; whole copies unless given",
    ),
    "region": Field(
        schema.time(),
        "the longest thread block or copy chunk, for which every preemption of the GPU may wait; the longest "
        "that segments name unless given",
        assumes="no preemption of the GPU waits for a thread block or a copy, beyond what theta has",
    ),
    "cpu_latency": Field(
        schema.time(),
        "how long a wake-up occupies the CPU at most, until the thread executes (cyclictest); none unless given",
        assumes="a thread executes at once when it wakes",
    ),
    "clocks": Field(
        schema.table_of_fields(CLOCKS),
        "the clocks at which the file's times hold; not stated unless given",
        assumes="times hold at whatever clocks the machine has",
    ),
    "policy": Field(
        schema.choice(*(one.name for one in POLICIES.values() if not one.published)),
        f"how the GPU is scheduled; {DEFAULT_POLICY} unless given",
    ),
    "begin": Field(
        schema.choice(ISOLATED, YIELD, TURNS),
        "policy segment: whether others leave the GPU before a GPU segment executes (isolated) or while it executes "
        "(yield; turns: best effort also takes turns); isolated unless given",
    ),
    "yield": Field(
        schema.table_of_fields(YIELDING), "begin by yield or turns: measured times; no bound unless given"
    ),
    "thread_cpu": Field(
        schema.integer(0, schema.MAX_CPUS - 1),
        "policy job: the CPU on which the host's thread stays, as gpurt.ko's parameter says; any unless given",
    ),
}
OWN_PARTITION = {
    "compute_units": Field(schema.integer(1, schema.MAX_UNITS), "how many SMs or CUs the task may use"),
    "cu_mask": Field(
        schema.string("^0x[0-9a-fA-F]{1,256}$", 'a mask such as "0xff"'),
        "which CUs the task may use",
    ),
}
#: The characters that names may have, as in a regular expression, and the longest name.
CHARACTERS, NAME_LENGTH = "A-Za-z0-9_.-", 64
NAME = schema.string(f"^[{CHARACTERS}]{{1,{NAME_LENGTH}}}$", f"up to {NAME_LENGTH} letters, digits, '.', '_' and '-'")


def task_name(name: str) -> str:
    """The name for a task of a program with this name: each character that names may not have becomes "-"."""
    return re.sub(f"[^{CHARACTERS}]", "-", name)[:NAME_LENGTH] or "task"


_ANY_STRING = schema.string("^[^\\u0000]*$", "a string without NUL")
TASK = {
    "name": Field(NAME, "the task's name, used once", required=True),
    "cpu": Field(schema.integer(0, schema.MAX_CPUS - 1), "the CPU it is pinned to, from 0", required=True),
    "priority": Field(
        schema.integer(0, schema.MAX_PRIORITY), "SCHED_FIFO priority 1..99, 0 for best effort", required=True
    ),
    "gpu_priority": Field(schema.integer(1, schema.MAX_PRIORITY), "priority of its GPU segments; its own unless given"),
    "period": Field(
        schema.time(1), "minimum time between releases; a worker has its task's, best effort 1s unless given"
    ),
    "jitter": Field(
        schema.time(),
        "how much later than its arrival a job may be released; period is then the time between arrivals; none unless "
        "given",
        assumes="each job is released when it arrives",
    ),
    "releases": Field(
        schema.choice("periodic", "sporadic"), "whether arrivals are exactly period apart; sporadic unless given"
    ),
    "max_period": Field(schema.time(1), "the longest time between arrivals; a sporadic task has none unless given"),
    "deadline": Field(schema.time(1), "relative deadline, from the release; the period unless given"),
    "offset": Field(schema.time(), "its first release, in plans of energy; 0 unless given"),
    "gpu": Field(NAME, "the only [[gpu]] that it may use; any GPU of its profile unless given"),
    "waiting": Field(
        schema.choice(*(mode.value for mode in Waiting)),
        "how it waits during G^e; suspend unless given",
        assumes="its thread sleeps while its GPU work executes: CUDA and HIP spin unless told otherwise",
    ),
    "form": Field(
        schema.choice(*Form.words()),
        "when policy boosted raises its thread; self unless given if it suspends, owner if it waits busily",
        assumes="its program states the form that goes with its waiting, or none",
    ),
    "segments": Field(
        schema.array(schema.table_of_fields(SEGMENT), "an array of segments"), "its segments in order", required=True
    ),
    "command": Field(schema.array(_ANY_STRING, "an array of strings"), "the program and its arguments"),
    "cgroup": Field(
        schema.string("^(?!.*/[.][.](/|$))/[^\\u0000]*$", "a cgroup path from / without .."),
        "cgroup v2 path to run in",
    ),
    "group": Field(
        schema.string("^[ -~]{1,31}$", "1 to 31 printable ASCII characters"),
        "the group whose programs own the GPU together; none unless given",
    ),
    "process": Field(
        NAME,
        "the process, with one client, that its thread shares with threads of other tasks; its own unless given",
        assumes="no thread of its process serves another task",
    ),
    "partition": Field(
        schema.either(NAME, schema.table_of_fields(OWN_PARTITION), "the name of one [[partition]]"),
        "the [[partition]] that it executes in, or the part of the GPU that it alone may use",
    ),
    "intensity": Field(schema.choice(*(kind.value for kind in Intensity)), "what its GPU work uses most"),
    "conflict": Field(
        schema.factor(),
        "slow-down of its GPU work if its partition has another task of its intensity; 1 unless given",
        assumes="no other task of its intensity slows it down",
    ),
    "clocks": Field(
        schema.table_of_fields(CLOCKS), "the clocks of its times (measure times); the platform's unless given"
    ),
    "thread": Field(
        NAME,
        "the [[thread]] that serves its jobs and other tasks' jobs; its own unless given",
        assumes="its thread serves no other task",
    ),
    "rank": Field(schema.integer(0, 9999), "its place in its thread's order, 0 first; order fifo has none"),
    "kind": Field(schema.choice(*(kind.value for kind in Callback)), "what releases its jobs in a thread of ROS 2"),
}
THREAD = {
    "name": Field(NAME, "the thread's name, used once", required=True),
    "cpu": TASK["cpu"],
    "priority": TASK["priority"],
    "gpu_priority": Field(
        schema.integer(1, schema.MAX_PRIORITY), "priority of its tasks' GPU segments; its own unless given"
    ),
    "order": Field(
        schema.choice(*(order.value for order in Order)), "which of the pending jobs it serves next", required=True
    ),
    "command": TASK["command"],
    "cgroup": TASK["cgroup"],
    "group": TASK["group"],
    "process": TASK["process"],
}
CHAIN = {
    "name": Field(NAME, "the chain's name, used once", required=True),
    "tasks": Field(
        schema.array(
            schema.string(NAME.schema["pattern"], "a task's name (a fork or a join is a [[chain]] for each way)"),
            "an array of names",
        ),
        "its tasks, from the stimulus to the output",
        required=True,
    ),
    "links": Field(
        schema.array(schema.choice("sampled", "triggered"), "an array of links"),
        "whether each task but the first reads the last value, or the previous task releases it; sampled unless given",
    ),
    "stimulus": Field(
        schema.choice("sampled", "event"),
        "whether the first task samples the stimulus, or the stimulus releases it; sampled unless given",
    ),
    "max_reaction": Field(schema.time(1), "the longest allowed time from the stimulus to the output"),
    "max_age": Field(schema.time(1), "how old the data behind an output may become, until just before the next output"),
    "max_age_at_output": Field(schema.time(1), "how old the data behind an output may be when the output comes"),
}
SECTION = {
    "task": Field(NAME, "the task", required=True),
    "time": Field(schema.time(1), "how long the section takes at most; a part of a CPU segment", required=True),
    "times": Field(
        schema.integer(1, 1000), "how often a job enters it; 1 unless given", assumes="a job enters it once"
    ),
}
RESOURCE = {
    "name": Field(NAME, "the resource's name, used once", required=True),
    "protocol": Field(
        schema.choice(*(one.value for one in Protocol)),
        "how tasks wait: a mutex with priority inheritance or with a ceiling, or a lock under which nothing preempts",
        required=True,
    ),
    "sections": Field(
        schema.array(schema.table_of_fields(SECTION), "an array of sections"),
        "the critical sections of tasks",
        required=True,
    ),
}
SHARED_PARTITION = {
    "name": Field(NAME, "the partition's name, used once", required=True),
    **OWN_PARTITION,
    "policy": Field(schema.choice(*Policy.words()), "how it is scheduled; the platform's policy unless given"),
    "epsilon": Field(schema.time(), "cost of an update of its runlist, theta included; the platform's unless given"),
    "theta": Field(schema.time(), "cost of its context switch; unknown if it has its own epsilon, else the platform's"),
    "slice": Field(schema.time(1), "time slice of its TSGs; the platform's time_slice unless given"),
    "interleave": Field(schema.choice("low", "medium", "high"), "interleave level of its TSGs; low unless given"),
    "shared": Field(
        schema.choice(*(order.value for order in Sharing)),
        "its tasks are threads of one process and share one TSG, in this order; each task has its own TSG unless given",
    ),
    "mps_percentage": Field(schema.integer(1, 100), "NVIDIA MPS: the percentage of SMs that its programs may use"),
    "mps_partition": Field(
        schema.string("^GPU-[0-9a-f-]{36}/[A-Za-z0-9+/=_.-]{1,80}$", "what sm_partition of MPS's daemon printed"),
        "NVIDIA MPS: the static partition that its programs execute in",
    ),
    "green_context": Field(
        schema.integer(0, 255), "NVIDIA: the green context, from 0, of the GPU's split that its programs execute in"
    ),
    "mig": Field(
        schema.string("^MIG-[A-Za-z0-9-]{1,80}(/[0-9]{1,2}/[0-9]{1,2})?$", "an instance such as nvidia-smi -L lists"),
        "NVIDIA MIG: the instance that its programs execute on",
    ),
}
