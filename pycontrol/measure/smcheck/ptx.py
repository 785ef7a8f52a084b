# SPDX-License-Identifier: GPL-2.0
"""Kernels of a PTX text: their paths, and where they read %smid."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from pycontrol.measure.smcheck.code import Code, Instruction

NAME = r"[A-Za-z_$%][\w$]*"
#: Strings and comments.
ASIDE = re.compile(r'"(?:\\.|[^"\\\n])*"|/\*.*?\*/|//[^\n]*', re.DOTALL)
HEAD = re.compile(rf"\.(entry|func)\b(?:\s*\.\w+)*\s*(?:\([^)]*\)\s*)?({NAME})")
OPENS = re.compile(r"[;{]")
BRACE = re.compile(r"[{}]")
MOST_THREADS = re.compile(r"\.maxntid\s+(\d{1,9})(?:\s*,\s*(\d{1,9}))?(?:\s*,\s*(\d{1,9}))?")
#: The text that may stand before an instruction: a scope's brace, a line number, a label.
BEFORE = re.compile(rf"\s*(?:[{{}}]|\.loc\b[^\n]*(?:\n|$)|({NAME})\s*:(?!:))")
INSTRUCTION = re.compile(r"(@!?[\w$%]+\s+)?([a-z]\w*)((?:\.|::)[\w.:]*)?(?:\s+([^\s{}:;][^:;]*|\{[^:;]*))?")
DECLARES = re.compile(r"\.(?:reg|shared|local|param|pragma|branchtargets)\b")
READ = re.compile(r"%smid\b")
LOOP_MARK = "gpurt_sm_next"
TAKES = re.compile(r"(?:@\S+\s+)?atom\.[\w.:]*add[\w.:]*\.u64")
BARRIER = re.compile(r"(?:@\S+\s+)?(?:bar|barrier)\.(?:cta\.)?(?:sync|red)")
#: Instructions that store into memory: these words of `operation.modifiers`, unless it is a block's or thread's own.
STORES = re.compile(r"(?:st|red|atom|sust|sured|wmma\.store|cp\.async\.bulk|cp\.reduce)\b(?!.*\.(?:commit|wait)_group)")
OWN = re.compile(r"(?:st|red|atom|wmma\.store)\b.*\.(?:shared|local|param)\b")
ADDS = re.compile(r"atom\b.*\.add\b")
JUMPS = ("bra", "brx")
BLOCK_ENDS = (*JUMPS, "ret", "exit", "trap")
#: Instructions that go on with the next one.  Those that may change a thread's registers are not among them.
PLAIN = {
    "abs", "activemask", "add", "addc", "and", "applypriority", "atom", "bar", "barrier", "bfe", "bfi", "bfind",
    "bmsk", "brev", "clz", "cnot", "copysign", "cos", "cp", "createpolicy", "cvt", "cvta", "discard", "div", "dp2a",
    "dp4a", "ex2", "fence", "fma", "fns", "isspacep", "ld", "ldmatrix", "ldu", "lg2", "lop3", "mad", "mad24",
    "madc", "match", "max", "mbarrier", "membar", "min", "mma", "mov", "movmatrix", "mul", "mul24", "nanosleep",
    "neg", "not", "or", "popc", "prefetch", "prefetchu", "prmt", "rcp", "red", "redux", "rem", "rsqrt", "sad",
    "selp", "set", "setp", "shf", "shfl", "shl", "shr", "sin", "slct", "sqrt", "st", "stmatrix", "sub", "subc",
    "suld", "suq", "sured", "sust", "szext", "tanh", "testp", "tex", "tld4", "txq", "vote", "wmma", "xor",
}  # fmt: skip


@dataclass(slots=True)
class Body:
    """The statements of a kernel; ``labels``: label -> number of the statement that follows it."""

    statements: list[str]
    labels: dict[str, int]
    twice: str = ""


def is_ptx(text: str) -> bool:
    """Whether a text says that it is PTX."""
    return bool(re.search(r"^\s*\.version\s+\d", text, re.MULTILINE))


def ptx_kernels(text: str) -> list[Code]:
    """The kernels of a text.  Raises ValueError if it is not whole."""
    text = ASIDE.sub(" ", text)
    if "/*" in text or '"' in text:
        raise ValueError("ends within a comment or a string: it is not whole")
    found = list[Code]()
    at = heads = 0
    while head := HEAD.search(text, at):
        heads += head[1] == "entry"
        opens = OPENS.search(text, head.end())
        if opens is None:
            raise ValueError(f"ends within {head[2]}: it is not whole")
        at = opens.end()
        if opens[0] == ";":
            continue
        closes = _closing(text, at)
        if closes is None:
            raise ValueError(f"ends within {head[2]}: it is not whole")
        if head[1] == "entry":
            found.append(_kernel(head[2], _body(text[at:closes]), text[head.end() : opens.start()]))
        at = closes + 1
    if heads != len(re.findall(r"\.entry\b", text)):
        raise ValueError("has a kernel without a name, or in a form that is not known")
    unclear = _unclear(text)
    return [replace(code, unclear=unclear or code.unclear, adds_shared=_adds_shared(text)) for code in found]


def _unclear(text: str) -> str:
    """Why nothing is known of any kernel of the text; empty if that is not so."""
    if re.search(r"\.target\b[^\n]*\bdebug\b", text):
        return "was compiled for a debugger: compile with optimization (nvcc without -G)"
    if re.search(r"\.alias\b", text):
        return "unclear: the text has .alias, which is not followed"
    return ""


def _adds_shared(text: str) -> bool:
    """Whether there may be shared memory whose size the launch says."""
    return bool(re.search(r"\.extern\b[^;]*\.shared\b", text))


def _closing(text: str, at: int) -> int | None:
    depth = 1
    for brace in BRACE.finditer(text, at):
        depth += 1 if brace[0] == "{" else -1
        if not depth:
            return brace.start()
    return None


def _body(text: str) -> Body:
    body = Body([], {})
    for chunk in text.split(";"):
        at = 0
        while before := BEFORE.match(chunk, at):
            if before[0].strip() == "{" and "}" in chunk[before.end() :]:
                break  # a list of operands, at a place where none is known
            at = before.end()
            if label := before[1]:
                body.twice = label if label in body.labels else body.twice
                body.labels[label] = len(body.statements)
        if statement := chunk[at:].strip():
            body.statements.append(statement)
    return body


def _kernel(name: str, body: Body, head: str) -> Code:
    marks = any(LOOP_MARK in one for one in body.statements) and any(map(TAKES.match, body.statements))
    marks = marks and sum(bool(BARRIER.match(one)) for one in body.statements) > 1
    threads = None
    if found := MOST_THREADS.search(head):
        threads = int(found[1]) * int(found[2] or 1) * int(found[3] or 1)
    code = Code(name, marks, (), most_threads=threads)
    if re.search(r"\.(?:reqntid|reqnctapercluster|explicitcluster)\b", head):
        return replace(code, unclear="unclear: demands a form of launch (.reqntid or clusters) that is not judged")
    if body.twice:
        return replace(code, unclear=f"unclear: label {body.twice} is in it twice")
    try:
        return replace(code, steps=tuple(_step(statement, body) for statement in body.statements))
    except ValueError as error:
        return replace(code, unclear=str(error))


def _step(statement: str, body: Body) -> Instruction:
    """Raises ValueError for what is not known, with the reason."""
    shown = " ".join(statement.split())[:60]
    if DECLARES.match(statement):
        return Instruction(False, (), True)
    found = INSTRUCTION.fullmatch(statement)
    if found is None:
        raise ValueError(f"unclear: {shown!r} is no instruction that is known here")
    depends, operation, rest = bool(found[1]), found[2], found[4] or ""
    if operation == "call":
        raise ValueError(f"unclear: calls a function ({shown!r}): compile with optimization, so that none is left")
    if operation not in PLAIN and operation not in BLOCK_ENDS:
        raise ValueError(f"unclear: {shown!r} is no instruction that is known here")
    whole = operation + (found[3] or "")
    stores, counts = bool(STORES.match(whole) and not OWN.match(whole)), bool(ADDS.match(whole))
    return Instruction(
        bool(READ.search(statement)), _targets(operation, rest, body), depends or operation not in BLOCK_ENDS,
        always=not depends, waits=bool(BARRIER.match(statement)), takes=bool(TAKES.match(statement)),
        stores=stores and not counts, counts=stores and counts,
    )  # fmt: skip


def _targets(operation: str, rest: str, body: Body) -> tuple[int, ...]:
    if operation not in JUMPS:
        return ()
    names = [rest]
    if operation == "brx":
        listed = body.labels.get(rest.rsplit(",", 1)[-1].strip(), len(body.statements))
        line = body.statements[listed] if listed < len(body.statements) else ""
        if not line.startswith(".branchtargets"):
            raise ValueError(f"unclear: where it jumps by {rest.strip()!r} is not in it")
        names = line.removeprefix(".branchtargets").split(",")
    for name in names:
        if name.strip() not in body.labels:
            raise ValueError(f"unclear: jumps to {name.strip()!r}, which is not in it")
    return tuple(body.labels[name.strip()] for name in names)
