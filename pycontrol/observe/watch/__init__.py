# SPDX-License-Identifier: GPL-2.0
"""A running system that is watched."""
