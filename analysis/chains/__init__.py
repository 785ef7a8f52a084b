# SPDX-License-Identifier: GPL-2.0
"""Chains of tasks: how old a robot's data can be, and how long it takes to react (docs/readings/chains.md)."""
