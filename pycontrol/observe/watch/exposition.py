# SPDX-License-Identifier: GPL-2.0
"""Serves a registry of metrics over HTTP, in Prometheus's text format."""

from __future__ import annotations

import socket
import socketserver
import sys
import threading
from collections.abc import Callable, Iterable
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

from prometheus_client import CollectorRegistry, make_wsgi_app

#: The time after which a scraper that neither sends nor reads is disconnected, seconds.
SCRAPE_PATIENCE_S = 10.0


def application(registry: CollectorRegistry) -> Callable[..., Iterable[bytes]]:
    """A WSGI application: prometheus-client's own, which answers every scraper in the text format."""
    text = make_wsgi_app(registry)

    def answer(environ: dict[str, str], start: Callable[..., object]) -> Iterable[bytes]:
        found: Iterable[bytes] = text({**environ, "HTTP_ACCEPT": "text/plain"}, start)
        return found

    return answer


class _Handler(WSGIRequestHandler):
    timeout = SCRAPE_PATIENCE_S

    def log_message(self, *_: object) -> None:
        """Prints nothing: a scrape is no news."""


class Server(socketserver.ThreadingMixIn, WSGIServer):
    """Serves until `close`, with a thread for each connection.

    Raises:
        OSError: the address is taken, or is not this machine's.
    """

    daemon_threads = True
    request_queue_size = 16

    def __init__(self, address: str, port: int, registry: CollectorRegistry) -> None:
        self.address_family = socket.AF_INET6 if ":" in address else socket.AF_INET
        super().__init__((address, port), _Handler)
        self.set_app(application(registry))
        self._thread = threading.Thread(target=self.serve_forever, name="gpurt-metrics", daemon=True)
        self._thread.start()

    def server_bind(self) -> None:
        """Binds.  HTTPServer would look the address's name up: that takes seconds if no name server answers."""
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = str(self.server_address[0]), int(self.server_address[1])
        self.setup_environ()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignores scrapers that go away or time out: that is no error of this server."""
        if not isinstance(sys.exc_info()[1], OSError):
            super().handle_error(request, client_address)

    def close(self) -> None:
        """Stops serving."""
        self.shutdown()
        self._thread.join()
        self.server_close()
