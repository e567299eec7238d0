"""``hologram serve``: an archive behind HTTP."""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import signal
import socket
from typing import Any

from hologram._commands.common import Failure, add, show
from hologram.serving import application
from hologram.serving.settings import Settings

FILE = ("file", {"metavar": "ARCHIVE", "help": "a .holo file"})


def _serve(args: argparse.Namespace) -> int:
    try:
        app = application(
            args.file,
            max_batch=args.max_batch,
            max_wait_ms=args.max_wait_ms,
            calls=args.calls,
            threads=args.threads,
            queue=args.queue,
            timeout=args.timeout,
            max_body=args.max_body,
        )
        import uvicorn
    except ImportError as error:
        raise Failure(str(error)) from None
    logging.basicConfig(level=logging.WARNING)
    family = socket.AF_INET6 if ":" in args.host else socket.AF_INET
    listener = socket.create_server((args.host, args.port), family=family, backlog=2048)
    host = f"[{args.host}]" if ":" in args.host else args.host
    data = {"model": os.fspath(args.file), "address": f"http://{host}:{listener.getsockname()[1]}"}
    service = app.state.service

    class Server(uvicorn.Server):
        async def startup(self, sockets: Any = None) -> None:
            await super().startup(sockets)
            show(data, args.json, flush=True)

        def handle_exit(self, sig: int, frame: Any) -> None:
            """Says that no new requests are welcome, and closes after `drain` seconds, once those that came are answered."""
            again, service.ready = not service.ready, False
            if again or not args.drain:
                super().handle_exit(sig, frame)
            else:
                asyncio.get_running_loop().call_later(args.drain, super().handle_exit, sig, frame)

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: None)  # uvicorn sends it again at the end
    Server(uvicorn.Config(app, log_level="warning", access_log=False, timeout_keep_alive=30)).run([listener])
    return 0


def register(commands: Any) -> None:
    """Adds the command to the command line."""
    text = "Answer requests for the methods of an archive over HTTP; needs the extra `serve`."
    command = add(commands, "serve", _serve, text, FILE)
    default = Settings()
    command.add_argument("--host", default="127.0.0.1", help="address to listen on; default %(default)s")
    command.add_argument("--port", type=int, default=8000, help="0: any free one; default %(default)s")
    for name, kind, text in (
        ("threads", int, "threads of a call; default HOLOGRAM_NUM_THREADS"),
        ("calls", int, "calls that run beside each other; default %(default)s"),
        ("max-batch", int, "rows of a call that joins requests, 1 for none; default %(default)s"),
        ("max-wait-ms", float, "how long a request waits for others when a call could begin; default %(default)s"),
        ("queue", int, "requests that may wait, more get status 503; default %(default)s"),
        ("timeout", float, "seconds until a request is given up with status 504; default %(default)s"),
        ("max-body", int, "bytes of a request, more get status 413; default %(default)s"),
    ):
        command.add_argument(f"--{name}", type=kind, default=getattr(default, name.replace("-", "_")), metavar="N", help=text)
    command.add_argument("--drain", type=float, default=0.0, metavar="SECONDS", help="how long /health says no before SIGTERM closes")
