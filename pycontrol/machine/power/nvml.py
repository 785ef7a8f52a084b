# SPDX-License-Identifier: GPL-2.0
"""NVIDIA GPUs through NVML (nvidia-ml-py, the extra ``nvml``).

Energy in mJ since the driver was loaded exists on Volta and newer.  On other parts, and on Jetson boards, NVML says
"not supported", which is no 0.  The result of nvmlDeviceGetPowerUsage() is the mean of a second on Ampere and newer,
except on GA100, and an instantaneous value before.  Field 185 is the mean, and field 186 the instantaneous value.  A
field has a result of its own, and its value means nothing if that is not success.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import ModuleType

from gpurt.types import CData
from pycontrol.machine.power.sensor import Absent, Scope, SensorError, SensorFacts, SensorKind

MW = MJ = 1000
EXTRA = "pip install 'gpurt[nvml]'"
#: The numbers of the fields, and of the scope "this GPU" (a module has another one).
POWER_AVERAGE, POWER_INSTANT, SCOPE_GPU = 185, 186, 0


@dataclass(frozen=True)
class Device:
    """A GPU, and the library that was initialised for it."""

    library: ModuleType
    handle: CData

    def energy(self) -> int:
        """Energy since the driver was loaded, uJ."""
        return int(self.library.nvmlDeviceGetTotalEnergyConsumption(self.handle)) * MJ

    def power(self) -> int:
        """The result of nvmlDeviceGetPowerUsage(), uW."""
        return int(self.library.nvmlDeviceGetPowerUsage(self.handle)) * MW

    def field(self, number: int) -> int:
        """A field of power, uW."""
        (found,) = self.library.nvmlDeviceGetFieldValues(self.handle, [(number, SCOPE_GPU)])
        if found.nvmlReturn != self.library.NVML_SUCCESS:
            raise self.library.NVMLError(found.nvmlReturn)
        members = {self.library.NVML_VALUE_TYPE_UNSIGNED_INT: "uiVal",
                   self.library.NVML_VALUE_TYPE_UNSIGNED_LONG_LONG: "ullVal"}  # fmt: skip
        if found.valueType not in members:
            raise SensorError(f"field {number} has a value of type {found.valueType}, which is no power")
        return int(getattr(found.value, members[found.valueType])) * MW

    def instant(self) -> int:
        """Power now, uW."""
        return self.field(POWER_INSTANT)

    def average(self) -> int:
        """Mean power, uW."""
        return self.field(POWER_AVERAGE)


@dataclass(frozen=True)
class NvmlSensor:
    """One quantity of one GPU."""

    device: Device
    about: SensorFacts
    ask: Callable[[], int]

    def value(self) -> int:
        """The energy, uJ, or the power, uW."""
        try:
            return self.ask()
        except self.device.library.NVMLError as error:
            raise SensorError(f"{self.about.name}: NVML says: {error}") from None


#: Last word of the name, what it is, and the method of Device.  Best first.
QUANTITIES = (
    ("energy", SensorKind.COUNTER, Device.energy), ("instant", SensorKind.INSTANT, Device.instant),
    ("average", SensorKind.AVERAGE, Device.average), ("power", SensorKind.AVERAGE, Device.power),
)  # fmt: skip


def find() -> Iterator[NvmlSensor | Absent]:
    """The sensors of all GPUs; what a GPU lacks is absent, with NVML's reason."""
    try:
        import pynvml
    except ImportError:
        yield Absent("nvml", f"nvidia-ml-py is not installed: {EXTRA}")
        return
    try:
        pynvml.nvmlInit()
        count = pynvml.nvmlDeviceGetCount()
    except pynvml.NVMLError as error:
        yield Absent("nvml", f"NVML says: {error}")
        return
    if not count:
        yield Absent("nvml", "the driver has no GPU that this user may see")
    for index in range(count):
        yield from _sensors(pynvml, index)


def _sensors(library: ModuleType, index: int) -> Iterator[NvmlSensor | Absent]:
    try:
        handle = library.nvmlDeviceGetHandleByIndex(index)
        model = f"{nvml_text(library.nvmlDeviceGetName(handle))} {nvml_text(library.nvmlDeviceGetUUID(handle))}"
    except library.NVMLError as error:
        yield Absent(f"nvml:{index}", f"NVML says: {error}")
        return
    device = Device(library, handle)
    for word, kind, method in QUANTITIES:
        about = SensorFacts(f"nvml:{index}:{word}", model, kind, Scope.BOARD, None, MW)
        sensor = NvmlSensor(device, about, method.__get__(device))
        try:
            sensor.value()
        except SensorError as error:
            yield Absent(about.name, str(error).removeprefix(f"{about.name}: "))
        else:
            yield sensor


def nvml_text(raw: str | bytes) -> str:
    """A text of NVML, which older nvidia-ml-py leaves as bytes."""
    return raw.decode("utf-8", "replace") if isinstance(raw, bytes) else str(raw)
