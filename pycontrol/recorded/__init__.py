# SPDX-License-Identifier: GPL-2.0
"""Recordings of other profilers: what they say of a program's jobs and of its GPU work, and what they do not say."""
