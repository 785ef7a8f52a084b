# SPDX-License-Identifier: GPL-2.0
"""Random taskset files whose tasks have to do with one another: threads, workers, chains, sections, pending jobs."""

from __future__ import annotations

import random
from collections.abc import Iterator

from drawn import Drawn

from analysis.model import POLICIES

#: Kinds of relations that a file has by chance, beside the keys of every file.
RELATION_KINDS = ("chain", "thread", "worker", "hold", "lock", "jitter", "late", "latency", "process")
#: The kinds that a test for processes supports.
ABLE = {"process", "chain"}
Table = dict[str, str]


class Related(Drawn):
    """One file, mostly of a policy whose bounds know such tasks.

    ``kinds``: the RELATION_KINDS that the file has, if its tasks allow them.  Half of the files are ``tiny``: few
    states.
    """

    def __init__(self, rng: random.Random) -> None:
        super().__init__(rng)
        self.kinds = {kind for kind in RELATION_KINDS if rng.random() < 0.15} or {rng.choice(RELATION_KINDS)}
        if "process" in self.kinds and rng.random() < 0.8:
            self.kinds &= ABLE
        self.tiny = rng.random() < 0.5
        if rng.random() < 0.95:
            only = {"lock": "boosted", "hold": "boosted", "process": "segment"}  # the policies that have bounds
            able = [only[kind] for kind in sorted(self.kinds) if kind in only]
            self.policy = rng.choice([*able * (2 if len(able) > 1 else 6), "boosted", "segment"])
        if rng.random() < 0.9 or self.tiny:
            self.kind, self.parts, self.contended, self.units = "", [], False, 0
        self.lengths: dict[str, list[int]] = {}

    def _platform(self) -> Iterator[str]:
        yield from super()._platform()
        if "latency" in self.kinds:
            yield f"cpu_latency = {self._time(1, 1, 2)}"

    def _tasks(self) -> Iterator[str]:
        count = self.rng.choice([2, 2, 3, 3, 4] if self.tiny else [2, 3, 4, 5, 6])
        tables = [self._table(f"t{at}") for at in range(count)]
        owners: list[Table] = []
        if "thread" in self.kinds:
            owners = [self._thread(tables)]
        if self.kinds & {"worker", "hold"}:
            self._workers(tables)
        for table in tables:
            if "period" in table:
                self._pending(table)
        if "process" in self.kinds:
            self._processes([table for table in tables if "thread" not in table])
        chains = [self._chain(tables)] if "chain" in self.kinds else []
        resources = self._resources(tables, owners) if "lock" in self.kinds else []
        for kind, rows in (("thread", owners), ("task", tables), ("chain", chains), ("resource", resources)):
            for row in filter(None, rows):
                yield from (f"[[{kind}]]", *(f"{key} = {value}" for key, value in row.items()))

    def _table(self, name: str) -> Table:
        """A task of its own."""
        periods = (4, 5, 6, 8, 10, 12) if self.tiny else (20, 30, 40, 60, 80, 120, 200)
        period, load = self.rng.choice(periods), self.rng.uniform(0.05, 0.5)
        waiting = "busy" if self.rng.random() < 0.12 else "suspend"
        count = self.rng.choice([1, 1, 1, 2] if self.tiny else [1, 2, 2, 3])
        segments = [self._piece(name, period * load * 0.4) for _ in range(count)]
        level = self.rng.randint(1, 12) * (self.rng.random() > 0.05)
        table = {
            "name": f'"{name}"', "cpu": str(self.rng.randrange(self.cpus)), "priority": str(level),
            "period": f'"{period * self.unit}ns"', "waiting": f'"{waiting}"', "segments": f"[{', '.join(segments)}]",
        }  # fmt: skip
        chance = 0.25 if POLICIES[self.policy].raises else 0.08  # other policies have a bound for few orders
        if level and self.rng.random() < chance and any("cpu" not in one for one in segments):
            table["gpu_priority"] = str(self.rng.randint(1, 12))
        if self.parts and self.rng.random() < 0.95:
            table["partition"] = f'"{self.rng.choice(self.parts)}"'
        return table

    def _piece(self, name: str, share: float) -> str:
        """A segment; lengths of CPU segments are noted."""
        if not self.tiny and self.rng.random() < 0.1:
            return self._segment(share * self.unit)
        length = self.rng.choice([0, 1, 1, 1, 2, 2, 3]) if self.tiny else int(share * self.rng.uniform(0, 1.5))
        if self.rng.random() < (0.2 if "process" in self.kinds else 0.5):
            self.lengths.setdefault(name, []).append(length)
            return f"{{ cpu = {self._span(length * self.unit)} }}"
        misc = min(length, self.rng.choice([0, 0, 1, length]))
        return f"{{ misc = {self._span(misc * self.unit)}, gpu = {self._span((length - misc) * self.unit)} }}"

    def _thread(self, tables: list[Table]) -> Table:
        """A thread that serves two or three of the tasks."""
        served = self.rng.sample(tables, min(len(tables), self.rng.choice([2, 2, 3])))
        order, timers = self.rng.choice(["fifo", "priority", "ros2", "ros2-live-timers"]), self.rng.randint(0, 2)
        first = served[0]
        for rank, table in enumerate(served):
            for key in ("cpu", "priority", "gpu_priority"):
                table.pop(key, None)
            table |= {"thread": '"loop"', "waiting": first["waiting"]}
            if order != "fifo":
                table["rank"] = str(rank)
            table["kind"] = '"timer"' if rank < timers else '"subscription"'
        cpu, level = self.rng.randrange(self.cpus), self.rng.randint(1, 12)
        return {"name": '"loop"', "cpu": str(cpu), "priority": str(level), "order": f'"{order}"'}

    def _processes(self, tables: list[Table]) -> None:
        """Most tasks are threads of two processes, with priorities side by side where bounds need that."""
        bands = dict(zip(("p", "q", ""), self.rng.sample(range(3), 3), strict=True))
        for table in tables:
            name = self.rng.choice(["p"] * 6 + ["q", ""])
            if name:
                table["process"] = f'"{name}"'
            if self.kinds <= ABLE and self.rng.random() < 0.97:
                table["priority"] = str(4 * bands[name] + self.rng.randint(1, 4))
                table.pop("gpu_priority", None)

    def _workers(self, tables: list[Table]) -> None:
        """One of the tasks has one to three others as workers."""
        able = [table for table in tables if "thread" not in table and table["priority"] != "0"]
        if len(able) < 2:
            return
        parent, *workers = self.rng.sample(able, min(len(able), self.rng.choice([2, 3, 3, 4])))
        for worker in workers:
            for key in ("period", "gpu_priority", "partition"):
                worker.pop(key, None)
        parent |= {"group": '"g"', "gpu_priority": str(self.rng.randint(1, 12))}
        named = ", ".join(worker["name"] for worker in workers)
        hold = ", hold = true" if "hold" in self.kinds else ""
        own = parent["segments"][1:-1].split(", {")
        pieces = [own[0], *("{" + one for one in own[1:])][: self.rng.randint(0, 2)]
        pieces.insert(self.rng.randint(0, len(pieces)), f"{{ workers = [{named}]{hold} }}")
        parent["segments"] = f"[{', '.join(pieces)}]"
        self.lengths.pop(parent["name"].strip('"'), None)

    def _pending(self, table: Table) -> None:
        """The deadline of a task and its release jitter, up to two periods of it."""
        period = int(table["period"].strip('"ns'))
        if "late" in self.kinds and self.rng.random() < 0.6:
            table["deadline"] = f'"{self.rng.choice([2, 3, 4]) * period}ns"'
        elif self.rng.random() < 0.15:
            table["deadline"] = f'"{max(self.unit, period * self.rng.randint(4, 9) // 10)}ns"'
        if "jitter" in self.kinds and self.rng.random() < 0.6:
            most = period * self.rng.choice([1, 1, 2]) // self.unit
            table["jitter"] = f'"{self.rng.randint(0, most) * self.unit}ns"'

    def _chain(self, tables: list[Table]) -> Table:
        """A chain of two or three tasks, each of which reads the last value, or is released by the one before."""
        able = [table for table in tables if "period" in table and table.get("priority") != "0"]
        if len(able) < 2:
            return {}
        named = self.rng.sample(able, min(len(able), self.rng.choice([2, 2, 3])))
        links = [self.rng.choice(["sampled", "sampled", "triggered"]) for _ in named[1:]]
        named[0]["releases"] = '"periodic"'
        for producer, table, link in zip(named, named[1:], links, strict=False):
            if link == "sampled":
                table["releases"] = '"periodic"'
                continue
            table["period"] = producer["period"]
            table.pop("jitter", None)
            table.pop("deadline", None)
        names = ", ".join(table["name"] for table in named)
        shown = ", ".join(f'"{link}"' for link in links)
        return {"name": '"c"', "tasks": f"[{names}]", "links": f"[{shown}]",
                "stimulus": f'"{self.rng.choice(["sampled", "event"])}"'}  # fmt: skip

    def _resources(self, tables: list[Table], owners: list[Table]) -> list[Table]:
        """Up to two resources with sections in CPU segments, each on one CPU unless tasks spin for it."""
        where = {table["name"]: table.get("cpu") or owners[0]["cpu"] for table in tables}
        found: list[Table] = []
        for name in ("r", "q")[: self.rng.choice([1, 1, 2])]:
            protocol, cpu = self.rng.choice(["inheritance", "ceiling", "spin"]), self.rng.choice([*where.values()])
            sections = []
            for task, home in where.items():
                room = [one for one in self.lengths.get(task.strip('"'), []) if one]
                if not room or (protocol != "spin" and home != cpu) or self.rng.random() < 0.15:
                    continue
                length = self.rng.randint(1, max(room))
                times = 2 if 2 * length <= max(room) and self.rng.random() < 0.3 else 1
                at = self.lengths[task.strip('"')].index(max(room))
                self.lengths[task.strip('"')][at] -= length * times
                sections.append(f'{{ task = {task}, time = "{length * self.unit}ns", times = {times} }}')
            if sections:
                found.append({"name": f'"{name}"', "protocol": f'"{protocol}"',
                              "sections": f"[{', '.join(sections)}]"})  # fmt: skip
        return found
