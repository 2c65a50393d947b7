"""Containers of an InferenceService, with the flags, environment and probes of its pods."""

from __future__ import annotations

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from observe import free_ports

from waiting import PATIENCE, until

SCRIPT = Path(__file__).parent / "pod.py"
NAME = "sums"
PROBES = ("/", "/v1/models/sums", "/v2/health/live", "/v2/health/ready", "/v2/models/sums/ready")
"""The paths that manifests of predictors and transformers give kubelet and the queue's proxy."""
STARTS = 60.0


@dataclass
class Pod:
    """A running container."""

    process: subprocess.Popen[bytes]
    http: int
    log: Path

    @property
    def host(self) -> str:
        return f"127.0.0.1:{self.http}"

    def get(self, path: str) -> tuple[int, Any]:
        return self._request("GET", path)

    def post(self, path: str, body: Any = None) -> tuple[int, Any]:
        return self._request("POST", path, body)

    def predict(self, rows: list[list[int]], *, name: str = NAME, **more: Any) -> tuple[int, Any]:
        return self.post(f"/v1/models/{name}:predict", {"instances": rows, **more})

    def _request(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        connection = http.client.HTTPConnection("127.0.0.1", self.http, timeout=STARTS)
        try:
            text = None if body is None else json.dumps(body)
            connection.request(method, path, text, {"content-type": "application/json"})
            response = connection.getresponse()
            return response.status, json.loads(response.read() or "null")
        finally:
            connection.close()

    def probed(self) -> dict[str, int]:
        """Returns the status of each probe; 0 without a response."""
        seen = {}
        for path in PROBES:
            try:
                seen[path] = self.get(path)[0]
            except OSError:
                seen[path] = 0
        return seen

    def listens(self) -> bool:
        """Performs a TCP probe."""
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.http)) == 0

    def terminate(self) -> None:
        """Terminates as kubelet does."""
        self.process.send_signal(signal.SIGTERM)

    def exit_status(self) -> int:
        return self.process.wait(PATIENCE)


@contextmanager
def pod(folder: Path, *flags: str, up: bool = True) -> Iterator[Pod]:
    """Runs a container with a pod's flags and environment under the shim; kills it at the end."""
    http, grpc = free_ports(2)
    log = folder / f"log-{http}"
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("PENSTOCK_", "KSERVE_"))}
    environment = {"PORT": str(http), "K_SERVICE": NAME, "K_REVISION": f"{NAME}-00001", "POD_FOLDER": str(folder)}
    command = [sys.executable, "-m", "penstock", "shim", "kserve", "--", sys.executable, str(SCRIPT)]
    ports = (f"--model_name={NAME}", f"--http_port={http}", f"--grpc_port={grpc}")
    with open(log, "w") as output:
        process = subprocess.Popen(
            [*command, *ports, *flags], env={**inherited, **environment}, stdout=output, stderr=output
        )
    running = Pod(process, http, log)
    try:
        if up:
            until(lambda: ready(running), "the pod to be ready", patience=STARTS)
        yield running
    except BaseException:
        print(log.read_text(errors="replace")[-4000:])
        raise
    finally:
        process.kill()
        process.wait()


def ready(of: Pod) -> bool:
    assert of.process.poll() is None, of.log.read_text(errors="replace")[-4000:]
    return set(of.probed().values()) == {200}
