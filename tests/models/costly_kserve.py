"""A KServe model server with one model, to measure the memory of its requests."""

from __future__ import annotations

import sys
from typing import Any

from penstock.compat.kserve import Model, ModelServer


class Documents(Model):
    """Returns its payload."""

    def load(self) -> bool:
        """Loads immediately."""
        self.ready = True
        return True

    def predict(self, payload: Any, headers: Any = None, response_headers: Any = None) -> Any:
        """The payload itself."""
        return payload


if __name__ == "__main__":
    port, grpc_port = (int(argument) for argument in sys.argv[1:])
    model = Documents("documents")
    model.load()
    ModelServer(http_port=port, grpc_port=grpc_port).start([model])
