"""A server for one run, in a process of its own: `python -m penstock.compat.openinference._sdk.server_process`.

It is told what to serve on standard input, says where it listens on standard output, and ends with SIGTERM or when its
standard input is closed: when whoever started it is gone.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading

from penstock import PenstockError, Server, Signals, logs
from penstock.compat.openinference._bind import bind
from penstock.compat.openinference._definition.function_spec import FunctionSpec
from penstock.compat.openinference._settings import Options

__all__ = ["main"]

_LOOKS_EVERY = 0.1
"""Seconds between two looks at whether a signal came."""


def main() -> int:
    """Serves until it is told to end."""
    told = json.loads(sys.stdin.readline())
    logs.setup()
    over = threading.Event()

    # A Ctrl-C comes to this process too, before whoever started it says so.
    signal.signal(signal.SIGINT, lambda *_: over.set())

    def watch() -> None:
        os.read(sys.stdin.fileno(), 1)
        over.set()

    with Signals([signal.SIGTERM]).caught() as signals:
        try:
            model = bind(FunctionSpec.of_json(told["function"]), Options.of(told["options"]))
            with Server(model, http=told["http"], grpc=told["grpc"]) as server:
                signals.heed(server)
                threading.Thread(target=watch, daemon=True).start()
                _say({"http": server.http_address, "grpc": server.grpc_address})
                while not (signals.count or over.wait(_LOOKS_EVERY)):
                    pass
        except PenstockError as error:
            _say({"error": str(error)})
            return 1
    return 0


def _say(told: dict[str, object]) -> None:
    # Another descriptor than what handlers print to.
    with os.fdopen(int(os.environ["PENSTOCK_TOLD"]), "w", encoding="utf-8") as there:
        there.write(json.dumps(told) + "\n")


if __name__ == "__main__":
    sys.exit(main())
