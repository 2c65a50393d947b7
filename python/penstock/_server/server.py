"""`Server` and `serve`: from models to a running server and back."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from penstock._model.resolve import definitions_of, let_go, made
from penstock._runtime import at_exit, forks, interpreter
from penstock._server.addresses import reachable
from penstock.config import ServerConfig, load_config
from penstock.errors import ConfigError, StartupError

if TYPE_CHECKING:
    from types import TracebackType

    from typing_extensions import Self, Unpack

    from penstock import _core
    from penstock._attach.listener import Host
    from penstock._model.model import Model
    from penstock._repository.control import Control
    from penstock._spec.definition import Definition
    from penstock.config import ServerOptions

__all__ = ["Server"]


class Server:
    """Serves models until it is stopped; a context manager that starts on entry and drains on exit.

    Args:
        models: What to serve: models, pipelines, or functions and classes whose annotations say enough. None are
            needed where `repository` names a folder of models, or others come by `attach`; and see `empty`.
        config: Every setting at once, instead of environment and `penstock.toml`.
        control: Loads and unloads models when clients ask for it; see `penstock.repository.Control`.
        options: Single settings, over all others; see `ServerConfig`. Port 0 picks a free port.

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
        settings = load_config(dict(options), base=config)
        # Others may come later.
        may_be_empty = settings.attach is not None or control is not None
        definitions = definitions_of(models, required=not settings.repository and not may_be_empty)
        self._set_up(definitions, settings, control, may_be_empty=may_be_empty)

    @classmethod
    def empty(
        cls, *, config: ServerConfig | None = None, control: Control | None = None, **options: Unpack[ServerOptions]
    ) -> Self:
        """A server that starts without models, to be given them by `add`.

        Takes what `Server` takes, and raises what it raises.
        """
        server = cls.__new__(cls)
        server._set_up([], load_config(dict(options), base=config), control, may_be_empty=True)
        return server

    def _set_up(
        self, definitions: list[Definition], config: ServerConfig, control: Control | None, *, may_be_empty: bool
    ) -> None:
        if control is not None:
            if config.repository:
                raise ConfigError("control: models come from the folders of `repository`, or by a control, not both")
            config = replace(config, model_control="explicit")
        self.config, self.definitions = config, definitions
        if self.config.http is None and self.config.grpc is None:
            raise ConfigError("http and grpc are both off: nothing would listen")
        # Imported at first use: describing models does not need what loads folders of them.
        from penstock._repository.manager import Keeper

        self._keeper = Keeper.of(self.definitions, self.config, may_be_empty=may_be_empty, control=control)
        self._core: _core.Server | None = None
        self._host: Host | None = None
        self._refusals: dict[tuple[str, str | None], str | None] = {}
        """What was said of models before the start."""

    @property
    def http_address(self) -> str | None:
        """`HOST:PORT` or `unix:/path` where HTTP listens; None when it is off or not started."""
        return self._core.http_address if self._core else None

    @property
    def grpc_address(self) -> str | None:
        """`HOST:PORT` or `unix:/path` where gRPC listens; None when it is off or not started."""
        return self._core.grpc_address if self._core else None

    @property
    def metrics_address(self) -> str | None:
        """`HOST:PORT` or `unix:/path` of the setting `metrics`; None when it is off or not started."""
        return self._core.metrics_address if self._core else None

    @property
    def attach_address(self) -> str | None:
        """`unix:/path` where other processes attach models; None when that is off or not started."""
        return self._host.address if self._host else None

    @property
    def http_url(self) -> str:
        """Where clients of this machine reach HTTP: `http://HOST:PORT`, or `unix:/path`.

        Raises:
            StartupError: HTTP is off, or the server is not started.
        """
        address = reachable(self.http_address, "HTTP")
        return address if address.startswith("unix:") else f"http://{address}"

    @property
    def grpc_url(self) -> str:
        """The target that gRPC clients of this machine take: `HOST:PORT` without a scheme, or `unix:/path`.

        Raises:
            StartupError: gRPC is off, or the server is not started.
        """
        return reachable(self.grpc_address, "gRPC")

    def start(self) -> Self:
        """Binds, loads every model and returns when all are ready. A second call does nothing.

        Raises:
            BindError: an address cannot be listened on, or models cannot be attached where they are to be.
            LoadError: a model failed while it was built; `__cause__` is its own exception.
            NotFound: `set_ready` named a model before that there is not.
        """
        if self._core is None:
            definitions = self._keeper.at_start()
            core = self._make_core(definitions)
            try:
                for (name, version), refusal in self._refusals.items():
                    core.models.set_refusal(name, version, refusal)
                core.start()
            except BaseException as error:
                # What was bound or loaded before the failure is let go.
                core.stop(0.0)
                if (interrupt := error.__cause__) is not None and not isinstance(interrupt, Exception):
                    # A signal while models load is no failure of theirs.
                    raise interrupt from None
                raise
            # Now that the models have imported what they need.
            interpreter.report_lock()
            self._core = core
            self.definitions = [replace(one, factory=let_go, explainer=None) for one in definitions]
            at_exit.watch(core)
            forks.keep_from_children(core.descriptors)
            self._keeper.run(core.models)
            at_exit.watch(self._keeper)
            if self.config.attach is not None:
                self._open(self.config.attach, core)
        return self

    def _open(self, place: str, core: _core.Server) -> None:
        from penstock._attach.listener import Host

        try:
            self._host = Host(place, [core.http_address, core.grpc_address], core.models, self._keeper)
        except BaseException:
            self.stop(0.0)
            self._core = None
            raise
        at_exit.watch(self._host)

    def reload(self, read: Callable[[], Iterable[Any]], *, folders: Iterable[str] = ()) -> list[str]:
        """Serves what `read()` gives instead of the models that the server was made with.

        New instances are built beside the old ones, which answer until all new ones are ready, and finish what
        they have. No request fails. Everything is replaced, or nothing: if `read` raises or a model cannot be built,
        what serves goes on, and the index of models says why. Folders of `repository` are looked at too.

        Args:
            read: Gives models, as `Server` takes them; called on this thread.
            folders: Where their files lie; these are named when something in them fails.

        Returns:
            The names of the models that were loaded.

        Raises:
            PenstockError: nothing is replaced; the message says why, and the log has the traceback.
            StartupError: the server is not started.
        """
        if self._core is None:
            raise StartupError("the server is not started, so there is nothing to load anew")
        return self._keeper.renew(lambda: definitions_of(read()), folders)

    def add(self, *models: Model[..., Any] | Any, replace: bool = False) -> list[str]:
        """Serves more models, beside those that serve. They are all ready when it returns, or none is added.

        Args:
            models: What to serve, as `Server` takes it; steps of a pipeline and models that are called may be there
                already.
            replace: Whether they may take the place of models of the same name and version, in one step: requests
                that found the old one finish there, and none fails.

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
        given = [made(one) for one in models]
        replaced = {(one.name, one.version) for one in given} if replace else set()
        return self._keeper.add(lambda known: definitions_of([*known, *given], required=all_known), replaced)

    def remove(self, name: str, version: str | None = None) -> None:
        """Serves a model no longer that the server was given, or that was added. Requests that found it finish.

        Args:
            name: The model.
            version: Of its versions the one to remove; None for all.

        Raises:
            NotFound: it has no such model of its own.
            SignatureError: another model calls it.
            StartupError: the server is not started.
            Unavailable: the server stops.
        """
        if self._core is None:
            raise StartupError("the server is not started, so nothing can be removed from it")
        self._keeper.remove(name, version)

    def set_ready(self, name: str, ready: bool, reason: str = "", version: str | None = None) -> None:
        """Has a model that is loaded refuse requests, or take them again.

        While it refuses, requests are answered 503 with the reason, and health, gRPC's `ModelReady` and the index of
        models say that it is not ready. What it has begun it finishes. Said before the start, it holds from the start;
        a model that is loaded anew is ready.

        Args:
            name: The model.
            ready: Whether it takes requests, once it is loaded.
            reason: Why it takes none, for its callers.
            version: Of its versions the one that is meant; None for all.

        Raises:
            NotFound: there is no such model or version.
            Unavailable: it is not loaded.
        """
        refusal = None if ready else str(reason)
        if self._core is None:
            self._refusals[name, version] = refusal
        else:
            self._core.models.set_refusal(name, version, refusal)

    def wait(self, timeout: float | None = None) -> bool:
        """Blocks until the server has stopped, at most `timeout` seconds. Whether it has stopped."""
        return self._core is None or self._core.wait(timeout)

    def stop(self, timeout: float | None = None) -> list[str]:
        """Refuses new requests, lets the running ones finish, and stops. A second call does nothing.

        Args:
            timeout: Seconds until what still runs is cut off; the configured `drain_timeout` by default.

        Returns:
            The names of what was cut off; empty when all requests finished.
        """
        if self._core is None:
            return []
        host = self._host
        if host is not None:
            host.close()
        cut = [*self._core.stop(timeout), *self._keeper.stop()]
        if host is not None:
            # Whoever has attached models knows by now that they are over.
            host.stop()
        return cut

    def _make_core(self, definitions: list[Definition]) -> _core.Server:
        from penstock import _core

        return _core.Server(definitions, self.config)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
