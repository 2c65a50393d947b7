"""`new_function(...).run(...)`: local functions with the interface of DigitalHub's SDK, without a platform."""

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

from penstock.compat.openinference._definition.function_spec import FunctionSpec, parse_definition
from penstock.compat.openinference._definition.requirements import requirement_lines
from penstock.compat.openinference._image import image_spec
from penstock.compat.openinference._sdk.cluster_options import prepare_volumes, resource_variables
from penstock.compat.openinference._sdk.runs import BuildRun, Run, ServeRun
from penstock.compat.openinference._settings import Options
from penstock.errors import StartupError

__all__ = ["Function", "as_function", "new_function"]

_SOURCE = {
    **{name: name for name in ("code", "base64", "handler", "init_function")},
    "code_src": "source",
}
_CLUSTER_PARAMETERS = {"service_type", "service_name", "profile", "local_execution", "labels"}


def new_function(name: str, kind: str = "openinference", *, project: str = "default", **parameters: Any) -> Function:
    """Creates a function.

    Args:
        name: Name of the function.
        kind: `openinference`.
        project: Name of the project.
        parameters: `code_src`, `code` or `base64`, `handler`, `init_function`, `python_version`, `model_name`,
            `inputs`, `outputs`, `requirements`, `base_image`, `image`, same as in DigitalHub's SDK. The default of
            `model_name` is the function's name, the default of `python_version` the version of this Python.

    Raises:
        DefinitionError: the definition is invalid; the error lists all problems with their paths.

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
    source = {key: parameters.pop(keyword) for keyword, key in _SOURCE.items() if parameters.get(keyword) is not None}
    spec = {name: value for name, value in parameters.items() if value is not None}
    if source:
        spec["source"] = source
    spec.setdefault("model_name", name)
    spec.setdefault("python_version", _this_python())
    return as_function({"kind": kind, "project": project, "name": name, "spec": spec})


def as_function(entity: Mapping[str, Any] | Any, folder: str | Path = ".") -> Function:
    """Returns the function of a definition, or of an object of DigitalHub's SDK with `to_dict()`.

    Raises:
        DefinitionError: the definition is invalid.
    """
    document = entity if isinstance(entity, Mapping) else entity.to_dict()
    spec = {name: value for name, value in document.get("spec", {}).items() if value is not None}
    return Function(parse_definition({**document, "spec": spec}, Path(folder), f"function {document.get('name')!r}"))


class Function:
    """A function that can be served and built on this machine."""

    def __init__(self, spec: FunctionSpec) -> None:
        self.spec = spec

    @property
    def name(self) -> str:
        """Name of the function."""
        return self.spec.name

    @property
    def key(self) -> str:
        """Key in DigitalHub's format."""
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
        **cluster_parameters: Any,
    ) -> Any:
        """Runs an action.

        Args:
            action: `serve` or `build`.
            wait: Wait until the service is ready. Builds are always waited for.
            replicas: Number of processes.
            init_parameters: Arguments of the init function, apart from the context.
            instructions: Shell commands of an image, run by root before the requirements are installed.
            envs: Environment variables of the processes or the image, each as `{"name": ..., "value": ...}`.
            secrets: Names of variables that must be set in the environment.
            http: HTTP address of the service.
            grpc: gRPC address of the service; None disables gRPC.
            isolation: `process` for separate processes, `server` for threads of the server's process.
            resources: Resources of each replica, as `{"cpu": "2", "mem": "1Gi", "gpu": 1, "disk": "2Gi"}`. Environment
                variables limit libraries to `cpu` and `gpu`, unless `envs` or the environment sets them. Nothing is
                enforced.
            volumes: Mounts, each as `{"volume_type": ..., "name": ..., "mount_path": ...}`. The path must exist on this
                machine, except for `empty_dir` and `ephemeral`, whose folders are created.
            options: Options of the integration, see docs/openinference.md.
            builder: Program that builds the image; see `penstock.images.build`.
            wheel: Penstock's wheel for the image, instead of the package index's.
            cluster_parameters: `service_type` and other cluster options, which the run's spec stores.

        Returns:
            A `ServeRun` or a `BuildRun`.

        Raises:
            StartupError: the action is not possible; the message has the reason.
            TypeError: a parameter is unknown.
        """
        if unknown := sorted(set(cluster_parameters) - _CLUSTER_PARAMETERS):
            raise TypeError(f"run() has no parameter {unknown[0]!r}")
        environment = {str(one["name"]): str(one["value"]) for one in envs}
        variables = resource_variables(resources)
        _check_secrets(secrets)
        cluster_options = {"resources": resources, "volumes": volumes}
        spec = {
            "function": self.key,
            "action": action,
            "replicas": replicas,
            "init_parameters": dict(init_parameters or {}),
            **{name: value for name, value in cluster_options.items() if value is not None},
            **cluster_parameters,
        }
        if action == "build":
            build_options = {"builder": builder, "wheel": wheel}
            return self._build(instructions, environment, spec, build_options)
        if action != "serve":
            raise StartupError(f"there is no action {action!r}, only serve and build")
        # Values of the run take precedence over values of the function's file.
        image = {
            "replicas": replicas,
            "init_parameters": init_parameters,
            "envs": environment or None,
            "isolation": isolation,
        }
        run_options = Options.of(self.spec.settings, options or {}, image)
        prepare_volumes(volumes)
        if run_options.isolation == "process":
            # Variables of the environment are specific to this machine, so they take precedence.
            unset = {name: value for name, value in variables.items() if name not in os.environ}
            run_options = replace(run_options, envs={**unset, **run_options.envs})
        run = ServeRun(self.spec, run_options, spec, http, grpc)
        if wait:
            try:
                run.wait()
            except StartupError:
                # The caller has no reference to the run yet.
                run.stop()
                raise
        return run

    def image_name(self) -> str:
        """Returns the name of the image without a tag: the recorded one, or project and function."""
        image = (self.spec.image or "").rpartition("@")[0] or (self.spec.image or "")
        name, colon, tag = image.rpartition(":")
        image = name if colon and "/" not in tag else image
        if len(image) > 3:
            return image
        return re.sub(r"[^a-z0-9._-]+", "-", f"{self.spec.project}-{self.spec.name}".lower()).strip("-._")

    def to_dict(self) -> dict[str, Any]:
        """Returns the function as an entity, in the form of a file."""
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
            "requirements": list(requirement_lines(function.requirements, function.folder)),
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
        """Writes the function as JSON, for `penstock serve`."""
        path = Path(file)
        path.write_text(json.dumps(self.to_dict(), indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
        return path

    def _build(
        self, instructions: Sequence[str], envs: Mapping[str, str], spec: dict[str, Any], build_options: dict[str, Any]
    ) -> Run:
        from dataclasses import replace

        from penstock import images

        run, name = BuildRun(self.spec, {**spec, "instructions": list(instructions)}), f"{self.image_name()}:latest"
        run.status.state = "BUILDING"
        with tempfile.TemporaryDirectory(prefix="penstock-build-") as folder:
            image = image_spec(self.spec, self.export(Path(folder) / "function.json"), instructions, envs)
            try:
                images.build(replace(image, record=self._record_image), name, **build_options)
            except StartupError as error:
                run.status.state, run.status.message = "ERROR", str(error)
                raise
        run.status.state, run.status.outputs = "COMPLETED", {"image": self.spec.image or name}
        return run

    def _record_image(self, image: str) -> None:
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
