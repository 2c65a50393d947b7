"""Ray Serve models behind a server, run by an interpreter with Ray. Arguments: HTTP port, gRPC port."""

from __future__ import annotations

import sys
from typing import Any

import ray
from ray import serve

from penstock.compat.kserve import InferOutput, InferResponse, Model, ModelServer
from penstock.compat.kserve.errors import InvalidInput
from penstock.compat.kserve.ray import RayModel

ACTOR_OPTIONS = {"num_cpus": 0}


@serve.deployment(ray_actor_options=ACTOR_OPTIONS)
class Double(Model):
    def __init__(self, name: str = "first") -> None:
        super().__init__(name)
        self.load()

    def get_input_types(self) -> Any:
        return [{"name": "x", "datatype": "FP32", "shape": [-1]}]

    async def predict(self, payload: Any, headers: Any = None) -> Any:
        if isinstance(payload, dict):
            if payload["instances"] == ["bad"]:
                raise InvalidInput("not this")
            return {"predictions": [2 * one for one in payload["instances"]], "own": (headers or {}).get("x-own")}
        x = payload.inputs[0].as_numpy()
        y = InferOutput("y", list(x.shape), "FP32")
        y.set_data_from_numpy(x * 2, binary_data=True)
        return InferResponse(payload.id, self.name, [y])

    async def explain(self, payload: Any, headers: Any = None) -> Any:
        return {"explanations": payload["instances"]}


@serve.deployment(ray_actor_options=ACTOR_OPTIONS)
class Bare:
    def __call__(self, body: Any, headers: Any = None) -> Any:
        return {"predictions": body["instances"]}


if __name__ == "__main__":
    ray.init(num_cpus=1, include_dashboard=False, object_store_memory=80 << 20, log_to_driver=False)
    serve.start(proxy_location="Disabled")
    double = RayModel("double", serve.run(Double.bind("double"), name="mine", route_prefix=None))
    assert not double.ready
    double.load()
    server = ModelServer(http_port=int(sys.argv[1]), grpc_port=int(sys.argv[2]), workers=2)
    # Handles stay in this process, whatever the number of workers.
    server.register_model(double)
    server.start({"first": Double, "bare": Bare.bind()})
    serve.shutdown()
    ray.shutdown()
