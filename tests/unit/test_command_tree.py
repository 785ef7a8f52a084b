# SPDX-License-Identifier: GPL-2.0
"""The tree of commands: the help at a glance, one meaning for an option, completion, and imports of one by another."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import click
import pytest
from calls import Gpurt, caller
from click.shell_completion import ShellComplete

from pycontrol import cli, signals
from pycontrol.commands.options import COMMON, Subcommand
from pycontrol.output import render
from pycontrol.table import COMMANDS, GROUPS, paths

ROOT = Path(__file__).parents[2]
#: Modules of pycontrol.commands that are no commands: what several commands share.
SHARED = {"options", "plan_options", "energy_options", "mask_options"}
#: Options of one name that say the same of different things: a task's bound, or a whole plan; a host's GPU, or one of
#: this machine; the numbers of several kernels' units, or of the GPU's; what divides a GPU, by plan or at run time.
RELATED = {"--explain", "--units", "--mechanism", "--until", "--policy"}


@pytest.fixture
def gpurt(capfd: pytest.CaptureFixture[str]) -> Gpurt:
    return caller(capfd)


def help_of(path: str, columns: int) -> list[str]:
    command = [sys.executable, "-m", "pycontrol", *path.split(), "--help"]
    environment = {**os.environ, "COLUMNS": str(columns)}
    return subprocess.run(command, capture_output=True, text=True, check=True, env=environment).stdout.splitlines()


def test_the_help_fits_a_screen_of_80_by_40_and_cuts_nothing() -> None:
    lines = help_of("", 80)
    assert len(lines) <= 40
    assert max(map(len, lines)) <= 80
    assert not [line for line in lines if line.endswith("...") and "ARGS" not in line]
    for heading in filter(None, GROUPS):
        assert f"{heading}:" in lines
    for name, entry in COMMANDS.items():
        assert any(line.split() == [name, *entry.summary.split()] for line in lines) != entry.hidden, name


def test_a_glance_suffices() -> None:
    assert sum(not entry.hidden for entry in COMMANDS.values()) <= 20
    for path, entry in paths():
        assert len(entry.summary) + 16 <= 80, path
        assert entry.summary[0].islower() or entry.summary.split()[0].isupper(), path
        assert (entry.module == "") == bool(entry.parts), path


def options() -> Iterator[tuple[str, click.Option, str]]:
    for path in cli.LEAVES:
        for one in cli.find_command(path).params:
            if isinstance(one, click.Option):
                yield from ((name, one, path) for name in one.opts)


def test_an_option_means_one_thing_in_every_command() -> None:
    """Whether it is a flag, and what it is followed by."""
    meanings: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for name, one, path in options():
        kind = "flag" if one.is_flag else "file" if isinstance(one.type, click.Path) else one.metavar or one.type.name
        kind = {"integer range": "N", "NUMBER": "N", "integer": "N", "process id": "PID"}.get(kind, kind)
        meanings[name][kind].append(path)
    unlike = {name: dict(kinds) for name, kinds in meanings.items() if len(kinds) > 1 and name not in RELATED}
    assert unlike == {}


def test_every_command_has_the_common_options() -> None:
    common = {name for one in COMMON for name in (*one.opts, *one.secondary_opts)}
    for path in cli.LEAVES:
        command = cli.find_command(path)
        assert isinstance(command, Subcommand)
        assert not common & {name for one in command.params for name in one.opts}, path
        every = command.get_params(click.Context(command))
        assert {name for one in every for name in (*one.opts, *one.secondary_opts)} >= common


def test_writing_is_always_called_output() -> None:
    """Other files that commands write beside their output have names of their own."""
    beside = {"--plot", "--samples"}
    for name, one, path in options():
        if type(one.type).__name__ == "Output":
            assert name in {"-o", "--output", *beside}, (path, name)


@pytest.mark.parametrize(
    ("words", "meant"),
    [("plan mode", "gpurt plan modes"), ("analyse", "gpurt analyze"), ("statsu", "gpurt status"),
     ("policy", "gpurt set policy"), ("record", "gpurt trace record"), ("trace records", "gpurt trace record")],
)  # fmt: skip
def test_a_wrong_command_gets_the_one_that_is_meant(gpurt: Gpurt, words: str, meant: str) -> None:
    code, out, err = gpurt(*words.split())
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert f"did you mean {meant}" in err


@pytest.mark.parametrize(
    ("words", "said"),
    [("report a.toml run.json -o a.html", "--trace RUN"), ("emulate a.toml", "--taskset FILE"),
     ("trace record run.json -o a.json", "-o FILE"),
     ("run a.toml --share 0.8", "'0.8' is no whole number")],
)  # fmt: skip
def test_a_stray_argument_is_told_its_place(gpurt: Gpurt, words: str, said: str) -> None:
    code, out, err = gpurt(*words.split())
    assert (code, out, err.count("\n"), said in err) == (2, "", 1, True)


def test_help_is_there_without_a_manual_page(gpurt: Gpurt) -> None:
    """Of a command as --help has it, of keys as the schema has them, and of exit codes; what --help names is there."""
    assert gpurt("help", "plan modes") == gpurt("plan modes", "--help")
    assert gpurt("help") == gpurt("--help")
    assert gpurt("help", "task.waiting")[1].endswith(' suspend unless given ("busy", "suspend")\n')
    assert "thread.order: which of the pending jobs it serves next; required (" in gpurt("help", "keys")[1]
    assert gpurt("--help")[1].splitlines()[-1] == (
        "  Begin: gpurt demo.  Also: gpurt help keys, help exit codes, help completion."
    )
    assert [one.split(":")[0] for one in gpurt("help", "epsilon")[1].splitlines()] == [
        "platform.epsilon", "partition.epsilon"
    ]  # fmt: skip
    assert gpurt("help", "task.clocks")[1].count("task.clocks.") > 3
    codes = {line.split()[0] for line in gpurt("help", "exit-codes")[1].splitlines()}
    assert codes >= {"4", *map(str, (cli.BUG, cli.NOBODY_READS, signals.INTERRUPTED, signals.TERMINATED))}
    assert gpurt("help", "exit", "codes") == gpurt("help", "exit-codes")
    code, _, err = gpurt("help", "perod")
    assert (code, "did you mean period?" in err) == (2, True)
    assert {"gpu.name", "task.gpu", "task.segments.gpu"} <= {
        line.split(":")[0] for line in gpurt("help", "gpu")[1].splitlines()
    }
    for word, said in (("rate", "a period says how often"), ("executor", "an executor is a [[thread]]"),
                       ("core", 'did you mean "cpu"?')):  # fmt: skip
        assert said in gpurt("help", word)[2]
    assert " man " not in gpurt("--help")[1]


def test_what_repeats_is_named_where_a_command_has_no_watch(gpurt: Gpurt) -> None:
    for words in (["status"], ["status", "clients"]):
        code, _, err = gpurt(*words, "--watch")
        assert (code, "watch -n 1 gpurt status shows it again and again" in err) == (2, True)


def test_a_wrong_option_gets_the_one_that_is_meant(gpurt: Gpurt) -> None:
    code, _, err = gpurt("analyze", ROOT / "examples/minimal.toml", "--tests", "x")
    assert code == 2
    assert "--test" in err


@pytest.mark.parametrize(
    ("words", "begun", "found"),
    [([], "pl", {"plan"}), (["plan"], "m", {"modes", "masks"}),
     (["plan", "masks"], "", {"divide", "check"}),
     (["set", "policy"], "lock", {"lock-priority", "lock-fifo"}),
     (["margins", "F", "--test"], "gcaps-b", {"gcaps-busy"}),
     (["analyze", str(ROOT / "examples/two-programs.toml"), "--explain"], "", {"detector", "mapper"}),
     (["experiment", "run"], "zahaf-fig5", {"zahaf-fig5"}), (["status"], "lat", {"latency"})],
)  # fmt: skip
def test_completion_knows_commands_and_values(
    monkeypatch: pytest.MonkeyPatch, words: list[str], begun: str, found: set[str]
) -> None:
    monkeypatch.setenv("COMP_WORDS", " ".join(["gpurt", *words]))
    got = {one.value for one in ShellComplete(cli.cli, {}, "gpurt", "_C").get_completions(words, begun)}
    assert got >= found
    assert not begun or all(one.startswith(begun) for one in got)


def test_tables_fit_a_narrow_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    headers, rows = ("task", "a long heading", "another one", "what"), [("a", "1", "-", "x" * 30), ("b", "2", "3", "y")]
    monkeypatch.setattr(render, "is_terminal", lambda stream: True)
    monkeypatch.setenv("COLUMNS", "200")
    assert len(render.table(headers, rows).splitlines()) == 4
    monkeypatch.setenv("COLUMNS", "60")
    lines = render.table(headers, rows).splitlines()
    assert max(map(len, lines)) <= 60
    assert lines[0].split() == ["task", "a"]
    assert not any(line.startswith("another one") for line in lines[:4])
    monkeypatch.setattr(render, "is_terminal", lambda stream: False)  # programs that read it see the same everywhere
    assert len(render.table(headers, rows).splitlines()) == 4


def test_no_time_is_shown_as_less_than_it_is() -> None:
    assert (render.ms(1), render.ms(999), render.ms(1_000), render.ms(0)) == ("0.000001", "0.000999", "0.001", "0.000")
    assert render.room(1) == "0.000001"
    assert render.bound(1) == "0.001"


class Module(NamedTuple):
    """What is asked of a file of Python: modules that it imports anywhere, where in functions, classes at its top."""

    imports: list[str]
    inside: list[int]
    classes: list[str]


@cache
def module(path: Path) -> Module:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    found = Module([], [], [node.name for node in tree.body if isinstance(node, ast.ClassDef)])
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            found.imports.extend([node.module, *(f"{node.module}.{one.name}" for one in node.names)])
        elif isinstance(node, ast.Import):
            found.imports.extend(one.name for one in node.names)
        elif isinstance(node, ast.FunctionDef):
            below = (one for one in ast.walk(node) if isinstance(one, (ast.Import, ast.ImportFrom)))
            found.inside.extend(one.lineno for one in below)
    return found


def test_nothing_but_the_command_line_imports_commands() -> None:
    """Computations of commands stand in rooms, which reports and other commands ask as well."""
    users = {path.relative_to(ROOT).as_posix() for folder in ("pycontrol", "analysis", "userlib/gpurt")
             for path in (ROOT / folder).rglob("*.py")
             if any(one.startswith("pycontrol.commands") for one in module(path).imports)}  # fmt: skip
    assert {one for one in users if not one.startswith("pycontrol/commands/")} == {"pycontrol/cli.py"}


def test_commands_import_no_other_command() -> None:
    found = {}
    for path in (ROOT / "pycontrol/commands").glob("*.py"):
        parts = {one.split(".")[2] for one in module(path).imports if one.startswith("pycontrol.commands.")}
        if others := parts - SHARED:
            found[path.stem] = others
    assert found == {}


def test_modules_import_at_their_top() -> None:
    """Inside functions stand imports of packages that may be absent or take long, and what completion alone needs."""
    found = [f"{path.relative_to(ROOT)}:{line}" for folder in ("pycontrol", "analysis", "userlib/gpurt")
             for path in (ROOT / folder).rglob("*.py") for line in module(path).inside]  # fmt: skip
    assert len(set(found)) < 30, found


@pytest.mark.parametrize(("words", "code", "said"), [
    ("watch --metrics", 6, "prometheus-client is missing: pip install"), ("watch --help", 0, ""),
    ("watch", 2, "name a taskset file"),
])  # fmt: skip
def test_only_metrics_need_prometheus_client(tmp_path: Path, words: str, code: int, said: str) -> None:
    program = ("import sys; sys.modules['prometheus_client'] = None; from pycontrol.cli import run; "
               f"sys.exit(run({['--device', str(tmp_path / 'none'), *words.split()]!r}))")  # fmt: skip
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == code, done.stderr
    assert said in done.stderr
    assert "bug" not in done.stderr


def test_a_class_name_stands_in_one_package() -> None:
    packages: dict[str, set[str]] = defaultdict(set)
    for folder in ("pycontrol", "analysis", "userlib/gpurt"):
        for path in (ROOT / folder).rglob("*.py"):
            for name in module(path).classes:
                packages[name].add(folder)
    assert {name: where for name, where in packages.items() if len(where) > 1} == {}


def test_few_lines_say_any() -> None:
    """What is known of a value has a type; JSON, TOML and C have names of their own (gpurt/types.py)."""
    lines = [f"{path}:{line}" for folder in ("analysis", "pycontrol", "userlib/gpurt")
             for path in (ROOT / folder).rglob("*.py") for line in path.read_text("utf-8").splitlines()]  # fmt: skip
    found = [line for line in lines if re.search(r"\bAny\b", line)]
    assert len(found) < 150, found
