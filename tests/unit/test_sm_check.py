# SPDX-License-Identifier: GPL-2.0
"""`gpurt measure code`: our own kernel as clang and ptxas make it, and the same with one mistake planted in it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from calls import Gpurt, caller

HERE = Path(__file__).resolve().parent / "sm_check"
PTX, PTXAS = (HERE / "scale.ptx").read_text(), (HERE / "scale.txt").read_text()
READ = "\tmov.u32 %r16, %smid;\n"
WORK = "\tadd.f32 \t%f2, %f1, %f1;\n"
Judge = Callable[..., tuple[int, str, str]]


@pytest.fixture
def gpurt(capfd: pytest.CaptureFixture[str]) -> Gpurt:
    return caller(capfd)


@pytest.fixture
def judge(gpurt: Gpurt, tmp_path: Path) -> Judge:
    """Judges texts (each a file): exit code, stdout, stderr."""

    def call(*texts: str | bytes, options: tuple[str, ...] = ()) -> tuple[int, str, str]:
        paths = []
        for number, text in enumerate(texts):
            paths.append(tmp_path / f"text{number}")
            paths[-1].write_bytes(text if isinstance(text, bytes) else text.encode())
        return gpurt("measure", "code", *paths, *options)

    return call


def planted(text: str, old: str, new: str) -> str:
    assert text.count(old) == 1, old
    return text.replace(old, new)


def used(registers: int = 14, shared: int = 4, arch: str = "sm_75", name: str = "scale") -> str:
    return (PTXAS.replace("Used 14 ", f"Used {registers} ").replace("4 bytes smem", f"{shared} bytes smem")
            .replace("sm_75", arch).replace("scale", name))  # fmt: skip


def test_our_kernel_is_right(judge: Judge) -> None:
    code, out, err = judge(PTX, PTXAS, options=("--json",))
    document = json.loads(out)
    assert (code, document["right"], document["why"], err) == (0, True, None, "")
    assert document["kernels"] == [{
        "name": "scale", "architecture": "sm_75", "right": True, "reads_once": True, "two_blocks": True, "why": None,
        "block_threads": 512, "thread_registers": 14, "most_registers": 64, "shared_bytes": 4,
        "most_shared_bytes": 32768,
    }]  # fmt: skip
    assert judge(PTXAS, PTX)[0] == 0


@pytest.mark.parametrize(
    ("arch", "threads", "registers", "shared"),
    [("sm_60", 1024, 32, 32768), ("sm_61", 1024, 32, 49152), ("sm_62", 1024, 32, 32768), ("sm_70", 1024, 32, 49152),
     ("sm_72", 1024, 32, 49152), ("sm_75", 512, 64, 32768), ("sm_80", 1024, 32, 82944), ("sm_86", 768, 40, 50176),
     ("sm_87", 768, 40, 82944), ("sm_88", 768, 40, 50176), ("sm_89", 768, 40, 50176), ("sm_90", 1024, 32, 115712),
     ("sm_90a", 1024, 32, 115712), ("sm_100f", 1024, 32, 115712), ("sm_103", 1024, 32, 115712),
     ("sm_110", 768, 40, 115712), ("sm_120", 768, 40, 50176), ("sm_121a", 768, 40, 50176)],
)  # fmt: skip
def test_the_limits_are_exact(judge: Judge, arch: str, threads: int, registers: int, shared: int) -> None:
    """Two blocks of half an SM's threads; one register or byte more is too much."""
    text = planted(PTX, ".maxntid 512, 1, 1", f".maxntid {threads}, 1, 1")
    assert judge(text, used(registers, shared, arch))[0] == 0
    code, out, _ = judge(text, used(registers + 1, shared, arch))
    assert code == 1
    assert f"{registers + 1} registers a thread; two blocks of {threads} threads leave {registers}" in out
    code, out, _ = judge(text, used(registers, shared + 1, arch))
    assert (code, f"{shared + 1} bytes of shared memory; two blocks leave {shared} each" in out) == (1, True)


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [(WORK, WORK + "\tmov.u32 %r99, %smid;\n", "reads the SM's number more than once on some path"),
     ("LBB0_10:\n", "LBB0_10:\n\tmov.u32 %r99, %smid;\n", "reads the SM's number more than once on some path"),
     (READ, "\tmov.u32 %r16, 7;\n", "never reads the SM's number"),
     (READ, READ.replace("mov", "frobnicate"), "unclear: 'frobnicate.u32 %r16, %smid' is no instruction"),
     (WORK, "\tsetmaxnreg.inc.sync.aligned.u32 64;\n", "is no instruction that is known here"),
     (WORK, "\tcall.uni other, ();\n", "calls a function ('call.uni other, ()'): compile with optimization"),
     (WORK, "\tcall (%r1), malloc, (%r2);\n", "calls a function"),
     (WORK, "\tbra.uni NOWHERE;\n", "unclear: jumps to 'NOWHERE', which is not in it"),
     (WORK, "\tbrx.idx %r1, NOWHERE;\n", "unclear: where it jumps by"),
     (WORK, "LBB0_16:\n" + WORK, "unclear: label LBB0_16 is in it twice"),
     (".address_size 64", ".address_size 64\n.alias one, two;", "unclear: the text has .alias"),
     (".target sm_75", ".target sm_75, debug", "compile with optimization (nvcc without -G)"),
     (".maxntid 512, 1, 1", ".maxntid 256", "was compiled for 256 threads of a block at most; half of an SM of"),
     (".maxntid 512, 1, 1", ".reqntid 512", "unclear: demands a form of launch"),
     ("\tatom.global.add.u64 \t%rd22, [%rd2], %rd5;\n", "", "is no kernel of gpurt_sm.h"),
     ("\tld.param.u64 \t%rd7, [scale_param_2];\n", "\tst.global.u32 [%rd7], 1;\n", "stores into memory before"),
     (READ, "\tred.global.add.u32 [%rd7], 1;\n" + READ, "stores into memory before"),
     ("\tret;\n", "\tatom.global.add.u32 %r99, [%rd7], 1;\n\tret;\n", "stores into memory after"),
     ("\tret;\n", "\tst.u32 [%rd7], 1;\n\tret;\n", "stores into memory after"),
     ("\tld.param.u64 \t%rd7, [scale_param_2];\n", "\tbar.sync 0;\n\tst.global.u32 [%rd7], 1;\n",
      "stores into memory before"),
     ("\tret;\n", "\tst.u32 [%rd7], 1;\n\tbar.sync 0;\n\tret;\n", "stores into memory after"),
     (".address_size 64", ".address_size 64\n.extern .shared .align 4 .b8 more[];", "say how much with --dynamic")],
)  # fmt: skip
def test_a_planted_mistake_is_a_no(judge: Judge, old: str, new: str, why: str) -> None:
    code, out, err = judge(planted(PTX, old, new), PTXAS)
    assert code == 1
    assert why in out
    assert "Traceback" not in err


def test_a_function_named_as_one_of_the_system(judge: Judge) -> None:
    """It reads the SM's number itself; what is called is never taken for harmless by its name."""
    own = ".func malloc()\n{\n\tmov.u32 %r1, %smid;\n\tret;\n}\n.visible .entry scale("
    code, out, _ = judge(planted(planted(PTX, ".visible .entry scale(", own), WORK, "\tcall.uni malloc, ();\n"), PTXAS)
    assert (code, "unclear: calls a function" in out) == (1, True)


def test_jumps_by_a_table_are_followed(judge: Judge) -> None:
    table = "\tbrx.idx %r1, table;\ntable: .branchtargets LBB0_16, {};\n"
    assert judge(planted(PTX, WORK, table.format("LBB0_19")), PTXAS)[0] == 0
    code, out, _ = judge(planted(PTX, WORK, table.format("LBB0_3")), PTXAS)
    assert (code, "more than once" in out) == (1, True)


def test_predicates_and_scopes_of_inline_assembly(judge: Judge) -> None:
    inline = "\t{ .reg .pred p; setp.ne.s32 p, %r1, 0; @p bra skip; mov.b64 {%r1, %r2}, %rd6; skip: }\n"
    assert judge(planted(PTX, WORK, inline), PTXAS)[0] == 0


def test_one_text_alone_is_not_enough(judge: Judge) -> None:
    code, out, _ = judge(PTX)
    assert (code, "what it uses is not given: add what ptxas -v prints" in out) == (1, True)
    code, out, _ = judge(PTXAS)
    assert (code, "its code is not given: add its PTX" in out) == (1, True)
    code, out, _ = judge(PTX, used(name="other"))
    assert (code, out.count("NO: ")) == (1, 2)


def test_an_architecture_that_is_not_known(judge: Judge) -> None:
    for arch in ("sm_53", "sm_130", "sm_90b", "sm_101"):
        code, out, _ = judge(PTX, used(arch=arch))
        assert (code, f"what an SM of {arch} holds is not known" in out) == (1, True)


def test_two_kernels_are_judged_each(judge: Judge) -> None:
    more = PTX[PTX.index(".visible .entry") :].replace("scale", "other")
    both = PTX + more.replace(WORK, WORK + "\tmov.u32 %r99, %smid;\n")
    texts = (both, PTXAS + used(name="other"))
    code, out, _ = judge(*texts)
    assert (code, out.count("NO: "), "NO: other (sm_75): reads" in out) == (1, 1, True)
    assert judge(*texts, options=("--kernel", "scale"))[0] == 0
    assert judge(*texts, options=("--kernel", "other"))[0] == 1
    code, _, err = judge(*texts, options=("--kernel", "third"))
    assert (code, "no kernel is named 'third'" in err) == (2, True)


def test_shared_memory_that_the_launch_adds(judge: Judge) -> None:
    text = planted(PTX, ".address_size 64", ".address_size 64\n.extern .shared .align 4 .b8 more[];")
    assert judge(text, PTXAS, options=("--dynamic", "32764"))[0] == 0
    code, out, err = judge(text, PTXAS, options=("--dynamic", "32765"))
    assert (code, "32769 bytes of shared memory" in out, "SharedMemoryCarveout" in err) == (1, True, True)
    text = planted(text, ".maxntid 512", ".maxntid 1024")
    for dynamic, asks in ((48 * 1024 - 4, False), (48 * 1024 - 3, True)):
        code, _, err = judge(text, used(arch="sm_80"), options=("--dynamic", str(dynamic)))
        assert (code, "MaxDynamicSharedMemorySize" in err) == (0, asks)


def test_spilled_registers_are_told(judge: Judge) -> None:
    code, _, err = judge(PTX, PTXAS.replace("0 bytes spill loads", "8 bytes spill loads"))
    assert (code, "keeps registers or variables in memory" in err) == (0, True)


@pytest.mark.parametrize(
    ("text", "why"),
    [("", "expected PTX"), ("\n", "is neither"), (PTX.encode() + b"\0", "is binary"),
     (b"\x7fELF\xff\xfe", "is not UTF-8"),
     (b"\x7fELF" + bytes(14) + b"\xe0\0", "for an AMD GPU, which is not judged"),
     ('\t.amdgcn_target "amdgcn-amd-amdhsa--gfx906"\nscale:\n\ts_endpgm\n', "Use CU masks"),
     (PTX + PTXAS, "is both"), (".version 6.3\n.target sm_75\n", "has no kernel"),
     (PTX[: PTX.index("ret;")], "ends within scale: it is not whole"),
     (PTX[: PTX.index(".maxntid")], "ends within scale"),
     (PTX + "/* ", "ends within a comment"), (PTX + ".entry 7()", "a kernel without a name"),
     (PTXAS[: PTXAS.index("ptxas info    : Used")], ":2: scale has no line"),
     (PTXAS[: PTXAS.index(" registers")], ":5: the last line has no end"),
     (PTXAS[: PTXAS.index(" registers")] + "\n", ":5: expected \"Used N registers"),
     (PTXAS[: PTXAS.index(" bytes smem")] + "\n", ":5: '4' is not known"),
     (PTXAS[PTXAS.index("ptxas info    : Used"):], ":1: says of no kernel"),
     (PTXAS.replace("'scale'", "scale"), ":2: names no kernel")],
)  # fmt: skip
def test_what_is_no_whole_text_is_refused(judge: Judge, text: str | bytes, why: str) -> None:
    code, out, err = judge(PTX, text)
    assert (code, out, err.count("\n"), why in err) == (3, "", 1, True), err


def test_every_cut_of_the_texts_is_refused_or_a_no(judge: Judge) -> None:
    """Nothing that is cut off, wherever, is taken for right."""
    last = PTXAS.index("ptxas info    : Compile time")  # what follows says nothing of the kernel
    for at in range(0, last, 7):
        assert judge(PTX, PTXAS[:at])[0] in (1, 3), PTXAS[:at]
    for at in range(0, PTX.rindex("}"), 29):
        assert judge(PTX[:at], PTXAS)[0] in (1, 3), PTX[:at]
