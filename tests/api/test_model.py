"""`Tensor`, `Batching`, `Threads`, `model` and `Model`: normalisation and validation."""

from __future__ import annotations

import copy
import dataclasses
import pickle
import re
from datetime import timedelta
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from penstock import (
    Batching,
    Context,
    Model,
    Processes,
    Request,
    Response,
    Sequences,
    Server,
    SignatureError,
    StartupError,
    Tensor,
    Threads,
    model,
)
from penstock._serve.banner import curl

F32 = np.float32
X, Y = Tensor("x", F32, [16]), Tensor("y", F32, [16])


@model(inputs=[X], outputs=[Y])
def double(x: Any) -> Any:
    """Doubles."""
    return x * 2


class Count:
    built: int = 0
    closed: int = 0

    def __init__(self, step: int = 1) -> None:
        type(self).built += 1
        self.step = step

    def predict(self, x: int) -> int:
        return x + self.step

    def close(self) -> None:
        type(self).closed += 1


# Not as a decorator: type checkers treat a decorated class as the class itself.
Counter = model(Count, name="counter")


@pytest.mark.parametrize(
    ("datatype", "name", "dtype"),
    [
        (np.float32, "FP32", np.float32),
        (np.dtype("int8"), "INT8", np.int8),
        ("uint16", "UINT16", np.uint16),
        ("FP16", "FP16", np.float16),
        (float, "FP64", np.float64),
        (int, "INT64", np.int64),
        (bool, "BOOL", np.bool_),
        ("BF16", "BF16", np.float32),
        (ml_dtypes.bfloat16, "BF16", ml_dtypes.bfloat16),
        (bytes, "BYTES", None),
        ("BYTES", "BYTES", None),
        (np.bytes_, "BYTES", None),
        (np.object_, "BYTES", None),
    ],
)
def test_datatypes_are_normalised(datatype: Any, name: str, dtype: Any) -> None:
    tensor = Tensor("x", datatype)
    assert (tensor.datatype, tensor.dtype, tensor.text) == (name, None if dtype is None else np.dtype(dtype), False)


@pytest.mark.parametrize("datatype", [str, np.str_])
def test_text_is_bytes_on_the_wire(datatype: Any) -> None:
    tensor = Tensor("x", datatype)
    assert (tensor.datatype, tensor.dtype, tensor.text) == ("BYTES", None, True)


@pytest.mark.parametrize("datatype", ["fp32", "STRING", complex, np.complex64, "datetime64[s]", ">f4", dict, [1], 3])
def test_unsupported_datatypes_are_rejected(datatype: Any) -> None:
    with pytest.raises(ValueError, match=r"^tensor 'x': datatype .* is not one of the protocol's: write a numpy dtype"):
        Tensor("x", datatype)


def test_shapes_are_normalised() -> None:
    assert Tensor("x", F32, [np.int64(3), -1]).shape == (3, -1)
    assert type(Tensor("x", F32, [np.int64(3)]).shape[0]) is int
    assert Tensor("x", F32).shape == ()


@pytest.mark.parametrize("shape", [[-2], [1.5], ["3"], 3, "3", None])
def test_invalid_shapes_are_rejected(shape: Any) -> None:
    expected = f"tensor 'x': shape {shape!r} must be a list of sizes of 0 or more, or -1 for a variable axis"
    with pytest.raises(ValueError, match=f"^{re.escape(expected)}$"):
        Tensor("x", F32, shape)


def test_tensor_requires_a_datatype_and_a_printable_name() -> None:
    with pytest.raises(ValueError, match=r"^tensor 'x' needs a datatype, for example np.float32$"):
        Tensor("x")
    for name in ("", "a\n", 3):
        with pytest.raises(ValueError, match="its name must be printable text of at least one character"):
            Tensor(name, F32)  # type: ignore[arg-type]


def test_tensor_is_hashable_picklable_and_frozen() -> None:
    tensor = Tensor("x", np.uint8, [-1, 3], optional=True)
    assert tensor == Tensor("x", "UINT8", (-1, 3), optional=True) != Tensor("x", "UINT8", (-1, 3))
    assert len({tensor, copy.deepcopy(tensor), pickle.loads(pickle.dumps(tensor))}) == 1
    assert repr(tensor) == "Tensor('x', 'UINT8', [-1, 3], optional=True)"
    assert eval(repr(Tensor("t", str))) == Tensor("t", str)
    with pytest.raises(dataclasses.FrozenInstanceError):
        tensor.name = "z"  # type: ignore[misc]


def test_batching_is_normalised() -> None:
    batching = Batching(max_size=8, max_delay=timedelta(milliseconds=2), preferred_sizes=[8, 4, 4])
    assert (batching.max_delay, batching.preferred_sizes) == (0.002, (4, 8))
    default = Batching()
    assert (default.max_size, default.dynamic, default.max_delay, default.oversize, default.hold) == (
        64,
        True,
        0.0,
        "refuse",
        True,
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"max_size": 0}, "Batching: max_size must be an integer of 1 or more, not 0"),
        ({"max_size": True}, "Batching: max_size must be an integer of 1 or more, not True"),
        ({"max_size": 2.5}, "Batching: max_size must be an integer of 1 or more, not 2.5"),
        ({"max_delay": -1}, "Batching: max_delay must be 0 seconds or more, not -1"),
        ({"max_delay": float("nan")}, "Batching: max_delay must be 0 seconds or more, not nan"),
        ({"max_size": 4, "preferred_sizes": [8]}, "Batching: preferred size 8 is not between 1 and max_size 4"),
        ({"oversize": "drop"}, "Batching: oversize must be 'refuse' or 'split', not 'drop'"),
    ],
)
def test_invalid_batching_is_rejected(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        Batching(**options)


@pytest.mark.parametrize("count", [0, -1, True, 1.5, 5000])
def test_invalid_thread_counts_are_rejected(count: Any) -> None:
    with pytest.raises(ValueError, match=f"^Threads: count must be an integer from 1 to 4096, not {count!r}$"):
        Threads(count)


def test_model_stays_callable_and_documented() -> None:
    assert isinstance(double, Model)
    assert double(np.ones(3)).tolist() == [2, 2, 2]
    assert (double.name, double.version, double.__doc__) == ("double", "1", "Doubles.")
    assert repr(double) == (
        "Model('double', version '1', inputs=[Tensor('x', 'FP32', [16])], outputs=[Tensor('y', 'FP32', [16])])"
    )


def test_definition_contains_all_options() -> None:
    batching = Batching(max_size=2)
    served = model(name="d", version=3, inputs=[X], outputs=[Y], batching=batching, instances=Threads(2), max_queue=7)(
        double.__wrapped__
    )
    definition = served.definition()
    values = {
        one.name: getattr(definition, one.name) for one in dataclasses.fields(definition) if one.name != "factory"
    }
    assert values == {
        "calls": None,
        "check_shapes": True,
        "plain_types": False,
        "input_types": {},
        "output_types": {},
        "opaque": False,
        "name": "d",
        "version": "3",
        "platform": "penstock",
        "inputs": (X,),
        "outputs": (Y,),
        "batching": batching,
        "iterative": None,
        "instances": 2,
        "inline": False,
        "max_queue": 7,
        "stall_timeout": None,
        "wants_context": False,
        "explainer": None,
        "concurrency": None,
        "processes": None,
        "streams": False,
        "description": double.__wrapped__.__doc__ or "",
        "input_documents": {},
        "output_documents": {},
        "queueing": None,
        "sequences": None,
        "resources": None,
        "cache": None,
        "version_policy": None,
        "warmup": None,
        "open": False,
        "routes": (),
        "fallback": None,
        "buckets": (),
    }
    handler = definition.factory()
    assert handler.call is double.__wrapped__
    assert handler.close() is None


def test_class_is_constructed_once_per_instance_and_closed() -> None:
    Count.built = Count.closed = 0
    definition = Counter.definition()
    assert Count.built == 0
    one, two = definition.factory(), definition.factory()
    assert Count.built == 2
    assert one.call(np.array(4)) == 5
    one.close()
    two.close()
    assert Count.closed == 2
    assert Counter(step=3).predict(1) == 4


def test_call_is_preferred_to_predict() -> None:
    class Both:
        def __call__(self, x: int) -> int:
            return x

        def predict(self, x: str) -> str:
            return x

    class Child(Both):
        pass

    assert [model(one).inputs[0].datatype for one in (Both, Child)] == ["INT64", "INT64"]


def test_class_attributes_do_not_shadow_model_attributes() -> None:
    class Shadowing:
        version = "shadow"

        def definition(self) -> str:
            return "shadow"

        def predict(self, x: int) -> int:
            return x

    served = model(Shadowing)
    assert (served.version, served.definition().version) == ("1", "1")


def test_model_of_a_model_inherits_its_options() -> None:
    second = model(Counter, version="2")
    assert (second.name, second.version, second.__wrapped__) == ("counter", "2", Counter.__wrapped__)


def test_static_and_class_methods_are_handlers() -> None:
    class Static:
        @staticmethod
        def predict(x: int) -> int:
            return x + 1

    class OfClass:
        @classmethod
        def predict(cls, x: int) -> int:
            return x + 1

    for one in (Static, OfClass):
        assert model(one).definition().factory().call(np.array(1)) == 2


def test_bound_methods_and_callable_objects_keep_their_state() -> None:
    class Adder:
        closed = False

        def __init__(self, step: int) -> None:
            self.step = step

        def add(self, x: int) -> int:
            return x + self.step

        __call__ = add

        def close(self) -> None:
            self.closed = True

    adder = Adder(5)
    assert model(adder.add).name == "add"
    for served in (model(adder.add), model(adder, name="m")):
        handler = served.definition().factory()
        assert handler.call(np.array(1)) == 6
        handler.close()
    # The owner of the object closes it.
    assert not adder.closed


def test_one_function_may_have_several_versions() -> None:
    second = double.with_options(version="2", instances=2)
    assert (second.name, second.version, second.instances, second.inputs) == ("double", "2", 2, double.inputs)
    assert double.version == "1"
    assert [one.version for one in Server(double, second).definitions] == ["1", "2"]


@pytest.mark.trap("T48")
@pytest.mark.parametrize("name", ["", "a/b", "a:b", ".hidden", "-a", "a ", "a" * 129, "a\n", "a\x00b", 3])
def test_invalid_names_and_versions_are_rejected(name: Any) -> None:
    rule = "must be 1 to 128 characters without '/', ':' and control characters, beginning with a letter or digit"
    if name:
        with pytest.raises(SignatureError, match=f"^model: name {re.escape(repr(name))} {re.escape(rule)}$"):
            model(lambda: None, name=name, inputs=[], outputs=[])
    if not isinstance(name, int):
        with pytest.raises(SignatureError, match=f"^model 'm': version {re.escape(repr(name))} {re.escape(rule)}$"):
            model(lambda: None, name="m", version=name, inputs=[], outputs=[])


@pytest.mark.parametrize("name", ["a", "a b ü", "résumé-ranker_2.1", "9"])
def test_names_may_contain_escapable_characters(name: str) -> None:
    assert model(lambda: None, name=name, inputs=[], outputs=[]).name == name


def test_unnamed_handler_needs_a_name() -> None:
    with pytest.raises(SignatureError, match=r"has no name of its own; give it one with model\(name=\.\.\.\)$"):
        model(lambda: None, inputs=[], outputs=[])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"instances": 0}, "model 'm': instances must be 1 to 4096, Threads(n) or Processes(n), not 0"),
        ({"instances": "2"}, "model 'm': instances must be 1 to 4096, Threads(n) or Processes(n), not '2'"),
        ({"max_queue": 0}, "model 'm': max_queue must be an integer of 1 or more, not 0"),
        ({"stall_timeout": 0.5}, "model 'm': stall_timeout must be 0 or at least 1 second, not 0.5"),
        ({"stall_timeout": "9"}, "model 'm': stall_timeout must be 0 or at least 1 second, not '9'"),
        (
            {"stall_timeout": 9, "instances": Processes(2)},
            "model 'm': stall_timeout is for instances that are threads; processes have Processes(hang_after=...)",
        ),
        ({"batching": 8}, "model 'm': batching must be a Batching or an Iterative, not 8"),
        ({"batching": Batching}, "model 'm': batching must be a Batching or an Iterative, not <class"),
    ],
)
def test_invalid_options_are_rejected(options: dict[str, Any], message: str) -> None:
    with pytest.raises(SignatureError, match=f"^{re.escape(message)}"):
        model(lambda: None, name="m", inputs=[], outputs=[], **options)


def test_unknown_options_are_rejected() -> None:
    with pytest.raises(
        TypeError,
        match=r"^model\(\) has no option 'input', did you mean 'inputs'\?; "
        r"it has name, version, description, inputs, outputs,",
    ):
        model(input=[X])  # type: ignore[call-overload]


def test_objects_that_cannot_handle_requests_are_rejected() -> None:
    class Empty: ...

    class NeedsPath:
        def __init__(self, path: str) -> None: ...
        def predict(self, x: int) -> None: ...

    with pytest.raises(SignatureError, match=r"^model 'Empty': class Empty has neither __call__ nor predict to handle"):
        model(Empty)
    with pytest.raises(
        SignatureError, match=r"^model 'NeedsPath': NeedsPath\(\) needs 'path', and each instance is built without"
    ):
        model(NeedsPath)
    with pytest.raises(SignatureError, match=r"^model 'm': int cannot be called$"):
        model(3, name="m")  # type: ignore[call-overload]


def test_server_accepts_functions_and_rejects_duplicates() -> None:
    def add(a: int, b: int) -> int:
        return a + b

    assert [one.name for one in Server(add, double).definitions] == ["add", "double"]
    with pytest.raises(
        StartupError, match=r"^model 'double' version '1' is given twice; give one of them another name="
    ):
        Server(double, double.with_options(instances=2))
    with pytest.raises(StartupError, match=r"^there is no model to serve; give at least one$"):
        Server()


def test_addresses_are_known_only_after_start() -> None:
    server = Server(double)
    assert (server.http_address, server.grpc_address) == (None, None)
    with pytest.raises(StartupError, match=r"^HTTP is off, or the server is not started$"):
        _ = server.http_url


def test_curl_example_is_a_valid_request() -> None:
    definition = Server(double).definitions[0]
    assert curl(definition, "http://127.0.0.1:8000", {}, path="/models/double") == (
        "curl -s http://127.0.0.1:8000/v2/models/double/infer -H 'Content-Type: application/json' -d "
        """'{"inputs":[{"name":"x","shape":[16],"datatype":"FP32","data":[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1]}]}'"""
    )


def test_curl_example_of_streams_and_sequences() -> None:
    def chunks(x: Any) -> Any:
        yield x

    one = [Tensor("x", np.int32, [1])]
    streaming = model(chunks, inputs=one, outputs=[Tensor("y", np.int32, [1])])
    assert curl(streaming.definition(), "http://h:1", {}, path="/models/chunks") == (
        "curl -s -N http://h:1/v2/models/chunks/infer_stream -H 'Content-Type: application/json' -d "
        """'{"inputs":[{"name":"x","shape":[1],"datatype":"INT32","data":[1]}]}'"""
    )

    def stateful(x: Any, ctx: Context) -> Any:
        return x

    sequence_model = model(stateful, name="m", inputs=one, outputs=one, sequences=Sequences())
    assert curl(sequence_model.definition(), "http://h:1", {}, path="/models/m") == (
        "curl -s http://h:1/v2/models/m/infer -H 'Content-Type: application/json' -d "
        """'{"parameters":{"sequence_id":1,"sequence_start":true,"sequence_end":true},"""
        """"inputs":[{"name":"x","shape":[1],"datatype":"INT32","data":[1]}]}'"""
    )


def test_curl_example_of_a_raw_request_model_uses_declared_inputs() -> None:
    def raw_handler(request: Request) -> Response:
        return Response(outputs={})

    described = model(raw_handler, name="m", inputs=[Tensor("x", np.int32, [1])], outputs=[])
    assert curl(described.definition(), "http://h:1", {}, path="/models/m") == (
        "curl -s http://h:1/v2/models/m/infer -H 'Content-Type: application/json' -d "
        """'{"inputs":[{"name":"x","shape":[1],"datatype":"INT32","data":[1]}]}'"""
    )
    assert (
        curl(model(raw_handler, name="m").definition(), "http://h:1", {}, path="/models/m")
        == "curl -s http://h:1/v2/models/m"
    )


def test_curl_example_pipes_large_inputs_and_quotes_for_the_shell() -> None:
    image = Tensor("it's", np.uint8, [-1, 100, 3])
    served = model(lambda x: x, name="m", inputs=[image], outputs=[Y], batching=Batching())
    line = curl(served.definition(), "unix:/tmp/a b", {}, path="/models/m")
    header = (
        '{"inputs":[{"name":"it\'s","shape":[1,2,100,3],"datatype":"UINT8","parameters":{"binary_data_size":600}}]}'
    )
    assert line == (
        "{ printf %s '" + header.replace("'", "'\"'\"'") + "'; head -c 600 /dev/zero; } | "
        "curl -s --unix-socket '/tmp/a b' http://localhost/v2/models/m/infer "
        "-H 'Content-Type: application/octet-stream' "
        f"-H 'Inference-Header-Content-Length: {len(header)}' --data-binary @-"
    )


def test_curl_example_falls_back_to_metadata() -> None:
    served = model(lambda x: x, name="m", inputs=[Tensor("x", bytes)], outputs=[Y])
    assert curl(served.definition(), "http://h:1", {"x": None}, path="/models/m") == "curl -s http://h:1/v2/models/m"
