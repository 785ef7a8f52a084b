# SPDX-License-Identifier: GPL-2.0
"""What runs, held against what a file says."""
