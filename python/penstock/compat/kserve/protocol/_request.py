"""`InferRequest`: a request of the Open Inference Protocol."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import Any

import numpy as np

from penstock.compat.kserve import dialect
from penstock.compat.kserve.errors import InvalidInput
from penstock.compat.kserve.protocol import _grpc, _json
from penstock.compat.kserve.protocol._arrays import raw_bytes
from penstock.compat.kserve.protocol._inputs_outputs import InferInput, RequestedOutput
from penstock.compat.kserve.protocol._parameters import to_http_parameters
from penstock.compat.kserve.protocol._rest_body import head, listed, refuse_fp16, split, with_size
from penstock.compat.kserve.protocol._tensor import Parameters

__all__ = ["InferRequest"]


class InferRequest:
    """A request of the Open Inference Protocol.

    Args:
        model_name: The requested model.
        infer_inputs: The inputs.
        request_id: The client's id of the request.
        raw_inputs: The inputs' raw bytes, in their order.
        from_grpc: Whether the request came over gRPC.
        parameters: Custom parameters; `InferParameter`s of a request that came over gRPC.
        request_outputs: The requested outputs; None for all.
        model_version: The requested version.
    """

    def __init__(  # noqa: PLR0917 - the order is KServe's
        self,
        model_name: str,
        infer_inputs: list[InferInput],
        request_id: str | None = None,
        raw_inputs: Sequence[bytes] | None = None,
        from_grpc: bool | None = False,
        parameters: Parameters = None,
        request_outputs: list[RequestedOutput] | None = None,
        model_version: str | None = None,
    ) -> None:
        self.id = request_id
        self.model_name = model_name
        self.inputs = infer_inputs
        self.parameters = parameters
        self.from_grpc = from_grpc
        self.request_outputs = request_outputs
        self.model_version = model_version
        self._use_raw_outputs = bool(raw_inputs)
        for index, raw in enumerate(raw_inputs or ()):
            self.inputs[index]._raw_data = raw

    @property
    def use_binary_outputs(self) -> bool:
        """True if outputs are requested as raw bytes: over gRPC if the inputs are raw, over HTTP by a parameter."""
        if self.from_grpc or dialect.is_old():
            return self._use_raw_outputs
        binary: bool = (self.parameters or {}).get("binary_data_output", False)
        return binary

    @classmethod
    def _from_message(cls, request: Any) -> InferRequest:
        """Returns the request of a `ModelInferRequest`.

        Raises:
            InvalidInput: an input's datatype is unknown.
        """
        inputs = [InferInput(*_grpc.tensor(one), _received_parameters(one.parameters)) for one in request.inputs]
        outputs = [RequestedOutput(one.name, _received_parameters(one.parameters)) for one in request.outputs]
        return cls(
            request_id=request.id,
            model_name=request.model_name,
            infer_inputs=inputs,
            raw_inputs=request.raw_input_contents,
            from_grpc=True,
            parameters=request.parameters,
            request_outputs=outputs or None,
            model_version=request.model_version,
        )

    # As in KServe, one name for the class method and for the instances' attribute.
    from_grpc: Any = _from_message

    @classmethod
    def from_bytes(cls, req_bytes: bytes, json_length: int, model_name: str) -> InferRequest:
        """Returns the request of an HTTP body: JSON, followed by its inputs' raw bytes.

        Args:
            req_bytes: The body.
            json_length: The length of the JSON in bytes.
            model_name: The requested model.

        Raises:
            InvalidInput: the JSON is invalid, or an input has neither data nor raw bytes, or is FP16 in JSON.
        """
        body, tensors, in_json = split(InferInput, req_bytes, json_length, "inputs", model_name)
        for one, listed_so in zip(tensors, in_json, strict=True):
            if listed_so and not dialect.is_old():
                refuse_fp16(one, "Receiving")
        outputs = None if body.get("outputs") is None else _requested_outputs(body["outputs"])
        return cls(
            model_name=model_name,
            request_id=body.get("id"),
            parameters=body.get("parameters"),
            infer_inputs=tensors,
            request_outputs=outputs,
        )

    @classmethod
    def from_inference_request(cls, request: Any, model_name: str) -> InferRequest:
        """Returns the request of a parsed body.

        Args:
            request: An `InferenceRequest` of `protocol.rest.v2_datamodels`, or a pydantic model with its attributes.
            model_name: The requested model.

        Raises:
            InvalidInput: an input is FP16.
        """
        inputs = [
            InferInput(one.name, one.shape, one.datatype, one.data, one.parameters or {}) for one in request.inputs
        ]
        for one in inputs:
            if not dialect.is_old():
                refuse_fp16(one, "Sending")
        outputs = [RequestedOutput(one.name, one.parameters or {}) for one in request.outputs or ()]
        return cls(
            request_id=request.id,
            model_name=model_name,
            infer_inputs=inputs,
            parameters=request.parameters,
            request_outputs=outputs or None,
        )

    def to_rest(self) -> Any:
        """Returns the request as an HTTP body.

        Returns:
            A dict for JSON, and None; or, if an input has raw bytes, the body's bytes and the length of their JSON.
            In the dialect of 0.13 the dict alone.

        Raises:
            InvalidInput: an input has no data, or is FP16 in JSON.
        """
        if dialect.is_old():
            return self._to_rest_013()
        heads, tails = [], []
        for one in map(self._checked, self.inputs):
            raw = self._raw(one)
            if raw is None:
                refuse_fp16(one, "Sending")
                heads.append({**head(one), "data": listed(one)})
            else:
                heads.append(with_size(head(one), raw))
                tails.append(raw)
        body: dict[str, Any] = {"id": self.id or str(uuid.uuid4()), "model_name": self.model_name, "inputs": heads}
        if self.request_outputs:
            body["outputs"] = [_output_body(one) for one in self.request_outputs]
        if self.parameters:
            body["parameters"] = to_http_parameters(self.parameters)
        if not tails:
            return body, None
        text = _json.dumps(body)
        return b"".join([text, *tails]), len(text)

    def _to_rest_013(self) -> dict[str, Any]:
        heads = [{**head(self._checked(one)), "data": listed(one)} for one in self.inputs]
        body: dict[str, Any] = {"id": self.id or str(uuid.uuid4()), "inputs": heads}
        if self.parameters:
            body["parameters"] = to_http_parameters(self.parameters)
        return body

    def to_grpc(self) -> Any:
        """Returns the request as a `ModelInferRequest`. Arrays travel as raw bytes, lists as typed contents.

        Raises:
            InvalidInput: an input has no data, or a datatype without typed contents.
        """
        return _grpc.request(self)

    def as_dataframe(self) -> Any:
        """Returns the inputs as columns of a pandas DataFrame, by name; BYTES are text.

        Raises:
            ImportError: pandas is not installed.
        """
        from penstock.compat.kserve.utils._dataframe import frame

        return frame(self.inputs)

    def get_input_by_name(self, name: str) -> InferInput | None:
        """Returns the first input of that name, or None."""
        return next((one for one in self.inputs if one.name == name), None)

    def to_dict(self) -> dict[str, Any]:
        """Returns id, model name, inputs, parameters, and whether the request came over gRPC."""
        return {
            "id": self.id,
            "model_name": self.model_name,
            "inputs": [one.to_dict() for one in self.inputs],
            "parameters": self.parameters,
            "from_grpc": self.from_grpc,
        }

    def __eq__(self, other: object) -> bool:
        return isinstance(other, InferRequest) and self._compared() == other._compared()

    __hash__ = None  # type: ignore[assignment] # it can change

    def __repr__(self) -> str:
        return (
            f'"id": "{self.id}","model_name": "{self.model_name}","inputs": {self.inputs!r},'
            f'"parameters": {self.parameters},"from_grpc": {self.from_grpc}'
        )

    def _checked(self, one: InferInput) -> InferInput:
        """Returns an input after checking that it has elements, and has them once."""
        if one._array is None:
            if one._value is None and one._raw is None:
                raise InvalidInput(f"'data' field is missing for input '{one.name}' for model '{self.model_name}'")
            if one._raw is not None and one._value is not None and len(one._value):
                raise InvalidInput(
                    f"Both 'data' and 'raw_data' fields are set for input '{one.name}' for model '{self.model_name}'"
                )
        return one

    def _raw(self, one: InferInput) -> bytes | None:
        """Returns the raw bytes of an input, or None. FP16 travels raw unless it was given as a list."""
        if one.datatype == "FP16" and (one._array is not None or isinstance(one._value, np.ndarray)):
            return raw_bytes(one._outgoing(), one.datatype)
        raw: bytes | None = one._raw_data
        return raw

    def _compared(self) -> tuple[Any, ...]:
        return (self.model_name, self.id, self.from_grpc, self.parameters, self.inputs, self.request_outputs)


def _requested_outputs(body: Any) -> list[RequestedOutput]:
    try:
        return [RequestedOutput(one["name"], one.get("parameters")) for one in body]
    except (AttributeError, KeyError, TypeError) as error:
        raise InvalidInput(f"Unrecognized request format: a requested output needs a name: {error}") from None


def _received_parameters(parameters: Any) -> Parameters:
    """Returns a tensor's parameters in the dialect's form."""
    if dialect.is_old():
        return parameters  # type: ignore[no-any-return] # a map of the script's own kind
    return to_http_parameters(parameters) if parameters else None


def _output_body(output: RequestedOutput) -> dict[str, Any]:
    body: dict[str, Any] = {"name": output.name}
    if output.parameters:
        body["parameters"] = to_http_parameters(output.parameters)
    return body
