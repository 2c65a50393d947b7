"""Serves models.py and a repository that creates more models; prints the address."""

from __future__ import annotations

from common import NEW, report_when_up
from kserve import Model, ModelRepository, ModelServer
from observe import free_ports

from models import MODELS, Double


class Repository(ModelRepository):
    """Creates models of any name, except some."""

    async def load(self, name: str) -> bool:
        """Creates a model, or fails."""
        if name == "broken":
            raise RuntimeError("there are no weights")
        if name == "absent":
            return False
        self.update(Lasting(name) if name == "lasting" else Double(name))
        model = self.get_model(name)
        model.ready = name != "lazy"
        return bool(model.ready)


class Lasting(Double):
    """Records its stop."""

    def stop(self) -> None:
        """Records the stop."""
        STOPPED.append(self.name)


class Stopped(Model):
    """Returns the stopped models."""

    def predict(self, payload: object, headers: object = None) -> object:
        """Returns the names."""
        return {"predictions": STOPPED}


STOPPED: list[str] = []

if __name__ == "__main__":
    http, grpc = free_ports(2)
    models = [*MODELS(), Stopped("stopped")]
    for model in models:
        model.load()
    sleepy = Double("sleepy")
    if not NEW:
        # KServe 0.21 does not serve models that are not ready at start.
        from generative import Parrot

        models += [sleepy, Parrot("parrot")]
    report_when_up(http, grpc=grpc)
    server = ModelServer(http_port=http, grpc_port=grpc, registered_models=Repository())
    server.start(models)
