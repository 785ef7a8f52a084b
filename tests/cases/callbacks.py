# SPDX-License-Identifier: GPL-2.0
"""Two callbacks on one single-threaded executor, which takes whichever timer is due first, to its end.

callbacks.py JOBS: so many of both together.
"""

import os
import sys
import time

import gpurt

PERIOD = 100_000_000

os.sched_setaffinity(0, {0})
os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(10))
with gpurt.Client() as client:
    group = client.open_tsg()
    start = time.monotonic_ns() + 50_000_000
    timers = [(start, "detect"), (start + 10_000_000, "watchdog")]
    jobs = {"detect": 0, "watchdog": 0}
    for _ in range(int(sys.argv[1])):
        timers.sort()
        due, name = timers[0]
        time.sleep(max(0, due - time.monotonic_ns()) / 1e9)
        with gpurt.job(name, jobs[name], due, client=client):
            if name == "detect":
                with gpurt.segment(client=client):
                    client.wait_work(group, client.submit(group, 38_000_000))
            else:
                begun = time.thread_time_ns()
                while time.thread_time_ns() - begun < 500_000:
                    pass
        jobs[name] += 1
        timers[0] = (due + PERIOD, name)
