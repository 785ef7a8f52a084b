# SPDX-License-Identifier: GPL-2.0
"""Scheduling domains of nvgpu: all or none, and all are gone at the end, against a model as strict as the driver."""

from __future__ import annotations

import ctypes
import errno
import os
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "preload/fakes"))

import nvs as model
from drivers import Caller, Faults, Refused

from gpurt.errors import DeviceError, RefusedError
from pycontrol import cli
from pycontrol.link import nvs
from pycontrol.link.nvs import Domain, Nvs, domains_of

OWN = {model.DEFAULT: 100_000_000}
WANTED = {"a": 5_000_000, "b": 2_500_000}


class Driver:
    """The driver's model, called as ioctl() would be.  ``fails(step)``: the error number of the n-th call."""

    def __init__(self) -> None:
        model.NvgpuNvs.reset()
        self.file = model.NvgpuNvs(model.NODE, Caller(1, 0), [], Faults())
        self.steps: list[int] = []
        self.fails: Callable[[int], int] = lambda step: 0
        self.after: Callable[[int], None] = lambda step: None

    def call(self, _fd: int, code: int, argument: Any) -> int:
        raw, nested = bytearray(argument), bytearray()
        if code == nvs.QUERY and argument.domains:
            nested = bytearray(argument.count * model.DOMAIN.size)
        self.steps.append(code & 0xFF)
        step = len(self.steps) - 1
        try:
            if error := self.fails(step):
                raise Refused(error)
            self.file.ioctl(Caller(1, 0), code, raw, nested)
            self.after(step)
        except Refused as refused:
            raise OSError(refused.error, os.strerror(refused.error)) from None
        ctypes.memmove(ctypes.addressof(argument), bytes(raw), len(raw))
        if nested:
            ctypes.memmove(argument.domains, bytes(nested), len(nested))
        return 0

    def state(self) -> dict[str, int]:
        return {one.name: one.slice_ns for one in model.NvgpuNvs.DOMAINS}


@pytest.fixture
def driver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Driver]:
    node = tmp_path / "nvsched"
    node.touch()
    monkeypatch.setattr(nvs, "NVSCHED_NODE", str(node))
    monkeypatch.setattr(nvs, "DOMAIN_PATIENCE_S", 0.0)
    yield Driver()
    model.NvgpuNvs.reset()


def test_numbers_and_sizes_are_the_headers() -> None:
    """_IOC of 'N': direction, size, type, number; sizes of the structures in nvgpu-nvs.h."""
    sizes = [ctypes.sizeof(one) for one in (nvs._Create, nvs._Remove, nvs._Query)]
    assert sizes == [88, 16, 24]
    codes = [way << 30 | size << 16 | ord("N") << 8 | at
             for at, (way, size) in enumerate(zip((3, 1, 3), sizes, strict=True), 1)]  # fmt: skip
    assert codes == [nvs.CREATE, nvs.REMOVE, nvs.QUERY]
    assert nvs._Domain.number.offset == 56
    assert ctypes.sizeof(nvs._Domain) == 80


def test_domains_are_there_for_as_long_as_they_are_needed(driver: Driver) -> None:
    with Nvs(driver.call) as node:
        with domains_of(node, WANTED) as remarks:
            assert driver.state() == OWN | WANTED
            assert {(one.name, one.slice_ns) for one in node.domains()} == {*(OWN | WANTED).items()}
        assert driver.state() == OWN
    assert remarks == ["domain (default) was there before, with turns of 100000000 ns, and stays"]


def test_a_domain_that_is_there_is_used_and_stays(driver: Driver) -> None:
    with Nvs(driver.call) as node:
        node.create("a", WANTED["a"])
        with domains_of(node, WANTED) as remarks:
            assert driver.state() == OWN | WANTED
        assert driver.state() == OWN | {"a": WANTED["a"]}
    assert any(one.startswith("domain a was there before") for one in remarks)


def test_the_longest_turn_of_nvgpu_is_taken(driver: Driver) -> None:
    with Nvs(driver.call) as node, domains_of(node, {"c": 2**32 - 1}):
        assert driver.state() == OWN | {"c": 2**32 - 1}


@pytest.mark.parametrize(("wanted", "why"), [({"b": 1, "a": 4_000_000}, "domain a is there with turns of 5000000"),
                                             ({"b": 1, "c": 2**32}, "no turns of more than 4294967295")])  # fmt: skip
def test_what_is_refused_before_any_domain_is_made(driver: Driver, wanted: dict[str, int], why: str) -> None:
    with Nvs(driver.call) as node:
        node.create("a", WANTED["a"])
        with pytest.raises(RefusedError, match=why), domains_of(node, wanted):
            pytest.fail("entered")
    assert driver.state() == OWN | {"a": WANTED["a"]}


@pytest.mark.parametrize("error", [errno.ENOSYS, errno.ENOMEM, errno.EPERM])
def test_a_failure_at_any_step_leaves_nothing(driver: Driver, error: int) -> None:
    """Steps: the number of domains, the domains, two are made, two are removed."""
    said = []
    with Nvs(driver.call) as node:
        for wrong in range(6):
            driver.steps.clear()
            driver.fails = lambda step, wrong=wrong: error if step == wrong else 0  # type: ignore[misc]
            entered = False
            try:
                with domains_of(node, WANTED) as remarks:
                    entered = True
            except RefusedError as refused:
                said.append(str(refused))
            assert entered == (wrong >= 4)
            if wrong < 4:
                assert driver.state() == OWN
                assert os.strerror(error) in said[wrong]
            else:
                left = "b" if wrong == 4 else "a"
                assert f"domain {left} is still there and takes its turns: " in remarks[-1]
                assert driver.state() == OWN | {left: WANTED[left]}
            driver.fails = lambda step: 0
            for one in node.domains():
                if one.name in WANTED:
                    node.remove(one)
    assert driver.steps[:2] == [3, 3]
    assert len(said) == 4


@pytest.mark.parametrize("failure", [KeyboardInterrupt, RuntimeError])
def test_what_fails_inside_removes_them(driver: Driver, failure: type[BaseException]) -> None:
    with Nvs(driver.call) as node, pytest.raises(failure), domains_of(node, WANTED):
        raise failure
    assert driver.state() == OWN


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_while_one_is_made_waits_until_that_is_known(driver: Driver, number: signal.Signals) -> None:
    """Python handles a signal when the call has returned, and before its result is kept."""
    driver.after = lambda step: os.kill(os.getpid(), number) if driver.steps == [3, 3, 1] else None
    wanted = KeyboardInterrupt if number is signal.SIGINT else SystemExit
    signal.signal(signal.SIGINT, signal.default_int_handler)  # whatever tests before have left
    before = signal.getsignal(signal.SIGTERM)
    with Nvs(driver.call) as node, pytest.raises(wanted), domains_of(node, WANTED):
        pytest.fail("entered")
    assert driver.state() == OWN
    assert driver.steps == [3, 3, 1, 2]
    assert signal.getsignal(signal.SIGTERM) == before


def test_a_domain_in_use_is_named_with_what_failed(driver: Driver) -> None:
    def used(step: int) -> None:
        if driver.steps.count(1) == 1:
            model.NvgpuNvs.DOMAINS[1].uses = 1

    driver.after = used
    with Nvs(driver.call) as node, pytest.raises(RefusedError) as refused, domains_of(node, WANTED):
        raise KeyboardInterrupt
    assert str(refused.value).startswith("KeyboardInterrupt; domain a is still there and takes its turns: ")
    assert driver.state() == OWN | {"a": WANTED["a"]}


def test_a_domain_that_is_free_a_little_later_is_removed(driver: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nvs, "DOMAIN_PATIENCE_S", 60.0)

    def released(step: int) -> int:
        if driver.steps.count(2) == 3:
            model.NvgpuNvs.DOMAINS[-1].uses = 0
        return 0

    driver.fails = released
    with Nvs(driver.call) as node, domains_of(node, {"a": 1}) as remarks:
        model.NvgpuNvs.DOMAINS[-1].uses = 1
    assert driver.state() == OWN
    assert len(remarks) == 1
    assert driver.steps.count(2) == 3


def test_domains_that_are_made_between_the_two_questions(driver: Driver) -> None:
    def more(step: int) -> None:
        if step in (0, 1):
            model.NvgpuNvs.DOMAINS.append(model.Domain(f"other{step}", 7, 100 + step))

    driver.after = more
    with Nvs(driver.call) as node:
        assert [one.name for one in node.domains()] == [model.DEFAULT, "other0", "other1"]
        assert node.domains()[0] == Domain(model.DEFAULT, 100_000_000, 1)


FILE = """[platform]
cpus = 2
epsilon = "1ms"
theta = "100us"
policy = "segment"
compute_units = 60
[[task]]
name = "a"
cpu = 0
priority = 9
period = "100ms"
partition = "a"
segments = [{ misc = "0ns", gpu = "1ms" }]
[[partition]]
name = "a"
compute_units = 60
slice = "5ms"
domain = "da"
"""
#: Commands that print bounds, of jobs or of GPU work, or the responses of a simulation.
BOUNDED = ["analyze", "analyze --test rtgpu-tight", "plan slices", "plan partitions", "simulate", "plan modes",
           "margins",
           "plan priorities"]  # fmt: skip


@pytest.mark.parametrize("command", BOUNDED)
def test_no_bound_is_printed_for_domains(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:  # fmt: skip
    """They are neither parts of the GPU in space, nor slices of one runlist."""
    path = tmp_path / "set.toml"
    path.write_text(FILE)
    words, _, options = command.partition(" --")
    call = [*words.split(), str(path), *f"--{options}".split()] if options else [*words.split(), str(path)]
    assert cli.run(call) == 3
    out, said = capsys.readouterr()
    assert out == ""
    why = "no bound is known for scheduling domains; `gpurt run` starts programs in them"
    assert said == f"gpurt: {path}:18: partition a: domain da: {why}\n"
    path.write_text(FILE.replace('domain = "da"\n', "").replace('slice = "5ms"\n', ""))
    assert cli.run(call) in (0, 1)  # it is the domain that is refused


@pytest.mark.parametrize("options", [[], ["--force"]])
def test_apply_says_that_running_programs_cannot_be_put_there(
    options: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:  # fmt: skip
    path = tmp_path / "set.toml"
    path.write_text(FILE)
    assert cli.run(["apply", str(path), *options]) == 5
    why = "TSGs of a running program cannot be put into a domain from outside; start it with `gpurt run`"
    assert capsys.readouterr() == ("", f"gpurt: partition a: domain da: {why}\n")


def test_a_board_without_the_node(driver: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nvs, "NVSCHED_NODE", "/nowhere/nvsched")
    with pytest.raises(DeviceError, match="/nowhere/nvsched: No such file or directory; is this a Tegra whose driver"):
        Nvs()
