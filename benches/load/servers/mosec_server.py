"""Mosec: a route for each model and spelling, JSON and MessagePack."""

from __future__ import annotations

import sys

import numpy as np

import models

# Mosec reads its settings from the command line, when it is imported.
sys.argv[1:] = ["--address", "127.0.0.1", "--port", str(models.PORT), "--timeout", "30000", "--log-level", "error"]
from mosec import Server, Worker  # noqa: E402
from mosec.mixin import MsgpackMixin  # noqa: E402


class JsonWorker(Worker):
    model = ""

    def __init__(self):
        super().__init__()
        self.call = models.lookup(self.model).call

    def tensor(self, request):
        given = request["inputs"][0]
        if given["datatype"] == "BYTES":
            return given["data"]
        return np.array(given["data"], np.float32).reshape(given["shape"])

    def answer(self, row):
        output = {"name": "y", "shape": [1, *row.shape], "datatype": "FP32", "data": row.ravel().tolist()}
        return {"model_name": self.model, "outputs": [output]}

    def forward(self, data):
        # A worker with a batch of more than one gets a list.
        if not isinstance(data, list):
            return self.answer(self.call(self.tensor(data))[0])
        rows = self.call(np.concatenate([self.tensor(request) for request in data]))
        return [self.answer(row) for row in rows]


class MsgpackWorker(MsgpackMixin, JsonWorker):
    def tensor(self, request):
        return np.frombuffer(request["data"], np.float32).reshape(request["shape"])

    def answer(self, row):
        return {"shape": [1, *row.shape], "data": row.tobytes()}


# Spawned processes look worker classes up by module and name, and a class serves one route.
ROUTES = {}
for _model in (*models.MODELS, *models.BATCHED):
    for _spelling, _base in (("json", JsonWorker), ("msgpack", MsgpackWorker)):
        _name = f"Worker_{_model}_{_spelling}"
        ROUTES[_model, _spelling] = type(_name, (_base,), {"model": _model, "__module__": __name__})
        globals()[_name] = ROUTES[_model, _spelling]


def main() -> None:
    server = Server()
    for name in models.NAMES:
        batched = models.batched(name)
        spellings = ("json",) if models.lookup(name).text else ("json", "msgpack")
        for spelling in spellings:
            server.append_worker(
                ROUTES[name, spelling],
                num=models.WORKERS,
                max_batch_size=models.MAX_BATCH if batched else 1,
                max_wait_time=int(models.DELAY_SECONDS * 1000) if batched else 0,
                route=f"/{spelling}/{name}",
            )
    server.run()


if __name__ == "__main__":
    main()
