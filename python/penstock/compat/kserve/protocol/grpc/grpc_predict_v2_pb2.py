"""Messages of the Open Inference Protocol, by KServe's names."""

from __future__ import annotations

from penstock.compat.kserve.protocol.grpc._fields import Kind, many, mapped, one, one_of
from penstock.compat.kserve.protocol.grpc._message import Message
from penstock.compat.kserve.protocol.grpc._values import MessageMap, Repeated, RepeatedMessages

__all__ = [
    "InferParameter",
    "InferTensorContents",
    "ModelInferRequest",
    "ModelInferResponse",
    "ModelMetadataRequest",
    "ModelMetadataResponse",
    "ModelReadyRequest",
    "ModelReadyResponse",
    "RepositoryModelLoadRequest",
    "RepositoryModelLoadResponse",
    "RepositoryModelUnloadRequest",
    "RepositoryModelUnloadResponse",
    "ServerLiveRequest",
    "ServerLiveResponse",
    "ServerMetadataRequest",
    "ServerMetadataResponse",
    "ServerReadyRequest",
    "ServerReadyResponse",
]


class ServerLiveRequest(Message):
    """Liveness request."""

    FULL_NAME = "inference.ServerLiveRequest"


class ServerLiveResponse(Message):
    """Liveness response."""

    FULL_NAME = "inference.ServerLiveResponse"
    FIELDS = (one(1, "live", Kind.BOOL),)
    live: bool


class ServerReadyRequest(Message):
    """Readiness request of the server."""

    FULL_NAME = "inference.ServerReadyRequest"


class ServerReadyResponse(Message):
    """Readiness response of the server."""

    FULL_NAME = "inference.ServerReadyResponse"
    FIELDS = (one(1, "ready", Kind.BOOL),)
    ready: bool


class ModelReadyRequest(Message):
    """Readiness request of a model."""

    FULL_NAME = "inference.ModelReadyRequest"
    FIELDS = (one(1, "name", Kind.STRING), one(2, "version", Kind.STRING))
    name: str
    version: str


class ModelReadyResponse(Message):
    """Readiness response of a model."""

    FULL_NAME = "inference.ModelReadyResponse"
    FIELDS = (one(1, "ready", Kind.BOOL),)
    ready: bool


class ServerMetadataRequest(Message):
    """Metadata request of the server."""

    FULL_NAME = "inference.ServerMetadataRequest"


class ServerMetadataResponse(Message):
    """Metadata response of the server."""

    FULL_NAME = "inference.ServerMetadataResponse"
    FIELDS = (one(1, "name", Kind.STRING), one(2, "version", Kind.STRING), many(3, "extensions", Kind.STRING))
    name: str
    version: str
    extensions: Repeated


class ModelMetadataRequest(Message):
    """Metadata request of a model."""

    FULL_NAME = "inference.ModelMetadataRequest"
    FIELDS = (one(1, "name", Kind.STRING), one(2, "version", Kind.STRING))
    name: str
    version: str


class ModelMetadataResponse(Message):
    """Metadata response of a model: inputs and outputs."""

    class TensorMetadata(Message):
        """An input or output."""

        FULL_NAME = "inference.ModelMetadataResponse.TensorMetadata"
        FIELDS = (one(1, "name", Kind.STRING), one(2, "datatype", Kind.STRING), many(3, "shape", Kind.INT64))
        name: str
        datatype: str
        shape: Repeated

    FULL_NAME = "inference.ModelMetadataResponse"
    FIELDS = (
        one(1, "name", Kind.STRING),
        many(2, "versions", Kind.STRING),
        one(3, "platform", Kind.STRING),
        many(4, "inputs", TensorMetadata),
        many(5, "outputs", TensorMetadata),
    )
    name: str
    versions: Repeated
    platform: str
    inputs: RepeatedMessages
    outputs: RepeatedMessages


class InferParameter(Message):
    """The value of a custom parameter."""

    FULL_NAME = "inference.InferParameter"
    FIELDS = one_of(
        "parameter_choice",
        one(1, "bool_param", Kind.BOOL),
        one(2, "int64_param", Kind.INT64),
        one(3, "string_param", Kind.STRING),
    )
    bool_param: bool
    int64_param: int
    string_param: str


class InferTensorContents(Message):
    """A tensor's elements, row by row, in the field of its datatype."""

    FULL_NAME = "inference.InferTensorContents"
    FIELDS = (
        many(1, "bool_contents", Kind.BOOL),
        many(2, "int_contents", Kind.INT32),
        many(3, "int64_contents", Kind.INT64),
        many(4, "uint_contents", Kind.UINT32),
        many(5, "uint64_contents", Kind.UINT64),
        many(6, "fp32_contents", Kind.FLOAT),
        many(7, "fp64_contents", Kind.DOUBLE),
        many(8, "bytes_contents", Kind.BYTES),
    )
    bool_contents: Repeated
    int_contents: Repeated
    int64_contents: Repeated
    uint_contents: Repeated
    uint64_contents: Repeated
    fp32_contents: Repeated
    fp64_contents: Repeated
    bytes_contents: Repeated


class ModelInferRequest(Message):
    """An inference request."""

    class InferInputTensor(Message):
        """One input."""

        FULL_NAME = "inference.ModelInferRequest.InferInputTensor"
        FIELDS = (
            one(1, "name", Kind.STRING),
            one(2, "datatype", Kind.STRING),
            many(3, "shape", Kind.INT64),
            mapped(4, "parameters", InferParameter),
            one(5, "contents", InferTensorContents),
        )
        name: str
        datatype: str
        shape: Repeated
        parameters: MessageMap
        contents: InferTensorContents

    class InferRequestedOutputTensor(Message):
        """A requested output."""

        FULL_NAME = "inference.ModelInferRequest.InferRequestedOutputTensor"
        FIELDS = (one(1, "name", Kind.STRING), mapped(2, "parameters", InferParameter))
        name: str
        parameters: MessageMap

    FULL_NAME = "inference.ModelInferRequest"
    FIELDS = (
        one(1, "model_name", Kind.STRING),
        one(2, "model_version", Kind.STRING),
        one(3, "id", Kind.STRING),
        mapped(4, "parameters", InferParameter),
        many(5, "inputs", InferInputTensor),
        many(6, "outputs", InferRequestedOutputTensor),
        many(7, "raw_input_contents", Kind.BYTES),
    )
    model_name: str
    model_version: str
    id: str
    parameters: MessageMap
    inputs: RepeatedMessages
    outputs: RepeatedMessages
    raw_input_contents: Repeated


class ModelInferResponse(Message):
    """An inference response."""

    class InferOutputTensor(Message):
        """One output."""

        FULL_NAME = "inference.ModelInferResponse.InferOutputTensor"
        FIELDS = (
            one(1, "name", Kind.STRING),
            one(2, "datatype", Kind.STRING),
            many(3, "shape", Kind.INT64),
            mapped(4, "parameters", InferParameter),
            one(5, "contents", InferTensorContents),
        )
        name: str
        datatype: str
        shape: Repeated
        parameters: MessageMap
        contents: InferTensorContents

    FULL_NAME = "inference.ModelInferResponse"
    FIELDS = (
        one(1, "model_name", Kind.STRING),
        one(2, "model_version", Kind.STRING),
        one(3, "id", Kind.STRING),
        mapped(4, "parameters", InferParameter),
        many(5, "outputs", InferOutputTensor),
        many(6, "raw_output_contents", Kind.BYTES),
    )
    model_name: str
    model_version: str
    id: str
    parameters: MessageMap
    outputs: RepeatedMessages
    raw_output_contents: Repeated


class RepositoryModelLoadRequest(Message):
    """Load request."""

    FULL_NAME = "inference.RepositoryModelLoadRequest"
    FIELDS = (one(1, "model_name", Kind.STRING),)
    model_name: str


class RepositoryModelLoadResponse(Message):
    """Load response."""

    FULL_NAME = "inference.RepositoryModelLoadResponse"
    FIELDS = (one(1, "model_name", Kind.STRING), one(2, "isLoaded", Kind.BOOL))
    model_name: str
    isLoaded: bool


class RepositoryModelUnloadRequest(Message):
    """Unload request."""

    FULL_NAME = "inference.RepositoryModelUnloadRequest"
    FIELDS = (one(1, "model_name", Kind.STRING),)
    model_name: str


class RepositoryModelUnloadResponse(Message):
    """Unload response."""

    FULL_NAME = "inference.RepositoryModelUnloadResponse"
    FIELDS = (one(1, "model_name", Kind.STRING), one(2, "isUnloaded", Kind.BOOL))
    model_name: str
    isUnloaded: bool
