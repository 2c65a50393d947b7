"""LitServe with ResNet-50: images as octets, batches of up to 64 that are filled up to allowed sizes, scores in octets.

The arguments are the device, the port, and the numbers of workers and of API servers.
"""

from __future__ import annotations

import sys
from typing import Annotated, Any

import litserve
import numpy as np
import torch
from fastapi import Body, Response

from benches.gpu.network import MAX_ROWS, SHAPE, SIZES, network, padded_to


class Classifier(litserve.LitAPI):
    """The network behind LitServe's interface."""

    def setup(self, device: str) -> None:
        """Loads the network in a worker, and runs each size, in the thread that serves."""
        self.target = "cuda" if device.startswith("cuda") else "cpu"
        self.network = network(self.target)
        for rows in SIZES if self.target == "cuda" else SIZES[:1]:
            for _ in range(2):
                self.predict([np.zeros(SHAPE, np.uint8)] * rows)

    def decode_request(self, request):
        """An image."""
        return np.frombuffer(request, np.uint8).reshape(SHAPE)

    # LitServe passes the annotation on to FastAPI from another module, where a text would have no meaning.
    decode_request.__annotations__["request"] = Annotated[bytes, Body(media_type="application/octet-stream")]

    def batch(self, inputs: list[Any]) -> Any:
        """Images of a batch."""
        return inputs

    def predict(self, x: Any) -> Any:
        """Scores of a batch, which is filled up with its last image to an allowed size."""
        rows = len(x)
        filled = np.stack([*x, *x[-1:] * (padded_to(rows) - rows)])
        return self.network(torch.from_numpy(filled).to(self.target, non_blocking=True)).cpu().numpy()[:rows]

    def unbatch(self, output: Any) -> list[Any]:
        """Scores of each image."""
        return list(output)

    def encode_response(self, output: Any) -> Any:
        """The scores as octets."""
        return Response(content=output.tobytes(), media_type="application/octet-stream")


if __name__ == "__main__":
    accelerator, port, workers, api_servers = sys.argv[1:]
    server = litserve.LitServer(
        Classifier(max_batch_size=MAX_ROWS, batch_timeout=0.002),
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
