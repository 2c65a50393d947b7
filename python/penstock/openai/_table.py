"""Endpoints of the served models, by path and by the name of their model."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from penstock.errors import SignatureError
from penstock.openai._body import Body
from penstock.openai._errors import ErrorForm, Refused, unknown_model
from penstock.openai._served import Endpoint, Served

__all__ = ["DEFAULT_PREFIX", "MayUse", "Table"]

DEFAULT_PREFIX = "/v1"
"""Prefix of the paths. With any other one, endpoints have no paths without it: two routes would have the same."""
MayUse = Callable[[str], bool]
"""Returns whether a client may use a model."""


class Table:
    """Endpoints by path and model.

    Attributes:
        prefix: Prefix of most paths, without a slash at its end.
        by_path: Model and endpoint by the whole path and the name in requests.

    Raises:
        SignatureError: two models of the same name at one path.
    """

    def __init__(self, served: Iterable[Served], prefix: str) -> None:
        self.prefix = prefix
        self.by_path: dict[str, dict[str, tuple[Served, Endpoint]]] = {}
        for one in served:
            for path, endpoint in one.endpoints().items():
                if path.startswith("/") and prefix != DEFAULT_PREFIX:
                    continue
                named = self.by_path.setdefault(self.whole(path), {})
                if one.name in named:
                    raise SignatureError(f"openai.routes: {path} has two models of the name {one.name!r}; pass name=")
                named[one.name] = one, endpoint
        self._names = list(dict.fromkeys(name for named in self.by_path.values() for name in named))

    def whole(self, path: str) -> str:
        """The whole path of a path that may lack the prefix."""
        return path if path.startswith("/") else f"{self.prefix}/{path}"

    def any_endpoint(self, path: str) -> Endpoint:
        """One endpoint of a path: those of its models read bodies and report errors alike."""
        return next(iter(self.by_path[path].values()))[1]

    def errors(self, path: str) -> ErrorForm:
        """The form of errors of a path."""
        return self.any_endpoint(path).errors

    def find(self, path: str, body: Body, may_use: MayUse) -> tuple[Served, Endpoint]:
        """The model that a body names, and its endpoint at a path.

        Raises:
            Refused: there is no such model at this path, or the client may not use it.
        """
        requested = body.needed("model")
        found = self.by_path[path].get(requested) if isinstance(requested, str) else None
        if found is None or not may_use(found[0].model.name):
            if requested in self.visible(may_use):
                raise Refused(f"The model {requested!r} is not served by {path}", "model")
            raise unknown_model(requested)
        return found

    def visible(self, may_use: MayUse) -> list[str]:
        """The names of models that a client may use."""
        served = [pair for named in self.by_path.values() for pair in named.items()]
        allowed = {name for name, (one, _) in served if may_use(one.model.name)}
        return [name for name in self._names if name in allowed]
