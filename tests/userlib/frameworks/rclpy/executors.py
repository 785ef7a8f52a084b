# SPDX-License-Identifier: GPL-2.0

import rclpy


class ExternalShutdownException(Exception):
    pass


class SingleThreadedExecutor:
    """Calls each callback three times, with a message; then Ctrl-C comes."""

    def __init__(self):
        self.nodes = []

    def add_node(self, node):
        self.nodes.append(node)

    def spin(self):
        for node in self.nodes:
            for callback in node.callbacks * 3:
                callback("a message")
        rclpy.stop()
        raise ExternalShutdownException
