# SPDX-License-Identifier: GPL-2.0
"""Programs of a file that are started."""
