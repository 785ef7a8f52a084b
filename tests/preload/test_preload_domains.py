# SPDX-License-Identifier: GPL-2.0
"""Each time-slice group of a program is in its scheduling domain before it has a channel, or the program ends."""

from __future__ import annotations

import errno
import signal
from pathlib import Path

import pytest
from links import PATIENCE, eventually
from machines import ALWAYS, FakeGpu, Start
from test_preload_partitions import HEAD, PART, TASK, Gpurt
from test_preload_partitions import gpurt as gpurt

DEFAULT = {"(default)": [100_000_000, 0]}


def set_of(path: Path, built: Path, slices: dict[str, str], ends: bool = False) -> Path:
    """A file with a task in a domain for each of these.  ``ends``: programs end of themselves."""
    parts = [PART.format(name, 30, f'slice = "{slice_}"\ndomain = "d{name}"') for name, slice_ in slices.items()]
    command, wait = built / "program", "" if ends else "; sleep 60"
    tasks = [TASK.format(name, cpu, 9 - cpu, command).replace("(echo launch", "(echo context 0 0; echo launch")
             .replace("; sleep 60", wait).replace(" hip\"", " proc\"") for cpu, name in enumerate(slices)]  # fmt: skip
    path.write_text(HEAD.replace('chip = "radeon-vii"\n', "") + "".join(parts + tasks))
    return path


def in_domains(gpu: FakeGpu) -> list[str]:
    """The domains of all groups that have run or can, by name."""
    return sorted(one["domain"] for one in gpu.ask()["groups"])


@pytest.mark.parametrize("end", [signal.SIGINT, signal.SIGTERM])
def test_run_makes_domains_and_removes_them(
    end: signal.Signals, gpurt: Gpurt, gpu: FakeGpu, built: Path, tmp_path: Path
) -> None:  # fmt: skip
    file = set_of(tmp_path / "set.toml", built, {"a": "5ms", "b": "2500us"})
    run = gpurt("run", file, "--duration", "600s", FAKE_FAMILY="nvgpu")
    try:
        eventually(lambda: in_domains(gpu) == ["da", "db"] or run.poll() is not None)
        slices = {name: slice_ns for name, (slice_ns, _) in gpu.ask()["domains"].items()}
    finally:
        run.send_signal(end)
        out, said = run.communicate(timeout=PATIENCE)
    assert slices == {"(default)": 100_000_000, "da": 5_000_000, "db": 2_500_000}, (out, said)
    assert gpu.ask()["domains"] == DEFAULT, (out, said)
    assert run.returncode == 128 + end


def test_a_run_says_that_no_bound_is_known(gpurt: Gpurt, gpu: FakeGpu, built: Path, tmp_path: Path) -> None:
    """And which domains it has found."""
    file = set_of(tmp_path / "set.toml", built, {"a": "5ms"})
    run = gpurt("run", file, "--duration", "0.3s", FAKE_FAMILY="nvgpu")
    out, said = run.communicate(timeout=PATIENCE)
    assert run.returncode in (0, 1), (out, said)
    assert "no bound is known for them" in said
    assert "domain (default) was there before, with turns of 100000000 ns, and stays" in said
    assert "still there" not in said
    assert gpu.ask()["domains"] == DEFAULT


@pytest.mark.parametrize(
    ("fault", "error", "code", "why"),
    [
        ("nvs-open", errno.ENOENT, 4, "is this a Tegra whose driver has scheduling domains"),
        ("nvs-create", errno.ENOMEM, 5, "the driver refuses domain da with turns of 5000000 ns: Cannot allocate"),
        ("domain-open", errno.EACCES, 6, "/dev/nvgpu/igpu0/nvsched-da: Permission denied; the program ends"),
        ("join", errno.EINVAL, 6, "the driver does not put a time-slice group there: Invalid argument"),
    ],
)
def test_nothing_runs_outside_a_domain(
    fault: str, error: int, code: int, why: str, gpurt: Gpurt, gpu: FakeGpu, built: Path, tmp_path: Path
) -> None:  # fmt: skip
    """Whatever fails, the command ends with one line that says what, and domains are as before."""
    gpu.refuse(fault, ALWAYS, error)
    file = set_of(tmp_path / "set.toml", built, {"a": "5ms"}, ends=True)
    run = gpurt("run", file, "--duration", "600s", FAKE_FAMILY="nvgpu")
    out, said = run.communicate(timeout=PATIENCE)
    assert (run.returncode, why in said) == (code, True), (out, said)
    seen = gpu.ask()
    assert seen["domains"] == DEFAULT
    assert [completed for completed in seen["order"] if completed] == []


def test_a_domain_with_another_slice_is_in_the_way(gpurt: Gpurt, gpu: FakeGpu, built: Path, tmp_path: Path) -> None:
    first = set_of(tmp_path / "first.toml", built, {"a": "5ms"})
    other = set_of(tmp_path / "other.toml", built, {"a": "4ms"})
    run = gpurt("run", first, "--duration", "600s", FAKE_FAMILY="nvgpu")
    try:
        eventually(lambda: in_domains(gpu) == ["da"] or run.poll() is not None)
        refused = gpurt("run", other, "--duration", "600s", FAKE_FAMILY="nvgpu")
        _, said = refused.communicate(timeout=PATIENCE)
    finally:
        run.send_signal(signal.SIGINT)
        run.communicate(timeout=PATIENCE)
    assert (refused.returncode, said) == (5, "gpurt: domain da is there with turns of 5000000 ns, not 4000000\n")
    assert gpu.ask()["domains"] == DEFAULT


@pytest.fixture
def domain(gpu: FakeGpu) -> str:
    """A domain that is there."""
    gpu.ask("domain", name="vision", ns=5_000_000)
    return "vision"


@pytest.mark.parametrize("node", ["control", "below"])
def test_a_group_from_either_node_is_in_its_domain(node: str, domain: str, start: Start, gpu: FakeGpu) -> None:
    """The model, as the driver, moves no group that has an active channel: so it was there before."""
    extra = {"control": {}, "below": {"FAKE_BELOW": "1"}}[node]
    program = start(family="nvgpu", GPURT_DOMAIN=domain, **extra)
    (group,) = gpu.groups(program.pid)
    assert group["domain"] == domain
    program.do("launch 0 1000", "all")
    assert program.quit().count("GPURT_DOMAIN") == 0


def test_a_program_cannot_leave_its_domain(domain: str, start: Start, gpu: FakeGpu) -> None:
    program = start(family="nvgpu", GPURT_DOMAIN=domain)
    program.send("own-domain 0")
    assert program.answer() != "ok"
    assert [one["domain"] for one in gpu.groups(program.pid)] == [domain]
    assert "the program's own change of a domain is refused" in program.said()


def test_a_program_without_one_keeps_the_drivers(domain: str, start: Start, gpu: FakeGpu) -> None:
    program = start(family="nvgpu")
    assert [one["domain"] for one in gpu.groups(program.pid)] == [""]


@pytest.mark.parametrize("name", ["", "x" * 32, "../tsg"])
def test_what_is_no_name_of_a_domain_ends_the_program(name: str, start: Start, gpu: FakeGpu) -> None:
    with pytest.raises(AssertionError, match="1 to 31 characters without '/'; the program ends"):
        start(family="nvgpu", GPURT_DOMAIN=name, GPURT_QUIET="1")
