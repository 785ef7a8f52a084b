# SPDX-License-Identifier: GPL-2.0
"""The clocks of this machine's CPUs and GPUs, its power mode and its temperature, as far as files and drivers show.

A clock is *held* if only a change of settings moves it.  Sources, in Linux's Documentation and tree:

- CPUs: admin-guide/pm/cpufreq.rst and intel_pstate.rst
- GPUs of a Tegra and other devfreq devices: ABI/testing/sysfs-class-devfreq
- amdgpu: drivers/gpu/drm/amd/pm/amdgpu_pm.c, "DOC: pp_dpm_sclk" and "DOC: power_dpm_force_performance_level"
- temperatures: ABI/testing/sysfs-class-thermal
- power modes of PCs: ABI/testing/sysfs-platform_profile
- power modes of a Jetson: nvpmodel's /var/lib/nvpmodel/status, with names in /etc/nvpmodel.conf (NVIDIA's BSP)

None of these shows that firmware slows a clock down by itself.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path

from gpurt.files import matching
from gpurt.units import format_frequency

ROOT = Path("/")
CPUS_FOLDER = "sys/devices/system/cpu"
#: Names of devfreq devices that are GPUs: 17000000.gpu, 17000000.ga10b and the like on ARM machines; the last: Thor.
DEVFREQ_GPU = re.compile(r".*\.(gpu|gm20b|gp10b|gv11b|ga10b)|gpu-gpc-\d+")
#: amdgpu's levels that fix the clock, and the line of pp_dpm_sclk with its frequency; None: the marked line.
AMDGPU_LEVELS = {
    "high": -1, "low": 0, "profile_standard": None, "profile_min_sclk": None, "profile_peak": None,
}  # fmt: skip
#: A mode in nvpmodel's configuration.
POWER_MODEL = re.compile(r"^<\s*POWER_MODEL\s+ID=(\d+)\s+NAME=(\S+)", re.MULTILINE)
NVIDIA_SMI = ("nvidia-smi", "--query-gpu=index,clocks.sm,temperature.gpu", "--format=csv,noheader,nounits")
#: nvidia-smi counts as hung if it does not answer within this time, seconds.
SMI_PATIENCE_S = 10
KHZ, MHZ = 1_000, 1_000_000


@dataclass(frozen=True, slots=True)
class Clock:
    """A clock.

    ``hertz``: the frequency at which it is held; None: it is not held, or not known to be.  ``loose``: why.  ``cpu``:
    the CPU's number; None: a GPU's clock.
    """

    name: str
    governor: str | None
    hertz: int | None
    loose: str = ""
    cpu: int | None = None

    @property
    def text(self) -> str:
        """The clock in words."""
        by = f" (governor {self.governor})" if self.governor else ""
        return f"held at {format_frequency(self.hertz)}{by}" if self.hertz is not None else f"not held: {self.loose}"


@dataclass(frozen=True, slots=True)
class MachineClocks:
    """One look at the clocks.  ``power_mode``, ``temperature`` (of the hottest sensor, degrees C): None if unknown."""

    cpus: tuple[Clock, ...] = ()
    gpus: tuple[Clock, ...] = ()
    power_mode: str | None = None
    temperature: int | None = None


UNKNOWN_CLOCKS = MachineClocks()


def look(root: Path = ROOT) -> MachineClocks:
    """The present clocks."""
    gpus = tuple(_devfreq(root)) or (*_amdgpu(root), *_nvidia(root))  # a Tegra uses NVIDIA's driver for its display
    return MachineClocks(tuple(_cpus(root)), gpus, _power_mode(root), _hottest(root))


def told(clocks: Iterable[Clock]) -> list[str]:
    """Clocks in words; successive CPUs with equal clocks are joined."""
    found = []
    for text, some in groupby(clocks, lambda one: f"{'' if one.cpu is not None else one.name} {one.text}".strip()):
        row = list(some)
        name = "" if row[0].cpu is None else row[0].name if len(row) == 1 else f"CPUs {row[0].cpu} to {row[-1].cpu}"
        found.append(f"{name} {text}".strip())
    return found


def distinct_looks(looks: Iterable[MachineClocks]) -> tuple[MachineClocks, ...]:
    """The looks that differ in more than the temperature, each with the highest temperature."""
    found: dict[MachineClocks, MachineClocks] = {}
    for one in looks:
        cold = replace(one, temperature=None)
        degrees = [seen.temperature for seen in (one, found.get(cold, one)) if seen.temperature is not None]
        found[cold] = replace(one, temperature=max(degrees, default=None))
    return tuple(found.values())


def _read(path: Path) -> str | None:
    try:
        return path.read_text(errors="replace").strip()
    except OSError:  # no clock, an offline CPU, or not readable for this user
        return None


def _number(path: Path) -> int | None:
    text = _read(path) or ""
    return int(text) if re.fullmatch(r"-?[0-9]{1,18}", text) else None


def _cpus(root: Path) -> Iterator[Clock]:
    folder = root / CPUS_FOLDER
    turbo = _read(folder / "intel_pstate/no_turbo") == "0" or _read(folder / "cpufreq/boost") == "1"
    for path in sorted(matching(folder, "cpu[0-9]*/cpufreq"), key=lambda one: int(one.parent.name[3:])):
        least, most = (_number(path / f"scaling_{which}_freq") for which in ("min", "max"))
        cpu = int(path.parent.name[3:])
        governor = _read(path / "scaling_governor")
        yield _judged(f"CPU {cpu}", governor, least, most, KHZ, "turbo or boost may raise it" if turbo else "", cpu)


def _judged(
    name: str, governor: str | None, least: int | None, most: int | None, scale: int, loose: str = "",
    cpu: int | None = None,
) -> Clock:  # fmt: skip
    """A clock between two limits: held if they are equal, or if the governor always takes the upper one."""
    if most is None:
        return Clock(name, governor, None, "its limits cannot be read", cpu)
    if not loose and governor != "performance" and least != most:
        low = "0" if least is None else format_frequency(least * scale)
        loose = f"governor {governor or 'unknown'} moves it between {low} and {format_frequency(most * scale)}"
    return Clock(name, governor, None if loose else most * scale, loose, cpu)


def _devfreq(root: Path) -> Iterator[Clock]:
    for path in sorted(matching(root / "sys/class/devfreq", "*")):
        if DEVFREQ_GPU.fullmatch(path.name):
            least, most = (_number(path / f"{which}_freq") for which in ("min", "max"))
            yield _judged(f"GPU {path.name}", _read(path / "governor"), least, most, 1)


def _amdgpu(root: Path) -> Iterator[Clock]:
    for path in sorted(matching(root / "sys/class/drm", "card[0-9]*/device/pp_dpm_sclk")):
        level = _read(path.with_name("power_dpm_force_performance_level"))
        found = re.findall(r"^\s*\d+:\s*(\d+)Mhz\s*(\*?)", _read(path) or "", re.MULTILINE)
        yield _leveled(f"GPU {path.parts[-3]}", level, [(int(speed) * MHZ, bool(mark)) for speed, mark in found])


def _leveled(name: str, level: str | None, speeds: list[tuple[int, bool]]) -> Clock:
    if level not in AMDGPU_LEVELS:
        return Clock(name, level, None, f"performance level {level or 'unknown'} does not fix it")
    at = AMDGPU_LEVELS[level]
    marked = [speed for speed, mark in speeds if mark] if at is None else [speed for speed, _ in speeds][at:][:1]
    return Clock(name, level, marked[0]) if marked else Clock(name, level, None, "pp_dpm_sclk names no clock")


def _nvidia(root: Path) -> Iterator[Clock]:
    """The clocks of NVIDIA's driver, which does not show whether `nvidia-smi --lock-gpu-clocks` holds a clock."""
    if (root / "proc/driver/nvidia/version").exists():
        yield Clock("GPU of NVIDIA's driver", None, None, "its driver does not tell whether its clock stays as it is")


def nvidia_now() -> list[str]:
    """nvidia-smi's words about the clock and temperature of each GPU; none if it does not answer."""
    try:
        said = subprocess.run(NVIDIA_SMI, capture_output=True, text=True, timeout=SMI_PATIENCE_S, check=True).stdout
    except (OSError, subprocess.SubprocessError):
        return []
    rows = [[one.strip() for one in line.split(",")] for line in said.splitlines()]
    return [f"GPU {row[0]} was at {row[1]} MHz and {row[2]} degrees Celsius" for row in rows if len(row) == 3]


def _power_mode(root: Path) -> str | None:
    kept = re.search(r"pmode:(\d+)", _read(root / "var/lib/nvpmodel/status") or "")
    if kept is None:
        return _read(root / "sys/firmware/acpi/platform_profile") or None
    models = POWER_MODEL.findall(_read(root / "etc/nvpmodel.conf") or "")
    return next((name for number, name in models if int(number) == int(kept[1])), f"mode {int(kept[1])}")


def _hottest(root: Path) -> int | None:
    """The temperature of the hottest thermal zone, degrees Celsius rounded up."""
    found = [_number(path) for path in matching(root / "sys/class/thermal", "thermal_zone*/temp")]
    return max((-(-one // 1000) for one in found if one is not None), default=None)
