"""The vendor's unmodified client, and Penstock's: I-20, I-26, I-30."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from inferless_apps import app_class, live, write_app

from penstock.compat import inferless

REPOSITORY = Path(__file__).resolve().parents[3]
VENDOR_PYTHON = Path(os.environ.get("PENSTOCK_TEST_TOOLS") or REPOSITORY / ".tools") / "inferless" / "bin" / "python"
CALLS = Path(__file__).parent / "client_calls.py"
SCHEMA = """
INPUT_SCHEMA = {
    "prompt": {"datatype": "STRING", "shape": [1], "required": False},
    "count": {"datatype": "INT32", "shape": [1], "required": False},
    "scale": {"datatype": "FP32", "shape": [1], "required": False},
    "flag": {"datatype": "BOOL", "shape": [1], "required": False},
    "words": {"datatype": "STRING", "shape": [-1], "required": False},
}
"""
ECHO = app_class("def infer(self, inputs):\n    import json\n    return {'inputs': json.dumps(inputs)}")
ALL = {"prompt": "hi", "count": 3, "scale": 0.5, "flag": True, "words": ["a", "b"]}


def call_vendor(url: str, call: str, *key: str) -> Any:
    """Returns the result of a call of the vendor's client."""
    if not VENDOR_PYTHON.exists():
        pytest.skip("inferless is not installed; python tests/clients/setup_tools.py inferless fetches it")
    known = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    command = [str(VENDOR_PYTHON), "-W", "ignore", str(CALLS), url, call, *key]
    done = subprocess.run(command, env=known, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def inputs_of(response: Any) -> Any:
    return json.loads(response["outputs"][0]["data"][0])


def test_i20_vendor_client_calls(tmp_path: Path) -> None:
    with live(write_app(tmp_path, ECHO, SCHEMA)) as url:
        assert inputs_of(call_vendor(f"{url}/infer", "call")) == ALL
        assert inputs_of(call_vendor(f"{url}/versions/1/infer", "call")) == ALL
        ((error, response),) = call_vendor(f"{url}/infer", "call_async")
        assert (error, inputs_of(response)) == ("None", {"prompt": "hi"})
        ((error, response),) = call_vendor(f"{url}/infer", "fails")
        assert 'with status code 400 and response {"error":"unexpected input \'other\'' in error
        assert response is None


def test_i20_vendor_client_sends_batches(tmp_path: Path) -> None:
    app = app_class("def infer(self, inputs): return [{'y': one['prompt']} for one in inputs]")
    with live(write_app(tmp_path, app, SCHEMA + "BATCH_SIZE = 2\nBATCH_WINDOW = 1\n")) as url:
        (output,) = call_vendor(f"{url}/infer", "batch")["outputs"]
        assert (output["shape"], output["data"]) == ([1, 1], ["hi"])
        (error, response) = call_vendor(f"{url}/infer", "call_async")[0]
        assert (error, response["outputs"][0]["data"]) == ("None", ["hi"])


def test_i20_vendor_client_without_arguments(tmp_path: Path) -> None:
    with live(write_app(tmp_path, ECHO, SCHEMA)) as url:
        assert inputs_of(call_vendor(f"{url}/infer", "nothing")) == {}


def test_i20_penstocks_client_behaves_like_the_vendors(tmp_path: Path) -> None:
    with live(write_app(tmp_path, ECHO, SCHEMA)) as url:
        assert inputs_of(inferless.call(f"{url}/infer", data=ALL)) == ALL
        results: list[Any] = []
        inferless.call_async(f"{url}/infer", data=ALL, callback=lambda *one: results.append(one)).join()
        assert results[0][0] is None
        assert inputs_of(results[0][1]) == ALL
        with pytest.raises(RuntimeError, match="with status code 400 and response"):
            inferless.call(f"{url}/infer", data={"other": "hi"})
        with pytest.raises(ValueError, match="give data or inputs, not both"):
            inferless.call(url, data={}, inputs={})


def test_i26_missing_and_wrong_keys_are_rejected(tmp_path: Path) -> None:
    with live(write_app(tmp_path, ECHO, SCHEMA), api_key="s3cret") as url:
        assert inputs_of(call_vendor(f"{url}/infer", "call", "s3cret")) == ALL
        assert inputs_of(inferless.call(f"{url}/infer", "s3cret", data=ALL)) == ALL
        for key in (None, "other"):
            with pytest.raises(RuntimeError, match=r"status code 401 and response \{\"error\": \"the key is missing"):
                inferless.call(f"{url}/infer", key, data=ALL)


CHAT = """
INPUT_SCHEMA = {
    "message": {"datatype": "STRING", "shape": [1]},
    "temperature": {"datatype": "FP32", "shape": [1], "required": False},
    "top_k": {"datatype": "INT16", "shape": [1], "required": False},
    "do_sample": {"datatype": "BOOL", "shape": [1], "required": False},
    "stop": {"datatype": "STRING", "shape": [1], "required": False},
}
"""


def test_i30_vendor_openai_client(tmp_path: Path) -> None:
    with live(write_app(tmp_path, ECHO, CHAT)) as url:
        inputs = inputs_of(call_vendor(f"{url}/infer", "openai"))
    assert json.loads(inputs.pop("message")) == [{"role": "user", "content": "hi"}]
    assert inputs == {"temperature": 0.5, "top_k": 3, "do_sample": True, "stop": "x"}
