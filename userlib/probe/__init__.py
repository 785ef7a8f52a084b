# SPDX-License-Identifier: GPL-2.0 OR MIT
"""Finds out what an NVIDIA GPU and its unmodified driver let an ordinary process do to the GPU's schedule.

Writes docs/hardware/GPU-DRIVER.json (docs/hardware/README.md explains it).  Takes up to three minutes, on
the first GPU.  The probe changes no clock, power, persistence or compute mode and resets nothing.  It acts only on
the groups of its own processes.  It needs Python 3.10, a C compiler and the driver.  Root's report says more.
"""
