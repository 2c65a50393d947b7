"""CUDA graphs of the network for some batch sizes, with pinned memory for images and scores."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch

from benches.gpu.network import CLASSES, SHAPE, Network


class Graphs:
    """A graph for each size. They share memory, so one call may run at a time.

    They are captured in the thread that calls: cuDNN's plans, which the first run makes, belong to a thread.
    """

    def __init__(self, net: Network, sizes: Iterable[int]) -> None:
        ordered = sorted(sizes, reverse=True)
        largest = ordered[0]
        self._stream = torch.cuda.Stream()
        self._device_images = torch.zeros((largest, *SHAPE), dtype=torch.uint8, device="cuda")
        self._host_images = torch.zeros((largest, *SHAPE), dtype=torch.uint8, pin_memory=True)
        self._host_scores = torch.zeros((largest, CLASSES), dtype=torch.float32, pin_memory=True)
        self.images: Any = self._host_images.numpy()
        """Pinned memory for the images of the next call."""
        self.scores: Any = self._host_scores.numpy()
        """Pinned memory with the scores of the last call."""
        pool = torch.cuda.graph_pool_handle()
        # The largest is captured first, so that the others find enough memory in the pool.
        self._graphs = {rows: self._captured(net, rows, pool) for rows in ordered}

    def run(self, rows: int) -> None:
        """Computes the scores of as many images, for one of the sizes."""
        graph, scores = self._graphs[rows]
        with torch.cuda.stream(self._stream):
            self._device_images[:rows].copy_(self._host_images[:rows], non_blocking=True)
            graph.replay()
            self._host_scores[:rows].copy_(scores, non_blocking=True)
        self._stream.synchronize()

    def _captured(self, net: Network, rows: int, pool: Any) -> tuple[torch.cuda.CUDAGraph, torch.Tensor]:
        images = self._device_images[:rows]
        self._stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self._stream):
            for _ in range(2):
                net(images)
        self._stream.synchronize()
        graph = torch.cuda.CUDAGraph()
        # Other threads of a server may allocate and synchronise meanwhile.
        with torch.cuda.graph(graph, pool=pool, stream=self._stream, capture_error_mode="thread_local"):
            scores = net(images)
        return graph, scores
