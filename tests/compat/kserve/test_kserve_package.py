"""The package: names, lazy imports, refused names and dialects."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys

import pytest

from penstock.compat import kserve
from penstock.compat.kserve import dialect


def test_package_import_loads_no_submodules() -> None:
    code = (
        "import sys; import penstock.compat.kserve as kserve;"
        "wanted = ('numpy.', 'logging.config', 'asyncio', 'penstock.compat.kserve.');"
        "before = set(sys.modules);"
        "assert not [name for name in before if name.startswith('penstock.compat.kserve.')], before;"
        "kserve.InferInput('x', [1], 'FP32', [1])"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_modules_are_attributes_without_being_imported() -> None:
    code = (
        "import penstock.compat.kserve as kserve;"
        "assert kserve.utils.generate_uuid(); assert kserve.utils.utils.generate_uuid();"
        "assert kserve.constants.DEFAULT_HTTP_PORT == kserve.constants.constants.DEFAULT_HTTP_PORT == 8080;"
        "assert kserve.errors.InvalidInput and kserve.logging.logger and kserve.protocol"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_all_exported_names_exist() -> None:
    for name in kserve.__all__:
        assert getattr(kserve, name) is not None
    names: dict[str, object] = {}
    exec("from penstock.compat.kserve import *", names)
    assert set(kserve.__all__) <= set(names)
    for name in kserve._SUBMODULES:
        assert getattr(kserve, name).__name__ == f"penstock.compat.kserve.{name}"


@pytest.mark.parametrize(
    "name",
    [
        *("KServeClient", "ApiClient", "Configuration", "OpenApiException", "ApiTypeError", "ApiException"),
        *(
            "KnativeCondition",
            "models",
            "api_client",
            "V1beta1InferenceService",
            "V1alpha1InferenceGraph",
            "V1beta1PredictorSpec",
        ),
    ],
)
def test_kubernetes_client_names_are_refused(name: str) -> None:
    with pytest.raises(
        ImportError, match=f"^{name} belongs to KServe's Kubernetes client, which penstock.compat.kserve"
    ):
        getattr(kserve, name)
    with pytest.raises(ImportError, match=r"import it from the package kserve$"):
        exec(f"from penstock.compat.kserve import {name}")


def test_unknown_names_are_rejected() -> None:
    assert not hasattr(kserve, "Nothing")
    with pytest.raises(ImportError, match="cannot import name 'Nothing'"):
        exec("from penstock.compat.kserve import Nothing")
    with pytest.raises(AttributeError, match=r"^module 'penstock.compat.kserve.utils' has no attribute 'nothing'$"):
        _ = kserve.utils.nothing


def test_constants_package_exports_module_constants() -> None:
    module = importlib.import_module("penstock.compat.kserve.constants.constants")
    assert kserve.constants.PredictorProtocol is module.PredictorProtocol
    assert [one.value for one in module.PredictorProtocol] == ["v1", "v2", "grpc-v2"]
    assert module.KSERVE_V1BETA1 == "serving.kserve.io/v1beta1"
    assert module.INFERENCE_CONTENT_LENGTH_HEADER == "inference-header-content-length"


def test_default_dialect_is_0_21(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(dialect.VARIABLE, raising=False)
    monkeypatch.setattr(dialect, "_chosen", None)
    assert (dialect.current(), dialect.is_old()) == ("0.21", False)
    monkeypatch.setattr(dialect, "_chosen", None)
    monkeypatch.setenv(dialect.VARIABLE, "0.13")
    assert (dialect.current(), dialect.is_old()) == ("0.13", True)
    dialect.use("0.21")
    assert (dialect.current(), os.environ[dialect.VARIABLE]) == ("0.21", "0.21")


def test_unknown_dialects_are_rejected() -> None:
    with pytest.raises(ValueError, match=r"^dialect: got '0\.14', expected one of 0\.13, 0\.21$"):
        dialect.use("0.14")
