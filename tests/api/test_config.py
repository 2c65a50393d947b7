"""Settings: precedence of sources, parsing of text, and error messages."""

from __future__ import annotations

import dataclasses
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from penstock import ConfigError, Server, ServerConfig
from penstock._config.access_log import FIELDS
from penstock.config import load_config

LISTENER = (
    "http=ADDRESS, grpc=ADDRESS or metrics=ADDRESS, where ADDRESS is HOST:PORT or PORT with a port from 0 to 65535, "
    "unix:/path, or fd:N"
)


@pytest.fixture(autouse=True)
def _empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def load(arguments: dict[str, Any] | None = None, **sources: Any) -> ServerConfig:
    return load_config(arguments, **{"environ": {}, **sources})


@pytest.mark.trap("T70")
def test_defaults() -> None:
    assert dataclasses.asdict(load()) == {
        "http": "127.0.0.1:8000",
        "grpc": "127.0.0.1:8001",
        "io_threads": 0,
        "max_body_bytes": 64 * 2**20,
        "max_header_bytes": 64 * 2**10,
        "max_headers": 100,
        "header_timeout": 10.0,
        "idle_timeout": 75.0,
        "body_timeout": 30.0,
        "min_body_rate": 240,
        "write_timeout": 30.0,
        "listeners": (),
        "tls_certificate": (),
        "tls_key": (),
        "tls_client": "off",
        "tls_client_ca": None,
        "tls_client_crl": None,
        "tls_min_version": "1.2",
        "tls_reload": 5.0,
        "tls_handshake_timeout": 10.0,
        "allowed_hosts": (),
        "cors_origins": (),
        "hsts": 0.0,
        "trusted_proxies": (),
        "max_connections": 16384,
        "max_connections_per_address": 0,
        "max_connection_age": 0.0,
        "max_connection_age_grace": 30.0,
        "http2_keepalive": 0.0,
        "http2_keepalive_timeout": 20.0,
        "max_inflight_bytes": None,
        "memory_shed": 0.95,
        "drain_delay": 0.0,
        "max_inflate_ratio": 100,
        "max_json_depth": 64,
        "request_timeout": 0.0,
        "flush_interval": 0.0,
        "stream_keepalive": 0.0,
        "stream_resume": 0.0,
        "drain_timeout": 30.0,
        "upgrade_timeout": 600.0,
        "stall_timeout": 0.0,
        "core_dumps": "inherit",
        "dialect": "penstock",
        "timing_headers": False,
        "strict_json": False,
        "compress_answers": False,
        "docs": True,
        "live": "local",
        "batching_debug": "off",
        "access_log": "off",
        "access_log_fields": (),
        "access_log_sample": 1.0,
        "slow_request": 0.0,
        "audit_log": None,
        "log_level": "warning",
        "otlp_endpoint": "auto",
        "otlp_headers": None,
        "otlp_ca": None,
        "otlp_certificate": None,
        "otlp_key": None,
        "otlp_gen_ai": False,
        "trace_sampler": "auto",
        "server_name": None,
        "server_version": None,
        "shared_memory": "off",
        "grpc_reflection": True,
        "grpc_compression": "off",
        "http_header_forward_pattern": None,
        "grpc_header_forward_pattern": None,
        "restricted_access": None,
        "admin": None,
        "admin_only": ("model-repository", "logging", "trace", "statistics", "metrics", "debug"),
        "admin_open": False,
        "keys_file": None,
        "api_key": None,
        "cache_redis": None,
        "cloud_events": False,
        "cloud_events_merge": False,
        "cloud_events_source": None,
        "cloud_events_type": None,
        "sagemaker": False,
        "vertex": False,
        "vertex_health_route": None,
        "vertex_predict_route": None,
        "hosted_model": None,
        "pid_file": None,
        "attach": None,
        "repository": (),
        "model_control": "none",
        "load_models": (),
        "load_files": False,
        "poll_interval": 15.0,
        "resources": (),
        "version_policy": "latest:1",
    }


def test_sources_override_each_other_in_order(tmp_path: Path) -> None:
    names = ["server_name", "max_headers", "io_threads", "max_json_depth"]
    (tmp_path / "penstock.toml").write_text(
        '[server]\nserver_name = "file"\nmax_headers = 1\nio_threads = 1\nmax_json_depth = 1\n'
    )
    environ = {"PENSTOCK_MAX_HEADERS": "2", "PENSTOCK_IO_THREADS": "2", "PENSTOCK_MAX_JSON_DEPTH": "2"}
    command_line = {"io_threads": "3", "max_json_depth": "3"}
    config = load({"max_json_depth": 4}, environ=environ, command_line=command_line)
    assert [getattr(config, name) for name in names] == ["file", 2, 3, 4]


def test_base_config_overrides_the_environment() -> None:
    base = ServerConfig(io_threads=1, max_headers=1)
    config = load({"max_headers": 2}, base=base, environ={"PENSTOCK_IO_THREADS": "9"})
    assert (config.io_threads, config.max_headers) == (1, 2)


def test_process_environment_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PENSTOCK_IO_THREADS", "5")
    assert load_config().io_threads == 5


def test_foreign_variables_with_the_prefix_are_ignored() -> None:
    environ = {"PENSTOCK_PORT": "tcp://10.0.0.1:8000", "PENSTOCK_SERVICE_HOST": "10.0.0.1"}
    assert load(environ=environ) == ServerConfig()


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("http", "off", None),
        ("http", "9000", "127.0.0.1:9000"),
        ("http", ":9000", "127.0.0.1:9000"),
        ("grpc", ":0", "127.0.0.1:0"),
        ("listeners", "http=9000,metrics=:9001", ("http=127.0.0.1:9000", "metrics=127.0.0.1:9001")),
        ("http", "unix:/tmp/a", "unix:/tmp/a"),
        ("http", "[::1]:0", "[::1]:0"),
        ("grpc", "localhost:9", "localhost:9"),
        (
            "listeners",
            "http=127.0.0.1:1, metrics=unix:/tmp/a,grpc=[::1]:0",
            ("http=127.0.0.1:1", "metrics=unix:/tmp/a", "grpc=[::1]:0"),
        ),
        ("listeners", "", ()),
        ("server_version", "off", None),
        ("max_body_bytes", "1024", 1024),
        ("max_body_bytes", "1.5KiB", 1536),
        ("max_body_bytes", "2 mb", 2_000_000),
        ("idle_timeout", "500ms", 0.5),
        ("idle_timeout", "2m", 120.0),
        ("idle_timeout", "0", 0.0),
        ("timing_headers", "yes", True),
        ("timing_headers", "0", False),
        ("dialect", "triton", "triton"),
        ("dialect", "kserve", "kserve"),
        ("server_name", "off", None),
        ("access_log", "json", "json"),
    ],
)
def test_text_is_parsed_to_a_typed_value(name: str, text: str, value: Any) -> None:
    for sources in ({"environ": {f"PENSTOCK_{name.upper()}": text}}, {"command_line": {name: text}}):
        parsed = getattr(load(**sources), name)
        assert (parsed, type(parsed)) == (value, type(value))


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("http", "h", "'h' is not HOST:PORT or PORT with a port from 0 to 65535, unix:/path, fd:N, or off"),
        ("http", "65536", "'127.0.0.1:65536' is not HOST:PORT or PORT"),
        ("http", "h:65536", "'h:65536' is not HOST:PORT"),
        ("http", "::1:8000", "'::1:8000' is not HOST:PORT"),
        ("grpc", "unix:", "'unix:' is not HOST:PORT"),
        ("listeners", "http=127.0.0.1:1,8000", f"'8000' is not {LISTENER}"),
        ("listeners", "http=h", f"'http=h' is not {LISTENER}"),
        ("listeners", "metrics=off", f"'metrics=off' is not {LISTENER}"),
        ("listeners", "admin=127.0.0.1:9", f"'admin=127.0.0.1:9' is not {LISTENER}"),
        ("listeners", "grpc=same", f"'grpc=same' is not {LISTENER}"),
        ("listeners", "metrics=unix:", f"'metrics=unix:' is not {LISTENER}"),
        ("max_body_bytes", "64XB", "'64XB' is not a size of 1 byte or more, such as 64MiB"),
        ("max_body_bytes", "0", "0 is not a size of 1 byte or more, such as 64MiB"),
        ("max_body_bytes", "9999999999GiB", "is not a size of 1 byte or more"),
        ("idle_timeout", "soon", "'soon' is not a duration such as 500ms, 30s or 2m"),
        ("idle_timeout", "-1", "'-1' is not a duration such as 500ms, 30s or 2m"),
        ("idle_timeout", "1000000h", "is not a duration of 0 seconds to 366 days"),
        ("max_headers", "-1", "'-1' is not an integer of 0 or more"),
        ("max_headers", "0", "0 is not an integer of 1 or more"),
        ("io_threads", "5000", "5000 is not an integer from 0 to 4096"),
        ("timing_headers", "maybe", "'maybe' is not true or false"),
        ("dialect", "mlserver", "'mlserver' is not one of penstock, triton, kserve"),
        ("dialect", "Triton", "'Triton' is not one of penstock, triton, kserve"),
        ("access_log", "xml", "'xml' is not one of off, text, json"),
        ("access_log_sample", "2", "2.0 is not a share from 0 to 1"),
        ("server_name", "", "'' is not printable text"),
    ],
)
def test_invalid_text_is_rejected_with_its_source(name: str, text: str, expected: str) -> None:
    variable = f"PENSTOCK_{name.upper()}"
    with pytest.raises(ConfigError, match=f"^{variable}: .*{re.escape(expected)}"):
        load(environ={variable: text})
    flag = "--" + name.replace("_", "-")
    with pytest.raises(ConfigError, match=f"^{flag}: .*{re.escape(expected)}"):
        load(command_line={name: text})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("http", 80.5),
        ("http", True),
        ("io_threads", 1.5),
        ("max_headers", True),
        ("idle_timeout", float("nan")),
        ("timing_headers", 1),
        ("dialect", "mlserver"),
        ("dialect", None),
        ("access_log", None),
        ("server_name", "a\nb"),
    ],
)
def test_invalid_values_are_rejected_by_name(name: str, value: Any) -> None:
    with pytest.raises(ConfigError, match=f"^{name}: {re.escape(repr(value))} is not "):
        ServerConfig(**{name: value})


@pytest.mark.parametrize(
    ("name", "value", "read"),
    [
        ("grpc", "off", None),
        ("grpc", "None", None),
        ("http", 9000, "127.0.0.1:9000"),
        ("http", ":9000", "127.0.0.1:9000"),
        ("idle_timeout", "30s", 30.0),
        ("max_body_bytes", "1MiB", 2**20),
        ("docs", "off", False),
        ("max_headers", "7", 7),
        ("server_name", "off", None),
        ("api_key", "off", None),
        ("api_key", " OFF ", None),
        ("cache_redis", "off", None),
        ("restricted_access", "off", None),
        ("listeners", "http=a:1,metrics=9", ("http=a:1", "metrics=127.0.0.1:9")),
        ("allowed_hosts", "a,b", ("a", "b")),
        ("repository", "a:b", ("a:b",)),
    ],
)
def test_arguments_are_read_as_the_file_and_the_environment(name: str, value: Any, read: Any, tmp_path: Path) -> None:
    assert getattr(ServerConfig(**{name: value}), name) == read
    assert getattr(load({name: value}, base=ServerConfig()), name) == read
    if name != "repository":
        (tmp_path / "penstock.toml").write_text(f"[server]\n{name} = {value!r}\n")
        assert getattr(load(), name) == read


@pytest.mark.parametrize("text", ["off", "NONE", "false", "0"])
def test_a_switch_is_never_a_secret(text: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("KEY", text)
    (tmp_path / "key").write_text(f"{text}\n")
    for key in ("env:KEY", f"file:{tmp_path}/key"):
        with pytest.raises(ConfigError, match=r"^api_key: the secret is one of off, none, .* to have none, set off$"):
            ServerConfig(api_key=key)
    with pytest.raises(ConfigError, match=r"^restricted_access: rule 1: the secret is one of off"):
        ServerConfig(restricted_access=f"inference:x-key={text}")
    assert ServerConfig(api_key="official").access_key == "official"


def test_misspelled_variables_are_reported(caplog: pytest.LogCaptureFixture) -> None:
    foreign = {"PENSTOCK_PORT": "1", "PENSTOCK_HTTP_PORT": "1", "PENSTOCK_SERVICE_HOST": "a", "PENSTOCK_CONFIG": ""}
    load(environ={**foreign, "PENSTOCK_IDLE_TIMOUT": "3s"})
    assert caplog.messages == [
        "penstock: PENSTOCK_IDLE_TIMOUT is not a setting and is ignored, did you mean PENSTOCK_IDLE_TIMEOUT?"
    ]


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("port", "; write http=HOST:PORT, and grpc=HOST:PORT for gRPC"),
        ("workers", "; write instances=N in the model's @model(...)"),
        ("max_batch_size", "; write batching=Batching(max_size=N)"),
    ],
)
def test_settings_of_other_servers_are_answered(name: str, hint: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=f"^unknown setting '{name}'{re.escape(hint)}"):
        load({name: 1})
    (tmp_path / "penstock.toml").write_text(f"[server]\n{name} = 1\n")
    with pytest.raises(ConfigError, match=re.escape(f"unknown setting '{name}' in [server]{hint}")):
        load()


def test_setting_outside_of_its_table_is_answered(tmp_path: Path) -> None:
    (tmp_path / "penstock.toml").write_text("http = 'off'\n")
    with pytest.raises(ConfigError, match=r"unknown table or key 'http'.*; write http below a line \[server\]$"):
        load()


def test_durations_are_converted_to_float() -> None:
    assert type(ServerConfig(idle_timeout=3).idle_timeout) is float


def test_unknown_setting_is_rejected_with_a_suggestion() -> None:
    with pytest.raises(ConfigError, match=r"^unknown setting 'io_thread', did you mean 'io_threads'\?$"):
        load({"io_thread": 1})


def test_server_without_listeners_is_rejected() -> None:
    def f(x: int) -> None: ...

    with pytest.raises(ConfigError, match=r"^http and grpc are both off: nothing would listen$"):
        Server(f, http=None, grpc=None)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[server", "penstock.toml: not valid TOML: "),
        (
            "[sever]\n",
            "penstock.toml:1: unknown table or key 'sever', expected the tables [server] and [image], "
            "did you mean 'server'?",
        ),
        ("server = 3\n", "penstock.toml:1: server must be a table, written as [server]"),
        ("[server]\nhtpp = 'off'\n", "penstock.toml:2: unknown setting 'htpp' in [server], did you mean 'http'?"),
        ("[server]\nidle_timeout = 'x'\n", "penstock.toml:2: idle_timeout: 'x' is not a duration"),
        ("[server]\nio_threads = true\n", "penstock.toml:2: io_threads: True is not an integer"),
    ],
)
def test_invalid_config_file_is_rejected(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "penstock.toml").write_text(text)
    with pytest.raises(ConfigError, match=f"^{re.escape(message)}"):
        load()


def test_named_config_file_must_exist(tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_text("[server]\nhttp = 'off'\nidle_timeout = '2m'\nmax_body_bytes = '1MiB'\n")
    for sources in ({"file": "a.toml"}, {"environ": {"PENSTOCK_CONFIG": "a.toml"}}):
        config = load(**sources)
        assert (config.http, config.idle_timeout, config.max_body_bytes) == (None, 120.0, 2**20)
    with pytest.raises(ConfigError, match=r"^b\.toml: cannot be read: No such file or directory$"):
        load(file="b.toml")


def test_config_file_is_read_by_tomli_without_tomllib(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reader = pytest.importorskip("tomllib" if sys.version_info >= (3, 11) else "tomli")
    monkeypatch.setitem(sys.modules, "tomllib", None)
    monkeypatch.setitem(sys.modules, "tomli", reader)
    (tmp_path / "penstock.toml").write_text('[server]\nhttp = "off"\n')
    assert load().http is None
    (tmp_path / "penstock.toml").write_text("[server\n")
    with pytest.raises(ConfigError, match=r"^penstock\.toml: not valid TOML: "):
        load()


def test_lists_are_accepted_in_several_forms(tmp_path: Path) -> None:
    assert load({"repository": "one"}).repository == ("one",)
    assert load({"repository": tmp_path}).repository == (str(tmp_path),)
    assert load({"repository": [tmp_path, "two"]}).repository == (str(tmp_path), "two")
    assert load(environ={"PENSTOCK_REPOSITORY": "one:two"}).repository == ("one", "two")
    explicit = {"model_control": "explicit"}
    assert load(explicit, command_line={"load_models": "a, b"}).load_models == ("a", "b")
    for wrong in (3, [3], [""], b"x"):
        with pytest.raises(ConfigError, match=r"repository: .* is not a list of folders"):
            load({"repository": wrong})


def test_lists_are_read_from_the_config_file(tmp_path: Path) -> None:
    (tmp_path / "penstock.toml").write_text('[server]\nrepository = ["a", "b"]\nversion_policy = "all"\n')
    assert load().repository == ("a", "b")


def test_listeners_in_the_file(tmp_path: Path) -> None:
    file = tmp_path / "penstock.toml"
    file.write_text('[server]\nlisteners = ["http=0.0.0.0:8080", "metrics=127.0.0.1:9000"]\n')
    assert load().listeners == ("http=0.0.0.0:8080", "metrics=127.0.0.1:9000")
    file.write_text('[server]\nlisteners = ["http=0.0.0.0:8080", "9000"]\n')
    with pytest.raises(ConfigError, match=f"^penstock.toml:2: listeners: '9000' is not {LISTENER}$"):
        load()


@pytest.mark.parametrize("wrong", [8000, [8000], [""], b"http=a:1", {"http": "a:1"}])
def test_other_values_are_not_listeners(wrong: Any) -> None:
    with pytest.raises(ConfigError, match=r"^listeners: .* is not a list of listeners$"):
        load({"listeners": wrong})


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"http": None, "listeners": "http=a:1"}, "'http=a:1' needs http, which is off"),
        ({"grpc": None, "listeners": "grpc=a:1"}, "'grpc=a:1' needs grpc, which is off"),
        ({"http": "a:1", "listeners": "http=a:1"}, "'http=a:1' has the address of another listener"),
        ({"http": "a:1", "listeners": "metrics=a:1"}, "'metrics=a:1' has the address of another listener"),
        ({"http": "a:1", "grpc": "same", "listeners": "grpc=a:1"}, "'grpc=a:1' has the address of another listener"),
        ({"listeners": ["metrics=a:1", "grpc=a:1"]}, "'grpc=a:1' has the address of another listener"),
    ],
)
def test_listeners_that_conflict_are_refused(options: dict[str, Any], problem: str) -> None:
    with pytest.raises(ConfigError, match=f"^listeners: {problem}$"):
        load(options)


@pytest.mark.parametrize(
    "options",
    [
        {"http": "a:1", "listeners": "grpc=a:1"},
        {"listeners": ["http=a:1", "grpc=a:1"]},
        {"http": "a:0", "listeners": ["http=a:0", "metrics=a:0", "metrics=a:0"]},
        {"http": None, "listeners": "metrics=a:1"},
    ],
)
def test_listeners_that_do_not_conflict(options: dict[str, Any]) -> None:
    assert load(options).listeners


def test_fields_of_the_access_log_are_checked() -> None:
    assert load({"access_log_fields": "time, route,tls"}).access_log_fields == ("time", "route", "tls")
    known = ", ".join(FIELDS)
    for wrong, problem in [
        ({"access_log_fields": "time,adress"}, f"'adress' is not a field, expected any of {known}"),
        ({"access_log_fields": "tls,tls"}, "'tls' is there twice"),
        ({"access_log_fields": "tls", "access_log": "short"}, "has no meaning with access_log = short"),
    ]:
        with pytest.raises(ConfigError, match=f"^access_log_fields: {re.escape(problem)}"):
            load(wrong)


def test_short_stall_timeout_is_rejected() -> None:
    assert [load({"stall_timeout": value}).stall_timeout for value in (0, 1, "120s")] == [0, 1, 120]
    with pytest.raises(ConfigError, match=r"^stall_timeout: got 0\.5, expected 0 or at least 1 second$"):
        load({"stall_timeout": 0.5})


def test_inconsistent_repository_settings_are_rejected() -> None:
    with pytest.raises(ConfigError, match="load_models: has no meaning unless model_control is explicit"):
        load({"load_models": "a"})
    with pytest.raises(ConfigError, match="load_files: has no meaning unless model_control is explicit"):
        load({"load_files": True})
    with pytest.raises(ConfigError, match=r"poll_interval: 0\.0 is not a duration above 0 seconds"):
        load({"poll_interval": 0})
    for wrong in ("latest:0", "newest", "specific:", "all:1"):
        with pytest.raises(ConfigError, match=r"version_policy: .* is not latest:N, all, or specific:V,V"):
            load({"version_policy": wrong})
    with pytest.raises(ConfigError, match="model_control: 'always' is not one of none, poll, explicit"):
        load({"model_control": "always"})
