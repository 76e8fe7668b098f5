"""A server on this machine for tests of downloads, with answers that may be hostile."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Answer = bytes | Callable[[BaseHTTPRequestHandler], None]


def send(handler: BaseHTTPRequestHandler, content: bytes, status: int = 200, **headers: Any) -> None:
    """An ordinary answer; a header set to None is left out."""
    handler.send_response(status)
    for name, value in {"Content-Length": len(content), **headers}.items():
        if value is not None:
            handler.send_header(name.replace("_", "-"), str(value))
    handler.end_headers()
    handler.wfile.write(content)


@contextmanager
def serving(answers: Mapping[str, Answer]) -> Iterator[str]:
    """The address of a folder whose files have these answers: content, or a function that writes to the line."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            answer = answers.get(self.path.lstrip("/"))
            try:
                if answer is None:
                    send(self, b"nothing here", 404)
                elif isinstance(answer, bytes):
                    send(self, answer)
                else:
                    answer(self)
            except OSError:  # the client has gone, as it should
                self.close_connection = True

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/"
    finally:
        server.shutdown()
        thread.join()
        server.socket.close()  # server_close would wait for the answers that never end
