"""Imports, defaults, types, configurations, workspaces and exceptions, without a server."""

from __future__ import annotations

import importlib
import os
import pathlib
import tempfile

import numpy as np
from observe import plain, show

NAMES = {
    "pytriton": ["client", "model_config", "triton"],
    "pytriton.triton": [
        *("Triton", "RemoteTriton", "TritonBase", "TritonConfig", "TritonLifecyclePolicy"),
        *("DefaultTritonLifecyclePolicy", "VertextAILifecyclePolicy", "TritonSecurityConfig", "TRITON_ACCESS_HEADER"),
        *("VALID_TRITON_ENDPOINTS", "DEFAULT_PROTECTED_ENDPOINTS", "MONITORING_PERIOD_S", "WAIT_FORM_MODEL_TIMEOUT_S"),
    ],
    "pytriton.model_config": ["ModelConfig", "Tensor", "DynamicBatcher", "QueuePolicy", "TimeoutAction", "DeviceKind"],
    "pytriton.model_config.common": [
        *("DynamicBatcher", "QueuePolicy", "TimeoutAction", "DeviceKind", "WarmupInput", "ModelWarmup"),
        *("generate_warmup_data", "generate_warmup_requests"),
    ],
    "pytriton.model_config.triton_model_config": ["TritonModelConfig", "TensorSpec", "ResponseCache"],
    "pytriton.model_config.generator": ["ModelConfigGenerator"],
    "pytriton.model_config.parser": ["ModelConfigParser"],
    "pytriton.decorators": [
        *("batch", "sample", "first_value", "group_by_keys", "group_by_values", "pad_batch", "fill_optionals"),
        *("triton_context", "convert_output", "get_inference_request_batch_size", "get_model_config"),
        *("get_triton_context", "ConstantPadder", "TritonContext", "ModelConfigDict", "InferenceRequest"),
        *("InferenceRequests", "InferenceResult", "InferenceResults", "InputNames"),
    ],
    "pytriton.proxy.types": ["Request", "Response", "Requests", "Responses"],
    "pytriton.proxy.telemetry": [
        *("set_telemetry_tracer", "get_telemetry_tracer", "traced_span", "parse_trace_config"),
        *("build_proxy_tracer_from_triton_config", "start_span_from_span", "start_span_from_remote", "end_span"),
    ],
    "pytriton.exceptions": [
        *("PyTritonError", "PyTritonValidationError", "PyTritonInvalidOperationError", "PyTritonBadParameterError"),
        *("PyTritonModelConfigError", "PyTritonUnrecoverableError", "PyTritonRuntimeError"),
    ],
    "pytriton.client": [
        *("ModelClient", "FuturesModelClient", "DecoupledModelClient", "AsyncioModelClient"),
        "AsyncioDecoupledModelClient",
    ],
    "pytriton.client.exceptions": [
        *("PyTritonClientError", "PyTritonClientValueError", "PyTritonClientInvalidUrlError"),
        *("PyTritonClientTimeoutError", "PyTritonClientModelUnavailableError", "PyTritonClientClosedError"),
        *("PyTritonClientModelDoesntSupportBatchingError", "PyTritonClientInferenceServerError"),
        "PyTritonClientQueueFullError",
    ],
    "pytriton.client.warnings": ["NotSupportedTimeoutWarning", "PyTritonWarning"],
    "pytriton.client.utils": [
        *("TritonUrl", "create_client_from_url", "wait_for_server_ready", "wait_for_model_ready", "get_model_config"),
        *("get_model_state", "ModelState", "LATEST_MODEL_VERSION"),
    ],
    "pytriton.client.asyncio_utils": [
        *("asyncio_wait_for_server_ready", "asyncio_wait_for_model_ready", "asyncio_get_model_config"),
        "asyncio_get_model_state",
    ],
    "pytriton.client.auth": ["create_auth_headers", "extract_access_token_from_headers"],
    "pytriton.utils.workspace": ["Workspace", "CleanupWarning"],
    "pytriton.constants": [
        *("DEFAULT_HTTP_PORT", "DEFAULT_GRPC_PORT", "DEFAULT_METRICS_PORT", "TRITON_LOCAL_IP"),
        *("DEFAULT_TRITON_STARTUP_TIMEOUT_S", "CREATE_TRITON_CLIENT_TIMEOUT_S", "TRITON_CONTEXT_FIELD_NAME"),
    ],
    "pytriton.check.utils": [
        *("find_free_port", "ProcessMonitoring", "ScriptThread", "DEFAULT_LOG_FORMAT"),
        *("search_warning_on_too_verbose_log_level", "TestMonitoringContext"),
    ],
}


def imported_value(module: str, name: str) -> object:
    value = getattr(importlib.import_module(module), name)
    if isinstance(value, (int, float, str)):
        return value
    if isinstance(value, (tuple, list, set, frozenset)):
        return sorted(value)
    return (
        sorted(base.__name__ for base in value.__mro__)
        if isinstance(value, type) and "xception" in module
        else "exists"
    )


for module, names in NAMES.items():
    for name in names:
        show(f"import {module} {name}", lambda module=module, name=name: imported_value(module, name))

from pytriton import exceptions
from pytriton.model_config import DeviceKind, DynamicBatcher, ModelConfig, QueuePolicy, Tensor, TimeoutAction
from pytriton.model_config.generator import ModelConfigGenerator
from pytriton.model_config.parser import ModelConfigParser
from pytriton.model_config.triton_model_config import ResponseCache, TensorSpec, TritonModelConfig
from pytriton.proxy.types import Request, Response
from pytriton.triton import TritonConfig, TritonLifecyclePolicy, TritonSecurityConfig
from pytriton.utils.workspace import Workspace

show("ModelConfig defaults", lambda: ModelConfig())
show("QueuePolicy defaults", lambda: QueuePolicy())
show(
    "DynamicBatcher positional",
    lambda: DynamicBatcher(5, [1, 2], True, 3, 1, QueuePolicy(), {1: QueuePolicy(TimeoutAction.DELAY)}),
)
show("Tensor", lambda: Tensor((1, -1), np.float32, "x", True))
show("Tensor of a dtype", lambda: Tensor(shape=(1,), dtype=np.dtype("int8")).dtype)
show("Tensor is frozen", lambda: setattr(Tensor(shape=(1,), dtype=bytes), "name", "y"))
show("Tensor without a shape", lambda: Tensor(dtype=bytes))
show("DeviceKind", lambda: [(kind.name, kind.value) for kind in DeviceKind])
show("TimeoutAction", lambda: [(action.name, action.value) for action in TimeoutAction])
show("TritonModelConfig defaults", lambda: TritonModelConfig(model_name="m"))
show("TritonModelConfig backend", lambda: TritonModelConfig(model_name="m").backend)
show("ResponseCache", lambda: ResponseCache(enable=True))


def request() -> Request:
    return Request({"a": np.ones((2, 1), np.float32), "b": np.zeros((2, 2))}, {"p": 1})


def changed() -> object:
    changed_request = request()
    changed_request["c"] = np.ones(1)
    del changed_request["a"]
    return [
        list(changed_request),
        len(changed_request),
        "c" in changed_request,
        "a" in changed_request,
        list(changed_request.keys()),
        len(list(changed_request.values())),
        changed_request.parameters,
    ]


show("Request is a mapping", changed)
show(
    "Request without parameters", lambda: [Request({}).parameters, Request({}).span, Request({}).requested_output_names]
)
show("Request has no get", lambda: request().get("a"))
show("Request misses a key", lambda: request()["nope"])
show("Request items", lambda: dict(request().items()))
show("Response is a mapping", lambda: dict(Response({"y": np.ones(1)}).items()))


def span() -> str:
    with request().traced_span("work"):
        return "fine"


show("Request traced_span without a span", span)

for name in ("PyTritonError", "PyTritonUnrecoverableError"):
    error = getattr(exceptions, name)
    show(f"{name} text", lambda error=error: [str(error("what")), error("what").message])
    show(f"{name} without a text", lambda error=error: error())

show("TritonConfig defaults", lambda: TritonConfig().to_dict())
show("TritonConfig positional", lambda: TritonConfig("a"))
show("TritonConfig without protocols", lambda: TritonConfig(allow_http=False, allow_grpc=False))
show(
    "TritonConfig from_dict",
    lambda: TritonConfig.from_dict({"http_port": "8000", "allow_grpc": 1, "nope": 3, "trace_config": ("a",)}),
)
os.environ["PYTRITON_TRITON_CONFIG_GRPC_PORT"] = "45436"
os.environ["PYTRITON_TRITON_CONFIG_MODEL_REPOSITORY"] = os.sep + "models"
os.environ["PYTRITON_TRITON_CONFIG_TRACE_CONFIG_0"] = "mode=opentelemetry"
os.environ["PYTRITON_TRITON_CONFIG_TRACE_CONFIG_2"] = "rate=1"
show("TritonConfig from_env", lambda: TritonConfig.from_env())
for name in [name for name in os.environ if name.startswith("PYTRITON_TRITON_CONFIG_")]:
    del os.environ[name]
show("TritonLifecyclePolicy", lambda: TritonLifecyclePolicy())
show("TritonSecurityConfig", lambda: TritonSecurityConfig(restricted_endpoints=[]))
show("TritonSecurityConfig token", lambda: len(TritonSecurityConfig().access_token or ""))
show("TritonSecurityConfig endpoints", lambda: sorted(TritonSecurityConfig().restricted_endpoints or ()))
show("TritonSecurityConfig unknown", lambda: TritonSecurityConfig(restricted_endpoints=["health", "nope"]))

FULL = TritonModelConfig(
    model_name="full",
    model_version=3,
    max_batch_size=16,
    batcher=DynamicBatcher(
        max_queue_delay_microseconds=100,
        preferred_batch_size=[4, 8],
        preserve_ordering=True,
        priority_levels=2,
        default_priority_level=1,
        default_queue_policy=QueuePolicy(TimeoutAction.DELAY, 10, True, 5),
        priority_queue_policy={2: QueuePolicy(TimeoutAction.REJECT, 1, False, 2)},
    ),
    instance_group={DeviceKind.KIND_CPU: 2, DeviceKind.KIND_GPU: None},
    decoupled=True,
    backend_parameters={"some": "value"},
    inputs=[TensorSpec("a", (-1, 3), np.float32), TensorSpec("s", (1,), bytes, optional=True)],
    outputs=[TensorSpec("b", (2,), np.uint8)],
    response_cache=ResponseCache(enable=True),
)
PLAIN = TritonModelConfig(
    model_name="plain",
    batching=False,
    inputs=[TensorSpec("a", (1,), np.bool_)],
    outputs=[TensorSpec("b", (1,), object)],
)


def round_trip(config: TritonModelConfig) -> object:
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "config.pbtxt"
        ModelConfigGenerator(config).to_file(path)
        return ModelConfigParser.from_file(config_path=path)


for config in (FULL, PLAIN):
    name = config.model_name
    show(f"generate {name}", lambda config=config: ModelConfigGenerator(config).get_config())
    show(
        f"generate and parse {name}",
        lambda config=config: ModelConfigParser.from_dict(ModelConfigGenerator(config).get_config()),
    )
    show(f"write and read {name}", lambda config=config: round_trip(config))
show(
    "generate an optional output",
    lambda: ModelConfigGenerator(
        TritonModelConfig(model_name="m", outputs=[TensorSpec("y", (1,), np.int8, True)])
    ).get_config(),
)


def of_batcher(**fields: object) -> object:
    return ModelConfigGenerator(TritonModelConfig(model_name="m", batcher=DynamicBatcher(**fields))).get_config()


show("generate a default level that is too high", lambda: of_batcher(priority_levels=1, default_priority_level=2))
show("generate policies without levels", lambda: of_batcher(priority_queue_policy={1: QueuePolicy()}))
show("generate a policy of no level", lambda: of_batcher(priority_levels=2, priority_queue_policy={3: QueuePolicy()}))
show(
    "generate a batch of none",
    lambda: ModelConfigGenerator(TritonModelConfig(model_name="m", max_batch_size=0)).get_config(),
)


def workspace() -> object:
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "workspace"
        created = Workspace(path)
        states = [created.path == path.resolve(), created.exists(), created.is_empty()]
        (path / "file").touch()
        states.append(created.is_empty())
        created.clean()
        return [*states, created.exists(), path.exists()]


def occupied() -> object:
    with tempfile.TemporaryDirectory() as folder:
        try:
            return Workspace(folder).exists()
        except FileExistsError as error:
            raise FileExistsError(type(error).__name__) from None


show("Workspace", workspace)
show("existing Workspace", occupied)
assert plain(1) == 1
