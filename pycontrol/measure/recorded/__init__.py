# SPDX-License-Identifier: GPL-2.0
"""Recordings of other tools, read for what they prove."""
