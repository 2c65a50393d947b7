"""A function of Open Inference that hardly computes."""


def handler(request):
    """Twice as much."""
    value = request.inputs[0].data[0]
    return {"outputs": [{"name": "y", "datatype": "FP64", "shape": [1], "data": [value * 2]}]}
