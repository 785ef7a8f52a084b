# SPDX-License-Identifier: GPL-2.0
"""The recorded attacks on the tests; written by scripts/record-attacks."""

from typing import NamedTuple


class Attack(NamedTuple):
    """``bounded``: tasksets that the test bounded; ``jobs``: simulated, none late; ``formula``: a hash of its code."""

    bounded: int
    jobs: int
    formula: str


ATTACKS: dict[str, Attack] = {
    "gcaps-suspend": Attack(181, 331_529, "fc3d62156ee2e248"),
    "gcaps-suspend+gpu-priority": Attack(204, 363_707, "fc3d62156ee2e248"),
    "gcaps-busy": Attack(170, 272_220, "ff88690ee049607d"),
    "gcaps-busy+gpu-priority": Attack(206, 332_887, "ff88690ee049607d"),
    "gcaps-mixed": Attack(174, 325_662, "f8bfe199d84125b5"),
    "gcaps-mixed+gpu-priority": Attack(202, 410_542, "f8bfe199d84125b5"),
    "boosted-suspend": Attack(171, 624_867, "eccf97bb67b7a407"),
    "boosted-suspend+gpu-priority": Attack(215, 840_528, "eccf97bb67b7a407"),
    "boosted-busy": Attack(157, 233_931, "eccf97bb67b7a407"),
    "boosted-busy+gpu-priority": Attack(182, 338_635, "eccf97bb67b7a407"),
    "boosted-busy-fence": Attack(188, 374_520, "eccf97bb67b7a407"),
    "boosted-busy-fence+gpu-priority": Attack(208, 416_360, "eccf97bb67b7a407"),
    "boosted-mixed": Attack(170, 585_080, "eccf97bb67b7a407"),
    "boosted-mixed+gpu-priority": Attack(197, 577_178, "eccf97bb67b7a407"),
    "tsg-rr-suspend": Attack(184, 296_176, "54598823b8d68e05"),
    "tsg-rr-busy": Attack(108, 148_537, "56b0eda3d7c61afd"),
    "supply-fp": Attack(158, 252_824, "b36560bf976de083"),
    "supply-edf": Attack(142, 203_707, "b36560bf976de083"),
    "supply-fp-busy": Attack(105, 138_673, "b36560bf976de083"),
    "supply-fp-mixed": Attack(134, 175_326, "b36560bf976de083"),
    "partitioned-suspend": Attack(176, 301_038, "be80ccedbb22be49"),
    "partitioned-busy": Attack(174, 333_946, "4965acd9cb5c778f"),
    "lock-priority-suspend": Attack(92, 103_444, "d3610971fc8ad5c2"),
    "lock-priority-busy": Attack(105, 121_603, "e7103c22f6287bd4"),
    "lock-fifo-suspend": Attack(80, 101_562, "03b48cde73ecd6a2"),
    "lock-fifo-busy": Attack(73, 86_372, "a2772fd3b8a8aa8c"),
    "thesis-kthread-busy": Attack(84, 87_003, "6aec058c71b2c65f"),
    "thesis-kthread-busy+gpu-priority": Attack(117, 164_244, "6aec058c71b2c65f"),
    "mpcp-suspend": Attack(129, 181_301, "1113779e99ece9ba"),
    "fmlp-suspend": Attack(113, 158_363, "872751c63e307a2a"),
    "mpcp-busy": Attack(126, 152_775, "d8b40a9f34137511"),
    "fmlp-busy": Attack(112, 154_451, "98e354f256ce517b"),
    "thesis-kthread-notify-busy": Attack(163, 274_830, "b868a6fd56cf8819"),
    "thesis-kthread-notify-busy+gpu-priority": Attack(200, 351_567, "b868a6fd56cf8819"),
    "thesis-ioctl-suspend": Attack(178, 304_991, "fc3d62156ee2e248"),
    "thesis-ioctl-suspend+gpu-priority": Attack(187, 382_946, "fc3d62156ee2e248"),
    "thesis-ioctl-busy": Attack(170, 316_518, "ff88690ee049607d"),
    "thesis-ioctl-busy+gpu-priority": Attack(190, 338_731, "ff88690ee049607d"),
    "thesis-ioctl-suspend-reduced": Attack(187, 367_616, "4fe46adfab5dccf3"),
    "thesis-ioctl-suspend-reduced+gpu-priority": Attack(181, 349_822, "4fe46adfab5dccf3"),
    "thesis-ioctl-busy-reduced": Attack(180, 308_548, "164a8993639ce2b9"),
    "thesis-ioctl-busy-reduced+gpu-priority": Attack(191, 331_642, "164a8993639ce2b9"),
    "rtgpu": Attack(337, 35_892, "e3ca39f1e2e6849c"),
    "rtgpu-tight": Attack(336, 34_271, "e3ca39f1e2e6849c"),
    "stgm": Attack(294, 28_781, "e3ca39f1e2e6849c"),
    "rtgpu-printed": Attack(312, 30_881, "e3ca39f1e2e6849c"),
    "stgm-published": Attack(286, 28_005, "e3ca39f1e2e6849c"),
    "self-suspension": Attack(262, 21_398, "e3ca39f1e2e6849c"),
}
