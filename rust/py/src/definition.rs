//! `penstock._definition.Definition` read into a core `ModelSpec`, and what a handler's thread needs
//! beside it.

use crate::{
    config::duration,
    errors::startup,
    peers::Caller,
    processes::{Processes, Spawning},
};
use numpy::PyArrayDescr;
use penstock_core::{
    Batching, Datatype, Dim, Document, Level, ModelSpec, Overdue, Oversize, Padding, Queueing, RowCost, Sequences,
    TensorSpec, Term, VersionPolicy, cache::Caching,
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
    sequences: Option<DeclaredSequences>,
    cache: Option<DeclaredCache>,
    version_policy: Option<DeclaredPolicy>,
    processes: Option<Spawning>,
    buckets: Vec<(String, Vec<f64>)>,
    calls: Option<Vec<String>>,
    opaque: bool,
}

/// The fields of `VersionPolicy`.
#[derive(Debug, FromPyObject)]
struct DeclaredPolicy {
    latest: u32,
    specific: Vec<String>,
}

/// The fields of `Queueing`.
#[derive(Debug, FromPyObject)]
struct DeclaredQueueing {
    priorities: usize,
    default_priority: usize,
    timeout: Option<f64>,
    max_rows: Option<usize>,
    max_bytes: Option<usize>,
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
}

/// The fields of `Batching`.
#[derive(Debug, FromPyObject)]
struct DeclaredBatching {
    max_size: usize,
    dynamic: bool,
    max_delay: f64,
    preferred_sizes: Vec<usize>,
    oversize: String,
    hold: bool,
    sizes: Vec<usize>,
    pad: String,
    split_on_memory: bool,
    cost: Option<DeclaredCost>,
    max_cost: Option<u64>,
}

/// The field of `Cost`: for each term a number, and inputs with their axes.
#[derive(Debug, FromPyObject)]
struct DeclaredCost {
    terms: Vec<(u64, Vec<(String, usize)>)>,
}

/// How the arrays of one tensor look in Python.
#[derive(Debug)]
pub(crate) struct ArrayForm {
    /// `None`: an object array of `bytes` or `str`.
    pub(crate) dtype: Option<Py<PyArrayDescr>>,
    /// Whether BYTES elements are `str`.
    pub(crate) text: bool,
    /// A BF16 tensor that Python sees as float32: its values are widened and narrowed.
    pub(crate) widened: bool,
    /// An output that is copied into shared memory as soon as it is taken.
    pub(crate) copied_at_once: bool,
    /// A tensor that Python only hands on, as it is: `_core.Held`.
    pub(crate) opaque: bool,
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
}

/// Reads a definition.
///
/// # Errors
/// `SignatureError` that names the model and what is wrong in it.
pub(crate) fn read(object: &Bound<'_, PyAny>) -> PyResult<(ModelSpec, Arc<Handling>)> {
    let py = object.py();
    let definition: Definition = object.extract()?;
    let name = definition.name;
    let (inputs, mut input_forms) = tensors(py, &name, definition.inputs, definition.input_documents)?;
    let (outputs, mut output_forms) = tensors(py, &name, definition.outputs, definition.output_documents)?;
    input_forms.iter_mut().chain(&mut output_forms).for_each(|form| form.opaque = definition.opaque);
    let spec = ModelSpec {
        name: name.as_str().into(),
        version: definition.version.as_str().into(),
        platform: definition.platform.as_str().into(),
        version_policy: definition.version_policy.map(version_policy).unwrap_or_default(),
        description: definition.description.as_str().into(),
        batching: definition.batching.map(|declared| batching(declared, &inputs)),
        inputs,
        outputs,
        max_queue: definition.max_queue.max(1),
        instances: definition.instances.max(1),
        queueing: definition.queueing.map(queueing).unwrap_or_default(),
        sequences: definition.sequences.map(sequences),
        cache: definition.cache.map(caching),
        wants_context: definition.wants_context,
        streams: definition.streams,
        buckets: definition.buckets.into(),
    };
    let warmup = (!object.getattr("warmup")?.is_none()).then(|| object.clone().unbind());
    let handling = Handling {
        warmup,
        factory: definition.factory,
        inputs: input_forms,
        outputs: output_forms,
        concurrency: definition.concurrency.map(|count| count.max(1)),
        processes: definition.processes.map(|spawning| Processes::read(spawning, &spec)),
        caller: Arc::new(Caller::new(definition.calls)),
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
        let spec = TensorSpec {
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
        Ok((spec, ArrayForm { dtype: tensor.dtype, text: tensor.text, widened, copied_at_once: false, opaque: false }))
    };
    declared.into_iter().map(read).collect::<PyResult<Vec<_>>>().map(|pairs| pairs.into_iter().unzip())
}

fn queueing(declared: DeclaredQueueing) -> Queueing {
    let DeclaredQueueing { priorities, default_priority, timeout, max_rows, max_bytes, policies } = declared;
    let level = |one: DeclaredLevel| Level {
        max_size: one.max_size,
        timeout: one.timeout.and_then(duration),
        overdue: if one.on_timeout == "delay" { Overdue::Delay } else { Overdue::Reject },
    };
    let levels = policies.into_iter().map(level).collect();
    Queueing { priorities, default_priority, timeout: timeout.and_then(duration), max_rows, max_bytes, levels }
}

fn caching(declared: DeclaredCache) -> Caching {
    let DeclaredCache { max_bytes, ttl, vary, revision } = declared;
    Caching { max_bytes, ttl: ttl.and_then(duration), vary, revision }
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

fn batching(declared: DeclaredBatching, inputs: &[TensorSpec]) -> Batching {
    let cost = declared.cost.map(|cost| row_cost(cost, declared.max_cost.unwrap_or(u64::MAX), inputs));
    Batching {
        max_size: declared.max_size.max(1),
        dynamic: declared.dynamic,
        max_delay_ns: (declared.max_delay.max(0.0) * 1e9) as u64,
        preferred_sizes: declared.preferred_sizes,
        hold: declared.hold,
        oversize: if declared.oversize == "split" { Oversize::Split } else { Oversize::Refuse },
        sizes: declared.sizes,
        padding: if declared.pad == "zeros" { Padding::Zeros } else { Padding::Repeat },
        split_on_memory: declared.split_on_memory,
        cost,
    }
}

/// Python has checked that the inputs are there.
fn row_cost(declared: DeclaredCost, most: u64, inputs: &[TensorSpec]) -> RowCost {
    let dim = |(name, axis): (String, usize)| {
        Some(Dim { input: inputs.iter().position(|input| *input.name == *name)?, axis })
    };
    let term = |(times, axes): (u64, Vec<_>)| Term { times, dims: axes.into_iter().filter_map(dim).collect() };
    RowCost { terms: declared.terms.into_iter().map(term).collect(), most }
}
