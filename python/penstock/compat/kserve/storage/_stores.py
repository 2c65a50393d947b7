"""Stores: fsspec's protocol and options from a URI and KServe's environment variables."""

from __future__ import annotations

import json
import os
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from penstock.compat.kserve.storage._settings import flag, hadoop

__all__ = ["Store", "of"]


@dataclass(frozen=True)
class Store:
    """A store, and the path in it."""

    name: str
    """The name in messages."""
    protocol: str
    """The name in fsspec."""
    package: str
    """The package that fsspec needs."""
    path: str
    resource: str
    """The bucket, container or server, for messages."""
    options: dict[str, Any]
    concurrency: int = 4
    headers: dict[str, str] = field(default_factory=dict)
    """HDFS only: headers of every request."""


def of(uri: str) -> Store:
    """Returns the store of a URI.

    Raises:
        RuntimeError: the environment or the URI is invalid.
    """
    scheme = urlsplit(uri).scheme
    if scheme == "s3":
        return _s3(uri)
    if scheme == "gs":
        return Store("GCS", "gs", "gcsfs", uri, urlsplit(uri).netloc, {})
    if scheme in ("hdfs", "webhdfs"):
        return _hdfs(uri)
    return _azure(uri)


def _s3(uri: str) -> Store:
    environment = os.environ.get
    endpoint, region = environment("AWS_ENDPOINT_URL"), environment("AWS_DEFAULT_REGION")
    style: dict[str, Any] = {}
    # The old global endpoint serves other regions only if the bucket is in the host's name.
    if flag("S3_USER_VIRTUAL_BUCKET") or (
        endpoint == "https://s3.amazonaws.com" and region not in (None, "", "us-east-1")
    ):
        style["addressing_style"] = "virtual"
    if flag("S3_USE_ACCELERATE"):
        style["use_accelerate_endpoint"] = True
    client: dict[str, Any] = {"verify": _s3_authorities()}
    if endpoint:
        client["endpoint_url"] = endpoint
    if region:
        client["region_name"] = region
    config = {
        "connect_timeout": _number("S3_CONNECT_TIMEOUT", 15),
        "read_timeout": _number("S3_READ_TIMEOUT", 30),
        "retries": {"max_attempts": _number("S3_MAX_ATTEMPTS", 3), "mode": "standard"},
        **({"s3": style} if style else {}),
    }
    options = {
        "anon": flag("awsAnonymousCredential"),
        "client_kwargs": client,
        "config_kwargs": config,
        # Without caches: a model may have changed since the last download.
        "use_listings_cache": False,
        "skip_instance_cache": True,
    }
    concurrency = max(1, _number("S3_MAX_FILE_CONCURRENCY", 4))
    return Store("S3", "s3", "s3fs", uri, urlsplit(uri).netloc, options, concurrency)


def _s3_authorities() -> bool | str:
    if not flag("S3_VERIFY_SSL", default=True):
        return False
    bundle = os.environ.get("AWS_CA_BUNDLE")
    if not bundle and os.environ.get("CA_BUNDLE_CONFIGMAP_NAME"):
        bundle = str(Path(os.environ.get("CA_BUNDLE_VOLUME_MOUNT_POINT", "/etc/ssl/custom-certs")) / "cabundle.crt")
    if bundle and not Path(bundle).exists():
        raise RuntimeError(f"Failed to find ca bundle file({bundle}).")
    return bundle or True


def _azure(uri: str) -> Store:
    parts = urlsplit(uri)
    if parts.scheme == "https":
        account, (container, _, path) = parts.netloc.partition(".")[0], parts.path.lstrip("/").partition("/")
    else:
        container, _, host = parts.netloc.rpartition("@")
        account = host.partition(".")[0] if container else os.environ.get("AZURE_STORAGE_ACCOUNT", "")
        container, path = container or host, parts.path.lstrip("/")
    if not account or not container:
        raise RuntimeError(f"{parts.scheme}://{parts.netloc} has no Azure account or container")
    options: dict[str, Any] = {"account_name": account}
    environment = {name: os.environ.get(f"AZ_{name}") or os.environ.get(f"AZURE_{name}") for name in _PRINCIPAL}
    key = os.environ.get("AZURE_STORAGE_ACCESS_KEY")
    if parts.query:
        options["sas_token"] = parts.query
    elif all(environment.values()):
        options |= {name.lower(): value for name, value in environment.items()}
    elif environment["CLIENT_ID"]:
        options["anon"] = False
    elif key:
        options["account_key"] = key
    else:
        options["anon"] = True
    concurrency = max(1, _number("AZURE_MAX_FILE_CONCURRENCY", 4))
    return Store("Azure", "abfs", "adlfs", f"{container}/{path.strip('/')}", container, options, concurrency)


_PRINCIPAL = ("TENANT_ID", "CLIENT_ID", "CLIENT_SECRET")


def _hdfs(uri: str) -> Store:
    secrets = hadoop()
    server = urlsplit(secrets.get("HDFS_NAMENODE", ""))
    if not server.hostname:
        raise RuntimeError("HDFS_NAMENODE is not an HDFS URL such as http://namenode:9870")
    below = re.sub(r"^(web)?hdfs://", "", uri)
    path = f"{secrets.get('HDFS_ROOTPATH', '').rstrip('/')}/{below.lstrip('/')}"
    options: dict[str, Any] = {
        "host": server.hostname,
        "port": server.port or 9870,
        "use_https": server.scheme == "https",
        "kerberos": bool(secrets.get("KERBEROS_PRINCIPAL")),
    }
    if secrets.get("KERBEROS_PRINCIPAL"):
        options["kerb_kwargs"] = {"principal": secrets["KERBEROS_PRINCIPAL"]}
        if secrets.get("KERBEROS_KEYTAB"):
            # The variable in which Kerberos's library finds the keys for a ticket.
            os.environ["KRB5_CLIENT_KTNAME"] = secrets["KERBEROS_KEYTAB"]
    if secrets.get("USER_PROXY"):
        options["proxy_to"] = secrets["USER_PROXY"]
    if secrets.get("TLS_SKIP_VERIFY", "").lower() == "true":
        options["session_verify"] = False
    elif secrets.get("TLS_CA"):
        options["session_verify"] = secrets["TLS_CA"]
    if secrets.get("TLS_CERT"):
        options["session_cert"] = (secrets["TLS_CERT"], secrets.get("TLS_KEY"))
    headers = json.loads(secrets.get("HEADERS") or "{}")
    return Store("HDFS", "webhdfs", "requests", path, server.netloc, options, headers=headers)


def _number(name: str, default: int) -> int:
    text = os.environ.get(name, "")
    if text and not text.isdecimal():
        raise RuntimeError(f"{name} is {text!r}, expected a number")
    return int(text) if text else default
