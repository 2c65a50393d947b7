"""Arguments and flags of `ModelServer`, valid and refused."""

from __future__ import annotations

import argparse
import subprocess
import sys
from typing import Any

import pytest
from kserve_live import Script

from penstock.compat.kserve import ModelRepository, ModelServer, PredictorConfig, context, model_server
from penstock.compat.kserve._server.settings import server_config

LIMITS = (8 << 20, 8 << 20)


@pytest.fixture(autouse=True)
def no_flags(monkeypatch: pytest.MonkeyPatch) -> None:
    command_line(monkeypatch)


def command_line(monkeypatch: pytest.MonkeyPatch, *flags: str) -> None:
    monkeypatch.setattr(sys, "argv", ["script.py", *flags])


DEFAULTS = {
    "http_port": 8080,
    "grpc_port": 8081,
    "workers": 1,
    "max_threads": 4,
    "max_asyncio_workers": None,
    "enable_grpc": True,
    "enable_docs_url": False,
    "enable_latency_logging": True,
    "access_log_format": None,
    "event_loop": "auto",
    "timeout_keep_alive": 65,
    "grace_period": 30,
    "ssl_certfile": None,
    "ssl_keyfile": None,
}


def test_s01_defaults_equal_kserve() -> None:
    server = ModelServer()
    assert {name: getattr(server, name) for name in DEFAULTS} == DEFAULTS
    assert isinstance(server.registered_models, ModelRepository)
    assert server.dataplane.model_registry is server.registered_models
    assert server.model_repository_extension is not None
    assert server.servers == []


def test_s01_every_argument_is_an_attribute() -> None:
    arguments: dict[str, Any] = {
        **{"http_port": 1, "grpc_port": 2, "workers": 3, "max_threads": 5, "max_asyncio_workers": 6},
        **{
            "enable_grpc": False,
            "enable_docs_url": True,
            "enable_latency_logging": False,
            "access_log_format": "%(t)s",
        },
        **{"event_loop": "asyncio", "timeout_keep_alive": 7, "grace_period": 8, "threads": 9, "host": "127.0.0.1"},
    }
    repository, predictor = ModelRepository("/here"), PredictorConfig("host")
    server = ModelServer(registered_models=repository, predictor_config=predictor, **arguments)
    assert {name: getattr(server, name) for name in arguments} == arguments
    assert server.registered_models is repository
    assert context.get_predictor_config() is predictor


def test_s01_arguments_may_be_positional() -> None:
    repository = ModelRepository()
    server = ModelServer(1, 2, 3, 4, 5, repository, False, True, False, "%(h)s")
    values = [server.http_port, server.grpc_port, server.workers, server.max_threads, server.max_asyncio_workers]
    assert values == [1, 2, 3, 4, 5]
    assert server.registered_models is repository
    assert (server.enable_grpc, server.enable_docs_url, server.enable_latency_logging) == (False, True, False)


def test_s01_command_line_sets_defaults(monkeypatch: pytest.MonkeyPatch) -> None:
    command_line(monkeypatch, "--http_port", "9000", "--workers=2", "--enable_docs_url", "yes", "--own", "x")
    server = ModelServer(workers=4)
    assert (server.http_port, server.workers, server.enable_docs_url) == (9000, 4, True)


def test_s01_command_line_sets_the_predictor(monkeypatch: pytest.MonkeyPatch) -> None:
    flags = ["--predictor_host=p:80", "--predictor_protocol=v2", "--predictor_use_ssl=1"]
    more = ["--predictor_request_timeout_seconds=5", "--predictor_request_retries=2", "--enable_predictor_health_check"]
    command_line(monkeypatch, *flags, *more)
    ModelServer()
    config = context.get_predictor_config()
    assert config is not None
    assert (config.predictor_host, config.protocol, config.use_ssl) == ("p:80", "v2", True)
    assert (config.timeout, config.retries, config.predictor_health_check) == (5, 2, True)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"http_port": -1}, "http_port must be a port from 0, which picks a free one, to 65535, not -1"),
        ({"grpc_port": 65536}, "grpc_port must be a port from 0, which picks a free one, to 65535, not 65536"),
        ({"http_port": "8080"}, "http_port must be a port from 0, which picks a free one, to 65535, not '8080'"),
        ({"workers": 0}, "workers must be an integer of 1 or more, not 0"),
        ({"threads": True}, "threads must be an integer of 1 or more, not True"),
        ({"max_asyncio_workers": 0}, "max_asyncio_workers must be an integer of 1 or more, or None, not 0"),
        ({"ssl_certfile": "a", "ssl_keyfile": "b"}, "ssl_certfile, ssl_keyfile: TLS is not supported"),
        ({"ssl_keyfile": "b"}, "ssl_certfile, ssl_keyfile: TLS is not supported"),
    ],
)
def test_s01_invalid_arguments_are_rejected(arguments: dict[str, Any], text: str) -> None:
    with pytest.raises(ValueError, match="^" + text):
        ModelServer(**arguments)


def test_s01_tls_environment_variables_are_rejected() -> None:
    code = "from penstock.compat.kserve import ModelServer; ModelServer()"
    with Script(code, KSERVE_TLS_CERT_FILE="/cert", KSERVE_TLS_KEY_FILE="/key") as script:
        assert script.status() == 1
    assert "leave these and KSERVE_TLS_CERT_FILE and KSERVE_TLS_KEY_FILE unset" in script.text


def test_s01_unknown_event_loops_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    assert ModelServer(event_loop="trio").event_loop == "auto"
    assert "event_loop: 'trio' is not one of auto, asyncio, uvloop; auto is used" in caplog.text


def test_s01_arguments_map_to_server_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP", "GRPC", "DOCS", "IDLE_TIMEOUT", "MAX_BODY_BYTES"):
        monkeypatch.delenv(f"PENSTOCK_{name}", raising=False)
    config = server_config(ModelServer(timeout_keep_alive=7, grace_period=9, enable_docs_url=True), LIMITS)
    assert (config.http, config.idle_timeout, config.drain_timeout, config.docs) == ("0.0.0.0:8080", 7, 9, True)
    assert config.grpc in ("[::]:8081", "0.0.0.0:8081")
    assert (config.dialect, config.server_name) == ("kserve", None)
    assert (config.max_body_bytes, config.access_log) == (1 << 30, "off")
    assert config.strict_json
    config = server_config(ModelServer(enable_grpc=False, access_log_format="%(h)s", host="::1"), (8 << 20, 2 << 30))
    assert (config.http, config.grpc, config.docs, config.access_log) == ("[::1]:8080", None, False, "text")
    assert config.max_body_bytes == 2 << 30


def test_s01_environment_settings_override_the_integration(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PENSTOCK_MAX_BODY_BYTES", "1MiB")
    monkeypatch.setenv("PENSTOCK_SERVER_NAME", "mine")
    monkeypatch.setenv("PENSTOCK_ACCESS_LOG", "json")
    config = server_config(ModelServer(access_log_format="x"), LIMITS)
    assert (config.max_body_bytes, config.server_name, config.access_log) == (1 << 20, "mine", "json")
    assert config.dialect == "kserve"


FLAGS = {
    "--http_port": ("9", 9),
    "--grpc_port": ("9", 9),
    "--workers": ("2", 2),
    "--max_threads": ("2", 2),
    "--max_asyncio_workers": ("2", 2),
    "--enable_grpc": ("off", 0),
    "--enable_docs_url": ("t", 1),
    "--enable_latency_logging": ("n", 0),
    "--configure_logging": ("0", 0),
    "--log_config_file": ("a.json", "a.json"),
    "--access_log_format": ("x", "x"),
    "--model_name": ("n", "n"),
    "--predictor_host": ("h", "h"),
    "--protocol": ("v2", "v2"),
    "--predictor_protocol": ("grpc-v2", "grpc-v2"),
    "--predictor_use_ssl": ("true", 1),
    "--predictor_request_timeout_seconds": ("1", 1),
    "--grpc_max_send_message_length": ("1", 1),
    "--grpc_max_receive_message_length": ("1", 1),
    "--predictor_request_retries": ("1", 1),
    "--enable_predictor_health_check": (None, True),
    "--event-loop": ("uvloop", "uvloop"),
    "--timeout-keep-alive": ("1", 1),
    "--ssl_certfile": ("c", "c"),
    "--ssl_keyfile": ("k", "k"),
    "--penstock_host": ("127.0.0.1", "127.0.0.1"),
    "--penstock_threads": ("3", 3),
    "--penstock_max_batch_size": ("3", 3),
    "--penstock_max_batch_latency": ("1.5", 1.5),
    "--penstock_require_ready": ("y", 1),
}


def test_r1_parser_defines_all_flags() -> None:
    known = {flag for action in model_server.parser._actions for flag in action.option_strings}
    assert known == FLAGS.keys()
    assert model_server.parser is model_server.parser


@pytest.mark.parametrize("flag", FLAGS)
def test_r1_each_flag_is_parsed(flag: str) -> None:
    text, value = FLAGS[flag]
    args = model_server.parser.parse_args([flag] if text is None else [flag, text])
    assert getattr(args, flag.removeprefix("--").replace("-", "_")) == value


def test_r1_parser_can_be_a_parent_parser() -> None:
    parser = argparse.ArgumentParser(parents=[model_server.parser])
    for flag in ("--threads", "--max_batch_size", "--host", "--model_dir"):
        parser.add_argument(flag)
    args, _ = parser.parse_known_args(["--model_dir", "d", "--model_name", "n", "--other"])
    assert (args.model_dir, args.model_name, args.http_port) == ("d", "n", 8080)


def test_r1_args_are_parsed_on_first_use(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(vars(model_server), "args", raising=False)
    command_line(monkeypatch, "--model_name", "mine", "--unknown")
    assert model_server.args.model_name == "mine"
    monkeypatch.delitem(vars(model_server), "args")


def test_r1_import_does_not_parse_the_command_line() -> None:
    """A host program may define flags with the same prefix or name."""
    code = "import penstock.compat.kserve.model_server as m; from penstock.compat.kserve import *; print('imported')"
    process = subprocess.run(
        [sys.executable, "-c", code, "--co", "--workers", "auto"], capture_output=True, text=True, check=False
    )
    assert (process.returncode, process.stdout) == (0, "imported\n"), process.stderr


def test_r1_flags_are_not_abbreviated(monkeypatch: pytest.MonkeyPatch) -> None:
    command_line(monkeypatch, "--co", "--http", "9", "--work", "7")
    server = ModelServer()
    assert (server.http_port, server.workers) == (8080, 1)


def test_r1_invalid_flag_values_raise_instead_of_exiting(monkeypatch: pytest.MonkeyPatch) -> None:
    command_line(monkeypatch, "--workers", "auto")
    with pytest.raises(
        ValueError, match=r"^the command line of the model server: argument --workers: invalid int value"
    ):
        ModelServer()
    command_line(monkeypatch, "--enable_grpc", "maybe")
    with pytest.raises(ValueError, match="argument --enable_grpc: invalid strtobool value: 'maybe'"):
        ModelServer()


def test_s03_exception_handler_is_retained() -> None:
    server = ModelServer()

    def handler(loop: Any, context: dict[str, Any]) -> None: ...

    server.register_exception_handler(handler)
    assert server._custom_exception_handler is handler
    server.register_exception_handler(None)
    assert server._custom_exception_handler is None


def test_configure_logging_can_be_disabled(monkeypatch: pytest.MonkeyPatch) -> None:
    from penstock.compat.kserve import logging

    configured: list[Any] = []
    monkeypatch.setattr(logging, "configure_logging", configured.append)
    monkeypatch.setattr(logging.logger, "handlers", [])
    command_line(monkeypatch, "--configure_logging", "false")
    ModelServer()
    assert configured == []
    command_line(monkeypatch, "--log_config_file", "here.json")
    ModelServer()
    assert configured == ["here.json"]
