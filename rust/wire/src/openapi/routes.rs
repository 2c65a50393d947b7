//! Every REST route in one table. The house tests compare it with the routers and with docs/protocol.md:
//! a new route is added to all three.

/// What a request's body is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Takes {
    /// There is none.
    Nothing,
    /// An inference request of the path's model: described once for each model, by its own schema.
    Inference,
    /// The same, answered any number of times.
    InferStream,
    /// One flat JSON object for the path's model.
    Generate,
    /// The same, answered any number of times.
    GenerateStream,
    /// Instances of the path's model in V1's form, likewise.
    Predict,
    /// The same, of models that have an explainer.
    Explain,
    /// JSON of a schema in `schemas.json`. An empty body stands for `{}`.
    Json(&'static str),
}

/// What a successful answer's body is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gives {
    /// JSON of a schema in `schemas.json`.
    Json(&'static str),
    /// Text of this media type.
    Text(&'static str),
    /// An answer of the path's model.
    OfModel,
}

/// One method of one path.
#[derive(Clone, Copy, Debug)]
pub struct Route {
    /// `get` or `post`.
    pub method: &'static str,
    /// As the router has it, with `{model}` and `{version}`.
    pub path: &'static str,
    /// The group that it is listed in.
    pub tag: &'static str,
    /// A name for generated clients; that of the path without a version ends where `_version` is added.
    pub id: &'static str,
    /// What it does, in a line.
    pub summary: &'static str,
    /// What is sent.
    pub takes: Takes,
    /// What is answered.
    pub gives: Gives,
    /// Whether 503 carries the same body, with the reason in it.
    pub may_be_unready: bool,
}

/// The group of the routes that models declare themselves.
pub(super) const MODEL_ROUTES: &str = "routes of models";

/// The groups, with what is in them.
pub(super) const TAGS: &[(&str, &str)] = &[
    ("inference", "Ask a model. Each model has its own path and its own schema."),
    ("models", "What a model takes and gives, and whether it takes requests."),
    ("server", "The server as a whole."),
    ("repository", "Load and unload models, where the server lets clients do so."),
    ("shared memory", "Tensors that no body carries, for callers on the same machine where that is allowed."),
    ("v1", "KServe's V1 protocol, which is TensorFlow Serving's REST form."),
    (
        MODEL_ROUTES,
        "Paths of models' own. Each hands its request to the model as it is, and the model says what is answered.",
    ),
    ("documentation", "This document, and a page made of it."),
];

const HTML: &str = "text/html; charset=utf-8";
const OPENMETRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Every REST route.
pub const ROUTES: &[Route] = &[
    get("/v2").called("server_metadata", "server", "The server's name, version and extensions").json("ServerMetadata"),
    get("/v2/health/live").called("server_live", "server", "Whether the server runs").json("Live"),
    get("/v2/health/ready").called("server_ready", "server", "Whether all models are loaded").json("Ready").unready(),
    get("/v2/models").called("models", "models", "The names of all models").json("ModelNames"),
    get("/v2/models/{model}")
        .called("model_metadata", "models", "Inputs, outputs, ready versions")
        .json("ModelMetadata"),
    get("/v2/models/{model}/ready").called("model_ready", "models", READY).json("ModelReady").unready(),
    get("/v2/models/{model}/config").called("model_config", "models", CONFIG).json("ModelConfig"),
    post("/v2/models/{model}/infer").called("infer", "inference", "Inference").asks(Takes::Inference),
    get("/v2/models/{model}/versions/{version}").called("model_metadata_version", "models", ONE).json("ModelMetadata"),
    get("/v2/models/{model}/versions/{version}/ready")
        .called("model_ready_version", "models", READY)
        .json("ModelReady")
        .unready(),
    get("/v2/models/{model}/versions/{version}/config")
        .called("model_config_version", "models", CONFIG)
        .json("ModelConfig"),
    post("/v2/models/{model}/versions/{version}/infer")
        .called("infer_version", "inference", "Inference")
        .asks(Takes::Inference),
    post("/v2/models/{model}/generate").called("generate", "inference", FLAT).asks(Takes::Generate),
    post("/v2/models/{model}/generate_stream")
        .called("generate_stream", "inference", FLAT_STREAM)
        .asks(Takes::GenerateStream),
    post("/v2/models/{model}/infer_stream").called("infer_stream", "inference", STREAM).asks(Takes::InferStream),
    post("/v2/models/{model}/versions/{version}/generate")
        .called("generate_version", "inference", FLAT)
        .asks(Takes::Generate),
    post("/v2/models/{model}/versions/{version}/generate_stream")
        .called("generate_stream_version", "inference", FLAT_STREAM)
        .asks(Takes::GenerateStream),
    post("/v2/models/{model}/versions/{version}/infer_stream")
        .called("infer_stream_version", "inference", STREAM)
        .asks(Takes::InferStream),
    get("/v2/models/stats").called("statistics", "models", "What all models have done").json("Statistics"),
    get("/v2/models/{model}/stats").called("model_statistics", "models", DONE).json("Statistics"),
    get("/v2/models/{model}/versions/{version}/stats")
        .called("model_statistics_version", "models", DONE)
        .json("Statistics"),
    get("/v2/logging").called("log_settings", "server", "What is logged").json("LogSettings"),
    post("/v2/logging")
        .called("set_log_settings", "server", "Changes what is logged")
        .asks(Takes::Json("LogSettingsChange"))
        .json("LogSettings"),
    get("/v2/trace/setting").called("trace_settings", "server", "What is traced").json("TraceSettings"),
    post("/v2/trace/setting")
        .called("set_trace_settings", "server", "Changes what is traced")
        .asks(Takes::Json("TraceSettingsChange"))
        .json("TraceSettings"),
    get("/v2/models/{model}/trace/setting")
        .called("model_trace_settings", "models", "What is traced of the model")
        .json("TraceSettings"),
    post("/v2/models/{model}/trace/setting")
        .called("set_model_trace_settings", "models", "Changes what is traced of the model")
        .asks(Takes::Json("TraceSettingsChange"))
        .json("TraceSettings"),
    post("/v2/repository/index")
        .called("repository_index", "repository", "Every version of every model with its state")
        .asks(Takes::Json("IndexRequest"))
        .json("Index"),
    post("/v2/repository/models/{model}/load")
        .called("load", "repository", "Load a model, or load it anew")
        .asks(Takes::Json("LoadRequest"))
        .json("Loaded"),
    post("/v2/repository/models/{model}/unload")
        .called("unload", "repository", "Unload a model")
        .asks(Takes::Json("UnloadRequest"))
        .json("Unloaded"),
    get("/debug/batching")
        .called("batching", "server", "What each model's batching has learned and decided")
        .json("BatchingReports"),
    post("/v2/models/{model}/batching")
        .called("change_batching", "models", TUNES)
        .asks(Takes::Json("BatchingKnobs"))
        .json("BatchingReport"),
    post("/v2/models/{model}/versions/{version}/batching")
        .called("change_batching_version", "models", TUNES)
        .asks(Takes::Json("BatchingKnobs"))
        .json("BatchingReport"),
    get("/v2/systemsharedmemory/status")
        .called("shared_memory_regions", "shared memory", "The registered regions")
        .json("Regions"),
    post("/v2/systemsharedmemory/unregister").called("unregister_all", "shared memory", "Forgets all regions"),
    get("/v2/systemsharedmemory/region/{region}/status")
        .called("shared_memory_region", "shared memory", "One region")
        .json("Regions"),
    post("/v2/systemsharedmemory/region/{region}/register")
        .called("register", "shared memory", "Registers a region")
        .asks(Takes::Json("Registration"))
        .json("Object"),
    post("/v2/systemsharedmemory/region/{region}/unregister").called("unregister", "shared memory", FORGETS),
    get("/v2/cudasharedmemory/status").called("cuda_regions", "shared memory", NO_GPU).json("Regions"),
    post("/v2/cudasharedmemory/unregister").called("cuda_unregister_all", "shared memory", NO_GPU),
    get("/v2/cudasharedmemory/region/{region}/status").called("cuda_region", "shared memory", NO_GPU).json("Regions"),
    post("/v2/cudasharedmemory/region/{region}/register").called("cuda_register", "shared memory", NO_GPU),
    post("/v2/cudasharedmemory/region/{region}/unregister").called("cuda_unregister", "shared memory", NO_GPU),
    get("/metrics").called("metrics", "server", "Metrics for Prometheus").text(OPENMETRICS),
    get("/").called("alive", "v1", "Whether the server runs").json("Alive"),
    get("/v1/models").called("v1_models", "v1", "The names of all models").json("ModelNames"),
    get("/v1/models/{model}").called("v1_ready", "v1", READY).json("ModelReady").unready(),
    get("/v1/models/{model}/versions/{version}").called("v1_ready_version", "v1", READY).json("ModelReady").unready(),
    post("/v1/models/{model}:predict").called("predict", "v1", "Predictions").asks(Takes::Predict),
    post("/v1/models/{model}:explain").called("explain", "v1", "Explanations").asks(Takes::Explain),
    post("/v1/models/{model}/versions/{version}:predict")
        .called("predict_version", "v1", "Predictions")
        .asks(Takes::Predict),
    post("/v1/models/{model}/versions/{version}:explain")
        .called("explain_version", "v1", "Explanations")
        .asks(Takes::Explain),
    get("/openapi.json").called("openapi", "documentation", "This document").json("OpenApi"),
    get("/docs").called("docs", "documentation", "A page to read and try this API").text(HTML),
    get("/v2/docs").called("docs_v2", "documentation", "The same page").text(HTML),
    get("/v2/docs/dataplane.json").called("openapi_v2", "documentation", "This document").json("OpenApi"),
    get("/v2/models/{model}/docs").called("docs_model", "documentation", "The page of one model").text(HTML),
    get("/v2/models/{model}/docs/dataplane.json")
        .called("openapi_model", "documentation", "This document, of one model")
        .json("OpenApi"),
];

const READY: &str = "Whether the model takes requests";
const CONFIG: &str = "The model's configuration in Triton's form";
const DONE: &str = "What the model has done";
const TUNES: &str = "Changes how the model batches while it serves, where the server lets clients do so";
const FLAT: &str = "Inference with one flat object each way";
const FLAT_STREAM: &str = "Flat objects as server-sent events";
const FORGETS: &str = "Forgets a region; one that is unknown is forgotten already";
const NO_GPU: &str = "There is no GPU support, and so no region";
const STREAM: &str = "Answers as server-sent events";
const ONE: &str = "Inputs and outputs of one version";

const fn get(path: &'static str) -> Route {
    route("get", path)
}

const fn post(path: &'static str) -> Route {
    route("post", path)
}

const fn route(method: &'static str, path: &'static str) -> Route {
    let (takes, gives) = (Takes::Nothing, Gives::Json("Object"));
    Route { method, path, tag: "", id: "", summary: "", takes, gives, may_be_unready: false }
}

impl Route {
    const fn called(self, id: &'static str, tag: &'static str, summary: &'static str) -> Self {
        Self { id, tag, summary, ..self }
    }

    const fn json(self, schema: &'static str) -> Self {
        Self { gives: Gives::Json(schema), ..self }
    }

    const fn text(self, media_type: &'static str) -> Self {
        Self { gives: Gives::Text(media_type), ..self }
    }

    const fn asks(self, takes: Takes) -> Self {
        Self { takes, gives: Gives::OfModel, ..self }
    }

    const fn unready(self) -> Self {
        Self { may_be_unready: true, ..self }
    }

    /// Whether it names a model in its path.
    pub(super) fn has_model(&self) -> bool {
        self.path.contains("{model}")
    }

    /// Whether it names a region of shared memory in its path.
    pub(super) fn has_region(&self) -> bool {
        self.path.contains("{region}")
    }

    /// Whether it names a version in its path.
    pub(super) fn has_version(&self) -> bool {
        self.path.contains("{version}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_route_is_named_once_and_in_a_known_group() {
        let ids: BTreeSet<&str> = ROUTES.iter().map(|route| route.id).collect();
        assert_eq!(ids.len(), ROUTES.len());
        assert!(ROUTES.iter().all(|route| TAGS.iter().any(|(tag, _)| *tag == route.tag)));
        assert!(ROUTES.iter().all(|route| !route.summary.is_empty() && !route.id.is_empty()));
    }
}
