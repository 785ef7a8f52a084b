# SPDX-License-Identifier: GPL-2.0
"""Command mask: what its parts print, on named chips and on copies of topologies, and every kind of wrong input."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from calls import Gpurt, caller

from analysis.masks.topology import CHIPS
from pycontrol.machine import topology

VII = ("--chip", "radeon-vii")


@pytest.fixture
def gpurt(capsys: pytest.CaptureFixture[str]) -> Gpurt:
    """Runs a part of the command in this process: exit code, stdout, stderr."""
    call = caller(capsys)
    return lambda *words: call("plan", "masks", *words)


@pytest.fixture
def document(gpurt: Gpurt) -> Callable[..., dict[str, Any]]:
    def call(code: int, *arguments: str | Path) -> dict[str, Any]:
        got, out, err = gpurt(*arguments, "--json")
        assert (got, err) == (code, "")
        found = json.loads(out)
        assert found["command"] == f"plan masks {arguments[0]}"
        return dict(found)

    return call


def machine(root: Path, gpus: int = 1) -> Path:
    """A copy of the topology of a machine with so many Radeon VIIs."""
    lines = ("simd_count 240", "array_count 4", "simd_arrays_per_engine 1", "cu_per_simd_array 16", "simd_per_cu 4",
             "gfx_target_version 90006")  # fmt: skip
    for node in range(gpus + 1):
        folder = root / "nodes" / str(node)
        folder.mkdir(parents=True)
        (folder / "gpu_id").write_text(f"{node}\n")
        (folder / "properties").write_text("\n".join(lines) + "\n")
    return root


def test_a_plan(document: Callable[..., dict[str, Any]]) -> None:
    found = document(0, "divide", *VII, "vision=40", "radar=20")
    vision, radar = found["partitions"]
    assert (vision["mask"], radar["mask"]) == ("0xffffffffff", "0xfffff0000000000")
    keys = ("wanted", "effective", "width", "per_engine", "waste")
    assert [radar[key] for key in keys] == [20, 20, 4, 5, 0]
    assert radar["hsa_cu_mask"] == "0:0xfffff0000000000"
    assert radar["words"] == [0, 0x0FFFFF00]
    assert radar["registers"] == [["0x00007c00"] * 4]
    assert (found["possible"], found["proved"], found["waste"], found["chip"]) == (True, True, 0, "radeon-vii")


def test_a_plan_as_text(gpurt: Gpurt) -> None:
    code, out, err = gpurt("divide", *VII, "vision=30-32", "20", "--apart", "vision")
    assert (code, err) == (0, "")
    assert "2 x 15" in out
    assert "p2" in out


def test_no_plan(document: Callable[..., dict[str, Any]], gpurt: Gpurt) -> None:
    found = document(1, "divide", *VII, "31", "29")
    assert (found["possible"], found["partitions"]) == (False, [])
    assert "31 CUs need 3x11 or 4x8" in found["why"]
    code, out, _ = gpurt("divide", *VII, "a=31", "b=29")
    assert code == 1
    assert "b: 29 CUs need 2x15 or 3x10 or 4x8" in out


def test_findings(document: Callable[..., dict[str, Any]], gpurt: Gpurt) -> None:
    arguments = ("check", *VII, "a=0xd55555555555555", "b=0xaaaaaaaaaaaaaaa")
    found = document(1, *arguments)
    rules = [(one["rule"], one["status"]) for one in found["findings"]]
    assert rules == [("E3", "fail"), ("E4", "fail")]
    assert not found["clean"]
    assert "E3 ERROR a: 31 CUs work like 3" in gpurt(*arguments)[1]
    assert document(0, "check", *VII, "0x1f")["findings"][0]["rule"] == "W1"
    assert gpurt("check", *VII, "all")[1].splitlines()[-1] == "nothing found"


def test_a_mask_without_a_unit_is_seen_everywhere(document: Callable[..., dict[str, Any]]) -> None:
    empty = "0xf000000000000000"
    found = document(1, "check", *VII, empty)
    assert (found["findings"][0]["rule"], found["partitions"][0]["effective"]) == ("E1", 0)


def test_the_number_that_rocm_has(gpurt: Gpurt, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A container that may not look at GPU 0: what is GPU 1 elsewhere is ROCm's GPU 0."""
    root, read = machine(tmp_path, 2), Path.read_text

    def read_text(self: Path, *arguments: Any, **more: Any) -> str:
        if self == root / "nodes/1/gpu_id":
            raise PermissionError(1, "Operation not permitted", str(self))
        return read(self, *arguments, **more)

    monkeypatch.setattr(Path, "read_text", read_text)
    assert "HSA_CU_MASK=0:0xff" in gpurt("check", "--chip", root, "--gpu", "1", "0xff")[1]


@pytest.mark.parametrize(
    ("chip", "kernel", "text", "rules"),
    [("mi300x", "6.12", "0x7f", ["E7"]), ("gfx1030", "6.1", "0x7", ["E2"]), ("gfx1030", "5.10", "all", ["E5"]),
     ("mi300x", "6.8", "all", ["E5"]), ("mi100", "6.1", "0", ["E1"]),
     ("radeon-vii", "6.1", "0xd55555555555555", ["E3"])],
)  # fmt: skip
def test_errors_by_chip_and_release(
    chip: str, kernel: str, text: str, rules: list[str], document: Callable[..., dict[str, Any]], gpurt: Gpurt
) -> None:
    arguments = ("check", "--chip", chip, "--linux", kernel, text)
    assert [one["rule"] for one in document(1, *arguments)["findings"] if one["status"] == "fail"] == rules
    assert all(f"\n{rule} ERROR" in gpurt(*arguments)[1] for rule in rules)


def test_releases(document: Callable[..., dict[str, Any]], gpurt: Gpurt) -> None:
    old = document(1, "check", "--chip", "gfx1030", "--linux", "5.10", "all")
    assert [one["rule"] for one in old["findings"] if one["status"] == "fail"] == ["E5"]
    assert old["partitions"][0]["registers"] == [["0x000fffff"] * 4]
    assert document(0, "check", "--chip", "gfx1030", "--linux", "6.1", "all")["findings"] == []
    assert gpurt("divide", "--chip", "gfx1030", "--linux", "5.10", "10")[0] == 2


def test_a_copy_of_a_topology(document: Callable[..., dict[str, Any]], gpurt: Gpurt, tmp_path: Path) -> None:
    one = machine(tmp_path / "one")
    found = document(0, "check", "--chip", one, "0x1f")
    assert found["engines"] == [15] * 4
    assert "assumed" in found["assumed"]
    assert found["partitions"][0]["counts"] == [[2, 1, 1, 1]]
    assert gpurt("check", "--chip", one)[2].startswith("note: each shader array is assumed")
    two = machine(tmp_path / "two", 2)
    code, _, err = gpurt("check", "--chip", two)
    assert (code, "several GPUs, with numbers 0, 1" in err) == (2, True)
    assert document(0, "divide", "--chip", two, "--gpu", "1", "4")["partitions"][0]["hsa_cu_mask"] == "1:0xf"
    assert gpurt("check", "--chip", two, "--gpu", "2")[0] == 2


def test_this_machine(gpurt: Gpurt, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topology, "SYSFS", tmp_path / "none")
    code, out, err = gpurt("check")
    assert (code, out) == (4, "")
    assert "--chip" in err
    monkeypatch.setattr(topology, "SYSFS", machine(tmp_path))
    assert gpurt("check")[0] == 0


WRONG = [
    (("divide",), "Missing argument"), (("divide", *VII, "x"), "expected CUs"), (("divide", *VII, "0"), "expected CUs"),
    (("divide", *VII, "5-4"), "expected CUs"), (("divide", *VII, "a b=5"), "expected NAME=CUS"),
    (("divide", *VII, "=5"), "NAME"),
    (("divide", *VII, "a=1", "a=2"), "called 'a'"), (("divide", *VII, "1", "--apart", "q"), "'q'"),
    (("divide", *VII, *["1"] * 33), "33 partitions"), (("divide", *VII, "99999"), "expected CUs"),
    (("check", *VII, "zz"), "hexadecimal"), (("check", *VII, ""), "hexadecimal"),
    (("check", "--chip", "voodoo", "1"), "radeon-vii"),
    (("check", *VII, "--linux", "six"), "release of Linux"), (("check", *VII, "--gpu", "-1"), "--gpu"),
]  # fmt: skip


@pytest.mark.parametrize(("arguments", "word"), WRONG, ids=[" ".join(one)[:40] for one, _ in WRONG])
def test_wrong_usage(arguments: tuple[str, ...], word: str, gpurt: Gpurt) -> None:
    code, out, err = gpurt(*arguments)
    assert (code, out) == (2, "")
    assert err.startswith("gpurt: ")
    assert err.count("\n") == 1
    assert word in err


@pytest.mark.parametrize("chip", CHIPS)
def test_every_chip_is_shown(chip: str, document: Callable[..., dict[str, Any]]) -> None:
    found = document(0, "check", "--chip", chip, "all")
    assert sum(map(sum, found["partitions"][0]["counts"])) == found["compute_units"] == CHIPS[chip].units
