# SPDX-License-Identifier: GPL-2.0
"""A fact of `gpurt status` has one name: in kmod/uapi/gpurt.h, in Python, and in the JSON documents."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

from pycontrol.link.control import FIELDS, GpuStatus

ROOT = Path(__file__).resolve().parents[2]
TABLE = (ROOT / "kmod/uapi/gpurt.h").read_text().split("#define GPURT_STATUS_ATTRIBUTES(A)")[1].split("#define")[0]
NAMES = re.findall(r"^\tA\((\w+)", TABLE, re.MULTILINE)
#: Hosts without agents and without units have no value of these; the module has neither.
USER_SPACE = {"BEGIN", "READY", "AT_ONCE", *NAMES[NAMES.index("UNIT_POLICY") :]}


def test_each_status_attribute_is_a_field() -> None:
    fields = {name.upper() for name in FIELDS[GpuStatus]}
    assert fields ^ {*NAMES, "GPU", "POLICY", "NOTICE", "POLL_NS"} == set(), "GpuStatus, or GPURT_STATUS_ATTRIBUTES"


def test_each_host_sends_each_status_attribute() -> None:
    """A value that a host forgets is 0, or null, to its readers."""
    host = "".join(one.read_text() for one in (ROOT / "pycontrol/host").glob("*.py"))
    assert [name for name in NAMES if f'"{name}"' not in host] == [], "Commands.status is to send each"
    module = (ROOT / "kmod/calls/netlink_get.c").read_text()
    missing = [name for name in NAMES if f"GPURT_A_{name}," not in module and name not in USER_SPACE]
    assert missing == [], "put_status() is to put each, or USER_SPACE names it"


def test_each_field_is_in_the_schema() -> None:
    made = runpy.run_path(str(ROOT / "scripts/make-output-schema"))["written"]()
    text = (ROOT / "docs/output.schema.json").read_text(encoding="utf-8")
    assert made == text, "scripts/make-output-schema"
