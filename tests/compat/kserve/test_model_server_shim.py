"""An unchanged KServe script under `penstock shim kserve`."""

from __future__ import annotations

import re
import signal
import sys
from pathlib import Path

import pytest
from kserve_live import Script

from http_by_hand import get, post
from waiting import until

SHIM = (sys.executable, "-m", "penstock", "shim", "kserve", "--")
SCRIPT = """
import argparse
from typing import Dict, Union

from kserve import InferOutput, InferRequest, InferResponse, Model, ModelServer, logging, model_server
from kserve.utils.utils import generate_uuid, get_predict_input, get_predict_response


class Custom(Model):
    def __init__(self, name: str, factor: int):
        super().__init__(name)
        self.factor = factor
        self.load()

    def load(self):
        self.ready = True

    async def preprocess(self, payload, headers: Dict[str, str] = None):
        return payload

    def predict(self, payload: Union[Dict, InferRequest], headers: Dict[str, str] = None):
        result = get_predict_input(payload) * self.factor
        return get_predict_response(payload, result, self.name)


parser = argparse.ArgumentParser(parents=[model_server.parser])
parser.add_argument("--factor", type=int, default=2, help="Factor of the instances.")
args, _ = parser.parse_known_args()

if __name__ == "__main__":
    if args.configure_logging:
        logging.configure_logging(args.log_config_file)
    model = Custom(args.model_name, args.factor)
    ModelServer().start([model])
"""


@pytest.mark.parametrize("workers", ["1", "2"])
def test_kserve_scripts_run_unchanged(tmp_path: Path, workers: str) -> None:
    flags = ["--model_name=custom", "--factor=3", "--http_port=0", "--grpc_port=0", f"--workers={workers}"]
    file = tmp_path / "script.py"
    with Script(SCRIPT, *flags, "--penstock_host=127.0.0.1", file=file, launcher=SHIM) as running:
        match = until(lambda: re.search(r"Serving HTTP on (127\.0\.0\.1:\d+)", running.text), "the server to start")
        url = f"http://{match[1]}"
        assert get(url, "/v1/models").json() == {"models": ["custom"]}
        response = post(url, "/v1/models/custom:predict", b'{"instances": [[1, 2], [3, 4]]}')
        assert (response.status, response.json()) == (200, {"predictions": [[3, 6], [9, 12]]})
        tensor = b'{"inputs": [{"name": "x", "shape": [2], "datatype": "INT32", "data": [1, 2]}]}'
        response = post(url, "/v2/models/custom/infer", tensor)
        assert (response.status, response.json()["outputs"][0]["data"]) == (200, [3, 6])
        running.signal(signal.SIGTERM)
        assert running.status() == 0
    assert "kserve is served by penstock.compat.kserve in this program" in running.text
