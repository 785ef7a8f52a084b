# SPDX-License-Identifier: GPL-2.0
"""The user-space host: the kernel module's interface on a Unix socket, over virtual GPUs or over agents."""
