# SPDX-License-Identifier: GPL-2.0
"""Random files with every key: each command that takes a file answers or names what is wrong, and none contradicts
another.

Here a few files; GPURT_LONG=1 takes a hundred times as many.
"""

from __future__ import annotations

import json
import os
import random
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from calls import Gpurt, caller, everywhere
from drawn import Drawn
from fit_cases import HOSTS, Fake

from analysis import taskset
from analysis.traces.trace import HOST, Trace, load_trace
from pycontrol import cli
from pycontrol.act.run import launch
from pycontrol.commands import serve
from pycontrol.link.control import connect
from pycontrol.machine import placement
from pycontrol.observe.fit import fit
from pycontrol.observe.watch import serving

FILES = 600 if os.environ.get("GPURT_LONG") else 8
#: Options of each command that takes a taskset file; {out} is a file to write, {trace} a trace of the tasks.
CALLS: dict[str, list[list[str]]] = {
    "analyze": [[], ["--explain", "t0"], ["--measured", "--margin", "10%"]], "report": [
        ["--elsewhere", "-o", "{out}"], ["--trace", "{trace}", "-o", "{out}"]],
    "margins": [[]], "plan modes": [[], ["--host", "agents"]], "plan priorities": [[]],
    "attack": [["--states", "20000"]], "experiment bounds": [["--test", "gcaps-suspend-printed"]],
    "plan partitions": [[], ["{task}"]], "plan units": [[]],
    "simulate": [["--runs", "2", "-o", "{trace}"]], "trace check": [[]],
    "run": [["-o", "{out}"]],
    "apply": [[]],
    "watch": [["--until", "1ms"], ["--metrics", "--listen", "127.0.0.1:0"]],
    "emulate": [[]], "serve": [["--policy", "sbeet"]], "doctor": [[]],
    "plan energy explain": [[]], "plan energy simulate": [[]],
}  # fmt: skip
#: These commands do not take the file as a positional argument.
NAMED = {"emulate": "--taskset", "serve": "--energy-file"}
#: Those that ask a host.  It may not answer (4), or refuse (5).
LIVE = {"run", "apply", "watch", "emulate", "serve"}


def test_every_command_that_takes_a_file_is_asked() -> None:
    names = {"file", "files", "taskset_path", "energy_path"}
    taking = {
        name for name in cli.LEAVES if names & {param.name for param in cli.find_command(name).params} or name == "run"
    }
    assert taking == set(CALLS)


class Asked:
    """The answers of commands about one file: exit codes and documents."""

    def __init__(self, gpurt: Gpurt, file: Path, text: str) -> None:
        self.gpurt, self.file, self.text = gpurt, file, text
        file.write_text(text, encoding="utf-8")
        tasks = [part for part in text.split("[[task]]") if "name =" in part]
        self.names = {"out": file.with_name("written"), "trace": file.with_name("run.json"),
                      "task": file.with_name("task.toml")}  # fmt: skip
        self.names["task"].write_text("[[task]]" + tasks[-1].replace('"t', '"new'), encoding="utf-8")

    def __call__(self, command: str, options: list[str]) -> tuple[int, dict[str, Any]]:
        words = [*command.split(), *([NAMED[command]] if command in NAMED else []), str(self.file)]
        if command == "trace check":
            words.insert(2, str(self.names["trace"]))
        words += [one.format(**self.names) for one in options]
        plain = command in ("emulate", "serve") or "--metrics" in options
        code, out, err = self.gpurt(*words, *([] if plain else ["--json"]))
        assert code in (0, 1, 2, 3, *((4, 5) if command in LIVE else ())), (words, code, err, self.text)
        assert "Traceback" not in err, (words, err, self.text)
        if plain:
            assert code == 0 or err, (words, self.text)
            return code, {}
        told = json.loads(out.splitlines()[0] if command == "watch" and code < 2 else out if code < 2 else
                          err.splitlines()[-1])  # fmt: skip
        assert code < 2 or told["error"]["message"], (words, self.text)
        return code, told

    def all(self, command: str) -> list[tuple[int, dict[str, Any]]]:
        """With each of the options of CALLS."""
        return [self(command, options) for options in CALLS[command]]


def with_more(rng: random.Random, text: str) -> str:
    """The file with keys that the generator of files does not draw."""
    if rng.random() < 0.3:
        text = text.replace("[platform]\n", f'[platform]\nregion = "{rng.choice([0, 1, 7])}ns"\n', 1)
    if rng.random() < 0.2:
        text = text.replace('policy = "', 'policy = "federated" # "', 1)
    if rng.random() < 0.2 and '"t1"' in text:
        cpu = text.index("cpu = ", text.index('name = "t0"'))
        text += f'[[thread]]\nname = "executor"\n{text[cpu : text.index(chr(10), cpu)]}\norder = "fifo"\n'
    return text


def host_of(patch: pytest.MonkeyPatch, rng: random.Random, trace: Path) -> None:
    """Puts one of HOSTS in the place of the running one.  Programs do what they do when simulated."""
    known = rng.choice(list(HOSTS.values()))

    def ran(file: taskset.TasksetFile, options: Any, *_: Any) -> launch.Run:
        kept = load_trace(trace) if trace.exists() else Trace({})
        recorded = replace(kept, meta={**kept.meta, "policy": options.policy, HOST: fit.saved(options.host)})
        return launch.Run(placement.place_cpus(file.taskset), known.fifo, (), {}, 3.0, 0, recorded)

    def over() -> threading.Event:
        event = threading.Event()
        event.set()
        return event

    everywhere(patch, connect, lambda *_: Fake(known))
    patch.setattr(launch, "launch", ran)
    patch.setattr(serve, "run_host", lambda config: config.make(lambda *_: None))
    patch.setattr(serving, "SignalEvent", over)


@pytest.mark.parametrize("number", range(FILES))
def test_commands_answer_and_agree(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, number: int
) -> None:
    rng = random.Random(f"commands {number}")
    text = with_more(rng, Drawn(rng).text())
    ask = Asked(caller(capfd), tmp_path / "set.toml", text)
    host_of(monkeypatch, rng, ask.names["trace"])
    (code, answer), rows, *_ = ask.all("analyze")
    ((seen, simulated),) = ask.all("simulate")
    assert {ask.all(name)[0][0] for name in ("report", "margins")} == {code}, text
    assert rows[0] == code, text
    if code < 2:
        row = {test["test"]: test["schedulable"] for test in rows[1]["tests"]}
        for test in answer["tests"]:
            assert row.get(test["test"], test["schedulable"]) == test["schedulable"], text
    chosen, assigned = ask.all("plan modes")[0], ask.all("plan priorities")[0]
    if code == 0:
        assert (chosen[0], assigned[0]) in ((0, 0), (0, 2), (2, 0), (2, 2)), (chosen, assigned, text)
    ((exact, explored),) = ask.all("attack")
    if exact < 2 and code == 0:
        assert exact == 0, (explored, text)  # what is proved holds in every schedule
    if seen < 2:
        assert seen == 0 or code != 0, (simulated, text)
        ((judged, told),) = ask.all("trace check")
        if judged < 2:
            broken = [one for one in told["findings"] if one["sort"] == "assumption"]
            assert not broken, (broken, text)
    asked = {"analyze", "simulate", "report", "margins", "plan modes", "plan priorities", "attack", "trace check"}
    for command in CALLS.keys() - asked:
        for answered, document in ask.all(command):
            if answered == 0 and "objections" in document:
                assert not any("bounds" in one["defeats"] for one in document["objections"]), (document, text)
