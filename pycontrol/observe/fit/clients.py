# SPDX-License-Identifier: GPL-2.0
"""Objections to a host's clients: clients that no bound counts, and clients that differ from their task in the file."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from analysis.model import Task
from analysis.model.platform import ISOLATED
from analysis.taskset import Launch, TasksetFile
from gpurt.enums import Form, Overrun
from gpurt.text import visible
from pycontrol.link.control import ClientInfo
from pycontrol.machine.programs import tasks_of
from pycontrol.observe.fit.host import Host, Threads
from pycontrol.observe.fit.objection import BOUNDS, Code, Objection

#: The cure if a group raises all its threads, and a member's thread is not raised.
KEEP = "its thread has to join {} itself, with GPURT_GROUP_ALL"


def client_objections(file: TasksetFile, host: Host) -> Iterator[Objection]:
    """The objections to each client."""
    tasks = {task.name: task for task in file.taskset}
    alone = all(policy.ranked and not policy.locks for policy in file.taskset.rules)
    first: dict[str, ClientInfo] = {}
    raised = {gpu.normal_priorities + level for gpu in host.gpus for policy in file.taskset.rules if policy.raises
              for level in (*file.gpu_priorities.values(), gpu.normal_priorities + 1) if level}  # fmt: skip
    for one in host.clients:
        names = host.names.get(one.pid, ())
        yield from _any(one, [tasks[name] for name in names], alone)
        if not names:
            yield from _before(file, _process(one), host.threads.get(one.pid, ()), f"taskset -acp CPUS {one.pid}")
        if len(names) == 1:
            task = tasks[names[0]]
            yield from _of(file, one, task)
            yield from _strayed(file, _process(one), host.threads.get(one.pid), task, raised)
            other = first.setdefault(task.name, one)
            # A trace also has programs that ran one after the other; its judge reports two at once.
            if other.pid != one.pid and host.ran is None and not (task.best_effort and alone):
                text = f"{_process(other)} and {_process(one)} both are {task.name}, and bounds are for one process"
                yield Objection(Code.AMBIGUOUS, text, "end one, or give each a task")
    for pid in host.threads.keys() - {one.pid for one in host.clients}:
        names = host.names.get(pid, ())
        comm, _ = host.programs.get(pid, ("", ""))
        for task in (tasks[name] for name in names if len(names) == 1):
            yield from _strayed(file, f"process {pid} ({visible(comm)})", host.threads[pid], task, raised)
    for who in host.exempted:
        text = f"a rule exempts {who}: such work executes beside that of every task, which no bound takes into account"
        yield Objection(Code.EXEMPT, text, "gpurt set rule exempt --off undoes that; gpurt status rules has all")


def strangers(file: TasksetFile, host: Host) -> Iterator[Objection]:
    """The objections to processes that are neither clients nor tasks and may take the CPU from a task."""
    for pid, (comm, command, threads) in host.strangers.items():
        if host.names.get(pid) or tasks_of(file, comm, command):
            continue
        yield from _before(file, f"process {pid} ({visible(comm)})", threads, f"taskset -acp CPUS {pid}")
    if host.unseen:
        text = f"real-time threads of other programs were not all looked for: {host.unseen}"
        yield Objection(Code.CPU_STRANGER, text, "ask as root, outside of containers", ())


def _before(
    file: TasksetFile, who: str, threads: Threads, cure: str, own: Sequence[Task] = ()
) -> Iterator[Objection]:
    """Objects to the first thread that belongs to no task and may take a CPU from a task.  If it has the priority and
    CPU of a task of its process (``own``), it may be a helper that hardly executes: then the objection is a note.
    """
    for priority, cpus in threads:
        for task in file.taskset.real_time:
            if task.cpu in cpus and priority >= task.priority:
                text = f"{who} has a thread of real-time priority {priority} that may use CPU {task.cpu}, and is no "
                text += f"task of the file: no bound of {task.name} takes it into account"
                defeats = () if any((priority, list(cpus)) == (one.priority, [one.cpu]) for one in own) else BOUNDS
                yield Objection(Code.CPU_STRANGER, text, f"end it, or keep it off that CPU: {cure}", defeats)
                return


def groups(file: TasksetFile, host: Host) -> Iterator[Objection]:
    """The objections to clients in another group than the file's; users may have different groups of one name."""
    tasks = {task.name: task for task in file.taskset}
    users: dict[str, str] = {}  # the users of the groups that have tasks with workers
    there = [(one, tasks[names[0]] if len(names := host.names.get(one.pid, ())) == 1 else None) for one in host.clients]
    for one, task in there:
        if task and task.name in file.taskset.forked and one.group == _group(file, task):
            users.setdefault(one.group, host.users.get(one.pid, ""))
    held = file.taskset.held
    for one, task in there:
        who, user, wanted = _process(one), host.users.get(one.pid, ""), _group(file, task)
        if task and (task.uses_gpu or task.name in held) and one.group != wanted:
            cure = KEEP.format(wanted) if task.name in held else f"gpurt apply has it join {wanted}"
            if one.group:
                cure = f"it stays there: start it anew, {f'with GPURT_GROUP={wanted}' if wanted else 'in no group'}"
            text = f"{who} is in {_named(one.group)}, the file says {_named(wanted)} for {task.name}"
            yield Objection(Code.GROUP, text, cure)
        elif task and user != users.get(one.group, user):
            text = f"{who} is of another user than other members of group {wanted}, so that it is in another group"
            yield Objection(Code.GROUP, text, "start all of them as one user")
        elif not wanted and user == users.get(one.group):
            text = f"{who} owns the GPU with group {one.group}, and the file has no such member"
            yield Objection(Code.GROUP, text, "end it")
    yield from _kept(file, there)


def _kept(file: TasksetFile, there: Sequence[tuple[ClientInfo, Task | None]]) -> Iterator[Objection]:
    """Objects to members of a task that holds a segment while workers execute, if the group does not raise them."""
    running = {task.name for _, task in there if task}
    for fork in file.taskset.forks:
        if not fork.hold or fork.task not in running:
            continue
        group = file.launch[fork.task].group or ""
        for name in fork.members:
            if name not in running:
                text = f"{name} is no client, so that group {group} raises no thread of it while it owns the GPU"
                yield Objection(Code.GROUP, text, f"start it; {KEEP.format(group)}")
        for one, task in there:
            if task and task.name in fork.members and one.group == group and not one.kept:
                text = f"{_process(one)} has a client with no thread that group {group} raises while it owns the GPU"
                yield Objection(Code.GROUP, text, KEEP.format(group))


def _group(file: TasksetFile, task: Task | None) -> str:
    """The group that the file gives a task; empty: none."""
    return file.launch.get(task.name, Launch()).group or "" if task else ""


def _named(group: str) -> str:
    return f"group {visible(group)}" if group else "no group"


def _process(one: ClientInfo) -> str:
    """The process of a client, in words."""
    return f"process {one.pid} ({visible(one.comm)})" if one.pid else "a process that this user may not know"


def _any(one: ClientInfo, tasks: Sequence[Task], alone: bool) -> Iterator[Objection]:
    """A client that may be these tasks.  ``alone``: best-effort work is off the GPU while a real-time task owns it.

    Otherwise the client may have turns on the GPU, units of it, or the lock, which no bound counts.
    """
    who = _process(one)
    if one.exempt:
        text = f"{who} is exempt: its work executes beside that of every task, which no bound takes into account"
        yield Objection(Code.EXEMPT, text, "gpurt set rule exempt --off undoes that")
    cure = "add it to the file, or end it" if one.pid else "ask as root"
    if not tasks and not one.priority and not alone and (one.tsgs or one.segments or one.depth or one.copies):
        text = f"{who} uses the GPU beside real-time tasks and is no task of the file: no bound takes it into account"
        yield Objection(Code.STRANGER, text, cure)
    elif not tasks and (one.priority or one.demoted):  # a demoted client is real time until its segment ends
        text = f"{who} is real time and no task of the file: no bound takes it into account"
        yield Objection(Code.STRANGER, text, cure)
    if len(tasks) > 1 and not all(task.best_effort for task in tasks):
        text = f"{who} may be {' or '.join(task.name for task in tasks)}: their commands do not tell them apart"
        yield Objection(Code.AMBIGUOUS, text, "give the tasks commands that differ")


def _of(file: TasksetFile, one: ClientInfo, task: Task) -> Iterator[Objection]:
    """The objections to a client that is a task."""
    who, begun = _process(one), one.segments > 0 or one.depth > 0
    rules = file.taskset.rules
    raises = any(policy.raises for policy in rules)
    if one.demoted:
        text = f"{who} has used its budget up and is best effort: no bound of {task.name} holds"
        yield Objection(Code.DEMOTED, text, "gpurt set budget gives it more")
    elif one.on_overrun is Overrun.DEMOTE and one.budget_ns < one.period_ns and not task.best_effort:
        text = f"{who} is best effort once it has used its budget up: no bound of {task.name} holds then"
        yield Objection(Code.DEMOTED, text, "gpurt set budget --on-overrun report says so when it is used up")
    if one.barred and raises and not task.best_effort:
        text = f"{who} is barred from being raised: policy boosted refuses its real-time segments"
        yield Objection(Code.BARRED, text, "gpurt set rule bar --off undoes that")
    callers = _callers(file, task)
    yield from _yields(file, one, who, callers)
    begin = callers[0].uses_gpu and begun
    if begin and raises and not callers[0].best_effort:
        form = callers[0].form_in(callers[0].waiting)
        forms = {form for other in callers for form in _forms(other)}
        if one.form not in forms:
            text = f"{who} begins its segments in form {one.form.word}, the file says {form.word} for {task.name}"
            yield Objection(Code.FORM, text, f'start it with GPURT_FORM={form.word}, or write form into the file')
    wanted = 0 if task.best_effort else file.gpu_priorities[callers[0].name]
    right = {0 if other.best_effort else file.gpu_priorities[other.name] for other in callers}
    ordered = not all(policy.turns for policy in rules)
    if begin and not one.demoted and one.priority not in right and ordered:
        text = f"{who} has GPU priority {one.priority}, the file says {wanted} for {task.name}"
        yield Objection(Code.GPU_PRIORITY, text, "gpurt apply sets it")
    # The host knows the priority from the first call that states it: it is the priority of the last caller.
    stated = begun or one.copies > 0 or one.own_priority > 0
    if stated and one.own_priority not in {other.priority for other in callers}:
        text = f"{who} executes at priority {one.own_priority}, the file says {task.priority} for {task.name}"
        chrt = f"chrt -f -p {task.priority}" if task.priority else "chrt -o -p 0"
        after = f"{chrt} THREAD, of the thread with its GPU work, counts from its next segment"
        yield Objection(Code.CPU_PRIORITY, text, f"gpurt run starts it so; else {after}")


def _strayed(
    file: TasksetFile, who: str, threads: Threads | None, task: Task, raised: Collection[int]
) -> Iterator[Objection]:
    """Objects to threads with a task's CPU priority if none is confined to the task's CPU: other bounds lack them.

    Also if no thread has the priority of a task without GPU work, as nothing raises these.  Or if one is no
    task's.  ``threads``: None: not known.  ``raised``: priorities of threads that the host raises.
    """
    helpers = [one for one in threads or () if one[0] not in raised or list(one[1]) != [task.cpu]]
    for other in file.taskset.beside(task):
        if own := [one for one in helpers if one[0] == other.priority]:
            helpers.remove(min(own, key=lambda one: list(one[1]) != [other.cpu]))
    yield from _before(file, who, helpers, "taskset -cp CPUS THREAD", file.taskset.beside(task))
    for other in file.taskset.beside(task):
        there = [cpus for priority, cpus in threads or () if priority == other.priority]
        if there and [other.cpu] not in there:
            may = f"{who} may execute at priority {other.priority} on CPUs {', '.join(map(str, there[0]))}"
            text = f"{may}, the file has {other.name} on CPU {other.cpu}"
            yield Objection(Code.CPU_PRIORITY, text, f"gpurt run starts it there; else taskset -cp {other.cpu} THREAD")
        elif threads is not None and not there and not other.uses_gpu and not other.best_effort:
            text = f"{who} has no thread of priority {other.priority}, the file says so for {other.name}"
            yield Objection(Code.CPU_PRIORITY, text, f"gpurt run starts it so; else chrt -f -p {other.priority} THREAD")


def _yields(file: TasksetFile, one: ClientInfo, who: str, tasks: Sequence[Task]) -> Iterator[Objection]:
    """The process of the most urgent GPU task if it cannot begin by yield: it begins isolated then.

    If no process begins by yield, `begins` objects.
    """
    users = [task for task in file.taskset.real_time if task.uses_gpu]
    first = max(users, key=lambda task: file.gpu_priorities[task.name], default=None)
    if file.taskset.platform.begin != ISOLATED and one.yields is False and first in tasks:
        text = f"{who} cannot begin by {file.taskset.platform.begin}, as the file has it: it is late, exempt or has a "
        cure = "start it anew with this release's preload library; GPURT_VERBOSE=1 says what it met"
        text += "budget, marks its segments itself, or slices of a process on the GPU cannot be shortened"
        yield Objection(Code.BEGIN, text, cure)


def _forms(task: Task) -> tuple[Form, ...]:
    """The forms in which the task's bound holds."""
    return (task.form_in(task.waiting),) if task.waiting.spins else task.waiting.forms


def _callers(file: TasksetFile, task: Task) -> Sequence[Task]:
    """The tasks of a task's process that use the GPU; if none does, the task itself.

    A client has the priorities of the thread that made the last call.  The priorities of a thread without GPU work are
    wrong there: a GPU segment may exceed its bound if it executes at them.
    """
    return [other for other in file.taskset.beside(task) if other.uses_gpu] or [task]
