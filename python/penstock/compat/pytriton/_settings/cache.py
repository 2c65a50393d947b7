"""`TritonConfig.cache_config`: where models that ask for it keep their answers."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import quote

from penstock import Cache
from penstock.compat.pytriton._settings.triton_config import TritonConfig
from penstock.compat.pytriton.exceptions import PyTritonValidationError

__all__ = ["Caching", "caching_of"]


@dataclass(frozen=True)
class Caching:
    """What models may keep answers in: one of both, or nothing."""

    size: int | None = None
    """Bytes of memory."""
    redis: str | None = None
    """The URL of a Redis."""

    def cache(self) -> Cache | None:
        """The cache of a model that asks for one."""
        if self.redis is not None:
            return Cache(revision="pytriton")
        return Cache(self.size) if self.size else None


def caching_of(config: TritonConfig) -> Caching:
    """What `cache_config` says, as items `local,size=N`, or `redis,host=H`, `redis,port=N` and so on.

    Raises:
        PyTritonValidationError: an item is none of these.
    """
    said: dict[str, dict[str, str]] = {}
    for item in config.cache_config or ():
        kind, _, setting = item.partition(",")
        name, equals, value = setting.partition("=")
        if kind not in ("local", "redis") or not equals:
            raise PyTritonValidationError(f"cache_config: {item!r} is not local,size=BYTES or redis,SETTING=VALUE")
        said.setdefault(kind, {})[name] = value
    if len(said) > 1:
        raise PyTritonValidationError("cache_config: there is one cache, local or redis")
    if "local" in said:
        size = said["local"].get("size", "")
        if not size.isdecimal() or not int(size):
            raise PyTritonValidationError(f"cache_config: the size {size!r} is not a number of bytes")
        return Caching(size=int(size))
    if "redis" in said:
        of = said["redis"]
        user, password = (quote(of.get(name, ""), safe="") for name in ("user", "password"))
        known = f"{user}:{password}@" if user or password else ""
        return Caching(redis=f"redis://{known}{of.get('host', 'localhost')}:{of.get('port', '6379')}")
    return Caching()
