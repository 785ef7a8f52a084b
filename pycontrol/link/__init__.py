# SPDX-License-Identifier: GPL-2.0
"""The client of a host: the control plane and its transports."""
