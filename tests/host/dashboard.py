# SPDX-License-Identifier: GPL-2.0
"""The dashboard for Grafana: its panels, what they ask for, and whether that is served."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from served import Key

PATH = Path(__file__).resolve().parents[2] / "docs/grafana-dashboard.json"
#: The labels that Prometheus adds to those that are served.
ADDED = {"instance", "job"}


def board() -> dict[str, Any]:
    """The dashboard."""
    found: dict[str, Any] = json.loads(PATH.read_text())
    return found


def expressions() -> Iterator[tuple[str, str, str]]:
    """Each panel's title, with each of its queries and the legend of that."""
    for panel in board()["panels"]:
        for target in panel.get("targets", []):
            yield panel["title"], target["expr"], target["legendFormat"]


def check_names(samples: dict[Key, float]) -> None:
    """Each metric is served, with each label that a query or a legend names."""
    labels: dict[str, set[str]] = {}
    for name, pairs in samples:
        labels.setdefault(name, set(ADDED)).update(label for label, _ in pairs)
    for title, expression, legend in expressions():
        selected = re.findall(r"\b(gpurt_\w+){([^}]*)}", expression)
        assert {name for name, _ in selected} == set(re.findall(r"\bgpurt_\w+", expression)), title
        named: set[str] = set()
        for name, selector in selected:
            assert name in labels, title
            assert set(re.findall(r"(\w+)\s*=", selector)) <= labels[name], title
            named |= labels[name]
        grouped = re.findall(r"\b(?:by|on|group_left) \(([^)]*)\)", expression)
        wanted = {one.strip() for group in grouped for one in group.split(",")} | set(re.findall(r"{{(\w+)}}", legend))
        assert wanted <= named, title
