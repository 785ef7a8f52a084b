# SPDX-License-Identifier: GPL-2.0
"""`python -m pycontrol` is the command `gpurt`."""

from pycontrol.start import main

if __name__ == "__main__":
    main()
