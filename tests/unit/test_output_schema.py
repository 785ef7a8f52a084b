# SPDX-License-Identifier: GPL-2.0
"""A fact of `gpurt status` has one name: in kmod/uapi/gpurt.h, in Python, and in the JSON documents."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

from pycontrol.link.control import FIELDS, GpuStatus

ROOT = Path(__file__).resolve().parents[2]


def test_each_status_attribute_is_a_field() -> None:
    text = (ROOT / "kmod/uapi/gpurt.h").read_text(encoding="utf-8")
    table = text.split("#define GPURT_STATUS_ATTRIBUTES(A)")[1].split("#define")[0]
    names = {name.lower() for name in re.findall(r"^\tA\((\w+)", table, re.MULTILINE)}
    assert set(FIELDS[GpuStatus]) == names | {"gpu", "policy", "notice", "poll_ns"}


def test_each_field_is_in_the_schema() -> None:
    made = runpy.run_path(str(ROOT / "scripts/make-output-schema"))["written"]()
    assert made == (ROOT / "docs/output.schema.json").read_text(encoding="utf-8")
