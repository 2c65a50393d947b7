# A JPEG in, a score of each kind out: the photos of up to 16 requests share a call of an ONNX model.

import numpy as np
import onnxruntime
from PIL import Image

from penstock import Batching, model

session = onnxruntime.InferenceSession("photo.onnx")


@model(batching=Batching(max_size=16))
def photo(image: list[Image.Image]) -> list[dict[str, float]]:
    """Scores each photo as a temple and as a flower."""
    pixels = np.stack([one.convert("RGB").resize((32, 32)) for one in image], dtype=np.float32, casting="unsafe")
    return [{"temple": low, "flower": high} for low, high in session.run(None, {"pixels": pixels})[0].tolist()]
