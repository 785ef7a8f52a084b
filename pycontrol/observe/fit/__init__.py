# SPDX-License-Identifier: GPL-2.0
"""Whether a host is as a file says."""
