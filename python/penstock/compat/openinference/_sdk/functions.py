"""`new_function(...).run(...)`: functions as DigitalHub's SDK makes them, on this machine and without a platform."""

from __future__ import annotations

import base64
import json
import os
import re
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from penstock.compat.openinference._definition.function_spec import FunctionSpec, read
from penstock.compat.openinference._definition.requirements import lines_of
from penstock.compat.openinference._image import image_of
from penstock.compat.openinference._sdk.cluster_options import hints_of, prepare_volumes
from penstock.compat.openinference._sdk.runs import BuildRun, Run, ServeRun
from penstock.compat.openinference._settings import Options
from penstock.errors import StartupError

__all__ = ["Function", "function_of", "new_function"]

_SOURCE = {
    **{name: name for name in ("code", "base64", "handler", "init_function")},
    "code_src": "source",
}
_OF_A_CLUSTER = {"service_type", "service_name", "profile", "local_execution", "labels"}


def new_function(name: str, kind: str = "openinference", *, project: str = "default", **parameters: Any) -> Function:
    """Makes a function.

    Args:
        name: Its name.
        kind: `openinference`.
        project: Its project's name.
        parameters: `code_src`, `code` or `base64`, `handler`, `init_function`, `python_version`, `model_name`,
            `inputs`, `outputs`, `requirements`, `base_image`, `image`, as DigitalHub's SDK has them. Without a
            `model_name` it is the function's; without a `python_version` it is that of this Python.

    Raises:
        Wrong: it breaks rules; all are told, each with its path.

    Example:
        >>> function = new_function(
        ...     "double", code_src="double.py", handler="double", inputs=[{"name": "x", "shape": [-1]}]
        ... )
        >>> run = function.run("serve", wait=True)
        >>> run.invoke(json={"inputs": [...]}).json()
        >>> run.stop()
    """
    for ignored in ("uuid", "description", "labels", "embedded", "metadata"):
        parameters.pop(ignored, None)
    source = {there: parameters.pop(here) for here, there in _SOURCE.items() if parameters.get(here) is not None}
    spec = {name: value for name, value in parameters.items() if value is not None}
    if source:
        spec["source"] = source
    spec.setdefault("model_name", name)
    spec.setdefault("python_version", _this_python())
    return function_of({"kind": kind, "project": project, "name": name, "spec": spec})


def function_of(entity: Mapping[str, Any] | Any, folder: str | Path = ".") -> Function:
    """The function of a definition: an object as in a file, or one of DigitalHub's SDK, which has `to_dict()`.

    Raises:
        Wrong: it breaks rules.
    """
    told = entity if isinstance(entity, Mapping) else entity.to_dict()
    spec = {name: value for name, value in told.get("spec", {}).items() if value is not None}
    return Function(read({**told, "spec": spec}, Path(folder), f"function {told.get('name')!r}"))


class Function:
    """A function that can be served and built here."""

    def __init__(self, spec: FunctionSpec) -> None:
        self.spec = spec

    @property
    def name(self) -> str:
        """Its name."""
        return self.spec.name

    @property
    def key(self) -> str:
        """Its key, as DigitalHub writes it."""
        return f"store://{self.spec.project}/function/openinference/{self.spec.name}"

    def run(
        self,
        action: str,
        *,
        wait: bool = False,
        replicas: int = 1,
        init_parameters: Mapping[str, Any] | None = None,
        instructions: Sequence[str] = (),
        envs: Sequence[Mapping[str, str]] = (),
        secrets: Sequence[str] = (),
        http: str = "127.0.0.1:0",
        grpc: str | None = "127.0.0.1:0",
        isolation: str | None = None,
        resources: Mapping[str, Any] | None = None,
        volumes: Sequence[Mapping[str, Any]] | None = None,
        options: Mapping[str, Any] | None = None,
        builder: str | None = None,
        wheel: str | Path | None = None,
        **others: Any,
    ) -> Any:
        """Runs an action.

        Args:
            action: `serve` or `build`.
            wait: Whether to wait until the service answers. A build is always waited for.
            replicas: How many processes compute.
            init_parameters: What the init function is called with, beside the context.
            instructions: Shell lines of an image, run by root before the requirements are installed.
            envs: Variables, each as `{"name": ..., "value": ...}`: of the function's processes, or of the image.
            secrets: Names of variables that are to be in the environment here already.
            http: Where the service listens.
            grpc: The same for gRPC; None for nowhere.
            isolation: `process`, or `server`: whether the service computes in processes of the function's own.
            resources: What each replica has, as `{"cpu": "2", "mem": "1Gi", "gpu": 1, "disk": "2Gi"}`. Libraries are
                told to keep to `cpu` and `gpu`, by variables that `envs` or the environment may set otherwise; nothing
                is enforced.
            volumes: What is mounted, each as `{"volume_type": ..., "name": ..., "mount_path": ...}`. A service here has
                the files of its machine: what is not there is refused; an `empty_dir` or `ephemeral` one is made.
            options: Options of the integration, see docs/openinference.md.
            builder: What builds the image; see `penstock.images.build`.
            wheel: Penstock's wheel for the image, in place of the package index's.
            others: `service_type` and so on: of a cluster, kept in the run's spec.

        Returns:
            The run: a `ServeRun` or a `BuildRun`.

        Raises:
            StartupError: it cannot be; the message says why.
            TypeError: there is no such parameter.
        """
        if unknown := sorted(set(others) - _OF_A_CLUSTER):
            raise TypeError(f"run() has no parameter {unknown[0]!r}")
        environment = {str(one["name"]): str(one["value"]) for one in envs}
        hints = hints_of(resources)
        _check_secrets(secrets)
        of_a_cluster = {"resources": resources, "volumes": volumes}
        spec = {
            "function": self.key,
            "action": action,
            "replicas": replicas,
            "init_parameters": dict(init_parameters or {}),
            **{name: value for name, value in of_a_cluster.items() if value is not None},
            **others,
        }
        if action == "build":
            wanted = {"builder": builder, "wheel": wheel}
            return self._build(instructions, environment, spec, wanted)
        if action != "serve":
            raise StartupError(f"there is no action {action!r}, only serve and build")
        # The run's values are over those of the function's file.
        said = {
            "replicas": replicas,
            "init_parameters": init_parameters,
            "envs": environment or None,
            "isolation": isolation,
        }
        chosen = Options.of(self.spec.settings, options or {}, said)
        prepare_volumes(volumes)
        if chosen.isolation == "process":
            # Whoever set them for this machine knows it better.
            unset = {name: value for name, value in hints.items() if name not in os.environ}
            chosen = replace(chosen, envs={**unset, **chosen.envs})
        run = ServeRun(self.spec, chosen, spec, http, grpc)
        if wait:
            try:
                run.wait()
            except StartupError:
                # Nobody else can.
                run.stop()
                raise
        return run

    def image_name(self) -> str:
        """What its image is called: the name that it has, without tag, or project and function."""
        said = (self.spec.image or "").rpartition("@")[0] or (self.spec.image or "")
        name, colon, tag = said.rpartition(":")
        said = name if colon and "/" not in tag else said
        if len(said) > 3:
            return said
        return re.sub(r"[^a-z0-9._-]+", "-", f"{self.spec.project}-{self.spec.name}".lower()).strip("-._")

    def to_dict(self) -> dict[str, Any]:
        """The function as an entity, as a file has it."""
        function = self.spec
        source: dict[str, Any] = {"handler": function.source.handler, "lang": "python"}
        if function.source.source is not None:
            source["source"] = function.source.source
        if function.source.code is not None:
            source["base64"] = base64.b64encode(function.source.code).decode()
        if function.source.init_function is not None:
            source["init_function"] = function.source.init_function
        spec = {
            "source": source,
            "python_version": f"PYTHON{(function.python_version or '').replace('.', '_')}",
            "requirements": list(lines_of(function.requirements, function.folder)),
            "base_image": function.base_image,
            "image": function.image,
            "model_name": function.model_name,
            **{
                kind: [{"name": one.name, "datatype": one.datatype, "shape": list(one.shape)} for one in tensors]
                for kind, tensors in (("inputs", function.inputs), ("outputs", function.outputs))
            },
        }
        return {
            "kind": "openinference",
            "project": function.project,
            "name": function.name,
            "spec": {name: value for name, value in spec.items() if value is not None},
            **({"penstock": dict(function.settings)} if function.settings else {}),
        }

    def export(self, file: str | Path) -> Path:
        """Writes the function as JSON, which `penstock serve` takes."""
        path = Path(file)
        path.write_text(json.dumps(self.to_dict(), indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
        return path

    def _build(
        self, instructions: Sequence[str], envs: Mapping[str, str], spec: dict[str, Any], how: dict[str, Any]
    ) -> Run:
        from dataclasses import replace

        from penstock import images

        run, name = BuildRun(self.spec, {**spec, "instructions": list(instructions)}), f"{self.image_name()}:latest"
        run.status.state = "BUILDING"
        with tempfile.TemporaryDirectory(prefix="penstock-build-") as folder:
            wanted = image_of(self.spec, self.export(Path(folder) / "function.json"), instructions, envs)
            try:
                images.build(replace(wanted, record=self._made), name, **how)
            except StartupError as error:
                run.status.state, run.status.message = "ERROR", str(error)
                raise
        run.status.state, run.status.outputs = "COMPLETED", {"image": self.spec.image or name}
        return run

    def _made(self, image: str) -> None:
        from dataclasses import replace

        self.spec = replace(self.spec, image=image)


def _check_secrets(names: Sequence[str]) -> None:
    import os

    for name in names:
        if name not in os.environ:
            raise StartupError(f"secret {name!r} is not in the environment")


def _this_python() -> str:
    import sys

    return f"PYTHON3_{sys.version_info.minor}"
