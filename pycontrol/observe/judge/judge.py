# SPDX-License-Identifier: GPL-2.0
"""The one judge of observed jobs and segments: `gpurt trace check` feeds it a trace, `gpurt watch` a host's events.

The judge compares with the promises of the analysis (bounds, deadlines) and with its assumptions, and keeps the two
apart.  The assumptions are worst cases of segments, CPU times, periods, the cost of updates, and the set of clients.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace

from analysis.model import POLICIES, Task
from analysis.rta.triggered import jitters_of, shortest, with_jitters
from analysis.taskset import TasksetFile
from analysis.traces.trace import Event, Kind
from gpurt.text import visible
from pycontrol.observe.judge.chains import ChainCheck, JudgedChains
from pycontrol.observe.judge.due import Due
from pycontrol.observe.judge.finding import Finding, Log, What
from pycontrol.observe.judge.limits import Limits
from pycontrol.observe.judge.seen import MOST_OPEN, OpenJob, SeenTask, Tally, meaning
from pycontrol.observe.judge.segments import Segments
from pycontrol.observe.judge.serving import Serving
from pycontrol.observe.judge.slept import Slept
from pycontrol.observe.judge.strangers import MAX_STRANGERS, Strangers

#: The ``jump`` for running hosts, ns: they report an update after events that are younger.
JUMP = 1_000_000_000
#: Kinds of events whose time a program states, or which a host reports later, a busy host much later.
SAID = (Kind.RELEASE, Kind.START, Kind.COMPLETE, Kind.COPY)


class Judge:
    """Judges events in the order in which they come.

    Args:
        file: the system as its file describes it.
        bounds: tasks' bounds by name, ns.
        policy: the host's policy; None: the file's.
        patience: how long after it happened an event may come, ns.  An unfinished job counts as late only after that,
            and only when `advance` says so.  0: events come in order of time.
        jump: a clock that goes back by more than this has jumped, ns; 0: events come in order of time.
        gpus: the host's number of GPUs; 0: not known.
        observe: called with the task and the response time of each job, ns.
        until: when the last job was released, ns: a chain's last output gets no older then; None: more jobs come.
        tellers: the processes that are known to report jobs of the file's tasks later.
        command_of: the fingerprint of a process's command, by pid.
    """

    def __init__(
        self, file: TasksetFile, bounds: Mapping[str, int], *, policy: str | None = None, patience: int = 0,
        jump: int = JUMP, gpus: int = 0, observe: Callable[[str, int], None] = lambda _task, _response: None,
        tellers: Collection[str] = (), until: int | None = None,
        command_of: Callable[[str], str] = lambda _pid: "",
    ) -> None:  # fmt: skip
        self._log = Log()
        self._chains = JudgedChains(file, bounds, self._log)
        before = {name for names in file.taskset.triggers.values() for name in names}
        units = any(one.units for one in file.taskset.rules)
        self._least = {t.name: shortest(t) for t in file.taskset if t.name in before or units}
        if file.taskset.triggers:  # its releases are as late as the jobs before it
            jitters = jitters_of(file.taskset, bounds)
            file = replace(file, taskset=with_jitters(file.taskset, jitters))
        self.file, self.bounds, self.patience = file, bounds, patience
        self._jump, self._until, self._command_of = jump, until, command_of
        self.policy = POLICIES.get(policy or "", POLICIES[file.taskset.platform.policy])
        self.strangers = Strangers(self.policy, self._log, tellers)
        self._observe = observe
        chained = {name for chain in file.taskset.chains for name in chain.tasks}
        self._tasks = {t.name: SeenTask(t, t.max_period if t.name in chained else None) for t in file.taskset}
        self._workers = file.taskset.started
        self._meanings: dict[str, SeenTask | None] = {}
        self._due = Due(lambda task, release: release in self._tasks[task].jobs)
        self._limits = Limits(file, self.policy, gpus)
        self._segments = Segments(self.policy, self._limits, self._log, file.gpu_priorities, _homes(file))
        self._serving = Serving(file.taskset, self._log)
        self.slept = Slept(self._log)
        self._latest = self._released = 0
        self._idle: tuple[int, dict[What, None]] = 0, {}  # since when, and which assumptions broke before

    @property
    def counts(self) -> Counter[tuple[What, str]]:
        """The number of findings by kind and task; the task is empty if a finding is about none."""
        return self._log.counts

    @property
    def chains(self) -> Sequence[ChainCheck]:
        """The observations of the file's chains."""
        return self._chains.lines()

    def tally(self, task: str) -> Tally:
        """The observations of a task of the file."""
        return self._tasks[task].tally

    def left(self, task: str) -> int | None:
        """When the task's program was gone, ns; None if another has come, or if no other task has had jobs since.
        """
        seen = self._tasks[task]
        return seen.left if seen.left is not None and seen.left + seen.task.period < self._released else None

    def feed(self, event: Event, priority: int | None = None) -> list[Finding]:
        """Takes the next event, with its client's GPU priority if known, and returns its findings."""
        self._check_clock(event)
        handler = _HANDLERS.get(event.kind)
        if handler:
            handler(self, event, priority)
        if self._chains and (seen := self._of(event)):
            self._chains.feed(event, seen.task.name)
        if not self.patience and event.kind is not Kind.RELEASE:  # a release is reported late, maybe with its job's end
            self._expire(self._latest)
        return self._log.take()

    def advance(self, now: int) -> list[Finding]:
        """All events before `now`, ns of their clock, have been fed: returns the findings about late jobs."""
        self._expire(now - self.patience)
        return self._log.take()

    def suspects(self, now: int) -> bool:
        """Whether `advance(now)` would report something that no event has reported yet."""
        late = now - self.patience
        return self._due.open_before(late) or self._chains.suspects(late)

    def report(self, time: int, what: What, task: str, text: str) -> list[Finding]:
        """Adds a finding that no event shows."""
        self._log.add(time, what, task, text)
        return self._log.take()

    def blind(self, time: int, text: str) -> list[Finding]:
        """Notes that the clock has jumped, which no event shows."""
        self._forget()
        return self.report(time, What.CLOCK, "", text)

    def _of(self, event: Event) -> SeenTask | None:
        """The file's task that the event's name means."""
        if event.task not in self._meanings:
            if len(self._meanings) > MAX_STRANGERS:
                self._meanings.clear()
            task = meaning(self.file, event.task, self._command_of)
            self._meanings[event.task] = self._tasks[task] if task else None
        return self._meanings[event.task]

    def _check_clock(self, event: Event) -> None:
        if event.time < self._latest - self._jump and not (self._jump and event.kind in SAID):
            back = (self._latest - event.time) / 1e9
            text = f"the events' clock went back by {back:.6f} s; what was under way is left out"
            self._log.add(event.time, What.CLOCK, "", text)
            self._forget()
            self._latest = event.time
        elif event.time > self._latest:
            self._latest = event.time

    def _forget(self) -> None:
        """Forgets jobs and segments under way: they may have ended unseen, and others may have begun."""
        self._due.clear()
        self._serving.clear()
        self._chains.forget()
        for seen in self._tasks.values():
            seen.forget()

    # Jobs

    def _release(self, event: Event, _priority: int | None) -> None:
        seen = self._of(event)
        if seen is None:
            return
        seen.known()
        self._released = max(self._released, event.time)
        open_ = seen.jobs.get(event.time)
        if open_ and open_.number != event.job and not seen.task.best_effort:
            text = f"released when job {open_.number} was: two programs do its jobs, and the bound is for one"
            self._log.add(event.time, What.PERIOD, seen.task.name, text, event.job)
        since, excuses = self._idle
        if event.time < since:  # the job waited, and no event had reported it
            self._log.excuses = excuses | self._log.excuses
        if open_ is None:
            self._check_period(seen, event)
            name = seen.task.name
            if seen.add(OpenJob(event.job, event.time)):
                text = f"has {MOST_OPEN} jobs under way: the oldest of them are left out"
                self._log.add(event.time, What.LOST, name, text, event.job)
            for limit in {seen.task.deadline, self.bounds.get(name, seen.task.deadline)}:
                self._due.add(event.time + limit, name, event.time)

    def _check_period(self, seen: SeenTask, event: Event) -> None:
        apart = seen.arrivals.release(event.time)
        if seen.task.name in self._workers:  # its task says when it begins
            return
        if apart is None or seen.task.best_effort:
            return
        soon = apart < seen.task.period
        allowed = seen.task.period if soon else seen.gap
        if soon:
            what = "the arrival of the job before it, jitter allowed for," if seen.task.jitter else "the job before it"
            text = f"released sooner after {what} than the period"
        else:
            text = "arrived longer after the job before it than the file says, on which a chain rests"
        self._log.add(event.time, What.PERIOD, seen.task.name, text, event.job, apart, allowed)

    def _start(self, event: Event, priority: int | None) -> None:
        seen = self._of(event)
        if seen is None:
            self.strangers.uses(event, priority)
        elif event.duration is not None:
            self._check_teller(seen, event)
            if event.detail:
                self.strangers.tells(event.detail)
                self._serving.start(seen.task, event.process, event)
                for name in self._serving.joined:
                    self._tasks[name].held.clear()
            seen.tally.jitter = max(seen.tally.jitter, event.duration)
            if job := seen.jobs.get(event.time - event.duration):
                job.start = event.time
            before = seen.current()
            if before and before.release != event.time - event.duration and not seen.task.best_effort:
                text = f"began before job {before.number} had ended: the bound is for one after the other"
                self._log.add(event.time, What.PERIOD, seen.task.name, text, event.job)

    def _complete(self, event: Event, _priority: int | None) -> None:
        seen = self._of(event)
        if seen is None or event.duration is None:
            return
        self._check_teller(seen, event)
        if event.detail:
            self.strangers.tells(event.detail)
            self._serving.end(seen.task, event.process, event)
        task, tally = seen.task, seen.tally
        job = self._ended(seen, event, event.time - event.duration)
        tally.jobs += 1
        tally.mort = event.duration if tally.mort is None else max(tally.mort, event.duration)
        self._observe(task.name, event.duration)
        self._check_cpu_time(task, event)
        if self.policy.owned:
            self.slept.job(task, job, event, self._limits.updates(task))
        if job.start is not None and self._alone(seen) and (self.policy.owned or not task.uses_gpu):
            most = self._limits.off_cpu(task, event.time - job.start)
            self.slept.outside(task, job, event, most, self._limits.updates(task))
        if job.begun > task.eta > 0 and not task.best_effort:
            text = f"had {job.begun} GPU segments, the file declares {task.eta}"
            self._log.add(event.time, What.SEGMENT, task.name, text, event.job)
        self._check_response(seen, job, event.time)
        self._settle()

    def _ended(self, seen: SeenTask, event: Event, release: int) -> OpenJob:
        """Removes the job that ends.  A job has no segments if the judge does not know when it began."""
        job, text = seen.jobs.pop(release, None), ""
        if job is None and seen.tells:
            text = "ended, and had not begun, or ended twice: two programs do its jobs, and the bound is for one"
        elif job and any(held.job is job for held in seen.held.values()):
            text = "ended inside its GPU segment: what the segment takes is no part of its response time"
        if text and not seen.task.best_effort:
            self._log.add(event.time, What.SEGMENT if job else What.PERIOD, seen.task.name, text, event.job)
        seen.known()
        return job or OpenJob(event.job, release)

    def _check_teller(self, seen: SeenTask, event: Event) -> None:
        """Checks who reports a job: a process that reports the end of another's job hides that the job is late."""
        if not event.detail:
            return
        pid = event.process
        if pid in seen.tellers:
            return
        if seen.tellers and not seen.task.best_effort:
            other = next(reversed(seen.tellers))
            who = f"{visible(event.detail)} tells of its jobs, and so does process {other}"
            text = f"{who}: one of them is not that task"
            self._log.add(event.time, What.UNDECLARED, seen.task.name, text)
        if len(seen.tellers) >= MAX_STRANGERS:
            seen.tellers.clear()
        seen.tellers[pid] = None

    def _check_cpu_time(self, task: Task, event: Event) -> None:
        most = self._limits.cpu(task)
        if most is not None and event.executed is not None and event.executed > most:
            text = "its thread executed for longer than the worst cases in the file together"
            self._log.add(event.time, What.CPU_TIME, task.name, text, event.job, event.executed, most)
        if event.duration is not None and event.duration < (least := self._least.get(task.name, 0)):
            text = "was done sooner than the best cases in the file together, on which bounds of others rest"
            self._log.add(event.time, What.CPU_TIME, task.name, text, event.job, event.duration, least)

    def _check_response(self, seen: SeenTask, job: OpenJob, now: int) -> None:
        """Judges a job that was not done before `now`."""
        task, spent = seen.task, now - job.release
        bound = self.bounds.get(task.name)
        if bound is not None and spent > bound and not job.above and not job.gone:
            job.above = True
            seen.tally.above += 1
            self._segments.check_held(self._tasks.values(), min(now, self._latest - self.patience))
            text = "exceeded its bound"
            if not self._log.excuses:
                text += ", and no assumption was seen broken since the system was idle (see gpurt doctor)"
            self._log.add(now, What.BOUND, task.name, text, job.number, spent, bound)
        if spent > task.deadline and not job.missed:
            job.missed = True
            seen.tally.misses += 1
            if not task.best_effort and not job.gone:
                self._log.add(now, What.DEADLINE, task.name, "missed its deadline", job.number, spent, task.deadline)

    def _expire(self, now: int) -> None:
        self.strangers.expire(now)
        self._chains.advance(now if self._until is None else min(now, self._until))
        for name, release in self._due.before(now):
            seen = self._tasks[name]
            if job := seen.jobs.get(release):
                self._check_response(seen, job, now)
                if job.gone and now - release > self._last_limit(seen.task):
                    del seen.jobs[release]
        self._settle()

    def _last_limit(self, task: Task) -> int:
        return max(task.deadline, self.bounds.get(task.name, 0))

    def _settle(self) -> None:
        """Drops the assumptions that were broken before, once the system is idle as far as the judge knows."""
        if self._log.excuses and not any(seen.active for seen in self._tasks.values()):
            self._idle = self._latest, self._log.excuses
            self._log.excuses = {}

    # Segments

    def _begin(self, event: Event, priority: int | None) -> None:
        seen = self._of(event)
        if seen is None:
            self.strangers.uses(event, priority)
        else:
            seen.left = None
            if self._alone(seen):
                self._segments.begin(seen, event, priority)

    def _grant(self, event: Event, _priority: int | None) -> None:
        if (seen := self._of(event)) and self._alone(seen):
            self._segments.grant(seen, event)

    def _preempt(self, event: Event, _priority: int | None) -> None:
        if (seen := self._of(event)) and self._alone(seen):
            self._segments.preempt(seen, event)

    def _end(self, event: Event, _priority: int | None) -> None:
        if (seen := self._of(event)) and self._alone(seen):
            self._segments.end(seen, event)
            self._settle()

    def _alone(self, seen: SeenTask) -> bool:
        """Whether no other thread of the task's process uses the GPU: its client's segments are the task's then."""
        return seen.task.name not in self._serving.joined

    def _gone(self, event: Event, _priority: int | None) -> None:
        if seen := self._of(event):
            self._segments.drop(seen, event)
            self._leave(seen, event.time, event.process)
        self._serving.gone(event.process)
        for one in self._tasks.values():
            one.tellers.pop(event.process, None)
        self._settle()

    def _leave(self, seen: SeenTask, now: int, pid: str) -> None:
        """The program is gone, and ends no jobs.  The next program may begin with segments outside jobs."""
        if pid and seen.tellers and pid not in seen.tellers:
            return  # another process of that name
        seen.tells, seen.left = False, now
        self._chains.forget(seen.task.name)
        for job in seen.jobs.values():
            if not job.gone and not seen.task.best_effort:
                self._log.add(now, What.ENDED, seen.task.name, "its program ended in the middle of the job", job.number)
            job.gone = True

    # What is not a task's

    def _commit(self, event: Event, _priority: int | None) -> None:
        alpha = self._limits.alpha(event.gpu or 0)
        if alpha is not None and event.duration is not None and event.duration > alpha:
            cause = event.detail or "unknown cause"
            text = f"a runlist update ({cause}) on GPU {event.gpu} took longer than the file's alpha"
            self._log.add(event.time, What.EPSILON, "", text, None, event.duration, alpha)
        if event.detail == "policy":
            self._log.add(event.time, What.POLICY, "", f"the policy of GPU {event.gpu} was changed")
        elif event.detail == "reset":
            self._log.add(event.time, What.RESET, "", f"GPU {event.gpu} was reset or resumed")

    def _overrun(self, event: Event, _priority: int | None) -> None:
        seen = self._of(event)
        who = "" if seen else f"{visible(event.task)}: " if event.task else ""
        task = seen.task.name if seen else ""
        self._log.add(event.time, What.OVERRUN, task, f"{who}used its budget up, or kept the bus too long")

    def _late(self, event: Event, _priority: int | None) -> None:
        who = visible(event.task) or "a process"
        text = visible(event.detail) if event.detail else f"{who} has not left the GPU in time: isolation is lost"
        self._log.add(event.time, What.LATE, "", text)

    def _stuck(self, event: Event, _priority: int | None) -> None:
        who = visible(event.task) or "a process"
        text = visible(event.detail) if event.detail else f"{who} sleeps in its segment, and others wait for the GPU"
        self._log.add(event.time, What.STUCK, meaning(self.file, event.task, self._command_of) or "", text)

    def _member_died(self, event: Event, _priority: int | None) -> None:
        who = visible(event.task) or "a process"
        of = f"group {visible(event.group)}" if event.group else "the same budget"
        text = f"{who} died, and others of {of} are in segments: they may wait for it"
        self._log.add(event.time, What.ENDED, "", text)

    def _lost(self, event: Event, _priority: int | None) -> None:
        if event.task:  # only its own program's reports were lost
            if seen := self._of(event):
                text = f"{event.detail}; those under way are left out"
                self._log.add(event.time, What.LOST, seen.task.name, text)
                seen.forget()
                self._chains.forget(seen.task.name)
            return
        self._log.add(event.time, What.LOST, "", f"{event.detail or 'events lost'}; what was under way is left out")
        self._forget()


def _homes(file: TasksetFile) -> dict[str, str]:
    """The groups of tasks with workers and of workers, by task."""
    return {name: file.launch[name].group or "" for name in file.taskset.forked if name in file.launch}


_HANDLERS: dict[Kind, Callable[[Judge, Event, int | None], None]] = {
    Kind.RELEASE: Judge._release, Kind.START: Judge._start, Kind.COMPLETE: Judge._complete,
    Kind.BEGIN: Judge._begin, Kind.GRANT: Judge._grant, Kind.RESUME: Judge._grant, Kind.PREEMPT: Judge._preempt,
    Kind.END: Judge._end, Kind.GONE: Judge._gone, Kind.COMMIT: Judge._commit, Kind.OVERRUN: Judge._overrun,
    Kind.LATE: Judge._late, Kind.LOST: Judge._lost, Kind.STUCK: Judge._stuck, Kind.MEMBER_DIED: Judge._member_died,
}  # fmt: skip
