"""Runs `ModelServer`s on free ports, in a thread of this process or as a script."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from http_by_hand import HttpResponse, get, post
from penstock.compat.kserve import Model, ModelServer, context
from waiting import PATIENCE, until

LOOPBACK: dict[str, Any] = {"http_port": 0, "grpc_port": 0, "host": "127.0.0.1"}


class Double(Model):
    """Doubles the instances of V1, and the first input of V2."""

    def __init__(self, name: str = "m", *, ready: bool = True) -> None:
        super().__init__(name)
        self.ready = ready
        self.stopped = 0

    def predict(self, payload: Any, headers: Any = None, response_headers: Any = None) -> Any:
        if isinstance(payload, dict):
            return {"predictions": [2 * one for one in payload["instances"]]}
        from penstock.compat.kserve import InferOutput, InferResponse

        array = payload.inputs[0].as_numpy() * 2
        output = InferOutput("y", list(array.shape), payload.inputs[0].datatype)
        output.set_data_from_numpy(array, binary_data=False)
        return InferResponse(payload.id or "1", self.name, [output])

    def stop(self) -> None:
        self.stopped += 1
        super().stop()


class Live:
    """A running server."""

    def __init__(self, server: ModelServer) -> None:
        self.server = server
        self.url = f"http://127.0.0.1:{server.http_port}"
        self.target = f"127.0.0.1:{server.grpc_port}"

    def get(self, path: str) -> tuple[int, Any]:
        return status_and_json(get(self.url, path))

    def post(self, path: str, body: Any = None) -> tuple[int, Any]:
        content = b"" if body is None else json.dumps(body).encode()
        return status_and_json(post(self.url, path, content, {"content-type": "application/json"}))

    def predict(self, name: str = "m", *instances: Any) -> tuple[int, Any]:
        return self.post(f"/v1/models/{name}:predict", {"instances": list(instances) or [1]})

    def load(self, name: str) -> tuple[int, Any]:
        return self.post(f"/v2/repository/models/{name}/load")

    def unload(self, name: str) -> tuple[int, Any]:
        return self.post(f"/v2/repository/models/{name}/unload")


def status_and_json(response: HttpResponse) -> tuple[int, Any]:
    """Returns a response's status and JSON."""
    return response.status, response.json() if response.body else None


@contextmanager
def live(*models: Any, collection: Any = None, **arguments: Any) -> Iterator[Live]:
    """Serves models in a thread until the block ends."""
    server = ModelServer(**{**LOOPBACK, **arguments})
    failures: list[BaseException] = []

    def run() -> None:
        try:
            server.start(list(models) if collection is None else collection)
        except BaseException as error:
            failures.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        until(lambda: failures or up(server), "the server to start")
        if failures:
            raise failures[0]
        yield Live(server)
    finally:
        server.stop()
        thread.join(PATIENCE)
        # Process-wide.
        context.set_predictor_config(None)
    assert not thread.is_alive(), "the server did not stop"
    if failures:
        raise failures[0]


def up(server: ModelServer) -> bool:
    """Returns whether the server responds."""
    if server.http_port == 0 or (server.enable_grpc and server.grpc_port == 0):
        return False
    return get(f"http://127.0.0.1:{server.http_port}", "/v2/health/live").status == 200


class Script:
    """A script with a server, in its own process. It prints `serving URL TARGET` once the server responds.

    Args:
        text: The script.
        arguments: Its command-line arguments.
        file: The path to write it to; None runs it without a file.
        launcher: The command that starts the interpreter.
        environment: Additional environment variables.
    """

    def __init__(
        self, text: str, *arguments: str, file: Path | None = None, launcher: Sequence[str] = (), **environment: str
    ) -> None:
        inherited = {name: value for name, value in os.environ.items() if not name.startswith(("PENSTOCK_", "KSERVE_"))}
        folders = [str(Path(__file__).parent), str(Path(__file__).parents[2]), inherited.get("PYTHONPATH", "")]
        if file is not None:
            file.write_text(text)
        self.process = subprocess.Popen(
            [*launcher, sys.executable, *(("-c", text) if file is None else (str(file),)), *arguments],
            env={**inherited, "PYTHONPATH": os.pathsep.join(folders), "PYTHONUNBUFFERED": "1", **environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self.lines: list[str] = []
        self._reader = threading.Thread(target=self._collect, daemon=True)
        self._reader.start()

    def _collect(self) -> None:
        assert self.process.stdout is not None
        with self.process.stdout:
            for line in self.process.stdout:
                self.lines.append(line.rstrip())

    @property
    def text(self) -> str:
        """The output so far."""
        return "\n".join(self.lines)

    def wait_for_line(self, prefix: str) -> str:
        """Waits for a line that contains the prefix and returns its rest; lines of workers have their own prefix."""

        def matching_line() -> str | None:
            assert self.process.poll() is None or self._reader.is_alive() or prefix in self.text, self.text
            return next((line for line in self.lines if prefix in line), None)

        return str(until(matching_line, f"{prefix!r} in {self.lines}")).partition(prefix)[2].strip()

    @property
    def url(self) -> str:
        """The HTTP URL."""
        return self.wait_for_line("serving ").split()[0]

    @property
    def target(self) -> str:
        """The gRPC target."""
        return self.wait_for_line("serving ").split()[1]

    def signal(self, number: signal.Signals) -> None:
        """Sends a signal."""
        self.process.send_signal(number)

    def status(self) -> int:
        """Waits for the end and returns the exit status."""
        return self.process.wait(PATIENCE)

    def __enter__(self) -> Script:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait(PATIENCE)
        self._reader.join(PATIENCE)


def announce(server: ModelServer) -> None:
    """Prints the address of a script's server once it responds."""

    def run() -> None:
        until(lambda: up(server), "the server to start")
        print(f"serving http://127.0.0.1:{server.http_port} 127.0.0.1:{server.grpc_port}", flush=True)

    threading.Thread(target=run, daemon=True).start()
