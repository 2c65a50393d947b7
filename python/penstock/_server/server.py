"""`Server`: loads models, serves them, and changes them while it runs."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from penstock._config import tls
from penstock._config.resolve import Sources
from penstock._config.served import Reading, ServedSettings
from penstock._config.sockets import inherited
from penstock._model.resolve import as_model, definitions_of, for_inspection
from penstock._runtime import at_exit, forks, interpreter, memory, progress, stacks
from penstock._server import card, core_dumps
from penstock._server.addresses import client_address
from penstock._server.bind_errors import explained
from penstock._server.model_options import ModelOptions
from penstock._server.open_files import report_limit
from penstock.config import ServerConfig
from penstock.errors import BindError, ConfigError, StartupError

if TYPE_CHECKING:
    from types import TracebackType

    from typing_extensions import Self, Unpack

    from penstock import _core
    from penstock._attach.listener import Listener
    from penstock._model.model import Model
    from penstock._repository.control import Control
    from penstock._spec.definition import Definition
    from penstock.config import ServerOptions

__all__ = ["Server"]


class Server:
    """Serves models until it is stopped; a context manager that starts on entry and drains on exit.

    Args:
        models: Models, pipelines, or functions and classes with sufficient annotations. Optional with the settings
            `repository` and `attach`; see also `empty`.
        config: All settings, instead of environment and `penstock.toml`.
        control: Loads and unloads models on clients' requests; see `penstock.repository.Control`.
        options: Single settings, which take precedence; see `ServerConfig`. Port 0 picks a free port.

    Raises:
        ConfigError: a setting is wrong.
        SignatureError: a model cannot be served as it is declared.
        StartupError: there is no model, or two have the same name and version.

    Example:
        >>> with Server(double, http="127.0.0.1:0") as server:
        ...     print(server.http_url)
    """

    def __init__(
        self,
        *models: Model[..., Any] | Any,
        config: ServerConfig | None = None,
        control: Control | None = None,
        **options: Unpack[ServerOptions],
    ) -> None:
        self._set_up(models, _given(options, config, control), control)

    @classmethod
    def empty(
        cls, *, config: ServerConfig | None = None, control: Control | None = None, **options: Unpack[ServerOptions]
    ) -> Self:
        """A server that starts without models; `add` adds them.

        Takes the keyword arguments of `Server`, and raises the same errors.
        """
        server = cls.__new__(cls)
        server._set_up((), _given(options, config, control), control, may_be_empty=True)
        return server

    @classmethod
    def _prepared(
        cls,
        models: Sequence[Any],
        settings: ServedSettings[ServerConfig],
        integration_of: Callable[[Any], str | None] | None = None,
    ) -> Self:
        """A server with settings that are read already, for the commands.

        Args:
            models: Models, as `Server` takes them.
            settings: The settings.
            integration_of: Returns the integration of a model; None for one of Python.
        """
        server = cls.__new__(cls)
        server._set_up(models, settings, None, integration_of=integration_of)
        return server

    def _set_up(
        self,
        models: Sequence[Any],
        settings: ServedSettings[ServerConfig],
        control: Control | None,
        *,
        may_be_empty: bool = False,
        integration_of: Callable[[Any], str | None] | None = None,
    ) -> None:
        config = settings.config
        if control is not None and config.repository:
            raise ConfigError("control: models come from the folders of `repository`, or by a control, not both")
        # Models can be added after the start.
        may_be_empty = may_be_empty or config.attach is not None or control is not None
        self._settings, self.config = settings, config
        self.definitions = definitions_of(models, required=not config.repository and not may_be_empty)
        self._options = ModelOptions(models, integration_of)
        if self.config.http is None and self.config.grpc is None:
            raise ConfigError("http and grpc are both off: nothing would listen")
        # Imported at first use: declaring models does not need the repository.
        from penstock._repository.manager import ModelManager

        self._manager = ModelManager(self.definitions, self.config, may_be_empty=may_be_empty, control=control)
        self._core: _core.Server | None = None
        self._handed_over: Sequence[tuple[str, int]] = ()
        """Sockets of a server that this one replaces: address in its settings, and descriptor."""
        self._before_ready: Callable[[], object] = lambda: None
        """Called once the models are loaded. If it raises, the start fails."""
        self._describing = threading.Lock()
        """Held while settings or options of models change, until they are described."""
        self._listener: Listener | None = None
        self._refusals: dict[tuple[str, str | None], str | None] = {}
        """Calls of `set_ready` before the start."""

    @property
    def http_address(self) -> str | None:
        """HTTP address, `HOST:PORT` or `unix:/path`; None when it is off or not started."""
        return self._core.http_address if self._core else None

    @property
    def grpc_address(self) -> str | None:
        """GRPC address, `HOST:PORT` or `unix:/path`; None when it is off or not started."""
        return self._core.grpc_address if self._core else None

    @property
    def metrics_address(self) -> str | None:
        """Metrics address, `HOST:PORT` or `unix:/path`; None when it is off or not started."""
        return self._core.metrics_address if self._core else None

    @property
    def admin_address(self) -> str | None:
        """Address for operators, `HOST:PORT` or `unix:/path`; None when it is off or not started."""
        return self._core.admin_address if self._core else None

    @property
    def attach_address(self) -> str | None:
        """Address for attaching processes, `unix:/path`; None when it is off or not started."""
        return self._listener.address if self._listener else None

    @property
    def http_url(self) -> str:
        """HTTP URL for clients of this machine: `http://HOST:PORT`, `https://HOST:PORT` with TLS, or `unix:/path`.

        Raises:
            StartupError: HTTP is off, or the server is not started.
        """
        return self._url(client_address(self.http_address, "HTTP"), self.config.http)

    @property
    def admin_url(self) -> str:
        """URL of the admin address for clients of this machine, as `http_url`.

        Raises:
            StartupError: it is off, or the server is not started.
        """
        return self._url(client_address(self.admin_address, "admin"), self.config.admin)

    def _url(self, address: str, configured: str | None) -> str:
        scheme = "https" if tls.is_encrypted(self.config.tls_certificate, configured) else "http"
        return address if address.startswith("unix:") else f"{scheme}://{address}"

    @property
    def grpc_url(self) -> str:
        """GRPC target for clients of this machine: `HOST:PORT` without a scheme, or `unix:/path`.

        Raises:
            StartupError: gRPC is off, or the server is not started.
        """
        return client_address(self.grpc_address, "gRPC")

    def start(self) -> Self:
        """Binds, loads every model and returns when all are ready. A second call does nothing.

        Raises:
            BindError: an address cannot be listened on.
            LoadError: a model failed while it was built; `__cause__` is its own exception.
            NotFound: `set_ready` was called for an unknown model.
        """
        if self._core is None:
            inherited.claim(self.config.addresses, os.environ)
            report_limit(self.config.max_connections)
            definitions = self._manager.initial_definitions()
            memory.keep_freed_blocks()
            core_dumps.limit(self.config.core_dumps)
            stacks.register()
            core = self._make_core(progress.tracked(definitions))
            try:
                for (name, version), refusal in self._refusals.items():
                    core.models.set_refusal(name, version, refusal)
                core.start()
                self._before_ready()
                core.set_ready()
            except BaseException as error:
                # Releases addresses and models of the failed start.
                core.stop(0.0)
                if isinstance(error, BindError):
                    raise explained(error, self.config) from None
                if (interrupt := error.__cause__) is not None and not isinstance(interrupt, Exception):
                    # A signal while models load is not a load failure.
                    raise interrupt from None
                raise
            # After the models have imported their modules, one of which may have enabled the GIL.
            interpreter.report_lock()
            self._core = core
            self.definitions = for_inspection(definitions)
            at_exit.watch(core)
            forks.keep_from_children(number for _, number in core.sockets)
            self._manager.run(core.models)
            for (name, version), refusal in self._refusals.items():
                self._manager.table.set_refusal(name, version, refusal)
            at_exit.watch(self._manager)
            if self.config.attach is not None:
                self._open_listener(self.config.attach, core)
        return self

    def _open_listener(self, setting: str, core: _core.Server) -> None:
        from penstock._attach.listener import Listener

        try:
            addresses = [core.http_address, core.grpc_address]
            self._listener = Listener(setting, addresses, core.models, self._manager.table)
        except BaseException:
            self.stop(0.0)
            self._core = None
            raise
        at_exit.watch(self._listener)

    def reload(self, read: Callable[[], Iterable[Any]], *, folders: Iterable[str] = ()) -> list[str]:
        """Replaces the models that the server was given by those that `read()` returns.

        The old instances serve until all new ones are ready, and then finish their requests; no request fails.
        Everything is replaced, or nothing: if `read` raises or a model cannot be built, the old models go on, and
        the repository index has the reason. Folders of `repository` are polled too.

        Args:
            read: Returns models, as `Server` takes them; called on this thread.
            folders: Folders of their files. Errors name the file if it is in one of them.

        Returns:
            The names of the models that were loaded.

        Raises:
            PenstockError: nothing is replaced; the message has the reason, and the log the traceback.
            StartupError: the server is not started.
        """
        if self._core is None:
            raise StartupError("the server is not started, so there is nothing to reload")
        found: list[Any] = []

        def define() -> list[Definition]:
            found.extend(read())
            return definitions_of(found)

        try:
            names = self._manager.reload(define, folders)
        except BaseException:
            self._core.audit_reload(None, False)
            raise
        self._core.audit_reload(",".join(names), True)
        self._describe(lambda: self._options.replace(found))
        return names

    def add(self, *models: Model[..., Any] | Any, replace: bool = False) -> list[str]:
        """Serves more models. When it returns all of them are ready; if it raises, none is added.

        Args:
            models: Models, as `Server` takes them. Steps of a pipeline and models that they call may serve already.
            replace: Whether they may replace models of the same name and version, in one step: requests of the old
                model finish there, and none fails.

        Returns:
            The names of the models that were loaded.

        Raises:
            SignatureError: a model cannot be served as it is declared.
            LoadError: a model failed while it was built; `__cause__` is its own exception.
            StartupError: the server is not started, or has a model of the same name and version.
            Unavailable: the server stops.
        """
        if self._core is None:
            raise StartupError("the server is not started, so nothing can be added to it: start it first")
        if not models:
            return []
        all_known = not self.config.repository
        added = [as_model(target) for target in models]
        replaced = {(model.name, model.version) for model in added} if replace else set()
        names = self._manager.add(lambda known: definitions_of([*known, *added], required=all_known), replaced)
        self._describe(lambda: self._options.add(models))
        return names

    def remove(self, name: str, version: str | None = None) -> None:
        """Removes a model that the server was given, or that was added. Its requests under way finish.

        Args:
            name: The model.
            version: The version to remove; None for all.

        Raises:
            NotFound: the server was given no such model.
            SignatureError: another model calls it.
            StartupError: the server is not started.
            Unavailable: the server stops.
        """
        if self._core is None:
            raise StartupError("the server is not started, so nothing can be removed from it")
        self._manager.remove(name, version)
        self._describe(lambda: self._options.remove(name, version))

    def set_ready(self, name: str, ready: bool, reason: str = "", version: str | None = None) -> None:
        """Sets whether a loaded model takes requests.

        While it does not, requests get the status 503 with the reason, and health, gRPC's `ModelReady` and the
        repository index report that it is not ready. Requests under way finish. A call before the start takes effect
        at the start. A model that is loaded again is ready.

        Args:
            name: The model.
            ready: Whether it takes requests, once it is loaded.
            reason: The reason for clients, if it does not.
            version: The version; None for all.

        Raises:
            NotFound: there is no such model or version.
            Unavailable: the model is not loaded.
        """
        refusal = None if ready else str(reason)
        if self._core is None:
            self._refusals[name, version] = refusal
        else:
            self._manager.table.set_refusal(name, version, refusal)

    def wait(self, timeout: float | None = None) -> bool:
        """Blocks until the server has stopped, at most `timeout` seconds. Returns whether it has."""
        return self._core is None or self._core.wait(timeout)

    def reload_files(self) -> None:
        """Reads the files of TLS and of keys again if they have changed. Unusable ones are logged, and the old stay.

        The audit log is opened again: its file may have been moved away.
        """
        if self._core is not None:
            self._core.reload_files()

    def reload_settings(self) -> Reading:
        """Reads the settings again, with the arguments and the environment of the start.

        Those that a running server can change are in force when it returns; the others are reported.

        Raises:
            ConfigError: a setting is wrong, and nothing changes. The message has all that is wrong, a line each.
            StartupError: the server is not started.
        """
        if self._core is None:
            raise StartupError("the server is not started, so its settings cannot be read again")
        with self._describing:
            try:
                settings, reading = self._settings.read_again()
            except ConfigError:
                self._core.refuse_change()
                raise
            self._core.change(settings.config, settings.describe(self._options.described()))
            self._settings, self.config = settings, settings.config
        report_limit(self.config.max_connections)
        return reading

    def stop(self, timeout: float | None = None) -> list[str]:
        """Refuses new requests, lets the running ones finish, and stops. A second call does nothing.

        Args:
            timeout: Seconds until requests that still run are cut off; default: the setting `drain_timeout`.

        Returns:
            The names of the models that were cut off; empty when all requests finished.
        """
        if self._core is None:
            return []
        listener = self._listener
        if listener is not None:
            listener.close()
        cut = [*self._core.stop(timeout), *self._manager.stop()]
        if listener is not None:
            # After the drain: attached models serve until then.
            listener.stop()
        return cut

    def _view(self) -> card.View:
        if self._core is None or self._core.wait(0.0):
            models = [(one.name, one.version, "") for one in self.definitions]
            return card.View("not started" if self._core is None else "stopped", {}, None, models, self.definitions)
        urls = {"http": self.http_url} if self.http_address else {}
        has_docs = self.config.docs and urls.get("http", "unix:").startswith("http:")
        urls |= {"grpc": self.grpc_url} if self.grpc_address else {}
        docs = f"{urls['http']}/docs" if has_docs else None
        return card.View("running", urls, docs, self._manager.table.entries(), self.definitions)

    def _make_core(self, definitions: list[Definition]) -> _core.Server:
        from penstock import _core

        described = self._settings.describe(self._options.described())
        return _core.Server(definitions, self.config, described, [*self._handed_over])

    def _describe(self, change: Callable[[], object]) -> None:
        """Changes the options of models, and describes them again."""
        with self._describing:
            change()
            if self._core is not None:
                self._core.describe(self._settings.describe(self._options.described()))

    def __repr__(self) -> str:
        return card.text(self._view())

    def _repr_html_(self) -> str:
        """A card for notebooks: the addresses, and the models with their states."""
        return card.html(self._view())

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


def _given(
    options: Mapping[str, Any], config: ServerConfig | None, control: Control | None
) -> ServedSettings[ServerConfig]:
    controlled = {} if control is None else {"model_control": "explicit"}
    return ServedSettings.of(ServerConfig, Sources(arguments={**options, **controlled}, base=config))
