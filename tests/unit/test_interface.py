"""Python's enumerations, attributes and structures are the C header's: none is missing and none differs."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from gpurt import enums
from gpurt._gpurt import ffi, lib
from pycontrol.host.calls import KINDS
from pycontrol.link import netlink

ROOT = Path(__file__).resolve().parents[2]
HEADER = (ROOT / "kmod/uapi/gpurt.h").read_text()
PAIRS = {
    "gpurt_policy": (enums.Policy, "GPURT_POLICY_"),
    "gpurt_notice": (enums.Notice, "GPURT_NOTICE_"),
    "gpurt_tier": (enums.Tier, "GPURT_TIER_"),
    "gpurt_state": (enums.State, "GPURT_STATE_"),
    "gpurt_image": (enums.Image, "GPURT_IMAGE_"),
    "gpurt_overrun": (enums.Overrun, "GPURT_OVERRUN_"),
    "gpurt_form": (enums.Form, "GPURT_FORM_"),
    "gpurt_cause": (enums.Cause, "GPURT_CAUSE_"),
    "gpurt_event": (enums.EventKind, "GPURT_EVENT_"),
    "gpurt_cmd": (enums.Command, "GPURT_CMD_"),
    "gpurt_caps": (enums.Cap, "GPURT_CAP_"),
    "gpurt_packet_type": (enums.Packet, "GPURT_PACKET_"),
}


@pytest.mark.parametrize("name", sorted(PAIRS))
def test_enumerations_agree(name: str) -> None:
    python, prefix = PAIRS[name]
    in_c = {key.removeprefix(prefix): value for value, key in ffi.typeof(f"enum {name}").elements.items()}
    in_c = {key: value for key, value in in_c.items() if key not in ("COUNT", "UNSPEC")}
    assert {member.name: int(member) for member in python} == in_c


def test_every_attribute_has_a_type_as_the_header_says() -> None:
    rows = re.findall(r"^\tA\((\w+), (U32|U64|STRING|BINARY),", HEADER, re.MULTILINE)
    said = {name: kind.lower() for name, kind in rows}
    assert said == netlink.TYPES
    known = {name for name in netlink.NUMBERS if name not in ("UNSPEC", "PAD", "END")}
    assert known == set(said)


def test_every_structure_and_call_is_there_at_the_compiler_s_size(tmp_path: Path) -> None:
    if not shutil.which("cc"):
        pytest.skip("needs a C compiler")
    calls = re.findall(r"#define (GPURT_IOC_\w+)\s+_IOWR", HEADER)
    assert {getattr(lib, call) for call in calls} == set(KINDS)
    for code, kind in KINDS.items():  # the table that checks calls is about the same structures
        found = lib.gpurt_call_find(code)
        assert (found.code, found.size) == (code, ffi.sizeof(kind))
        fields = re.search(rf"^{kind} {{(.*?)^}};", HEADER, re.MULTILINE | re.DOTALL)
        assert fields
        if "out of" not in fields[1]:  # two calls have it, and one of them an answer
            assert found.answers == bool(re.search(r"/\* out\b", fields[1]))
    structures = sorted(set(re.findall(r"^struct (gpurt_\w+) \{", HEADER, re.MULTILINE)))
    prints = "".join(f'printf("%zu\\n", sizeof(struct {name}));' for name in structures)
    source = tmp_path / "sizes.c"
    source.write_text(f'#include <stdio.h>\n#include <gpurt/uapi.h>\nint main(void) {{ {prints} return 0; }}\n')
    program = tmp_path / "sizes"
    subprocess.run(["cc", f"-I{ROOT}/userlib/include", source, "-o", program], check=True)
    sizes = subprocess.run([program], capture_output=True, text=True, check=True).stdout.split()
    assert [ffi.sizeof(f"struct {name}") for name in structures] == [int(size) for size in sizes]
    for name in structures:  # no holes: a hole would be sent uninitialised
        fields = ffi.typeof(f"struct {name}").fields
        assert sum(ffi.sizeof(field.type) for _, field in fields) == ffi.sizeof(f"struct {name}")


def test_histogram_buckets_are_ordered_and_hold_what_they_say() -> None:
    floors = [lib.gpurt_hist_floor(bucket) for bucket in range(lib.GPURT_HIST_BUCKETS)]
    assert floors == sorted(set(floors))
    for bucket, floor in enumerate(floors):
        assert lib.gpurt_hist_bucket(floor) == bucket
        if bucket:
            assert lib.gpurt_hist_bucket(floor - 1) == bucket - 1
    assert lib.gpurt_hist_bucket(2**64 - 1) == lib.GPURT_HIST_BUCKETS - 1
