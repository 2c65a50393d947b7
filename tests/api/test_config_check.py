"""`penstock config check`: all problems of settings, certificates and models."""

from __future__ import annotations

import re
import socket
from pathlib import Path
from typing import Any

import pytest
import trustme

import config_app
from config_app import output
from penstock import ConfigError, Server
from penstock._cli.main import main

folder = config_app.folder
pytestmark = pytest.mark.usefixtures("folder")


def problems(capsys: pytest.CaptureFixture[str], *arguments: str) -> list[str]:
    """Lines of a check that finds problems."""
    assert main(["config", "check", *arguments]) == 1
    return capsys.readouterr().out.splitlines()


def test_import_errors_are_problems(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "bad.py").write_text("1 / 0\n")
    assert problems(capsys, "bad.py") == ["cannot import bad.py: ZeroDivisionError: division by zero"]


def test_check_without_problems_names_the_file(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert output(capsys, "check") == "no problems (no file)\n"
    (tmp_path / "penstock.toml").write_text("[server]\nresources = { gpu0 = 2 }\n[image]\npython_version = '3.12'\n")
    assert output(capsys, "check", "app.py") == "no problems (penstock.toml)\n"


def test_check_prints_all_problems(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "penstock.toml").write_text(
        "[server]\nhtpp = 3\ntls_certificate = ['a.pem', 'b.pem']\ntls_key = ['a.key', 'b.key']\n"
        "tls_client = 'required'\ntls_client_ca = 'ca.pem'\nload_models = ['a']\n"
        "http_header_forward_pattern = '('\ngrpc_header_forward_pattern = '['\ncache_redis = 'redis:/hidden'\n"
        "[image]\nrequirments = []\npython_version = 3.12\n"
    )
    monkeypatch.setenv("PENSTOCK_IDLE_TIMEOUT", "soon")
    monkeypatch.setenv("PENSTOCK_API_KEY", "env:NO_SUCH_VARIABLE")
    found = problems(capsys, "none.py", "app.py")
    expected = [
        r"penstock\.toml:2: unknown setting 'htpp' in \[server\], did you mean 'http'\?",
        r"PENSTOCK_IDLE_TIMEOUT: 'soon' is not a duration such as 500ms, 30s or 2m",
        r"api_key: the variable 'NO_SUCH_VARIABLE' is not set \(PENSTOCK_API_KEY\)",
        r"load_models: has no meaning unless model_control is explicit \(penstock\.toml:7\)",
        r"penstock\.toml:12: unknown key 'requirments' in \[image\], did you mean 'requirements'\?",
        r"penstock\.toml:13: \[image\] python_version is 3\.12, expected a text",
        r"http_header_forward_pattern: not a regular expression: .* \(penstock\.toml:8\)",
        r"grpc_header_forward_pattern: not a regular expression: .* \(penstock\.toml:9\)",
        r"cache_redis: expected redis://.* \(penstock\.toml:10\)",
        r"tls_certificate: 'a\.pem' cannot be read: No such file or directory .*\(penstock\.toml:3\)",
        r"tls_certificate: 'b\.pem' cannot be read: No such file or directory .*\(penstock\.toml:3\)",
        r"tls_client_ca: not checked, because no certificate can be used \(penstock\.toml:6\)",
        r"there is no file none\.py",
    ]
    for line, pattern in zip(found, expected, strict=True):
        assert re.fullmatch(pattern, line), line


def test_check_of_models_and_repositories(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert problems(capsys, "app.py", "--resources", "gpu0=1") == [
        "model 'double' needs 2 of resource 'gpu0', the server has 1"
    ]
    assert problems(capsys, "--repository", "none") == [
        f"the model repository {tmp_path}/none cannot be read: No such file or directory"
    ]
    assert problems(capsys, "--http", "off", "--grpc", "off") == ["http and grpc are both off: nothing would listen"]
    (tmp_path / "other.py").write_text("from app import double\n")
    assert problems(capsys, "app.py", "other.py:double", "--resources", "gpu0=2") == [
        "model 'double' version '1' is given twice; give one of them another name= or version="
    ]


@pytest.fixture
def certificate(tmp_path: Path) -> list[str]:
    """Flags for a certificate with its key, and an authority of clients."""
    authority = trustme.CA()
    issued = authority.issue_cert("localhost")
    (tmp_path / "a.pem").write_bytes(b"".join(blob.bytes() for blob in issued.cert_chain_pems))
    issued.private_key_pem.write_to_path(tmp_path / "a.key")
    authority.issue_cert("localhost").private_key_pem.write_to_path(tmp_path / "b.key")
    for name in ("a.key", "b.key"):
        (tmp_path / name).chmod(0o600)
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    return ["--tls-certificate", "a.pem", "--tls-key", "a.key"]


def test_check_opens_certificates_but_no_address(capfd: pytest.CaptureFixture[str], certificate: list[str]) -> None:
    clients = ["--tls-client", "required", "--tls-client-ca", "ca.pem"]
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        assert main(["config", "check", *certificate, *clients, "--http", address, "--grpc", "same"]) == 0
    assert capfd.readouterr() == ("no problems (no file)\n", "")


def test_check_reads_the_file_of_keys(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "keys.toml").write_text("[[key]]\nname = 'a'\nsha256 = 'x'\n")
    assert problems(capsys, "--keys-file", "keys.toml") == [
        "keys_file: keys.toml:3: 'sha256' has 64 hexadecimal digits, this text has 1 characters (--keys-file)"
    ]


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (["--tls-key", "b.key"], "tls_key: 'b.key' does not belong to the certificate 'a.pem' (--tls-key)"),
        (
            ["--tls-certificate", "a.key"],
            "tls_certificate: 'a.key' holds no certificate (PEM, 'BEGIN CERTIFICATE') (--tls-certificate)",
        ),
        (
            ["--tls-client", "optional", "--tls-client-ca", "a.key"],
            "tls_client_ca: 'a.key' holds no certificate (PEM, 'BEGIN CERTIFICATE') (--tls-client-ca)",
        ),
        (
            ["--tls-client", "optional", "--tls-client-ca", "ca.pem", "--tls-client-crl", "ca.pem"],
            "tls_client_crl: 'ca.pem' holds no list of revoked certificates (PEM, 'BEGIN X509 CRL') (--tls-client-crl)",
        ),
        (["--tls-key", "a.key,b.key"], "tls_certificate: 1 certificate and 2 keys (--tls-certificate)"),
    ],
)
def test_check_refuses_certificates_as_the_start_does(
    capsys: pytest.CaptureFixture[str], certificate: list[str], wrong: list[str], message: str
) -> None:
    assert problems(capsys, *certificate, *wrong) == [message]
    options: dict[str, Any] = {
        name[2:].replace("-", "_"): text for name, text in zip(*[iter([*certificate, *wrong])] * 2, strict=True)
    }

    def f(x: int) -> int:
        return x

    with pytest.raises(ConfigError) as error, Server(f, http="127.0.0.1:0", grpc=None, **options):
        pass
    assert message.startswith(str(error.value))


def test_check_warns_of_keys_that_others_can_read(
    capfd: pytest.CaptureFixture[str], certificate: list[str], tmp_path: Path
) -> None:
    (tmp_path / "a.key").chmod(0o644)
    assert main(["config", "check", *certificate]) == 0
    out, err = capfd.readouterr()
    assert out == "no problems (no file)\n"
    assert err.count("tls_key: 'a.key' can be read by everyone (mode 0644)") == 1
