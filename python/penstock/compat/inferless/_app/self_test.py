"""Runs an app's own examples, for `penstock check`."""

from __future__ import annotations

from typing import Any

from penstock.compat.inferless._app.input_reader import Given, Reader
from penstock.compat.inferless._app.request_object import request_object
from penstock.compat.inferless._app.streams import AppThread, pieces_of
from penstock.compat.inferless._response import arrays_of

__all__ = ["run_examples"]


def run_examples(app: Any) -> str:
    """What is wrong when an app computes its examples; empty if nothing is, or a required one is missing.

    Raises:
        Exception: whatever the app raises.
    """
    schema = app.schema
    if any(one.required and one.example is None for one in schema.inputs):
        return ""
    given = [Given(one.name, one.example) for one in schema.inputs if one.example is not None]
    reader = Reader(schema)
    values = reader.rows(given)[0] if schema.batch_size else reader.one(given)
    if app.request is not None:
        values = (
            [request_object(app.request, one) for one in values]
            if isinstance(values, list)
            else request_object(app.request, values)
        )
    if schema.streaming:
        thread = AppThread()
        thread.do(app.start)
        for piece in pieces_of(app, thread, values, 0):
            arrays_of(piece, schema)
        thread.do(app.stop)
        return ""
    app.start()
    told = app.wait(app.infer(values))
    if schema.batch_size and (not isinstance(told, (list, tuple)) or len(told) != 1):
        return (
            f"with BATCH_SIZE infer must return a list of dicts, one for each that it gets, not a {type(told).__name__}"
        )
    for answer in told if schema.batch_size else [told]:
        arrays_of(answer, schema)
    app.stop()
    return ""
