# SPDX-License-Identifier: GPL-2.0
"""The schedulers of analysis/energy as they read in the papers; userlib/units/sbeet.c decides the same."""
