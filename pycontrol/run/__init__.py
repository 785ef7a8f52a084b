# SPDX-License-Identifier: GPL-2.0
"""Tasks as real processes: starting, placing, preloading and measuring them, and what they report."""
