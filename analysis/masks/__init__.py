# SPDX-License-Identifier: GPL-2.0
"""Compute-unit masks of AMD's GPUs: what a mask enables, what it is worth, and how to divide a GPU (docs/cu-masks.md).

Nothing here reads the machine: pycontrol/machine/topology.py does.
"""
