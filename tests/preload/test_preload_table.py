# SPDX-License-Identifier: GPL-2.0
"""The table of the CUDA driver's functions, against the headers of CUDA."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
import wrappers
from cuda_headers import RUNTIMES, Headers, installed, read, runtime
from machines import FLAGS, ROOT

TABLE = ROOT / "userlib/preload/cuda.table"
#: Structures of 8 bytes, which are passed as Q.
IN_A_REGISTER = {"CUmemLocation_v1": "Q"}


@pytest.fixture(scope="module")
def table() -> wrappers.Table:
    return wrappers.parse_wrappers(TABLE.read_text())


@pytest.fixture(scope="module", params=[*RUNTIMES, "machine"])
def include(request: pytest.FixtureRequest) -> Path:
    """A folder with CUDA's headers."""
    if request.param != "machine":
        return runtime(request.param) / "include"
    if not installed():
        pytest.skip("this machine has no CUDA headers of its own")
    return installed()[-1]


def passed(letters: tuple[str, ...]) -> str:
    return "".join(IN_A_REGISTER.get(one, one) for one in letters)


def wrong(headers: Headers, table: wrappers.Table) -> list[str]:
    """Functions that the headers have and the table does not, or has otherwise."""
    found = [f"{name}: not classified" for name in sorted(headers.names() - {row.name for row in table.rows})
             if name not in table.passing]  # fmt: skip
    symbols = {row.symbol + ending: row for row in table.rows for ending in {"", row.threads}}
    forms = {(row.name, row.since, ""): row for row in table.rows}
    forms |= {(row.name, max(row.since or 0, 7000), row.threads): row for row in table.rows if row.threads}
    wrapped = {row.name for row in table.rows}
    for symbol, letters in headers.symbols.items():
        row = symbols.get(symbol)
        if row is None and any(symbol.startswith(name) and _is_form(symbol, name) for name in wrapped):
            found.append(f"{symbol}: a form that is not in the table")
        elif row is not None and row.letters != passed(letters):
            found.append(f"{symbol}: {passed(letters)}, not {row.letters}")
    for (name, version, ending), letters in headers.forms.items():
        row = forms.get((name, version, ending))
        if row is None and name in wrapped:
            found.append(f"{name} {version}{ending}: a version that is not in the table")
        elif row is not None and row.letters != passed(letters):
            found.append(f"{name} {version}{ending}: {passed(letters)}, not {row.letters}")
    return found


def _is_form(symbol: str, name: str) -> bool:
    return symbol[len(name) :][:2] in ("", "_v", "_p")


def test_every_function_of_the_headers_is_classified(include: Path, table: wrappers.Table) -> None:
    """Its forms, their versions, and how their parameters are passed."""
    headers = read(include)
    assert len(headers.names()) > 400
    assert wrong(headers, table) == []


def test_the_table_has_no_function_that_no_header_has(table: wrappers.Table) -> None:
    headers = [read(runtime(cuda) / "include") for cuda in RUNTIMES]
    known = set().union(*(one.names() for one in headers))
    symbols = {symbol for one in headers for symbol in one.symbols}
    assert {row.name for row in table.rows} | set(table.passing) <= known
    assert {row.symbol + ending for row in table.rows for ending in ("", row.threads)} <= symbols


@pytest.mark.parametrize(
    ("declared", "what"),
    [
        ("CUresult cuNewThing(CUstream s);", "cuNewThing: not classified"),
        ("CUresult cuLaunchKernelEx_v2(void *a, int b);", "cuLaunchKernelEx_v2: a form that is not in the table"),
        ("CUresult cuGraphLaunch(void *graph, unsigned int flags);", "cuGraphLaunch: PI, not PP"),
        ("typedef CUresult (*PFN_cuLaunch_v14000)(void *f);", "cuLaunch 14000: a version that is not in the table"),
    ],
)
def test_what_a_newer_header_has_is_seen(declared: str, what: str, tmp_path: Path, table: wrappers.Table) -> None:
    (tmp_path / "cuda.h").write_text(f"typedef int CUresult;\ntypedef struct s *CUstream;\n{declared}\n")
    assert wrong(read(tmp_path), table) == [what]


@pytest.mark.parametrize(
    ("line", "what"),
    [
        ("cuA 2000 - - work P\ncuA 2000 _v2 - work P", "more than one line: cuA"),
        ("pass cuA\ncuA 2000 - - work P", "more than one line: cuA"),
        ("cuA 2000 - - work P nothing", "line 1: cuA 2000 - - work P nothing: unknown: nothing"),
        ("cuA 2000 - often work", "unknown: often"),
        ("cuA late - - work", "invalid literal"),
        ("cuA 2000", "line 1: cuA 2000"),
    ],
)
def test_mistakes_in_a_table(line: str, what: str) -> None:
    with pytest.raises(wrappers.Mistake, match=what):
        wrappers.parse_wrappers(line)


def test_a_form_ends_where_the_next_begins() -> None:
    table = wrappers.parse_wrappers("newest 13050\ncuA 10000 - ptsz work P stream\ncuA 10010 _v2 ptsz work P I stream\n"
                           "cuB 2000 - - wait-event event")  # fmt: skip
    entries = [line.strip() for line in wrappers.generate_wrappers(table) if "ENTRY" in line]
    assert entries == [
        'ENTRY_OF(cuA, "cuA", false, 10000, 10010),', 'ENTRY_OF(cuA_ptsz, "cuA", true, 10000, 10010),',
        'ENTRY_OF(cuA_v2, "cuA", false, 10010, 13051),', 'ENTRY_OF(cuA_v2_ptsz, "cuA", true, 10010, 13051),',
        'ENTRY_OF(cuB, "cuB", false, 2000, 13051),', 'ENTRY_OF(cuB, "cuB", true, 2000, 13051),',
    ]  # fmt: skip


LAYOUTS = """
#define SAME(ours, theirs) _Static_assert((unsigned long)(ours) == (unsigned long)(theirs), #theirs)
#define AT(us, our, them, their) SAME(offsetof(struct us, our), offsetof(them, their))
AT(launch_config, stream, CUlaunchConfig, hStream);
AT(launch_config, attributes, CUlaunchConfig, attrs);
AT(launch_config, number, CUlaunchConfig, numAttrs);
SAME(sizeof(struct launch_attribute), sizeof(CUlaunchAttribute));
AT(launch_attribute, id, CUlaunchAttribute, id);
AT(launch_attribute, value, CUlaunchAttribute, value);
AT(launch_attribute, value.event, CUlaunchAttribute, value.programmaticEvent.event);
AT(launch_attribute, value.event, CUlaunchAttribute, value.launchCompletionEvent.event);
SAME(PROGRAMMATIC_EVENT, CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT);
SAME(LAUNCH_COMPLETION_EVENT, CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT);
SAME(sizeof(struct launch_params), sizeof(CUDA_LAUNCH_PARAMS_v1));
AT(launch_params, stream, CUDA_LAUNCH_PARAMS_v1, hStream);
AT(instantiate_params, flags, CUDA_GRAPH_INSTANTIATE_PARAMS, flags);
AT(instantiate_params, stream, CUDA_GRAPH_INSTANTIATE_PARAMS, hUploadStream);
SAME(INSTANTIATE_UPLOAD, CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD);
SAME(sizeof(CUmemLocation_v1), 8);
AT(graph_node, type, CUgraphNodeParams, type);
AT(graph_node, event, CUgraphNodeParams, eventRecord.event);
SAME(RECORDS_EVENT, CU_GRAPH_NODE_TYPE_EVENT_RECORD);
SAME(RECORD_EXTERNAL, CU_EVENT_RECORD_EXTERNAL);
"""


def test_the_layouts_that_the_library_reads(include: Path) -> None:
    code = f'#include <stddef.h>\n#include <cuda.h>\n#include "cuda_layouts.h"\n{LAYOUTS}'
    command = ["cc", *FLAGS, "-fsyntax-only", "-I", include, "-I", ROOT / "userlib/preload", "-xc", "-"]
    done = subprocess.run(command, input=code, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
