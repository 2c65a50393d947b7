"""Manifests for Kubernetes and KServe: content, validation against the published types, and refusals."""

from __future__ import annotations

import os
import shlex
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from crd_check import find_problems

from penstock._cli import main
from penstock._export import yaml_text
from penstock._images import record
from penstock._images.record import Built

REPOSITORY = Path(__file__).resolve().parents[2]
TOOLS = Path(os.environ.get("PENSTOCK_TEST_TOOLS") or REPOSITORY / ".tools")
PYTHON, DEFINITIONS = TOOLS / "kserve" / "bin" / "python", TOOLS / "kserve_crds"
CHECK = Path(__file__).with_name("manifest_check.py")
GOLDEN = Path(__file__).parent / "golden"

COMMANDS = {
    "kubernetes": "kubernetes",
    "kubernetes-all": "kubernetes --name shop --namespace ml --replicas 3 --max-replicas 9 --queue-depth 20 --cpu 500m "
    "--memory 1.5Gi --gpu 1 --env 'GREETING=say: \"yes\"' --env EMPTY= --secret keys",
    "kubernetes-tls": "kubernetes --tls certificate --keys clients --replicas 1 --max-replicas 1",
    "kserve": "kserve",
    "kserve-grpc": "kserve --grpc --replicas 0 --max-replicas 5 --image registry.example:5000/team/digits:2",
    "kserve-raw": "kserve --raw --cpu 2 --memory 4Gi --secret keys",
}


@pytest.fixture
def app(tmp_path: Path) -> Path:
    (tmp_path / "app.py").write_text("import penstock\n")
    record.write(tmp_path, Built("digits:1.0", "sha256:1", "buildah", "0", 8080, 9000))
    return tmp_path


def export(words: str, app: Path, capsys: pytest.CaptureFixture[str]) -> str:
    kind, *flags = shlex.split(words)
    assert main.main(["export", kind, str(app), *flags]) == 0
    return capsys.readouterr().out


@pytest.mark.parametrize("name", COMMANDS)
def test_d24_manifest_matches_the_golden_file(name: str, app: Path, capsys: pytest.CaptureFixture[str]) -> None:
    manifest = export(COMMANDS[name], app, capsys)
    golden = GOLDEN / f"{name}.yaml"
    if "PENSTOCK_WRITE_GOLDEN" in os.environ:
        golden.write_text(manifest)
    assert manifest == golden.read_text()


@pytest.mark.parametrize("name", COMMANDS)
def test_d24_manifest_fields_are_in_the_published_types(
    name: str, app: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if not PYTHON.exists():
        pytest.skip("kserve is not installed; python tests/clients/setup_tools.py kserve fetches it")
    manifest = export(COMMANDS[name], app, capsys)
    assert check_manifest(manifest) == ""
    if name != "kubernetes":
        return
    # The check itself can fail.
    assert "there is no field 'imagee' in V1Container" in check_manifest(manifest.replace("image:", "imagee:"))
    assert "containerPort: '8080' is not of type int" in check_manifest(
        manifest.replace("containerPort: 8080", 'containerPort: "8080"')
    )


@pytest.mark.parametrize("name", [one for one in COMMANDS if one.startswith("kserve")])
def test_kserve_definitions_accept_the_manifest(name: str, app: Path, capsys: pytest.CaptureFixture[str]) -> None:
    if not DEFINITIONS.exists():
        pytest.skip(
            "KServe's definitions are not installed; python tests/clients/setup_tools.py kserve_crds fetches them"
        )
    runtime, service = yaml.safe_load_all(export(COMMANDS[name], app, capsys))
    assert find_problems(runtime, DEFINITIONS) == find_problems(service, DEFINITIONS) == []
    # The check itself can fail: on a name, a type, and a missing field.
    runtime["spec"]["containers"][0]["imagee"] = "digits"
    message = "Additional properties are not allowed ('imagee' was unexpected)"
    assert find_problems(runtime, DEFINITIONS) == [message]
    service["spec"]["predictor"]["minReplicas"] = "1"
    del service["spec"]["predictor"]["model"]["modelFormat"]["name"]
    assert find_problems(service, DEFINITIONS) == ["'1' is not of type 'integer'", "'name' is a required property"]


def check_manifest(manifest: str) -> str:
    done = subprocess.run([PYTHON, CHECK], input=manifest, capture_output=True, text=True, check=False)
    return "" if done.returncode == 0 else done.stderr.splitlines()[-1]


def test_d24_ports_probes_and_user_match_the_image(app: Path, capsys: pytest.CaptureFixture[str]) -> None:
    deployment, service, _ = yaml.safe_load_all(export("kubernetes", app, capsys))
    pod = deployment["spec"]["template"]["spec"]
    container = pod["containers"][0]
    assert [one["containerPort"] for one in container["ports"]] == [8080, 9000]
    assert [(one["name"], one["port"]) for one in service["spec"]["ports"]] == [("http", 8080), ("grpc", 9000)]
    assert service["spec"]["selector"] == deployment["spec"]["template"]["metadata"]["labels"]
    assert container["readinessProbe"]["httpGet"] == {"path": "/v2/health/ready", "port": 8080}
    assert container["livenessProbe"]["httpGet"]["path"] == "/v2/health/live"
    assert pod["securityContext"]["runAsUser"] == 10001
    # Longer than the time for removal from the endpoints plus the drain.
    assert pod["terminationGracePeriodSeconds"] > 5 + 30


def test_server_without_grpc_has_one_port(app: Path, capsys: pytest.CaptureFixture[str]) -> None:
    record.write(app, Built("digits:1.0", "sha256:1", "buildah", "0", 8080, None))
    deployment, service, _ = yaml.safe_load_all(export("kubernetes", app, capsys))
    assert len(deployment["spec"]["template"]["spec"]["containers"][0]["ports"]) == 1
    assert len(service["spec"]["ports"]) == 1


def test_autoscaler_scales_by_queue_depth(app: Path, capsys: pytest.CaptureFixture[str]) -> None:
    deployment, _, scaler = yaml.safe_load_all(export("kubernetes --replicas 2", app, capsys))
    assert (scaler["spec"]["minReplicas"], scaler["spec"]["maxReplicas"]) == (2, 4)
    assert scaler["spec"]["scaleTargetRef"]["name"] == deployment["metadata"]["name"]
    (metric,) = scaler["spec"]["metrics"]
    assert metric["pods"]["target"] == {"type": "AverageValue", "averageValue": "8"}
    # The metric is documented: only the autoscaler itself would notice a wrong name.
    assert f"| `{metric['pods']['metric']['name']}` | gauge |" in (REPOSITORY / "docs/metrics.md").read_text()
    # Without `replicas`, applying the manifest again does not undo the autoscaler.
    assert "replicas" not in deployment["spec"]
    assert deployment["spec"]["template"]["metadata"]["annotations"]["prometheus.io/port"] == "8080"


@pytest.mark.parametrize("flags", ["--max-replicas 1", "--replicas 4", "--replicas 5", "--replicas 0"])
def test_no_autoscaler_without_more_replicas(flags: str, app: Path, capsys: pytest.CaptureFixture[str]) -> None:
    documents = list(yaml.safe_load_all(export(f"kubernetes {flags}", app, capsys)))
    assert [one["kind"] for one in documents] == ["Deployment", "Service"]
    assert documents[0]["spec"]["replicas"] == (1 if "max" in flags else int(flags[-1]))


def test_kserve_service_uses_the_exported_runtime(app: Path, capsys: pytest.CaptureFixture[str]) -> None:
    runtime, service = yaml.safe_load_all(export("kserve --grpc --cpu 2", app, capsys))
    model = service["spec"]["predictor"]["model"]
    assert model["runtime"] == runtime["metadata"]["name"]
    assert model["modelFormat"] in runtime["spec"]["supportedModelFormats"]
    assert [model["protocolVersion"]] == runtime["spec"]["protocolVersions"] == ["grpc-v2"]
    # The image has the models.
    assert "storageUri" not in model
    assert model["resources"]["limits"] == {"cpu": "2"}


def test_named_image_needs_no_build_record(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "app.py").write_text("import penstock\n")
    manifest = export("kubernetes --image registry.example/digits:7", tmp_path, capsys)
    assert next(yaml.safe_load_all(manifest))["metadata"]["name"] == "digits"


REFUSED = [
    ("kubernetes --image 'A B'", "'A B' is not the name of an image, expected one such as registry.example/digits:1.0"),
    ("kubernetes --name Digits", "'Digits' is not a name in Kubernetes, expected lower case letters, digits and '-'"),
    ("kubernetes --namespace -", "'-' is not a name in Kubernetes, expected lower case letters, digits and '-'"),
    ("kubernetes --memory lots", "'lots' is not an amount of memory, expected one such as 2, 500m or 4Gi"),
    ("kubernetes --env A", "--env A: expected NAME=VALUE"),
    ("kubernetes --replicas -1", "--replicas -1: expected 0 or more"),
    ("kubernetes --queue-depth 0", "--queue-depth 0: expected 1 or more"),
    (
        "kubernetes --replicas 0 --max-replicas 3",
        "--replicas 0: expected 1 or more, since scaling from 0 needs a queue to measure",
    ),
    ("kubernetes --replicas 3 --max-replicas 2", "--max-replicas 2: expected 3 or more, as --replicas is 3"),
    ("kubernetes --grpc", "--grpc is for kserve"),
    ("kserve --queue-depth 3", "--queue-depth is for kubernetes"),
    ("kserve --tls certificate", "--tls is for kubernetes"),
    ("kserve --keys clients", "--keys is for kubernetes"),
    ("kubernetes --tls /tls", "'/tls' is not a name in Kubernetes, expected lower case letters, digits and '-'"),
    ("kserve --replicas 4 --max-replicas 3", "--max-replicas 3: expected 4 or more, as --replicas is 4"),
    ("kserve --replicas 0 --max-replicas 0", "--max-replicas 0: expected 1 or more, as --replicas is 0"),
]


@pytest.mark.parametrize(("words", "message"), REFUSED)
def test_invalid_export_flags_are_refused(
    words: str, message: str, app: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kind, *flags = shlex.split(words)
    assert main.main(["export", kind, str(app), *flags]) == 1
    assert capsys.readouterr().err == f"penstock: error: {message}\n"


def test_export_without_an_image_suggests_a_build(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "app.py").write_text("import penstock\n")
    assert main.main(["export", "kserve", str(tmp_path)]) == 1
    assert capsys.readouterr().err == (
        f"penstock: error: no image was built of {tmp_path} yet: use penstock build {tmp_path} -t NAME, "
        "or give --image\n"
    )
    assert main.main(["export", "nomad", str(tmp_path)]) == 2


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
def test_yaml_texts_round_trip(value: str) -> None:
    data: dict[str, Any] = {
        "key": value,
        value: [value, {"deep": [value, [value]]}],
        "n": 1,
        "b": True,
        "e": [],
        "t": {},
    }
    assert yaml.safe_load(yaml_text.document(data)) == data
