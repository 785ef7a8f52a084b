# SPDX-License-Identifier: GPL-2.0
"""Executes a program that ends with its parent.  It is a script without imports from gpurt, so that it is quick.

Arguments: the parent's id, a descriptor, a SCHED_FIFO priority or 0, a library to preload or nothing, and the
command.  The program gets a process group of its own, but not the descriptor.  The script writes to the descriptor the
CPU time used so far, ns; or `!` and an error number if the program cannot be executed.
"""

import ctypes
import os
import signal
import sys
import time

PR_SET_PDEATHSIG = 1


def child_main() -> None:
    """Executes the command."""
    parent, told, priority = map(int, sys.argv[1:4])
    preload, command = sys.argv[4], sys.argv[5:]
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        sys.exit(1)  # the parent was gone before
    os.setpgid(0, 0)
    for number in (signal.SIGINT, signal.SIGPIPE, signal.SIGXFSZ):  # Python ignores two, a shell perhaps the other
        signal.signal(number, signal.SIG_DFL)
    os.set_inheritable(told, False)
    if preload:
        os.environ["LD_PRELOAD"] = preload
    try:
        if priority:
            os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(priority))
        os.write(told, str(time.process_time_ns()).encode())
        os.execvp(command[0], command)
    except OSError as error:
        os.write(told, f"!{error.errno}".encode())
        sys.exit(1)


if __name__ == "__main__":
    child_main()
