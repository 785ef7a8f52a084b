"""The scheduler against its model: random event sequences, checked after every step."""

from __future__ import annotations

from typing import Any

import pytest
from effort import tries
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from model import OWN, Budget, Client, Model
from native_build import LONG

from gpurt._gpurt import ffi, lib

PRIORITIES = st.sampled_from([0, 1, 2, 2, 3, 31, 32, 33, 63, 64, 96, 99])


class Core:
    """One gpurt_sched with a driver that keeps the runlist as a set of TSG numbers."""

    def __init__(self) -> None:
        self.sched = ffi.new("struct gpurt_sched *")
        self.clients: list[Any] = []
        self.tsgs: list[set[int]] = []
        self.exempt: set[int] = set()
        self.only: int | None = None
        self.budgets = [ffi.new("struct gpurt_budget *") for _ in range(3)]
        self.commits = 0
        self.theta = 0  # what an update costs; it takes no time here
        self.redundant = 0
        self.forced = False
        self.events: list[tuple[int | None, int]] = []
        self._commit = ffi.callback("void(struct gpurt_sched *, struct gpurt_sched_client *, u32, u64)", self.on_commit)
        self._event = ffi.callback("void(struct gpurt_sched *, struct gpurt_sched_client *, u32, u64)", self.on_event)
        self.raised: dict[int | None, int] = {}
        self._raise = ffi.callback("void(struct gpurt_sched *, struct gpurt_sched_client *, u32, u64)", self.on_raise)
        self.ops = ffi.new(
            "struct gpurt_sched_ops *", {"commit": self._commit, "event": self._event, "raise": self._raise}
        )
        lib.gpurt_sched_init(self.sched, self.ops, ffi.NULL, 0)

    def index(self, client: Any) -> int | None:
        return None if client == ffi.NULL else self.clients.index(client)

    def on_commit(self, sched: Any, client: Any, cause: int, now: int) -> None:
        only = self.index(client)
        lib.gpurt_updated(sched, now, self.theta)
        self.commits += 1
        self.redundant += only == self.only and cause != lib.GPURT_CAUSE_EXEMPT
        self.only = only

    def on_event(self, _sched: Any, client: Any, event: int, _now: int) -> None:
        self.events.append((self.index(client), event))

    def on_raise(self, _sched: Any, client: Any, level: int, _now: int) -> None:
        assert self.raised.get(self.index(client), 0) != level
        self.raised[self.index(client)] = level

    def add(self) -> Any:
        client = ffi.new("struct gpurt_sched_client *")
        lib.gpurt_sched_client_init(client)
        self.clients.append(client)
        self.tsgs.append(set())
        return client

    def runlist(self) -> set[int]:
        """The TSGs that are on the driver's runlist."""
        chosen = range(len(self.clients)) if self.only is None else {self.only, *self.exempt}
        return {tsg for index in chosen for tsg in self.tsgs[index]}


class PolicyMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.core, self.model, self.now, self.tsg = Core(), Model(), 0, 0
        self.budgets = [Budget() for _ in self.core.budgets]
        self.gone: set[int] = set()

    def pick(self, data: st.DataObject) -> tuple[Any, Client]:
        index = data.draw(st.sampled_from([c.name for c in self.model.clients]))
        return self.core.clients[index], next(c for c in self.model.clients if c.name == index)

    def pass_time(self, data: st.DataObject) -> int:
        self.now += data.draw(st.integers(0, 5))
        self.model.charge(self.now)
        return self.now

    @initialize(data=st.data())
    def some_clients(self, data: st.DataObject) -> None:
        for _ in range(data.draw(st.integers(1, 4))):
            self.add_client()

    @precondition(lambda self: len(self.core.clients) < 8)
    @rule()
    def add_client(self) -> None:
        self.model.clients.append(Client(len(self.core.clients)))
        self.core.add()

    @rule(data=st.data(), own=PRIORITIES, hint=st.one_of(st.just(0), PRIORITIES))
    def begin(self, data: st.DataObject, own: int, hint: int) -> None:
        c, m = self.pick(data)
        now = self.pass_time(data)
        assert lib.gpurt_begin(self.core.sched, c, own, hint, now) == 0
        with self.model.moving(m):
            if not m.depth:
                if self.model.policy != lib.GPURT_POLICY_JOB:
                    self.model.start(m)
                m.own, m.hint, m.working = own, hint, False
            m.depth += 1
        self.model.decide()

    @rule(data=st.data())
    def end(self, data: st.DataObject) -> None:
        c, m = self.pick(data)
        if not m.depth:
            assert lib.gpurt_end(self.core.sched, c, self.now) == -2  # ENOENT
            return
        now = self.pass_time(data)
        assert lib.gpurt_end(self.core.sched, c, now) == 0
        with self.model.moving(m):
            if m.depth == 1:
                self.model.leave(m)
            else:
                m.depth -= 1
        self.model.decide()

    @rule(data=st.data(), priority=st.one_of(PRIORITIES, st.just(OWN)))
    def set_priority(self, data: st.DataObject, priority: int) -> None:
        c, m = self.pick(data)
        now = self.pass_time(data)
        assert lib.gpurt_set_priority(self.core.sched, c, priority, now) == 0
        with self.model.moving(m):
            m.set = priority
        self.model.decide()

    @rule(data=st.data(), own=PRIORITIES, runnable=st.booleans())
    def job(self, data: st.DataObject, own: int, runnable: bool) -> None:
        c, m = self.pick(data)
        now = self.pass_time(data)
        assert lib.gpurt_job(self.core.sched, c, own, runnable, now) == 0
        with self.model.moving(m):
            had = m.has_job()
            m.own, m.runnable = own, runnable
            self.model.rejob(m, had)
        self.model.decide()

    @rule(data=st.data(), policy=st.integers(0, lib.GPURT_POLICY_COUNT - 1))
    def set_policy(self, data: st.DataObject, policy: int) -> None:
        now = self.now if policy == self.model.policy else self.pass_time(data)
        assert lib.gpurt_set_policy(self.core.sched, policy, now) == 0
        if policy != self.model.policy and self.model.runner:  # an equal never preempts: the runner stays ahead
            self.model.runner.came, self.model.runner.job_came = -self.model.tick(), -self.model.tick()
        self.model.policy = policy
        self.model.decide()

    @rule(
        data=st.data(), which=st.integers(0, 2), limit=st.integers(0, 9), more=st.integers(0, 20),
        action=st.sampled_from([0, 1]),
    )  # fmt: skip
    def set_budget(self, data: st.DataObject, which: int, limit: int, more: int, action: int) -> None:
        now = self.pass_time(data)
        set_budget = lib.gpurt_set_budget
        assert set_budget(self.core.sched, self.core.budgets[which], limit, limit + more, action, now) == 0
        self.budgets[which].__init__(limit, limit + more, action)  # type: ignore[misc]
        self.model.decide()

    @rule(data=st.data(), which=st.none() | st.integers(0, 2))
    def join_budget(self, data: st.DataObject, which: int | None) -> None:
        c, m = self.pick(data)
        wanted = ffi.NULL if which is None else self.core.budgets[which]
        now = self.now if wanted == c.budget else self.pass_time(data)
        lib.gpurt_join_budget(self.core.sched, c, wanted, now)
        if which is None:
            if m.budget in self.budgets:
                m.budget = Budget()
        else:
            m.budget = self.budgets[which]
        if now == self.model.since:
            self.model.decide()

    @rule()
    def tick(self) -> None:
        """Time passes to the deadline that the core asked for."""
        deadline = self.model.deadline()
        if deadline is not None:
            self.now = max(self.now, deadline)
            self.model.charge(self.now)
        lib.gpurt_tick(self.core.sched, self.now)
        self.model.charge(self.now)
        self.model.decide()

    @rule(passed=st.integers(0, 5))
    def updates_fail(self, passed: int) -> None:
        """Time passes in which the runner does not have the GPU."""
        self.now += passed
        self.model.since = self.now
        lib.gpurt_uncharged(self.core.sched, self.now)

    @rule(data=st.data(), exempt=st.booleans())
    def set_exempt(self, data: st.DataObject, exempt: bool) -> None:
        c, m = self.pick(data)
        (self.core.exempt.add if exempt else self.core.exempt.discard)(m.name)
        lib.gpurt_set_exempt(self.core.sched, c, exempt, self.now)
        m.exempt = exempt

    @rule(data=st.data())
    def open_tsg(self, data: st.DataObject) -> None:
        c, m = self.pick(data)
        now = self.pass_time(data)
        self.tsg += 1
        self.core.tsgs[m.name].add(self.tsg)
        lib.gpurt_tsg_opened(self.core.sched, c, now)
        with self.model.moving(m):
            had = m.has_job()
            m.tsgs += 1
            self.model.rejob(m, had)
        self.model.decide()

    @rule(data=st.data())
    def close_tsg(self, data: st.DataObject) -> None:
        c, m = self.pick(data)
        if not m.tsgs:
            return
        now = self.pass_time(data)
        self.core.tsgs[m.name].pop()
        lib.gpurt_tsg_closed(self.core.sched, c, now)
        with self.model.moving(m):
            had = m.has_job()
            m.tsgs -= 1
            self.model.rejob(m, had)
            if not m.tsgs and m.depth:
                self.model.leave(m)
        self.model.decide()

    @rule(data=st.data(), form=st.integers(0, lib.GPURT_FORM_COUNT))
    def state_form(self, data: st.DataObject, form: int) -> None:
        c, m = self.pick(data)
        error = 22 if form == lib.GPURT_FORM_COUNT else 16 if m.depth or m.asked or m.turn else 0  # EINVAL, EBUSY
        assert lib.gpurt_boost_form(c, form) == -error
        m.form = m.form if error else form

    @rule(data=st.data(), level=PRIORITIES)
    def ask(self, data: st.DataObject, level: int) -> None:
        c, m = self.pick(data)
        lib.gpurt_boost_ask(self.core.sched, c, level, self.now)
        self.model.ask(m, level)

    @rule(data=st.data(), turn=st.booleans())
    def take_turn(self, data: st.DataObject, turn: bool) -> None:
        c, m = self.pick(data)
        lib.gpurt_boost_turn(self.core.sched, c, turn, self.now)
        m.turn = turn and m.asked > 0 and self.model.policy == lib.GPURT_POLICY_BOOSTED

    @rule(data=st.data(), nobody=st.booleans())
    def update_over(self, data: st.DataObject, nobody: bool) -> None:
        c, m = self.pick(data)
        lib.gpurt_boost_over(self.core.sched, ffi.NULL if nobody else c, self.now)
        self.model.over(None if nobody else m)

    @rule()
    def gpu_lost(self) -> None:
        lib.gpurt_boost_lost(self.core.sched, self.now)
        self.model.lost()

    @rule(data=st.data(), working=st.booleans())
    def work(self, data: st.DataObject, working: bool) -> None:
        c, m = self.pick(data)
        lib.gpurt_boost_work(self.core.sched, c, working, self.now)
        m.working = working

    @precondition(lambda self: len(self.model.clients) > 1)
    @rule(data=st.data())
    def client_gone(self, data: st.DataObject) -> None:
        c, m = self.pick(data)
        now = self.pass_time(data)
        lib.gpurt_gone(self.core.sched, c, now)
        self.core.tsgs[m.name].clear()
        self.core.exempt.discard(m.name)
        self.model.clients.remove(m)
        m.depth = m.tsgs = 0
        self.model.decide()
        assert self.core.raised.pop(m.name, 0) == 0  # its memory is the host's again: nobody will lower it later

    @invariant()
    def agree(self) -> None:
        core, model = self.core, self.model
        runner = model.runner.name if model.runner else None
        assert core.index(core.sched.runner) == runner
        assert core.only == runner
        assert core.redundant == 0
        assert core.runlist() == {
            tsg for c in model.clients if model.on_runlist(c) for tsg in core.tsgs[c.name]
        }
        deadline = model.deadline()
        assert core.sched.deadline == (2**64 - 1 if deadline is None else deadline)
        for c in model.clients:
            raw = core.clients[c.name]
            assert lib.gpurt_state_of(core.sched, raw) == model.state(c)
            assert (raw.depth, raw.tsgs, raw.level) == (c.depth, c.tsgs, c.level())
            assert (raw.held_ns, bool(raw.demoted)) == (c.held, bool(c.demoted))

    @invariant()
    def budgets_agree(self) -> None:
        for raw, budget in zip(self.core.budgets, self.budgets, strict=True):
            # who pays for an update has a period until then at least, and one that is over says nothing
            assert (raw.limit, raw.used, max(raw.ends, self.now), bool(raw.overrun)) == (
                budget.limit, budget.used, max(budget.ends, self.now), budget.overrun,
            )  # fmt: skip
            queued = {*self.model.in_segments(), *self.model.in_jobs()}
            assert raw.queued == sum(c.budget is budget for c in queued)

    @invariant()
    def threads_are_raised_when_they_have_to_be(self) -> None:
        for c in self.model.clients:
            c.itself = c.itself and (c.depth > 0 or c.asked > 0)
            assert self.core.raised.get(c.name, 0) == self.model.raised(c)

    @invariant()
    def at_most_one_real_time_client_runs(self) -> None:
        """The rule of `segment` in docs/policies.md, which holds under `boosted` too."""
        if self.model.policy not in (lib.GPURT_POLICY_SEGMENT, lib.GPURT_POLICY_BOOSTED):
            return
        inside = [c for c in self.model.clients if c.depth and c.level() > 0]
        running = [c for c in inside if self.model.on_runlist(c) and not c.exempt]
        if inside:
            best = max(c.level() for c in inside)
            assert self.model.runner is not None
            assert self.model.runner.level() == best
            assert running in ([self.model.runner], [])
        else:
            assert self.model.runner is None

    @invariant()
    def a_grant_comes_before_a_resume(self) -> None:
        granted: set[int | None] = set()
        for client, event in self.core.events:
            if event == lib.GPURT_EVENT_GRANT:
                granted.add(client)
            if event == lib.GPURT_EVENT_RESUME and client is not None:
                assert client in granted


PolicyMachine.TestCase.settings = settings(max_examples=400 if LONG else tries(100), stateful_step_count=60)
TestPolicy = PolicyMachine.TestCase


def test_a_host_that_cannot_raise_threads_has_no_policy_boosted() -> None:
    core = Core()
    core.ops.__setattr__("raise", ffi.NULL)
    assert lib.gpurt_set_policy(core.sched, lib.GPURT_POLICY_BOOSTED, 0) == -95  # EOPNOTSUPP
    assert core.sched.policy == lib.GPURT_POLICY_TIMESLICED


class TestDefects:
    """One test for each defect of the published driver patch that a scheduler can have (DRIVERS)."""

    def start(self, *own: int) -> tuple[Core, list[Any]]:
        core = Core()
        lib.gpurt_set_policy(core.sched, lib.GPURT_POLICY_SEGMENT, 0)
        clients = [core.add() for _ in own]
        for client, priority in zip(clients, own, strict=True):
            lib.gpurt_begin(core.sched, client, priority, 0, 1)
        return core, clients

    def test_1_a_preempted_task_that_ends_does_not_disturb_the_one_that_runs(self) -> None:
        core, (low, _) = self.start(10, 50)
        assert core.only == 1
        assert lib.gpurt_end(core.sched, low, 2) == 0
        assert core.only == 1

    def test_2_every_best_effort_task_runs_again_after_the_real_time_one(self) -> None:
        core, (a, b, real_time) = self.start(0, 0, 50)
        assert [lib.gpurt_state_of(core.sched, c) for c in (a, b)] == [lib.GPURT_STATE_PENDING] * 2
        lib.gpurt_end(core.sched, real_time, 2)
        assert [lib.gpurt_state_of(core.sched, c) for c in (a, b)] == [lib.GPURT_STATE_RUNNING] * 2

    def test_2_a_best_effort_task_that_begins_or_ends_meanwhile_changes_nothing(self) -> None:
        core, (a, _real_time, b) = self.start(0, 50, 0)
        lib.gpurt_end(core.sched, a, 2)
        assert core.only == 1
        assert lib.gpurt_state_of(core.sched, b) == lib.GPURT_STATE_PENDING

    def test_3_the_driver_is_told_of_every_change_and_of_nothing_else(self) -> None:
        core, (low, high) = self.start(10, 50)
        before = core.commits
        lib.gpurt_begin(core.sched, high, 50, 0, 2)  # nested
        lib.gpurt_end(core.sched, high, 3)
        lib.gpurt_end(core.sched, low, 4)
        assert core.commits == before
        lib.gpurt_end(core.sched, high, 5)
        assert (core.only, core.commits) == (None, before + 1)

    def test_4_sixty_five_thousand_tsgs_and_four_thousand_clients(self) -> None:
        core = Core()
        lib.gpurt_set_policy(core.sched, lib.GPURT_POLICY_SEGMENT, 0)
        block = ffi.new("struct gpurt_sched_client[]", 4096)
        core.clients = [block + index for index in range(4096)]
        for client in core.clients:
            lib.gpurt_sched_client_init(client)
            for _ in range(16):
                lib.gpurt_tsg_opened(core.sched, client, 1)
        for index, client in enumerate(core.clients):
            lib.gpurt_begin(core.sched, client, 1 + index % 99, 0, 2)
        order = []
        while core.sched.runner != ffi.NULL:
            runner = core.sched.runner
            order.append(runner - block)
            lib.gpurt_end(core.sched, runner, 3)
        expected = sorted(range(4096), key=lambda i: (-(1 + i % 99), i))
        assert order == expected
        assert all(client.tsgs == 16 for client in core.clients)

    def test_12_a_busy_best_effort_task_never_outranks_a_real_time_one(self) -> None:
        core, (spinner, _) = self.start(0, 1)
        for now in range(2, 50):
            lib.gpurt_begin(core.sched, spinner, 0, 0, now)
            assert core.only == 1

    def test_equal_priority_never_preempts_and_goes_in_order(self) -> None:
        core, (a, b, _c) = self.start(7, 7, 7)
        assert core.only == 0
        lib.gpurt_end(core.sched, a, 2)
        lib.gpurt_begin(core.sched, a, 7, 0, 3)
        assert core.only == 1
        lib.gpurt_end(core.sched, b, 4)
        assert core.only == 2


@pytest.mark.parametrize(
    ("call", "errno"),
    [
        (lambda s, c: lib.gpurt_begin(s, c, 100, 0, 0), 22),
        (lambda s, c: lib.gpurt_begin(s, c, 0, 100, 0), 22),
        (lambda s, c: lib.gpurt_set_priority(s, c, 100, 0), 22),
        (lambda s, c: lib.gpurt_set_policy(s, lib.GPURT_POLICY_COUNT, 0), 22),
        (lambda s, c: lib.gpurt_set_budget(s, ffi.new("struct gpurt_budget *"), 1, 1, lib.GPURT_OVERRUN_COUNT, 0), 22),
        (lambda s, c: lib.gpurt_set_budget(s, ffi.new("struct gpurt_budget *"), 2, 1, 0, 0), 22),
        (lambda s, c: lib.gpurt_job(s, c, 100, True, 0), 22),
        (lambda s, c: lib.gpurt_end(s, c, 0), 2),
    ],
)
def test_nonsense_is_refused_and_changes_nothing(call: Any, errno: int) -> None:
    core = Core()
    client = core.add()
    before = bytes(ffi.buffer(client)), bytes(ffi.buffer(core.sched))
    assert call(core.sched, client) == -errno
    assert (bytes(ffi.buffer(client)), bytes(ffi.buffer(core.sched))) == before


def test_nesting_has_a_limit() -> None:
    core = Core()
    client = core.add()
    client.depth = lib.GPURT_MAX_DEPTH
    assert lib.gpurt_begin(core.sched, client, 1, 0, 0) == -75  # EOVERFLOW
