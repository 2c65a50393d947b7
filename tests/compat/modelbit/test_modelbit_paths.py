"""Paths: versions, aliases, branches, endpoints; keys; several folders in one server."""

from __future__ import annotations

import json
import os
import sys
from collections import Counter
from pathlib import Path

import pytest
from modelbit_http import HttpClient, wait_for
from modelbit_repository import Files, write_repository

from penstock import Server
from penstock.compat import modelbit

ONE = Files("def f(x):\n    return [1, x]\n", "f")
TWO = Files("def f(x):\n    return [2, x]\n", "f")
BRANCH = Files("def f(x):\n    return ['branch', x]\n", "f")
SEEN = Files(
    "import pathlib\ndef seen(x):\n"
    "    path = pathlib.Path(__file__).with_name('count')\n"
    "    if x == 'count':\n        return path.read_text() if path.exists() else ''\n"
    "    path.write_text((path.read_text() if path.exists() else '') + x)\n"
    "    raise ValueError('a mirror that fails')\n",
    "seen",
)
DEPLOYMENTS = {"f@1": ONE, "f@2": TWO, "feature/x:f": BRANCH, "seen": SEEN}
FILES = {
    "aliases.yaml": "f:\n  official: 1\n  v1.2: 2\n",
    "endpoints/alias.yaml": "backends:\n  a:\n    deployment: {branch: main, name: f, version: 1}\nschemaVersion: 1\n",
    "endpoints/split.yaml": "backends:\n  a:\n    deployment: {name: f, version: 1}\n    weight: 3\n"
    "  b:\n    deployment: {name: f, version: latest}\n    weight: 1\nschemaVersion: 1\n",
    "endpoints/sticky.yaml": "suppliedKey: user\nbackends:\n  a:\n    deployment: {name: f, version: 1}\n"
    "  b:\n    deployment: {name: f, version: 2}\n  c:\n    value: {'none': true}\n",
    "endpoints/mirror.yaml": "backends:\n  a:\n    deployment: {name: f, version: 1}\n"
    "mirrors:\n  m:\n    deployment: {name: seen}\n  unknown:\n    deployment: {name: unknown}\n",
}


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("f/latest", 2),
        ("f/1", 1),
        ("f/2", 2),
        ("f/official", 1),
        ("f/v1.2", 2),
        ("f/main/latest", 2),
        ("f/main/1", 1),
        ("f/main/official", 1),
        ("f/feature~x/latest", "branch"),
        ("f/feature~x/1", "branch"),
        ("endpoint/alias", 1),
    ],
)
def test_m05_paths_select_branch_and_version(served: HttpClient, path: str, expected: int | str) -> None:
    assert served.call(f"/v1/{path}", 5).data == [expected, 5]


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("f/3", "deployment 'f' has no version '3'; it has latest, 1, 2, official, v1.2"),
        ("f/other", "deployment 'f' has no version 'other'"),
        ("f/other/latest", "deployment 'f' has no branch 'other'; it has main, feature/x"),
        ("g/latest", ""),
        ("endpoint/g", ""),
    ],
)
def test_m05_unknown_deployments_and_versions_are_404(served: HttpClient, path: str, message: str) -> None:
    response = served.call(f"/v1/{path}", 5)
    assert response.status == 404
    assert response.error.startswith(message)


def test_m25_states_of_versions_are_listed(served: HttpClient) -> None:
    states = served.raw("/v1/f").json
    assert states["branches"]["main"] == {
        "latest": 2,
        "aliases": {"official": 1, "v1.2": 2},
        "versions": [
            {"version": 1, "state": "Ready", "keepWarm": 1},
            {"version": 2, "state": "Ready", "keepWarm": 1},
        ],
    }


def test_m21_endpoint_chooses_backends_by_weight() -> None:
    from penstock.compat.modelbit._spec.endpoints import Backend, Endpoint

    endpoint = Endpoint("e", (Backend("a", "f", weight=3), Backend("b", "f", weight=1)))
    counts = Counter(endpoint.choose(None).label for _ in range(20_000))
    assert abs(counts["a"] / 20_000 - 0.75) < 0.02


def test_m21_endpoint_uses_all_weighted_backends(served: HttpClient) -> None:
    versions = Counter(served.call("/v1/endpoint/split", 5).data[0] for _ in range(60))
    assert versions[1] > versions[2] > 0


def test_m21_supplied_key_is_sticky(served: HttpClient) -> None:
    first = [served.call("/v1/endpoint/sticky", 5, user=user).data for user in range(30)]
    assert [served.call("/v1/endpoint/sticky", 5, user=user).data for user in range(30)] == first
    assert {str(one) for one in first} == {"[1, 5]", "[2, 5]", "{'none': True}"}
    assert served.call("/v1/endpoint/sticky", {"user": 3}).data is not None, "the key may be in the data"
    missing = served.call("/v1/endpoint/sticky", 5)
    assert missing.status == 400
    assert missing.error == "endpoint 'sticky' needs the key 'user' in the body or in \"data\""


def test_m21_responses_of_mirrors_are_discarded(served: HttpClient) -> None:
    assert served.call("/v1/endpoint/mirror", "z").data == [1, "z"]
    wait_for(lambda: served.call("seen", "count").data == "z")


@pytest.mark.parametrize("isolation", ["process", "server"])
def test_m16_requests_need_a_valid_key(tmp_path: Path, isolation: str) -> None:
    folder = write_repository(tmp_path, {"f": ONE})
    with Server(
        *modelbit.load(folder, {"keys": "k1,k2", "isolation": isolation}), http="127.0.0.1:0", grpc=None
    ) as server:
        client = HttpClient(server.http_url, folder)
        for key in ("k1", "k2", "Bearer k1"):
            assert client.call("f", 1, {"Authorization": key}).data == [1, 1]
        rejected = client.call("f", 1, {"Authorization": "k3"})
        assert (rejected.status, rejected.error) == (401, "the API key is not valid")
        missing = client.call("f", 1)
        assert (missing.status, missing.error) == (401, "an API key is needed: send it as the header Authorization")
        assert client.raw("/v1/f").status == 401
        inputs = {"inputs": [{"name": "body", "datatype": "BYTES", "shape": [1], "data": ['{"data": 1}']}]}
        bypass = client.raw("/v2/models/f/infer", json.dumps(inputs).encode())
        assert bypass.status == 403, "V2 cannot bypass the keys"


def test_m16_sent_keys_are_checked_even_if_optional(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = write_repository(tmp_path, {"f": ONE})
    monkeypatch.setenv("MB_API_KEYS", "k1")
    with Server(*modelbit.load(folder, {"require_key": "off"}), http="127.0.0.1:0", grpc=None) as server:
        client = HttpClient(server.http_url, folder)
        assert client.call("f", 1).data == [1, 1]
        assert client.call("f", 1, {"Authorization": "k1"}).data == [1, 1]
        assert client.call("f", 1, {"Authorization": "k3"}).status == 401


def test_g01_two_folders_in_one_server_are_isolated(tmp_path: Path) -> None:
    """Each deployment has its own modules, working directory and environment."""
    helper = "import helper, os\ndef {0}(x):\n    return [helper.NAME, os.path.basename(os.getcwd()), x]\n"
    for name in ("a", "b"):
        write_repository(
            tmp_path / name,
            {name: Files(helper.format(name), name, files={"helper.py": f"NAME = {name!r}\n"})},
        )
    models = [*modelbit.load(tmp_path / "a", {}), *modelbit.load(tmp_path / "b", {})]
    with Server(*models, http="127.0.0.1:0", grpc=None) as server:
        client = HttpClient(server.http_url, tmp_path)
        assert client.call("a", 1).data == ["a", "a", 1]
        assert client.call("b", 1).data == ["b", "b", 1]


def test_g01_two_folders_in_the_servers_process_are_isolated(tmp_path: Path) -> None:
    """Each deployment has its own modules, late imports included; the process is unchanged."""
    source = (
        "import helper, modelbit\n"
        "def {0}(x):\n"
        "    import late\n"
        "    named = modelbit.get_deployment_info()['name']\n"
        "    return [helper.NAME, late.NAME, named, modelbit.load_value('v.pkl').name]\n"
    )
    known, folder, path = set(sys.modules), os.getcwd(), [*sys.path]
    for name in ("a", "b"):
        pickled_class = "class Thing:\n    def __init__(self, name=None):\n        self.name = name\n"
        files = {"helper.py": f"NAME = {name!r}\n{pickled_class}", "late.py": f"NAME = 'late {name}'\n"}
        home = write_repository(tmp_path / name, {name: Files(source.format(name), name, files=files)})
        (home / "deployments" / name / "v.pkl").write_bytes(_pickle_of("helper", "Thing", name))
    options = {"isolation": "server"}
    models = [*modelbit.load(tmp_path / "a", options), *modelbit.load(tmp_path / "b", options)]
    with Server(*models, http="127.0.0.1:0", grpc=None) as server:
        client = HttpClient(server.http_url, tmp_path)
        assert client.call("a", 1).data == ["a", "late a", "a", "a"]
        assert client.call("b", 1).data == ["b", "late b", "b", "b"]
    assert {
        name for name in set(sys.modules) - known if name.partition(".")[0] in ("helper", "late", "source")
    } == set()
    assert (os.getcwd(), sys.path) == (folder, path)
    assert [name for name in sys.modules if name.startswith("_own") and "a_1" in name] == [], (
        "their modules are removed"
    )


def _pickle_of(module: str, name: str, value: str) -> bytes:
    """Returns `pickle.dumps(module.name(value))`."""
    return b"c%b\n%b\n(V%b\ntR." % (module.encode(), name.encode(), value.encode())
