"""Command line: one file for each verb."""
