# SPDX-License-Identifier: GPL-2.0
"""Does this host match this file?  Real hosts, and every command that asks."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from links import PATIENCE, SocketClient
from processes import EMULATE, StartHost, at_priority
from served import Served

from pycontrol import cli

SERVE = ("-m", "pycontrol", "serve")
#: Costs that no machine exceeds, however busy it is.  Bounds of spinning tasks know none such; these run nowhere here.
ALPHA = {"suspend": "20s", "busy": "2ms"}
FILE = """[platform]
cpus = 1
alpha = "{alpha}"
theta = "1ms"
policy = "boosted"
[[task]]
name = "spinner"
cpu = 0
priority = 9
period = "3000s"
waiting = "{waiting}"
segments = [{{ misc = "50ms", gpu = "1us" }}]
"""


@pytest.mark.parametrize(
    ("program", "options", "waiting", "codes"),
    [
        (EMULATE, ("--policy=boosted", "--gpus=2"), "suspend", {"gpus"}),
        (SERVE, ("--policy=boosted",), "busy", {"asleep"}),
        (EMULATE, (), "suspend", {"policy"}),
        (EMULATE, ("--policy=boosted", "--priority=40"), "busy", {"raises"}),
        (EMULATE, ("--policy=boosted", "--platform=theta=2s"), "suspend", {"costs"}),
        (EMULATE, ("--policy=boosted",), "suspend", set()),
    ],
)
def test_all_commands_object_to_a_host_in_the_same_words(
    start_host: StartHost, tmp_path: Path, capfd: pytest.CaptureFixture[str], program: tuple[str, ...],
    options: tuple[str, ...], waiting: str, codes: set[str],
) -> None:  # fmt: skip
    """Also the trace of a run, and the metrics.  None says yes beside an objection that defeats the bounds."""
    host, file, trace = start_host(*options, program=program), tmp_path / "set.toml", tmp_path / "run.json"
    file.write_text(FILE.format(waiting=waiting, alpha=ALPHA[waiting]), encoding="utf-8")

    def asked(*words: object) -> tuple[int, list[dict[str, Any]]]:
        device = [] if words[:2] == ("trace", "check") else ["--device", str(host)]
        code = cli.run([*device, *map(str, words), "--json"])
        out = capfd.readouterr().out
        return code, json.loads(out.splitlines()[0] if words[0] == "watch" else out or "{}").get("objections", [])

    code, found = asked("apply", file, "--ignore-missing")
    assert (code, {one["code"] for one in found if "bounds" in one["defeats"]}) == (1 if codes else 0, codes)
    assert asked("watch", file, "--until", "1ms") == (1, found)  # no job was seen in any case
    assert asked("report", file, "-o", tmp_path / "page.html") == (1 if codes else 0, found)
    served = Served(host, str(file))
    said = served.end()
    assert [one["message"] for one in found if one["message"] not in served.said + said] == []
    if any("run" in one["defeats"] for one in found):
        assert asked("run", file, "--duration", "0.1s")[0] == 5
        return
    if program == SERVE:
        return  # its GPU is no virtual one, which the tasks of `gpurt run` use
    code, told = asked("run", file, "--duration", "0.1s", "-o", trace)
    assert (code, told) == (1 if codes else 0, found)
    assert asked("trace", "check", trace, file) == (1 if codes else 0, found)


def test_alpha_of_a_few_updates_is_no_proof(
    start_host: StartHost, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """The user may answer for a margin."""
    host, file = start_host(), tmp_path / "set.toml"
    text = FILE.format(waiting="suspend", alpha="").replace('alpha = ""', "").replace("boosted", "segment")
    file.write_text(text, encoding="utf-8")
    with SocketClient(host) as client:
        client.begin(priority=5)
        client.end()
    for margin, yes in (([], False), (["--margin", "50%"], True)):
        code = cli.run(["--device", str(host), "analyze", str(file), "--measured", *margin, "--json"])
        told = json.loads(capfd.readouterr().out)
        assert (code, told["schedulable"]) == (0 if yes else 1, yes), told
        assert [one["code"] for one in told["objections"]] == ([] if yes else ["few-updates"])
        assert "50 % more" in told["notes"][0] if yes else "20 % more" in told["notes"][0]
    assert cli.run(["analyze", str(file), "--margin", "50%"]) == 2
    assert "--margin goes with --measured" in capfd.readouterr().err


@pytest.mark.parametrize(
    ("priority", "command", "codes"),
    [(9, (), set()), (9, ("set", "policy", "job"), {"policy"}), (5, (), {"gpu-priority"})],
)
def test_a_recording_of_any_host_keeps_what_the_host_was(
    start_host: StartHost, tmp_path: Path, capfd: pytest.CaptureFixture[str], priority: int, command: tuple[str, ...],
    codes: set[str],
) -> None:  # fmt: skip
    """`gpurt trace record` knows no file.  Changes meanwhile count, and so does a client that is gone at the end."""
    host, file, trace = start_host("--policy=segment"), tmp_path / "set.toml", tmp_path / "run.json"
    comm = Path("/proc/self/comm").read_text(encoding="utf-8").strip()
    text = FILE.format(waiting="suspend", alpha="20s").replace("boosted", "segment").replace("spinner", comm)
    file.write_text(text, encoding="utf-8")
    recorder = (sys.executable, "-m", "pycontrol", "--device", str(host), "trace", "record", "-o", str(trace))
    with subprocess.Popen(recorder, stderr=subprocess.PIPE) as recording:
        assert recording.stderr
        recording.stderr.readline()  # it has subscribed
        with SocketClient(host) as client:
            with at_priority(9):
                client.begin(priority=priority)
            assert not command or cli.run(["--device", str(host), *command]) == 0
            recording.send_signal(signal.SIGINT)
            assert recording.wait(PATIENCE) == 0
    capfd.readouterr()
    assert cli.run(["trace", "check", str(trace), str(file), "--json"]) == 1  # no job was seen
    found = json.loads(capfd.readouterr().out)["objections"]
    assert {one["code"] for one in found if "bounds" in one["defeats"]} == codes
