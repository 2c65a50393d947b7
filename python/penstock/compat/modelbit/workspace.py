"""`Workspace`: deployments of this process and their server."""

from __future__ import annotations

import secrets
import shutil
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from penstock import Model, Server
from penstock.compat.modelbit import runtime
from penstock.compat.modelbit._bind import deployment_model, gateway_model
from penstock.compat.modelbit._examples import remember_table
from penstock.compat.modelbit._gateway.gateway import Gateway
from penstock.compat.modelbit._settings import Settings
from penstock.compat.modelbit._spec.deployment import Deployment
from penstock.compat.modelbit._spec.folders import fill_table
from penstock.compat.modelbit._spec.table import DeploymentTable, check_name
from penstock.compat.modelbit._write_folder import DeployOptions, function_name, write_folder
from penstock.compat.modelbit.errors import UserFacingError
from penstock.integrations.files import temporary_folder

__all__ = ["Deployed", "Workspace", "current", "deploy", "use"]

_Files = str | Sequence[str] | Mapping[str, str] | None


@dataclass(frozen=True)
class Deployed:
    """The result of `deploy`."""

    name: str
    version: int
    branch: str
    folder: Path
    """The deployment's folder, for `penstock serve` and `penstock build`."""
    url: str | None
    """URL of the version; None if no server runs."""


class Workspace:
    """Deployments of this process and their server.

    Args:
        folder: Folder that deployments are written to; those already in it are served. None for a temporary folder.
        address: Address of the server; port 0 for any.
        options: Fields of `Settings`.

    Example:
        >>> with Workspace(address="127.0.0.1:0") as workspace:
        ...     workspace.deploy(doubler)
        ...     get_inference("doubler", 21, base_url=workspace.url)
    """

    def __init__(self, folder: str | Path | None = None, *, address: str = "127.0.0.1:5000", **options: Any) -> None:
        self.folder = temporary_folder("penstock-modelbit-") if folder is None else Path(folder)
        self._address, self._settings = address, Settings.of(options)
        self._token, self._lock = secrets.token_hex(16), threading.RLock()
        self._table = DeploymentTable()
        self._gateway = Gateway("modelbit", self._table, self._settings)
        self._server: Server | None = None
        if folder is not None and (self.folder / "deployments").is_dir():
            fill_table(self._table, self.folder, self._settings, self._token)

    @property
    def url(self) -> str:
        """Base URL of the server; starts it if it does not run."""
        return self.start().http_url

    def models(self) -> list[Model[..., Any]]:
        """Returns the models, for a `Server` of your own."""
        models = [deployment_model(one, self._settings, self._gateway) for one in self._table.all()]
        return remember_table([gateway_model("modelbit", self._gateway), *models], self._table)

    def start(self) -> Server:
        """Starts the server, if it does not run."""
        with self._lock:
            if self._server is None:
                self._server = Server(*self.models(), http=self._address, grpc=None).start()
            return self._server

    def stop(self) -> None:
        """Stops the server."""
        with self._lock:
            server, self._server = self._server, None
        if server is not None:
            server.stop()

    def wait(self) -> None:
        """Waits until the server stops."""
        self.start().wait()

    def __enter__(self) -> Workspace:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def alias(self, name: str, alias: str, version: int, branch: str | None = None) -> None:
        """Sets the version of an alias."""
        self._table.alias(name, alias, version, branch or runtime.get_branch())

    def deploy(self, function: Callable[..., Any], name: str | None = None, **options: Any) -> Deployed:
        """Serves a function as the next version of its name. Accepts the arguments of `deploy`."""
        name = name or function_name(function)
        check_name(name)
        deploy_options = _deploy_options(**options)
        branch = runtime.get_branch()
        with self._lock:
            version = self._table.next_version(name, branch)
            home = self.folder / (
                "deployments" if branch == "main" else f"branches/{branch.replace('/', '~')}/deployments"
            )
            folder = home / name / "versions" / str(version)
            try:
                write_folder(function, name, folder, deploy_options)
            except BaseException:
                shutil.rmtree(folder, ignore_errors=True)
                raise
            deployment = _read(folder, name, version, branch, self)
            self._serve(deployment)
        url = None
        if self._server is not None:
            url = f"{self._server.http_url}/v1/{name}/{branch.replace('/', '~')}/{version}"
        return Deployed(name, version, branch, folder, url)

    def _serve(self, deployment: Deployment) -> None:
        server = self._server
        self._table.assign_routes(deployment)
        if server is not None:
            # Its model is ready before the table lists it.
            server.add(deployment_model(deployment, self._settings, self._gateway))
        routes = self._gateway.routes()
        self._table.add(deployment)
        if server is not None and self._gateway.routes() != routes:
            # A new name needs new routes; a new version uses the existing ones.
            server.add(gateway_model("modelbit", self._gateway), replace=True)


def deploy(  # noqa: PLR0917 - as upstream has them
    deployableObj: Callable[..., Any],
    name: str | None = None,
    python_version: str | None = None,
    base_image: str | None = None,
    python_packages: Sequence[str] | None = None,
    requirements_txt_path: str | None = None,
    system_packages: Sequence[str] | None = None,
    dataframe_mode: bool = False,
    example_dataframe: Any = None,
    common_files: _Files = None,
    extra_files: _Files = None,
    skip_extra_files_dependencies: bool = False,
    skip_extra_files_discovery: bool = False,
    snowflake_max_rows: int | None = None,
    snowflake_mock_return_value: Any = None,
    require_gpu: bool | str = False,
    setup: str | Sequence[str] | None = None,
    tags: Sequence[str] | None = None,
) -> Deployed:
    """Serves a function in this process's workspace and starts the workspace's server.

    Returns:
        The deployment and its URL.

    Raises:
        UserFacingError: the function cannot be deployed; the message has the reason.
    """
    if runtime.in_modelbit():
        raise UserFacingError("a deployment cannot deploy")
    workspace = current()
    if workspace.starts_server:
        workspace.workspace.start()
    deployed = workspace.workspace.deploy(
        deployableObj,
        name,
        python_version=python_version,
        base_image=base_image,
        python_packages=python_packages,
        requirements_txt_path=requirements_txt_path,
        system_packages=system_packages,
        dataframe_mode=dataframe_mode,
        example_dataframe=example_dataframe,
        files=(common_files, extra_files),
        require_gpu=require_gpu,
        tags=tags,
    )
    if deployed.url:
        print(f"{deployed.name}, version {deployed.version}, is at {deployed.url}")
    return deployed


@dataclass
class _Current:
    """The workspace that `deploy` uses."""

    workspace: Workspace
    starts_server: bool


_CURRENT: list[_Current] = []


def current() -> _Current:
    """Returns the workspace that `deploy` uses; created at first use."""
    if not _CURRENT:
        _CURRENT.append(_Current(Workspace(), starts_server=True))
    return _CURRENT[0]


def use(workspace: Workspace | None, *, starts_server: bool = True) -> None:
    """Sets the workspace that `deploy` uses.

    Args:
        workspace: The workspace; None to create one at the next use.
        starts_server: Whether the first deployment starts its server.
    """
    _CURRENT[:] = [] if workspace is None else [_Current(workspace, starts_server)]


def _deploy_options(
    *,
    dataframe_mode: bool = False,
    example_dataframe: Any = None,
    require_gpu: bool | str = False,
    python_packages: Sequence[str] | None = None,
    system_packages: Sequence[str] | None = None,
    tags: Sequence[str] | None = None,
    files: tuple[_Files, ...] = (),
    **more: Any,
) -> DeployOptions:
    if dataframe_mode != (example_dataframe is not None):
        raise UserFacingError("dataframe_mode and example_dataframe go together")
    gpu = {True: ["gpu=T4"], False: []}.get(require_gpu) if isinstance(require_gpu, bool) else [f"gpu={require_gpu}"]
    return DeployOptions(
        example_dataframe=example_dataframe,
        python_packages=tuple(python_packages or ()),
        system_packages=tuple(system_packages or ()),
        capabilities=tuple(gpu or ()),
        tags=tuple(tags or ()),
        files=files,
        **more,
    )


def _read(folder: Path, name: str, version: int, branch: str, workspace: Workspace) -> Deployment:
    from penstock.compat.modelbit._spec.folders import DeploymentFolder, load_deployment

    found = DeploymentFolder(name, version, branch, folder, workspace.folder)
    return load_deployment(found, workspace._settings, workspace._token)
