# SPDX-License-Identifier: GPL-2.0
"""Watches a running system."""
