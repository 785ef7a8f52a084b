# SPDX-License-Identifier: GPL-2.0
"""gpurt_sm.h on the host: every logical block exactly once, whatever the dispatcher does."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from once import once
from sm_build import EXAMPLE, HERE, INCLUDE, built, run

DISPATCHERS = ("round-robin", "random", "all-wrong-first", "slot-stealing")
LAUNCHES = 2_500
LONG = 10_000 if not os.environ.get("GPURT_LONG") else 1_000_000
#: Mistakes in the header: what stands there, and what would stand there instead.
MUTANTS = {
    "the halves meet one block late": ("back >= control->total", "back > control->total"),
    "the back begins one block early": ("control->total - 1 - back : front", "control->total - 2 - back : front"),
    "both ends are not one word": (
        "unsigned long long old = gpurt_sm_add(&control->taken, half ? 1ULL << 32 : 1ULL);",
        "unsigned long long was = control->taken; gpurt_sm_thread()->step();"
        "unsigned long long old = was; control->taken = was + (half ? 1ULL << 32 : 1ULL);",
    ),
    "threads read what the next turn wrote": (
        "gpurt_sm_barrier();	/*", "/*",
    ),
    "nothing is launched again": ("#define GPURT_SM_LAUNCHES 4", "#define GPURT_SM_LAUNCHES 1"),
    "three blocks work on an SM": ("if (seat > 1)", "if (seat > 3)"),
    "blocks of both halves are not on each SM": (
        "return seat;", "return gpurt_sm_add(&control->taken, 0ULL) & 1;",
    ),
    "blocks work where they are": ("if (at >= range.count) {", "if (at >= range.count + 1) {"),
}  # fmt: skip


def launched(program: Path, dispatcher: str, number: int, seed: int = 1) -> dict[str, int]:
    done = run(program, dispatcher, str(number), str(seed))
    assert not done.returncode, done.stderr
    found: dict[str, int] = json.loads(done.stdout)
    return found


@pytest.fixture(scope="session")
def launches(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = once(tmp_path_factory, "sm", lambda folder: built(HERE / "launches.cpp", folder / "launches"))
    return folder / "launches"


def check(found: dict[str, int], dispatcher: str, number: int) -> None:
    """Each logical block once or, where nothing landed, none; and the launches were what they are meant to be."""
    assert found["launches"] == number
    assert found["wrong"] == found["outside"] == found["reads"] == found["crossed"] == 0
    assert found["again"] > found["failed"] + found["elsewhere"] > found["failed"] > 0
    assert found["landed_less"] > number // 10
    if dispatcher == "all-wrong-first":
        assert found["again"] > number // 2


def check_all(program: Path) -> None:
    for dispatcher in DISPATCHERS:
        check(launched(program, dispatcher, 1000, seed=3), dispatcher, 1000)


@pytest.mark.parametrize("dispatcher", DISPATCHERS)
def test_every_logical_block_is_executed_exactly_once(launches: Path, dispatcher: str) -> None:
    check(launched(launches, dispatcher, LAUNCHES), dispatcher, LAUNCHES)


@pytest.mark.slow(minutes=1)
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("dispatcher", DISPATCHERS)
def test_ten_thousand_launches_under_each_dispatcher(launches: Path, dispatcher: str) -> None:
    check(launched(launches, dispatcher, LONG, seed=2), dispatcher, LONG)


def test_algorithm_1_as_printed_is_right_under_round_robin_only(launches: Path) -> None:
    fails = {dispatcher: launched(launches, dispatcher, 200)["printed_fails"] for dispatcher in DISPATCHERS}
    assert fails.pop("round-robin") == 0
    assert all(count > 100 for count in fails.values())


@pytest.mark.slow(minutes=1)
@pytest.mark.parametrize("mutant", MUTANTS)
def test_planted_mistakes_are_found(tmp_path: Path, mutant: str) -> None:
    before, after = MUTANTS[mutant]
    text = (INCLUDE / "gpurt_sm.h").read_text()
    assert text.count(before) == 1
    (tmp_path / "gpurt_sm.h").write_text(text.replace(before, after))
    program = built(HERE / "launches.cpp", tmp_path / "launches", f"-I{tmp_path}")
    with pytest.raises(AssertionError):
        check_all(program)


@pytest.mark.slow(minutes=1)
@pytest.mark.parametrize("sanitizer", ["thread", "address,undefined"])
def test_blocks_on_threads_of_the_system_do_not_race(tmp_path: Path, sanitizer: str) -> None:
    program = built(HERE / "threads.cpp", tmp_path / "threads", f"-fsanitize={sanitizer}")
    done = run(program, "100")
    assert (done.returncode, done.stdout, done.stderr) == (0, "0\n", "")


@pytest.fixture(scope="module")
def example(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built(EXAMPLE, tmp_path_factory.mktemp("example") / "gpurt_sm")


def test_the_example_doubles_numbers_on_its_sms(example: Path) -> None:
    program = example
    done = run(program, "2", "3")
    assert (done.returncode, done.stdout) == (0, "25600 numbers doubled once on SMs 2 to 4, in launch 1\n")
    done = run(program, "9", "2")  # the machine has SMs 0 to 7
    assert (done.returncode, done.stderr) == (1, "gpurt_sm: no block came to SMs 9 to 10 in 4 launches\n")
    for words in (("0",), ("0", "0"), ("-1", "2"), ("0", "513"), ("x", "1"), ("1", "2", "3")):
        done = run(program, *words)
        assert done.returncode == 2
        assert done.stderr.startswith("usage: ")


@pytest.mark.parametrize(
    ("given", "said"),
    [({"GPURT_SM_FIRST": "5", "GPURT_SM_COUNT": "2"}, "on SMs 5 to 6"),
     ({"GPURT_SM_FIRST": "007", "GPURT_SM_COUNT": "1"}, "on SMs 7 to 7"),
     ({}, None), ({"GPURT_SM_FIRST": "0"}, None), ({"GPURT_SM_COUNT": "1"}, None),
     ({"GPURT_SM_FIRST": "0", "GPURT_SM_COUNT": "0"}, None), ({"GPURT_SM_FIRST": "0", "GPURT_SM_COUNT": "513"}, None),
     ({"GPURT_SM_FIRST": "-1", "GPURT_SM_COUNT": "1"}, None), ({"GPURT_SM_FIRST": "", "GPURT_SM_COUNT": "1"}, None),
     ({"GPURT_SM_FIRST": "1x", "GPURT_SM_COUNT": "1"}, None), ({"GPURT_SM_FIRST": " 1", "GPURT_SM_COUNT": "1"}, None),
     ({"GPURT_SM_FIRST": "0", "GPURT_SM_COUNT": "18446744073709551617"}, None)],
)  # fmt: skip
def test_the_range_that_a_run_gives_is_the_range_or_none(
    example: Path, monkeypatch: pytest.MonkeyPatch, given: dict[str, str], said: str | None
) -> None:
    for name in ("GPURT_SM_FIRST", "GPURT_SM_COUNT"):
        monkeypatch.delenv(name, raising=False)
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    done = run(example)
    assert done.returncode == (0 if said else 2)
    assert said in done.stdout if said else done.stderr.startswith("usage: ")
