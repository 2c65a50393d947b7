"""Manifests for Kubernetes and KServe: what they say, that the published types know them, and what is refused."""

from __future__ import annotations

import os
import shlex
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from penstock import cli
from penstock._export import yaml_text
from penstock._images import recording
from penstock._images.recording import Built

REPOSITORY = Path(__file__).resolve().parents[2]
PYTHON = Path(os.environ.get("PENSTOCK_TEST_TOOLS") or REPOSITORY / ".tools") / "kserve" / "bin" / "python"
CHECK = Path(__file__).with_name("manifest_check.py")
GOLDEN = Path(__file__).parent / "golden"

COMMANDS = {
    "kubernetes": "kubernetes",
    "kubernetes-all": "kubernetes --name shop --namespace ml --replicas 3 --cpu 500m --memory 1.5Gi --gpu 1 "
    "--env 'GREETING=say: \"yes\"' --env EMPTY= --secret keys",
    "kserve": "kserve",
    "kserve-grpc": "kserve --grpc --replicas 0 --max-replicas 5 --image registry.example:5000/team/digits:2",
    "kserve-raw": "kserve --raw --cpu 2 --memory 4Gi --secret keys",
}


@pytest.fixture
def app(tmp_path: Path) -> Path:
    (tmp_path / "app.py").write_text("import penstock\n")
    recording.write(tmp_path, Built("digits:1.0", "sha256:1", "buildah", "0", 8080, 9000))
    return tmp_path


def exported(words: str, app: Path, capsys: pytest.CaptureFixture[str]) -> str:
    kind, *flags = shlex.split(words)
    assert cli.main(["export", kind, str(app), *flags]) == 0
    return capsys.readouterr().out


@pytest.mark.parametrize("name", COMMANDS)
def test_d24_the_manifest_is_the_golden_one(name: str, app: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made = exported(COMMANDS[name], app, capsys)
    golden = GOLDEN / f"{name}.yaml"
    if "PENSTOCK_WRITE_GOLDEN" in os.environ:
        golden.write_text(made)
    assert made == golden.read_text()


@pytest.mark.parametrize("name", COMMANDS)
def test_d24_the_published_types_know_every_field(name: str, app: Path, capsys: pytest.CaptureFixture[str]) -> None:
    if not PYTHON.exists():
        pytest.skip("kserve is not installed; python tests/clients/setup_tools.py kserve fetches it")
    made = exported(COMMANDS[name], app, capsys)
    assert checked(made) == ""
    if name != "kubernetes":
        return
    # The check itself can fail.
    assert "there is no field 'imagee' in V1Container" in checked(made.replace("image:", "imagee:"))
    assert "containerPort: '8080' is no int" in checked(made.replace("containerPort: 8080", 'containerPort: "8080"'))


def checked(manifest: str) -> str:
    done = subprocess.run([PYTHON, CHECK], input=manifest, capture_output=True, text=True, check=False)
    return "" if done.returncode == 0 else done.stderr.splitlines()[-1]


def test_d24_ports_probes_and_user_are_those_of_the_image(app: Path, capsys: pytest.CaptureFixture[str]) -> None:
    deployment, service = yaml.safe_load_all(exported("kubernetes", app, capsys))
    pod = deployment["spec"]["template"]["spec"]
    container = pod["containers"][0]
    assert [one["containerPort"] for one in container["ports"]] == [8080, 9000]
    assert [(one["name"], one["port"]) for one in service["spec"]["ports"]] == [("http", 8080), ("grpc", 9000)]
    assert service["spec"]["selector"] == deployment["spec"]["template"]["metadata"]["labels"]
    assert container["readinessProbe"]["httpGet"] == {"path": "/v2/health/ready", "port": 8080}
    assert container["livenessProbe"]["httpGet"]["path"] == "/v2/health/live"
    assert pod["securityContext"]["runAsUser"] == 10001
    # Time to be forgotten, and to finish: longer than both.
    assert pod["terminationGracePeriodSeconds"] > 5 + 30


def test_a_server_without_grpc_has_one_port(app: Path, capsys: pytest.CaptureFixture[str]) -> None:
    recording.write(app, Built("digits:1.0", "sha256:1", "buildah", "0", 8080, None))
    deployment, service = yaml.safe_load_all(exported("kubernetes", app, capsys))
    assert len(deployment["spec"]["template"]["spec"]["containers"][0]["ports"]) == 1
    assert len(service["spec"]["ports"]) == 1


def test_an_image_of_another_name_needs_no_build(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "app.py").write_text("import penstock\n")
    made = exported("kubernetes --image registry.example/digits:7", tmp_path, capsys)
    assert next(yaml.safe_load_all(made))["metadata"]["name"] == "digits"


REFUSED = [
    ("kubernetes --image 'A B'", "'A B' is no name of an image, expected one such as registry.example/digits:1.0"),
    ("kubernetes --name Digits", "'Digits' is no name in Kubernetes, expected lower case letters, digits and '-'"),
    ("kubernetes --namespace -", "'-' is no name in Kubernetes, expected lower case letters, digits and '-'"),
    ("kubernetes --memory lots", "'lots' is no amount of memory, expected one such as 2, 500m or 4Gi"),
    ("kubernetes --env A", "--env A: expected NAME=VALUE"),
    ("kubernetes --replicas -1", "replicas: -1"),
    ("kubernetes --grpc", "--grpc is for kserve"),
    ("kubernetes --max-replicas 3", "--max-replicas is for kserve"),
    ("kserve --replicas 4 --max-replicas 3", "replicas: 4 to 3, expected numbers that grow"),
]


@pytest.mark.parametrize(("words", "message"), REFUSED)
def test_what_cannot_be_said_is_refused(
    words: str, message: str, app: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kind, *flags = shlex.split(words)
    assert cli.main(["export", kind, str(app), *flags]) == 1
    assert capsys.readouterr().err == f"penstock: error: {message}\n"


def test_without_an_image_it_is_said_how_to_get_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "app.py").write_text("import penstock\n")
    assert cli.main(["export", "kserve", str(tmp_path)]) == 1
    assert capsys.readouterr().err == (
        f"penstock: error: no image was built of {tmp_path} yet: use penstock build {tmp_path} -t NAME, "
        "or give --image\n"
    )
    assert cli.main(["export", "nomad", str(tmp_path)]) == 2


@pytest.mark.parametrize(
    "value",
    [
        "",
        "yes",
        "No",
        "on",
        "null",
        "1",
        "0x1",
        "1e5",
        "a: b",
        "- a",
        "#",
        "*a",
        "a\nb",
        " a",
        "é",
        "2026-01-01",
        "a#b",
    ],
)
def test_texts_come_back_as_texts(value: str) -> None:
    data: dict[str, Any] = {
        "key": value,
        value: [value, {"deep": [value, [value]]}],
        "n": 1,
        "b": True,
        "e": [],
        "t": {},
    }
    assert yaml.safe_load(yaml_text.document(data)) == data
