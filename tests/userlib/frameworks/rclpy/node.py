# SPDX-License-Identifier: GPL-2.0


class Node:
    def __init__(self, name):
        self.callbacks = []

    def create_subscription(self, kind, topic, callback, depth, *, callback_group):
        self.callbacks.append(callback)
