"""Definitions of functions: files, formats, validation and requirements."""
