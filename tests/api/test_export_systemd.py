"""`penstock export systemd`: the command line in the service, credentials, sockets, and refusals."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from penstock._cli.main import main

PROGRAM = ("--program", "/opt/penstock/bin/penstock")


def exported(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(["export", "systemd", *arguments]) == 0
    return capsys.readouterr().out


def lines(text: str, key: str) -> list[str]:
    return re.findall(rf"^{key}=(.*)$", text, re.MULTILINE)


def test_settings_are_those_of_the_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    flags = [
        "--http",
        "9000",
        "--request-timeout",
        "2m",
        "--timing-headers",
        "--no-docs",
        "--repository",
        "/srv/models",
    ]
    text = exported(capsys, "/srv/app/app.py:double", *PROGRAM, *flags, "--server-name", 'a $b "c" 5% \\')
    [command] = lines(text, "ExecStart")
    assert command.startswith("/opt/penstock/bin/penstock serve /srv/app/app.py:double ")
    for expected in (
        "--http 9000",
        "--request-timeout 2m",
        "--timing-headers",
        "--no-docs",
        "--repository /srv/models",
    ):
        assert f" {expected}" in command
    # As systemd reads a quoted word.
    assert r'--server-name "a $$b \"c\" 5%% \\"' in command
    assert lines(text, "WorkingDirectory") == ["/srv/app"]
    assert text.startswith("# /etc/systemd/system/penstock.service\n[Unit]\n")


def test_files_are_credentials(capsys: pytest.CaptureFixture[str]) -> None:
    flags = ["--tls-certificate", "/etc/a/tls.crt,/etc/b/tls.crt", "--tls-key", "/etc/a/tls.key,/etc/b/tls.key"]
    flags += ["--keys-file", "/etc/penstock/keys.toml", "--otlp-ca", "off"]
    text = exported(capsys, "app", *PROGRAM, *flags)
    [command] = lines(text, "ExecStart")
    for expected in ("--otlp-ca off", "--tls-certificate %d/tls.crt,%d/1-tls.crt", "--keys-file %d/keys.toml"):
        assert expected in command
    assert lines(text, "LoadCredential") == [
        "tls.crt:/etc/a/tls.crt",
        "1-tls.crt:/etc/b/tls.crt",
        "tls.key:/etc/a/tls.key",
        "3-tls.key:/etc/b/tls.key",
        "keys.toml:/etc/penstock/keys.toml",
    ]
    # A module has no folder.
    assert lines(text, "WorkingDirectory") == []


def test_sockets_of_one_name_are_in_one_unit(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    sockets = ["--socket", "http=0.0.0.0:443", "--socket", "http=unix:/run/a.sock", "--socket", "admin=9001"]
    printed = exported(capsys, "/srv/app.py", *PROGRAM, *sockets, "--name", "scorer", "--folder", str(tmp_path))
    names = ["scorer.service", "scorer-http.socket", "scorer-admin.socket"]
    assert printed.split() == [str(tmp_path / name) for name in names]
    service, http, admin = [(tmp_path / name).read_text() for name in names]
    assert lines(service, "Sockets") == ["scorer-http.socket scorer-admin.socket"]
    assert lines(http, "ListenStream") == ["0.0.0.0:443", "/run/a.sock"]
    assert (lines(http, "FileDescriptorName"), lines(http, "Service")) == (["http"], ["scorer.service"])
    assert lines(http, "SocketMode") == []
    assert (lines(admin, "ListenStream"), lines(admin, "SocketMode")) == (["127.0.0.1:9001"], ["0600"])


EXPECTED = "expected KIND=ADDRESS with http, grpc, admin, metrics, and HOST:PORT, PORT or unix:/path"
MOVE = "move it to /srv or /opt"


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["--socket", "htp=443"], f"--socket htp=443: {EXPECTED}"),
        (["--socket", "http=proxy:9000"], f"--socket http=proxy:9000: {EXPECTED}"),
        (["--socket", "http=fd:3"], f"--socket http=fd:3: {EXPECTED}"),
        (["--http", "0.0.0.0:443"], "http: the service may not open port 443; use --socket http=0.0.0.0:443"),
        (
            ["--listeners", "metrics=127.0.0.1:90"],
            "listeners: the service may not open port 90; use --socket metrics=127.0.0.1:90",
        ),
        (["--keys-file", "/home/me/k"], f"--keys-file: /home/me/k is hidden from the service by ProtectHome=; {MOVE}"),
        (["--config", "/tmp/c.toml"], f"--config: /tmp/c.toml is hidden from the service by PrivateTmp=; {MOVE}"),
        (["--program", "penstock"], "--program penstock: expected an absolute path"),
        (["--name", "a/b"], "--name a/b: expected letters, digits, '-', '_' and '.'"),
        (["--memory", "4GiB"], "--memory 4GiB: expected a size such as 512M or 4G"),
        (["--folder", "/no/such/folder"], "--folder: /no/such/folder/penstock.service cannot be written: No such file"),
    ],
)
def test_option_that_makes_no_service_is_refused(
    capsys: pytest.CaptureFixture[str], arguments: list[str], problem: str
) -> None:
    given = arguments if "--program" in arguments else [*PROGRAM, *arguments]
    assert main(["export", "systemd", "/srv/app.py", *given]) == 1
    assert f"penstock: error: {problem}" in capsys.readouterr().err


def test_code_that_the_service_does_not_see_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["export", "systemd", "/run/user/app.py", *PROGRAM]) == 1
    assert f"PATH: /run/user/app.py is hidden from the service by ProtectHome=; {MOVE}" in capsys.readouterr().err
