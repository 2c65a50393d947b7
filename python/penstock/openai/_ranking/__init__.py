"""Scores of pairs of texts: rerank and score."""
