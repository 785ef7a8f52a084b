# SPDX-License-Identifier: GPL-2.0
"""A taskset file whose GPU is divided."""

_TASK = """[[task]]
name = "new"
cpu = 1
priority = 5
period = "100ms"
segments = [{ misc = "1ms", gpu = { parallel = "1ms" } }]
"""
_PLACED = """[platform]
cpus = 2
epsilon = "0ns"
compute_units = 4
[[partition]]
name = "one"
compute_units = 2
""" + _TASK.replace('"new"', '"old"').replace("cpu = 1", 'cpu = 0\npartition = "one"')
#: Two partitions under policy `segment`, whose tasks share a CPU.
COUPLED = _PLACED.replace("[platform]", '[platform]\npolicy = "segment"') + (
    '[[partition]]\nname = "two"\ncompute_units = 1\n'
) + _TASK.replace('"new"', '"second"').replace("cpu = 1", 'cpu = 0\npartition = "two"')
