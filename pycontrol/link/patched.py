# SPDX-License-Identifier: GPL-2.0
"""What the kernel module says of GPUs with a patched driver: kmod/drv/port.c, parameter ``patched``."""

from __future__ import annotations

import errno
from dataclasses import dataclass
from pathlib import Path

#: Has a line for each GPU.  The file is missing if no module is loaded, or the module lacks the adapter.
FACTS = Path("/sys/module/gpurt/parameters/patched")


@dataclass(frozen=True, slots=True)
class PatchedGpu:
    """A GPU of a patched driver.  The module switches it unless ``condition`` is `refused`.

    ``condition``: `on`, `refused`, `unable` (the driver says that it cannot switch for now), `resetting`, `suspended`,
    or `more`, which counts GPUs that the module had no room to list.  ``device`` is `-` if the driver itself is
    refused.  ``asks``: how often the driver built a list by itself while a client had the GPU, and asked who may be on
    it.  Each such list may cost that client a context switch.  ``gpu``: the host's number, if the host switches the
    GPU.
    ``errno``: the result of the last update, negative; 0: the update was carried out.
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
        """The GPU's number, its driver and its place, for messages."""
        name = f"{self.driver} {self.device}"
        return name if self.gpu is None else f"GPU {self.gpu} is {name}"

    @property
    def trouble(self) -> str | None:
        """The trouble that a user must know of, in one line; None: all is well."""
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
        ValueError: the file's content is unknown.
    """
    try:
        return [_parsed(line) for line in file.read_text().splitlines()]
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ENODEV):  # ENODEV: the module goes meanwhile
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
