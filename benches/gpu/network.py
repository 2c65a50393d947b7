"""ResNet-50 with random weights in bfloat16 and `channels_last`: images to scores of 1,000 classes."""

from __future__ import annotations

import threading
from functools import lru_cache
from typing import Any

import numpy as np
import torch
import torchvision

SHAPE = (3, 224, 224)
CLASSES = 1000
DATATYPES = {"UINT8": np.uint8, "FP16": np.float16}
MAX_ROWS = 64
BATCHES = (8, 32, MAX_ROWS)
SIZES = (1, 2, 4, 8, 16, 24, 32, 48, MAX_ROWS)
"""Allowed sizes of batches, where others are filled up to the next one."""
_LOCK = threading.Lock()


class Network:
    """The network with the normalisation of images on a device."""

    def __init__(self, device: str) -> None:
        torch.manual_seed(0)
        self.device = device
        module = torchvision.models.resnet50() if device == "cuda" else torchvision.models.resnet18()
        self.module = module.eval().to(device, torch.bfloat16, memory_format=torch.channels_last)
        self._mean = torch.tensor([0.485, 0.456, 0.406], device=device, dtype=torch.bfloat16).view(1, 3, 1, 1)
        self._scale = torch.tensor([0.229, 0.224, 0.225], device=device, dtype=torch.bfloat16).view(1, 3, 1, 1)

    @torch.inference_mode()
    def __call__(self, images: torch.Tensor) -> torch.Tensor:
        """Scores of images on the device: UINT8 from 0 to 255, or floats from 0 to 1."""
        is_integer = images.dtype == torch.uint8
        images = images.to(dtype=torch.bfloat16, memory_format=torch.channels_last)
        if is_integer:
            images = images / 255
        return self.module((images - self._mean) / self._scale).float()


def network(device: str) -> Network:
    """The network of this process, which all threads share."""
    with _LOCK:
        return _made(device)


@lru_cache(maxsize=1)
def _made(device: str) -> Network:
    return Network(device)


def padded_to(rows: int) -> int:
    """The smallest allowed size for this many rows."""
    return next(size for size in SIZES if size >= rows)


def images(rows: int, datatype: str) -> np.ndarray[Any, Any]:
    """Random images of a datatype of the protocol."""
    drawn = np.random.default_rng(7).integers(0, 256, (rows, *SHAPE), np.uint8)
    return drawn if datatype == "UINT8" else (drawn / np.float32(255)).astype(np.float16)
