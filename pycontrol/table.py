# SPDX-License-Identifier: GPL-2.0
"""The commands of `gpurt`: the module of each, and its texts for --help and completion, without importing it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

#: The variable that the shell sets when it asks for completions.
COMPLETE = "_GPURT_COMPLETE"


@dataclass(frozen=True, slots=True)
class CommandEntry:
    """A command, whose function NAME_command is in ``module`` of pycontrol.commands; or a group with ``parts``.

    ``summary`` fits one line.  ``about``: the help of a group after its first line.
    """

    summary: str
    module: str = ""
    parts: Mapping[str, CommandEntry] = field(default_factory=dict)
    about: str = ""
    hidden: bool = False


MEASURE = {
    "times": CommandEntry("measure the times of a program's segments", "times"),
    "kernels": CommandEntry("measure kernels by number of units, fit segments", "kernels"),
    "board": CommandEntry("find out what a driver does on this board", "board"),
}
MASKS = {
    "divide": CommandEntry("divide a GPU into masks that waste no unit", "masks"),
    "check": CommandEntry("show what masks enable, and what is wrong", "masks"),
}
ENERGY = {
    "simulate": CommandEntry("run the jobs on spatial virtual GPUs", "energy"),
    "explain": CommandEntry("say how many units are best, and which GPU", "energy_explain"),
}
PLAN = {
    "priorities": CommandEntry("find GPU priorities by Audsley's method", "priorities"),
    "modes": CommandEntry("find the policy and waiting modes with most slack", "modes"),
    "partitions": CommandEntry("divide the GPU among tasks", "partitions"),
    "units": CommandEntry("give each task units of its own", "units"),
    "masks": CommandEntry("plan and check masks of AMD's compute units", parts=MASKS,
                   about="Masks divide AMD's GPUs (docs/cu-masks.md)."),
    "energy": CommandEntry("schedule jobs in space by their energy", parts=ENERGY,
                    about="sBEET, sBEET-mg and what they are compared with (docs/energy.md)."),
}  # fmt: skip
TRACE = {
    "record": CommandEntry("record the host's events", "record"),
    "check": CommandEntry("judge a trace by deadlines and bounds", "check"),
}
SET = {
    "priority": CommandEntry("set GPU priorities of processes", "rules"),
    "policy": CommandEntry("change the scheduling policy", "rules"),
    "budget": CommandEntry("limit how long processes may own the GPU", "rules"),
    "rule": CommandEntry("exempt processes, or bar them from being raised", "processes"),
    "group": CommandEntry("have processes own the GPU together", "groups"),
    "slice": CommandEntry("set time slices of any process on a Tegra", "slice"),
}
EXPERIMENT = {
    "run": CommandEntry("list published experiments, repeat them", "experiment"),
    "bounds": CommandEntry("bound a file's tasks by papers' tests", "experiment_bounds"),
}
#: Heading -> command name -> its entry, in the order of --help.
GROUPS: Mapping[str, Mapping[str, CommandEntry]] = {
    "Describe a system": {
        "measure": CommandEntry("times, kernels, and what a board does", parts=MEASURE),
    },
    "Prove that deadlines hold": {
        "analyze": CommandEntry("bound every task's worst-case response time", "analyze"),
        "plan": CommandEntry("find priorities, modes, partitions, units, masks", parts=PLAN),
        "margins": CommandEntry("say how much each time may grow, or must shrink", "margins"),
        "simulate": CommandEntry("run the tasks in virtual time on the real scheduler", "simulate"),
        "attack": CommandEntry("explore every schedule of a small system", "attack"),
        "report": CommandEntry("write all the evidence on one page", "report"),
    },
    "Run": {
        "emulate": CommandEntry("serve virtual GPUs, without privilege or hardware", "serve"),
        "serve": CommandEntry("schedule real GPUs on unmodified drivers", "serve"),
        "run": CommandEntry("run the tasks as real processes", "run"),
        "trace": CommandEntry("record and check what happened", parts=TRACE),
    },
    "Operate": {
        "status": CommandEntry("show GPUs, clients, latencies and rules", "status"),
        "watch": CommandEntry("watch a running system, or serve its metrics", "watch"),
        "set": CommandEntry("set priorities, policy, budgets and rules", parts=SET),
        "apply": CommandEntry("give running processes the file's priorities", "apply"),
        "doctor": CommandEntry("check what real time needs here, and its cure", "system"),
    },
    "Learn": {
        "demo": CommandEntry("run the published case study under every policy", "demo"),
        "experiment": CommandEntry("repeat published experiments", parts=EXPERIMENT),
    },
    "": {
        "help": CommandEntry("say what a command, a key of a file or an exit code is", "system", hidden=True),
    },
}
#: Command name -> its entry.
COMMANDS: Mapping[str, CommandEntry] = {name: entry for group in GROUPS.values() for name, entry in group.items()}


def paths(entries: Mapping[str, CommandEntry] = COMMANDS, before: str = "") -> Iterator[tuple[str, CommandEntry]]:
    """Each command with its groups' names before it, such as "plan masks check"; groups come before their parts."""
    for name, entry in entries.items():
        yield before + name, entry
        yield from paths(entry.parts, f"{before}{name} ")


#: The commands without the groups.
LEAVES: Mapping[str, CommandEntry] = {path: entry for path, entry in paths() if not entry.parts}
