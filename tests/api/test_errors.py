"""The error tree: its documentation, kinds and statuses agree."""

from __future__ import annotations

import inspect

import pytest

import penstock
from penstock import errors

CLASSES = {
    name: value
    for name, value in vars(errors).items()
    if inspect.isclass(value) and issubclass(value, errors.PenstockError)
}
BY_KIND = {
    "invalid_input": (errors.InvalidInput, 400),
    "already_exists": (errors.AlreadyExists, 400),
    "unauthenticated": (errors.Unauthenticated, 401),
    "forbidden": (errors.Forbidden, 403),
    "not_found": (errors.NotFound, 404),
    "method_not_allowed": (errors.MethodNotAllowed, 405),
    "too_large": (errors.TooLarge, 413),
    "unsupported_encoding": (errors.UnsupportedEncoding, 415),
    "overloaded": (errors.Overloaded, 429),
    "throttled": (errors.Throttled, 429),
    "cancelled": (errors.Cancelled, 499),
    "handler": (errors.HandlerError, 500),
    "internal": (errors.InternalError, 500),
    "unsupported": (errors.Unsupported, 501),
    "unavailable": (errors.Unavailable, 503),
    "timeout": (errors.Timeout, 504),
}


def test_each_kind_has_one_class_and_status() -> None:
    for kind, (error, status) in BY_KIND.items():
        assert error.kind == kind
        assert errors.by_kind(kind) is error
        # Two statuses have two kinds: `by_status` returns the likelier one.
        likelier = {
            "internal": errors.HandlerError,
            "already_exists": errors.InvalidInput,
            "throttled": errors.Overloaded,
        }
        assert errors.by_status(status) is likelier.get(kind, error)
    response_errors = {error for error in CLASSES.values() if not issubclass(error, errors.StartupError)}
    assert response_errors == {error for error, _ in BY_KIND.values()} | {errors.PenstockError}


def test_unknown_kinds_and_statuses_map_to_their_class() -> None:
    assert errors.by_kind("teapot") is errors.InternalError
    assert errors.by_status(418) is errors.InvalidInput
    assert errors.by_status(599) is errors.InternalError


def test_startup_errors_share_a_kind_without_a_status() -> None:
    startup = [error for error in CLASSES.values() if issubclass(error, errors.StartupError)]
    assert {error.kind for error in startup} == {"startup"}
    assert {error.__name__ for error in startup} == {
        "StartupError",
        "ConfigError",
        "SignatureError",
        "LoadError",
        "BindError",
    }


@pytest.mark.parametrize(
    ("error", "builtin"),
    [
        ("InvalidInput", ValueError),
        ("Forbidden", PermissionError),
        ("NotFound", LookupError),
        ("Unsupported", NotImplementedError),
        ("Timeout", TimeoutError),
        ("ConfigError", ValueError),
        ("SignatureError", TypeError),
    ],
)
def test_errors_derive_from_builtin_exceptions(error: str, builtin: type[Exception]) -> None:
    with pytest.raises(builtin, match=r"^the message$"):
        raise CLASSES[error]("the message")


def test_documented_tree_is_complete() -> None:
    drawing = (errors.__doc__ or "").split("::", 1)[1].split("\n\nA handler", 1)[0]
    drawn = {}
    for line in drawing.splitlines():
        words = line.replace("├──", " ").replace("└──", " ").replace("│", " ").split()
        if words:
            drawn[words[0]] = next((int(word) for word in words if word.isdigit()), None)
    assert set(drawn) == set(CLASSES)
    for error, status in BY_KIND.values():
        assert drawn[error.__name__] == status


def test_error_tree_is_exported() -> None:
    assert set(CLASSES) <= set(penstock.__all__)
    assert set(CLASSES) | {"by_kind", "by_status"} == set(errors.__all__)
    assert list(penstock.__all__) == sorted(penstock.__all__, key=lambda name: (not name[0].isupper(), name))


def test_unknown_package_attribute_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match=r"^module 'penstock' has no attribute 'nothing'$"):
        _ = penstock.nothing
