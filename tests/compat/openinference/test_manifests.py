"""Kubernetes manifests of a function."""

from __future__ import annotations

from pathlib import Path

import pytest
from functions import ECHO, write_function

from penstock._cli import main


def test_d24_deployment_and_service_have_the_ports_of_upstream(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    yaml = pytest.importorskip("yaml")
    write_function(tmp_path, ECHO)
    assert main.main(["export", "kubernetes", str(tmp_path), "--image", "p-f:1", "--cpu", "2"]) == 0
    specs = {one["kind"]: one["spec"] for one in yaml.safe_load_all(capsys.readouterr().out)}
    (container,) = specs["Deployment"]["template"]["spec"]["containers"]
    assert container["image"] == "p-f:1"
    assert [one["containerPort"] for one in container["ports"]] == [8080, 9000]
    assert [one["port"] for one in specs["Service"]["ports"]] == [8080, 9000]
    names = {one["name"]: one["containerPort"] for one in container["ports"]}
    for probe, path in (("readinessProbe", "/v2/health/ready"), ("livenessProbe", "/v2/health/live")):
        http_get = container[probe]["httpGet"]
        assert (names.get(http_get["port"], http_get["port"]), http_get["path"]) == (8080, path)
    assert container["resources"]["limits"] == {"cpu": "2"}
