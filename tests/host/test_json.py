# SPDX-License-Identifier: GPL-2.0
"""Every command that prints a result prints it as JSON too (docs/output.schema.json), and says if it cannot."""

from __future__ import annotations

import contextlib
import json
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from effort import everything
from jsonschema import Draft202012Validator
from links import SocketClient
from placed import COUPLED

from analysis.papers.experiments import zahaf
from pycontrol import cli
from pycontrol.table import paths

ROOT = Path(__file__).resolve().parents[2]
SCHEMA = json.loads((ROOT / "docs/output.schema.json").read_text())
ME = str(os.getpid())
CASE_STUDY = str(ROOT / "examples/case-study.toml")
TWO = str(ROOT / "examples/two-programs.toml")

#: Commands without a result: their output is for a shell or an editor, or they serve until they are ended.
WITHOUT = {"help", "emulate", "serve"}
#: Commands whose documents are tested elsewhere: tests/preload, on a fake driver; tests/unit/test_cli_energy.py;
#: tests/kernel/guest/test_patched_driver.py; tests/host/test_watch.py; tests/sm/test_measure.py.
ELSEWHERE = ("set slice", "plan energy", "measure board", "measure kernels", "watch")
#: A program with one GPU segment.
PROGRAM = """
from gpurt import Client, segment
with Client() as c, segment(client=c):
    t = c.open_tsg()
    c.wait_work(t, c.submit(t, 1_000_000))
"""
VII = ["--chip", "radeon-vii"]
#: Calls of every other command, with their exit codes (None: yes or no).  FILE is schedulable, LATE is not.
CALLS: dict[str, list[tuple[list[str], int | None]]] = {
    "analyze": [(["FILE"], 0), (["LATE"], 1), (["NOTHING"], 1),
                (["FILE", "--test", "gcaps-busy", "--test", "tsg-rr-busy"], 1),
                (["COUPLED"], 0), (["COUPLED", "--test", "gcaps-suspend"], 1)],
    "plan priorities": [(["FILE"], 0), (["LATE"], 1), (["NOTHING"], 1), (["ASSIGN", "--write"], 0)],
    "plan modes": [(["FILE"], 0), (["LATE"], 1), (["NOTHING"], 1), (["FILE", "--write"], 0)],
    "margins": [(["FILE"], 0), (["LATE"], 1), (["NOTHING"], 1)],
    "plan partitions": [(["PARTS", "-o", "OUT.toml"], 0), (["PARTS", "--units", "9"], 1),
                        (["PARTS", "--units", "4"], 1), (["PARTS", "--max-partitions", "2"], 0),
                        (["COUPLED", "--inside", "gcaps-suspend"], 0)],
    "plan units": [(["PARTS"], None)],
    "simulate": [(["FILE", "--runs", "5", "-o", "TRACE"], 0), (["LATE", "--runs", "5"], 1),
                 (["COUPLED", "--runs", "5"], 0)],
    "report": [(["FILE", "--trace", "TRACE", "--elsewhere", "-o", "OUT.html"], 0), (["LATE", "-o", "OUT.html"], 1),
               (["NOTHING", "--elsewhere", "-o", "OUT.html"], 1), (["COUPLED", "--elsewhere", "-o", "OUT.html"], 0)],
    "trace check": [(["TRACE", "FILE"], 0), (["TRACE", "FILE", "--test", "gcaps-suspend"], 1)],
    "experiment run": [([], 0), (["gcaps-fig8a", "--tasksets", "1", "--jobs", "1", "-o", "OUT"], 0),
                       (["zahaf-fig6", "--tasksets", "1", "-o", "OUT"], 0)],
    "experiment bounds": [(["FILE", "--test", "gcaps-busy", "--test", "gcaps-busy-printed"], 0), (["LATE"], 1)],
    "attack": [(["TINY"], 0)],
    "run": [(["FILE", "--duration", "0.3s", "-o", "OUT/run.json"], None)],
    "apply": [(["FILE"], 1), (["LATE"], 1)],
    "set priority": [(["40", ME], 0), (["own", ME], 0)],
    "set policy": [(["lock-fifo"], 0), (["job", "--notice", "poll", "--poll-period", "2ms"], 0)],
    "set budget": [([ME, "--time", "0ns"], 0), ([ME, "--time", "5ms", "--period", "1s", "--on-overrun", "demote"], 0),
                   ([ME, "--time", "0ns"], 0)],
    "set rule": [([effect, *named], 0) for effect in ("exempt", "bar")
                 for named in (["--pid", ME], ["--pid", ME, "--off"], ["--name", "Xorg"], ["--cgroup", "/"])],
    "set group": [(["llm", ME], 0), (["llm", "--cgroup", "/"], 0)],
    "status": [([], 0), (["gpus"], 0), (["latency"], 0), (["clients"], 0), (["rules"], 0)],
    "trace record": [(["-o", "OUT/trace.json", "--duration", "100ms"], 0)],
    "measure times": [(["--runs", "1", "--condition", "quiet", "--json", "--", sys.executable, "-c", PROGRAM], 0)],
    "demo": [(["--policy", "segment-suspend", "--duration", "0.3s", "-o", "OUT/demo"], 0)],
    "doctor": [([], 0)],
    "plan masks divide": [([*VII, "a=40", "20"], 0), ([*VII, "31", "29"], 1)],
    "plan masks check": [([*VII], 0), ([*VII, "all"], 0), ([*VII, "1", "1"], 1)],
}  # fmt: skip
#: Calls that end with an error, and their exit codes.
WRONG: list[tuple[list[str], int]] = [
    (["analyze", "--json"], 2), (["analyze", "/nonexistent", "--json"], 3), (["analyze", "BROKEN", "--json"], 3),
    (["simulate", "FILE", "--runs", "0", "--json"], 2), (["--device", "/nonexistent", "status", "--json"], 4),
    (["set", "budget", "4194304", "--time", "1ms", "--period", "1s", "--json"], 5),
    (["set", "priority", "4", "1", "--json"], 5), (["nope", "--json"], 2),
    (["set", "slice", ME, "--json"], 4), (["set", "rule", "exempt", "--off", "--json"], 2),
    (["set", "rule", "--name", "x", "--json"], 2),
    (["set", "group", "llm", "1", "--json"], 5), (["set", "group", "llm", "--json"], 2),
    (["experiment", "run", "nope", "--json"], 2), (["set", "policy", "fair", "--json"], 2),
    (["report", "FILE", "--json"], 2),
    (["demo", "--policy", "fair", "--json"], 2),
    (["plan", "priorities", "FILE", "--test", "tsg-rr-busy", "--json"], 2),
    (["plan", "masks", "divide", *VII, "0", "--json"], 2),
    (["plan", "masks", "nope", "--json"], 2), (["plan", "masks", "check", "--chip", "/nonexistent", "--json"], 2),
    (["measure", "board", "--json"], 4),
]  # fmt: skip

Gpurt = Callable[[list[str]], tuple[int, str, str]]


@pytest.fixture
def gpurt(host: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Gpurt:
    """Runs a command against the host, with the names of files replaced: exit code, stdout, stderr."""
    monkeypatch.setenv("GPURT_DEVICE", str(host))
    text = Path(TWO).read_text()
    files = {
        "FILE": text, "LATE": Path(TWO).read_text().replace('"20ms"', '"9ms"'), "NOTHING": "[platform]\ncpus = 1\n",
        "BROKEN": "[platform]\ncpus = 0\nx = 1\n", "ASSIGN": ASSIGNABLE, "PARTS": PARTS.read_text(),
        "COUPLED": COUPLED, "TINY": TINY,
    }  # fmt: skip
    for name, content in files.items():
        (tmp_path / name).write_text(content)

    def call(arguments: list[str]) -> tuple[int, str, str]:
        capfd.readouterr()
        places = {**{name: name for name in files}, "TRACE": "run.json"}
        code = cli.run([str(tmp_path / places.get(word, word)) if word in places or word.startswith("OUT") else word
                        for word in arguments])  # fmt: skip
        return code, *capfd.readouterr()

    return call


PARTS = ROOT / "examples/partitions.toml"

#: Of few schedules.
TINY = """[platform]
cpus = 1
epsilon = "0ms"
[[task]]
name = "a"
cpu = 0
priority = 2
period = "4ms"
segments = [{ cpu = "1ms" }]
[[task]]
name = "b"
cpu = 0
priority = 1
period = "6ms"
segments = [{ misc = "0ms", gpu = "1ms" }]
"""
#: Schedulable with other GPU priorities than the tasks' own.
ASSIGNABLE = """[platform]
cpus = 2
epsilon = "0ns"
[[task]]
name = "b"
cpu = 0
priority = 9
period = "100ms"
segments = [{ misc = "0ms", gpu = "30ms" }]
[[task]]
name = "c"
cpu = 1
priority = 1
period = "120ms"
deadline = "20ms"
segments = [{ misc = "0ms", gpu = "8ms" }]
"""


def document(text: str, command: str | None) -> dict[str, Any]:
    """The one JSON document of a text, valid by the schema."""
    found = json.loads(text)
    assert not [error.message for error in Draft202012Validator(SCHEMA).iter_errors(found)], text
    assert (found["schema"], found["command"]) == (1, command)
    assert isinstance(found, dict)
    return found


def named(words: list[str]) -> str | None:
    """The command that a command line calls, with its groups: "plan masks check"."""
    known, found = dict(paths()), ""
    for word in words[2:] if words[0] == "--device" else words:
        if f"{found} {word}".strip() not in known:
            break
        found = f"{found} {word}".strip()
    return found or None


def test_the_schema_is_one() -> None:
    Draft202012Validator.check_schema(SCHEMA)


@pytest.mark.parametrize("name", cli.LEAVES)
def test_every_command_with_a_result_has_json(name: str) -> None:
    options = {option for one in cli.find_command(name).params for option in one.opts}
    assert ("--json" in options) == (name not in WITHOUT)
    assert name in WITHOUT or name in CALLS or name.startswith(ELSEWHERE), "a row of CALLS, please"
    required = [*Draft202012Validator(SCHEMA).iter_errors({"schema": 1, "command": name})]
    assert required or name in WITHOUT, "its required keys belong into docs/output.schema.json"


@pytest.mark.parametrize("name", cli.LEAVES)
def test_a_wrong_option_is_a_document(name: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert cli.run([*name.split(), "--no-such-option", "--json"]) == 2
    out, err = capfd.readouterr()
    assert out == ""
    assert document(err, name)["error"]["exit_code"] == 2


def test_results_are_documents(gpurt: Gpurt, host: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One host for all of them."""
    monkeypatch.setattr(zahaf, "LOADS", (10, 40))
    with SocketClient(host) as client:
        client.begin(priority=5)
        client.end()
        for name, calls in CALLS.items():
            for arguments, code in calls:
                got, out, err = gpurt([*name.split(), *arguments, "--json"])
                assert err == "", (name, arguments)
                assert got == code or (code is None and got in (0, 1)), (name, arguments, out)
                found = document(out, name)
                for key in ("schedulable", "in_time"):
                    if key in found and name != "apply":
                        assert found[key] == (got == 0), (name, arguments)


def test_errors_are_documents_and_without_json_lines(gpurt: Gpurt) -> None:
    """One host for all of them."""
    for arguments, code in WRONG:
        got, out, err = gpurt(arguments)
        assert (got, out) == (code, ""), arguments
        error = document(err, named(arguments))["error"]
        assert error["exit_code"] == code, arguments
        assert error["message"], arguments
        if "BROKEN" in arguments:
            assert [problem["line"] for problem in error["problems"]] == [2, 3]
        got, out, err = gpurt([word for word in arguments if word != "--json"])
        assert (got, out) == (code, ""), arguments
        assert all(line.startswith("gpurt: ") for line in err.splitlines()), arguments


@contextlib.contextmanager
def stdout_is(descriptor: int) -> Iterator[None]:
    """For this process: nothing is left in a buffer that would be written later."""
    before, stream = os.dup(1), sys.stdout
    os.dup2(descriptor, 1)
    sys.stdout = open(1, "w", closefd=False)  # noqa: SIM115  (a shell opens it)
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            sys.stdout.close()
        sys.stdout = stream
        os.dup2(before, 1)
        os.close(before)


def test_a_stdout_that_takes_nothing_is_no_answer_of_any_command(gpurt: Gpurt, host: Path, tmp_path: Path) -> None:
    """Neither 0 nor 1, which are answers: 141 if the reader of a pipe has gone, 3 if the disk is full."""
    (tmp_path / "OUT").mkdir()
    reader, pipe = os.pipe()
    os.close(reader)
    full = os.open("/dev/full", os.O_WRONLY)
    with SocketClient(host) as client:
        client.begin(priority=5)
        client.end()  # programs that commands start have the GPU
        for number, (name, calls) in enumerate(CALLS.items()):
            if name == "demo" and not everything():  # which draws for seconds, and prints as the others do
                continue
            words, ways = [word for word in calls[0][0] if word != "--json"], ((pipe, 141), (full, 3))
            for descriptor, code in ways if everything() else [ways[number % 2]]:
                with stdout_is(descriptor):
                    got, _, err = gpurt([*name.split(), *words])
                assert got == code, (name, err)
                said = [line for line in err.splitlines() if line.startswith("gpurt: ")]
                assert said == (["gpurt: stdout cannot be written: No space left on device"] if code == 3 else []), name
    os.close(pipe)
    os.close(full)


def test_a_program_s_own_json_option_is_not_ours(gpurt: Gpurt) -> None:
    code, out, err = gpurt(["--device", "/nonexistent", "measure", "times", "--", "true", "--json"])
    assert (code, out) == (4, "")
    assert err.startswith("gpurt: no host")
