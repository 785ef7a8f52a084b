# SPDX-License-Identifier: GPL-2.0
"""The program of the processes that actors.py starts: python actor.py DESCRIPTOR"""

import sys
from multiprocessing.connection import Connection

from actors import act

act(Connection(int(sys.argv[1])))
