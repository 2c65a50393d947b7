"""Helpers, errors, models, repositories and settings, without a server."""

from __future__ import annotations

import asyncio
import inspect
from typing import Any

import numpy as np
import pandas as pd
from common import NEW
from kserve import InferInput, InferRequest, Model, ModelRepository, ModelServer, constants, model_server
from kserve import errors as kserve_errors
from kserve.model import InferenceVerb, PredictorConfig, PredictorProtocol
from kserve.protocol.infer_type import (
    deserialize_bytes_tensor,
    serialize_byte_tensor,
    to_grpc_parameters,
    to_http_parameters,
)
from kserve.utils import utils
from kserve.utils.numpy_codec import from_np_dtype, to_np_dtype
from observe import plain, show

F = np.float32


def run(call: Any) -> Any:
    """Returns a call's result, awaited if necessary."""

    async def wait() -> Any:
        return plain(await call)

    return asyncio.run(wait()) if inspect.isawaitable(call) else call


def local_codec() -> None:
    """Records datatypes, truth values and parameters."""
    for name in ("BOOL", "INT8", "INT64", "UINT16", "FP16", "FP32", "FP64", "BYTES", "BF16", "fp32", "nope"):
        show(f"to_np_dtype {name}", lambda: str(np.dtype(numpy_type)) if (numpy_type := to_np_dtype(name)) else None)
    for kind in ("bool", "int8", "uint64", "float16", "float32", "float64", "object", "S3", "complex64"):
        show(f"from_np_dtype {kind}", lambda: from_np_dtype(np.dtype(kind)))
    if NEW:
        show("from_np_dtype U3", lambda: from_np_dtype(np.dtype("U3")))
        show("from_np_dtype dates", lambda: from_np_dtype(np.dtype("datetime64[s]")))
    for name, array in {
        "bytes": np.array([b"one", b""], object),
        "texts": np.array(["gr\u00fcn"], object),
        "fixed": np.array([b"ab", b"c"]),
        "numbers": np.array([1, 2], object),
        "a matrix": np.array([[b"a"], [b"b"]], object),
    }.items():
        show(f"serialize {name}", lambda: serialize_byte_tensor(array).item())
    show("serialize nothing", lambda: serialize_byte_tensor(np.array([], object)))
    show("serialize floats", lambda: serialize_byte_tensor(np.zeros(1)))
    show("deserialize", lambda: deserialize_bytes_tensor(b"\x01\0\0\0a\0\0\0\0"))
    show("deserialize cut", lambda: deserialize_bytes_tensor(b"\x05\0\0\0a"))
    for name, value in {"a bool": True, "an int": 5, "a text": "t", "a float": 1.5, "none": None}.items():
        show(f"to_grpc_parameters {name}", lambda: to_http_parameters(to_grpc_parameters({"p": value})))
    show("to_http_parameters", lambda: to_http_parameters({"a": 1, "b": "t"}))


def local_helped() -> None:
    """Records get_predict_input and get_predict_response."""

    def frame(of: Any) -> Any:
        return {"frame": of.to_dict("list")} if isinstance(of, pd.DataFrame) else plain(of)

    numbers = InferInput("x", [2, 2], "FP32", [1, 2, 3, 4])
    texts = InferInput("t", [2], "BYTES", ["a", "b"])
    pd_request = InferRequest("m", [InferInput("a", [2], "INT32", [1, 2]), texts], parameters={"content_type": "pd"})
    payloads = {
        "instances": {"instances": [[1, 2], [3, 4]]},
        "inputs": {"inputs": [1.5]},
        "nothing": {},
        "no rows": {"instances": []},
        "rows of names": {"instances": [{"a": [1], "b": ["x"]}, {"a": [2], "b": ["y"]}]},
        "texts": {"instances": ["a", "b"]},
        "a request": InferRequest("m", [numbers]),
        "a request of texts": InferRequest("m", [texts]),
        "a request of two": InferRequest("m", [numbers, texts]),
        "a request of a frame": pd_request,
    }
    for name, payload in payloads.items():
        show(f"get_predict_input {name}", lambda: frame(utils.get_predict_input(payload)))
    results = {
        "an array": np.arange(4, dtype=F).reshape(2, 2),
        "a list": [1, 2],
        "texts": ["a", "b"],
        "a frame": pd.DataFrame({"a": [1, 2], "b": [0.5, 1.5]}),
    }
    for name, result in results.items():
        show(f"get_predict_response {name}", lambda: utils.get_predict_response({"instances": []}, result, "m"))
        infer_request = InferRequest("m", [numbers], "an-id")
        show(
            f"get_predict_response {name}, v2",
            lambda: outputs_of(utils.get_predict_response(infer_request, result, "m")),
        )
    show("get_predict_response of something", lambda: utils.get_predict_response(5, [1], "m"))
    for text in ("y", "YES", "true", "1", "no", "off", "0", "maybe"):
        show(f"strtobool {text}", lambda: bool(utils.strtobool(text)))
    show("generate_uuid", lambda: [len(utils.generate_uuid()), utils.generate_uuid() != utils.generate_uuid()])
    show("cpu_count", lambda: utils.cpu_count() >= 1)


def outputs_of(response: Any) -> Any:
    """Returns a response's outputs."""
    return [
        response.id,
        response.model_name,
        [[one.name, list(one.shape), one.datatype, one.as_numpy()] for one in response.outputs],
    ]


def local_errors() -> None:
    """Records texts and bases of the errors."""
    errors: dict[str, tuple[Any, ...]] = {
        "InferenceError": ("why",),
        "InvalidInput": ("why",),
        "ModelNotFound": ("m",),
        "ModelNotReady": ("m",),
        "ModelMissingError": ("/path",),
        "WorkersShouldBeLessThanMaxWorkersError": (4,),
    }
    if NEW:
        errors |= {
            "UnsupportedProtocol": ("v9",),
            "ServerNotReady": (),
            "ServerNotLive": (),
            "NoModelReady": ([Model("a"), Model("b")],),
        }
    for name, arguments in errors.items():
        kind = getattr(kserve_errors, name)
        show(
            f"error {name}",
            lambda: [
                str(kind(*arguments)),
                [base.__name__ for base in kind.__mro__[1:-2] if not base.__name__.startswith("_")],
            ],
        )
    show("error with a status", lambda: str(kserve_errors.InferenceError("why", "E1")))
    show("error with a detail", lambda: str(kserve_errors.ModelNotReady("m", "soon")))


class Recording(Model):
    """Records its stages."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.stages: list[str] = []

    async def preprocess(self, payload: Any, headers: Any = None) -> Any:
        """The first."""
        self.stages.append("preprocess")
        return payload

    def predict(self, payload: Any, headers: Any = None) -> Any:
        """The second."""
        self.stages.append(f"predict {sorted(headers or {})}")
        return {"predictions": payload["instances"]}

    async def explain(self, payload: Any, headers: Any = None) -> Any:
        """Runs instead of `predict`."""
        self.stages.append("explain")
        return {"explanations": payload["instances"]}

    def postprocess(self, result: Any, headers: Any = None) -> Any:
        """The third."""
        self.stages.append("postprocess")
        return result


def local_models() -> None:
    """Records calls and defaults of models."""

    def call(body: Any, *rest: Any, **named: Any) -> Any:
        model = Recording("m")
        return [run(model(body, *rest, **named)), model.stages]

    body = {"instances": [1]}
    show("call", lambda: call(body))
    show("call with headers", lambda: call(body, headers={"a": "b"}))
    show("call to explain", lambda: call(body, verb=InferenceVerb.EXPLAIN))
    show(
        "call to explain, by place",
        lambda: call(body, None, InferenceVerb.EXPLAIN) if NEW else call(body, InferenceVerb.EXPLAIN),
    )
    show("call with instances that are no list", lambda: call({"instances": 5}))
    show("call with a list", lambda: run(Model("m").validate([1])))
    model = Model("m")
    show("a model", lambda: [model.name, model.ready, run(model.healthy()), run(model.get_input_types())])
    show("a model, loaded", lambda: [model.load(), model.ready, run(model.healthy())])
    show("a model, latency logging", lambda: model.enable_latency_logging)
    show("a plain model predicts", lambda: run(model.predict({}, {})))
    show("a plain model explains", lambda: run(model.explain({}, {})))
    config = PredictorConfig("host", "v2", True, 5)
    names = ("predictor_host", "predictor_protocol", "predictor_use_ssl", "predictor_request_timeout_seconds")
    show("predictor config", lambda: [getattr(config, name) for name in names])
    show("predictor config, defaults", lambda: [getattr(PredictorConfig("h"), name) for name in names])
    show("protocols", lambda: [one.value for one in PredictorProtocol])
    show("verbs", lambda: [one.name for one in InferenceVerb])
    if NEW:
        more = ("protocol", "timeout", "retries", "use_ssl", "predictor_base_url", "predictor_health_check")
        show("predictor config, more", lambda: [getattr(config, name) for name in more])
    else:
        old = Model("m", config)
        show(
            "a model with a config",
            lambda: [old.protocol, old.predictor_host, old.timeout, old.use_ssl, old.explainer_host],
        )
        show("a model without one", lambda: [model.protocol, model.predictor_host, model.timeout, model.use_ssl])


def local_repository() -> None:
    """Records the repository."""
    repository = ModelRepository()
    show("repository", lambda: [repository.get_models(), repository.get_model("m")])
    model = Recording("m")
    model.load()
    repository.update(model)
    show("repository, with a model", lambda: [list(repository.get_models()), repository.get_model("m") is model])
    show("repository, ready", lambda: [run(repository.is_model_ready(name)) for name in ("m", "nope")])
    show("repository, load", lambda: run(repository.load("m")))
    show("repository, unload", lambda: [run(repository.unload("m")), list(repository.get_models())])
    show("repository, unload again", lambda: run(repository.unload("m")))
    show("repository, folder", lambda: repository.models_dir)


def local_server() -> None:
    """Records a server that is not started."""
    server = ModelServer(http_port=1)
    names = ("http_port", "grpc_port", "workers", "max_threads", "enable_grpc", "enable_docs_url", "access_log_format")
    show("server", lambda: [getattr(server, name) for name in names])
    show("server, latency logging", lambda: server.enable_latency_logging)
    show("server, a model without a name", lambda: server.register_model(Model("")))
    show("server, a model", lambda: [server.register_model(Model("m")), list(server.registered_models.get_models())])
    show("server, not a model", lambda: server.start([5]))
    show("server, a dict of something", lambda: server.start({"a": 5}))
    show("server, something", lambda: server.start("models"))
    show(
        "arguments",
        lambda: {name: value for name, value in sorted(vars(model_server.args).items()) if name in ARGUMENTS},
    )
    known = {option for action in model_server.parser._actions for option in action.option_strings}
    show("options", lambda: sorted(known & {f"--{name}" for name in ARGUMENTS}))
    show(
        "options, parsed",
        lambda: model_server.parser.parse_known_args(["--workers", "3", "--enable_grpc", "no", "--mine", "5"])[1],
    )
    show("constants", lambda: [constants.PREDICTOR_URL_FORMAT if hasattr(constants, "PREDICTOR_URL_FORMAT") else None])


ARGUMENTS = (
    *("http_port", "grpc_port", "workers", "max_threads", "max_asyncio_workers", "enable_grpc", "enable_docs_url"),
    *("enable_latency_logging", "configure_logging", "log_config_file", "access_log_format", "model_name"),
    *("predictor_host", "predictor_protocol", "predictor_use_ssl", "predictor_request_timeout_seconds"),
)

local_codec()
local_helped()
local_errors()
local_models()
local_repository()
local_server()
