# SPDX-License-Identifier: GPL-2.0
"""sBEET and sBEET-mg: the authors' profiles, their way to draw tasksets, and the statistics of their figures."""
