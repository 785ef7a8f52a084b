# SPDX-License-Identifier: GPL-2.0


class Node:
    def __init__(self, node_name):
        self.callbacks = []

    def create_subscription(self, msg_type, topic, callback, qos_profile, *, callback_group):
        self.callbacks.append(callback)
