"""Counts the words of a text."""


class InferlessPythonModel:
    """Loaded once; `infer` is called for each request."""

    def initialize(self):
        """Loads what `infer` needs, such as weights."""
        self.ends = ".,;:!?"

    def infer(self, inputs):
        """Returns the most frequent words and their counts."""
        words = [word.strip(self.ends).lower() for word in inputs["text"].split()]
        counts = {word: words.count(word) for word in words}
        first = sorted(counts, key=lambda word: (-counts[word], word))[: inputs.get("count", 3)]
        return {"words": first, "counts": [counts[word] for word in first]}

    def finalize(self, args=None):
        """Releases what `initialize` loaded."""
