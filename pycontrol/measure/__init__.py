# SPDX-License-Identifier: GPL-2.0
"""Measures times, energy and boards."""
