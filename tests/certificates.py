"""Certificates of tests, as files."""

from __future__ import annotations

import os
import ssl
from pathlib import Path

import trustme


class Files:
    """PEM files in a folder, of an authority that exists only here."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.authority = trustme.CA()
        self.ca = self.path("ca.pem")
        self.authority.cert_pem.write_to_path(self.ca)

    def path(self, name: str) -> str:
        return str(self.folder / name)

    def issue(self, name: str, *hosts: str) -> tuple[str, str]:
        """The files of a new certificate and its key."""
        issued = self.authority.issue_cert(*hosts)
        certificate, key = self.path(f"{name}.pem"), self.path(f"{name}.key")
        Path(certificate).write_bytes(b"".join(blob.bytes() for blob in issued.cert_chain_pems))
        issued.private_key_pem.write_to_path(key)
        os.chmod(key, 0o600)
        return certificate, key

    def context(self, *client: str) -> ssl.SSLContext:
        context = ssl.create_default_context(cafile=self.ca)
        if client:
            context.load_cert_chain(*client)
        return context
