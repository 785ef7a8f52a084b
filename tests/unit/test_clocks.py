# SPDX-License-Identifier: GPL-2.0
"""Clocks that a file's times are of: read from machines (fake trees of /sys), held against the file, and recorded."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from fit_cases import REAL, VIRTUAL, host

from analysis import taskset
from analysis.taskset import TasksetFile
from analysis.taskset.clocks import Clocks
from analysis.traces.trace import HOST, Trace
from gpurt.errors import TasksetError
from pycontrol.machine.clocks import Clock, MachineClocks, distinct_looks, look
from pycontrol.measure.entry import Measured
from pycontrol.observe.doctor import Status, examine
from pycontrol.observe.fit import fit
from pycontrol.observe.fit.trace import joined_looks
from pycontrol.observe.judge.finding import What
from pycontrol.observe.judge.judge import Judge
from pycontrol.observe.report.assumptions import Evidence, Support, judged_assumptions
from pycontrol.observe.watch import watch

MHZ = 1_000_000
TEXT = """[platform]
cpus = 2
epsilon = "1ms"
clocks = { cpu = "2201.6MHz", governor = "performance", gpu = "1.3GHz", power_mode = "MAXN", temperature = 60 }
[[task]]
name = "camera"
cpu = 0
priority = 20
period = "50ms"
segments = [{ cpu = "1ms" }, { misc = "1ms", gpu = "5ms" }]
[[task]]
name = "plan"
cpu = 1
priority = 10
period = "100ms"
segments = [{ cpu = "1ms" }]
"""


def file(text: str = TEXT) -> TasksetFile:
    return taskset.parse(Path("tasks.toml"), text)


def tree(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text + "\n")
    return root


def cpu(number: int, governor: str = "performance", least: int = 115_200, most: int = 2_201_600) -> dict[str, str]:
    folder = f"sys/devices/system/cpu/cpu{number}/cpufreq/scaling_"
    return {f"{folder}governor": governor, f"{folder}min_freq": str(least), f"{folder}max_freq": str(most)}


def devfreq(
    name: str = "17000000.gpu", governor: str = "nvhost_podgov", least: int = 1300, most: int = 1300
) -> dict[str, str]:
    values = {"governor": governor, "min_freq": str(least * MHZ), "max_freq": str(most * MHZ)}
    return {f"sys/class/devfreq/{name}/{key}": value for key, value in values.items()}


JETSON = {
    **cpu(0), **cpu(1), **devfreq(), **devfreq("3507d000.ospi-emc", "x", 1, 9),
    "var/lib/nvpmodel/status": "pmode:0002 fmode:cool",
    "etc/nvpmodel.conf": "# < POWER_MODEL ID=2 NAME=NOT >\n< POWER_MODEL ID=1 NAME=15W >\n"
                         "< POWER_MODEL ID=2 NAME=MAXN >",
    "sys/class/thermal/thermal_zone0/temp": "41500", "sys/class/thermal/thermal_zone1/temp": "59001",
    "proc/driver/nvidia/version": "NVRM version: of the display",
}  # fmt: skip


def clocks_of(loaded: TasksetFile, seen: MachineClocks, gpu: Any = REAL) -> list[fit.Objection]:
    return [one for one in fit.objections(loaded, host(gpu, clocks=[seen])) if one.code is fit.Code.CLOCKS]


# Files


def test_a_task_has_the_platforms_clocks_unless_it_has_its_own() -> None:
    own = TEXT + 'clocks = { cpu = "1GHz" }\n'  # of CPU 1
    found = file(own).clocks
    whole = Clocks(2201_600_000, "performance", 1300 * MHZ, "MAXN", 60)
    assert found == {"camera": whole, "plan": replace(whole, cpu=1000 * MHZ)}
    assert file(TEXT.replace("clocks = {", "# ")).clocks == {}


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('"1.3GHz"', '"1.3"', 'gpu: expected a frequency such as "1300.5MHz" or "2.2GHz"'),
        ('"1.3GHz"', "1300", 'gpu: expected a frequency such as "1300.5MHz", got an integer'),
        ('"1.3GHz"', '"0.1Hz"', "not a whole number of hertz above 0"),
        ('"1.3GHz"', '"0MHz"', "not a whole number of hertz above 0"),
        ("temperature = 60", "temperature = 600", "temperature: expected an integer from -50 to 200"),
        ("power_mode", "power", 'unknown key "power"'),
        ('cpu = 1\n', 'cpu = 1\nclocks = { gpu = "600MHz" }\n',
         'plan is of gpu 600MHz, and camera of 1300MHz: measure both at one'),
        ('cpu = 1\n', 'cpu = 0\nclocks = { cpu = "1GHz" }\n',
         'plan is of cpu 1000MHz of CPU 0, and camera of 2201.6MHz: measure both at one'),
        ('cpu = 1\n', 'cpu = 1\nclocks = { power_mode = "15W" }\n',
         'plan is of power_mode "15W", and camera of "MAXN"'),
    ],
)  # fmt: skip
def test_mistakes_are_one_line_each(old: str, new: str, said: str) -> None:
    assert old in TEXT
    with pytest.raises(TasksetError) as error:
        file(TEXT.replace(old, new, 1))
    (problem,) = error.value.problems
    assert said in problem.message
    assert problem.line > 1


# Machines


def test_a_jetson_with_its_clocks_held(tmp_path: Path) -> None:
    seen = look(tree(tmp_path, JETSON))
    assert [(one.cpu, one.hertz) for one in seen.cpus] == [(0, 2201_600_000), (1, 2201_600_000)]
    assert [(one.name, one.hertz) for one in seen.gpus] == [("GPU 17000000.gpu", 1300 * MHZ)]
    assert (seen.power_mode, seen.temperature) == ("MAXN", 60)
    assert clocks_of(file(), seen) == []


def test_a_machine_that_tells_nothing_is_unknown_and_not_equal(tmp_path: Path) -> None:
    seen = look(tmp_path)
    assert seen == MachineClocks()
    found = clocks_of(file(), seen)
    assert {one.text for one in found if one.defeats} == {
        "the clock of CPU 0 is unknown, and the file's times are of 2201.6MHz",
        "the clock of CPU 1 is unknown, and the file's times are of 2201.6MHz",
        "the governor of CPU 0 is unknown, and the file's times are of governor performance",
        "the governor of CPU 1 is unknown, and the file's times are of governor performance",
        "the GPU's clock is unknown, and the file's times are of 1300MHz",
        'the power mode is unknown, and the file\'s times are of "MAXN"',
    }
    assert [one.text for one in found if not one.defeats] == ["the temperature is unknown"]


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        (cpu(0, most=1_100_000), "the clock of CPU 0 is held at 1100MHz (governor performance)"),
        (cpu(1, "schedutil"), "the clock of CPU 1 is not held: governor schedutil moves it between 115.2MHz and "
         "2201.6MHz"),
        (cpu(1, "schedutil", 2_201_600), "the governor of CPU 1 is schedutil"),
        ({"sys/devices/system/cpu/intel_pstate/no_turbo": "0"}, "not held: turbo or boost may raise it"),
        ({"sys/devices/system/cpu/cpufreq/boost": "1"}, "not held: turbo or boost may raise it"),
        ({"sys/devices/system/cpu/cpu0/cpufreq/scaling_max_freq": "<unsupported>"},
         "not held: its limits cannot be read"),
        (devfreq(least=306),
         "GPU 17000000.gpu is not held: governor nvhost_podgov moves it between 306MHz and 1300MHz"),
        (devfreq(least=600, most=600), "GPU 17000000.gpu is held at 600MHz"),
        (devfreq("gpu-gpc-0", least=600, most=600), "GPU gpu-gpc-0 is held at 600MHz"),
        ({"var/lib/nvpmodel/status": "pmode:0001"}, 'the power mode is "15W", and the file\'s times are of "MAXN"'),
        ({"var/lib/nvpmodel/status": "pmode:0007"}, 'the power mode is "mode 7"'),
    ],
)  # fmt: skip
def test_whatever_differs_is_an_objection(tmp_path: Path, changed: dict[str, str], said: str) -> None:
    found = clocks_of(file(), look(tree(tmp_path, {**JETSON, **changed})))
    assert any(said in one.text and one.cure for one in found), found
    assert fit.against(found)


def test_a_hotter_board_is_a_note(tmp_path: Path) -> None:
    found = clocks_of(file(), look(tree(tmp_path, {**JETSON, "sys/class/thermal/thermal_zone0/temp": "60001"})))
    assert [(one.text, one.defeats) for one in found] == [
        ("the hottest sensor has 61 degrees Celsius, and the file's times are of 60: heat may slow clocks down", ())
    ]


AMD = "sys/class/drm/card1/device/"
SPEEDS = "0: 500Mhz\n1: 1200Mhz *\n2: 1300Mhz"


@pytest.mark.parametrize(
    ("level", "speeds", "hertz", "loose"),
    [
        ("high", SPEEDS, 1300 * MHZ, ""), ("low", SPEEDS, 500 * MHZ, ""), ("profile_standard", SPEEDS, 1200 * MHZ, ""),
        ("auto", SPEEDS, None, "performance level auto does not fix it"),
        ("manual", SPEEDS, None, "performance level manual does not fix it"),
        ("high", "", None, "pp_dpm_sclk names no clock"),
    ],
)  # fmt: skip
def test_amdgpu(tmp_path: Path, level: str, speeds: str, hertz: int | None, loose: str) -> None:
    tree(tmp_path, {f"{AMD}pp_dpm_sclk": speeds, f"{AMD}power_dpm_force_performance_level": level})
    assert look(tmp_path).gpus == (Clock("GPU card1", level, hertz, loose),)


def test_nvidias_driver_never_tells_that_a_clock_is_held(tmp_path: Path) -> None:
    seen = look(tree(tmp_path, {**cpu(0), "proc/driver/nvidia/version": "NVRM version: 580"}))
    assert any("its driver does not tell whether its clock stays" in one.text for one in clocks_of(file(), seen))


def test_the_platform_profile_of_a_pc_is_its_power_mode(tmp_path: Path) -> None:
    assert look(tree(tmp_path, {"sys/firmware/acpi/platform_profile": "performance"})).power_mode == "performance"


def test_virtual_gpus_have_no_clock(tmp_path: Path) -> None:
    found = clocks_of(file(), look(tree(tmp_path, {**JETSON, **devfreq(least=306)})), VIRTUAL)
    assert found == []


def test_a_machine_that_nobody_looked_at_has_no_clocks() -> None:
    assert [one for one in fit.objections(file(), host(REAL)) if one.code is fit.Code.CLOCKS] == []


# Commands


def test_a_trace_keeps_all_looks_and_one_that_differed_speaks_against_it(tmp_path: Path) -> None:
    good = look(tree(tmp_path, JETSON))
    slow = look(tree(tmp_path, devfreq(least=600, most=600)))
    hot = replace(good, temperature=70)
    seen = joined_looks(joined_looks(host(REAL, clocks=[good]), host(REAL, clocks=[slow])), host(REAL, clocks=[hot]))
    assert [one.temperature for one in seen.clocks] == [70, 60]
    kept = fit.of_trace(Trace({HOST: fit.saved(seen)}, (), {}, 0), file())
    assert tuple(kept.clocks) == distinct_looks([hot, slow])
    assert "held at 600MHz" in fit.against(one for one in fit.objections(file(), kept) if one.code is fit.Code.CLOCKS)


def test_doctor_holds_a_file_against_the_machine(tmp_path: Path) -> None:
    tree(tmp_path, {**JETSON, **cpu(0, "schedutil")})
    found = {one.text: one for one in examine(str(tmp_path / "none"), tmp_path, file()) if one.name == "taskset file"}
    (loose,) = (one for text, one in found.items() if "the clock of CPU 0" in text)
    assert (loose.status, "schedutil" in loose.text) == (Status.FAIL, True)
    assert not any("CPU 1" in text for text in found)
    again = [one for one in examine(str(tmp_path / "none"), tmp_path) if one.name == "taskset file"]
    assert again == []


def test_a_watch_tells_of_clocks_that_change(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    loaded, asks = file(), SimpleNamespace(status=lambda: [REAL], clients=list, rules=list)
    watcher = watch.Watcher(asks, asks, Judge(loaded, {}))  # type: ignore[arg-type]
    seen = look(tree(tmp_path, JETSON))
    monkeypatch.setattr(watch, "machine_clocks", lambda: seen)
    assert not any(one.what is What.SPEED for one in watcher._look())
    seen = look(tree(tmp_path, devfreq(least=306, most=306)))
    (told,) = (one for one in watcher._look() if one.what is What.SPEED)
    assert "GPU 17000000.gpu is held at 306MHz" in told.text
    assert not any(one.what is What.SPEED for one in watcher._look())  # told once


def test_the_report_says_how_far_clocks_were_checked(tmp_path: Path) -> None:
    def about(loaded: TasksetFile, seen: list[MachineClocks]) -> tuple[Support, str]:
        objections = fit.objections(loaded, host(REAL, clocks=seen))
        rows = judged_assumptions(Evidence(loaded, None, objections=objections, clocks=seen))
        return next((one.support, one.text) for one in rows if one.assumption.startswith("Clocks"))

    seen = look(tree(tmp_path, JETSON))
    assert about(file(), [seen])[0] is Support.UNREFUTED
    assert about(file(), []) == (Support.UNCHECKED, "no machine was looked at")
    assert about(file(TEXT.replace("clocks = {", "# ")), [seen])[0] is Support.UNCHECKED
    support, text = about(file(), [replace(seen, power_mode="15W")])
    assert (support, "the power mode is" in text) == (Support.REFUTED, True)


# Measuring


def test_an_entry_has_the_clocks_that_were_held(tmp_path: Path) -> None:
    seen = look(tree(tmp_path, JETSON))
    measured = Measured(seen, replace(seen, temperature=58))
    (line,) = measured.key()
    assert file(f"{TEXT.replace('clocks = {', '# ')}{line}\n").clocks["plan"] == file().clocks["plan"]
    assert measured.text() == (
        "CPUs 0 to 1 held at 2201.6MHz (governor performance); GPU 17000000.gpu held at 1300MHz (governor "
        "nvhost_podgov); power mode MAXN; up to 60 degrees Celsius"
    )
    assert measured.warnings() == []


def test_an_entry_has_no_clock_that_is_not_held_or_not_the_only_one(tmp_path: Path) -> None:
    seen = look(tree(tmp_path, {**JETSON, **cpu(1, most=1_000_000), **devfreq(least=306)}))
    measured = Measured(seen, seen)
    assert measured.key() == ['clocks = { governor = "performance", power_mode = "MAXN", temperature = 60 }']
    assert "CPU 0 held at 2201.6MHz (governor performance); CPU 1 held at 1000MHz" in measured.text()
    assert "times at a lower clock are longer" in measured.warnings()[0]
    assert "gpu" not in Measured(seen, seen, virtual=True).key()[0]
    changed = Measured(seen, replace(seen, power_mode="15W"))
    assert (changed.key(), "CHANGED" in changed.text(), len(changed.warnings())) == ([], True, 1)
    assert Measured(MachineClocks(), MachineClocks()).key() == []
    assert "the CPUs' unknown, for nothing here tells it" in Measured(MachineClocks(), MachineClocks()).text()


def test_doctor_says_which_clocks_vary(tmp_path: Path) -> None:
    def found() -> dict[str, tuple[Status, str]]:
        known = examine(str(tmp_path / "none"), tmp_path)
        return {one.name: (one.status, one.text) for one in known if one.name.endswith("frequency")}

    assert found() == {"CPU frequency": (Status.OK, "not scaled by this kernel")}
    tree(tmp_path, JETSON)
    assert found() == {
        "CPU frequency": (Status.OK, "CPUs 0 to 1 held at 2201.6MHz (governor performance)"),
        "GPU frequency": (Status.OK, "GPU 17000000.gpu held at 1300MHz (governor nvhost_podgov)"),
    }
    tree(tmp_path, {**cpu(1, "schedutil"), **devfreq(least=306)})
    varies = "execution times vary with the clock"
    assert found() == {
        "CPU frequency": (
            Status.WARN, f"CPU 1 not held: governor schedutil moves it between 115.2MHz and 2201.6MHz: {varies}"
        ),
        "GPU frequency": (
            Status.WARN,
            f"GPU 17000000.gpu not held: governor nvhost_podgov moves it between 306MHz and 1300MHz: {varies}",
        ),
    }
