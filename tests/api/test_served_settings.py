"""Settings of a server that are read again: every setting, live or not."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from config_samples import KINDS, samples
from penstock import ServerConfig
from penstock._config import settings
from penstock._config.resolve import Sources
from penstock._config.served import ServedSettings

LIVE = {name: entry.metadata["live"] for name, entry in ServerConfig.__dataclass_fields__.items()}

NEEDED = {
    "vertex": "vertex_health_route = '/h'\nvertex_predict_route = '/p'",
    "tls_certificate": "tls_key = 'a.key'",
    "tls_key": "tls_certificate = 'a.pem'",
    "tls_client": "tls_client_ca = 'ca.pem'\ntls_certificate = 'a.pem'\ntls_key = 'a.key'",
    "tls_client_ca": "tls_client = 'required'\ntls_certificate = 'a.pem'\ntls_key = 'a.key'",
    "tls_client_crl": "tls_client = 'required'\ntls_client_ca = 'ca.pem'\ntls_certificate = 'a.pem'\ntls_key = 'a.key'",
    "load_models": "model_control = 'explicit'",
    "load_files": "model_control = 'explicit'",
    "admin_open": "admin = '127.0.0.1:9'",
}
"""Settings that a rule requires beside one."""

OWN = {
    "tls_client": ["optional", "required"],
    "tls_certificate": ["a.pem", "b.pem"],
    "tls_key": ["a.key", "b.key"],
    "tls_client_ca": ["ca.pem", "cb.pem"],
}


@pytest.mark.parametrize("name", KINDS)
def test_each_setting_changes_or_needs_a_restart(name: str, tmp_path: Path) -> None:
    first, second = OWN.get(name) or samples(name, 2)
    if name == "api_key":
        second = "another-key"
    path = tmp_path / "a.toml"

    def write(value: str) -> None:
        path.write_text(f"[server]\n{name} = '{value}'\n{NEEDED.get(name, '')}\n")

    write(first)
    served = ServedSettings.of(ServerConfig, Sources(environ={}, file=str(path)))
    description = served.describe([])
    write(second)
    changed, reading = served.read_again()
    [change] = reading.changes
    assert (change.name, change.is_live) == (name, LIVE[name])
    kept, new = getattr(served.config, name), settings.normalised(KINDS[name], second)
    assert getattr(changed.config, name) == (new if LIVE[name] else kept)
    row = json.loads(changed.describe([]).document)["settings"][name]
    assert ("needs_restart" in row) is not LIVE[name]
    is_secret = KINDS[name] in settings.SECRETS
    assert (changed.describe([]).digest != description.digest) is LIVE[name]
    if is_secret:
        assert str(change) in (f"{name} changed: needs a restart", f"{name} changed from (set) to off: needs a restart")
        assert first not in json.dumps(row)
        assert second == "off" or second not in json.dumps(row)
    write(first)
    again, reading = changed.read_again()
    assert len(reading.changes) == LIVE[name]
    assert again.config == served.config
    assert again.describe([]) == description


def test_hash_is_of_the_values_and_not_of_their_origins(tmp_path: Path) -> None:
    def digest(**given: object) -> str:
        return ServedSettings.of(ServerConfig, Sources(environ={}, **given)).describe([]).digest  # type: ignore[arg-type]

    plain = digest()
    assert digest(arguments={"idle_timeout": 75}) == plain
    assert digest(command_line={"idle_timeout": "75s"}) == plain
    assert digest(arguments={"idle_timeout": 76}) != plain
    assert digest(arguments={"api_key": "secret-key"}) == plain, "a hash of secrets could be searched for"


def test_only_variables_of_settings_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET_OF_ANOTHER", "x")
    monkeypatch.setenv("PENSTOCK_IDLE_TIMEOUT", "5")
    served = ServedSettings.of(ServerConfig, Sources())
    assert served.config.idle_timeout == 5.0
    assert "SECRET_OF_ANOTHER" not in (served._given.environ or {})
