# SPDX-License-Identifier: GPL-2.0
"""Sensors of power and energy behind one interface, and what a program costs by them."""
