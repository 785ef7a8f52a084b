# SPDX-License-Identifier: GPL-2.0
"""Every command that reads a file, with every kind of bad file: one line that names it, exit code 3, or JSON."""

from __future__ import annotations

import json
import os
import re
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import click
import pytest
from calls import pipe, standard_input
from jsonschema import Draft202012Validator

from analysis.taskset import json_schema
from analysis.taskset.file import parse
from analysis.taskset.text import MAX_TASKSET_BYTES
from analysis.traces.trace import MAX_TRACE_BYTES as MAX_TRACE
from analysis.traces.trace import TRACE_VERSION, About, Event, Kind, Trace, costs_of, placed_of, traced_times
from gpurt.units import TIME_PATTERN
from pycontrol import cli

ROOT = Path(__file__).resolve().parents[2]
VALID = Draft202012Validator(json.loads((ROOT / "docs/output.schema.json").read_text()))
NOBODY = 65534


class Reader(NamedTuple):
    """A place on the command line where a command reads a file."""

    command: str
    argument: str

    def words(self, path: str, others: dict[str, str]) -> list[str]:
        """The command line with that path there, and good files in the command's other arguments."""
        needed = [path if name == self.argument else others[name] for name in arguments(self.command)]
        output = ["-o", others["output"]] if option(self.command, "-o") else []
        return [*self.command.split(), *output, *needed]


def arguments(name: str) -> list[str]:
    """The names of the arguments that are files; `run` has a command in the same place."""
    return [one.name or "" for one in cli.find_command(name).params if isinstance(one, click.Argument)
            and (isinstance(one.type, click.Path) or (one.metavar or "").startswith("FILE"))]  # fmt: skip


def option(name: str, flag: str) -> bool:
    return any(flag in one.opts for one in cli.find_command(name).params)


#: Groups that have tests of their own: test_cli_energy.py, test_cli_mask.py.
APART = ("plan energy", "plan masks", "measure kernels")
COMMANDS = [name for name in cli.LEAVES if not name.startswith(APART)]
READERS = [Reader(name, argument) for name in COMMANDS for argument in arguments(name)]

#: Has each time that a taskset file can have.
GOOD = """[platform]
cpus = 1
alpha = "0.5ms"
theta = "0.5ms"
epsilon = "1ms"
time_slice = "1ms"
bus_chunk = "1ms"
region = "0.1ms"
cpu_latency = "0ms"
compute_units = 4
[[task]]
name = "camera"
cpu = 0
priority = 9
period = "100ms"
deadline = "90ms"
jitter = "0ms"
max_period = "100ms"
partition = "all"
segments = [{ cpu = { worst = "2ms", best = "1ms" } }, { misc = "1ms", gpu = "1ms" },
            { misc = "0s", gpu = { parallel = "1ms", serial = "1ms" } },
            { misc = "0s", gpu = { units = { 4 = "1ms" } } }, { copy = "1ms" },
            { kernel = "2ms", overhead = "1ms", block = "1ms" }, { kernel_times = ["1ms"] }]
[[partition]]
name = "all"
compute_units = 4
slice = "1ms"
"""
TIMES = re.compile(r'(\w+) = "[0-9.]+ms"')


def wrong_times() -> Iterator[tuple[str, bytes]]:
    """The good file with one of its times negative, too long, without a unit, or zero where it must not be."""
    for found in TIMES.finditer(GOOD):
        key = found[1]
        zero = ['"0ms"'] if key in ("period", "deadline", "time_slice", "slice", "bus_chunk") else []
        for wrong in ('"-1ms"', '"99999999999999999999s"', '"5"', "-1", "nan", '"0.1ns"', *zero):
            yield f"{key} = {wrong}", f"{GOOD[:found.start()]}{key} = {wrong}{GOOD[found.end():]}".encode()


#: Content of bad files: no command can take one for a taskset or for a trace.
CONTENTS = {
    "empty": b"", "blank": b" \n\n", "binary": bytes(range(256)) * 16, "an executable": b"\x7fELF\x02\x01" + bytes(99),
    "not UTF-8": GOOD.encode() + b'# caf\xe9\n', "UTF-16": GOOD.encode("utf-16"), "NUL": GOOD.encode() + b"\0",
    "broken TOML": GOOD.encode() + b"x = [1,\n", "JSON": b'{"platform": {"cpus": 1}}', "a list": b"[1, 2]",
    "a number": b"7", "another file": b"all:\n\tcc -o x x.c\n", "escapes": b"\x1b[31m = 1\n",
    "nested": b"x = " + b"[" * 100_000,
    "a huge integer": b"x = " + b"9" * 100_000, "twice": GOOD.encode() + b'[platform]\ncpus = 2\n',
    "no platform": GOOD[GOOD.index("[[task]]"):].encode(),
    "platform is a list": b"platform = [1]\n", "platform is text": b'platform = "x"\n',
    "no cpus": b'[platform]\nepsilon = "1ms"\n', "task is a number": b"task = 1\n[platform]\ncpus = 1\n",
    "unknown table": GOOD.encode() + b"[gpu]\n", "unknown key": GOOD.replace("cpus = 1", "cpus = 1\ncups = 1").encode(),
    **{f"cpus = {wrong}": GOOD.replace("cpus = 1", f"cpus = {wrong}").encode()
       for wrong in ("0", "-1", "1.0", '"1"', "true", "[]", "10000000", "9" * 40, "nan", "2026-01-01")},
    **{f"priority = {wrong}": GOOD.replace("priority = 9", f"priority = {wrong}").encode()
       for wrong in ("-1", "100", '"9"')},
    **dict(wrong_times()),
}  # fmt: skip


def trace() -> Trace:
    tasks = parse(Path("good.toml"), GOOD).taskset
    meta = {"clock": "virtual", "policy": "boosted", "waiting": "per task", "times": traced_times(tasks),
            "placed": placed_of(tasks), "costs": costs_of(tasks)}  # fmt: skip
    about = {task.name: About(task.priority, task.deadline) for task in tasks}
    return Trace(meta, (Event(5_000_000, Kind.COMPLETE, "camera", 1, 5_000_000),), about)


def bad_traces(good: bytes) -> dict[str, bytes]:
    """Content that is no trace, or a damaged one."""
    document = json.loads(good)
    *before, last = document["traceEvents"]
    backwards, endless = ({**last, "args": {**last["args"], "duration": time}} for time in (-5, None))
    heads = {name: {key: value for key, value in document["otherData"].items() if key != name}
             for name in ("tasks", "until")}  # fmt: skip
    return {
        "cut off": good[:-20],
        "another version": good.replace(f'"version": {TRACE_VERSION}'.encode(), b'"version": 99'),
        "no events": json.dumps({**document, "traceEvents": 1}).encode(), "not ours": b'{"traceEvents": []}',
        "a negative time": json.dumps({**document, "traceEvents": [*before, backwards]}).encode(),
        "no duration": json.dumps({**document, "traceEvents": [*before, endless]}).encode(),
        **{f"no {name}": json.dumps({**document, "otherData": head}).encode() for name, head in heads.items()},
    }  # fmt: skip


@contextmanager
def as_nobody() -> Iterator[None]:
    """Root may read every file."""
    if os.geteuid():
        yield
        return
    os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)


@contextmanager
def fifo(path: Path, content: bytes) -> Iterator[str]:
    os.mkfifo(path)
    writer = threading.Thread(target=path.write_bytes, args=(content,))
    writer.start()
    try:
        yield str(path)
    finally:
        writer.join()
        path.unlink()


def places(folder: Path, stack: ExitStack) -> Iterator[tuple[str, str]]:
    """Names that lead to no file, or to none that can be read: what each is, and the name."""
    yield "missing", str(folder / "none.toml")
    yield "a missing folder", str(folder / "none/file.toml")
    yield "a folder", str(folder)
    yield "below a file", str(folder / "file" / "x")
    yield "no name", ""
    yield "too long", str(folder / ("x" * 300))
    yield "a device", "/dev/zero"
    yield "no file of text", "/proc/self/mem"
    yield "no descriptor", "/dev/fd/987"
    yield "strange letters", os.fsdecode(os.fsencode(folder) + b"/\x1b[31m\n\xff")
    (folder / "loop").symlink_to(folder / "loop")
    yield "a loop of links", str(folder / "loop")
    listener = stack.enter_context(socket.socket(socket.AF_UNIX))
    listener.bind(str(folder / "socket"))
    yield "a socket", str(folder / "socket")
    for size in (MAX_TASKSET_BYTES, MAX_TRACE):
        with (folder / f"huge-{size}").open("wb") as file:
            file.truncate(size + 1)
    yield "huge", str(folder / f"huge-{MAX_TRACE}")


Refused = Callable[[Reader, str, str], str]


@pytest.fixture
def others(tmp_path: Path) -> dict[str, str]:
    """Good files by the names of arguments."""
    (tmp_path / "file").write_text(GOOD)
    trace().save(tmp_path / "trace")
    return {name: str(tmp_path / name) for name in ("file", "trace", "what", "output")}


@pytest.fixture
def refused(others: dict[str, str], capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Refused:
    """Runs the command with a bad file, as text or with --json; checks how it refuses, and returns its message."""
    monkeypatch.setenv("GPURT_DEVICE", "/nonexistent")

    def call(reader: Reader, path: str, kind: str, *options: str) -> str:
        words = reader.words(path, others)
        code = cli.run([*words, *options])
        out, err = capfd.readouterr()
        assert (code, out) == (3, ""), (kind, err)
        assert not os.path.exists(others["output"])
        if "--json" in options:
            document = json.loads(err)
            assert not [error.message for error in VALID.iter_errors(document)], err
            assert (document["command"], document["error"]["exit_code"]) == (reader.command, 3)
            return str(document["error"]["message"])
        assert (err.startswith("gpurt: "), err.count("\n"), err[-1]) == (True, 1, "\n"), (kind, err)
        assert err[:-1].isprintable(), (kind, err)
        assert not re.search(r"Traceback|this is a bug|Error:|\bNone\b", err), (kind, err)
        return err[len("gpurt: ") : -1]

    def both(reader: Reader, path: str, kind: str) -> str:
        text = call(reader, path, kind)
        if option(reader.command, "--json") and kind not in ONCE:
            assert call(reader, path, kind, "--json") == text
        return text

    return both


#: The inputs that can be read only once.
ONCE = ("a pipe", "standard input", "process substitution", "a descriptor")


def test_all_readers_are_known() -> None:
    names = ("plan priorities", "plan modes", "margins", "simulate", "trace check", "apply", "plan partitions")
    known = {(name, "file") for name in names}
    known |= {("trace check", "trace"), ("run", "what"), ("analyze", "files")}
    assert known <= set(READERS)
    assert all(option(reader.command, "--json") for reader in READERS)


def test_the_good_file_is_good_and_has_every_time(others: dict[str, str], capfd: pytest.CaptureFixture[str]) -> None:
    """Otherwise the files made from it would be refused for another reason, or a time would be left out."""
    assert cli.run(["analyze", others["file"]]) == 0
    assert cli.run(["trace", "check", others["trace"], others["file"]]) == 0
    assert capfd.readouterr()[1] == ""
    elsewhere = {
        "cpu", "kernel_times", "^[1-9][0-9]{0,3}$", "max_reaction", "max_age", "max_age_at_output", "copy_in",
        "copy_out", "work", "offset", "time", "decision", "stall",
    }  # fmt: skip
    assert set(TIMES.findall(GOOD)) - {"4"} | elsewhere == set(times_of(json_schema()))


def times_of(schema: Any, key: str = "") -> Iterator[str]:
    """The keys of a JSON Schema whose values may be times."""
    if isinstance(schema, dict):
        if schema.get("pattern") == TIME_PATTERN:
            yield key
        for name, below in schema.items():
            yield from times_of(below, key if name in ("anyOf", "items", "properties", "patternProperties") else name)
    elif isinstance(schema, list):
        for below in schema:
            yield from times_of(below, key)


@pytest.mark.parametrize("reader", READERS, ids="-".join)
def test_what_is_no_file_is_refused(refused: Refused, reader: Reader, tmp_path: Path) -> None:
    with ExitStack() as stack:
        for kind, path in places(tmp_path, stack):
            text = refused(reader, path, kind)
            name = Path(path).name.partition("\x1b")[0]
            assert name[:60] in text, kind


@pytest.mark.parametrize("reader", READERS, ids="-".join)
def test_a_file_that_may_not_be_read_is_refused(
    refused: Refused, reader: Reader, others: dict[str, str], tmp_path: Path
) -> None:
    """Nor may its folder be entered, if root runs this."""
    path = tmp_path / "secret.toml"
    refused(reader, str(path), "missing")  # imports what the command needs, as a user who may read it
    path.write_text(GOOD)
    path.chmod(0)
    with as_nobody():
        text = refused(reader, str(path), "unreadable")
    assert text.startswith(tuple(f"{one}: Permission denied; name" for one in (path, *others.values())))


@pytest.mark.parametrize("reader", READERS, ids="-".join)
def test_bad_content_is_refused(refused: Refused, reader: Reader, others: dict[str, str], tmp_path: Path) -> None:
    """One parser refuses it for all: `analyze` meets all of it, each other reader an eighth, and these differ."""
    place = READERS.index(reader)
    contents = CONTENTS if reader.command == "analyze" else dict(list(CONTENTS.items())[place % 8 :: 8])
    more = bad_traces(Path(others["trace"]).read_bytes()) if reader.argument == "trace" else {}
    path = tmp_path / "bad.toml"
    for kind, content in {**contents, **more}.items():
        path.write_bytes(content)
        assert refused(reader, str(path), kind).startswith(str(path)), kind


@pytest.mark.parametrize("reader", READERS, ids="-".join)
def test_bad_content_of_pipes_is_refused(refused: Refused, reader: Reader, tmp_path: Path) -> None:
    for kind in ("empty", "binary", "broken TOML", "unknown key"):
        content = CONTENTS[kind]
        with standard_input(content) as path:
            assert refused(reader, path, "standard input").startswith("standard input:"), kind
        for form in ("/dev/fd/{}", "/proc/self/fd/{}"):
            with pipe(content, form) as path:
                assert refused(reader, path, "process substitution").startswith(path), kind
        with fifo(tmp_path / "fifo", content) as path:
            assert refused(reader, path, "a pipe").startswith(path), kind
