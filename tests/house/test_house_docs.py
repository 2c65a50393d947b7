"""Consistency of the documents: paths exist, and tables match the code."""

from __future__ import annotations

import re
import runpy
from pathlib import Path
from typing import Any

import pytest

from house import CRATES, ROOT, files, relative, rows, sources, text, without_tests
from penstock import errors
from penstock.testing import Client

DOCUMENTS = [path for path in files() if path.suffix == ".md" and "node_modules" not in path.parts]
TOP = "rust|python|docs|tests|examples|proto|benches|\\.ci"
GENERATED_PATHS = {"examples/digits/model", "examples/embeddings/model"}
"""Paths that a command creates and git ignores."""

CODES = {
    "CANCELLED": 1,
    "INVALID_ARGUMENT": 3,
    "DEADLINE_EXCEEDED": 4,
    "NOT_FOUND": 5,
    "ALREADY_EXISTS": 6,
    "PERMISSION_DENIED": 7,
    "RESOURCE_EXHAUSTED": 8,
    "UNIMPLEMENTED": 12,
    "UNAUTHENTICATED": 16,
    "INTERNAL": 13,
    "UNAVAILABLE": 14,
}


def test_required_documents_exist() -> None:
    names = {relative(path) for path in DOCUMENTS}
    assert {"README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md", "docs/index.md"} <= names
    assert text("LICENSE").strip().startswith("Apache License")


@pytest.mark.parametrize("path", DOCUMENTS, ids=relative)
def test_paths_and_links_in_documents_exist(path: Path) -> None:
    body = path.read_text()
    for name in re.findall(rf"(?<![\w/.-])((?:{TOP})/[\w./-]*\w)", body):
        assert (ROOT / name).exists() or any(name.startswith(made) for made in GENERATED_PATHS), name
    for link in re.findall(r"\]\(([^)\s#]+)(?:#[^)]*)?\)", body):
        if "://" not in link and not link.startswith("mailto:"):
            assert (path.parent / link).exists(), f"the link to {link}"


def test_index_links_every_document() -> None:
    linked = set(re.findall(r"\]\(([\w-]+\.md)\)", text("docs/index.md")))
    assert linked == {path.name for path in DOCUMENTS if path.parent == ROOT / "docs"} - {"index.md"}


def test_architecture_is_short_and_its_code_map_is_complete() -> None:
    architecture = text("ARCHITECTURE.md")
    assert len(architecture.splitlines()) <= 200
    for path in sources(".py", under="python/penstock/"):
        part = relative(path).split("/")[2]
        assert part.startswith("__") or f"`python/penstock/{part}`" in architecture, f"{part} is not in the code map"
    code_map = architecture.split("## Code map")[1].split("## Invariants")[0]
    for crate in CRATES:
        assert f"`rust/{crate}/src" in code_map, f"rust/{crate} is not in the code map"
    for path in sources(".rs", under="rust/"):
        crate, source, *below = relative(path).split("/")[1:]
        if crate in {"core", "wire", "process", "server", "py"} and source == "src" and len(below) > 1:
            assert f"`{below[0]}`" in code_map or below[0] == "generated", f"rust/{crate}/src/{below[0]} is not in it"


def test_readme_example_responds_to_its_curl_command() -> None:
    readme = text("README.md")
    code = re.findall(r"```python\n(.*?)```", readme, re.DOTALL)[0]
    assert len(code.splitlines()) <= 20
    body = re.findall(r"-d '([^']+)'", readme)[0]
    namespace: dict[str, Any] = {"__name__": "app"}
    exec(compile(code, "README.md", "exec"), namespace)
    with Client(namespace["double"]) as client:
        response = client.post("/v2/models/double/infer", body)
    assert response.status == 200, response.body
    assert response.json()["outputs"][0]["data"] == [2 * number for number in range(1, 17)]


def test_readme_names_the_required_versions() -> None:
    rust = re.findall(r'^rust-version = "(.*)"', text("Cargo.toml"), re.MULTILINE)[0]
    python = re.findall(r'^requires-python = ">=(.*)"', text("pyproject.toml"), re.MULTILINE)[0]
    assert f"CPython {python} or newer, Rust {rust} or newer" in text("README.md")


def arms(source: str, pattern: str) -> dict[str, str]:
    """Arms of a match over `Kind`, by kind, without guarded arms."""
    found: dict[str, str] = {}
    for kinds, value in re.findall(pattern, source):
        found.update(dict.fromkeys(re.findall(r"::(\w+)", kinds), value))
    return found


def kinds() -> dict[str, tuple[str, int, int]]:
    """Name, HTTP status and gRPC code of every kind, from the sources."""
    names = arms(text("rust/core/src/error.rs"), r'(Self::\w+) => "(\w+)"')
    wire = "rust/wire/src/{}/error.rs"
    statuses = arms(without_tests(text(wire.format("rest"))), r"((?:\s*\|?\s*Kind::\w+)+) => (\d+),")
    codes = arms(without_tests(text(wire.format("grpc"))), r"((?:\s*\|?\s*Kind::\w+)+) => ([A-Z_]+),")
    assert names.keys() == statuses.keys() == codes.keys()
    return {kind: (names[kind], int(statuses[kind]), CODES[codes[kind]]) for kind in names}


def test_errors_table_matches_kinds_statuses_codes_and_exceptions() -> None:
    expected = {(kind, status, code, errors.by_kind(name).__name__) for kind, (name, status, code) in kinds().items()}
    assert len(expected) >= 13
    assert all(errors.by_kind(name).kind == name for name, *_ in kinds().values())
    table = [row for row in rows(text("docs/errors.md")) if re.fullmatch(r"`\w+`", row[0]) and len(row) == 6]
    documented = set()
    for kind, status, code, exception, when, retry in table:
        name, number = re.fullmatch(r"(\w+) \((\d+)\)", code).groups()  # type: ignore[union-attr]
        assert CODES[name] == int(number)
        assert when
        assert retry
        documented.add((kind.strip("`"), int(status), int(number), exception.strip("`")))
    assert documented == expected


def test_reasons_table_lists_every_reason_of_a_cut() -> None:
    reasons = re.findall(r'Self::\w+ => "([\w-]+)"', text("rust/core/src/batch/reason.rs"))
    table = text("docs/batching.md").partition("| `reason` |")[2].partition("\n\n")[0]
    assert len(reasons) > 8
    assert sorted(re.findall(r"^\| `([\w-]+)` \|", table, re.MULTILINE)) == sorted(reasons)


def metrics() -> set[tuple[str, str, tuple[str, ...]]]:
    """Exposed name, type and labels of every metric, from their registration."""
    names = ("server", "registration", "config", "keys", "refused", "stalls", "stream", "tls", "tokens")
    source = "".join(text(f"rust/core/src/metrics/{name}.rs") for name in names)
    unit = r"((?:Unit::Seconds|seconds\(\)),\s*)?"
    registered = re.findall(
        rf'\.register(?:_with_unit)?\(\s*"(\w+)",\s*"[^"]+",\s*{unit}self\.(\w+)\.clone\(\)', source
    )
    assert len(registered) == len(re.findall(r"\bregistry\.register\w*\(", source))
    structs = re.findall(r"struct (\w+Labels) \{\n(.*?)\n\}", text("rust/core/src/metrics/labels.rs"), re.DOTALL)
    labels = {name: tuple(re.findall(r"^    pub\(\w+ [\w:]+\) (\w+):", body, re.MULTILINE)) for name, body in structs}
    found = set()
    for name, unit, field in registered:
        family = re.search(rf"\b{field}: (?:Family<(\w+), )?(Counter|Seconds|Gauge|Histogram)\b", source)
        assert family, field
        kind = {"Seconds": "counter"}.get(family[2], family[2].lower())
        exposed = f"penstock_{name}" + ("_seconds" if unit else "") + ("_total" if kind == "counter" else "")
        found.add((exposed, kind, labels.get(family[1] or "", ())))
    return found


def test_metrics_table_matches_registered_metrics() -> None:
    table = [row for row in rows(text("docs/metrics.md")) if row[0].startswith("`penstock_")]
    assert all(meaning for *_, meaning in table)
    documented = {(name.strip("`"), kind, tuple(re.findall(r"`(\w+)`", labels))) for name, kind, labels, *_ in table}
    scraped = text("rust/server/src/state/exposition.rs")
    read_at_scrape = set(re.findall(r'write_head\(text, "(penstock_\w+)", "[^"]+", "(\w+)"\)', scraped))
    assert len(read_at_scrape) == scraped.count("write_head(text")
    registration = text("rust/core/src/metrics/registration.rs")
    written = re.findall(r'\.write\(\s*text,\s*"(penstock_\w+)",', registration)
    assert len(written) == len(re.findall(r"\.write\(", registration))
    read_at_scrape |= {(name, "histogram") for name in written}
    others = {row for row in documented if row[:2] in read_at_scrape}
    assert {row[:2] for row in others} == read_at_scrape
    # A test of the lifecycle compares their labels with those of a scrape.
    assert documented - others == metrics()


def test_files_generated_from_settings_are_fresh() -> None:
    """`ServerOptions`, and the names and defaults in the table of settings."""
    settings = runpy.run_path(str(ROOT / ".ci" / "settings.py"))
    stale = [relative(path) for path in settings["stale"]()]
    assert not stale, f"{stale}: regenerate with make gen"


def test_new_setting_gets_a_row_with_its_help() -> None:
    settings = runpy.run_path(str(ROOT / ".ci" / "settings.py"))
    page = text("docs/limits.md")
    [kept] = re.findall(r"^\| `max_headers` \|.*\n", page, re.MULTILINE)
    written = settings["table"](page.replace(kept, "| `gone` | `1` | an old setting | 400 |\n"))
    assert written == page.replace(kept, "| `max_headers` | `100` | | limit of headers in a request |  |\n")
    assert settings["table"](page.replace("`max_headers` | `100`", "`max_headers` | `99`")) == page


def test_routes_table_matches_served_routes() -> None:
    source = without_tests(text("rust/server/src/rest/routes.rs"))
    source = source[source.index("static ROUTES") : source.index("\n];")]
    found = re.findall(r'^    (get|get_by|post|delete|infer)\(\s*"([^"]+)",\s*(\w+)', source, re.MULTILINE)
    hidden = set(re.findall(r'\(\s*"([^"]+)",[^"]*HIDDEN', source))
    categories = {name: name.lower().replace("_", "-") for _, _, name in found} | {
        "OPEN": "none",
        "REPOSITORY": "model-repository",
    }
    methods = {"get": "GET", "get_by": "GET", "delete": "DELETE"}
    routed = [
        (methods.get(kind, "POST"), path, "inference" if kind == "infer" else categories[category])
        for kind, path, category in found
        if path not in hidden
    ]
    assert len(routed) == len(re.findall(r"^    (?:get|get_by|post|delete|infer)\(", source, re.MULTILINE)) - 4
    table = re.findall(r"^\| `(GET|POST|DELETE) (/[^`]*)` \| ([\w-]+) \|", text("docs/protocol.md"), re.MULTILINE)
    assert len(table) == len(set(table))
    assert set(table) == set(routed), "docs/protocol.md has each row of rust/server/src/rest/routes.rs"


def test_calls_table_matches_served_grpc_calls() -> None:
    inference, _ = text("rust/server/src/grpc/unary.rs").split("pub(super) async fn health")
    calls = set(re.findall(r'^        "(\w+)" =>', inference, re.MULTILINE))
    calls |= set(re.findall(r'"inference\.GRPCInferenceService/(\w+)"', text("rust/server/src/grpc/dispatch.rs")))
    table = re.findall(r"^\| `inference\.GRPCInferenceService/(\w+)` \|", text("docs/protocol.md"), re.MULTILINE)
    assert set(table) == calls


def test_make_targets_are_few_and_documented() -> None:
    makefile = text("Makefile")
    phony = set(re.search(r"^\.PHONY: (.*)$", makefile, re.MULTILINE)[1].split())  # type: ignore[index]
    with_help = set(re.findall(r"^([a-z-]+):.*?## \w", makefile, re.MULTILINE))
    assert with_help == phony
    assert len(phony) <= 17
    for path in DOCUMENTS:
        used = set(re.findall(r"`make ([a-z-]+)", path.read_text())) | set(
            re.findall(r"^make ([a-z-]+)", path.read_text(), re.MULTILINE)
        )
        assert used <= phony, relative(path)
