"""Environment variables that KServe's controller sets for a download."""

from __future__ import annotations

import base64
import json
import os
import tempfile
from pathlib import Path
from typing import Any

__all__ = ["MOST_BYTES", "apply", "flag", "hadoop"]

MOST_BYTES = 1 << 40
"""The default of PENSTOCK_STORAGE_MAX_BYTES: the most bytes of a source."""

_OF_S3 = {
    "endpoint_url": "AWS_ENDPOINT_URL",
    "access_key_id": "AWS_ACCESS_KEY_ID",
    "secret_access_key": "AWS_SECRET_ACCESS_KEY",
    "region": "AWS_DEFAULT_REGION",
    "ca_bundle": "AWS_CA_BUNDLE",
    "verify_ssl": "S3_VERIFY_SSL",
    "anonymous": "awsAnonymousCredential",
}
_FILES = ("KERBEROS_KEYTAB", "TLS_CERT", "TLS_KEY", "TLS_CA")
_SECRETS = "/var/secrets/kserve-hdfscreds"
_HADOOP = ("HDFS_NAMENODE", "USER_PROXY", "HDFS_ROOTPATH", *_FILES, "TLS_SKIP_VERIFY", "HEADERS", "KERBEROS_PRINCIPAL")


def apply() -> None:
    """Sets the variables of S3 and HDFS from STORAGE_CONFIG and STORAGE_OVERRIDE_CONFIG, of which the latter wins.

    Raises:
        RuntimeError: one of them is not a JSON object.
    """
    config = {**_object("STORAGE_CONFIG"), **_object("STORAGE_OVERRIDE_CONFIG")}
    if config.get("type") == "s3":
        for key, name in _OF_S3.items():
            if key in config:
                os.environ[name] = str(config[key])
    elif config.get("type") in ("hdfs", "webhdfs"):
        folder = Path(tempfile.mkdtemp())
        for key, value in config.items():
            if key in _HADOOP:
                content = base64.b64decode(value) if key in _FILES else str(value).encode()
                (folder / key).write_bytes(content)
        os.environ["HDFS_SECRET_DIR"] = str(folder)


def flag(name: str, default: bool = False) -> bool:
    """Returns whether a variable is "1", "true" or "yes"."""
    word = os.environ.get(name, "").strip().lower()
    return word in ("1", "true", "yes") if word else default


def hadoop() -> dict[str, str]:
    """Returns the content of HDFS's secret folder; for keys and certificates their paths.

    Raises:
        RuntimeError: the folder does not exist.
    """
    folder = Path(os.environ.get("HDFS_SECRET_DIR") or _SECRETS)
    if not folder.is_dir():
        raise RuntimeError(f"HDFS is not configured: there is no folder {folder}, and STORAGE_CONFIG has no 'hdfs'")
    present = [folder / name for name in _HADOOP if (folder / name).is_file()]
    return {path.name: str(path) if path.name in _FILES else path.read_text().strip() for path in present}


def _object(name: str) -> dict[str, Any]:
    try:
        config = json.loads(os.environ.get(name) or "{}")
    except ValueError as error:
        raise RuntimeError(f"{name} is not JSON: {error}") from None
    if not isinstance(config, dict):
        raise RuntimeError(f"{name} is a JSON {type(config).__name__}, expected an object")
    return config
