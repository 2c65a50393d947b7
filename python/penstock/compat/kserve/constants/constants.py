"""Constants of KServe's scripts and clients."""

from __future__ import annotations

import os
from enum import Enum

# The control plane's resources.
KSERVE_GROUP = "serving.kserve.io"
KSERVE_KIND = KSERVE_KIND_INFERENCESERVICE = "InferenceService"
KSERVE_PLURAL = KSERVE_PLURAL_INFERENCESERVICE = "inferenceservices"
KSERVE_KIND_TRAINEDMODEL = "TrainedModel"
KSERVE_PLURAL_TRAINEDMODEL = "trainedmodels"
KSERVE_KIND_INFERENCEGRAPH = "InferenceGraph"
KSERVE_PLURAL_INFERENCEGRAPH = "inferencegraphs"
KSERVE_KIND_LOCALMODELNODEGROUP = "LocalModelNodeGroup"
KSERVE_PLURAL_LOCALMODELNODEGROUP = "localmodelnodegroups"
KSERVE_KIND_LOCALMODELCACHE = "LocalModelCache"
KSERVE_PLURAL_LOCALMODELCACHE = "localmodelcaches"
KSERVE_KIND_LOCALMODELNODE = "LocalModelNode"
KSERVE_PLURAL_LOCALMODELNODE = "localmodelnodes"
KSERVE_KIND_LOCALMODELNAMESPACECACHE = "LocalModelNamespaceCache"
KSERVE_PLURAL_LOCALMODELNAMESPACECACHE = "localmodelnamespacecaches"
KSERVE_V1BETA1_VERSION = "v1beta1"
KSERVE_V1ALPHA1_VERSION = "v1alpha1"
KSERVE_V1ALPHA2_VERSION = "v1alpha2"
KSERVE_V1BETA1 = f"{KSERVE_GROUP}/{KSERVE_V1BETA1_VERSION}"
KSERVE_V1ALPHA1 = f"{KSERVE_GROUP}/{KSERVE_V1ALPHA1_VERSION}"
KSERVE_V1ALPHA2 = f"{KSERVE_GROUP}/{KSERVE_V1ALPHA2_VERSION}"
INFERENCESERVICE_CONFIG_MAP_NAME = "inferenceservice-config"
INFERENCESERVICE_SYSTEM_NAMESPACE = "kserve"
OBSERVED_GENERATION = "observedGeneration"
GENERATION = "generation"

# Credentials of model stores.
DEFAULT_SECRET_NAME = "kserve-secret-"  # noqa: S105 - the beginning of a resource's name
DEFAULT_SA_NAME = "kserve-service-credentials"
S3_ACCESS_KEY_ID_DEFAULT_NAME = "AWS_ACCESS_KEY_ID"
S3_SECRET_ACCESS_KEY_DEFAULT_NAME = "AWS_SECRET_ACCESS_KEY"  # noqa: S105 - a variable's name
S3_DEFAULT_CREDS_FILE = "~/.aws/credentials"
GCS_CREDS_FILE_DEFAULT_NAME = "gcloud-application-credentials.json"
GCS_DEFAULT_CREDS_FILE = "~/.config/gcloud/application_default_credentials.json"
AZ_DEFAULT_CREDS_FILE = "~/.azure/azure_credentials.json"

# Serving.
KSERVE_LOGLEVEL = os.environ.get("KSERVE_LOGLEVEL", "INFO").upper()
KSERVE_MODEL_SERVER_NAME = "kserve"
EXPLAINER_BASE_URL_FORMAT = "{0}://{1}"
V1_ROUTE_PREFIX = "/v1"
V2_ROUTE_PREFIX = "/v2"
DEFAULT_HTTP_PORT = 8080
DEFAULT_HTTPS_PORT = 8443
DEFAULT_GRPC_PORT = 8081
KSERVE_TLS_CERT_FILE_ENV = "KSERVE_TLS_CERT_FILE"
KSERVE_TLS_KEY_FILE_ENV = "KSERVE_TLS_KEY_FILE"
MAX_GRPC_MESSAGE_LENGTH = 8 * 1024 * 1024
INFERENCE_CONTENT_LENGTH_HEADER = "inference-header-content-length"
LLM_STATS_KEY = "llm-stats"

GRPC_CONTENT_DATATYPE_MAPPINGS = {
    "BOOL": "bool_contents",
    "INT8": "int_contents",
    "INT16": "int_contents",
    "INT32": "int_contents",
    "INT64": "int64_contents",
    "UINT8": "uint_contents",
    "UINT16": "uint_contents",
    "UINT32": "uint_contents",
    "UINT64": "uint64_contents",
    "FP32": "fp32_contents",
    "FP64": "fp64_contents",
    "BYTES": "bytes_contents",
}
"""The field of `InferTensorContents` for each datatype. FP16 has none: it travels raw."""


class PredictorProtocol(Enum):
    """Protocols between a transformer and its predictor."""

    REST_V1 = "v1"
    REST_V2 = "v2"
    GRPC_V2 = "grpc-v2"


class ModelType(Enum):
    """Component of an inference service that a model is."""

    EXPLAINER = 1
    PREDICTOR = 2
