"""Runs of a function on this machine: services that are up, and images that were made."""

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
from penstock.compat.openinference._sdk.http_client import Answer, ask
from penstock.compat.openinference._settings import Options
from penstock.errors import StartupError, Timeout, Unavailable

__all__ = ["BuildRun", "Run", "RunStatus", "ServeRun"]

_DRAIN = 30.0
_alive: weakref.WeakSet[ServeRun]


@dataclass
class RunStatus:
    """How a run stands."""

    state: str = "CREATED"
    """`CREATED`, `BUILDING` or `PENDING`, then `RUNNING` or `COMPLETED`; `ERROR`, `STOPPED`."""
    message: str | None = None
    """Why it is in error."""
    service: dict[str, Any] | None = None
    """Of a service: its `url`, and its `urls`."""
    inference_v2: dict[str, str] | None = None
    """Of a service: the URLs of Open Inference, and the model's name."""
    outputs: dict[str, Any] = field(default_factory=dict)
    """Of a build: its `image`."""


class Run:
    """What all runs have."""

    kind = "openinference"

    def __init__(self, function: FunctionSpec, spec: dict[str, Any]) -> None:
        self.id = uuid.uuid4().hex
        self.name, self.project, self.spec = function.name, function.project, spec
        self.status = RunStatus()

    @property
    def key(self) -> str:
        """Its key, as DigitalHub writes it."""
        return f"store://{self.project}/run/{self.kind}/{self.name}:{self.id}"

    def refresh(self) -> Run:
        """The run as it stands."""
        return self

    def to_dict(self) -> dict[str, Any]:
        """The run as an entity."""
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
    """The build of an image."""

    kind = "openinference+build:run"

    @property
    def image(self) -> str | None:
        """The image that was made."""
        return self.status.outputs.get("image")

    def wait(self, timeout: float = 300.0) -> BuildRun:
        """The run: `run("build")` has waited for its end."""
        del timeout
        return self


class ServeRun(Run):
    """A service: a server in a process of its own, which ends with this one."""

    kind = "openinference+serve:run"

    def __init__(self, function: FunctionSpec, options: Options, spec: dict[str, Any], http: str, grpc: str | None):
        super().__init__(function, spec)
        self._model = function.model_name
        self._log = Path(tempfile.mkstemp(prefix="penstock-run-", suffix=".log")[1])
        reads, writes = os.pipe()
        with open(self._log, "wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "penstock.compat.openinference._sdk.server_process"],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=subprocess.STDOUT,
                pass_fds=[writes],
                env={**os.environ, "PENSTOCK_TOLD": str(writes), "PYTHONUNBUFFERED": "1"},
            )
        os.close(writes)
        options_told = {name: getattr(options, name) for name in options.__dataclass_fields__}
        told = {
            "function": function.as_json(),
            "options": {**options_told, "run": self.id},
            "http": http,
            "grpc": grpc,
        }
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(told).encode() + b"\n")
        self._process.stdin.flush()
        self.status.state = "PENDING"
        self._settled = threading.Event()
        threading.Thread(target=self._hear, args=(reads,), daemon=True).start()
        _alive.add(self)

    def wait(self, timeout: float = 300.0) -> ServeRun:
        """Waits until the service answers.

        Raises:
            StartupError: it could not start; the message says why.
            Timeout: it is not there in time; it goes on all the same.
        """
        if not self._settled.wait(timeout):
            raise Timeout(f"the service of {self.name!r} is not there after {timeout:g} s")
        if self.status.state == "ERROR":
            raise StartupError(f"the service of {self.name!r} could not start: {self.status.message}")
        return self

    def refresh(self) -> ServeRun:
        """The run as it stands."""
        if self.status.state == "RUNNING" and self._process.poll() is not None:
            self.status.state, self.status.message = "ERROR", f"its server ended with {self._process.returncode}"
        return self

    def invoke(self, method: str = "POST", url: str | None = None, **arguments: Any) -> Answer:
        """Asks the service.

        Args:
            method: The HTTP method.
            url: Another URL than that of inference; one that begins with `/` is of the service.
            arguments: `json`, `data`, `headers`, `params` and `timeout`, as `requests` has them.

        Raises:
            Unavailable: nobody answers.
        """
        self.wait()
        told = self.status.inference_v2
        if told is None:
            raise Unavailable(f"the service of {self.name!r} is {self.status.state}")
        if url is None:
            url = told["inferenceUrl"]
        elif url.startswith("/"):
            url = told["baseUrl"] + url
        return ask(method, url, **arguments)

    def logs(self) -> str:
        """What the server and the function have written so far."""
        return self._log.read_text(encoding="utf-8", errors="replace")

    def stop(self) -> ServeRun:
        """Ends the service: requests that it has are finished."""
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
        _alive.discard(self)
        return self

    def _hear(self, reads: int) -> None:
        with os.fdopen(reads, encoding="utf-8") as there:
            line = there.readline()
        told = json.loads(line) if line else {"error": "its server has ended; see logs()"}
        if "error" in told:
            self.status.state, self.status.message = "ERROR", told["error"]
        elif self.status.state == "PENDING":
            base = f"http://{told['http']}"
            model = f"{base}/v2/models/{self._model}"
            urls = [base, *([f"grpc://{told['grpc']}"] if told["grpc"] else [])]
            self.status.service = {"url": told["http"], "urls": urls, "name": self.name}
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
        self._settled.set()


_alive = weakref.WeakSet()


@atexit.register
def _stop_all() -> None:
    for one in list(_alive):
        one.stop()
