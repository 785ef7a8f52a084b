# SPDX-License-Identifier: GPL-2.0


class SingleThreadedExecutor:
    """Calls each callback three times, with a message."""

    def __init__(self):
        self.nodes = []

    def add_node(self, node):
        self.nodes.append(node)

    def spin(self):
        for node in self.nodes:
            for callback in node.callbacks * 3:
                callback("a message")
