"""An Inferless app that hardly computes: what is measured is the way to it."""


class InferlessPythonModel:
    """Twice a number."""

    def initialize(self):
        """Nothing to load."""

    def infer(self, inputs):
        """Twice as much."""
        return {"y": inputs["x"] * 2}

    def finalize(self):
        """Nothing to let go of."""
