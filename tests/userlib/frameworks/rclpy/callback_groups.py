# SPDX-License-Identifier: GPL-2.0


class MutuallyExclusiveCallbackGroup:
    pass
