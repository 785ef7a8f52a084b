# SPDX-License-Identifier: GPL-2.0
"""The kernel module's word on GPUs whose driver is patched: kmod/drv/port.c, parameter ``patched``."""

from __future__ import annotations

import errno
from dataclasses import dataclass
from pathlib import Path

#: A line for each GPU; no such file: no module is loaded, or one without the adapter.
FACTS = Path("/sys/module/gpurt/parameters/patched")


@dataclass(frozen=True, slots=True)
class PatchedGpu:
    """A GPU of a patched driver, which the module switches unless ``condition`` is `refused`.

    ``condition``: `on`, `refused`, `unable` (the driver says that it cannot switch for now), `resetting`, `suspended`,
    or `more`.  `more` counts GPUs that the module had no room to list.  ``device`` is `-` if the
    driver itself is refused.  ``asks``: how often the driver asked who may be on a list that it built by itself while a
    client had the GPU.  Each such list may cost that client a context switch.
    ``gpu``: the host's number, if it switches it.
    ``errno``: what the last update returned, negative; 0: it was carried out.
    """

    driver: str
    device: str
    condition: str
    errno: int
    asks: int
    reason: str | None
    gpu: int | None = None

    @property
    def title(self) -> str:
        """Its number, its driver and where it is, for messages."""
        name = f"{self.driver} {self.device}"
        return name if self.gpu is None else f"GPU {self.gpu} is {name}"

    @property
    def trouble(self) -> str | None:
        """The trouble that a user has to know of, in a line; None if all is well."""
        name = self.driver if self.device == "-" else f"{self.driver} {self.device}"
        if self.condition == "refused":
            return f"{name}: not switched by gpurt.ko: {self.reason}"
        if self.condition == "more":
            return self.reason
        if self.condition == "unable":
            return f"{name}: the driver cannot switch for now (another scheduler, or user queues); isolation is lost"
        return f"{name}: {self.condition}" if self.condition != "on" else None


def read_patched(file: Path = FACTS) -> list[PatchedGpu]:
    """The GPUs; none if the module is not loaded.

    Raises:
        ValueError: the module says something else.
    """
    try:
        return [_parsed(line) for line in file.read_text().splitlines()]
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ENODEV):  # the second one where the module goes meanwhile
            return []
        raise


def _parsed(line: str) -> PatchedGpu:
    head, _, reason = line.partition(" reason=")
    words = dict(word.partition("=")[::2] for word in head.split(" "))
    try:
        return PatchedGpu(
            words["driver"], words["device"], words["state"], int(words["error"]), int(words["asks"]), reason or None,
            None if words["gpu"] == "-" else int(words["gpu"]),
        )  # fmt: skip
    except (KeyError, ValueError):
        raise ValueError(f"{FACTS}: not understood: {line!r}; load the module of the same release") from None
