"""`TritonConfig.cache_config`: the response cache in memory or in Redis."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import quote

from penstock import Cache
from penstock.compat.pytriton._settings.triton_config import TritonConfig
from penstock.compat.pytriton.exceptions import PyTritonValidationError

__all__ = ["CacheSettings", "cache_settings"]


@dataclass(frozen=True)
class CacheSettings:
    """Store of cached responses: memory, Redis or none."""

    size: int | None = None
    """Memory in bytes."""
    redis: str | None = None
    """Redis URL."""

    def cache(self) -> Cache | None:
        """Returns the cache of a model with `response_cache`."""
        if self.redis is not None:
            return Cache(revision="pytriton")
        return Cache(self.size) if self.size else None


def cache_settings(config: TritonConfig) -> CacheSettings:
    """Parses `cache_config`: items `local,size=N`, or `redis,host=H`, `redis,port=N` and so on.

    Raises:
        PyTritonValidationError: an item has a different form.
    """
    settings: dict[str, dict[str, str]] = {}
    for item in config.cache_config or ():
        kind, _, setting = item.partition(",")
        name, equals, value = setting.partition("=")
        if kind not in ("local", "redis") or not equals:
            raise PyTritonValidationError(f"cache_config: {item!r} is not local,size=BYTES or redis,SETTING=VALUE")
        settings.setdefault(kind, {})[name] = value
    if len(settings) > 1:
        raise PyTritonValidationError("cache_config: got both local and redis, expected one of them")
    if "local" in settings:
        size = settings["local"].get("size", "")
        if not size.isdecimal() or not int(size):
            raise PyTritonValidationError(f"cache_config: the size {size!r} is not a number of bytes")
        return CacheSettings(size=int(size))
    if "redis" in settings:
        redis = settings["redis"]
        user, password = (quote(redis.get(name, ""), safe="") for name in ("user", "password"))
        credentials = f"{user}:{password}@" if user or password else ""
        return CacheSettings(redis=f"redis://{credentials}{redis.get('host', 'localhost')}:{redis.get('port', '6379')}")
    return CacheSettings()
