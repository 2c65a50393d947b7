INPUT_SCHEMA = {
    "text": {
        "datatype": "STRING",
        "required": True,
        "shape": [1],
        "example": ["The cat sees the dog, and the dog sees the cat."],
    },
    "count": {"datatype": "INT16", "required": False, "shape": [1], "example": [2]},
}
