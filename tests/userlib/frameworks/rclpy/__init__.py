# SPDX-License-Identifier: GPL-2.0
"""The part of rclpy's interface that docs/frameworks.md uses."""


def init():
    pass


def shutdown():
    pass
