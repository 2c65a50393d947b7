"""Self-test of an app with its own examples, for `penstock check`."""

from __future__ import annotations

from typing import Any

from penstock.compat.inferless._app.app import App
from penstock.compat.inferless._app.input_reader import InputReader
from penstock.compat.inferless._app.streams import AppThread, stream_chunks
from penstock.compat.inferless._request import InputTensor
from penstock.compat.inferless._response import to_tensors
from penstock.compat.inferless._spec.pydantic_schema import request_object

__all__ = ["run_examples"]


def run_examples(app: App) -> str:
    """Runs the app with its examples. Returns the problem; empty if there is none, or a required example is missing.

    Raises:
        Exception: the app raised it.
    """
    schema = app.schema
    if any(one.required and one.example is None for one in schema.inputs):
        return ""
    tensors = [InputTensor(one.name, one.example) for one in schema.inputs if one.example is not None]
    reader = InputReader(schema)
    values: Any = reader.read_rows(tensors)[0] if schema.batch_size else reader.read(tensors)
    if app.request is not None:
        values = (
            [request_object(app.request, one) for one in values]
            if isinstance(values, list)
            else request_object(app.request, values)
        )
    if schema.streaming:
        thread = AppThread()
        thread.run(app.start)
        for chunk in stream_chunks(app, thread, values, 0):
            to_tensors(chunk, schema)
        thread.run(app.stop)
        return ""
    app.start()
    result = app.resolve(app.infer(values))
    if schema.batch_size and (not isinstance(result, (list, tuple)) or len(result) != 1):
        return f"with BATCH_SIZE infer must return a list of one dict per input, not a {type(result).__name__}"
    for row in result if schema.batch_size else [result]:
        to_tensors(row, schema)
    app.stop()
    return ""
