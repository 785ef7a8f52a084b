# SPDX-License-Identifier: GPL-2.0
"""The environment that confines a program to its partition, and what is refused before it starts."""

from __future__ import annotations

import os
import subprocess
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest
from fit_cases import CLIENT
from links import eventually, listening
from test_topology import values, write

from analysis.masks.topology import CHIPS
from analysis.taskset import load
from gpurt.errors import DeviceError, RefusedError, UsageError
from pycontrol.act.run import preload
from pycontrol.act.run.confine import Confined, confine
from pycontrol.link import placed
from pycontrol.machine import mps, topology

HEAD = '[platform]\ncpus = 2\nepsilon = "0ns"\ncompute_units = {}\n{}'
PART = '[[partition]]\nname = "{}"\ncompute_units = 20\n{}\n'
TASK = '[[task]]\nname = "{0}"\ncpu = 0\npriority = {1}\nperiod = "1s"\nsegments = [{{ misc = "1ms", gpu = "1ms" }}]\n'
COMMAND = 'command = ["true"]\n'


@pytest.fixture(autouse=True)
def _machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A Radeon VII under Linux 6.1; no MPS; a preload library."""
    monkeypatch.setattr(topology, "SYSFS", write(tmp_path / "kfd", None, values("radeon-vii")))
    monkeypatch.setattr(mps, "PIPES", str(tmp_path))
    monkeypatch.setattr(preload, "find_preload", lambda: Path("/lib/preload.so"))
    monkeypatch.delenv("LD_PRELOAD", raising=False)
    monkeypatch.setattr(os, "uname", lambda: os.uname_result(("Linux", "", "6.1.0-13-amd64", "", "x86_64")))


def test_processes_are_found_by_the_partition_in_their_environment() -> None:
    with ExitStack() as stack:
        where = [{placed.PARTITION_VARIABLE: name} for name in ("b", "a", "b", "")]
        started = [subprocess.Popen(["sleep", "1000"], env=one) for one in where]
        for process in started:
            stack.callback(process.wait)
            stack.callback(process.kill)
        first, second, third, last = (process.pid for process in started)
        clients = [replace(CLIENT, pid=pid, comm=f"p{pid}") for pid in (third, first, last, second, first, 0)]
        expected = {"b": {first: f"p{first}", third: f"p{third}"}, "a": {second: f"p{second}"}}
        eventually(
            lambda: placed.clients_by_partition(clients) == expected
        )  # the environment is there soon after the program


def confined(
    tmp_path: Path, first: str, second: str = "", units: int = 60, chip: str = "", emulated: bool = False,
    command: str = COMMAND, gpus: int = 2, **given: str,
) -> Confined:  # fmt: skip
    path = tmp_path / "set.toml"
    tasks = "".join(TASK.format(name, at) + f'partition = "{part}"\n{command}'
                    for name, at, part in (("t", 9, "a"), ("u", 8, "b")))  # fmt: skip
    path.write_text(HEAD.format(units, chip) + PART.format("a", first) + PART.format("b", second) + tasks)
    return confine(load(path), emulated, given, gpus)


def test_masks_reach_the_preload_library_and_rocm(tmp_path: Path) -> None:
    found = confined(tmp_path, 'cu_mask = "0xfffff"', 'cu_mask = "0xfffff00000"', chip='chip = "radeon-vii"\n')
    assert found.environments == {
        "t": {"GPURT_PARTITION": "a 20 cu_mask=0xfffff", "GPURT_CU_MASK": "0xfffff", "HSA_CU_MASK": "0:0xfffff",
              "LD_PRELOAD": "/lib/preload.so"},
        "u": {"GPURT_PARTITION": "b 20 cu_mask=0xfffff00000", "GPURT_CU_MASK": "0xfffff00000",
              "HSA_CU_MASK": "0:0xfffff00000", "LD_PRELOAD": "/lib/preload.so"},
    }  # fmt: skip
    assert not found.notes


def test_a_slow_mask_is_said_and_used(tmp_path: Path) -> None:
    found = confined(tmp_path, 'cu_mask = "0xd55555555555555"')
    assert found.environments["t"]["GPURT_CU_MASK"] == "0xd55555555555555"
    assert [note[:17] for note in found.notes] == ["partition a: E3: "]


@pytest.mark.parametrize(
    ("units", "chip", "why"),
    [(64, 'chip = "mi60"\n', "for mi60, which has 64 CUs .*; this machine's GPU has 60 CUs on 4 shader engines"),
     (56, "", "for a GPU with 56 CUs; this machine's GPU has 60 CUs"),
     (80, 'chip = "gfx1030"\n', "for gfx1030, which has 80 CUs")],
)  # fmt: skip
def test_masks_for_another_chip(tmp_path: Path, units: int, chip: str, why: str) -> None:
    with pytest.raises(RefusedError, match=why):
        confined(tmp_path, 'cu_mask = "0xffffff"', units=units, chip=chip)


def test_half_a_pair_is_refused_before_the_driver_sees_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert CHIPS["gfx1030"].paired
    monkeypatch.setattr(topology, "SYSFS", write(tmp_path / "rdna", None, values("gfx1030")))
    with pytest.raises(RefusedError, match="partition a: cu_mask 0x1fffff: E2"):
        confined(tmp_path, 'cu_mask = "0x1fffff"', units=80)


def test_a_kernel_that_maps_bits_otherwise(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topology, "SYSFS", write(tmp_path / "rdna", None, values("gfx1030")))
    monkeypatch.setattr(os, "uname", lambda: os.uname_result(("Linux", "", "5.10.0", "", "x86_64")))
    with pytest.raises(RefusedError, match="E5"):
        confined(tmp_path, 'cu_mask = "0xfffff"', units=80)


def test_no_amd_gpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topology, "SYSFS", tmp_path / "nothing")
    with pytest.raises(DeviceError, match="no AMD GPU"):
        confined(tmp_path, 'cu_mask = "0xfffff"')


@pytest.mark.parametrize(
    ("given", "why"),
    [({}, "ROCR_VISIBLE_DEVICES is not set: set it to one number of 0, 1"),
     ({"ROCR_VISIBLE_DEVICES": "0,1"}, "is 0,1: set it to one number"),
     ({"ROCR_VISIBLE_DEVICES": "GPU-0a1b"}, "is GPU-0a1b: set it"),
     ({"ROCR_VISIBLE_DEVICES": "2"}, "is 2: set it"),
     ({"ROCR_VISIBLE_DEVICES": ""}, "is : set it")],
)  # fmt: skip
def test_a_file_divides_one_gpu_of_several(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: dict[str, str], why: str
) -> None:
    two = write(tmp_path / "two", None, values("mi60"), values("radeon-vii", 129))
    monkeypatch.setattr(topology, "SYSFS", two)
    with pytest.raises(UsageError, match=why):
        confined(tmp_path, 'cu_mask = "0xfffff"', **given)
    second = confined(tmp_path, 'cu_mask = "0xfffff"', ROCR_VISIBLE_DEVICES="1").environments["t"]
    assert second["HSA_CU_MASK"] == "0:0xfffff"  # ROCm counts those that it sees


@pytest.mark.parametrize("name", ["GPURT_CU_MASK", "HSA_CU_MASK", "ROC_GLOBAL_CU_MASK"])
def test_masks_of_the_environment_are_refused(tmp_path: Path, name: str) -> None:
    """ROCm and the preload library take what all have in common; an empty one is none to them."""
    with pytest.raises(UsageError, match=f"{name} is set: unset it"):
        confined(tmp_path, 'cu_mask = "0xfffff"', **{name: "0xff"})
    assert confined(tmp_path, 'cu_mask = "0xfffff"', **{name: ""}).environments["t"]["HSA_CU_MASK"] == "0:0xfffff"


def test_a_percentage_of_mps(tmp_path: Path) -> None:
    (tmp_path / "control").touch()
    with pytest.raises(RefusedError, match=r"MPS is not running, no daemon at .*/control"):
        confined(tmp_path, "mps_percentage = 34", CUDA_MPS_PIPE_DIRECTORY=str(tmp_path))
    with listening(tmp_path / "pipes/control"):
        found = confined(tmp_path, "mps_percentage = 34", CUDA_MPS_PIPE_DIRECTORY=str(tmp_path / "pipes"))
    assert found.environments["t"] == {
        "GPURT_PARTITION": "a 20 mps_percentage=34", "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": "34"
    }  # fmt: skip
    assert found.environments["u"] == {"GPURT_PARTITION": "b 20"}
    assert "may share some" in found.notes[0]


def test_a_static_partition_of_mps(tmp_path: Path) -> None:
    name = f"GPU-{'0' * 36}/Dx4"
    with pytest.raises(RefusedError, match=r"mps_partition: MPS is not running, no daemon at .*/control.*-d -S"):
        confined(tmp_path, f'mps_partition = "{name}"')
    with listening(tmp_path / "control"):
        found = confined(tmp_path, f'mps_partition = "{name}"', CUDA_MPS_PIPE_DIRECTORY=str(tmp_path))
    assert found.environments["t"]["CUDA_MPS_SM_PARTITION"] == name
    given = {"CUDA_MPS_PIPE_DIRECTORY": str(tmp_path), "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": "40"}
    with pytest.raises(UsageError, match="unset it, MPS ignores it with static partitions"):
        confined(tmp_path, f'mps_partition = "{name}"', **given)


def test_green_contexts_and_instances(tmp_path: Path) -> None:
    found = confined(tmp_path, "green_context = 1", "green_context = 0")
    assert found.environments["t"] == {
        "GPURT_PARTITION": "a 20 green_context=1", "GPURT_GREEN_CONTEXT": "1", "GPURT_GREEN_SPLIT": "20,20"
    }  # fmt: skip
    with pytest.raises(UsageError, match="no partition has 0; number them from 0"):
        confined(tmp_path, "green_context = 1")
    with pytest.raises(UsageError, match="CUDA_MPS_ACTIVE_THREAD_PERCENTAGE is 40"):
        confined(tmp_path, "green_context = 0", CUDA_MPS_ACTIVE_THREAD_PERCENTAGE="40")
    instance = confined(tmp_path, 'mig = "MIG-0a-1b"', CUDA_VISIBLE_DEVICES="0").environments["t"]
    assert instance["CUDA_VISIBLE_DEVICES"] == "MIG-0a-1b"


def test_a_virtual_gpu_is_divided_by_none_of_these(tmp_path: Path) -> None:
    found = confined(tmp_path, 'cu_mask = "0xfffff"', emulated=True)
    assert found.environments == {
        "t": {"GPURT_PARTITION": "a 20 cu_mask=0xfffff", "GPURT_GPU": "0"},
        "u": {"GPURT_PARTITION": "b 20", "GPURT_GPU": "1"},
    }  # fmt: skip
    assert found.notes == ("the host's GPU is virtual: cu_mask of the file are not set",)


def test_a_host_with_another_number_of_virtual_gpus_has_all_programs_on_the_first(tmp_path: Path) -> None:
    for gpus in (1, 3):
        found = confined(tmp_path, "", emulated=True, command="", gpus=gpus)
        assert found.environments == {"t": {"GPURT_PARTITION": "a 20"}, "u": {"GPURT_PARTITION": "b 20"}}
        assert found.notes == (
            f"the host has {gpus} GPU(s) and the file 2 partitions: all programs use GPU 0; "
            "gpurt emulate --taskset FILE has one for each",
        )


def test_tasks_without_a_command_use_the_host_alone(tmp_path: Path) -> None:
    found = confined(tmp_path, 'cu_mask = "0xfffff"', command="")
    assert found == Confined({"t": {"GPURT_PARTITION": "a 20 cu_mask=0xfffff"}, "u": {"GPURT_PARTITION": "b 20"}})


def test_partitions_that_only_have_units_get_sms_of_their_own(tmp_path: Path) -> None:
    sms = [{"GPURT_SM_FIRST": "0", "GPURT_SM_COUNT": "20"}, {"GPURT_SM_FIRST": "20", "GPURT_SM_COUNT": "20"}]
    for emulated in (False, True):
        found = confined(tmp_path, "", emulated=emulated)
        gpu = [{"GPURT_GPU": str(number)} if emulated else {} for number in range(2)]
        assert found.environments == {
            "t": {"GPURT_PARTITION": "a 20", **sms[0], **gpu[0]}, "u": {"GPURT_PARTITION": "b 20", **sms[1], **gpu[1]}
        }  # fmt: skip
        assert ["GPURT_SM_FIRST" in note for note in found.notes] == [True]
    path = tmp_path / "set.toml"
    one = TASK.format("t", 9) + f"partition = {{ compute_units = 2 }}\n{COMMAND}"
    path.write_text(HEAD.format(3, "") + one + TASK.format("u", 8) + COMMAND)
    assert confine(load(path), True, {}).environments == {"t": {"GPURT_SM_FIRST": "0", "GPURT_SM_COUNT": "2"}}


def test_what_cannot_be_given_is_said(tmp_path: Path) -> None:
    path = tmp_path / "set.toml"
    own = "".join(TASK.format(name, at) + f"partition = {{ compute_units = 2 }}\n{COMMAND}"
                  for name, at in (("t", 9), ("u", 8)))  # fmt: skip
    path.write_text(HEAD.format(3, "") + own)
    found = confine(load(path), False, {})
    assert found.environments == {"t": {}, "u": {}}
    assert found.notes == ("partitions have 4 units and the GPU 3: no program is told which SMs are its own",)
    with pytest.raises(UsageError, match="GPURT_SM_COUNT is set: unset it"):
        confined(tmp_path, "", GPURT_SM_COUNT="1")


def test_what_a_driver_divides_has_no_sms_besides(tmp_path: Path) -> None:
    for first in ('cu_mask = "0xfffff"', 'mig = "MIG-1"', "green_context = 0"):
        assert "GPURT_SM_FIRST" not in confined(tmp_path, first).environments["u"]
