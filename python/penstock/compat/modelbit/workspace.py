"""`Workspace`: deployments of this process, and the server that answers for them."""

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
from penstock.compat.modelbit._bind import gate_model, model_of
from penstock.compat.modelbit._examples import to_greet
from penstock.compat.modelbit._gateway.gateway import Gate
from penstock.compat.modelbit._settings import Settings
from penstock.compat.modelbit._spec.deployment import Deployment
from penstock.compat.modelbit._spec.folders import fill
from penstock.compat.modelbit._spec.table import Table, check_name
from penstock.compat.modelbit._spec.temporary_folder import own_folder
from penstock.compat.modelbit._spec.write_folder import Wanted, name_of, write
from penstock.compat.modelbit.errors import UserFacingError

__all__ = ["Deployed", "Workspace", "current", "deploy", "use"]

_Files = str | Sequence[str] | Mapping[str, str] | None


@dataclass(frozen=True)
class Deployed:
    """What `deploy` gives."""

    name: str
    version: int
    branch: str
    folder: Path
    """Where it lies: a deployment's folder, as `penstock serve` and `penstock build` take it."""
    url: str | None
    """Where it is asked; None if no server runs."""


class Workspace:
    """Deployments of this process, and the server that answers for them.

    Args:
        folder: Where deployments are written, and what is there already is served; None for a folder that ends with
            the process.
        address: Where the server listens; port 0 for any.
        options: See `Settings`.

    Example:
        >>> with Workspace(address="127.0.0.1:0") as workspace:
        ...     workspace.deploy(doubler)
        ...     get_inference("doubler", 21, base_url=workspace.url)
    """

    def __init__(self, folder: str | Path | None = None, *, address: str = "127.0.0.1:5000", **options: Any) -> None:
        self.folder = own_folder("penstock-modelbit-") if folder is None else Path(folder)
        self._address, self._settings = address, Settings.of(options)
        self._token, self._lock = secrets.token_hex(16), threading.RLock()
        self._table = Table()
        self._gate = Gate("modelbit", self._table, self._settings)
        self._server: Server | None = None
        if folder is not None and (self.folder / "deployments").is_dir():
            fill(self._table, self.folder, self._settings, self._token)

    @property
    def url(self) -> str:
        """Where the server is asked; it is started if it does not run."""
        return self.start().http_url

    def models(self) -> list[Model[..., Any]]:
        """What a server of one's own would serve."""
        models = [model_of(one, self._settings, self._gate) for one in self._table.all()]
        return to_greet([gate_model("modelbit", self._gate), *models], self._table)

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
        """Has an alias stand for a version, whatever it stood for before."""
        self._table.alias(name, alias, version, branch or runtime.get_branch())

    def deploy(self, function: Callable[..., Any], name: str | None = None, **wanted: Any) -> Deployed:
        """Serves a function, as the next version of its name. Versions before it go on. Takes what `deploy` takes."""
        name = name or name_of(function)
        check_name(name)
        what = _wanted(**wanted)
        branch = runtime.get_branch()
        with self._lock:
            version = self._table.next_version(name, branch)
            home = self.folder / (
                "deployments" if branch == "main" else f"branches/{branch.replace('/', '~')}/deployments"
            )
            folder = home / name / "versions" / str(version)
            try:
                write(function, name, folder, what)
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
        self._table.own(deployment)
        if server is not None:
            # It is ready before anybody can name it.
            server.add(model_of(deployment, self._settings, self._gate))
        routes = self._gate.routes()
        self._table.add(deployment)
        if server is not None and self._gate.routes() != routes:
            # A new name has routes of its own; a new version is found by those that there are.
            server.add(gate_model("modelbit", self._gate), replace=True)


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
    """Serves a function, here and at once: in this process's workspace, whose server is started.

    Returns:
        What was deployed, and where it is asked.

    Raises:
        UserFacingError: it cannot be; the message says why.
    """
    if runtime.in_modelbit():
        raise UserFacingError("a deployment cannot deploy")
    workspace = current()
    if workspace.starts:
        workspace.of.start()
    deployed = workspace.of.deploy(
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
    """The workspace that `deploy` means."""

    of: Workspace
    starts: bool


_CURRENT: list[_Current] = []


def current() -> _Current:
    """The workspace that `deploy` means; made at first use."""
    if not _CURRENT:
        _CURRENT.append(_Current(Workspace(), starts=True))
    return _CURRENT[0]


def use(workspace: Workspace | None, *, starts: bool = True) -> None:
    """Has `deploy` mean a workspace; None for a new one at next use.

    Args:
        workspace: Which.
        starts: Whether the first deployment starts its server.
    """
    _CURRENT[:] = [] if workspace is None else [_Current(workspace, starts)]


def _wanted(
    *,
    dataframe_mode: bool = False,
    example_dataframe: Any = None,
    require_gpu: bool | str = False,
    python_packages: Sequence[str] | None = None,
    system_packages: Sequence[str] | None = None,
    tags: Sequence[str] | None = None,
    files: tuple[_Files, ...] = (),
    **more: Any,
) -> Wanted:
    if dataframe_mode != (example_dataframe is not None):
        raise UserFacingError("dataframe_mode and example_dataframe go together")
    gpu = {True: ["gpu=T4"], False: []}.get(require_gpu) if isinstance(require_gpu, bool) else [f"gpu={require_gpu}"]
    return Wanted(
        example_dataframe=example_dataframe,
        python_packages=tuple(python_packages or ()),
        system_packages=tuple(system_packages or ()),
        capabilities=tuple(gpu or ()),
        tags=tuple(tags or ()),
        files=files,
        **more,
    )


def _read(folder: Path, name: str, version: int, branch: str, workspace: Workspace) -> Deployment:
    from penstock.compat.modelbit._spec.folders import Found, deployment_of

    found = Found(name, version, branch, folder, workspace.folder)
    return deployment_of(found, workspace._settings, workspace._token)
