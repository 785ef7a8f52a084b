# SPDX-License-Identifier: GPL-2.0
"""The recorded attacks on the tests; written by scripts/record-attacks."""

from typing import NamedTuple


class Attack(NamedTuple):
    """``bounded``: tasksets that the test bounded; ``jobs``: simulated, none late; ``formula``: a hash of its code."""

    bounded: int
    jobs: int
    formula: str


ATTACKS: dict[str, Attack] = {
    "gcaps-suspend": Attack(181, 331_529, "1d5a09609b331243"),
    "gcaps-suspend+gpu-priority": Attack(204, 363_707, "1d5a09609b331243"),
    "gcaps-busy": Attack(170, 272_220, "9a74d480a2ad580c"),
    "gcaps-busy+gpu-priority": Attack(206, 332_887, "9a74d480a2ad580c"),
    "gcaps-mixed": Attack(174, 325_662, "28c4737ea7db9055"),
    "gcaps-mixed+gpu-priority": Attack(202, 410_542, "28c4737ea7db9055"),
    "boosted-suspend": Attack(171, 624_867, "d6c978833b27edcd"),
    "boosted-suspend+gpu-priority": Attack(215, 840_528, "d6c978833b27edcd"),
    "boosted-busy": Attack(157, 233_931, "d6c978833b27edcd"),
    "boosted-busy+gpu-priority": Attack(182, 338_635, "d6c978833b27edcd"),
    "boosted-busy-fence": Attack(188, 374_520, "d6c978833b27edcd"),
    "boosted-busy-fence+gpu-priority": Attack(208, 416_360, "d6c978833b27edcd"),
    "boosted-mixed": Attack(170, 585_080, "d6c978833b27edcd"),
    "boosted-mixed+gpu-priority": Attack(197, 577_178, "d6c978833b27edcd"),
    "tsg-rr-suspend": Attack(184, 296_176, "0ba072a416d09e26"),
    "tsg-rr-busy": Attack(108, 148_537, "a211091f6f1958c7"),
    "supply-fp": Attack(158, 252_824, "24e99808611095ed"),
    "supply-edf": Attack(142, 203_707, "24e99808611095ed"),
    "supply-fp-busy": Attack(105, 138_673, "24e99808611095ed"),
    "supply-fp-mixed": Attack(134, 175_326, "24e99808611095ed"),
    "partitioned-suspend": Attack(176, 301_038, "33e0558af2a2c52d"),
    "partitioned-busy": Attack(174, 333_946, "3486cea52cbe14dc"),
    "lock-priority-suspend": Attack(92, 103_444, "3baa32e2e903b501"),
    "lock-priority-busy": Attack(105, 121_603, "b335f4560e754a26"),
    "lock-fifo-suspend": Attack(80, 101_562, "078d0110c6f1bef4"),
    "lock-fifo-busy": Attack(73, 86_372, "0b63f1b635ace2c9"),
    "thesis-kthread-busy": Attack(84, 87_003, "ee1907c36553bcd2"),
    "thesis-kthread-busy+gpu-priority": Attack(117, 164_244, "ee1907c36553bcd2"),
    "mpcp-suspend": Attack(129, 181_301, "ad908c8db464a85d"),
    "fmlp-suspend": Attack(113, 158_363, "611d7e83816150c0"),
    "mpcp-busy": Attack(126, 152_775, "8069648344c66a95"),
    "fmlp-busy": Attack(112, 154_451, "60f386c54b25a344"),
    "thesis-kthread-notify-busy": Attack(163, 274_830, "e4660b91225f9901"),
    "thesis-kthread-notify-busy+gpu-priority": Attack(200, 351_567, "e4660b91225f9901"),
    "thesis-ioctl-suspend": Attack(178, 304_991, "1d5a09609b331243"),
    "thesis-ioctl-suspend+gpu-priority": Attack(187, 382_946, "1d5a09609b331243"),
    "thesis-ioctl-busy": Attack(170, 316_518, "9a74d480a2ad580c"),
    "thesis-ioctl-busy+gpu-priority": Attack(190, 338_731, "9a74d480a2ad580c"),
    "thesis-ioctl-suspend-reduced": Attack(187, 367_616, "9e8183df594d44d3"),
    "thesis-ioctl-suspend-reduced+gpu-priority": Attack(181, 349_822, "9e8183df594d44d3"),
    "thesis-ioctl-busy-reduced": Attack(180, 308_548, "d62c68b113fa1e61"),
    "thesis-ioctl-busy-reduced+gpu-priority": Attack(191, 331_642, "d62c68b113fa1e61"),
    "rtgpu": Attack(337, 35_892, "786d6be96f02bf39"),
    "rtgpu-tight": Attack(336, 34_271, "786d6be96f02bf39"),
    "stgm": Attack(294, 28_781, "786d6be96f02bf39"),
    "rtgpu-printed": Attack(312, 30_881, "786d6be96f02bf39"),
    "stgm-published": Attack(286, 28_005, "786d6be96f02bf39"),
    "self-suspension": Attack(262, 21_398, "786d6be96f02bf39"),
}
