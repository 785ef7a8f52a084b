# SPDX-License-Identifier: GPL-2.0
"""A taskset file whose GPU is divided, and a task for `gpurt plan partitions FILE TASK` that it has room for."""

TASK = """[[task]]
name = "new"
cpu = 1
priority = 5
period = "100ms"
segments = [{ misc = "1ms", gpu = { parallel = "1ms" } }]
"""
PLACED = """[platform]
cpus = 2
epsilon = "0ns"
compute_units = 4
[[partition]]
name = "one"
compute_units = 2
""" + TASK.replace('"new"', '"old"').replace("cpu = 1", 'cpu = 0\npartition = "one"')
#: Two partitions under policy `segment`, whose tasks share a CPU.
COUPLED = PLACED.replace("[platform]", '[platform]\npolicy = "segment"') + (
    '[[partition]]\nname = "two"\ncompute_units = 1\n'
) + TASK.replace('"new"', '"second"').replace("cpu = 1", 'cpu = 0\npartition = "two"')
