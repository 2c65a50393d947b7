"""Servers side by side: the same models, the same loader, in turns.

Run `python -m benches.load` at the repository's root; README.md in this folder has details.
"""
