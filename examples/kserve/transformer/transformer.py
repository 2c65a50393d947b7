"""The transformer: decodes base64 pictures, calls the predictor, and names the result.

The predictor is given by flags, like in a pod: `--predictor_host localhost:8080 --predictor_protocol v1`.
"""

import argparse
import base64

from kserve import Model, ModelServer, model_server
from kserve.model import PredictorConfig


class Pictures(Model):
    """Does not override `predict`, which calls the predictor."""

    async def preprocess(self, payload, headers=None):
        """Converts the bytes of a picture to numbers between 0 and 1."""
        pictures = [base64.b64decode(one["image"]["b64"]) for one in payload["instances"]]
        return {"instances": [[pixel / 255 for pixel in picture] for picture in pictures]}

    async def postprocess(self, result, headers=None):
        """Returns a word for each number."""
        return {"predictions": ["bright" if mean > 0.5 else "dark" for mean in result["predictions"]]}


def make(args):
    """Creates the model; KServe 0.13 needs the predictor's configuration, later versions find it themselves."""
    try:
        from kserve import PredictorConfig as _  # noqa: F401 - only later versions have it there
    except ImportError:
        return Pictures(args.model_name, PredictorConfig(args.predictor_host, args.predictor_protocol))
    return Pictures(args.model_name)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(parents=[model_server.parser])
    args, _ = parser.parse_known_args()
    model = make(args)
    model.load()
    ModelServer().start([model])
