"""Tells how often each word is in a text."""


class InferlessPythonModel:
    """Loaded once; `infer` is called for each request."""

    def initialize(self):
        """Loads what `infer` needs; weights, in other apps."""
        self.ends = ".,;:!?"

    def infer(self, inputs):
        """The words that are most frequent, and how often they are there."""
        words = [word.strip(self.ends).lower() for word in inputs["text"].split()]
        counts = {word: words.count(word) for word in words}
        first = sorted(counts, key=lambda word: (-counts[word], word))[: inputs.get("count", 3)]
        return {"words": first, "counts": [counts[word] for word in first]}

    def finalize(self, args=None):
        """Lets go of what was loaded."""
