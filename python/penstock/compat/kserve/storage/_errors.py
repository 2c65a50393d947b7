"""Errors of other packages, in the words that KServe has for them."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.compat.kserve.logging import logger

__all__ = ["explained"]

_HINTS = {
    "S3": "Set AWS_ACCESS_KEY_ID/AWS_SECRET_ACCESS_KEY or use awsAnonymousCredential=true.",
    "GCS": "Verify GOOGLE_APPLICATION_CREDENTIALS or use anonymous access.",
    "Azure": "Verify AZURE_CLIENT_ID/AZURE_CLIENT_SECRET or AZURE_STORAGE_ACCESS_KEY.",
    "HDFS": "Verify Kerberos keytab and principal configuration.",
    "HuggingFace": "Set HF_TOKEN or request access to the gated repository.",
    "ModelScope": "Set MODELSCOPE_API_TOKEN or log in to ModelScope.",
    "Git": "Set GIT_USERNAME/GIT_PASSWORD or use a public repository.",
}


def explained(protocol: str, uri: str, error: BaseException, resource: str) -> RuntimeError:
    """The error to raise for one that a source raised.

    Args:
        protocol: "S3", "GCS" and so on.
        uri: What was asked for, for the log.
        error: What was raised.
        resource: What it is about: a bucket, a repository.
    """
    logger.error("%s error for %s: %s", protocol, uri, error)
    names = {kind.__name__.lower() for kind in type(error).__mro__}
    text = str(error).lower()

    def is_one(kinds: Sequence[str], words: Sequence[str]) -> bool:
        return any(kind in name for kind in kinds for name in names) or any(word in text for word in words)

    if is_one(["gatedrepo", "nocredentials", "authenticat"], ["credential", "authenticat", "unauthorized"]):
        said = f"{protocol} authentication failed. {_HINTS.get(protocol, '')}".rstrip()
    elif is_one(["notfound"], ["not found", "does not exist", "does not appear to be", "no such", "404"]):
        said = f"{protocol} resource '{resource}' not found."
    elif is_one(["forbidden", "permissionerror"], ["access denied", "forbidden", "permission"]):
        said = f"Access denied to {protocol} resource '{resource}'. Verify permissions."
    elif is_one(["connectionerror", "connectorerror", "timeout"], ["connect", "timed out", "timeout"]):
        said = f"Failed to connect to {protocol} endpoint '{resource}'."
    else:
        said = f"{protocol} error: {error}"
    return RuntimeError(said)
