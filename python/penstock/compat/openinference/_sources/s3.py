"""Code in S3 object stores."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from penstock.compat.openinference._sources import web
from penstock.integrations.downloads import saved

__all__ = ["download"]


def download(uri: str, path: Path) -> None:
    """Downloads `s3://bucket/key`.

    Endpoint and credentials come from S3_ENDPOINT_URL or AWS_ENDPOINT_URL, AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY,
    AWS_SESSION_TOKEN and AWS_REGION.

    Raises:
        RuntimeError: s3fs is not installed, or the download fails.
    """
    try:
        import s3fs
    except ImportError:
        raise RuntimeError("S3 sources need s3fs: pip install 'penstock[openinference]'") from None
    parts = urlsplit(uri)
    if not parts.netloc or not parts.path.strip("/"):
        raise RuntimeError(f"{uri}: expected a bucket and an object")
    client: dict[str, Any] = {}
    if endpoint := os.environ.get("S3_ENDPOINT_URL") or os.environ.get("AWS_ENDPOINT_URL"):
        client["endpoint_url"] = endpoint
    if region := os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION"):
        client["region_name"] = region
    try:
        store = s3fs.S3FileSystem(
            anon="AWS_ACCESS_KEY_ID" not in os.environ, client_kwargs=client, skip_instance_cache=True
        )
        with store.open(f"{parts.netloc}{parts.path}", "rb") as source:
            saved(source, path, web.bounds())
    except RuntimeError:
        raise
    except FileNotFoundError:
        raise RuntimeError(f"there is no {uri}") from None
    except Exception as error:
        raise RuntimeError(f"{uri} cannot be fetched: {type(error).__name__}: {error}") from None
