# SPDX-License-Identifier: GPL-2.0
"""Papers, repeated and compared: their tests to the letter, baselines, generators, readings and experiments.

No code that answers about a user's system imports it (scripts/check-layers checks this); `gpurt experiment` uses it.
"""
