# SPDX-License-Identifier: GPL-2.0
"""The library's memory of objects in NVIDIA's resource manager, alone: what is forgotten with a descriptor."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = r"""
#include <assert.h>
#include <stddef.h>
#include "nvidia.h"

struct tsg *agent_find(const struct gpu_file *file, uint32_t client, uint32_t handle)
{
	(void)file, (void)client, (void)handle;
	return NULL;
}

void agent_remove(struct tsg *tsg)
{
	(void)tsg;
}

void agent_refresh(struct tsg *tsg)
{
	(void)tsg;
}

void preload_say(const char *format, ...)
{
	(void)format;
}

static void make(struct gpu_file *file, uint32_t client, uint32_t object, uint32_t parent)
{
	const struct rm_alloc alloc = { .client = client, .object = object, .parent = parent, .class = RM_CLASS_DEVICE };

	rm_remember(file, &alloc, 0);
}

/* A descriptor that is closed takes all its objects along, in any order, and nobody else's. */
int main(void)
{
	struct gpu_file one = { .id = 1 }, other = { .id = 2 };

	make(&one, 7, 70, 7);
	make(&other, 7, 70, 7);
	make(&one, 7, 71, 70);
	make(&one, 8, 80, 8);
	rm_forget_file(&one);
	assert(!rm_find(1, 7, 70) && !rm_find(1, 7, 71) && !rm_find(1, 8, 80) && rm_find(2, 7, 70));
	rm_forget_file(&one);
	make(&one, 7, 70, 7);
	assert(rm_find(1, 7, 70) != rm_find(2, 7, 70));
	rm_forget_file(&other);
	assert(rm_find(1, 7, 70) && !rm_find(2, 7, 70));
	rm_forget_file(&one);
	assert(!rm_objects);
	return 0;
}
"""


@pytest.mark.skipif(not shutil.which("cc"), reason="needs a compiler")
def test_objects_of_a_closed_descriptor_are_forgotten(tmp_path: Path) -> None:
    (tmp_path / "objects.c").write_text(PROGRAM)
    folders = ("userlib/preload", "userlib/include", "kmod/uapi", "userlib", ".")
    sources = [tmp_path / "objects.c", ROOT / "userlib/preload/nvidia_objects.c"]
    flags = ["-D_GNU_SOURCE", "-g", "-fsanitize=address,undefined", *(f"-I{ROOT / folder}" for folder in folders)]
    subprocess.run(["cc", *flags, *sources, "-o", tmp_path / "objects"], check=True, timeout=200)
    done = subprocess.run([tmp_path / "objects"], capture_output=True, text=True, timeout=200, check=False)
    assert (done.returncode, done.stderr) == (0, "")
