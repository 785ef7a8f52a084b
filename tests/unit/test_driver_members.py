# SPDX-License-Identifier: GPL-2.0
"""Members that drivers built against an earlier release rely on (kmod/drv/drv.h): new members come at the end."""

from __future__ import annotations

import re
from pathlib import Path

HEADER = Path(__file__).parents[2] / "kmod/drv/drv.h"
#: The members of each structure of GPURT_DRIVER_VERSION 1 that have been published.  Lines are only added.
PUBLISHED = {
    "gpurt_driver_ops": """
        size version owner name tier commit_sleeps work agents client_open client_ends client_close commit exempt costs
        power bound_ns runlists called exemptions_changed part quiet device group_open group_close group_join
    """,
    "gpurt_work_ops": "tsg_open tsg_close submit work_done idle tsg_shape",
    "gpurt_agent_ops": "agent answer order describe",
    "gpurt_commit": "only now sequence runlists",
    "gpurt_driver_costs": "alpha_ns theta_ns slice_ns",
    "gpurt_driver_part": "whole units cross",
}


def members(structure: str) -> list[str]:
    text = re.sub(r"/\*.*?\*/", "", HEADER.read_text(), flags=re.DOTALL)
    found = re.search(rf"^struct {structure} \{{(.*?)^\}};", text, flags=re.DOTALL | re.MULTILINE)
    assert found
    names = []
    for one in found[1].split(";")[:-1]:
        function = re.search(r"\(\*(\w+)\)", one)
        names += [function[1]] if function else re.findall(r"(\w+)\s*(?:,|$)", one.strip())
    return names


def test_members_keep_their_places() -> None:
    for structure, names in PUBLISHED.items():
        assert members(structure) == names.split(), structure
    assert "GPURT_DRIVER_VERSION 1\n" in HEADER.read_text()
    assert "offsetofend(struct gpurt_driver_ops, called)" in HEADER.read_text()
