//! Model declarations.

use super::{
    Batching, Caching, Fallback, Oversize, Queueing, ResourceRequest, Sequences, TensorSpec, names, shape_text,
};
use crate::{Datatype, Error, Result, Route};
use std::sync::Arc;

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
    pub fn explainer_name(&self) -> String {
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

fn find(specs: &[TensorSpec], name: &str) -> Option<usize> {
    specs.iter().position(|spec| &*spec.name == name)
}
