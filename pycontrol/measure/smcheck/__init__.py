# SPDX-License-Identifier: GPL-2.0
"""Whether a kernel keeps to its SMs."""
