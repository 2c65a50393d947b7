//! `penstock._spec.definition.Definition` read into a core `ModelSpec`, and what a handler's thread needs
//! beside it.

mod batching;
pub(crate) mod processes;
mod routes;

use self::{batching::DeclaredBatching, processes::Processes, routes::DeclaredFallback};
use crate::{
    convert::{array_form::ArrayForm, parameters::duration},
    errors::startup,
    peers::Caller,
};
use numpy::PyArrayDescr;
use penstock_core::{
    Caching, Datatype, Document, Fairness, Level, ModelSpec, Overdue, Queueing, Ragged, ResourceRequest, Sequences,
    TensorSpec, VersionPolicy,
};
use pyo3::prelude::*;
use std::{collections::HashMap, sync::Arc, time::Duration};

/// The fields of `Definition`.
#[derive(Debug, FromPyObject)]
struct Definition {
    name: String,
    version: String,
    platform: String,
    description: String,
    inputs: Vec<Declared>,
    outputs: Vec<Declared>,
    input_documents: Documents,
    output_documents: Documents,
    batching: Option<DeclaredBatching>,
    instances: usize,
    concurrency: Option<usize>,
    max_queue: usize,
    wants_context: bool,
    streams: bool,
    factory: Py<PyAny>,
    queueing: Option<DeclaredQueueing>,
    resources: Option<DeclaredNeeds>,
    sequences: Option<DeclaredSequences>,
    cache: Option<DeclaredCache>,
    version_policy: Option<DeclaredPolicy>,
    processes: Option<processes::Declared>,
    buckets: Vec<(String, Vec<f64>)>,
    calls: Option<Vec<String>>,
    check_shapes: bool,
    open: bool,
    lenient: bool,
    routes: Vec<String>,
    fallback: Option<DeclaredFallback>,
    opaque: bool,
}

/// The fields of `VersionPolicy`.
#[derive(Debug, FromPyObject)]
struct DeclaredPolicy {
    latest: u32,
    specific: Vec<String>,
}

/// The fields of `Resources`.
#[derive(Debug, FromPyObject)]
struct DeclaredNeeds {
    amounts: Vec<(String, u64)>,
    weight: f64,
}

/// The fields of `Queueing`.
#[derive(Debug, FromPyObject)]
struct DeclaredQueueing {
    priorities: usize,
    default_priority: usize,
    timeout: Option<f64>,
    max_rows: Option<usize>,
    max_bytes: Option<usize>,
    fair_by: Option<String>,
    max_rows_per_client: Option<usize>,
    policies: Vec<DeclaredLevel>,
}

/// One of the levels of `Queueing`, from the highest on.
#[derive(Debug, FromPyObject)]
struct DeclaredLevel {
    max_size: Option<usize>,
    timeout: Option<f64>,
    on_timeout: String,
}

/// The fields of `Sequences`.
#[derive(Debug, FromPyObject)]
struct DeclaredSequences {
    idle_timeout: f64,
    max_active: usize,
}

/// The fields of `Cache`.
#[derive(Debug, FromPyObject)]
struct DeclaredCache {
    max_bytes: usize,
    ttl: Option<f64>,
    vary: Vec<String>,
    revision: Option<String>,
    per_caller: bool,
}

/// JSON documents by the tensors that carry them.
type Documents = HashMap<String, DeclaredDocument>;

/// The fields of `Document`.
#[derive(Debug, FromPyObject)]
struct DeclaredDocument {
    schema: String,
    example: Option<String>,
}

/// The fields of `Tensor`.
#[derive(Debug, FromPyObject)]
struct Declared {
    name: String,
    datatype: String,
    shape: Vec<i64>,
    optional: bool,
    dtype: Option<Py<PyArrayDescr>>,
    text: bool,
    labels: Vec<String>,
    document: bool,
    ragged: bool,
    pad_bytes: Option<Vec<u8>>,
}

/// What a handler's thread needs to build and call a handler.
#[derive(Debug)]
pub(crate) struct Handling {
    /// The whole definition, if its model is to be warmed up.
    pub(crate) warmup: Option<Py<PyAny>>,
    /// Makes one instance.
    pub(crate) factory: Py<PyAny>,
    pub(crate) inputs: Vec<ArrayForm>,
    pub(crate) outputs: Vec<ArrayForm>,
    /// How many batches an `async` handler computes at once, on an event loop; `None` for a plain handler.
    pub(crate) concurrency: Option<usize>,
    /// How its instances are started, where they are processes.
    pub(crate) processes: Option<Processes>,
    /// Whom its handler may call.
    pub(crate) caller: Arc<Caller>,
    /// Whether its handler takes a `Context`.
    pub(crate) wants_context: bool,
    /// Outputs are copied into shared memory as soon as they are taken.
    pub(crate) copied_at_once: bool,
}

/// Reads a definition.
///
/// # Errors
/// `SignatureError` that names the model and what is wrong in it.
pub(crate) fn read(object: &Bound<'_, PyAny>) -> PyResult<(ModelSpec, Arc<Handling>)> {
    let py = object.py();
    let definition: Definition = object.extract()?;
    let name = definition.name;
    let (mut inputs, mut input_forms) = tensors(py, &name, definition.inputs, definition.input_documents)?;
    let (mut outputs, mut output_forms) = tensors(py, &name, definition.outputs, definition.output_documents)?;
    input_forms.iter_mut().chain(&mut output_forms).for_each(|form| form.opaque = definition.opaque);
    if definition.batching.is_none() || definition.opaque {
        // Tensors that are only handed on, of a pipeline say, are joined elsewhere.
        inputs.iter_mut().chain(&mut outputs).for_each(|tensor| tensor.ragged = None);
    }
    let spec = ModelSpec {
        name: name.as_str().into(),
        version: definition.version.as_str().into(),
        platform: definition.platform.as_str().into(),
        version_policy: definition.version_policy.map(version_policy).unwrap_or_default(),
        description: definition.description.as_str().into(),
        batching: definition.batching.map(|declared| declared.read(&inputs)),
        inputs,
        outputs,
        max_queue: definition.max_queue.max(1),
        resources: definition.resources.map(|DeclaredNeeds { amounts, weight }| ResourceRequest {
            amounts: amounts.into_iter().map(|(name, amount)| (name.into(), amount)).collect(),
            weight,
        }),
        instances: definition.instances.max(1),
        queueing: definition.queueing.map(queueing).unwrap_or_default(),
        sequences: definition.sequences.map(sequences),
        cache: definition.cache.map(caching),
        // Requests as they are come with all that their callers sent.
        wants_context: definition.wants_context || definition.open,
        streams: definition.streams,
        buckets: definition.buckets.into(),
        check_shapes: definition.check_shapes,
        raw_requests: definition.open,
        lenient: definition.lenient,
        routes: routes::routes(py, &name, &definition.routes)?,
        fallback: definition.fallback.map(routes::fallback),
    };
    let warmup = (!object.getattr("warmup")?.is_none()).then(|| object.clone().unbind());
    let handling = Handling {
        warmup,
        factory: definition.factory,
        inputs: input_forms,
        outputs: output_forms,
        concurrency: definition.concurrency.map(|count| count.max(1)),
        processes: definition.processes.map(|declared| Processes::read(declared, &spec)),
        caller: Arc::new(Caller::new(definition.calls)),
        wants_context: definition.wants_context,
        copied_at_once: false,
    };
    Ok((spec, Arc::new(handling)))
}

fn tensors(
    py: Python<'_>,
    model: &str,
    declared: Vec<Declared>,
    mut documents: Documents,
) -> PyResult<(Vec<TensorSpec>, Vec<ArrayForm>)> {
    let read = |tensor: Declared| {
        let datatype = Datatype::from_name(&tensor.datatype).ok_or_else(|| {
            let problem =
                format!("model '{model}': tensor '{}' has unknown datatype '{}'", tensor.name, tensor.datatype);
            startup(py, "SignatureError", &problem)
        })?;
        let widened = datatype == Datatype::Bf16
            && tensor.dtype.as_ref().is_some_and(|dtype| numpy::dtype::<f32>(py).is(dtype.bind(py)));
        let padded = tensor.pad_bytes.is_some();
        let spec = TensorSpec {
            ragged: ragged(datatype, tensor.ragged, tensor.pad_bytes),
            name: tensor.name.as_str().into(),
            datatype,
            dims: tensor.shape.iter().map(|&dim| usize::try_from(dim).ok()).collect(),
            optional: tensor.optional,
            text: tensor.text,
            labels: tensor.labels.into_iter().map(String::into_boxed_str).collect(),
            document: tensor.document,
            described: documents
                .remove(&tensor.name)
                .map(|DeclaredDocument { schema, example }| Arc::new(Document { schema, example })),
        };
        let form =
            ArrayForm { dtype: tensor.dtype, text: tensor.text, widened, padded, copied_at_once: false, opaque: false };
        Ok((spec, form))
    };
    declared.into_iter().map(read).collect::<PyResult<Vec<_>>>().map(|pairs| pairs.into_iter().unzip())
}

fn ragged(datatype: Datatype, joined: bool, pad: Option<Vec<u8>>) -> Option<Ragged> {
    let Some(element) = pad else { return joined.then_some(Ragged::Joined) };
    if datatype != Datatype::Bytes {
        return Some(Ragged::Padded(element.into()));
    }
    let prefix = u32::try_from(element.len()).unwrap_or(u32::MAX).to_le_bytes();
    Some(Ragged::Padded([&prefix[..], &element].concat().into()))
}

fn queueing(declared: DeclaredQueueing) -> Queueing {
    let DeclaredQueueing { priorities, default_priority, timeout, max_rows, max_bytes, policies, .. } = declared;
    let max_rows_per_client = declared.max_rows_per_client;
    let fair = declared.fair_by.map(|header| Fairness { header, max_rows: max_rows_per_client });
    let level = |one: DeclaredLevel| Level {
        max_size: one.max_size,
        timeout: one.timeout.and_then(duration),
        overdue: if one.on_timeout == "delay" { Overdue::Delay } else { Overdue::Reject },
    };
    let levels = policies.into_iter().map(level).collect();
    Queueing { priorities, default_priority, timeout: timeout.and_then(duration), max_rows, max_bytes, fair, levels }
}

fn caching(declared: DeclaredCache) -> Caching {
    let DeclaredCache { max_bytes, ttl, vary, revision, per_caller } = declared;
    Caching { max_bytes, ttl: ttl.and_then(duration), vary, revision, per_client: per_caller }
}

fn version_policy(declared: DeclaredPolicy) -> VersionPolicy {
    match declared {
        DeclaredPolicy { specific, .. } if !specific.is_empty() => VersionPolicy::Specific(specific),
        DeclaredPolicy { latest: 0, .. } => VersionPolicy::All,
        DeclaredPolicy { latest, .. } => VersionPolicy::Latest(latest),
    }
}

fn sequences(declared: DeclaredSequences) -> Sequences {
    let idle_timeout = duration(declared.idle_timeout).unwrap_or(Duration::MAX);
    Sequences { idle_timeout, max_active: declared.max_active }
}
