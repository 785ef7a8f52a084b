# SPDX-License-Identifier: GPL-2.0
"""The commands of `gpurt`: where each is defined, and what --help and completion say of it without importing it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

#: Set by the shell when it asks for completions.
COMPLETE = "_GPURT_COMPLETE"


@dataclass(frozen=True, slots=True)
class CommandEntry:
    """A command: ``module`` of pycontrol.commands has its function.  Or a group of the commands in ``parts``.

    ``summary`` fits one line.  ``usual``: the part that a group means without one.  ``about``: what the help of a group
    says after its first line.
    """

    summary: str
    module: str = ""
    function: str = ""
    parts: Mapping[str, CommandEntry] = field(default_factory=dict)
    usual: str = ""
    about: str = ""
    hidden: bool = False


MEASURE = {
    "times": CommandEntry("measure the times of a program's segments", "times", "times"),
    "kernels": CommandEntry("measure a program's kernels by number of units", "kernels", "kernels"),
    "kernel": CommandEntry("make a kernel of times measured by number of units", "kernel", "kernel"),
    "code": CommandEntry("check the compiled code of a kernel of gpurt_sm.h", "code", "code"),
    "latency": CommandEntry("measure how late threads wake on this machine", "latency", "latency"),
    "energy": CommandEntry("measure the energy that a program needs", "measure_energy", "energy"),
    "sensors": CommandEntry("list the sensors of power and energy", "measure_energy", "sensors"),
    "powers": CommandEntry("fit a GPU's powers to measurements", "powers", "powers"),
    "board": CommandEntry("find out what a driver does on this board", "board", "board"),
}
MASKS = {
    "divide": CommandEntry("divide a GPU into masks that waste no unit", "masks", "divide"),
    "lint": CommandEntry("check masks before they are used", "masks", "lint"),
    "show": CommandEntry("show which units a mask enables", "masks", "show"),
}
ENERGY = {
    "simulate": CommandEntry("run the jobs on spatial virtual GPUs", "energy", "simulate"),
    "explain": CommandEntry("say which units are best, and why", "energy", "explain"),
    "schedule": CommandEntry("make the cyclic table of periodic tasks", "energy_offline", "schedule"),
    "cost": CommandEntry("say what an explicit schedule costs", "energy_offline", "cost"),
    "optimum": CommandEntry("find the least energy of a few jobs", "energy_offline", "optimum"),
}
PLAN = {
    "priorities": CommandEntry("find GPU priorities by Audsley's method", "priorities", "priorities"),
    "modes": CommandEntry("find the policy and waiting modes with most slack", "modes", "modes"),
    "partitions": CommandEntry("divide the GPU in partitions, allocate the tasks", "partitions", "partitions"),
    "units": CommandEntry("give each task units of its own", "units", "units"),
    "add": CommandEntry("find a place for one more task", "add", "add"),
    "slices": CommandEntry("plan time slices and interleave levels on a Tegra", "slices", "slices"),
    "masks": CommandEntry("plan and check masks of AMD's compute units", parts=MASKS,
                   about="Masks divide AMD's GPUs (docs/cu-masks.md)."),
    "energy": CommandEntry("schedule jobs in space by their energy", parts=ENERGY,
                    about="sBEET, sBEET-mg and what they are compared with (docs/energy.md)."),
}  # fmt: skip
TRACE = {
    "record": CommandEntry("record the host's events", "record", "record"),
    "check": CommandEntry("judge a trace by deadlines and bounds", "check", "check"),
    "plot": CommandEntry("draw a trace", "plot", "plot"),
}
STATUS = {
    "gpus": CommandEntry("show the GPUs, their owners and policies", "status", "gpus"),
    "latency": CommandEntry("show how long runlist updates took", "status", "latency"),
    "clients": CommandEntry("list the processes that use the GPU", "status", "clients"),
    "rules": CommandEntry("list budgets, exemptions and bars", "status", "rules"),
}
SET = {
    "priority": CommandEntry("set GPU priorities of processes", "rules", "priority"),
    "policy": CommandEntry("change the scheduling policy", "rules", "policy"),
    "budget": CommandEntry("limit how long processes may own the GPU", "rules", "budget"),
    "exempt": CommandEntry("keep processes on the runlist, whichever task runs", "processes", "exempt"),
    "group": CommandEntry("have processes own the GPU together", "groups", "group"),
    "bar": CommandEntry("keep processes from being raised on their CPUs", "processes", "bar"),
    "slice": CommandEntry("set time slices of any process on a Tegra", "slice", "slice_"),
}
EXPERIMENT = {
    "list": CommandEntry("list the experiments", "experiment", "list_"),
    "run": CommandEntry("repeat published experiments", "experiment", "run"),
    "bounds": CommandEntry("bound a file's tasks by papers' tests", "experiment_bounds", "bounds"),
    "attack": CommandEntry("search for schedules that break a bound", "experiment_attack", "attack"),
    "files": CommandEntry("attack the bounds of random files", "experiment_attack", "files"),
    "closeness": CommandEntry("compare bounds with exact worst cases", "experiment_attack", "closeness"),
}
#: Heading -> command name -> its entry, in the order in which --help has them.
GROUPS: Mapping[str, Mapping[str, CommandEntry]] = {
    "Describe a system": {
        "init": CommandEntry("write a first taskset file from running processes", "init", "init"),
        "measure": CommandEntry("times, kernels, energy, and what a board does", parts=MEASURE),
    },
    "Prove that deadlines hold": {
        "analyze": CommandEntry("bound every task's worst-case response time", "analyze", "analyze"),
        "plan": CommandEntry("find priorities, modes, partitions, slices, masks", parts=PLAN),
        "margins": CommandEntry("say how much each time may grow, or must shrink", "margins", "margins"),
        "simulate": CommandEntry("run the tasks in virtual time on the real scheduler", "simulate", "simulate"),
        "attack": CommandEntry("explore every schedule of a small system", "attack", "attack"),
        "report": CommandEntry("write all the evidence on one page", "report", "report"),
    },
    "Run": {
        "emulate": CommandEntry("serve virtual GPUs, without privilege or hardware", "serve", "emulate"),
        "serve": CommandEntry("schedule real GPUs on unmodified drivers", "serve", "serve"),
        "run": CommandEntry("run the tasks as real processes", "run", "run"),
        "trace": CommandEntry("record, check and plot what happened", parts=TRACE),
    },
    "Operate": {
        "status": CommandEntry("show GPUs, clients, latencies and rules", parts=STATUS, usual="gpus"),
        "top": CommandEntry("watch the clients and their shares", "top", "top"),
        "watch": CommandEntry("watch a running system, or serve its metrics", "watch", "watch"),
        "set": CommandEntry("set priorities, policy, budgets and rules", parts=SET),
        "apply": CommandEntry("give running processes the file's priorities", "apply", "apply"),
        "doctor": CommandEntry("check what real time needs here, and its cure", "system", "doctor"),
    },
    "Learn": {
        "demo": CommandEntry("run the published case study under every policy", "demo", "demo"),
        "experiment": CommandEntry("repeat published experiments, attack the bounds", parts=EXPERIMENT),
    },
    "": {
        "schema": CommandEntry("print the JSON Schema of taskset files", "system", "schema", hidden=True),
        "help": CommandEntry("say what a command, a key of a file or an exit code is", "system", "help_", hidden=True),
        "completion": CommandEntry("print the completion script of a shell", "system", "completion", hidden=True),
    },
}
#: Command name -> its entry.
COMMANDS: Mapping[str, CommandEntry] = {name: entry for group in GROUPS.values() for name, entry in group.items()}


def paths(entries: Mapping[str, CommandEntry] = COMMANDS, before: str = "") -> Iterator[tuple[str, CommandEntry]]:
    """Each command with its groups before it, such as "plan masks show"; groups come before their parts."""
    for name, entry in entries.items():
        yield before + name, entry
        yield from paths(entry.parts, f"{before}{name} ")


#: The same without groups.
LEAVES: Mapping[str, CommandEntry] = {path: entry for path, entry in paths() if not entry.parts}
