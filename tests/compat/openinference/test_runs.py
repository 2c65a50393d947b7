"""Functions and runs with the interface of DigitalHub's SDK."""

from __future__ import annotations

import json
import os
import re
import signal
import urllib.request
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from functions import ECHO, handler_code

import penstock
from http_by_hand import is_draining
from penstock import images
from penstock.compat.openinference import (
    DefinitionError,
    Function,
    ServeRun,
    as_function,
    describe,
    new_function,
    read_function,
)
from penstock.compat.openinference._image import image_spec
from penstock.errors import StartupError, Unavailable
from waiting import PATIENCE, at_once, until

TENSORS = [{"name": "x", "datatype": "FP32", "shape": [-1]}]
BODY = {"inputs": [{"name": "x", "datatype": "FP32", "shape": [2], "data": [1, 2]}]}


def function(code: str = ECHO, **more: Any) -> Function:
    return new_function("echo", kind="openinference", code=code, handler="handler", inputs=TENSORS, **more)


@pytest.fixture(scope="module")
def run() -> Iterator[ServeRun]:
    code = "import os\n" + handler_code("(context.unit, os.environ['UNIT'])", "context") + "    "
    code += "\ndef init(context, unit):\n    context.unit = unit\n"
    code += "    context.logger.info('started')\n    print('printed')\n"
    made = function(code, init_function="init", model_name="m", project="p")
    environment = [{"name": "UNIT", "value": "v"}]
    run = made.run(
        "serve", wait=True, init_parameters={"unit": "u"}, replicas=2, envs=environment, resources={"mem": "1Gi"}
    )
    yield run
    run.stop()


def test_d17_run_serves_its_function(run: ServeRun) -> None:
    response = run.invoke(json=BODY)
    response.raise_for_status()
    assert (response.status_code, response.ok) == (200, True)
    assert response.json()["outputs"][0]["data"] == ["('u', 'v')"]
    assert run.invoke("GET", "/v2/models/m").json()["name"] == "m"
    assert run.invoke(json={"inputs": []}).json()["error"].startswith("input 'x' is missing")


def test_d17_logs_contain_output_of_the_function(run: ServeRun) -> None:
    assert "started" in run.logs()
    assert "printed" in run.logs()


def test_d18_status_lists_the_urls_of_the_service(run: ServeRun) -> None:
    service, urls = run.refresh().status.service, run.status.inference_v2
    assert run.status.state == "RUNNING"
    assert service is not None
    assert urls is not None
    assert urls["baseUrl"] == f"http://{service['url']}"
    assert service["urls"] == [urls["baseUrl"], service["urls"][1]]
    assert service["urls"][1].startswith("grpc://")
    assert urls["model"] == "m"
    for name in ("modelMetadataUrl", "modelReadinessUrl", "readinessUrl", "livenessUrl"):
        with urllib.request.urlopen(urls[name]) as response:
            assert response.status == 200
    with urllib.request.urlopen(urls["inferenceUrl"], data=json.dumps(BODY).encode()) as response:
        assert response.status == 200
    entity = run.to_dict()
    assert (entity["kind"], entity["project"], entity["spec"]["resources"]) == (
        *("openinference+serve:run", "p"),
        {"mem": "1Gi"},
    )
    assert entity["key"] == f"store://p/run/openinference+serve:run/echo:{run.id}"


def test_d22_replicas_are_processes(run: ServeRun) -> None:
    groups = run.invoke("GET", "/v2/models/m/config").json()["instance_group"]
    assert [one["count"] for one in groups] == [2]


def test_d17_run_is_stopped() -> None:
    run = function().run("serve", grpc=None)
    assert run.status.state in ("PENDING", "RUNNING")
    assert run.wait().invoke(json=BODY).json()["outputs"][0]["data"] == [1.0, 2.0]
    url = run.status.inference_v2["inferenceUrl"]
    assert run.stop().status.state == "STOPPED"
    assert run.status.service is None
    with pytest.raises(Unavailable):
        run.invoke(url=url)


def test_isolation_server_runs_in_the_services_process() -> None:
    run = function("import os\n" + handler_code("os.getpid() == context.worker_id", "context")).run(
        "serve", wait=True, isolation="server"
    )
    assert run.invoke(json=BODY).json()["outputs"][0]["data"] == ["True"]
    run.stop()
    with pytest.raises(StartupError, match="it requires the packages one"):
        function(requirements=["one"]).run("serve", wait=True, isolation="server")


@pytest.mark.fault("SIGTERM while held")
def test_service_with_a_held_gil_exits_at_the_drain_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PENSTOCK_DRAIN_TIMEOUT", "2s")
    code = "import ctypes\ndef handler(request):\n    print('entered')\n    ctypes.PyDLL(None).sleep(1000)\n"
    run = function(code).run("serve", wait=True, grpc=None, isolation="server")
    try:
        assert run.status.inference_v2 is not None
        url = run.status.inference_v2["baseUrl"]
        [future] = at_once([lambda: run.invoke(json=BODY)])
        until(lambda: "entered" in run.logs(), "the function to be called")
        # Ctrl-C reaches both processes, then the parent closes standard input. Together they count as one signal.
        run._process.send_signal(signal.SIGINT)
        run._process.send_signal(signal.SIGTERM)
        until(lambda: is_draining(url), "the service to drain")
        assert not future.done()
        assert run._process.wait(PATIENCE) == 3
        assert future.exception()
        assert "penstock: left without waiting for what holds the interpreter" in run.logs()
    finally:
        run._process.kill()
        run.stop()


def test_d17_failed_start_is_reported_with_its_reason() -> None:
    run = function("raise OSError('no weights')").run("serve")
    with pytest.raises(StartupError, match=r"could not start: .*no weights"):
        run.wait()
    assert run.status.state == "ERROR"
    run.stop()


def test_d22_missing_secrets_are_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(StartupError, match="secret 'HUSH' is not in the environment"):
        function().run("serve", secrets=["HUSH"])


def variables(run: ServeRun, *names: str) -> list[str | None]:
    """Returns environment variables of a handler."""
    text = run.invoke(json=BODY).json()["outputs"][0]["data"][0]
    environment: dict[str, str] = json.loads(text)
    return [environment.get(name) for name in names]


def test_d22_resources_set_variables_of_libraries(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "CUDA_VISIBLE_DEVICES"):
        monkeypatch.delenv(name, raising=False)
    service = function("import json, os\n" + handler_code("json.dumps(dict(os.environ))"))
    threads = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
    resources = {"cpu": "1500m", "mem": "1Gi", "gpu": 2, "disk": None}
    run = service.run("serve", wait=True, resources=resources, envs=[{"name": "MKL_NUM_THREADS", "value": "7"}])
    assert variables(run, *threads, "CUDA_VISIBLE_DEVICES") == ["2", "2", "7", "0,1"]
    assert run.to_dict()["spec"]["resources"] == resources
    run.stop()
    run = service.run("serve", wait=True, resources={"gpu": "0", "cpu": 3})
    assert variables(run, threads[0], "CUDA_VISIBLE_DEVICES") == ["3", ""]
    run.stop()
    # Variables of the machine take precedence.
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "4,5")
    run = service.run("serve", wait=True, resources={"gpu": 1, "cpu": 3})
    assert variables(run, threads[0], "CUDA_VISIBLE_DEVICES") == ["3", "4,5"]
    run.stop()


@pytest.mark.parametrize(
    ("resources", "why"),
    [
        (["cpu"], "resources is ['cpu'], expected an object with cpu, mem, gpu or disk"),
        ({"ram": 1}, "resources has no 'ram', only cpu, mem, gpu, disk"),
        ({"cpu": "two"}, "resources.cpu is 'two', expected digits, optionally with a unit such as m or Gi"),
        ({"cpu": True}, "resources.cpu is True, expected digits"),
        ({"mem": "-1Gi"}, "resources.mem is '-1Gi', expected digits"),
    ],
)
def test_d22_invalid_resources_are_rejected(resources: Any, why: str) -> None:
    with pytest.raises(StartupError, match=re.escape(why)):
        function().run("serve", resources=resources)


def test_d22_empty_volumes_are_created_and_shared_ones_read(tmp_path: Path) -> None:
    models, empty = tmp_path / "models", tmp_path / "a" / "empty"
    models.mkdir()
    (models / "greeting").write_text("hello")
    volumes = [
        {"volume_type": "shared_volume", "name": "models", "mount_path": str(models)},
        {"volume_type": "empty_dir", "name": "scratch", "mount_path": str(empty), "spec": {"size_limit": "1Gi"}},
    ]
    expression = f"open({str(models / 'greeting')!r}).read() + str(os.listdir({str(empty)!r}))"
    reader = function("import os\n" + handler_code(expression))
    run = reader.run("serve", wait=True, volumes=volumes)
    assert run.invoke(json=BODY).json()["outputs"][0]["data"] == ["hello[]"]
    assert run.to_dict()["spec"]["volumes"] == volumes
    run.stop()


@pytest.mark.parametrize(
    ("volumes", "why"),
    [
        ("models", "volumes is 'models', expected a list of objects"),
        (["models"], "volumes[0] is 'models', expected an object"),
        ([{}], "volumes[0].volume_type is None, expected one of shared_volume, persistent_volume_claim,"),
        ([{"volume_type": "image"}], "volumes[0].name is None, expected a text"),
        (
            [{"volume_type": "image", "name": "v", "mount_path": "v"}],
            "volumes[0].mount_path is 'v', expected an absolute path",
        ),
        (
            [{"volume_type": "persistent_volume_claim", "name": "v", "mount_path": "/nowhere/at/all"}],
            "volume 'v': /nowhere/at/all does not exist, and local services see the files of their machine",
        ),
        (
            [{"volume_type": "ephemeral", "name": "v", "mount_path": "/proc/v"}],
            "volume 'v' cannot be created at /proc/v: ",
        ),
    ],
)
def test_d22_invalid_volumes_are_rejected(volumes: Any, why: str) -> None:
    with pytest.raises(StartupError, match=re.escape(why)):
        function().run("serve", volumes=volumes)


def test_unknown_parameters_and_actions_are_rejected() -> None:
    with pytest.raises(TypeError, match=r"run\(\) has no parameter 'replica'"):
        function().run("serve", replica=2)
    with pytest.raises(StartupError, match="there is no action 'job', only serve and build"):
        function().run("job")
    with pytest.raises(
        DefinitionError, match=r"spec.parameters: is not known .*; spec.inputs: must have at least one tensor"
    ):
        new_function("f", code=ECHO, handler="handler", parameters={})


def test_exported_functions_are_read_back(tmp_path: Path) -> None:
    made = function(requirements=["numpy"], init_function="init", outputs=TENSORS)
    parsed = read_function(made.export(tmp_path / "function.json"))
    assert replace(parsed, folder=made.spec.folder) == made.spec
    assert as_function(made.to_dict()).spec == made.spec


def test_d15_image_contains_definition_code_and_requirements(tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "main.py").write_text(ECHO)
    made = new_function(
        *("echo",), code_src="src", handler="main:handler", inputs=TENSORS, requirements=["numpy"], base_image="me:1"
    )
    file = made.export(tmp_path / "function.json")
    spec = describe(tmp_path)
    assert (spec.base_image, spec.requirements, spec.serve) == ("me:1", ("numpy",), ("function.json",))
    assert (spec.http_port, spec.grpc_port) == (8080, 9000)
    assert [(one[0].name, one[1]) for one in spec.files] == [("function.json", "function.json"), ("src", "src")]
    # The image contains the packages, so the start installs nothing.
    assert spec.env["PENSTOCK_OPENINFERENCE_ENVIRONMENT"] == "none"
    assert spec.record is not None
    spec.record("p-echo:2")
    assert read_function(file).image == "p-echo:2"


def test_d15_recording_the_image_keeps_comments_of_yaml(tmp_path: Path) -> None:
    text = "# Mine.\nkind: openinference\nname: f\nspec:\n  # Of it.\n  source: {code: x, handler: h}\n"
    text += "  python_version: PYTHON3_11\n  model_name: m\n  inputs: [{shape: [1]}]\n"
    file = tmp_path / "function.yaml"
    file.write_text(text)
    for image in ("a:1", "b:2"):
        record = describe(tmp_path).record
        assert record is not None
        record(image)
        assert read_function(file).image == image
    assert file.read_text() == text.replace("spec:\n", 'spec:\n  image: "b:2"\n')


def test_d15_build_creates_an_image(monkeypatch: pytest.MonkeyPatch) -> None:
    options: dict[str, Any] = {}

    def build(spec: images.ImageSpec, name: str, *, builder: str | None, wheel: str | None) -> None:
        options.update(name=name, builder=builder, wheel=wheel, before=spec.commands_before, env=spec.env)
        assert spec.files[0][0].is_file()
        assert spec.record is not None
        spec.record(f"{name}-made")

    monkeypatch.setattr(images, "build", build)
    made = function(project="My project")
    environment = [{"name": "A", "value": "1"}]
    run = made.run("build", wait=True, instructions=["apt-get update"], envs=environment, builder="buildah", wheel="w")
    assert options["name"] == "my-project-echo:latest"
    assert (options["builder"], options["wheel"], options["before"]) == ("buildah", "w", ("apt-get update",))
    assert options["env"]["A"] == "1"
    assert run.wait().image == "my-project-echo:latest-made"
    # The next run of the function uses the name.
    assert made.spec.image == run.image
    assert made.image_name() == "my-project-echo"


@pytest.mark.parametrize(
    ("image", "name"),
    [("me/it:1", "me/it"), ("host:5000/it", "host:5000/it"), ("host:5000/it:2", "host:5000/it"), ("a:1", "p-f")],
)
def test_d15_image_name_of_a_function(image: str, name: str) -> None:
    made = new_function("f", project="p", code=ECHO, handler="handler", inputs=TENSORS, image=image)
    assert made.image_name() == name


def test_d15_dockerfile_equals_the_golden_file(tmp_path: Path) -> None:
    made = new_function(
        *("f",),
        code=ECHO,
        handler="handler",
        inputs=TENSORS,
        requirements=["scipy==1.14.1"],
        python_version="PYTHON3_12",
    )
    # Same as upstream: base, environment, instructions, packages, then code and user.
    spec = image_spec(made.spec, made.export(tmp_path / "function.json"), ["echo instructions"], {"A": "b c"})
    folder = images.write_context(spec, tmp_path / "context")
    text = (folder / "Dockerfile").read_text().replace(f"penstock=={penstock.__version__}", "penstock==VERSION")
    golden = Path(__file__).parent / "golden" / "function.Dockerfile"
    if os.environ.get("PENSTOCK_WRITE_GOLDEN"):
        golden.write_text(text)
    assert text == golden.read_text()
    assert {one.name for one in folder.iterdir()} == {"Dockerfile", "files", "requirements.txt"}
