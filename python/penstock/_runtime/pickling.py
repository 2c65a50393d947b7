"""Pickling of models that child processes cannot import.

Only data of the parent is unpickled: it comes over a socket pair that the parent created for the child, which no other
process can open.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.errors import SignatureError

if TYPE_CHECKING:
    from penstock._spec.definition import Definition

__all__ = ["dump", "load"]


def dump(definition: Definition) -> bytes:
    """A definition with its code, pickled.

    Raises:
        SignatureError: cloudpickle is not installed, or the code refers to objects that cannot be pickled.
    """
    where = f"model {definition.name!r}"
    try:
        import cloudpickle
    except ImportError:
        raise SignatureError(
            f"{where}: its processes cannot import it, since it is not at the top level of a module; move it "
            "there and `penstock serve` that file, or `pip install 'penstock[processes]'` to send its code"
        ) from None
    try:
        code: bytes = cloudpickle.dumps(definition)
    except Exception as error:
        raise SignatureError(
            f"{where}: its code cannot be sent to its processes ({type(error).__name__}: {error}); "
            "move it to the top level of a module"
        ) from error
    return code


def load(code: bytes) -> Definition:
    """The definition that the server sent to this child process."""
    try:
        import cloudpickle
    except ImportError:
        raise SignatureError("cloudpickle is not installed where the model's process runs") from None
    definition: Definition = cloudpickle.loads(code)
    return definition
