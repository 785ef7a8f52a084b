# SPDX-License-Identifier: GPL-2.0
"""HSA_CU_MASK: what ROCm takes, what it drops without a word, and what it takes by accident."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis.masks.hsa_text import MaskTextError, RocrLimits, parse_hsa, write_masks

TAKEN: list[tuple[str, dict[int, int]]] = [
    ("0:0xff", {0: 0xFF}),
    ("0,2-3:0-15,32-47; 7:0x337F", {0: 0xFFFF0000FFFF, 2: 0xFFFF0000FFFF, 3: 0xFFFF0000FFFF, 7: 0x337F}),
    ("0 : 0 X f F ;", {0: 0xFF}),
    ("1:5", {1: 0x20}),
    ("1:5-5", {1: 0x20}),
    ("0:0x" + "0" * 255 + "1", {0: 1}),
]  # fmt: skip
#: A text, the set with the mistake, how many sets ROCm ignores, and a word of the message.
WRONG = [
    ("", 1, 1, "GPUs:CUs"), ("0", 1, 1, "GPUs:CUs"), ("0:1:2", 1, 1, "GPUs:CUs"), (";0:1", 1, 2, "GPUs:CUs"),
    ("0:1;;1:1", 2, 2, "GPUs:CUs"), ("0:0x", 1, 1, "no hexadecimal mask"), ("0:0xfg", 1, 1, "no hexadecimal mask"),
    ("0:0x0", 1, 1, "has no CU"), ("0:", 1, 1, "is no CU"), (":1", 1, 1, "is no GPU"),
    ("0:1,1", 1, 1, "CU 1 is named twice"), ("0:1-3,2", 1, 1, "CU 2 is named twice"),
    ("0:1;0:2", 2, 1, "GPU 0 is named twice"), ("0,0:1", 1, 1, "GPU 0 is named twice"),
    ("0:3-1", 1, 1, "upside down"), ("0:-3", 1, 1, "is no CU"), ("0:3-", 1, 1, "is no CU"),
    ("0:1,", 1, 1, "is no CU"), ("0:1024", 1, 1, "past the last"), ("256:1", 1, 1, "past the last"),
    ("0:ff", 1, 1, "is no CU"), ("0:١", 1, 1, "is no CU"), ("0:1;1:x;2:1;3:1", 2, 3, "is no CU"),
    ("0:0-999999999", 1, 1, "is no CU"), ("0:0x" + "f" * 257, 1, 1, "no hexadecimal"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "masks"), TAKEN)
def test_what_rocm_takes(text: str, masks: dict[int, int]) -> None:
    assert parse_hsa(text) == masks


@pytest.mark.parametrize(("text", "number", "lost", "word"), WRONG, ids=[repr(one[0][:30]) for one in WRONG])
def test_what_rocm_drops(text: str, number: int, lost: int, word: str) -> None:
    with pytest.raises(MaskTextError) as raised:
        parse_hsa(text)
    assert (raised.value.number, raised.value.lost) == (number, lost)
    assert word in str(raised.value)
    assert ("after it" in str(raised.value)) == (lost > 1)


@pytest.mark.parametrize(
    ("text", "number", "word"),
    [("2:0xff;0:0xff", 1, "the machine has 2 GPUs"), ("0:0xff;2-9:1", 2, "the machine has 2 GPUs"),
     ("1:0xf000000000000000;0:0xff", 1, "the largest has 60"), ("0:1;1:60-70", 2, "the largest has 60")],
)  # fmt: skip
def test_what_this_machine_makes_a_mistake(text: str, number: int, word: str) -> None:
    """ROCr drops ids past the machine's GPUs and CUs; a set of which nothing is left ends what it reads."""
    parse_hsa(text)
    with pytest.raises(MaskTextError, match=word) as raised:
        parse_hsa(text, RocrLimits(2, 60))
    assert raised.value.number == number
    assert parse_hsa("0,2:0xff;1:59-60", RocrLimits(2, 60))[0] == 0xFF


@given(st.dictionaries(st.integers(0, 255), st.integers(1, 2**1024 - 1), min_size=1, max_size=6))
def test_what_is_written_is_read(masks: dict[int, int]) -> None:
    assert parse_hsa(write_masks(masks)) == masks


@pytest.mark.parametrize("masks", [{0: 0}, {0: 1 << 1024}, {0: -1}, {256: 1}, {-1: 1}])
def test_what_cannot_be_written(masks: dict[int, int]) -> None:
    with pytest.raises(ValueError, match="cannot be written"):
        write_masks(masks)


@given(st.text(alphabet="0123456789abxX,-:; \t", max_size=40))
def test_every_text_is_taken_or_refused(text: str) -> None:
    try:
        masks = parse_hsa(text)
    except MaskTextError:
        return
    assert all(masks.values())
