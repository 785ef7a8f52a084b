# SPDX-License-Identifier: GPL-2.0
"""Analyses, simulator and experiments of gpurt."""
