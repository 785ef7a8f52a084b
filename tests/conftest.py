# SPDX-License-Identifier: GPL-2.0
"""What holds for all tests."""

from __future__ import annotations

import signal

# A shell without job control has what it puts into the background ignore SIGINT, and what that starts as well.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
