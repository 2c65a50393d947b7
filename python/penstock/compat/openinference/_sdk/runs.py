"""Runs of a function on this machine: services and built images."""

from __future__ import annotations

import atexit
import json
import os
import subprocess
import sys
import tempfile
import threading
import uuid
import weakref
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from penstock.compat.openinference._definition.function_spec import FunctionSpec
from penstock.compat.openinference._sdk.http_client import HttpResponse, send_request
from penstock.compat.openinference._settings import Options
from penstock.errors import StartupError, Timeout, Unavailable

__all__ = ["BuildRun", "Run", "RunStatus", "ServeRun"]

_DRAIN = 30.0
_running: weakref.WeakSet[ServeRun]


@dataclass
class RunStatus:
    """State of a run."""

    state: str = "CREATED"
    """`CREATED`, `BUILDING` or `PENDING`, then `RUNNING` or `COMPLETED`; `ERROR`, `STOPPED`."""
    message: str | None = None
    """Reason of the state `ERROR`."""
    service: dict[str, Any] | None = None
    """`url` and `urls` of a service."""
    inference_v2: dict[str, str] | None = None
    """Open Inference URLs and model name of a service."""
    outputs: dict[str, Any] = field(default_factory=dict)
    """`image` of a build."""


class Run:
    """Base class of runs."""

    kind = "openinference"

    def __init__(self, function: FunctionSpec, spec: dict[str, Any]) -> None:
        self.id = uuid.uuid4().hex
        self.name, self.project, self.spec = function.name, function.project, spec
        self.status = RunStatus()

    @property
    def key(self) -> str:
        """Key in DigitalHub's format."""
        return f"store://{self.project}/run/{self.kind}/{self.name}:{self.id}"

    def refresh(self) -> Run:
        """Updates the status, and returns the run."""
        return self

    def to_dict(self) -> dict[str, Any]:
        """Returns the run as an entity."""
        return {
            "kind": self.kind,
            "project": self.project,
            "name": self.name,
            "id": self.id,
            "key": self.key,
            "spec": self.spec,
            "status": {name: value for name, value in vars(self.status).items() if value},
        }


class BuildRun(Run):
    """Build of an image."""

    kind = "openinference+build:run"

    @property
    def image(self) -> str | None:
        """Name of the built image."""
        return self.status.outputs.get("image")

    def wait(self, timeout: float = 300.0) -> BuildRun:
        """Returns the run. `run("build")` returns after the build has finished."""
        del timeout
        return self


class ServeRun(Run):
    """Service: a server in a child process, which ends with this process."""

    kind = "openinference+serve:run"

    def __init__(self, function: FunctionSpec, options: Options, spec: dict[str, Any], http: str, grpc: str | None):
        super().__init__(function, spec)
        self._model = function.model_name
        self._log = Path(tempfile.mkstemp(prefix="penstock-run-", suffix=".log")[1])
        read_fd, write_fd = os.pipe()
        with open(self._log, "wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "penstock.compat.openinference._sdk.server_process"],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=subprocess.STDOUT,
                pass_fds=[write_fd],
                env={**os.environ, "PENSTOCK_STATUS_FD": str(write_fd), "PYTHONUNBUFFERED": "1"},
            )
        os.close(write_fd)
        option_values = {name: getattr(options, name) for name in options.__dataclass_fields__}
        job = {
            "function": function.as_json(),
            "options": {**option_values, "run": self.id},
            "http": http,
            "grpc": grpc,
        }
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(job).encode() + b"\n")
        self._process.stdin.flush()
        self.status.state = "PENDING"
        self._started = threading.Event()
        threading.Thread(target=self._receive_status, args=(read_fd,), daemon=True).start()
        _running.add(self)

    def wait(self, timeout: float = 300.0) -> ServeRun:
        """Waits until the service is ready.

        Raises:
            StartupError: the service failed to start; the message has the reason.
            Timeout: the service was not ready in time. It keeps starting.
        """
        if not self._started.wait(timeout):
            raise Timeout(f"the service of {self.name!r} is not ready after {timeout:g} s")
        if self.status.state == "ERROR":
            raise StartupError(f"the service of {self.name!r} could not start: {self.status.message}")
        return self

    def refresh(self) -> ServeRun:
        """Updates the status, and returns the run."""
        if self.status.state == "RUNNING" and self._process.poll() is not None:
            self.status.state, self.status.message = "ERROR", f"its server ended with {self._process.returncode}"
        return self

    def invoke(self, method: str = "POST", url: str | None = None, **arguments: Any) -> HttpResponse:
        """Sends a request to the service.

        Args:
            method: HTTP method.
            url: URL, or path of the service that starts with `/`. The default is the inference URL.
            arguments: `json`, `data`, `headers`, `params` and `timeout`, same as in `requests`.

        Raises:
            Unavailable: the connection fails.
        """
        self.wait()
        job = self.status.inference_v2
        if job is None:
            raise Unavailable(f"the service of {self.name!r} is {self.status.state}")
        if url is None:
            url = job["inferenceUrl"]
        elif url.startswith("/"):
            url = job["baseUrl"] + url
        return send_request(method, url, **arguments)

    def logs(self) -> str:
        """Returns the output of the server and the function so far."""
        return self._log.read_text(encoding="utf-8", errors="replace")

    def stop(self) -> ServeRun:
        """Stops the service. Its running requests finish."""
        if self._process.poll() is None:
            self._process.terminate()
            try:
                self._process.wait(_DRAIN)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        if self._process.stdin is not None:
            self._process.stdin.close()
        if self.status.state != "ERROR":
            self.status.state = "STOPPED"
        self.status.service = self.status.inference_v2 = None
        _running.discard(self)
        return self

    def _receive_status(self, read_fd: int) -> None:
        with os.fdopen(read_fd, encoding="utf-8") as pipe:
            line = pipe.readline()
        job = json.loads(line) if line else {"error": "its server has ended; see logs()"}
        if "error" in job:
            self.status.state, self.status.message = "ERROR", job["error"]
        elif self.status.state == "PENDING":
            base = f"http://{job['http']}"
            model = f"{base}/v2/models/{self._model}"
            urls = [base, *([f"grpc://{job['grpc']}"] if job["grpc"] else [])]
            self.status.service = {"url": job["http"], "urls": urls, "name": self.name}
            self.status.inference_v2 = {
                "baseUrl": base,
                "model": self._model,
                "inferenceUrl": f"{model}/infer",
                "modelMetadataUrl": model,
                "modelReadinessUrl": f"{model}/ready",
                "readinessUrl": f"{base}/v2/health/ready",
                "livenessUrl": f"{base}/v2/health/live",
            }
            self.status.state = "RUNNING"
        self._started.set()


_running = weakref.WeakSet()


@atexit.register
def _stop_all() -> None:
    for run in list(_running):
        run.stop()
