"""Objects of an app's own request class."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from penstock import InvalidInput

__all__ = ["request_object"]


def request_object(cls: Any, values: Mapping[str, Any]) -> Any:
    """An object of a pydantic class.

    Raises:
        InvalidInput: the class does not take these values.
    """
    from pydantic import ValidationError

    # A field that may be None and has no default: pydantic wants it said.
    absent = {name: None for name, one in cls.model_fields.items() if one.is_required() and name not in values}
    try:
        return cls(**absent, **values)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False)[0]
        place = ".".join(map(str, first["loc"])) or cls.__name__
        raise InvalidInput(f"input '{place}': {first['msg']}") from None
