# SPDX-License-Identifier: GPL-2.0
"""The part of rclpy's interface that docs/frameworks.md uses."""

running = False


def init():
    global running
    running = True


def ok():
    return running


def shutdown():
    assert running, "shut down already"
    stop()


def stop():
    """As a signal does."""
    global running
    running = False
