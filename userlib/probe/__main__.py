# SPDX-License-Identifier: GPL-2.0 OR MIT
"""``python -m probe``: the same as ``scripts/probe-nvidia``."""

import sys

from probe.command import probe_main

sys.exit(probe_main())
