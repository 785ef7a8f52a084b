# SPDX-License-Identifier: GPL-2.0
"""The evidence about a system on one page."""
