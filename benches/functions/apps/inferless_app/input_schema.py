"""Input schema of the app."""

INPUT_SCHEMA = {"x": {"datatype": "FP64", "shape": [1], "required": True, "example": [1.5]}}
