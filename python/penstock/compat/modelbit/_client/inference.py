"""`get_inference`: the client of deployments."""

from __future__ import annotations

import os
import re
import sys
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from penstock.compat.modelbit import runtime
from penstock.compat.modelbit._client.chunks import chunks, to_rows
from penstock.compat.modelbit._client.http_retry import Poster
from penstock.compat.modelbit._json_codec import dumps
from penstock.compat.modelbit.errors import UserFacingError

__all__ = ["get_inference"]

_ALLOWED = re.compile(r"[A-Za-z0-9./_:+=-]+")


def get_inference(  # noqa: PLR0917 - as upstream has them
    deployment: str,
    data: Any,
    region: str | None = None,
    outpost: str | None = None,
    workspace: str | None = None,
    branch: str | None = None,
    version: str | int | None = None,
    api_key: str | None = None,
    timeout_seconds: int | None = None,
    batch_size: int | None = None,
    batch_bytes: int | None = None,
    batch_concurrency: int | None = None,
    response_format: str | None = None,
    response_webhook: str | None = None,
    response_webhook_ignore_timeout: bool | None = None,
    base_url: str | None = None,
) -> dict[str, Any]:
    """Calls a deployment.

    Args:
        deployment: Name of the deployment.
        data: One argument, a list of arguments, or a batch: a list of rows `[id, argument, ...]`, or a DataFrame.
        region: Host below modelbit.com; not needed with a base URL. With `:5000` in it, a host without TLS.
        outpost: Second part of the host.
        workspace: First part of the host; default MB_WORKSPACE_NAME.
        branch: The branch; default the current one.
        version: A number, an alias, or "latest".
        api_key: The API key; default MB_API_KEY.
        timeout_seconds: Time limit of a request, in seconds.
        batch_size: Most rows of a request; default 3000.
        batch_bytes: Most bytes of a request; default 20,000,000.
        batch_concurrency: Most concurrent requests of a batch; default 3.
        response_format: "links" to get a URL of the result; a list of URLs for a split batch.
        response_webhook: URL that the result is posted to. Returned is {"batchId": ...}, or {"batchIds": [...]} for a
            split batch.
        response_webhook_ignore_timeout: Whether a webhook that exceeds its time limit is not retried.
        base_url: URL of the server, such as "http://localhost:8000"; default MB_BASE_URL.

    Returns:
        The response: {"data": ...}.

    Raises:
        UserFacingError: an argument is invalid, or the server responded with an error.
    """
    if isinstance(data, dict) and len(data) == 1 and "data" in data:
        raise UserFacingError("The 'data' parameter is double-nested: pass what is under its key \"data\".")
    for name, value in (("deployment", deployment), ("version", str(version or "latest"))):
        _check_text(name, value)
    sizes = [
        _positive(name, value, default)
        for name, value, default in (
            ("batch_size", batch_size, 3_000),
            ("batch_bytes", batch_bytes, 20_000_000),
            ("batch_concurrency", batch_concurrency, 3),
        )
    ]
    options = _options_json(timeout_seconds, response_format, response_webhook, response_webhook_ignore_timeout)
    key = api_key or os.environ.get("MB_API_KEY")
    if key is not None:
        _check_text("api_key", key)
    host = _host(base_url or os.environ.get("MB_BASE_URL"), region, outpost, workspace)
    of_branch = branch or runtime.get_branch()
    _check_text("branch", of_branch)
    url = f"{host}/v1/{deployment}/{of_branch.replace('/', '~')}/{version or 'latest'}"
    poster = Poster(url, key, timeout_seconds + 5.0 if timeout_seconds else None)
    try:
        rows = to_rows(data)
        if rows is None:
            return poster.post(_body(dumps(data), options))
        return _merge(_post_chunks(poster, rows, sizes, options), options)
    finally:
        poster.close()


def _post_chunks(poster: Poster, rows: list[Any], sizes: list[int], options: bytes) -> list[dict[str, Any]]:
    """Posts the chunks of a batch concurrently. Returns their responses in order."""
    size, most_bytes, concurrency = sizes
    failed = threading.Event()
    progress = _Progress(len(rows), shown=len(rows) > size and sys.stderr.isatty())

    def post(count: int, text: bytes) -> dict[str, Any]:
        if failed.is_set():
            return {}
        try:
            response = poster.post(_body(text, options))
        except BaseException:
            failed.set()
            raise
        progress.add(count)
        return response

    futures: list[Future[dict[str, Any]]] = []
    slots = threading.Semaphore(2 * concurrency)
    with ThreadPoolExecutor(concurrency) as threads:
        try:
            for count, text in chunks(rows, size, most_bytes):
                # Bounds the encoded chunks in memory.
                slots.acquire()
                if failed.is_set():
                    break
                future = threads.submit(post, count, text)
                future.add_done_callback(lambda _: slots.release())
                futures.append(future)
        except BaseException:
            failed.set()
            raise
    progress.close()
    for future in futures:
        if (error := future.exception()) is not None:
            raise error
    return [future.result() for future in futures]


def _merge(responses: list[dict[str, Any]], options: bytes) -> dict[str, Any]:
    """Merges the responses of a batch's chunks."""
    if len(responses) == 1:
        return responses[0]
    if all("batchId" in one for one in responses):
        return {"batchIds": [one["batchId"] for one in responses]}
    if b'"response_format"' in options:
        return {"data": [one["data"] for one in responses]}
    return {"data": [row for one in responses for row in one["data"]]}


def _body(data: bytes, options: bytes) -> bytes:
    return b'{"data":%b%b}' % (data, options)


def _options_json(seconds: Any, format_: Any, webhook: Any, ignores: Any) -> bytes:
    """Returns the request's options as JSON members, each with a leading comma."""
    options: dict[str, Any] = {}
    if seconds is not None:
        options["timeout_seconds"] = _positive("timeout_seconds", seconds, 0)
    if format_ is not None:
        if format_ != "links":
            raise UserFacingError("Invalid 'response_format' value: it must be \"links\" or None.")
        options["response_format"] = format_
    if webhook is not None:
        if not isinstance(webhook, str) or not webhook.startswith(("https://", "http://")):
            raise UserFacingError("Invalid 'response_webhook' value: it must be a URL.")
        options["response_webhook"] = webhook
    if ignores is not None:
        if webhook is None or not isinstance(ignores, bool):
            raise UserFacingError("'response_webhook_ignore_timeout' must be a bool, and goes with a response_webhook.")
        options["response_webhook_ignore_timeout"] = ignores
    return b"".join(b',"%b":%b' % (name.encode(), dumps(value)) for name, value in options.items())


def _host(base_url: str | None, region: str | None, outpost: str | None, workspace: str | None) -> str:
    if base_url is not None:
        if not base_url.startswith(("http://", "https://")):
            raise UserFacingError(f"Invalid 'base_url' value: {base_url!r} is not a URL.")
        return base_url.rstrip("/")
    workspace = workspace or os.environ.get("MB_WORKSPACE_NAME")
    if not region or not workspace:
        missing = "region" if not region else "workspace"
        raise UserFacingError(f"Missing '{missing}' value: or give base_url, the server's URL.")
    for name, value in (("region", region), ("workspace", workspace), *((("outpost", outpost),) if outpost else ())):
        _check_text(name, value)
    if ":5000" in region:
        return f"http://{workspace}.{region}"
    return f"https://{'.'.join(filter(None, (workspace, outpost, region)))}.modelbit.com"


def _check_text(name: str, value: Any) -> None:
    if not isinstance(value, str) or not _ALLOWED.fullmatch(value):
        raise UserFacingError(f"Invalid '{name}' value (received {value!r}): letters, digits and ./_:+=- only.")


def _positive(name: str, value: Any, default: int) -> int:
    if value is None:
        return default
    if not isinstance(value, int) or isinstance(value, bool) or value <= 0:
        raise UserFacingError(f"Invalid '{name}' value: it must be a positive integer, not {value!r}.")
    return value


class _Progress:
    """Progress line on the terminal."""

    def __init__(self, rows: int, *, shown: bool) -> None:
        self._rows, self._shown, self._done, self._lock = rows, shown, 0, threading.Lock()

    def add(self, count: int) -> None:
        with self._lock:
            self._done += count
            if self._shown:
                print(f"\rGetting inferences: {self._done} of {self._rows} rows", end="", file=sys.stderr, flush=True)

    def close(self) -> None:
        if self._shown:
            print(file=sys.stderr)
