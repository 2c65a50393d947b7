//! Model declarations.

use super::{
    Batching, Caching, Fallback, Iterative, Oversize, Queueing, ResourceRequest, Sequences, TensorSpec, names,
    shape_text,
};
use crate::{Datatype, Error, Result, Route};
use std::{sync::Arc, time::Duration};

/// Versions of a model to serve.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum VersionPolicy {
    /// Every version.
    #[default]
    All,
    /// The newest versions, this many.
    Latest(u32),
    /// The versions with these names.
    Specific(Vec<String>),
}

/// Declaration of a model.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelSpec {
    /// Name on the wire.
    pub name: Arc<str>,
    /// Version on the wire.
    pub version: Arc<str>,
    /// `platform` of the model's metadata.
    pub platform: Arc<str>,
    /// Versions to serve. The loader of models applies it; here it is only described.
    pub version_policy: VersionPolicy,
    /// Description by the author; empty if there is none.
    pub description: Arc<str>,
    /// Inputs, in the order of the handler's arguments.
    pub inputs: Vec<TensorSpec>,
    /// Outputs, in the order of the returned tuple.
    pub outputs: Vec<TensorSpec>,
    /// `None`: each request is one call, and tensors have no batch axis.
    pub batching: Option<Batching>,
    /// Computes rows step by step; requests join and leave between steps. Has `batching`, and streams.
    pub iterative: Option<Iterative>,
    /// Inputs have types of JSON values, forms or files. Requests may then be plain on the protocol's routes, too.
    pub plain_types: bool,
    /// Maximum requests in the queue.
    pub max_queue: usize,
    /// Priorities, limits and timeouts of the queue.
    pub queueing: Queueing,
    /// Limits for sequences, if the model keeps state between the requests of a sequence.
    pub sequences: Option<Sequences>,
    /// Response cache; `None` for no cache.
    pub cache: Option<Caching>,
    /// Resources of the server that each batch needs; `None` for none.
    pub resources: Option<ResourceRequest>,
    /// Maximum number of batches that are computed at once.
    pub instances: usize,
    /// The handler reads the request's headers, parameters or id.
    pub wants_context: bool,
    /// The model sends any number of responses to a request ("decoupled" in the protocol).
    pub streams: bool,
    /// Histograms that handlers define: names, and ascending bounds of the buckets.
    pub buckets: Arc<[(String, Vec<f64>)]>,
    /// Checks that outputs have the declared shapes.
    pub check_shapes: bool,
    /// Accepts any tensors or raw HTTP requests, and declares no inputs and outputs. Requests are computed one by one.
    pub raw_requests: bool,
    /// Routes for raw HTTP requests.
    pub routes: Vec<Route>,
    /// Model for the HTTP requests that this one fails to answer.
    pub fallback: Option<Fallback>,
    /// Time without progress of a busy instance after which the server is not live; zero for no limit, `None` for the
    /// server's.
    pub stall_timeout: Option<Duration>,
}

impl Default for ModelSpec {
    /// A model without a name, inputs and outputs; all other options have their defaults.
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
            iterative: None,
            plain_types: false,
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
            routes: Vec::new(),
            fallback: None,
            stall_timeout: None,
        }
    }
}

impl ModelSpec {
    /// Returns true if tensors begin with a batch axis. A raw-request model batches whole requests, so its tensors do
    /// not.
    pub fn has_batch_axis(&self) -> bool {
        self.batching.is_some() && !self.raw_requests
    }

    /// Maximum rows of a batch; 0 without a batch axis, as in the protocol's `max_batch_size`.
    pub fn max_batch_size(&self) -> usize {
        self.batching.as_ref().map_or(0, |batching| batching.max_size)
    }

    /// Rows of the padded batch that the handler receives for `rows` rows.
    pub fn padded(&self, rows: usize) -> usize {
        self.batching.as_ref().map_or(rows, |batching| batching.padded(rows))
    }

    /// Returns true if a batch that ran out of memory is run again in halves.
    pub fn retries_on_oom(&self) -> bool {
        // A sequence's step cannot move to another batch, and a stream may have sent responses already.
        self.batching.as_ref().is_some_and(|batching| batching.retry_on_oom)
            && self.sequences.is_none()
            && !self.streams
    }

    /// Name under which this model's explainer is registered. No other model can have it: a model name has no colon.
    pub fn explainer_name(&self) -> String {
        format!("{}:explain", self.name)
    }

    /// Index of an input.
    ///
    /// # Errors
    /// `InvalidInput`: unknown name; the message lists the known ones.
    pub fn input_index(&self, name: &str) -> Result<usize> {
        find(&self.inputs, name).ok_or_else(|| {
            Error::invalid(format!(
                "unexpected input '{name}' for model '{}', expected {}",
                self.name,
                names(&self.inputs)
            ))
        })
    }

    /// Index of an output.
    ///
    /// # Errors
    /// `InvalidInput`: unknown name; the message lists the known ones.
    pub fn output_index(&self, name: &str) -> Result<usize> {
        find(&self.outputs, name).ok_or_else(|| {
            Error::invalid(format!(
                "unexpected inference output '{name}' for model '{}', expected {}",
                self.name,
                names(&self.outputs)
            ))
        })
    }

    /// Checks datatype and shape of input `index`, before memory is allocated for it. A raw-request model accepts any.
    ///
    /// # Errors
    /// `InvalidInput`: the message has the input, the given and the expected value.
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

    /// Returns true if any two requests fit into one batch: all dimensions are fixed, or ragged, and no input is
    /// optional.
    pub fn has_fixed_rows(&self) -> bool {
        let sizes =
            |input: &TensorSpec| input.dims.iter().skip(usize::from(input.ragged.is_some())).all(Option::is_some);
        self.inputs.iter().all(|input| !input.optional && sizes(input))
    }
}

fn find(specs: &[TensorSpec], name: &str) -> Option<usize> {
    specs.iter().position(|spec| &*spec.name == name)
}
