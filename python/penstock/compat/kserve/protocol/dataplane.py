"""`DataPlane`: metadata and readiness of a server and its models, and direct calls of models."""

from __future__ import annotations

import inspect
from typing import Any

import penstock
from penstock.compat.kserve import context
from penstock.compat.kserve._model.health import is_ready
from penstock.compat.kserve.constants.constants import KSERVE_MODEL_SERVER_NAME
from penstock.compat.kserve.errors import ModelNotFound
from penstock.compat.kserve.model import InferenceModel, InferenceVerb, PredictorConfig
from penstock.compat.kserve.model_repository import ModelRepository

__all__ = ["DataPlane"]


class DataPlane:
    """The models of a repository, for the server's routes.

    Args:
        model_registry: The repository.
        predictor_config: The predictor of the models; by default this process's.
    """

    def __init__(self, model_registry: ModelRepository, predictor_config: PredictorConfig | None = None) -> None:
        self._model_registry, self._predictor_config = model_registry, predictor_config
        self._server_name = KSERVE_MODEL_SERVER_NAME
        self._server_version = penstock.__version__

    @property
    def model_registry(self) -> ModelRepository:
        """The repository."""
        return self._model_registry

    @property
    def predictor_config(self) -> PredictorConfig | None:
        """The predictor of all models."""
        return self._predictor_config or context.get_predictor_config()

    def get_model_from_registry(self, name: str) -> Any:
        """Returns the model of a name.

        Raises:
            ModelNotFound: the repository has no such model.
        """
        model = self._model_registry.get_model(name)
        if model is None:
            raise ModelNotFound(name)
        return model

    async def get_model(self, name: str) -> Any:
        """Returns the model of a name, after calling its `load` if it is not ready.

        Raises:
            ModelNotFound: the repository has no such model.
        """
        model = self.get_model_from_registry(name)
        if not await is_ready(self._model_registry, name):
            model.load()
        return model

    @staticmethod
    async def live() -> dict[str, str]:
        """Returns `{"status": "alive"}`."""
        return {"status": "alive"}

    def metadata(self) -> dict[str, Any]:
        """Returns the server's name, version and extensions."""
        return {
            "name": self._server_name,
            "version": self._server_version,
            "extensions": ["model_repository_extension"],
        }

    async def model_metadata(self, model_name: str) -> dict[str, Any]:
        """Returns a model's name, platform, inputs and outputs.

        Raises:
            ModelNotFound: the repository has no such model.
        """
        model = self.get_model_from_registry(model_name)
        types = []
        for name in ("get_input_types", "get_output_types"):
            found = getattr(model, name)() if isinstance(model, InferenceModel) else []
            types.append(await found if inspect.isawaitable(found) else found)
        return {"name": model_name, "platform": "", "inputs": types[0], "outputs": types[1]}

    async def ready(self) -> bool:
        """Returns whether the server is ready: always, unless its predictor is checked."""
        config = self._checked_predictor()
        if config is None:
            return True
        from penstock.compat.kserve.protocol import _predictor_health

        return await _predictor_health.server(config)

    async def model_ready(self, model_name: str, disable_predictor_health_check: bool = False) -> bool:
        """Returns whether a model is ready.

        Args:
            model_name: The model's name.
            disable_predictor_health_check: Whether to skip the check of the predictor.

        Raises:
            ModelNotFound: the repository has no such model.
        """
        self.get_model_from_registry(model_name)
        config = self._checked_predictor()
        if config is not None and not disable_predictor_health_check:
            from penstock.compat.kserve.protocol import _predictor_health

            return await _predictor_health.model(config, model_name)
        return await is_ready(self._model_registry, model_name)

    async def infer(self, model_name: str, request: Any, headers: dict[str, str] | None = None) -> Any:
        """Returns a model's response, as `Model.__call__` does."""
        return await (await self.get_model(model_name))(request, headers=headers)

    async def explain(self, model_name: str, request: Any, headers: dict[str, str] | None = None) -> Any:
        """Returns a model's explanation, as `Model.__call__` does."""
        return await (await self.get_model(model_name))(request, headers=headers, verb=InferenceVerb.EXPLAIN)

    def _checked_predictor(self) -> PredictorConfig | None:
        config = self.predictor_config
        return config if config is not None and config.predictor_health_check else None
