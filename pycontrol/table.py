# SPDX-License-Identifier: GPL-2.0
"""The commands of `gpurt`: where each is defined, and what --help and completion say of it without importing it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Entry:
    """A command: ``module`` of pycontrol.commands has its function.  Or a group of the commands in ``parts``.

    ``summary`` fits one line.  ``usual``: the part that a group means without one.  ``about``: what the help of a group
    says after its first line.
    """

    summary: str
    module: str = ""
    function: str = ""
    parts: Mapping[str, Entry] = field(default_factory=dict)
    usual: str = ""
    about: str = ""
    hidden: bool = False


MEASURE = {
    "times": Entry("measure the times of a program's segments", "times", "times"),
    "kernels": Entry("measure a program's kernels by number of units", "kernels", "kernels"),
    "kernel": Entry("make a kernel of times measured by number of units", "kernel", "kernel"),
    "code": Entry("check the compiled code of a kernel of gpurt_sm.h", "code", "code"),
    "energy": Entry("measure the energy that a program needs", "measure_energy", "energy"),
    "sensors": Entry("list the sensors of power and energy", "measure_energy", "sensors"),
    "powers": Entry("fit a GPU's powers to measurements", "powers", "powers"),
    "import": Entry("make profiles of published measurements", "powers", "import_"),
    "board": Entry("find out what a driver does on this board", "board", "board"),
}
MASKS = {
    "divide": Entry("divide a GPU into masks that waste no unit", "masks", "divide"),
    "lint": Entry("check masks before they are used", "masks", "lint"),
    "show": Entry("show which units a mask enables", "masks", "show"),
    "simulate": Entry("simulate kernels under masks", "mask_simulate", "simulate"),
}
ENERGY = {
    "simulate": Entry("run the jobs on spatial virtual GPUs", "energy", "simulate"),
    "explain": Entry("say which units are best, and why", "energy", "explain"),
    "schedule": Entry("make the cyclic table of periodic tasks", "energy_offline", "schedule"),
    "cost": Entry("say what an explicit schedule costs", "energy_offline", "cost"),
    "optimum": Entry("find the least energy of a few jobs", "energy_offline", "optimum"),
}
PLAN = {
    "priorities": Entry("find GPU priorities by Audsley's method", "priorities", "priorities"),
    "modes": Entry("find the policy and waiting modes with most slack", "modes", "modes"),
    "partitions": Entry("divide the GPU in partitions, allocate the tasks", "partitions", "partitions"),
    "units": Entry("give each task units of its own", "units", "units"),
    "add": Entry("find a place for one more task", "add", "add"),
    "slices": Entry("plan time slices and interleave levels on a Tegra", "slices", "slices"),
    "masks": Entry("plan and check masks of AMD's compute units", parts=MASKS,
                   about="Masks divide AMD's GPUs (docs/cu-masks.md)."),
    "energy": Entry("schedule jobs in space by their energy", parts=ENERGY,
                    about="sBEET, sBEET-mg and what they are compared with (docs/energy.md)."),
}  # fmt: skip
TRACE = {
    "record": Entry("record the host's events", "record", "record"),
    "check": Entry("judge a trace by deadlines and bounds", "check", "check"),
    "plot": Entry("draw a trace", "plot", "plot"),
}
STATUS = {
    "gpus": Entry("show the GPUs, their owners and policies", "status", "gpus"),
    "latency": Entry("show how long runlist updates took", "status", "latency"),
    "clients": Entry("list the processes that use the GPU", "status", "clients"),
    "rules": Entry("list budgets, exemptions and bars", "status", "rules"),
}
SET = {
    "priority": Entry("set GPU priorities of processes", "rules", "priority"),
    "policy": Entry("change the scheduling policy", "rules", "policy"),
    "budget": Entry("limit how long processes may own the GPU", "rules", "budget"),
    "exempt": Entry("keep processes on the runlist, whichever task runs", "processes", "exempt"),
    "bar": Entry("keep processes from being raised on their CPUs", "processes", "bar"),
    "slice": Entry("set time slices of any process on a Tegra", "slice", "slice_"),
}
EXPERIMENT = {
    "list": Entry("list the experiments", "experiment", "list_"),
    "run": Entry("repeat published experiments", "experiment", "run"),
    "attack": Entry("search for schedules that break a bound", "experiment_attack", "attack"),
    "closeness": Entry("compare bounds with exact worst cases", "experiment_attack", "closeness"),
}
#: Heading -> command name -> its entry, in the order in which --help has them.
GROUPS: Mapping[str, Mapping[str, Entry]] = {
    "Describe a system": {
        "init": Entry("write a first taskset file from running processes", "init", "init"),
        "measure": Entry("times, kernels, energy, and what a board does", parts=MEASURE),
    },
    "Prove that deadlines hold": {
        "analyze": Entry("bound every task's worst-case response time", "analyze", "analyze"),
        "plan": Entry("find priorities, modes, partitions, slices, masks", parts=PLAN),
        "margins": Entry("say how much each time may grow, or must shrink", "margins", "margins"),
        "simulate": Entry("run the tasks in virtual time on the real scheduler", "simulate", "simulate"),
        "attack": Entry("explore every schedule of a small system", "attack", "attack"),
        "report": Entry("write all the evidence on one page", "report", "report"),
    },
    "Run": {
        "emulate": Entry("serve virtual GPUs, without privilege or hardware", "serve", "emulate"),
        "serve": Entry("schedule real GPUs on unmodified drivers", "serve", "serve"),
        "run": Entry("run the tasks as real processes", "run", "run"),
        "trace": Entry("record, check and plot what happened", parts=TRACE),
    },
    "Operate": {
        "status": Entry("show GPUs, clients, latencies and rules", parts=STATUS, usual="gpus"),
        "top": Entry("watch the clients and their shares", "top", "top"),
        "watch": Entry("watch a running system, or serve its metrics", "watch", "watch"),
        "set": Entry("set priorities, policy, budgets and rules", parts=SET),
        "apply": Entry("give running processes the file's priorities", "apply", "apply"),
        "doctor": Entry("check what real time needs here, and its cure", "system", "doctor"),
    },
    "Learn": {
        "demo": Entry("run the published case study under every policy", "demo", "demo"),
        "experiment": Entry("repeat published experiments, attack the bounds", parts=EXPERIMENT),
    },
    "": {
        "schema": Entry("print the JSON Schema of taskset files", "system", "schema", hidden=True),
        "completion": Entry("print the completion script of a shell", "system", "completion", hidden=True),
    },
}
#: Command name -> its entry.
COMMANDS: Mapping[str, Entry] = {name: entry for group in GROUPS.values() for name, entry in group.items()}


def paths(entries: Mapping[str, Entry] = COMMANDS, before: str = "") -> Iterator[tuple[str, Entry]]:
    """Each command with its groups before it, such as "plan masks show"; groups come before their parts."""
    for name, entry in entries.items():
        yield before + name, entry
        yield from paths(entry.parts, f"{before}{name} ")


#: The same without groups.
LEAVES: Mapping[str, Entry] = {path: entry for path, entry in paths() if not entry.parts}
