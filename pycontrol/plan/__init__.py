# SPDX-License-Identifier: GPL-2.0
"""Plans of a GPU's use: how it is divided, in which slices, for how much energy, and where one more task fits."""
