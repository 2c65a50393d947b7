"""Names that are misspelled, or named as in other products: options, `dir`, and the helper of all hints."""

from __future__ import annotations

import re
from typing import Any

import pytest

import penstock
from penstock import Batching, Client, model
from penstock._spec.suggestions import nearest, suggestion


@pytest.mark.parametrize(
    ("name", "found"), [("htpp", "http"), ("HTTP", "http"), ("Io-Threads", "io_threads"), ("zebra", None), ("", None)]
)
def test_nearest_name(name: str, found: str | None) -> None:
    known = ["http", "grpc", "io_threads"]
    assert nearest(name, known) == found
    assert suggestion(name, known) == ("" if found is None else f", did you mean {found!r}?")


def test_long_names_are_not_compared() -> None:
    assert nearest("http" * 100_000, ["http" * 99_999]) is None


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"max_batch_size": 8}, "Batching has no option 'max_batch_size', did you mean 'max_size'?"),
        ({"max_dely": 0.1}, "Batching has no option 'max_dely', did you mean 'max_delay'?"),
        ({"zebra": 1}, "Batching has no option 'zebra'; it has max_size, dynamic, max_delay,"),
    ],
)
def test_batching_answers_unknown_options(options: dict[str, Any], message: str) -> None:
    with pytest.raises(TypeError, match=f"^{re.escape(message)}"):
        Batching(**options)


def test_batching_takes_its_options_as_before() -> None:
    assert Batching(8) == Batching(max_size=8)
    with pytest.raises(TypeError, match="takes from 1 to 2 positional arguments but 3"):
        Batching(8, True)  # type: ignore[misc]


@pytest.mark.parametrize(
    ("option", "hint"),
    [
        ("max_batch_size", ", write batching=Batching(max_size=...); it has"),
        ("max_delay", ", write batching=Batching(max_delay=...); it has"),
        ("workers", ", write instances=... or instances=Processes(...); it has"),
        ("instance", ", did you mean 'instances'?; it has"),
        ("zebra", "; it has name"),
    ],
)
def test_models_answer_unknown_options(option: str, hint: str) -> None:
    with pytest.raises(TypeError, match=re.escape(f"model() has no option {option!r}{hint}")):
        model(**{option: 1})  # type: ignore[call-overload]


def test_clients_answer_unknown_options() -> None:
    with pytest.raises(TypeError, match=r"^a client has no option 'timout', did you mean 'timeout'\? expected some of"):
        Client("http://127.0.0.1:1", timout=3)  # type: ignore[call-arg]


def test_dir_lists_what_users_import() -> None:
    shown = dir(penstock)
    assert {"AsyncClient", "Client", "Context", "Request", "attach", "frozen", "testing", "errors"} <= set(shown)
    assert set(penstock.__all__) <= set(shown)
    assert not {"TYPE_CHECKING", "annotations"} & set(shown)
    assert [name for name in shown if name.startswith("_") and not name.startswith("__")] == []
    import importlib

    for name in shown:
        assert hasattr(penstock, name) or importlib.import_module(f"penstock.{name}")
