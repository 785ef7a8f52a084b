# SPDX-License-Identifier: GPL-2.0
"""The address of the metrics server, and which library serves.  This file does not need prometheus-client."""

from __future__ import annotations

import ipaddress

from gpurt.errors import UsageError
from gpurt.text import visible

#: The default address, which Prometheus's configuration names.
HOST, PORT = "127.0.0.1", 9925
#: The oldest release of prometheus-client that was tested: Ubuntu 22.04's.
OLDEST = (0, 9)
INSTALL_CURE = "pip install 'gpurt[metrics]', or Debian's package python3-prometheus-client"


def address_of(listen: str) -> tuple[str, int]:
    """The address and the port of ADDRESS:PORT, [ADDRESS]:PORT, :PORT or PORT.

    Raises:
        UsageError: the text has none of these forms, or the address is no number.
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
    """Address and port as in a URL."""
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"
