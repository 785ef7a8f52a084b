# SPDX-License-Identifier: GPL-2.0
"""The commands of `gpurt`: where each is defined, and what --help and completion say of it without importing it."""

from __future__ import annotations

from typing import NamedTuple


class Entry(NamedTuple):
    """``module`` of pycontrol.commands and ``attribute`` define the command; ``summary`` fits one line."""

    module: str
    attribute: str
    summary: str


#: Heading -> command name -> its entry, in the order in which --help has them.
GROUPS: dict[str, dict[str, Entry]] = {
    "Describe a system": {
        "init": Entry("init", "init", "write a first taskset file from running processes"),
        "profile": Entry("profile", "profile", "measure the times of a program's segments"),
        "kernel-fit": Entry("kernel_fit", "kernel_fit", "make a kernel of times measured by number of units"),
        "schema": Entry("system", "schema", "print the JSON Schema of taskset files"),
    },
    "Prove that deadlines hold": {
        "analyze": Entry("analyze", "analyze", "bound every task's worst-case response time"),
        "choose": Entry("design", "choose", "find the policy and waiting modes that leave most slack"),
        "assign": Entry("design", "assign", "find GPU priorities by Audsley's method"),
        "sensitivity": Entry("sensitivity", "sensitivity", "say how much each time may grow, or must shrink"),
        "simulate": Entry("simulate", "simulate", "run the tasks in virtual time on the real scheduler"),
        "attack": Entry("exact", "attack", "explore every schedule of a small system"),
        "report": Entry("report", "report", "write all the evidence on one page"),
    },
    "Divide a GPU": {
        "partition": Entry("partition", "partition", "divide the GPU in partitions and allocate the tasks"),
        "admit": Entry("partition", "admit", "find a place for one more task among partitions"),
        "slices": Entry("slices", "slices", "plan time slices and interleave levels on a Tegra"),
        "mask": Entry("mask", "mask", "plan, check and explain masks of AMD's compute units"),
        "energy": Entry("energy", "energy", "schedule jobs in space by their energy"),
        "sm-check": Entry("sm_check", "sm_check", "check a kernel of gpurt_sm.h"),
    },
    "Run": {
        "emulate": Entry("serve", "emulate", "serve virtual GPUs, without privilege or hardware"),
        "serve": Entry("serve", "serve", "schedule real GPUs on unmodified drivers"),
        "run": Entry("run", "run", "run the tasks as real processes"),
        "trace": Entry("live", "trace", "record the host's events"),
        "check": Entry("check", "check", "judge a trace by deadlines and bounds"),
        "plot": Entry("simulate", "plot", "draw a trace"),
    },
    "Operate": {
        "doctor": Entry("system", "doctor", "check what real time needs here, and how to mend it"),
        "probe": Entry("probe", "probe", "find out what a patched driver does on this board"),
        "status": Entry("live", "status", "show the GPUs, their owners and the cost of updates"),
        "clients": Entry("live", "clients", "list the processes that use the GPU"),
        "top": Entry("top", "top", "watch the clients and their shares"),
        "watch": Entry("watch", "watch", "watch a running system against its analysis"),
        "metrics": Entry("metrics", "metrics", "serve counters and histograms to Prometheus"),
        "apply": Entry("apply", "apply", "give running processes the file's GPU priorities"),
        "priority": Entry("rules", "priority", "show or set GPU priorities of processes"),
        "policy": Entry("rules", "policy", "show or change the scheduling policy"),
        "budget": Entry("rules", "budget", "show or limit how long processes may own the GPU"),
        "exempt": Entry("processes", "exempt", "keep processes on the runlist whichever task runs"),
        "bar": Entry("processes", "bar", "keep processes from being raised on their CPUs"),
        "hint": Entry("hints", "hint", "show or set time slices of any process on a Tegra"),
    },
    "Learn": {
        "demo": Entry("run", "demo", "run the published case study under every policy"),
        "experiment": Entry("experiment", "experiment", "repeat published experiments, or attack the bounds"),
        "completion": Entry("system", "completion", "print the completion script of a shell"),
    },
}
#: Command name -> its entry.
COMMANDS: dict[str, Entry] = {name: entry for group in GROUPS.values() for name, entry in group.items()}
