"""LitServe with ResNet-50: images as base64 in JSON, batches of up to 64, scores in octets.

The arguments are the device, the port, and the numbers of workers and of API servers.
"""

from __future__ import annotations

import base64
import sys
from typing import Any

import litserve
import numpy as np
import torch
from fastapi import Response

from benches.gpu.network import SHAPE, network


class Classifier(litserve.LitAPI):
    """The network behind LitServe's interface."""

    def setup(self, device: str) -> None:
        """Loads the network in a worker."""
        self.target = "cuda" if device.startswith("cuda") else "cpu"
        self.network = network(self.target)

    def decode_request(self, request):
        """An image."""
        # Without an annotation, for which LitServe would expect a query parameter.
        return np.frombuffer(base64.b64decode(request["inputs"][0]["b64"]), np.uint8).reshape(SHAPE)

    def batch(self, inputs: list[Any]) -> Any:
        """Images of a batch."""
        return np.stack(inputs)

    def predict(self, x: Any) -> Any:
        """Scores of a batch."""
        return self.network(torch.from_numpy(x).to(self.target, non_blocking=True)).cpu().numpy()

    def unbatch(self, output: Any) -> list[Any]:
        """Scores of each image."""
        return list(output)

    def encode_response(self, output: Any) -> Any:
        """The scores as octets."""
        return Response(content=output.tobytes(), media_type="application/octet-stream")


if __name__ == "__main__":
    accelerator, port, workers, api_servers = sys.argv[1:]
    server = litserve.LitServer(
        Classifier(max_batch_size=64, batch_timeout=0.002),
        accelerator=accelerator,
        devices=1,
        workers_per_device=int(workers),
        timeout=60,
        fast_queue=True,
    )
    server.run(
        host="127.0.0.1",
        port=int(port),
        num_api_servers=int(api_servers),
        generate_client_file=False,
        log_level="error",
        access_log=False,
    )
