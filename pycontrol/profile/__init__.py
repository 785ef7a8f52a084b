# SPDX-License-Identifier: GPL-2.0
"""Measures the GPU segments of a program: many runs, with inputs and conditions varied (`gpurt measure times`)."""
