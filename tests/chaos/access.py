"""Access of the clients to the server: plain, or TLS with a key for each client's certificate."""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc

from certificates import Files
from http_by_hand import Connection
from penstock import Client
from repositories import RepositoryClient

KEYS = "[[key]]\nname = 'chaos'\nsubject = 'chaos.test'\nscopes = ['*']\n"


@dataclass(frozen=True)
class Access:
    """Addresses and certificates of the server, for its clients.

    Attributes:
        http: Its URL.
        grpc: Its gRPC target.
        metrics: URL of its metrics, which are plain.
        folder: The folder of certificates; None without TLS.
    """

    http: str
    grpc: str
    metrics: str
    folder: Path | None = None

    @property
    def tls(self) -> ssl.SSLContext | None:
        if self.folder is None:
            return None
        context = ssl.create_default_context(cafile=self.folder / "ca.pem")
        context.load_cert_chain(self.folder / "client.pem", self.folder / "client.key")
        return context

    def connection(self) -> Connection:
        return Connection(self.http, self.tls)

    def repository(self) -> RepositoryClient:
        return RepositoryClient(self.http, self.tls)

    def channel(self) -> grpc.Channel:
        options = [("grpc.max_receive_message_length", -1)]
        if self.folder is None:
            return grpc.insecure_channel(self.grpc, options=options)
        ca, key, chain = ((self.folder / name).read_bytes() for name in ("ca.pem", "client.key", "client.pem"))
        return grpc.secure_channel(self.grpc, grpc.ssl_channel_credentials(ca, key, chain), options=options)

    def native(self) -> Client:
        files: dict[str, Any] = {}
        if self.folder is not None:
            files = {
                "ca_file": self.folder / "ca.pem",
                "certificate": self.folder / "client.pem",
                "key": self.folder / "client.key",
            }
        return Client(self.http, timeout=30, **files)


def write_certificates(folder: Path) -> list[str]:
    """Writes certificates and keys, and returns the arguments of a server that needs them."""
    certificates = Files(folder)
    certificates.issue("server", "127.0.0.1", "localhost")
    certificates.issue("client", "chaos.test")
    (folder / "keys.toml").write_text(KEYS)
    (folder / "keys.toml").chmod(0o600)
    files = {
        "--tls-certificate": "server.pem",
        "--tls-key": "server.key",
        "--tls-client-ca": "ca.pem",
        "--keys-file": "keys.toml",
    }
    return ["--tls-client", "required", *(part for flag, name in files.items() for part in (flag, str(folder / name)))]
