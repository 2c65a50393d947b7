"""JSON Schema of `penstock.toml`: it accepts what the server accepts, and refuses what it refuses."""

from __future__ import annotations

import json
import re
import sys
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft7Validator

from penstock import ServerConfig
from penstock._cli.main import main
from penstock._config import schema, settings
from penstock._config.resolve import Sources, resolve
from penstock._images import describe
from penstock._spec.image import ImageSpec

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).resolve().parents[2]
FENCE = re.compile(r"^```toml\n(.*?)^```", re.DOTALL | re.MULTILINE)
DOCUMENT = schema.document(ServerConfig, describe.schema())
VALIDATOR = Draft7Validator(DOCUMENT)

ADDRESSES = (
    "9000",
    ":9000",
    "127.0.0.1:0",
    "localhost:65535",
    "[::1]:9",
    "unix:/tmp/a b",
    "plain:127.0.0.1:9",
    " off ",
)
VALUES: dict[str, tuple[tuple[Any, ...], tuple[Any, ...]]] = {
    "address": ((*ADDRESSES, "None", 0, 9000), ("", "h", "a b:1", 65536, -1, 1.5, True, ["9000"], "h:123456")),
    "address|same": ((*ADDRESSES, "same", 9000), ("", "h", "sam", True, {})),
    "listeners": (
        ("", "http=9000", "http=a:1, metrics=unix:/tmp/a", ["grpc=:9000", "http=plain:a:1"], []),
        ("9000", "http", ["9000"], ["https=a:1"], [1], 3, {"http": "a:1"}),
    ),
    "files": (("", "a.pem", "a.pem, b.pem", ["a.pem"], []), (1, [1], [""], {}, True)),
    "names": (("", "a", "a,b", ["a"], []), (1, [1], [""], {}, True)),
    "folders": (("a", "a:b", ["a b"], []), (1, [1], [""], {}, True)),
    "origins": (
        ("", "*", "https://a.test, http://b:8080", ["HTTPS://[::1]:1"]),
        ("a.test", ["https://a/b"], ["null"], 1),
    ),
    "networks": (("", "unix, 10.0.0.0/8", ["::1", "fd00::/8"]), ("a.test", ["10.0.0.0/"], 1)),
    "hosts": (("", "*", "a.test, b-c", ["[::1]", "*"]), ("a b", ["a:1"], ["a."], 1)),
    "amounts": (("", "gpu0=1, disk = 2", {"gpu0": 1}, {}), ("gpu0", "=1", {"a": 0}, {"a": "1"}, {"a": 2**31}, [], 1)),
    "policy": (("latest", "latest:3", "all", "specific:1", "specific: 1, b"), ("latest:0", "newest", "specific:", 1)),
    "count": ((0, 4096, "7", " 7 "), (-1, 4097, 1.5, "-1", "many", True, [])),
    "positive": ((1, 2**63 - 1, "7"), (0, -1, 1.5, "1 KiB", "", True)),
    "size": ((1, "4096", "64MiB", "1.5 gb", "2B", "1kIb"), (0, "64XB", "MiB", "", 1.5, True, "-1")),
    "size|auto": ((1, "64MiB", "auto", "AUTO"), (0, "off", "", True)),
    "seconds": ((0, 1.5, 366 * 86400, "500ms", "2 M", "1h", "0"), (-1, 366 * 86400 + 1, "soon", "-1", "1d", "", True)),
    "share": ((0, 1, 0.5, "0.25", " 1 "), (-0.1, 1.1, "half", "", True)),
    "switch": ((True, False, "on", "YES", " 0 "), (1, "", "maybe", [], 0.0)),
    "text": (("a", " a b "), (1, True, "", [])),
    "text|off": (("a", "off"), (1, True, "", [])),
    "pattern": (("x-.*", "off"), (1, True, "", [])),
    "path|off": (("/", "/a!b", "off", "NONE"), ("a", "/a b", "/a#b", "/a?b", "", 1)),
    "attach": (("auto", "unix:/tmp/a", "Off"), ("unix:", "unix:/tmp/", "/tmp/a", "", True)),
    "secret": (("one-key", "off"), (1, True, "", [])),
    "rules": (("inference:x-key=one-key", "off"), (1, True, "", [])),
}
"""Right and wrong values of a file, by kind. Texts that only a rule refuses are neither."""

KINDS = {entry.metadata["kind"]: entry.name for entry in fields(ServerConfig)}
"""A setting of each kind."""


def errors(document: Any) -> list[str]:
    return [error.message for error in VALIDATOR.iter_errors(document)]


def text_of(value: Any) -> str:
    """A value in TOML."""
    if isinstance(value, dict):
        return f"{{ {', '.join(f'{key} = {text_of(one)}' for key, one in value.items())} }}"
    return json.dumps(value)


def is_read(name: str, value: Any, file: Path) -> bool:
    """True if the server accepts a value of the file. Rules about several settings do not count."""
    file.write_text(f"[server]\n{name} = {text_of(value)}\n")
    return name in resolve(ServerConfig, Sources(environ={}, file=str(file))).given


def test_schema_is_valid() -> None:
    Draft7Validator.check_schema(DOCUMENT)
    assert list(DOCUMENT["properties"]["server"]["properties"]) == [entry.name for entry in fields(ServerConfig)]
    assert list(DOCUMENT["properties"]["image"]["properties"]) == [
        entry.name for entry in fields(ImageSpec) if entry.name != "record"
    ]


def test_schema_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["config", "schema"]) == 0
    assert json.loads(capsys.readouterr().out) == DOCUMENT


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_schema_and_server_agree_on_values_of_each_kind(kind: str, tmp_path: Path) -> None:
    words = settings.choices(kind)
    right, wrong = (words, ("", "x", words[0].upper() + "x", True, [])) if words else VALUES[kind]
    assert [value for value in right if not is_read(KINDS[kind], value, tmp_path / "a.toml")] == []
    assert [value for value in wrong if is_read(KINDS[kind], value, tmp_path / "a.toml")] == []
    validator = Draft7Validator(schema.of_kind(kind))
    assert [value for value in right if not validator.is_valid(value)] == []
    assert [value for value in wrong if validator.is_valid(value)] == []


@pytest.mark.parametrize("name", [entry.name for entry in fields(ServerConfig)])
def test_description_has_the_help_and_the_default(name: str) -> None:
    entry = next(entry for entry in fields(ServerConfig) if entry.name == name)
    described = DOCUMENT["properties"]["server"]["properties"][name]["description"]
    assert described.startswith(f"{entry.metadata['help']} (default: ")


def test_version_may_be_a_number() -> None:
    assert errors({"server": {"tls_min_version": 1.3}}) == []
    assert errors({"server": {"tls_min_version": 1.1}}) != []


def test_files_in_the_documentation_are_valid() -> None:
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").glob("**/*.md")), *sorted((ROOT / "examples").glob("**/*.md"))]
    blocks = [block for page in pages for block in FENCE.findall(page.read_text())]
    blocks += [path.read_text() for path in sorted(ROOT.glob("examples/**/penstock.toml"))]
    # Rows of the table of images.
    rows = re.findall(r"^\| `(\w+ = .*?)`", (ROOT / "docs/build.md").read_text(), re.MULTILINE)
    blocks += [f"[image]\n{row}\n" for row in rows]
    # The file of keys is another one.
    found = [tomllib.loads(block) for block in blocks if "[[key]]" not in block]
    assert sum("server" in document for document in found) >= 2
    assert sum("image" in document for document in found) >= 8
    for document in found:
        assert errors(document) == []


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("[server]\nhtpp = 'off'\n", "'htpp' was unexpected"),
        ("http = 'off'\n", "'http' was unexpected"),
        ("server = 3\n", "3 is not of type 'object'"),
        ("[server]\ndialect = 'mlserver'\n", "'mlserver' is not one of ['penstock', 'triton', 'kserve']"),
        ("[server]\nidle_timeout = 'soon'\n", "'soon' is not valid under any of the given schemas"),
        ("[image]\nrequirments = []\n", "'requirments' was unexpected"),
        ("[image]\nhttp_port = 'off'\n", "'off' is not of type 'integer'"),
        ("[image]\nsystem_packages = 'git'\n", "'git' is not of type 'array'"),
    ],
)
def test_wrong_files_are_refused(text: str, error: str) -> None:
    assert error in " ".join(errors(tomllib.loads(text)))


IMAGE = {
    "base_image": "python:3.12",
    "python_version": "3.12",
    "env": {"A": "1"},
    "system_packages": ["git"],
    "commands_before": ["true"],
    "requirements": "requirements.txt",
    "commands_after": ["true"],
    "files": {"a": "b"},
    "writable": ["/data"],
    "serve": ["app.py"],
    "http_port": 8000,
    "grpc_port": "off",
}


@pytest.mark.parametrize("name", IMAGE)
def test_schema_and_build_agree_on_the_table_of_images(name: str, tmp_path: Path) -> None:
    (tmp_path / "requirements.txt").write_text("numpy\n")
    for value, right in ((IMAGE[name], True), (1.5, False), ([1], False), (True, False)):
        (tmp_path / "a.toml").write_text(f"[image]\n{name} = {text_of(value)}\n")
        assert (not [*describe.problems(str(tmp_path / "a.toml"))]) == right, value
        assert (not errors({"image": {name: value}})) == right, value
    assert set(IMAGE) == {entry.name for entry in fields(ImageSpec)} - {"record"}
