# SPDX-License-Identifier: GPL-2.0
"""Where metrics are served, and what serves them.  Nothing here needs prometheus-client."""

from __future__ import annotations

import ipaddress

from gpurt.errors import UsageError
from gpurt.text import visible

#: Where Prometheus finds it unless told otherwise.
HOST, PORT = "127.0.0.1", 9925
#: The first release of prometheus-client with which this is tried: Ubuntu 22.04's.
OLDEST = (0, 9)
INSTALL_CURE = "pip install 'gpurt[metrics]', or Debian's package python3-prometheus-client"


def address_of(listen: str) -> tuple[str, int]:
    """The address and the port of ADDRESS:PORT, [ADDRESS]:PORT, :PORT or PORT.

    Raises:
        UsageError: it is none of these, or the address is no number.
    """
    host, _, port = listen.rpartition(":")
    host = host.removeprefix("[").removesuffix("]") or HOST
    try:
        ipaddress.ip_address(host)
    except ValueError:
        raise UsageError(f"--listen: {visible(host)!r} is no IP address, such as {HOST}") from None
    if not (port.isascii() and port.isdecimal() and int(port) < 65536):
        raise UsageError(f"--listen: {visible(port)!r} is no port, 0 (any) to 65535")
    return host, int(port)


def listen_text(address: str, port: int) -> str:
    """Both as in an URL."""
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"
