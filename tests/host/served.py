# SPDX-License-Identifier: GPL-2.0
"""A running `gpurt watch --metrics`, and what it answers."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from links import PATIENCE

#: A sample: its name and its labels.
Key = tuple[str, frozenset[tuple[str, str]]]


class Served:
    """A running `gpurt watch --metrics`, at an address of loopback unless another is given."""

    def __init__(self, host: Path, *options: str, address: str = "127.0.0.1") -> None:
        command = [sys.executable, "-m", "pycontrol", "--device", host, "watch", "--metrics", "--listen",
                   f"{address}:0"]  # fmt: skip
        self.process = subprocess.Popen([*command, *options], stderr=subprocess.PIPE, text=True)
        assert self.process.stderr
        self.said = ""  # on stderr before it serves
        while not (found := re.search(r"http://.*:\d+/metrics", line := self.process.stderr.readline())):
            assert line, self.said
            self.said += line
        self.url = found[0]

    def get(
        self, headers: Mapping[str, str] | None = None, query: str = "", patience: float = PATIENCE
    ) -> tuple[str, bytes]:
        """The type of the answer, and the answer."""
        request = urllib.request.Request(self.url + query, headers=headers or {})
        with urllib.request.urlopen(request, timeout=patience) as answer:
            return answer.headers["Content-Type"], answer.read()

    def text(self, patience: float = PATIENCE) -> str:
        return self.get(patience=patience)[1].decode()

    def samples(self, patience: float = PATIENCE) -> dict[Key, float]:
        """All samples; each is there once."""
        from prometheus_client.parser import text_string_to_metric_families

        found: dict[Key, float] = {}
        for family in text_string_to_metric_families(self.text(patience)):
            for sample in family.samples:
                key = sample.name, frozenset(sample.labels.items())
                assert key not in found
                found[key] = sample.value
        return found

    def value(self, name: str, patience: float = PATIENCE, **labels: str) -> float | None:
        return self.samples(patience).get((name, frozenset(labels.items())))

    def end(self) -> str:
        """Ends it by SIGTERM, and returns what it said on stderr meanwhile."""
        self.process.send_signal(signal.SIGTERM)
        assert self.process.stderr
        said = self.process.stderr.read()
        assert self.process.wait(PATIENCE) == 0, said
        return said


@contextmanager
def serving(host: Path, *options: str, address: str = "127.0.0.1") -> Iterator[Served]:
    """One, until the context is left.  It must not have said anything meanwhile."""
    served = Served(host, *options, address=address)
    try:
        yield served
    finally:
        said = served.end()
    assert said == ""
