"""Settings with secrets: parsing, and redaction in errors and representations."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from penstock import ConfigError, Server, ServerConfig
from penstock._cli.main import main
from penstock.config import load_config

SECRET = "hush-7f3a"


def load(**settings: Any) -> ServerConfig:
    return load_config(settings, environ={})


def test_access_rules_read_secrets_from_files_and_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "secret").write_text(f"{SECRET}\n")
    monkeypatch.setenv("OPS_SECRET", "from the environment")
    text = f"logging, trace:Admin-Key=file:{tmp_path / 'secret'}; statistics:ops=env:OPS_SECRET;metadata:m=a=b:c"
    assert load(restricted_access=text).access_rules == [
        (["logging", "trace"], "admin-key", SECRET),
        (["statistics"], "ops", "from the environment"),
        (["metadata"], "m", "a=b:c"),
    ]
    assert load(api_key=f"file:{tmp_path / 'secret'}").access_key == SECRET
    assert load(api_key=SECRET).access_key == SECRET
    assert (load().access_rules, load().access_key) == ([], None)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (SECRET, "rule 1 is not as expected: rules of the form CATEGORY[,CATEGORY...]:HEADER=SECRET"),
        (f"logging:{SECRET}", "rule 1 is not as expected"),
        (f"logging:a={SECRET};login:a={SECRET}", "rule 2: unknown category 'login', expected one of health, metadata"),
        (f"logging:not a header={SECRET}", "rule 1: 'not a header' is not a header's name"),
        ("logging:a=", "rule 1: the secret is not printable ASCII text"),
        (f"logging:a={SECRET}ü", "rule 1: the secret is not printable ASCII text"),
        ("logging:a=env:PENSTOCK_NOT_THERE", "rule 1: the variable 'PENSTOCK_NOT_THERE' is not set"),
        ("logging:a=file:/nowhere/at/all", "rule 1: the file '/nowhere/at/all' cannot be read as text"),
    ],
)
def test_invalid_rules_are_rejected_without_printing_the_secret(text: str, problem: str) -> None:
    with pytest.raises(ConfigError) as raised:
        load(restricted_access=text)
    assert str(raised.value).startswith(f"restricted_access: {problem}")
    assert SECRET not in str(raised.value)


@pytest.mark.parametrize("value", [f"{SECRET}\n{SECRET}", f"ü{SECRET}", 7, ""])
def test_invalid_keys_are_rejected_without_printing_the_key(value: Any) -> None:
    with pytest.raises(ConfigError, match=r"^api_key: ") as raised:
        load(api_key=value)
    assert SECRET not in str(raised.value)


def test_invalid_key_on_the_command_line_is_not_printed(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["serve", "app.py", "--api-key", f"{SECRET}\x01"]) == 1
    assert main(["serve", "app.py", "--restricted-access", SECRET]) == 1
    printed = capsys.readouterr()
    assert SECRET not in printed.out + printed.err
    assert "restricted_access: rule 1" in printed.err


def test_configuration_repr_omits_secrets() -> None:
    config = load(api_key=SECRET, restricted_access=f"logging:admin={SECRET}")
    assert SECRET not in repr(config)
    assert SECRET not in repr(dataclasses.replace(config, io_threads=1))


@pytest.mark.parametrize("setting", ["http_header_forward_pattern", "grpc_header_forward_pattern"])
def test_invalid_header_pattern_is_rejected(setting: str) -> None:
    from models.same import same

    with pytest.raises(ConfigError, match=f"^{setting}: not a regular expression"):
        Server(same, http="127.0.0.1:0", grpc=None, **{setting: "("}).start()  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match=f"^{setting}: '' is not a regular expression, or off"):
        load(**{setting: ""})
