# SPDX-License-Identifier: GPL-2.0
"""scripts/kmod-build, which compiles what has changed since its last build: that build's mistakes are not forgotten."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from kernels import ROOT, run_script

SOURCES = {
    "Kbuild": "obj-m := planted.o\nplanted-y := main.o other.o\n",
    "main.c": '#include <linux/module.h>\nMODULE_LICENSE("GPL");\nMODULE_DESCRIPTION("planted");\n',
    "other.c": "int other(void);\nint other(void) { return 1; }\n",
}


@pytest.mark.slow(1)
@pytest.mark.timeout(14_400)
def test_a_warning_is_an_error_each_time(tmp_path: Path) -> None:
    """In a file that changed after a build without warnings; the second time, its object may be there already."""
    for name, text in SOURCES.items():
        (tmp_path / name).write_text(text)
    done = run_script("kmod-build", "--source", tmp_path, "amd64-6.1")
    assert done.returncode == 0, done.stderr
    assert Path(done.stdout.strip()).name == "planted.ko"
    (tmp_path / "other.c").write_text(SOURCES["other.c"].replace("return", "int unused; return"))
    for _ in range(2):
        done = run_script("kmod-build", "--source", tmp_path, "amd64-6.1")
        assert done.returncode == 1, done.stderr
        assert "unused" in done.stderr


def test_what_asks_for_kunit_is_compiled_with_it() -> None:
    """In kmod/Kbuild, GPURT_KUNIT is a flag of single objects, so that few are compiled twice."""
    flagged = re.findall(r"^CFLAGS_([\w/]+)\.o :=.*kunit-flags", (ROOT / "kmod/Kbuild").read_text(), re.MULTILINE)
    sources = ((path.relative_to(ROOT / "kmod"), path.read_text()) for path in (ROOT / "kmod").rglob("*.c"))
    asking = {str(path.with_suffix("")) for path, text in sources if "#ifdef GPURT_KUNIT" in text}
    assert asking
    assert asking | {"main", "tests/kunit"} == set(flagged)
