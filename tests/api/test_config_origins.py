"""Origins of settings: every field from every source, and the lines of a file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from itertools import chain, combinations
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from config_samples import samples
from penstock import ConfigError, ServerConfig
from penstock._config import settings
from penstock._config.access import FORM
from penstock._config.resolve import Resolved, Sources, resolve
from penstock._config.sources import Defaults, flag
from penstock._config.toml_file import MAX_BYTES, read_toml
from penstock.config import load_config

ORIGINS = ("integration toy", "file", "environment", "command line", "argument")
"""By rising precedence."""


def resolved(name: str, texts: dict[str, str], file: Path) -> tuple[Resolved[ServerConfig], dict[str, str]]:
    """A setting of several sources, and the origins that are expected."""
    environ, line = {}, len(name)
    if "environment" in texts:
        environ[f"PENSTOCK_{name.upper()}"] = texts["environment"]
    if "file" in texts:
        file.write_text("[server]" + "\n" * (line - 1) + f"{name} = '{texts['file']}'\n")
    expected = {
        "integration toy": "integration toy",
        "file": f"{file}:{line}",
        "environment": f"PENSTOCK_{name.upper()}",
        "command line": flag(name),
        "argument": f"argument serve({name}=)",
    }
    found = resolve(
        ServerConfig,
        Sources(
            arguments={name: texts["argument"]} if "argument" in texts else {},
            command_line={name: texts["command line"]} if "command line" in texts else {},
            environ=environ,
            file=str(file) if "file" in texts else None,
            defaults=[Defaults(origin, {name: text}) for origin, text in texts.items() if origin == "integration toy"],
            caller="serve",
        ),
    )
    return found, expected


@pytest.mark.parametrize("name", [entry.name for entry in fields(ServerConfig)])
def test_origin_and_shadowed_values_of_each_setting_in_all_combinations_of_sources(name: str, tmp_path: Path) -> None:
    kind = next(entry.metadata["kind"] for entry in fields(ServerConfig) if entry.name == name)
    texts = dict(zip(ORIGINS, samples(name, len(ORIGINS)), strict=True))
    for some in chain.from_iterable(combinations(ORIGINS, count) for count in range(len(ORIGINS) + 1)):
        found, expected = resolved(name, {origin: texts[origin] for origin in some}, tmp_path / "some.toml")
        read = [(settings.parse(kind, texts[origin]), expected[origin]) for origin in reversed(some)]
        assert [(one.value, one.origin) for one in found.given.get(name, ())] == read
        assert set(found.given) == ({name} if some else set())


def test_complete_configuration_is_an_origin() -> None:
    given = Sources(arguments={"grpc": "off"}, base=ServerConfig(io_threads=3), environ={"PENSTOCK_HTTP": "off"})
    found = resolve(ServerConfig, given).given
    assert [(one.value, one.origin) for one in found["io_threads"]] == [(3, "argument Server(config=)")]
    assert [one.origin for one in found["grpc"]] == ["argument Server(grpc=)", "argument Server(config=)"]
    assert [one.value for one in found["http"]] == ["127.0.0.1:8000"]


def test_variables_of_vertex_are_origins() -> None:
    variables = {"AIP_HTTP_PORT": "8080", "AIP_HEALTH_ROUTE": "/h", "AIP_PREDICT_ROUTE": "/p"}
    found = resolve(ServerConfig, Sources(environ={**variables, "PENSTOCK_VERTEX": "on"}))
    assert {name: given[0].origin for name, given in found.given.items()} == {
        "http": "AIP_HTTP_PORT",
        "vertex": "PENSTOCK_VERTEX",
        "vertex_health_route": "AIP_HEALTH_ROUTE",
        "vertex_predict_route": "AIP_PREDICT_ROUTE",
    }
    assert resolve(ServerConfig, Sources(environ=variables)).given == {}


def test_all_problems_are_found_with_their_places(tmp_path: Path) -> None:
    file = tmp_path / "some.toml"
    file.write_text(
        "workers = 3\n[server]\nidle_timeout = 'soon'\nhtpp = 'off'\nload_models = 'a'\npoll_interval = 0\n"
    )
    given = Sources(
        arguments={"port": 1, "docs": 3},
        command_line={"io_threads": "many", "load_files": "on"},
        environ={"PENSTOCK_HTTP": "h", "PENSTOCK_API_KEY": "env:NO_SUCH_VARIABLE", "PENSTOCK_GRPC": "same"},
        file=str(file),
        defaults=[Defaults("integration toy", {"http": "x", "htp": "1"})],
    )
    problems = resolve(ServerConfig, given).problems
    address = "is not HOST:PORT or PORT with a port from 0 to 65535, unix:/path, fd:N, or off"
    assert problems == [
        f"integration toy: http: 'x' {address}",
        "integration toy: unknown setting 'htp', did you mean 'http'?",
        f"{file}:1: unknown table or key 'workers', expected the tables [server] and [image]",
        f"{file}:3: idle_timeout: 'soon' is not a duration such as 500ms, 30s or 2m",
        f"{file}:4: unknown setting 'htpp' in [server], did you mean 'http'?",
        f"PENSTOCK_HTTP: 'h' {address}",
        "--io-threads: 'many' is not an integer of 0 or more",
        "unknown setting 'port'; write http=HOST:PORT, and grpc=HOST:PORT for gRPC",
        "docs: 3 is not true or false",
        "api_key: the variable 'NO_SUCH_VARIABLE' is not set (PENSTOCK_API_KEY)",
        f"load_models: has no meaning unless model_control is explicit ({file}:5)",
        "load_files: has no meaning unless model_control is explicit (--load-files)",
        f"poll_interval: 0.0 is not a duration above 0 seconds ({file}:6)",
    ]


def test_rules_about_wrong_values_are_not_checked() -> None:
    wrong = {"PENSTOCK_MODEL_CONTROL": "explicitly", "PENSTOCK_LOAD_MODELS": "a"}
    expected = "PENSTOCK_MODEL_CONTROL: 'explicitly' is not one of none, poll, explicit"
    assert resolve(ServerConfig, Sources(environ=wrong)).problems == [expected]
    with pytest.raises(ConfigError, match=f"^{expected}$"):
        load_config(environ=wrong)


def test_problems_of_secrets_do_not_show_them(tmp_path: Path) -> None:
    file = tmp_path / "some.toml"
    file.write_text("[server]\napi_key = 12345\nrestricted_access = 'inference=hidden'\n")
    key, rules = resolve(ServerConfig, Sources(environ={}, file=str(file))).problems
    assert key == f"{file}:2: api_key: expected text"
    assert rules == f"restricted_access: rule 1 is not as expected: {FORM} ({file}:3)"


def test_choices_of_a_file_may_be_numbers(tmp_path: Path) -> None:
    file = tmp_path / "some.toml"
    file.write_text("[server]\ntls_min_version = 1.3\n")
    assert load_config(environ={}, file=str(file)).tls_min_version == "1.3"
    assert ServerConfig(tls_min_version=1.2).tls_min_version == "1.2"  # type: ignore[arg-type]


VALUES = (
    "1",
    "'#'",
    '"[server]"',
    "[1, 2]",
    "[\n1,\n\n2, # ]\n]",
    '"""\nhttp = 1\n[server]\n"""',
    "'''\n]\n'''",
    "{ a = 1 }",
)
SPACES = st.lists(st.sampled_from(["", "# http = 1", "  ", "#[server]"]), max_size=3)
NAMES = st.lists(st.sampled_from(["http", "grpc", "docs", "live", "'a.b'"]), unique=True, max_size=4)


@st.composite
def documents(draw: st.DrawFn) -> tuple[str, dict[tuple[str, ...], int]]:
    """A TOML document, and the line of each key of its tables."""
    lines: list[str] = []
    found: dict[tuple[str, ...], int] = {}

    def add(statement: str, *path: str) -> None:
        lines.extend(draw(SPACES))
        found.setdefault(path, len(lines) + 1)
        lines.extend(statement.split("\n"))

    def add_keys(prefix: str, names: Sequence[str], *table: str) -> None:
        for name in names:
            add(f"{prefix}{name} = {draw(st.sampled_from(VALUES))}", *table, name.strip("'"))

    add_keys("", draw(NAMES))
    form = draw(st.sampled_from(["dotted", "inline", "header"]))
    names = draw(NAMES)
    if form == "dotted":
        if names:
            found[("server",)] = 0
        add_keys("server.", names, "server")
        found.pop(("server",), None)
    elif form == "inline":
        add(f"server = {{ {', '.join(f'{name} = 1' for name in names)} }}", "server")
        found.update({("server", name.strip("'")): found["server",] for name in names})
    else:
        add(draw(st.sampled_from(["[server]", '  [ "server" ] # comment'])), "server")
        add_keys(draw(st.sampled_from(["", "  "])), names, "server")
    add("[image]", "image")
    add_keys("", draw(NAMES), "image")
    return draw(st.sampled_from(["\n", "\r\n"])).join(lines), found


@given(documents())
def test_lines_of_keys_are_those_of_their_statements(
    tmp_path_factory: pytest.TempPathFactory, document: tuple[str, dict[tuple[str, ...], int]]
) -> None:
    text, expected = document
    path = tmp_path_factory.getbasetemp() / "document.toml"
    path.write_bytes(text.encode())
    file = read_toml(str(path))
    assert {keys: line for keys, line in file.lines.items() if keys in expected} == expected
    for keys, line in expected.items():
        assert file.place(*keys) == f"{path}:{line}"
    assert file.place("none") == str(path)


def test_large_files_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "some.toml"
    file.write_bytes(b"#" * (MAX_BYTES + 1))
    with pytest.raises(ConfigError, match=r"some\.toml: larger than 1 MiB$"):
        load_config(environ={}, file=str(file))


def test_bytes_that_are_not_text_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "some.toml"
    file.write_bytes(b"[server]\nserver_name = '\xff'\n")
    with pytest.raises(ConfigError, match=r"some\.toml: not valid TOML: .* can't decode byte 0xff"):
        load_config(environ={}, file=str(file))


def test_long_lists_are_read_in_a_moment(tmp_path: Path) -> None:
    file = tmp_path / "some.toml"
    entries: Any = "\n".join(f"'m{number}'," for number in range(20_000))
    file.write_text(f"[server]\nload_models = [\n{entries}\n]\nmodel_control = 'explicit'\n")
    found = resolve(ServerConfig, Sources(environ={}, file=str(file)))
    assert found.given["model_control"][0].origin == f"{file}:20004"
