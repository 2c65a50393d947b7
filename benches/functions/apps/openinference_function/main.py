"""An Open Inference function with hardly any work."""


def handler(request):
    """Returns twice the number."""
    value = request.inputs[0].data[0]
    return {"outputs": [{"name": "y", "datatype": "FP64", "shape": [1], "data": [value * 2]}]}
