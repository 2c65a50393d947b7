//! The table of REST routes: method, pattern, access category, handler and description of each in one row.
//!
//! The router, the access check and the OpenAPI document are made from it, and a house test compares it with the table
//! in `docs/protocol.md`. Rows of one path stand next to each other.

use super::{
    events,
    handler::{Handler, Input},
    handlers::{
        batching, debug, docs, live, models, repository, server, settings, shared_memory, slow, stacks, statistics,
    },
    operation::{GenerateMode, Operation, V1Verb},
    route::{
        DEBUG, HEALTH, HIDDEN, INFERENCE, LOGGING, METADATA, METRICS, MODEL_CONFIG, OPEN, REPOSITORY, Route,
        SHARED_MEMORY, STATISTICS, TRACE, delete, get, get_by, infer, post,
    },
};
use penstock_wire::openapi::{Tag, Takes};

const INFER: Operation = Operation::Infer;
const PLAIN: Operation = Operation::Plain;
const GENERATE: Operation = Operation::Generate(GenerateMode::Generate);
const GENERATE_STREAM: Operation = Operation::Generate(GenerateMode::GenerateStream);
const INFER_STREAM: Operation = Operation::Generate(GenerateMode::InferStream);
const PREDICT: Operation = Operation::V1(V1Verb::Predict);
const EXPLAIN: Operation = Operation::V1(V1Verb::Explain);

const HTML: &str = "text/html; charset=utf-8";

const READY: &str = "Whether the model takes requests";
const CONFIG: &str = "The model's configuration in Triton's form";
const DONE: &str = "Counts and durations of the model";
const TUNES: &str = "Changes how the model batches while it serves, where the server lets clients do so";
const VALUES: &str = "Inference with values in the types of the handler";
const FLAT: &str = "Inference with one flat object each way";
const FLAT_STREAM: &str = "Flat objects as server-sent events";
const FORGETS: &str = "Unregisters a region; an unknown region is not an error";
const NO_GPU: &str = "CUDA shared memory is not supported, so there is no region";
const STREAM: &str = "Responses as server-sent events";
const ONE: &str = "Inputs and outputs of one version";

/// All REST routes.
pub(crate) static ROUTES: &[Route] = &[
    get("/v2", METADATA, server::metadata, ("server_metadata", Tag::Server, "Name, version and extensions"))
        .json("ServerMetadata"),
    get("/v2/", METADATA, server::metadata, HIDDEN).hidden(),
    get("/v2/health/live", HEALTH, server::live, ("server_live", Tag::Server, "Whether the server runs")).json("Live"),
    get("/v2/health/ready", HEALTH, server::ready, ("server_ready", Tag::Server, "Whether all models are loaded"))
        .json("Ready")
        .unready(),
    get("/v2/models", METADATA, models::list, ("models", Tag::Models, "The names of all models")).json("ModelNames"),
    get(
        "/v2/models/{model}",
        METADATA,
        models::metadata,
        ("model_metadata", Tag::Models, "Inputs, outputs, ready versions"),
    )
    .json("ModelMetadata"),
    get("/v2/models/{model}/ready", HEALTH, models::ready, ("model_ready", Tag::Models, READY))
        .json("ModelReady")
        .unready(),
    get("/v2/models/{model}/config", MODEL_CONFIG, models::config, ("model_config", Tag::Models, CONFIG))
        .json("ModelConfig"),
    infer("/v2/models/{model}/infer", INFER, Takes::Inference, ("infer", Tag::Inference, "Inference")),
    get(
        "/v2/models/{model}/versions/{version}",
        METADATA,
        models::metadata,
        ("model_metadata_version", Tag::Models, ONE),
    )
    .json("ModelMetadata"),
    get(
        "/v2/models/{model}/versions/{version}/ready",
        HEALTH,
        models::ready,
        ("model_ready_version", Tag::Models, READY),
    )
    .json("ModelReady")
    .unready(),
    get(
        "/v2/models/{model}/versions/{version}/config",
        MODEL_CONFIG,
        models::config,
        ("model_config_version", Tag::Models, CONFIG),
    )
    .json("ModelConfig"),
    infer(
        "/v2/models/{model}/versions/{version}/infer",
        INFER,
        Takes::Inference,
        ("infer_version", Tag::Inference, "Inference"),
    ),
    infer("/v2/models/{model}/generate", GENERATE, Takes::Generate, ("generate", Tag::Inference, FLAT)),
    infer(
        "/v2/models/{model}/generate_stream",
        GENERATE_STREAM,
        Takes::GenerateStream,
        ("generate_stream", Tag::Inference, FLAT_STREAM),
    ),
    infer(
        "/v2/models/{model}/infer_stream",
        INFER_STREAM,
        Takes::InferStream,
        ("infer_stream", Tag::Inference, STREAM),
    ),
    infer(
        "/v2/models/{model}/versions/{version}/generate",
        GENERATE,
        Takes::Generate,
        ("generate_version", Tag::Inference, FLAT),
    ),
    infer(
        "/v2/models/{model}/versions/{version}/generate_stream",
        GENERATE_STREAM,
        Takes::GenerateStream,
        ("generate_stream_version", Tag::Inference, FLAT_STREAM),
    ),
    infer(
        "/v2/models/{model}/versions/{version}/infer_stream",
        INFER_STREAM,
        Takes::InferStream,
        ("infer_stream_version", Tag::Inference, STREAM),
    ),
    infer("/models/{model}", PLAIN, Takes::Plain, ("call", Tag::Inference, VALUES)),
    infer("/models/{model}/versions/{version}", PLAIN, Takes::Plain, ("call_version", Tag::Inference, VALUES)),
    delete(
        "/v2/streams/{stream}",
        INFERENCE,
        events::cancel,
        ("cancel_stream", Tag::Inference, "Cancels an event stream that can be resumed"),
    ),
    get(
        "/v2/models/stats",
        STATISTICS,
        statistics::of_all,
        ("statistics", Tag::Models, "Counts and durations of all models"),
    )
    .json("Statistics"),
    get("/v2/models/{model}/stats", STATISTICS, statistics::of_model, ("model_statistics", Tag::Models, DONE))
        .json("Statistics"),
    get(
        "/v2/models/{model}/versions/{version}/stats",
        STATISTICS,
        statistics::of_model,
        ("model_statistics_version", Tag::Models, DONE),
    )
    .json("Statistics"),
    get("/v2/logging", LOGGING, settings::log, ("log_settings", Tag::Server, "What is logged")).json("LogSettings"),
    post(
        "/v2/logging",
        LOGGING,
        Handler::Write(Input::Settings, settings::set_log),
        ("set_log_settings", Tag::Server, "Changes what is logged"),
    )
    .body("LogSettingsChange")
    .json("LogSettings")
    .audited("log_settings"),
    get("/v2/trace/setting", TRACE, settings::trace, ("trace_settings", Tag::Server, "What is traced"))
        .json("TraceSettings"),
    post(
        "/v2/trace/setting",
        TRACE,
        Handler::Write(Input::Settings, settings::set_trace),
        ("set_trace_settings", Tag::Server, "Changes what is traced"),
    )
    .body("TraceSettingsChange")
    .json("TraceSettings")
    .audited("trace_settings"),
    get(
        "/v2/models/{model}/trace/setting",
        TRACE,
        settings::trace,
        ("model_trace_settings", Tag::Models, "What is traced of the model"),
    )
    .json("TraceSettings"),
    post(
        "/v2/models/{model}/trace/setting",
        TRACE,
        Handler::Write(Input::Settings, settings::set_trace),
        ("set_model_trace_settings", Tag::Models, "Changes what is traced of the model"),
    )
    .body("TraceSettingsChange")
    .json("TraceSettings")
    .audited("trace_settings"),
    post(
        "/v2/repository/index",
        REPOSITORY,
        Handler::Write(Input::Counted, repository::index),
        ("repository_index", Tag::Repository, "Every version of every model with its state"),
    )
    .body("IndexRequest")
    .json("Index"),
    post(
        "/v2/repository/models/{model}/load",
        REPOSITORY,
        Handler::SlowWrite(Input::Upload, |context, params, body| Box::pin(repository::load(context, params, body))),
        ("load", Tag::Repository, "Loads or reloads a model"),
    )
    .body("LoadRequest")
    .json("Loaded")
    .audited("load"),
    post(
        "/v2/repository/models/{model}/unload",
        REPOSITORY,
        Handler::SlowWrite(Input::Counted, |context, params, body| Box::pin(repository::unload(context, params, body))),
        ("unload", Tag::Repository, "Unloads a model"),
    )
    .body("UnloadRequest")
    .json("Unloaded")
    .audited("unload"),
    // The protocol's routes for one of several repositories are refused, with the reason.
    post("/v2/repository/{repository}/index", REPOSITORY, NAMED, HIDDEN).hidden(),
    post("/v2/repository/{repository}/models/{model}/load", REPOSITORY, NAMED, HIDDEN).hidden(),
    post("/v2/repository/{repository}/models/{model}/unload", REPOSITORY, NAMED, HIDDEN).hidden(),
    get(
        "/debug/batching",
        DEBUG,
        batching::report,
        ("batching", Tag::Server, "Measurements and decisions of each model's batching"),
    )
    .json("BatchingReports"),
    get_by(
        "/debug/config",
        DEBUG,
        Handler::Negotiated(debug::config),
        ("config", Tag::Server, "Settings of the server and options of its models, with their origins"),
    )
    .json("ConfigDescription"),
    get_by(
        "/debug/stacks",
        DEBUG,
        Handler::SlowRead(|context, headers| Box::pin(stacks::stacks(context, headers))),
        ("stacks", Tag::Server, "Stacks of all threads of the server and its processes, also while the GIL is held"),
    )
    .text(stacks::TEXT),
    get_by(
        "/debug/slow",
        DEBUG,
        Handler::Negotiated(slow::slow),
        ("slow", Tag::Server, "The last slow requests, and the parts of their durations"),
    )
    .json("SlowRequests"),
    post("/v2/models/{model}/batching", REPOSITORY, TUNE, ("change_batching", Tag::Models, TUNES))
        .body("BatchingKnobs")
        .json("BatchingReport")
        .audited("batching"),
    post(
        "/v2/models/{model}/versions/{version}/batching",
        REPOSITORY,
        TUNE,
        ("change_batching_version", Tag::Models, TUNES),
    )
    .body("BatchingKnobs")
    .json("BatchingReport")
    .audited("batching"),
    get(
        "/v2/systemsharedmemory/status",
        SHARED_MEMORY,
        shared_memory::status,
        ("shared_memory_regions", Tag::SharedMemory, "The registered regions"),
    )
    .json("Regions"),
    post(
        "/v2/systemsharedmemory/unregister",
        SHARED_MEMORY,
        UNREGISTER,
        ("unregister_all", Tag::SharedMemory, "Unregisters all regions"),
    ),
    get(
        "/v2/systemsharedmemory/region/{region}/status",
        SHARED_MEMORY,
        shared_memory::status,
        ("shared_memory_region", Tag::SharedMemory, "One region"),
    )
    .json("Regions"),
    post(
        "/v2/systemsharedmemory/region/{region}/register",
        SHARED_MEMORY,
        Handler::Write(Input::SettingsIf(shared_memory::check_enabled), shared_memory::register),
        ("register", Tag::SharedMemory, "Registers a region"),
    )
    .body("Registration"),
    post(
        "/v2/systemsharedmemory/region/{region}/unregister",
        SHARED_MEMORY,
        UNREGISTER,
        ("unregister", Tag::SharedMemory, FORGETS),
    ),
    get(
        "/v2/cudasharedmemory/status",
        SHARED_MEMORY,
        shared_memory::cuda_status,
        ("cuda_regions", Tag::SharedMemory, NO_GPU),
    )
    .json("Regions"),
    post(
        "/v2/cudasharedmemory/unregister",
        SHARED_MEMORY,
        CUDA_UNREGISTER,
        ("cuda_unregister_all", Tag::SharedMemory, NO_GPU),
    ),
    get(
        "/v2/cudasharedmemory/region/{region}/status",
        SHARED_MEMORY,
        shared_memory::cuda_status,
        ("cuda_region", Tag::SharedMemory, NO_GPU),
    )
    .json("Regions"),
    post(
        "/v2/cudasharedmemory/region/{region}/register",
        SHARED_MEMORY,
        Handler::Write(Input::Nothing, shared_memory::cuda_register),
        ("cuda_register", Tag::SharedMemory, NO_GPU),
    ),
    post(
        "/v2/cudasharedmemory/region/{region}/unregister",
        SHARED_MEMORY,
        CUDA_UNREGISTER,
        ("cuda_unregister", Tag::SharedMemory, NO_GPU),
    ),
    get_by(
        "/metrics",
        METRICS,
        Handler::Negotiated(server::metrics),
        ("metrics", Tag::Server, "Metrics for Prometheus"),
    )
    .text(server::PROMETHEUS_TEXT),
    get_by("/", HEALTH, Handler::Negotiated(server::root), ("alive", Tag::V1, "Whether the server runs")).json("Alive"),
    get("/v1/models", METADATA, models::list, ("v1_models", Tag::V1, "The names of all models")).json("ModelNames"),
    get("/v1/models/{model}", METADATA, models::ready, ("v1_ready", Tag::V1, READY)).json("ModelReady").unready(),
    get("/v1/models/{model}/versions/{version}", METADATA, models::ready, ("v1_ready_version", Tag::V1, READY))
        .json("ModelReady")
        .unready(),
    infer("/v1/models/{model}:predict", PREDICT, Takes::Predict, ("predict", Tag::V1, "Predictions")),
    infer("/v1/models/{model}:explain", EXPLAIN, Takes::Explain, ("explain", Tag::V1, "Explanations")),
    infer(
        "/v1/models/{model}/versions/{version}:predict",
        PREDICT,
        Takes::Predict,
        ("predict_version", Tag::V1, "Predictions"),
    ),
    infer(
        "/v1/models/{model}/versions/{version}:explain",
        EXPLAIN,
        Takes::Explain,
        ("explain_version", Tag::V1, "Explanations"),
    ),
    get("/openapi.json", METADATA, docs::document, ("openapi", Tag::Documentation, "This document")).json("OpenApi"),
    // A browser cannot send a key with its first request, and the page is the same on every server.
    get("/docs", OPEN, docs::page, ("docs", Tag::Documentation, "A page to read and try this API")).text(HTML),
    get("/v2/docs", OPEN, docs::page, ("docs_v2", Tag::Documentation, "A page to read and try this API")).text(HTML),
    get("/v2/docs/dataplane.json", METADATA, docs::document, ("openapi_v2", Tag::Documentation, "This document"))
        .json("OpenApi"),
    get(
        "/v2/models/{model}/docs",
        METADATA,
        docs::model_page,
        ("docs_model", Tag::Documentation, "The page of one model"),
    )
    .text(HTML),
    get(
        "/v2/models/{model}/docs/dataplane.json",
        METADATA,
        docs::model_document,
        ("openapi_model", Tag::Documentation, "This document, of one model"),
    )
    .json("OpenApi"),
    // As the page at `/docs`: it has no figures of its own.
    get("/live", OPEN, live::page, ("live", Tag::Server, "A page that shows what the server does now"))
        .text(HTML)
        .of_live_page(),
    get("/live/events", DEBUG, live::events, ("live_events", Tag::Server, "Figures of the page as events"))
        .text("text/event-stream; charset=utf-8")
        .of_live_page(),
];

const NAMED: Handler = Handler::Write(Input::Nothing, repository::named);
const TUNE: Handler = Handler::Write(Input::CountedIf(batching::check_change_enabled), batching::change);
const UNREGISTER: Handler = Handler::Write(Input::Nothing, shared_memory::unregister);
const CUDA_UNREGISTER: Handler = Handler::Write(Input::Nothing, shared_memory::cuda_unregister);
