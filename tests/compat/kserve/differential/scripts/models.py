"""Models of server.py, one per feature."""

from __future__ import annotations

import asyncio
from typing import Any

import numpy as np
from common import NEW, numpy_of, output, respond
from contract import FAILURES, RESULTS
from kserve import Model
from kserve.utils.utils import get_predict_input, get_predict_response


class Double(Model):
    """Doubles the first input, in either protocol."""

    def predict(self, payload: Any, headers: Any = None) -> Any:
        """Doubles."""
        twice = numpy_of(payload) * 2
        if isinstance(payload, dict):
            return {"predictions": twice.tolist()}
        return respond(payload, self.name, [output("y", twice, payload.inputs[0].datatype, payload)])


class Later(Double):
    """The async variant."""

    async def predict(self, payload: Any, headers: Any = None) -> Any:  # type: ignore[override]
        """Doubles after a while."""
        await asyncio.sleep(0.001)
        return super().predict(payload, headers)


class Echo(Model):
    """Returns every tensor, and attributes of the request."""

    def predict(self, payload: Any, headers: Any = None) -> Any:
        """Returns the inputs as outputs."""
        return respond(
            payload,
            self.name,
            [output(one.name, one.as_numpy(), one.datatype, payload) for one in payload.inputs],
            parameters={"known": True, "of": "echo", "n": len(payload.inputs)},
        )


class Lists(Model):
    """Returns outputs of lists."""

    def predict(self, payload: Any, headers: Any = None) -> Any:
        """Returns numbers and text."""
        from kserve import InferOutput

        outputs = [
            InferOutput("n", [3], "INT32", [1, 2, 3]),
            InferOutput("t", [2], "BYTES", ["a", "gr\u00fcn"]),
            InferOutput("f", [2, 2], "FP32", [0.5, 1.5, 2.5, 3.5], parameters={"unit": "m"}),
        ]
        return respond(payload, self.name, outputs, model_version="7")


class Seen(Model):
    """Returns the handler's arguments as text."""

    def preprocess(self, payload: Any, headers: Any = None) -> Any:
        """Records the arguments."""
        self.before = type(payload).__name__
        return payload

    def predict(self, payload: Any, headers: Any = None) -> Any:
        """Returns the arguments."""
        arguments = {
            "payload": type(payload).__name__,
            "before": self.before,
            "value": payload if isinstance(payload, (dict, list, str, int, float)) else str(payload)[:60],
            "headers": {name: value for name, value in sorted(headers.items()) if name in RETURNED_HEADERS},
        }
        if type(payload).__name__ != "InferRequest":
            return {"predictions": [arguments]}
        arguments["value"] = {
            "id": payload.id,
            "model": payload.model_name,
            "grpc": payload.from_grpc,
            "parameters": sorted(payload.parameters or {}),
            "inputs": [[one.name, list(one.shape), one.datatype, type(one.data).__name__] for one in payload.inputs],
        }
        text = np.array([repr(arguments).encode()], object)
        return respond(payload, self.name, [output("seen", text, "BYTES", payload)])


class Data(Model):
    """Returns the data of each input as text."""

    def predict(self, payload: Any, headers: Any = None) -> Any:
        """Returns the data's `repr`."""
        texts = np.array([repr(one.data).encode() for one in payload.inputs], object)
        return respond(payload, self.name, [output("data", texts, "BYTES", payload)])


RETURNED_HEADERS = ("content-type", "x-request-id", "x-own", "authorization", "ce-id", "ce-type", "accept")


class Stages(Model):
    """Overrides all stages, each of which leaves a mark."""

    async def preprocess(self, payload: Any, headers: Any = None) -> Any:
        """The first."""
        return {"instances": [*payload["instances"], "pre"]}

    def predict(self, payload: Any, headers: Any = None) -> Any:
        """The second."""
        return [*payload["instances"], "predict"]

    def postprocess(self, result: Any, headers: Any = None) -> Any:
        """The third."""
        return {"predictions": [*result, "post"]}

    async def explain(self, payload: Any, headers: Any = None) -> Any:
        """Runs instead of `predict`."""
        return [*payload["instances"], "explain"]


class Contract(Model):
    """Returns the result that the request's mode names."""

    def predict(self, payload: Any, headers: Any = None) -> Any:
        """Reads the mode from the first instance or input."""
        return RESULTS[mode(payload)](payload, self.name)


class Fails(Model):
    """Raises the exception that the request's mode names."""

    def predict(self, payload: Any, headers: Any = None) -> Any:
        """Raises."""
        raise FAILURES[mode(payload)]()


class FailsLater(Fails):
    """The async variant."""

    async def predict(self, payload: Any, headers: Any = None) -> Any:  # type: ignore[override]
        """Raises."""
        raise FAILURES[mode(payload)]()


def mode(payload: Any) -> str:
    """Returns a request's mode."""
    if isinstance(payload, dict):
        return str(payload["instances"][0])
    first = payload.inputs[0].as_numpy().ravel()[0]
    return first.decode() if isinstance(first, bytes) else str(first)


class Described(Double):
    """Declares inputs and outputs."""

    def get_input_types(self) -> Any:
        """Returns one input."""
        return [{"name": "x", "datatype": "FP32", "shape": [-1, 2]}]

    def get_output_types(self) -> Any:
        """Returns one output."""
        return [{"name": "y", "datatype": "FP32", "shape": [-1, 2]}]


class Helped(Model):
    """Uses the helpers of `kserve.utils.utils`."""

    def predict(self, payload: Any, headers: Any = None) -> Any:
        """Computes as KServe's scikit-learn runtime does."""
        rows = get_predict_input(payload)
        return get_predict_response(payload, np.asarray(rows) * 2, self.name)


class Stream(Model):
    """Streams."""

    async def predict(self, payload: Any, headers: Any = None) -> Any:
        """Yields three chunks."""

        async def chunks() -> Any:
            for number in range(3):
                await asyncio.sleep(0)
                yield f"chunk {number}\n"

        return chunks()


class Explains(Double):
    """Also explains."""

    def explain(self, payload: Any, headers: Any = None) -> Any:
        """Returns the arguments."""
        return {"explanations": payload}


def with_headers() -> Any:
    """Returns a model that sets response headers, for dialect 0.21."""

    class Headers(Model):
        def __init__(self, name: str) -> None:
            super().__init__(name, return_response_headers=True)

        async def predict(self, payload: Any, headers: Any = None, response_headers: Any = None) -> Any:
            response_headers.update({"x-predict": "1", "x-own": headers.get("x-own", "none")})
            return Double.predict(self, payload)  # type: ignore[arg-type]

        def postprocess(self, result: Any, headers: Any = None, response_headers: Any = None) -> Any:
            response_headers["x-postprocess"] = "2"
            return result

    return Headers("headers")


def MODELS() -> list[Model]:
    """All models."""
    models = [
        Double("double"),
        Later("later"),
        Echo("echo"),
        Lists("lists"),
        Seen("seen"),
        Data("data"),
        Stages("stages"),
        Contract("contract"),
        Fails("fails"),
        FailsLater("fails_later"),
        Described("described"),
        Helped("helped"),
        Stream("stream"),
        Explains("explains"),
        Model("plain"),
    ]
    return [*models, with_headers()] if NEW else models
