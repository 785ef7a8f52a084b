# SPDX-License-Identifier: GPL-2.0
"""Does this host match this file?  The module as it is, and every command that asks it."""

from __future__ import annotations

import errno
import json
from pathlib import Path
from typing import Any

import pytest
from fit_cases import ASKED, FILES, HOSTS, with_commands
from links import client_of, eventually
from loading import DEVICE, THOROUGH, load
from patched import Driver, Tsg, facts
from served import Served
from test_fit_joint import ALPHA, FILE

from gpurt.enums import Tier
from pycontrol import cli

FAKE = Driver("fake_driver")
#: Parameters of the module, the file, and the objections that defeat its bounds.
MATRIX: list[tuple[str, str, set[str]]] = [
    ("policy=5", "boosted busy", set()),
    ("", "segment suspend", set()),
    ("", "boosted suspend", {"policy"}),
    ("policy=5 vgpu_sleeps=1", "boosted busy", {"asleep"}),
    ("policy=5 vgpus=2", "boosted suspend", {"gpus"}),
    ("policy=5", "boosted high", {"priorities"}),
    ("vgpus=2", "partitions", set()),
    ("", "partitions", {"partitions"}),
    ("policy=2", "job busy", {"thread"}),
    ("policy=2 thread_cpu=0", "job busy", set()),
    ("vgpu_alpha_ns=2000000", "segment suspend", {"costs"}),
]


@pytest.fixture
def asked(capfd: pytest.CaptureFixture[str]) -> Any:
    """Runs a command on the module: its exit code, and what it objects to."""

    def ask(*words: object) -> tuple[int, list[dict[str, Any]]]:
        device = [] if words[:2] == ("trace", "check") else ["--device", str(DEVICE)]
        code = cli.run([*device, *map(str, words), "--json"])
        out, err = capfd.readouterr()
        assert code < 2, err
        return code, json.loads(out.splitlines()[0] if words[0] == "watch" else out)["objections"]

    return ask


def agreed(asked: Any, file: Path, name: str, codes: set[str]) -> list[dict[str, Any]]:
    """The objections to the host, which are the same of all commands; none says yes beside one that defeats bounds."""
    file.write_text(FILES[name].text, encoding="utf-8")
    code, found = asked("apply", file, "--ignore-missing")
    assert {one["code"] for one in found if "bounds" in one["defeats"]} == codes
    assert code == (1 if codes else 0)
    assert asked("watch", file, "--until", "1ms") == (1, found)  # no job was seen
    assert asked("report", file, "-o", file.with_name("page.html")) == (1 if codes else 0, found)
    return list(found)


def ran_and_checked(asked: Any, file: Path, name: str) -> list[dict[str, Any]]:
    """The objections to a run, which are those to its trace.  The tasks' programs use no GPU: no job of theirs is seen.
    """
    file.write_text(with_commands(FILES[name].text), encoding="utf-8")
    trace = file.with_name("run.json")
    code, found = asked("run", file, "--duration", "0.1s", "-o", trace)
    assert (code, asked("trace", "check", trace, file)) == (1, (1, found))
    return list(found)


@pytest.mark.parametrize(("options", "name", "codes"), MATRIX if THOROUGH else MATRIX[:2])
def test_commands_object_to_the_module_in_the_same_words(
    tmp_path: Path, asked: Any, options: str, name: str, codes: set[str]
) -> None:
    load(*options.split())
    agreed(asked, tmp_path / "set.toml", name, codes)
    load()


@pytest.mark.skipif(not FAKE.file.exists(), reason="needs fake_driver.ko, which test_matrix.py builds")
def test_commands_object_to_a_patched_driver_in_the_same_words(tmp_path: Path, asked: Any) -> None:
    """Its updates may sleep, and it says when it cannot switch.  It is what the record in fit_cases.py is."""
    file = tmp_path / "set.toml"
    with FAKE.loaded(gpurt=("vgpus=0", "policy=5")) as control, client_of(DEVICE) as client:
        (real,), (record,) = control.status(), HOSTS["patched boosted"].gpus
        assert real.tier is Tier.PATCHED
        assert {key: getattr(real, key) for key in ASKED} == {key: getattr(record, key) for key in ASKED}
        agreed(asked, file, "boosted suspend", set())
        ran_and_checked(asked, file, "boosted suspend")
        assert {one["code"] for one in ran_and_checked(asked, file, "boosted busy")} >= {"asleep"}
        found = agreed(asked, file, "boosted busy", {"asleep"})
        served = Served(DEVICE, str(file))
        said = served.said + served.end()
        assert [one["message"] for one in found if one["message"] not in said] == []
        control.set_policy("segment")
        agreed(asked, file, "boosted suspend", {"policy"})
        mine = Tsg()
        client.begin(priority=10)
        client.end()
        code, told = asked("analyze", file, "--measured", "--margin", "0%")
        assert (code, [one["code"] for one in told if "bounds" in one["defeats"]]) == (1, ["policy"])
        FAKE.have("error", errno.EOPNOTSUPP)
        FAKE.have("fail", 1_000_000)
        client.begin(priority=10)
        eventually(lambda: facts()[0]["state"] == "unable")
        code, found = asked("apply", file, "--ignore-missing")
        assert {"policy", "driver", "isolation"} <= {one["code"] for one in found if "bounds" in one["defeats"]}
        assert code == 1
        FAKE.have("fail", 0)
        eventually(lambda: facts()[0]["state"] == "on")
        client.end()
        mine.close()


def test_the_trace_of_a_run_has_the_module(tmp_path: Path, asked: Any) -> None:
    """`run` says what `check` says of its trace later, on another host."""
    load("policy=5")
    file, trace = tmp_path / "set.toml", tmp_path / "run.json"
    for waiting in ALPHA:
        file.write_text(FILE.format(waiting=waiting, alpha="20s" if waiting == "suspend" else "1us"), encoding="utf-8")
        ran = asked("run", file, "--duration", "0.1s", "-o", trace)
        load()
        assert asked("trace", "check", trace, file)[1] == ran[1]
        load("policy=5")
    load()
