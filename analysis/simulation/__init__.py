# SPDX-License-Identifier: GPL-2.0
"""The simulator, which runs the shipped scheduler in virtual time."""
