# SPDX-License-Identifier: GPL-2.0
"""Chains of tasks: how old what a robot acts on can be, and how long it takes to react (docs/readings/chains.md)."""
