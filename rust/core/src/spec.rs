//! What a model declares: its inputs, outputs and batching. Compiled once at load; requests are
//! checked against it before anything is allocated for their tensors.

use crate::{
    Datatype, Error, Fallback, Queueing, Ragged, ResourceRequest, Result, Route, RowCost, Sequences, Window,
    cache::Caching,
};
use std::sync::Arc;

/// One declared input or output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TensorSpec {
    /// Its name on the wire.
    pub name: Arc<str>,
    /// The type of its elements.
    pub datatype: Datatype,
    /// The sizes of its axes without the batch axis; `None` is variable (`-1` on the wire).
    pub dims: Vec<Option<usize>>,
    /// Whether a request may leave it out (inputs only).
    pub optional: bool,
    /// Whether the elements of a BYTES tensor must be UTF-8.
    pub text: bool,
    /// The names of its elements in a row, for classification (outputs only).
    pub labels: Arc<[Box<str>]>,
    /// Whether the element of a BYTES tensor is a JSON document, which a JSON protocol may carry as it is.
    pub document: bool,
    /// For a BYTES tensor of JSON documents: what such a document is. Only described, never checked here.
    pub described: Option<Arc<Document>>,
    /// How rows that differ in the size of the first axis share a batch; `None`: they do not.
    pub ragged: Option<Ragged>,
}

/// The JSON documents that a BYTES tensor carries, as its description tells them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Document {
    /// Their JSON Schema, as JSON text; its references point inside itself.
    pub schema: String,
    /// One that is valid, as JSON text.
    pub example: Option<String>,
}

/// How requests are joined into batches. All row counts include the batch axis only.
#[derive(Clone, Debug, PartialEq)]
pub struct Batching {
    /// The most rows in one batch, and in one request.
    pub max_size: usize,
    /// Whether rows of different requests may share a batch.
    pub dynamic: bool,
    /// How long the oldest request may wait for company, in nanoseconds. Zero adds no wait.
    pub max_delay_ns: u64,
    /// Sizes that a batch is cut to when it may not wait longer and more is there; ascending.
    pub preferred_sizes: Vec<usize>,
    /// Whether the learned hold for returning callers is on.
    pub hold: bool,
    /// What happens to a request with more rows than `max_size`.
    pub oversize: Oversize,
    /// The sizes that a handler sees, ascending: a batch is filled up to the next one. Empty for any size.
    pub sizes: Vec<usize>,
    /// What it is filled up with.
    pub padding: Padding,
    /// Whether inputs are kept until a batch is answered, to run it again in halves if it was too large for the
    /// memory.
    pub retry_on_oom: bool,
    /// What rows cost, and how much a batch may; `None` where it is bounded by rows alone.
    pub cost: Option<RowCost>,
    /// Which lengths share a batch, where rows may differ in length; `None` for all.
    pub window: Option<Window>,
    /// The latency that batches are to keep for nearly all requests, in nanoseconds.
    pub target_ns: Option<u64>,
    /// Whether a request is refused that could not be answered within it.
    pub reject_late: bool,
    /// What a batch of several requests may be expected to take, in nanoseconds; `None` for any time.
    pub max_duration_ns: Option<u64>,
}

/// What fills a batch up to an allowed size.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Padding {
    /// The last row again.
    #[default]
    Repeat,
    /// Zeros, and empty BYTES.
    Zeros,
}

/// What happens to a request with more rows than one batch holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Oversize {
    /// It is the client's error.
    Refuse,
    /// It is computed in several batches and answered as one.
    Split,
}

impl Batching {
    /// Dynamic batching of at most `max_size` rows, with the defaults of all else.
    pub fn new(max_size: usize) -> Self {
        Self {
            max_size,
            dynamic: true,
            max_delay_ns: 0,
            preferred_sizes: Vec::new(),
            hold: true,
            oversize: Oversize::Refuse,
            sizes: Vec::new(),
            padding: Padding::default(),
            retry_on_oom: false,
            cost: None,
            window: None,
            target_ns: None,
            reject_late: false,
            max_duration_ns: None,
        }
    }

    /// The rows that a handler sees for a batch of `rows`.
    pub fn padded(&self, rows: usize) -> usize {
        let fits = self.sizes.iter().copied().find(|&size| size >= rows);
        fits.filter(|_| rows > 0).unwrap_or(rows)
    }
}

/// Which of a model's versions serve.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum VersionPolicy {
    /// Every one that there is.
    #[default]
    All,
    /// So many of the newest.
    Latest(u32),
    /// Those with these names.
    Specific(Vec<String>),
}

/// A model's declaration.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelSpec {
    /// Its name on the wire.
    pub name: Arc<str>,
    /// Its version on the wire.
    pub version: Arc<str>,
    /// The `platform` of its metadata.
    pub platform: Arc<str>,
    /// Which versions of it serve. Whoever loads models keeps to it; here it is only told.
    pub version_policy: VersionPolicy,
    /// What it does, in its author's words; empty if nothing is said.
    pub description: Arc<str>,
    /// Its inputs, in the order in which the handler takes them.
    pub inputs: Vec<TensorSpec>,
    /// Its outputs, in the order in which a tuple returns them.
    pub outputs: Vec<TensorSpec>,
    /// `None`: each request is one call and there is no batch axis.
    pub batching: Option<Batching>,
    /// The most requests that wait in the queue.
    pub max_queue: usize,
    /// How they wait.
    pub queueing: Queueing,
    /// Whether it keeps state between the requests of a sequence.
    pub sequences: Option<Sequences>,
    /// How its answers are kept; `None` for not at all.
    pub cache: Option<Caching>,
    /// What it needs of the server's resources for each batch; `None` for nothing.
    pub resources: Option<ResourceRequest>,
    /// How many batches may be computed at once.
    pub instances: usize,
    /// Whether the handler asks for the request's headers, parameters and id.
    pub wants_context: bool,
    /// Whether it gives any number of answers to a request, as they are made: "decoupled" in the protocol.
    pub streams: bool,
    /// Names of histograms that its handlers keep, and the ascending bounds of their buckets.
    pub buckets: Arc<[(String, Vec<f64>)]>,
    /// Whether outputs must have the shapes that they declare.
    pub check_shapes: bool,
    /// Whether it takes requests as they are: any tensors, each request by itself. It declares no inputs and outputs.
    pub raw_requests: bool,
    /// Whether it takes what V2 does not allow: `null` for a float that is no number, datatypes in lower case, and over
    /// gRPC any version. For open models only.
    pub lenient: bool,
    /// Paths of its own, for HTTP requests that it takes as they are.
    pub routes: Vec<Route>,
    /// What answers those that it does not.
    pub fallback: Option<Fallback>,
}

impl Default for ModelSpec {
    /// A model without a name, inputs and outputs, with the defaults of all else.
    fn default() -> Self {
        Self {
            name: "".into(),
            version: "1".into(),
            platform: "penstock".into(),
            version_policy: VersionPolicy::All,
            description: "".into(),
            inputs: Vec::new(),
            outputs: Vec::new(),
            batching: None,
            max_queue: 1024,
            queueing: Queueing::default(),
            sequences: None,
            cache: None,
            resources: None,
            instances: 1,
            wants_context: false,
            streams: false,
            buckets: Arc::new([]),
            check_shapes: true,
            raw_requests: false,
            lenient: false,
            routes: Vec::new(),
            fallback: None,
        }
    }
}

impl ModelSpec {
    /// Whether its tensors begin with an axis of rows that requests share. Batches of an open model are of whole
    /// requests, and what it declares is for readers.
    pub fn has_batch_axis(&self) -> bool {
        self.batching.is_some() && !self.raw_requests
    }

    /// The most rows in a batch; 0 without a batch axis, as the protocol's `max_batch_size` has it.
    pub fn max_batch_size(&self) -> usize {
        self.batching.as_ref().map_or(0, |batching| batching.max_size)
    }

    /// The rows that its handler sees for a batch of `rows`.
    pub fn padded(&self, rows: usize) -> usize {
        self.batching.as_ref().map_or(rows, |batching| batching.padded(rows))
    }

    /// Whether a batch that is too large for the memory is run again in halves.
    pub fn retries_on_oom(&self) -> bool {
        // The steps of sequences are all of different ones, and streams may have answered in part.
        self.batching.as_ref().is_some_and(|batching| batching.retry_on_oom)
            && self.sequences.is_none()
            && !self.streams
    }

    /// The name under which the model that explains this one is registered; no other model can have it,
    /// because a name has no colon.
    pub fn explainer(&self) -> String {
        format!("{}:explain", self.name)
    }

    /// The index of an input.
    ///
    /// # Errors
    /// `InvalidInput` that names the unknown input and the known ones.
    pub fn input_index(&self, name: &str) -> Result<usize> {
        find(&self.inputs, name).ok_or_else(|| {
            Error::invalid(format!(
                "unexpected input '{name}' for model '{}', expected {}",
                self.name,
                names(&self.inputs)
            ))
        })
    }

    /// The index of an output.
    ///
    /// # Errors
    /// `InvalidInput` that names the unknown output and the known ones.
    pub fn output_index(&self, name: &str) -> Result<usize> {
        find(&self.outputs, name).ok_or_else(|| {
            Error::invalid(format!(
                "unexpected inference output '{name}' for model '{}', expected {}",
                self.name,
                names(&self.outputs)
            ))
        })
    }

    /// Checks what a request says of input `index`, before a byte of it is stored. An open model takes any.
    ///
    /// # Errors
    /// `InvalidInput` that names the input, what was given and what is expected.
    pub fn check_input(&self, index: usize, datatype: Datatype, shape: &[usize]) -> Result<()> {
        if self.raw_requests {
            return Ok(());
        }
        let spec = &self.inputs[index];
        if datatype != spec.datatype {
            return Err(Error::invalid(format!(
                "input '{}' has datatype {datatype}, model '{}' expects {}",
                spec.name, self.name, spec.datatype
            )));
        }
        let batched = self.batching.is_some();
        if !spec.fits(shape, batched) {
            return Err(Error::invalid(format!(
                "input '{}' has shape {shape:?}, model '{}' expects {}",
                spec.name,
                self.name,
                shape_text(spec, batched)
            )));
        }
        match &self.batching {
            Some(Batching { max_size, oversize: Oversize::Refuse, .. }) if shape[0] > *max_size => {
                Err(Error::invalid(format!(
                    "input '{}' has a batch of {} rows, model '{}' accepts at most {max_size}",
                    spec.name, shape[0], self.name
                )))
            }
            _ => Ok(()),
        }
    }

    /// Whether every input's rows have one size only, but for lengths that may differ, so that all requests fit
    /// together.
    pub fn has_fixed_rows(&self) -> bool {
        let sizes =
            |input: &TensorSpec| input.dims.iter().skip(usize::from(input.ragged.is_some())).all(Option::is_some);
        self.inputs.iter().all(|input| !input.optional && sizes(input))
    }
}

impl TensorSpec {
    /// A required tensor of arbitrary elements.
    pub fn new(name: &str, datatype: Datatype, dims: Vec<Option<usize>>) -> Self {
        Self {
            name: name.into(),
            datatype,
            dims,
            optional: false,
            text: false,
            document: false,
            labels: Arc::default(),
            described: None,
            ragged: None,
        }
    }

    /// Whether a shape has these axes, behind a batch axis of any size if there is one.
    pub fn fits(&self, shape: &[usize], batched: bool) -> bool {
        let row = shape.get(usize::from(batched)..).unwrap_or_default();
        shape.len() == self.dims.len() + usize::from(batched)
            && row.iter().zip(&self.dims).all(|(&dim, expected)| expected.is_none_or(|expected| expected == dim))
    }

    /// The shape as metadata shows it: `-1` for variable axes, and for the batch axis if there is one.
    pub fn wire_shape(&self, batched: bool) -> Vec<i64> {
        let dims = self.dims.iter().map(|dim| dim.map_or(-1, |dim| i64::try_from(dim).unwrap_or(i64::MAX)));
        batched.then_some(-1).into_iter().chain(dims).collect()
    }
}

/// The shape in an error message, for example `[-1, 16]`.
pub fn shape_text(spec: &TensorSpec, batched: bool) -> String {
    format!("{:?}", spec.wire_shape(batched))
}

fn find(specs: &[TensorSpec], name: &str) -> Option<usize> {
    specs.iter().position(|spec| &*spec.name == name)
}

/// The names in an error message, for example `'a', 'b'`.
pub fn names(specs: &[TensorSpec]) -> String {
    if specs.is_empty() {
        return "none".to_owned();
    }
    specs.iter().map(|spec| format!("'{}'", spec.name)).collect::<Vec<_>>().join(", ")
}
