# SPDX-License-Identifier: GPL-2.0
"""The published case study under every policy: running it, its table, its picture."""
