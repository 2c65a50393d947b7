"""Code that no other process can import, on its way to processes of our own.

Only what this process itself has put together is ever read here: the server's side hands it over a socket
that it made for the process that it started, and that nobody else can open.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.errors import SignatureError

if TYPE_CHECKING:
    from penstock._spec.definition import Definition

__all__ = ["dump", "load"]


def dump(definition: Definition) -> bytes:
    """A definition with the code behind it.

    Raises:
        SignatureError: cloudpickle is not installed, or the code holds what cannot leave this process.
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
    """The definition that the server sent to this process, which it has started."""
    try:
        import cloudpickle
    except ImportError:
        raise SignatureError("cloudpickle is not installed where the model's process runs") from None
    definition: Any = cloudpickle.loads(code)
    made: Definition = definition
    return made
