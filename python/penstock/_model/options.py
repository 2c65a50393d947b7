"""Single options of a model: read and checked."""

from __future__ import annotations

import inspect
import itertools
import math
import re
from collections.abc import Callable, Mapping
from typing import Any, TypeVar, cast

from penstock._spec.batching import Batching
from penstock._spec.caching import Cache
from penstock._spec.instances import Processes, Threads
from penstock._spec.resources import Resources
from penstock._spec.scheduling import Queueing, Sequences
from penstock.errors import SignatureError

T = TypeVar("T")

DEFAULT_MAX_QUEUE = 1024
"""Suffices for a burst of a thousand clients. Responses from a longer queue would mostly be too late."""

DEFAULT_CONCURRENCY = 64
"""Default for async handlers without batching. With batching it is 1, so that rows join as for a plain handler."""
# Clients percent-encode all but '/', and ':' marks a verb in a path; a name is never joined to a file's path.
_NAME = re.compile(r"(?=\w)[^/:\x00-\x1f\x7f]{1,128}(?<!\s)")
_METRIC = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")
MOST_BUCKETS = 100
"""Limit of buckets of one histogram."""
_NAME_RULE = "1 to 128 characters without '/', ':' and control characters, beginning with a letter or digit"


def name_of(target: object) -> str:
    """The default name of a model.

    Raises:
        SignatureError: the target has no name.
    """
    name = getattr(target, "__name__", "")
    if not name or name == "<lambda>":
        raise SignatureError(f"{target!r} has no name of its own; give it one with model(name=...)")
    return str(name)


def checked_name(kind: str, value: object, where: str = "model") -> str:
    """Checks a name or version for the wire. Returns it.

    Raises:
        SignatureError: not a valid name.
    """
    if not isinstance(value, str) or not _NAME.fullmatch(value):
        raise SignatureError(f"{where}: {kind} {value!r} must be {_NAME_RULE}")
    return value


def wire_name(given: object, target: object, *, routes: bool) -> str:
    """The name of a model on the wire. With routes, it may begin with ':'; the model is then not listed.

    Raises:
        SignatureError: not a valid name.
    """
    name = given or name_of(target)
    if routes and isinstance(name, str) and name.startswith(":"):
        return f":{checked_name('name', name[1:])}"
    return checked_name("name", name)


def belongs_to_model(name: str) -> bool:
    """True if a model is loaded and unloaded with another one, as explainers are."""
    return ":" in name[1:]


def checked_count(value: object, what: str) -> int:
    """Checks a number. Returns it.

    Raises:
        SignatureError: not an integer of 1 or more.
    """
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise SignatureError(f"{what} must be an integer of 1 or more, not {value!r}")
    return value


def checked_option(value: object, kind: type[T], what: str) -> T | None:
    """Checks the type of an optional option. Returns it.

    Raises:
        SignatureError: neither None nor of that type.
    """
    if value is None or isinstance(value, kind):
        return value
    raise SignatureError(f"{what} must be a {kind.__name__}, not {value!r}")


def check_sequences(sequences: Sequences | None, queueing: Queueing | None, *, context: bool, where: str) -> None:
    """Checks that a model can have sequences. `context` is whether its handler takes a context.

    Raises:
        SignatureError: it cannot.
    """
    if sequences is None:
        return
    if not context:
        raise SignatureError(f"{where}: a model with sequences takes `ctx: Context`, where their state is")
    if queueing is not None and queueing.priorities > 1:
        raise SignatureError(f"{where}: sequences are computed in order of arrival, so they have no priorities")
    if queueing is not None and queueing.fair_by is not None:
        raise SignatureError(f"{where}: sequences are computed in order of arrival, so their clients take no turns")


def buckets_of(given: object, where: str) -> tuple[tuple[str, list[float]], ...]:
    """The bounds of the buckets of histograms, by name.

    Raises:
        SignatureError: not ascending numbers of 0 or more.
    """
    if given is None:
        return ()
    if not isinstance(given, Mapping):
        raise SignatureError(f"{where}: buckets must be a dict of names and bounds, not {given!r}")
    return tuple((_metric_name(name, where), _bounds(name, bounds, where)) for name, bounds in given.items())


def _metric_name(name: object, where: str) -> str:
    if not isinstance(name, str) or not _METRIC.fullmatch(name):
        raise SignatureError(f"{where}: buckets of {name!r}: expected the name of a histogram")
    return name


def _bounds(name: object, bounds: Any, where: str) -> list[float]:
    rule = f"at most {MOST_BUCKETS} ascending numbers of 0 or more"
    try:
        numbers = [float(bound) for bound in bounds]
    except (TypeError, ValueError):
        raise SignatureError(f"{where}: buckets of {name!r} must be {rule}, not {bounds!r}") from None
    # Values above the last bound are always counted.
    if numbers and numbers[-1] == math.inf:
        numbers.pop()
    ascending = all(first < second for first, second in itertools.pairwise(numbers))
    if not 0 < len(numbers) <= MOST_BUCKETS or not ascending or not all(0 <= one < math.inf for one in numbers):
        raise SignatureError(f"{where}: buckets of {name!r} must be {rule}, not {bounds!r}")
    return numbers


def check_cache(cache: Cache | None, *, streams: bool, sequences: bool, where: str) -> None:
    """Checks that a model's responses can be cached.

    Raises:
        SignatureError: they cannot.
    """
    if cache is not None and streams:
        raise SignatureError(f"{where}: the answers of a model that streams are not kept; leave cache out")
    if cache is not None and sequences:
        raise SignatureError(f"{where}: in a sequence equal requests have different answers; leave cache out")


def description_of(given: object, target: Any, method: str, where: str) -> str:
    """The description of a model; default: its docstring.

    Raises:
        SignatureError: not text.
    """
    from penstock._handler.type_hints import own_doc, plain_function

    if given is not None:
        if not isinstance(given, str):
            raise SignatureError(f"{where}: description must be text, not {given!r}")
        return inspect.cleandoc(given)
    # Not inherited: the docstring of a base class describes something more general.
    return (own_doc(target) or own_doc(getattr(target, method))) if method else own_doc(plain_function(target))


def streams_of(declared: bool | None, handler: Callable[..., Any], where: str) -> bool:
    """True if a handler streams.

    Raises:
        SignatureError: a generator with `streams=False`.
    """
    from penstock._handler.type_hints import is_generator

    generates = is_generator(handler)
    if generates and declared is False:
        raise SignatureError(f"{where}: the handler is a generator, so it streams; leave streams=False out")
    return generates or bool(declared)


def concurrency_of(given: object, handler: Callable[..., Any], *, batched: bool, where: str) -> int | None:
    """Calls that run at once on an instance's event loop; None for a handler that is not async."""
    from penstock._handler.type_hints import is_async

    if given is not None and (not isinstance(given, int) or isinstance(given, bool) or not 1 <= given <= 65536):
        raise SignatureError(f"{where}: max_concurrency must be an integer from 1 to 65536, not {given!r}")
    if is_async(handler):
        return given or (1 if batched else DEFAULT_CONCURRENCY)
    if given is not None:
        raise SignatureError(f"{where}: max_concurrency is for async handlers; a plain one runs once for each instance")
    return None


def instances_of(instances: object, where: str) -> tuple[int, Processes | None]:
    """The number of instances, and the settings of processes, if they are processes.

    Raises:
        SignatureError: not a number of instances.
    """
    if isinstance(instances, Processes):
        return instances.count, instances
    if isinstance(instances, Threads):
        return instances.count, None
    try:
        return Threads(cast("int", instances)).count, None
    except ValueError:
        raise SignatureError(
            f"{where}: instances must be 1 to 4096, Threads(n) or Processes(n), not {instances!r}"
        ) from None


def is_inline(instances: object, where: str, *, async_: bool, streams: bool, sequences: bool) -> bool:
    """Permission for I/O threads to call the handler.

    Raises:
        SignatureError: its kind of handler cannot run there.
    """
    if not isinstance(instances, Threads) or not instances.inline:
        return False
    for name, has in (("an async handler", async_), ("a handler that streams", streams), ("sequences", sequences)):
        if has:
            raise SignatureError(f"{where}: Threads(inline=True) is for plain handlers; it does not go with {name}")
    return True


def check_processes(
    processes: Processes | None, batching: Batching | None, max_concurrency: object, where: str
) -> None:
    """Checks that a model can have its instances in processes.

    Raises:
        SignatureError: they cannot.
    """
    if processes is None:
        return
    if batching is not None and batching.sizes and batching.retry_on_oom:
        raise SignatureError(f"{where}: Processes go with Batching(sizes=...) or retry_on_oom=True, not with both")
    if max_concurrency is not None:
        raise SignatureError(f"{where}: max_concurrency is for threads; a process computes one call at a time")


def read_resources(given: object, where: str) -> Resources | None:
    """The resources of a model.

    Raises:
        SignatureError: neither a `Resources` nor numbers by name.
    """
    if given is None or isinstance(given, Resources):
        return given
    if not isinstance(given, Mapping):
        raise SignatureError(f"{where}: resources must be numbers by name, as in {{'gpu0': 1}}, not {given!r}")
    try:
        return Resources(given)
    except ValueError as error:
        raise SignatureError(f"{where}: {error}") from None


def method_of(target: object, where: str) -> str:
    """The name of the handler method of a class; empty for a function or object.

    Raises:
        SignatureError: there is no such method, or the class needs arguments.
    """
    if not isinstance(target, type):
        if not callable(target):
            raise SignatureError(f"{where}: {type(target).__name__} cannot be called")
        return ""
    # In the namespaces of the class: every class is callable, through its metaclass.
    methods = [name for name in ("__call__", "predict") if any(name in vars(base) for base in target.__mro__)]
    if not methods:
        raise SignatureError(f"{where}: class {target.__name__} has neither __call__ nor predict to handle requests")
    check_builds(target, where)
    return methods[0]


def check_builds(target: type, where: str) -> None:
    """Checks that a class can be built without arguments.

    Raises:
        SignatureError: it cannot.
    """
    try:
        parameters = inspect.signature(target).parameters.values()
    except (ValueError, TypeError):
        return
    for one in parameters:
        if one.default is one.empty and one.kind not in (one.VAR_POSITIONAL, one.VAR_KEYWORD):
            raise SignatureError(
                f"{where}: {target.__name__}() needs {one.name!r}, and each instance is built without arguments; "
                "give it a default, or serve a bound method of an object of yours"
            )
