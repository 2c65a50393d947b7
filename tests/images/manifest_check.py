"""Checks manifests against the types of KServe's package; fails on unknown fields.

Run by a Python with KServe's package. The types of both packages are generated from the published API.
"""

from __future__ import annotations

import re
import sys
from typing import Any

import kserve.models
import kubernetes.client.models as kubernetes
import yaml

ROOTS = {
    "Deployment": "V1Deployment",
    "Service": "V1Service",
    "HorizontalPodAutoscaler": "V2HorizontalPodAutoscaler",
    "ServingRuntime": "V1alpha1ServingRuntime",
    "InferenceService": "V1beta1InferenceService",
}
SIMPLE = {"str": str, "int": int, "bool": bool, "float": float, "object": object, "datetime": str}


def check(value: Any, kind: str, path: str) -> None:
    if inner := re.fullmatch(r"(?i:list)\[(.+)\]", kind):
        assert isinstance(value, list), f"{path}: expected a list"
        for number, one in enumerate(value):
            check(one, inner[1], f"{path}[{number}]")
    elif inner := re.fullmatch(r"(?i:dict)[(\[](.+?), (.+)[)\]]", kind):
        for key, one in value.items():
            check(one, inner[2], f"{path}.{key}")
    elif kind in SIMPLE:
        fits = isinstance(value, SIMPLE[kind]) and (kind == "bool") == isinstance(value, bool)
        assert fits or kind == "object", f"{path}: {value!r} is not of type {kind}"
    else:
        type_ = getattr(kserve.models, kind, None) or getattr(kubernetes, kind)
        names = {field: name for name, field in type_.attribute_map.items()}
        assert isinstance(value, dict), f"{path}: expected a table"
        for key, one in value.items():
            assert key in names, f"{path}: there is no field {key!r} in {kind}"
            check(one, type_.openapi_types[names[key]], f"{path}.{key}")
        # The constructor refuses missing required fields and values out of range.
        type_(**{names[key]: one for key, one in value.items()})


for document in yaml.safe_load_all(sys.stdin):
    check(document, ROOTS[document["kind"]], document["kind"])
    print(f"{document['kind']} {document['metadata']['name']}")
