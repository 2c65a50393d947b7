"""The transformer: takes pictures as base64, asks the predictor, and names what came out.

It is told where the predictor is as a pod is told: `--predictor_host localhost:8080 --predictor_protocol v1`.
"""

import argparse
import base64

from kserve import Model, ModelServer, model_server
from kserve.model import PredictorConfig


class Pictures(Model):
    """Has no `predict` of its own: that goes to the predictor."""

    async def preprocess(self, payload, headers=None):
        """Bytes of a picture, as numbers between 0 and 1."""
        pictures = [base64.b64decode(one["image"]["b64"]) for one in payload["instances"]]
        return {"instances": [[pixel / 255 for pixel in picture] for picture in pictures]}

    async def postprocess(self, result, headers=None):
        """A word for each number."""
        return {"predictions": ["bright" if mean > 0.5 else "dark" for mean in result["predictions"]]}


def make(args):
    """KServe up to 0.13 hands a transformer its predictor; newer ones find it themselves."""
    try:
        from kserve import PredictorConfig as _  # noqa: F401 only newer ones have it there
    except ImportError:
        return Pictures(args.model_name, PredictorConfig(args.predictor_host, args.predictor_protocol))
    return Pictures(args.model_name)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(parents=[model_server.parser])
    args, _ = parser.parse_known_args()
    model = make(args)
    model.load()
    ModelServer().start([model])
