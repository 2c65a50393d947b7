"""MLServer: settings for a temporary folder, and `mlserver start` there."""

from __future__ import annotations

import json
import os
import sys
import tempfile
from pathlib import Path

import models

HERE = Path(__file__).parent


def main() -> None:
    """Writes the settings and becomes the server."""
    root = Path(tempfile.mkdtemp(prefix="bench-mlserver-"))
    settings = {
        "debug": False,
        "host": "127.0.0.1",
        "http_port": models.PORT,
        "grpc_port": models.GRPC_PORT,
        "metrics_port": models.METRICS_PORT,
        "grpc_max_message_length": 256 << 20,
        "parallel_workers": 1,
    }
    (root / "settings.json").write_text(json.dumps(settings))
    for name in models.NAMES:
        own = {"name": name, "implementation": "mlserver_runtime.Served"}
        if models.batched(name):
            own |= {"max_batch_size": models.MAX_BATCH, "max_batch_time": models.DELAY_SECONDS}
        (root / name).mkdir()
        (root / name / "model-settings.json").write_text(json.dumps(own))
    os.environ["PYTHONPATH"] = str(HERE)
    os.chdir(root)
    executable = str(Path(sys.executable).with_name("mlserver"))
    os.execv(executable, [executable, "start", str(root)])


if __name__ == "__main__":
    main()
