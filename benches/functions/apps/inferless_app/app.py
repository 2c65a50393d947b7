"""An Inferless app with hardly any work, to measure the overhead of a call."""


class InferlessPythonModel:
    """Twice a number."""

    def initialize(self):
        """Loads nothing."""

    def infer(self, inputs):
        """Returns twice the number."""
        return {"y": inputs["x"] * 2}

    def finalize(self):
        """Releases nothing."""
