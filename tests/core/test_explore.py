"""Every sequence of events up to a fixed depth, compared with the C model in native/.  Planted bugs must be found."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from effort import everything, some
from native_build import CORE, LONG, NATIVE, SANITIZE, compile_program, core_sources
from once import once

SOURCES = [NATIVE / f"{name}.c" for name in ("explore", "world", "model")]
SOURCES += core_sources("sched", "boost", "queue", "budget", "group")
#: Two real-time clients and a best-effort one, and the mirror.
MIXES = {"2rt+1be": ("5", "7", "0"), "1rt+2be": ("5", "0", "0")}
#: Without --all sequences are one event shorter, an eighth of the work; with GPURT_LONG one longer.
MORE = int(LONG) - (not everything())
#: Depth and kind (explore.c), then how many events and policies there are.  The planted bugs are found at depth 5,
#: except one that shows when a budget's second period begins.
DEPTHS = {"no-budgets": (6 + MORE, "0", 39, 5), "budgets": (5 + MORE, "1", 39, 5), "boosted": (5 + MORE, "2", 52, 2)}


def build(target: Path, flags: list[str]) -> Path:
    return compile_program(target, SOURCES, flags)


def explore(program: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([program, *arguments], capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def objects(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with each source of the explorer compiled."""

    def compile_all(folder: Path) -> None:
        for source in SOURCES:
            compile_program(folder / f"{source.stem}.o", [source], ["-O2", "-c"])

    return once(tmp_path_factory, "explore-objects", compile_all)


@pytest.fixture(scope="module")
def explorer(tmp_path_factory: pytest.TempPathFactory, objects: Path) -> Path:
    sources = sorted(objects.glob("*.o"))
    return once(tmp_path_factory, "explore", lambda to: compile_program(to / "explore", sources, [])) / "explore"


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("mix", MIXES)
@pytest.mark.parametrize("depth", DEPTHS)
def test_every_sequence_of_events_is_as_section_4_demands(
    explorer: Path, mix: str, depth: str, record_property: Callable[[str, object], None]
) -> None:
    length, kind, letters, policies = DEPTHS[depth]
    run = explore(explorer, str(length), kind, *MIXES[mix])
    assert run.returncode == 0, run.stdout + run.stderr
    found = re.fullmatch(r"depth (\d+), (\d+) events, (\d+) policies: (\d+) states, (\d+) steps checked\n", run.stdout)
    assert found, run.stdout
    reached, events, visited, states, steps = map(int, found.groups())
    assert (reached, events, visited) == (length, letters, policies)
    assert steps > events * states * 0.9  # each state met before the last step was left by every event
    assert states > 50_000 * 10 ** min(MORE, 0)
    record_property("sequences", policies * events**length)
    record_property("states", states)


def test_no_undefined_behaviour_on_the_way(tmp_path: Path) -> None:
    program = build(tmp_path / "explore", SANITIZE)
    for kind, depth in {"0": 4, "1": 4, "2": 3}.items():
        run = explore(program, str(depth + min(MORE, 0)), kind, *MIXES["2rt+1be"])
        assert run.returncode == 0, run.stdout + run.stderr


#: Planted bugs by name: the file of the core, its right text, and the wrong text that replaces it.
PLANTED = {
    "an equal preempts": (
        "queue", "list_add_tail(node, &q->level[level]);", "list_add(node, &q->level[level]);"
    ),
    "runner falls behind its new equals": ("sched", "in && c == s->runner && !c->group", "0"),
    "policy change lets an equal preempt": (
        "sched", "		line_up_first(s, c, c->level);\n", "		line_up(s, c, c->level);\n"
    ),
    "lock is not held": ("sched", "if (locking(s) && s->runner", "if (0 && s->runner"),
    "place kept after death": (
        "sched", "	leave(s, c, now);\n	s->ops->event(s, c, GPURT_EVENT_GONE",
        "	s->ops->event(s, c, GPURT_EVENT_GONE",
    ),
    "last TSG closed, place kept": ("sched", "if (!count && c->depth) {", "if (0) {"),
    "needless update": ("sched", "if (next != old) {", "if (next != old || next) {"),
    "exempt and not told": (
        "sched", "	if (exempt)\n		gained(s, c, now);\n	else\n		lost(s, c, now);\n", ""
    ),
    "resumed without a grant": ("sched", "	c->granted = false;\n	c->hint", "	c->granted = true;\n	c->hint"),
    "second segment of a job not granted": ("sched", "	c->granted = false;\n	c->hint", "	c->hint"),
    "demoted for ever": (
        "sched", "	if (c->demoted == GPURT_DEMOTED_SEGMENT)\n		c->demoted = GPURT_NOT_DEMOTED;\n", ""
    ),
    "bitmap keeps an empty level": ("queue", "if (list_empty(&q->level[level]))", "if (0)"),
    "bitmap's words mixed up": (
        "queue", "for (i = GPURT_LEVEL_WORDS - 1; i >= 0; i--)", "for (i = 0; i < GPURT_LEVEL_WORDS; i++)"
    ),
    "budget never used up": (
        "budget", "if (!b->overrun && b->used >= b->limit)", "if (!b->overrun && b->used > U64_MAX - 1)"
    ),
    "budget never renewed": ("budget", "			b->used = 0;\n			b->overrun = false;\n", ""),
    "budget new in each segment": (
        "sched", "	c->demoted = GPURT_NOT_DEMOTED;\n	if (is_spent(s, c, now) || crowded ||",
        "	c->demoted = GPURT_NOT_DEMOTED;\n	if (c->budget)\n		c->budget->ends = 0;\n	if (crowded ||"
    ),
    "spent budget forgotten": (
        "sched", "(c = pick(s)) && is_spent(s, c, now); demoted++", "(c = pick(s)) && 0; demoted++"
    ),
    "time not charged": ("sched", "	c->held_ns += now - since;\n", ""),
    "idle runner keeps the GPU": (
        "sched", "return c && (c->level || locking(s)) ? c : NULL;", "return c ? c : s->runner;"
    ),
    "raised although the GPU is lost": ("boost", "	s->updating = s->policy == GPURT_POLICY_BOOSTED;\n", ""),
    "raised before the update is over": ("sched", "s->updating = s->policy == GPURT_POLICY_BOOSTED;", ""),
    "old owner lowered too late": ("sched", "		if (old)\n			refresh_boost(s, old, now);\n", ""),
    "owner stays raised under another policy": (
        "sched", "		gpurt_boost_refresh(s, s->runner, now);\n	}\n	decide(s, NULL, GPURT_CAUSE_POLICY",
        "	}\n	decide(s, NULL, GPURT_CAUSE_POLICY",
    ),
    "a client that died stays raised": ("sched", "	c->boost.asked = 0;\n	c->boost.turn = false;\n", ""),
    "work of the last segment": ("sched", "	c->boost.working = false;\n", ""),
    "raised without its turn": ("boost", "turn && c->boost.asked && s->policy", "c->boost.asked && s->policy"),
    "new owner not raised": (
        "boost", "(s, c, now);\n	}\n	if (s->runner)\n		gpurt_boost_refresh(s, s->runner, now);\n",
        "(s, c, now);\n	}\n",
    ),
    "raised after its end": ("boost", "	if (!c->depth && !b->asked)\n		b->self = false;\n", ""),
    "raised in the middle of a segment": (
        "boost", "	if (!c->depth)\n		b->self = s->policy", "	b->self = s->policy"
    ),
    "spins raised": ("boost", "b->form == GPURT_FORM_FENCE && b->working && !all ? 0 : c->entry->level", "c->level"),
}  # fmt: skip


@pytest.mark.parametrize("name", some(PLANTED))
def test_a_planted_bug_is_found(tmp_path: Path, objects: Path, name: str) -> None:
    """The explorer finds each planted bug, so its silence about the core means something."""
    file, right, wrong = PLANTED[name]
    text = (CORE / f"{file}.c").read_text(encoding="utf-8")
    assert text.count(right) == 1, f"{CORE / file}.c does not say {right!r} once any more"
    planted = tmp_path / f"{file}.c"
    planted.write_text(text.replace(right, wrong), encoding="utf-8")
    others = [one for one in objects.glob("*.o") if one.stem != file]
    assert len(others) == len(SOURCES) - 1
    flags = ["-O1", "-Wno-unused", "-Wno-type-limits", f"-I{CORE}"]
    program = compile_program(tmp_path / "explore", [planted, *others], flags)
    kinds = ("2",) if file == "boost" or "boost" in right or "updating" in right else ("0", "1")
    depth = "6" if name == "budget never renewed" else "5"
    outcomes = (explore(program, depth, kind, "5", "70", "0").returncode for kind in kinds)
    assert any(outcome not in (0, 2) for outcome in outcomes)
