"""Functions behind the commands: I-22, I-27, I-33."""

from __future__ import annotations

from pathlib import Path

import pytest
from inferless_apps import ANY, app_class, served, tensor, write_app

from penstock import StartupError
from penstock.compat import inferless
from penstock.compat.inferless._examples import curl_command
from penstock.compat.inferless._image import runtime_of_cog
from penstock.compat.inferless._spec.runtime import read_runtime
from penstock.compat.inferless._spec.schema import Schema, Tensor

ECHO = app_class("def infer(self, inputs): return {'y': inputs.get('x', 'nothing')}")
RUNTIME = """
build:
  cuda_version: {cuda}
  system_packages: [libssl-dev, "ffmpeg"]
  python_packages:
    - torch==2.1.0
    - PyYAML==6.0.1
  run:
    - "python -m nltk.downloader punkt"
"""
BASES = {
    "11.8.0": "nvidia/cuda:11.8.0-cudnn8-runtime-ubuntu22.04",
    "12.1.1": "nvidia/cuda:12.1.1-cudnn8-runtime-ubuntu22.04",
    "12.4.1": "nvidia/cuda:12.4.1-cudnn-runtime-ubuntu22.04",
    "12.9.0": "nvidia/cuda:12.9.0-cudnn-runtime-ubuntu24.04",
}


@pytest.mark.parametrize("cuda", BASES)
def test_i22_image_follows_the_runtime_file(tmp_path: Path, cuda: str) -> None:
    home = write_app(tmp_path, ECHO)
    (home / "inferless-runtime-config.yaml").write_text(RUNTIME.format(cuda=cuda))
    image = inferless.describe(home)
    assert image.base_image == BASES[cuda]
    assert image.system_packages == ("libssl-dev", "ffmpeg")
    assert image.requirements == ("torch==2.1.0", "PyYAML==6.0.1")
    assert image.commands_after == ("python -m nltk.downloader punkt",)
    assert image.serve == ("shop",)
    assert image.writable == ("/app/shop",)
    assert image.files == ((home, "shop"),)


def test_i22_image_without_a_runtime_file_is_plain(tmp_path: Path) -> None:
    image = inferless.describe(write_app(tmp_path, ECHO))
    assert (image.base_image, image.requirements, image.commands_after) == (None, (), ())


@pytest.mark.parametrize(
    ("text", "warning"),
    [
        ("build:\n  python_packages:\n  run:\n", None),
        ("build:\n", None),
        ("python_packages: [a]\n", "has no 'build:' above its keys"),
        ("build:\n  colour: red\n", "the key 'colour' is not known"),
        ("build:\n  base_image: debian\n", "base_image must be 'triton' or 'fastapi', not 'debian'"),
        ("build:\n  base_image: fastapi\n  run_commands: [true]\n", None),
    ],
)
def test_i22_unknown_keys_of_the_runtime_file_are_warnings(tmp_path: Path, text: str, warning: str | None) -> None:
    (tmp_path / "runtime.yaml").write_text(text)
    runtime = read_runtime(tmp_path / "runtime.yaml")
    assert runtime.commands == (("true",) if "run_commands" in text else ())
    assert runtime.python_packages == (("a",) if "[a]" in text else ())
    assert [warning in one for one in runtime.warnings if warning] == ([True] if warning else [])


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("build: {cuda_version: 10.0.0}\n", "cuda_version must be one of 11.8.0, 12.1.1, 12.4.1, 12.9.0, not '10.0.0'"),
        ("build: {run: make}\n", "run must be a list, not 'make'"),
        ("build: 3\n", "'build' must hold names with values"),
    ],
)
def test_i22_invalid_runtime_files_are_rejected(tmp_path: Path, text: str, problem: str) -> None:
    (tmp_path / "runtime.yaml").write_text(text)
    with pytest.raises(StartupError, match=problem):
        read_runtime(tmp_path / "runtime.yaml")


def test_i27_valid_app_has_no_problems(tmp_path: Path) -> None:
    assert inferless.check(write_app(tmp_path, ECHO)) == []


@pytest.mark.parametrize(
    ("app", "schema", "problem"),
    [
        ("undefined_thing\nclass InferlessPythonModel: ...\n", ANY, "NameError: name 'undefined_thing' is not defined"),
        (
            app_class("def infer(self, inputs): return {'y': z}"),
            ANY,
            "NameError: name 'z' is not defined (app.py, line 4)",
        ),
        (app_class("def infer(self, inputs): return {'y': None}"), ANY, "output 'y' is None, expected"),
        (app_class("def infer(self): return {}"), ANY, "infer takes no parameter, so it cannot receive"),
        (ECHO, ANY.replace("STRING", "TEXT"), "has the unknown datatype 'TEXT'"),
        (ECHO, 'INPUT_SCHEMA = {"x": {"datatype": "INT8", "shape": [1]}}', "the required input 'x' has no example"),
        (ECHO, ANY + "BATCH_SIZE = 2\n", "'list' object has no attribute 'get'"),
        (ECHO, ANY + "BATCH_SIZE = -2\n", "BATCH_SIZE must be a whole number of 1 or more, not -2"),
        (ECHO, ANY + "BATCH_WINDOW = 'x'\n", "BATCH_WINDOW must be a number of milliseconds, not 'x'"),
        (ECHO, "raise ValueError('dark')\n", "ValueError: dark"),
    ],
)
def test_i27_check_reports_problems(tmp_path: Path, app: str, schema: str, problem: str) -> None:
    (reported,) = inferless.check(write_app(tmp_path, app, schema))
    assert problem in reported


def test_i27_check_runs_streaming_and_batched_examples(tmp_path: Path) -> None:
    streaming = app_class("def infer(self, inputs, handler): handler.send_streamed_output({'y': 1})")
    assert inferless.check(write_app(tmp_path / "a", streaming, ANY + "IS_STREAMING_OUTPUT = True\n")) == []
    batched = app_class("def infer(self, inputs): return [{'y': 1} for _ in inputs]")
    assert inferless.check(write_app(tmp_path / "b", batched, ANY + "BATCH_SIZE = 2\n")) == []


def test_i27_curl_command_sends_the_examples() -> None:
    schema = Schema((Tensor("x", "BYTES", (1,), example="it's"), Tensor("n", "INT8", (2,), example=[1, 2])))
    assert curl_command("shop", schema, key=True) == (
        "curl http://localhost:8000/v2/models/shop/infer \\\n"
        "  -H 'Content-Type: application/json' \\\n"
        '  -H "Authorization: Bearer $INFERLESS_API_KEY" \\\n'
        """  -d '{"inputs": [{"name": "x", "shape": [1], "datatype": "BYTES", "data": ["it'"'"'s"]}, """
        """{"name": "n", "shape": [2], "datatype": "INT8", "data": [1, 2]}]}'"""
    )


def test_i27_curl_commands_of_streams_and_batches() -> None:
    tensors = (Tensor("x", "BYTES", (1,)), Tensor("y", "BYTES", (1,), required=False))
    command = curl_command("shop", Schema(tensors, streaming=True))
    assert command.startswith("curl -N http://localhost:8000/v2/models/shop/generate_stream")
    assert command.endswith("""-d '{"parameters": {"x": "A sample line"}}'""")
    assert '"shape": [1, 1]' in curl_command("shop", Schema(tensors, batch_size=2))


def test_i33_scaffolded_app_runs(tmp_path: Path) -> None:
    home = tmp_path / "words"
    files = inferless.scaffold(home)
    assert [one.name for one in files] == ["app.py", "input_schema.py", "inferless-runtime-config.yaml"]
    assert inferless.scaffold(home) == []
    assert inferless.check(home) == []
    with served(home) as api:
        assert api.data(tensor("text", "BYTES", "The cat sees the dog")) == [2]


def test_i33_cog_file_is_converted_to_a_runtime_file(tmp_path: Path) -> None:
    (tmp_path / "cog.yaml").write_text(
        'build:\n  cuda: "11.6"\n  gpu: true\n  python_packages: ["torch==2.0.1"]\n  run:\n    - echo it\'s\n'
    )
    (tmp_path / "runtime.yaml").write_text(runtime_of_cog(tmp_path / "cog.yaml"))
    runtime = read_runtime(tmp_path / "runtime.yaml")
    assert (runtime.cuda, runtime.python_packages, runtime.commands) == ("11.8.0", ("torch==2.0.1",), ("echo it's",))


def test_i33_remote_functions_run_locally() -> None:
    calls = []

    @inferless.method(gpu="T4")
    def compute(value: int) -> int:
        calls.append(value)
        return value + 1

    assert compute(1) == 2
    assert inferless.local_entry_point(compute) is compute
    assert calls == [1]
