//! `penstock._spec.definition.Definition` read into core's `ModelSpec` and the settings of handler threads.

mod batching;
mod options;
pub(crate) mod processes;

use self::processes::Processes;
use crate::{
    convert::{
        array_form::ArrayForm,
        record::{attribute, optional, read_record},
    },
    errors::startup,
    peers::Caller,
    seconds::duration,
};
use numpy::PyArrayDescr;
use penstock_core::{Datatype, Document, ModelSpec, Ragged, TensorSpec};
use pyo3::prelude::*;
use std::{collections::HashMap, sync::Arc};

/// JSON documents by the tensors that carry them.
type Documents = HashMap<String, DeclaredDocument>;

/// The attributes of `Document`.
#[derive(Debug, FromPyObject)]
struct DeclaredDocument {
    schema: String,
    example: Option<String>,
}

/// The attributes of `Tensor`.
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
    media_type: Option<String>,
    ragged: bool,
    pad_bytes: Option<Vec<u8>>,
}

/// Settings with which a thread builds and calls a handler.
#[derive(Debug)]
pub(crate) struct HandlerSpec {
    /// The whole definition, if the model has a warmup.
    pub(crate) warmup: Option<Py<PyAny>>,
    /// Builds one handler.
    pub(crate) factory: Py<PyAny>,
    pub(crate) inputs: Vec<ArrayForm>,
    pub(crate) outputs: Vec<ArrayForm>,
    /// Set if I/O threads may call the handler.
    pub(crate) inline: bool,
    /// The concurrent batches of an `async` handler, on an event loop; `None` for a plain handler.
    pub(crate) concurrency: Option<usize>,
    /// The source of its processes; `None` for threads.
    pub(crate) processes: Option<Processes>,
    /// The models that the handler may call.
    pub(crate) caller: Arc<Caller>,
    /// Set if the handler takes a `Context`.
    pub(crate) wants_context: bool,
    /// Set in a process: outputs are copied into shared memory at once.
    pub(crate) copied_at_once: bool,
}

/// Reads a definition.
///
/// # Errors
/// `SignatureError` that names the model and the problem.
pub(crate) fn read(object: &Bound<'_, PyAny>) -> PyResult<(ModelSpec, Arc<HandlerSpec>)> {
    let (py, name): (_, String) = (object.py(), attribute(object, "name")?);
    let is_opaque = attribute(object, "opaque")?;
    let documents = |inputs_or_outputs| attribute(object, inputs_or_outputs);
    let (mut inputs, mut input_forms) =
        tensors(py, &name, attribute(object, "inputs")?, documents("input_documents")?)?;
    let (mut outputs, mut output_forms) =
        tensors(py, &name, attribute(object, "outputs")?, documents("output_documents")?)?;
    input_forms.iter_mut().chain(&mut output_forms).for_each(|form| form.opaque = is_opaque);
    let batching = optional(object, "batching", |batching| batching::read(batching, &inputs))?;
    if batching.is_none() || is_opaque {
        // Opaque tensors, of a pipeline for example, are joined elsewhere.
        inputs.iter_mut().chain(&mut outputs).for_each(|tensor| tensor.ragged = None);
    }
    let wants_context = attribute(object, "wants_context")?;
    let several = ModelSpec {
        batching,
        inputs,
        outputs,
        resources: optional(object, "resources", options::resources)?,
        queueing: optional(object, "queueing", options::queueing)?.unwrap_or_default(),
        sequences: optional(object, "sequences", options::sequences)?,
        iterative: optional(object, "iterative", options::iterative)?,
        cache: optional(object, "cache", options::caching)?,
        version_policy: optional(object, "version_policy", options::version_policy)?.unwrap_or_default(),
        fallback: optional(object, "fallback", options::fallback)?,
        routes: options::routes(py, &name, &attribute::<Vec<String>>(object, "routes")?)?,
        ..ModelSpec::default()
    };
    let spec = read_record!(object, ModelSpec {
        name => Arc::<str>::from as fn(String) -> _,
        version => Arc::<str>::from as fn(String) -> _,
        platform => Arc::<str>::from as fn(String) -> _,
        description => Arc::<str>::from as fn(String) -> _,
        max_queue => |most: usize| most.max(1),
        instances => |count: usize| count.max(1),
        // Raw requests come with all metadata.
        wants_context: "open" => |open: bool| wants_context || open,
        streams,
        buckets => |buckets: Vec<(String, Vec<f64>)>| buckets.into(),
        check_shapes,
        plain_types,
        raw_requests: "open",
        stall_timeout => |seconds: Option<f64>| seconds.map(|seconds| duration(seconds).unwrap_or_default())
        ; ..several
    });
    let handler_spec = HandlerSpec {
        warmup: optional(object, "warmup", |_| Ok(object.clone().unbind()))?,
        factory: attribute(object, "factory")?,
        inputs: input_forms,
        outputs: output_forms,
        inline: attribute(object, "inline")?,
        concurrency: attribute::<Option<usize>>(object, "concurrency")?.map(|count| count.max(1)),
        processes: attribute::<Option<_>>(object, "processes")?.map(|declared| Processes::read(declared, &spec)),
        caller: Arc::new(Caller::new(attribute(object, "calls")?)),
        wants_context,
        copied_at_once: false,
    };
    Ok((spec, Arc::new(handler_spec)))
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
        let widened = datatype.is_widened()
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
            media_type: tensor.media_type.as_deref().map(Arc::from),
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
