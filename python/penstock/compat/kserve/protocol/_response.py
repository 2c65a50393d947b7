"""`InferResponse`: a response of the Open Inference Protocol."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from penstock.compat.kserve import dialect
from penstock.compat.kserve.errors import InvalidInput
from penstock.compat.kserve.protocol import _grpc, _json
from penstock.compat.kserve.protocol._arrays import raw_bytes
from penstock.compat.kserve.protocol._inputs_outputs import InferOutput, RequestedOutput
from penstock.compat.kserve.protocol._parameters import to_http_parameters
from penstock.compat.kserve.protocol._rest_body import flat, head, listed, refuse_fp16, split, with_size
from penstock.compat.kserve.protocol._tensor import Parameters

__all__ = ["InferResponse"]


class InferResponse:
    """A response of the Open Inference Protocol.

    Args:
        response_id: The request's id.
        model_name: The model's name.
        infer_outputs: The outputs.
        model_version: The model's version.
        raw_outputs: The outputs' raw bytes, in their order.
        from_grpc: Whether the response came over gRPC.
        parameters: Custom parameters; `InferParameter`s of a response that came over gRPC.
        use_binary_outputs: Whether outputs travel as raw bytes, unless the request says so per output.
        requested_outputs: The requested outputs; None for all.
    """

    def __init__(  # noqa: PLR0917 - the order is KServe's
        self,
        response_id: str | None,
        model_name: str,
        infer_outputs: list[InferOutput],
        model_version: str | None = None,
        raw_outputs: Sequence[bytes] | None = None,
        from_grpc: bool | None = False,
        parameters: Parameters = None,
        use_binary_outputs: bool | None = False,
        requested_outputs: list[RequestedOutput] | None = None,
    ) -> None:
        self.id = response_id
        self.model_name = model_name
        self.model_version = model_version
        self.outputs = infer_outputs
        self.parameters = parameters
        self.from_grpc = from_grpc
        self._requested_outputs = requested_outputs
        self._use_binary_outputs = use_binary_outputs
        for index, raw in enumerate(raw_outputs or ()):
            self.outputs[index]._raw_data = raw

    @classmethod
    def _from_message(cls, response: Any) -> InferResponse:
        """Returns the response of a `ModelInferResponse`.

        Raises:
            InvalidInput: an output's datatype is unknown.
        """
        return cls(
            model_name=response.model_name,
            model_version=response.model_version,
            response_id=response.id,
            parameters=response.parameters,
            infer_outputs=[InferOutput(*_grpc.tensor(one), one.parameters) for one in response.outputs],
            raw_outputs=response.raw_output_contents,
            from_grpc=True,
        )

    # As in KServe, one name for the class method and for the instances' attribute.
    from_grpc: Any = _from_message

    @classmethod
    def from_rest(cls, model_name: Any = None, response: Any = None) -> InferResponse:
        """Returns the response of a JSON body.

        Args:
            model_name: The model's name; or the body, if it is the only argument.
            response: The body as a dict.

        Raises:
            TypeError: neither is a dict.
            KeyError: an output has no data.
        """
        name = model_name
        if response is None:
            name, response = None, model_name
        if not isinstance(response, dict):
            raise TypeError("from_rest: expected a dict, optionally after the model's name")
        outputs = [
            InferOutput(one["name"], list(one["shape"]), one["datatype"], one["data"], one.get("parameters"))
            for one in response["outputs"]
        ]
        return cls(
            model_name=response["model_name"] if name is None and "model_name" in response else name or "",
            model_version=response.get("model_version"),
            response_id=response.get("id"),
            parameters=response.get("parameters"),
            infer_outputs=outputs,
        )

    @classmethod
    def from_bytes(cls, res_bytes: bytes, json_length: int) -> InferResponse:
        """Returns the response of an HTTP body: JSON, followed by its outputs' raw bytes.

        Args:
            res_bytes: The body.
            json_length: The length of the JSON in bytes.

        Raises:
            InvalidInput: the JSON is invalid, or an output has neither data nor raw bytes.
        """
        body, outputs, _ = split(InferOutput, res_bytes, json_length, "outputs", None)
        return cls(
            model_name=body["model_name"],
            model_version=body.get("model_version"),
            response_id=body.get("id"),
            parameters=body.get("parameters"),
            infer_outputs=outputs,
        )

    def to_rest(self) -> Any:
        """Returns the response as an HTTP body.

        Returns:
            A dict for JSON, and None; or, if an output travels as raw bytes, the body's bytes and the length of their
            JSON. In the dialect of 0.13 the dict alone.

        Raises:
            InvalidInput: an output has no data, is FP16 in JSON, or does not exist.
        """
        if dialect.is_old():
            return self._body([{**head(self._checked(one)), "data": listed(one)} for one in self.outputs])
        heads, tails = [], []
        for output, binary in self._outputs_to_send():
            if binary:
                raw = raw_bytes(output._outgoing(), output.datatype)
                heads.append(with_size(head(output), raw))
                tails.append(raw)
            else:
                refuse_fp16(output, "Sending")
                heads.append({**head(output), "data": flat(output)})
        body = self._body(heads)
        if not tails:
            return body, None
        text = _json.dumps(body)
        return b"".join([text, *tails]), len(text)

    def to_grpc(self) -> Any:
        """Returns the response as a `ModelInferResponse`. Arrays travel as raw bytes, lists as typed contents.

        Raises:
            InvalidInput: an output has no data, or a datatype without typed contents.
        """
        return _grpc.response(self)

    def get_output_by_name(self, name: str) -> InferOutput | None:
        """Returns the first output of that name, or None."""
        return next((one for one in self.outputs if one.name == name), None)

    def to_dict(self) -> dict[str, Any]:
        """Returns id, model name, outputs, parameters, and whether the response came over gRPC."""
        return {
            "id": self.id,
            "model_name": self.model_name,
            "outputs": [one.to_dict() for one in self.outputs],
            "parameters": self.parameters,
            "from_grpc": self.from_grpc,
        }

    def __eq__(self, other: object) -> bool:
        return isinstance(other, InferResponse) and self._compared() == other._compared()

    __hash__ = None  # type: ignore[assignment] # it can change

    def __repr__(self) -> str:
        return (
            f'"id": "{self.id}","model_name": "{self.model_name}","outputs": {self.outputs!r},'
            f'"parameters": {self.parameters},"from_grpc": {self.from_grpc}'
        )

    def _compared(self) -> tuple[Any, ...]:
        return (self.model_name, self.model_version, self.id, self.from_grpc, self.parameters, self.outputs)

    def _outputs_to_send(self) -> list[tuple[InferOutput, bool]]:
        """Returns the outputs to send, and whether each goes as raw bytes."""
        if not self._requested_outputs:
            return [(self._checked(one), bool(self._use_binary_outputs)) for one in self.outputs]
        found = []
        for one in self._requested_outputs:
            output = self.get_output_by_name(one.name)
            if output is None:
                raise InvalidInput(f"Unexpected inference output '{one.name}' for model '{self.model_name}'")
            found.append((self._checked(output), bool(one.binary_data)))
        return found

    def _checked(self, output: InferOutput) -> InferOutput:
        if output._array is None and output._value is None and output._raw is None:
            raise InvalidInput(f"'data' field is missing for output '{output.name}' for model '{self.model_name}'")
        return output

    def _body(self, outputs: list[dict[str, Any]]) -> dict[str, Any]:
        body: dict[str, Any] = {
            "id": self.id,
            "model_name": self.model_name,
            "model_version": self.model_version,
            "outputs": outputs,
        }
        if self.parameters:
            body["parameters"] = to_http_parameters(self.parameters)
        return body
