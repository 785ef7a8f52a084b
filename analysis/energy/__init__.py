# SPDX-License-Identifier: GPL-2.0
"""Energy-aware scheduling of GPU jobs in space: sBEET, sBEET-mg, and policies compared with them (docs/energy.md)."""
