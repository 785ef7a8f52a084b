# SPDX-License-Identifier: GPL-2.0
"""The whole of patched amdgpu.ko in a kernel with gpurt.ko and without a card, which test_amdgpu_module.py builds.

Without a card it has no GPU to announce.  So a module asks it whether somebody is attached: port_probe/.
"""

from __future__ import annotations

import errno
from collections.abc import Iterator
from pathlib import Path

import pytest
from links import eventually
from loading import OUT, load, unload
from modules import insert, remove
from patched import facts

pytestmark = pytest.mark.skipif(
    not (OUT / "amdgpu.ko").exists(), reason="needs patched amdgpu.ko, which test_amdgpu_module.py builds"
)
ATTACHED, FREE, ABSENT = errno.EBUSY, errno.ECANCELED, errno.ENOENT


def port() -> int:
    """What the driver's port says to one more that wants to attach."""
    with pytest.raises(OSError, match="port_probe") as caught:
        insert(OUT / "port_probe.ko")
    return caught.value.errno or 0


@pytest.fixture(scope="module", autouse=True)
def _needed() -> Iterator[None]:
    """Modules of this kernel that amdgpu.ko needs, which came with it; gpurt is in the end as others expect it."""
    unload()
    order = (OUT / "needed").read_text().split()
    for name in order:
        insert(OUT / name)
    yield
    for name in reversed(order):
        eventually(lambda name=name: remove(name.removesuffix(".ko").replace("-", "_")))  # type: ignore[misc]
    load()


def test_the_driver_comes_and_goes_beside_gpurt() -> None:
    load("vgpus=0")
    for _ in range(2):
        insert(OUT / "amdgpu.ko")
        eventually(lambda: port() == ATTACHED)
        assert facts() == []
        eventually(lambda: remove("amdgpu"))
        assert port() == ABSENT
    unload()


def test_gpurt_comes_and_goes_beside_the_driver() -> None:
    insert(OUT / "amdgpu.ko")
    assert port() == FREE
    for _ in range(2):
        load("vgpus=0")
        assert (port(), facts()) == (ATTACHED, [])
        unload()
        assert port() == FREE
    eventually(lambda: remove("amdgpu"))
    assert not Path("/sys/module/amdgpu").exists()
