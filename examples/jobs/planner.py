# SPDX-License-Identifier: GPL-2.0 OR MIT
"""Template of a periodic task in Python: `python3 planner.py [JOBS]`; without JOBS it runs until Ctrl-C.

Exit codes: 0; 4 what failed is printed.
"""

from __future__ import annotations

import itertools
import signal
import sys

import gpurt

PERIOD = 200_000_000  # ns


def work_on_gpu(client: gpurt.Client, tsg: int) -> None:
    """The work of the job on the GPU, and the wait for it.  Replace both by launches and stream.synchronize()."""
    client.wait_work(tsg, client.submit(tsg, 10_000_000))


def main() -> int:
    """Runs jobs."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    jobs = int(sys.argv[1]) if len(sys.argv) > 1 else None
    with gpurt.Client() as client:
        planner = gpurt.periodic("planner", PERIOD, client=client)
        tsg = client.open_tsg()  # for the virtual GPU; a real one's driver makes TSGs
        try:
            for _number in itertools.islice(planner, jobs):
                with gpurt.segment(client=client):
                    work_on_gpu(client, tsg)
        except KeyboardInterrupt:
            pass
        planner.stop()
        seen = planner.jitter
        print(
            f"planner: {seen.jobs} jobs, {seen.behind} released before the one before had ended, "
            f"{seen.maximum // 1000} us at most from release to wake-up"
        )
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except OSError as error:
        print(f"planner: {error}", file=sys.stderr)
        sys.exit(4)
