# SPDX-License-Identifier: GPL-2.0
"""gpurt's control plane, user-space host and command line."""
