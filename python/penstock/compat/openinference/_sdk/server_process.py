"""Server of a run: `python -m penstock.compat.openinference._sdk.server_process`.

The parent process sends the function on standard input, and receives the addresses over the descriptor in
PENSTOCK_STATUS_FD. The server stops on SIGTERM, and when standard input is closed because the parent has ended.
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

_POLL_INTERVAL = 0.1
"""Seconds between checks for a signal."""


def main() -> int:
    """Serves until a signal, or the end of the parent."""
    job = json.loads(sys.stdin.readline())
    logs.setup()
    stop = threading.Event()

    # Ctrl-C reaches the whole process group, so it may arrive before the parent closes standard input.
    signal.signal(signal.SIGINT, lambda *_: stop.set())

    def watch() -> None:
        os.read(sys.stdin.fileno(), 1)
        stop.set()

    with Signals([signal.SIGTERM]).caught() as signals:
        try:
            model = bind(FunctionSpec.from_json(job["function"]), Options.of(job["options"]))
            with Server(model, http=job["http"], grpc=job["grpc"]) as server:
                signals.set_target(server)
                threading.Thread(target=watch, daemon=True).start()
                _report({"http": server.http_address, "grpc": server.grpc_address})
                while not (signals.count or stop.wait(_POLL_INTERVAL)):
                    pass
        except PenstockError as error:
            _report({"error": str(error)})
            return 1
    return 0


def _report(status: dict[str, object]) -> None:
    # Not standard output, because handlers may print.
    with os.fdopen(int(os.environ["PENSTOCK_STATUS_FD"]), "w", encoding="utf-8") as pipe:
        pipe.write(json.dumps(status) + "\n")


if __name__ == "__main__":
    sys.exit(main())
