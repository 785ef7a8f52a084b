"""A model of kmod/core/sched.c that is simple enough to be seen to be right.

It is the table of policies in docs/policies.md, with docs/readings/gcaps.md, "Algorithm 1", in Python.  ECRTS'24 has
`segment` as algorithm 1; the thesis has `job` and `segment` as algorithms 6 and 7.  Every step
computes anew which client runs, from the clients in a segment, their priorities, and the order in which they came.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from gpurt._gpurt import lib

OWN = lib.GPURT_PRIORITY_OWN
SEGMENT, JOB = lib.GPURT_POLICY_SEGMENT, lib.GPURT_POLICY_JOB
BOOSTED = lib.GPURT_POLICY_BOOSTED
LOCK_PRIORITY, LOCK_FIFO = lib.GPURT_POLICY_LOCK_PRIORITY, lib.GPURT_POLICY_LOCK_FIFO
DEMOTE = lib.GPURT_OVERRUN_DEMOTE


@dataclass(eq=False)
class Budget:
    """A budget of any number of clients; ``ends`` is when its period does."""

    limit: int = 0
    period: int = 0
    action: int = 0
    used: int = 0
    ends: int = 0
    overrun: bool = False

    def owned(self, begin: int, end: int) -> bool:
        """A client owned the GPU that long; whether that used up the budget."""
        if not self.limit:
            return False
        over, now = False, begin
        while True:
            if now >= self.ends:
                self.used, self.overrun, self.ends = 0, False, now + self.period
            part = min(end, self.ends) - now
            self.used, now = self.used + part, now + part
            if self.used >= self.limit and not self.overrun:
                self.overrun = over = True
            if now >= end:
                return over

    def spent(self) -> bool:
        return self.limit > 0 and self.overrun and self.action == DEMOTE


@dataclass(eq=False)
class Client:
    """The facts about one client."""

    name: int
    depth: int = 0
    tsgs: int = 0
    own: int = 0
    hint: int = 0
    set: int = OWN
    runnable: bool = False
    exempt: bool = False
    demoted: str = ""  # "", "segment" or "job"
    began: int = 0  # when it joined the segments
    came: int = 0  # when it came to its level, among the segments
    job_came: int = 0  # likewise, among jobs
    budget: Budget = field(default_factory=Budget)
    held: int = 0
    form: int = lib.GPURT_FORM_SELF
    asked: int = 0  # the level at the gate, while it waits there or has it
    turn: bool = False  # has the gate
    itself: bool = False  # form SELF: raised itself for this segment
    working: bool = False  # form FENCE: waits for its own work

    def level(self) -> int:
        if self.demoted:
            return 0
        if self.set != OWN:
            return self.set
        return self.hint or self.own

    def has_job(self) -> bool:
        return self.runnable and self.tsgs > 0


@dataclass
class Model:
    """One GPU: its policy, its clients, and the client that runs."""

    policy: int = lib.GPURT_POLICY_TIMESLICED
    clients: list[Client] = field(default_factory=list)
    runner: Client | None = None
    since: int = 0
    count: int = 0
    updating: bool = False  # policy `boosted`: an update is not over

    def tick(self) -> int:
        self.count += 1
        return self.count

    def in_segments(self) -> list[Client]:
        return [c for c in self.clients if c.depth and not c.demoted]

    def in_jobs(self) -> list[Client]:
        return [c for c in self.clients if c.has_job() and not c.demoted]

    def engaged(self, c: Client) -> bool:
        return c.has_job() if self.policy == JOB else c.depth > 0

    def wanted(self) -> Client | None:
        locks = self.policy in (LOCK_PRIORITY, LOCK_FIFO)
        holder = self.runner
        if locks and holder and self.engaged(holder) and not holder.demoted:
            return holder
        if self.policy in (SEGMENT, BOOSTED, LOCK_PRIORITY):
            candidates = sorted(self.in_segments(), key=lambda c: (-c.level(), c.came))
        elif self.policy == LOCK_FIFO:
            candidates = sorted(self.in_segments(), key=lambda c: c.began)
        elif self.policy == JOB:
            candidates = sorted(self.in_jobs(), key=lambda c: (-c.level(), c.job_came))
        else:
            candidates = []
        if not candidates or (not locks and candidates[0].level() == 0):
            return None
        return candidates[0]

    def charge(self, now: int) -> None:
        c, since = self.runner, self.since
        self.since = now
        if c is None or since == now:
            return
        c.held += now - since
        c.budget.owned(since, now)
        if c.budget.spent():
            self.demote(c)

    def demotion(self) -> str:
        return "job" if self.policy == JOB else "segment"

    def demote(self, c: Client) -> None:
        with self.moving(c):
            c.demoted = self.demotion()

    def moving(self, c: Client) -> Moving:
        """The caller changes facts of ``c`` inside.  At a new level ``c`` comes last; if it runs, it comes first."""
        return Moving(self, c)

    def spent(self, c: Client) -> bool:
        c.budget.owned(self.since, self.since)
        return c.budget.spent()

    def decide(self) -> None:
        """Clients whose budget is spent are demoted when they would run."""
        before = self.runner
        while (c := self.wanted()) and self.spent(c):
            self.demote(c)
        self.runner = c
        if self.runner is not before:
            self.updating = self.policy == BOOSTED

    def ask(self, c: Client, level: int) -> None:
        """The client's thread comes to the gate."""
        c.asked = level
        if not c.depth:
            c.itself = self.policy == BOOSTED and c.form == lib.GPURT_FORM_SELF and level > 0

    def over(self, c: Client | None) -> None:
        """The update is over, and with it the turn of ``c`` if it had one."""
        self.updating = False
        if c:
            c.asked, c.turn = 0, False

    def lost(self) -> None:
        """The runner does not have the GPU, because an update failed or the GPU is being reset."""
        self.updating = self.policy == lib.GPURT_POLICY_BOOSTED

    def raised(self, c: Client) -> int:
        """How the client's thread has to execute (kmod/core/boost.h)."""
        if c.form == lib.GPURT_FORM_SELF:
            if not c.itself:
                return 0
            return int(c.level() if c.depth else c.asked)
        if c.turn:
            return int(lib.GPURT_RAISED_TOP)
        owns = self.policy == BOOSTED and self.runner is c and not self.updating
        waits = c.form == lib.GPURT_FORM_FENCE and c.working
        return int(c.level()) if owns and not waits else 0

    def deadline(self) -> int | None:
        """When the runner's budget is used up if it goes on running."""
        if self.runner is None or not self.runner.budget.limit:
            return None
        budget = replace(self.runner.budget)
        left = budget.limit - budget.used
        at = self.since + (left if not budget.overrun else budget.period + 1)
        if self.since < budget.ends and at > budget.ends:
            at = budget.ends + budget.limit
        elif self.since >= budget.ends:
            at = self.since + budget.limit
        assert budget.owned(self.since, at)
        assert at == self.since or not replace(self.runner.budget).owned(self.since, at - 1)
        return at

    def start(self, c: Client) -> None:
        c.demoted = self.demotion() if self.spent(c) else ""

    def leave(self, c: Client) -> None:
        c.depth, c.hint = 0, 0
        if c.demoted == "segment":
            c.demoted = ""

    def rejob(self, c: Client, had: bool) -> None:
        if c.has_job() and not had and self.policy == JOB:
            self.start(c)
        elif not c.has_job() and c.demoted == "job":
            c.demoted = ""

    def state(self, c: Client) -> int:
        if not c.depth and not self.engaged(c):
            return int(lib.GPURT_STATE_IDLE)
        return int(lib.GPURT_STATE_RUNNING if self.on_runlist(c) else lib.GPURT_STATE_PENDING)

    def on_runlist(self, c: Client) -> bool:
        return self.runner in (None, c) or c.exempt


class Moving:
    """Notes when a client comes to a level or a queue; see Model.moving."""

    def __init__(self, model: Model, client: Client) -> None:
        self.model, self.client = model, client

    def _facts(self) -> tuple[int, bool, bool]:
        c = self.client
        return c.level(), c in self.model.in_segments(), c in self.model.in_jobs()

    def __enter__(self) -> None:
        self.before = self._facts()

    def __exit__(self, *_: object) -> None:
        c, model = self.client, self.model
        (level, segment, job), (new_level, new_segment, new_job) = self.before, self._facts()
        first = -model.tick() if c is model.runner else model.tick()
        last = model.tick()
        if new_segment and not segment:
            c.began = c.came = last
        elif new_segment and level != new_level:
            c.came = first
        if new_job and not job:
            c.job_came = last
        elif new_job and level != new_level:
            c.job_came = first
