# SPDX-License-Identifier: GPL-2.0
"""Papers repeated and compared with: their tests to the letter, baselines, generators, readings and experiments.

Nothing that answers for a user's system imports it, as scripts/check-layers checks; `gpurt experiment` is its door.
"""
