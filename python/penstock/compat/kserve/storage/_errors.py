"""Errors of storage packages, with hints in the words of KServe's error messages."""

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
    """Returns the error to raise for an error of a storage package.

    Args:
        protocol: "S3", "GCS" and so on.
        uri: The URI, for the log.
        error: The source's error.
        resource: The bucket or repository.
    """
    logger.error("%s error for %s: %s", protocol, uri, error)
    names = {kind.__name__.lower() for kind in type(error).__mro__}
    text = str(error).lower()

    def is_one(kinds: Sequence[str], words: Sequence[str]) -> bool:
        return any(kind in name for kind in kinds for name in names) or any(word in text for word in words)

    if is_one(["gatedrepo", "nocredentials", "authenticat"], ["credential", "authenticat", "unauthorized"]):
        message = f"{protocol} authentication failed. {_HINTS.get(protocol, '')}".rstrip()
    elif is_one(["notfound"], ["not found", "does not exist", "does not appear to be", "no such", "404"]):
        message = f"{protocol} resource '{resource}' not found."
    elif is_one(["forbidden", "permissionerror"], ["access denied", "forbidden", "permission"]):
        message = f"Access denied to {protocol} resource '{resource}'. Verify permissions."
    elif is_one(["connectionerror", "connectorerror", "timeout"], ["connect", "timed out", "timeout"]):
        message = f"Failed to connect to {protocol} endpoint '{resource}'."
    else:
        message = f"{protocol} error: {error}"
    return RuntimeError(message)
