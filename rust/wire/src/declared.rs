//! What a request is decoded against: its model's declaration, or, for an open model, what it declares itself.

use penstock_core::{Asked, Datatype, Error, Kind, ModelSpec, Parameters, Result, TensorSpec};
use std::ops::Deref;

/// The most bytes of a name that a request gives a tensor.
pub(crate) const MAX_NAME: usize = 1024;

/// Inputs and outputs that have indexes: those of the model, or, of an open one, those that the request has named so far.
#[derive(Debug)]
pub(crate) enum Declared<'s> {
    ByModel(&'s ModelSpec),
    ByRequest(Box<Own>),
}

/// What a request declares itself.
#[derive(Debug)]
pub(crate) struct Own {
    /// Its tensors so far. An output that is asked for has a name only.
    spec: ModelSpec,
    /// The custom parameters of its inputs.
    parameters: Vec<Parameters>,
}

impl Deref for Declared<'_> {
    type Target = ModelSpec;

    fn deref(&self) -> &ModelSpec {
        match self {
            Self::ByModel(spec) => spec,
            Self::ByRequest(own) => &own.spec,
        }
    }
}

impl<'s> Declared<'s> {
    pub(crate) fn new(spec: &'s ModelSpec) -> Self {
        if spec.open {
            Self::ByRequest(Box::new(Own { spec: spec.of_itself(Vec::new(), Vec::new()), parameters: Vec::new() }))
        } else {
            Self::ByModel(spec)
        }
    }

    /// The index of the input of that name, which is at `place` in the request. The last name that is given at a place
    /// counts.
    ///
    /// # Errors
    /// `InvalidInput` for a name that the model does not have; of an open one, for one that no tensor can have, or that
    /// another has.
    pub(crate) fn input(&mut self, name: &str, place: usize) -> Result<usize> {
        let own = match self {
            Self::ByModel(spec) => return spec.input_index(name),
            Self::ByRequest(own) => own,
        };
        check_name("input", name, place)?;
        own.spec.inputs.truncate(place);
        own.parameters.truncate(place);
        if own.spec.inputs.iter().any(|earlier| *earlier.name == *name) {
            return Err(Error::invalid(format!("input '{name}' is given twice")));
        }
        own.spec.inputs.push(TensorSpec::new(name, Datatype::Bytes, Vec::new()));
        Ok(place)
    }

    /// The index of the output of that name, which is asked for at `place`.
    ///
    /// # Errors
    /// As [`Declared::input`].
    pub(crate) fn output(&mut self, name: &str, place: usize) -> Result<usize> {
        let own = match self {
            Self::ByModel(spec) => return spec.output_index(name),
            Self::ByRequest(own) => own,
        };
        check_name("output", name, place)?;
        own.spec.outputs.truncate(place);
        if own.spec.outputs.iter().any(|earlier| *earlier.name == *name) {
            return Err(Error::invalid(format!("output '{name}' is requested twice")));
        }
        own.spec.outputs.push(TensorSpec::new(name, Datatype::Bytes, Vec::new()));
        Ok(place)
    }

    /// Forgets the inputs: another list of them counts.
    pub(crate) fn clear_inputs(&mut self) {
        if let Self::ByRequest(own) = self {
            own.spec.inputs.clear();
            own.parameters.clear();
        }
    }

    /// Forgets the outputs, likewise.
    pub(crate) fn clear_outputs(&mut self) {
        if let Self::ByRequest(own) = self {
            own.spec.outputs.clear();
        }
    }

    /// Keeps the custom parameters of the input at `place`.
    pub(crate) fn keep(&mut self, place: usize, parameters: Parameters) {
        if let Self::ByRequest(own) = self
            && !parameters.is_empty()
        {
            own.parameters.resize(place, Parameters::new());
            own.parameters.push(parameters);
        }
    }

    /// Refuses an output that is asked for as classes, where its type is not known before it is computed.
    ///
    /// # Errors
    /// As [`penstock_core::classify::check`]; `Unsupported` of an open model.
    pub(crate) fn check_classes(&self, index: usize) -> Result<()> {
        match self {
            Self::ByModel(spec) => penstock_core::classify::check(&spec.outputs[index]),
            Self::ByRequest(own) => {
                let (name, model) = (&own.spec.outputs[index].name, &own.spec.name);
                let text =
                    format!("output '{name}' cannot be classified: model '{model}' does not declare its outputs");
                Err(Error::new(Kind::Unsupported, text))
            }
        }
    }

    /// What an open model is told beside the tensors, which came as raw bytes if they are `binary`.
    pub(crate) fn asked(self, binary: bool) -> Option<Box<Asked>> {
        let Self::ByRequest(own) = self else { return None };
        let Own { spec, parameters } = *own;
        let names = |tensors: Vec<TensorSpec>| tensors.into_iter().map(|tensor| tensor.name.as_ref().into()).collect();
        let outputs = (!spec.outputs.is_empty()).then(|| names(spec.outputs));
        let names = names(spec.inputs);
        Some(Box::new(Asked { names, outputs, parameters: parameters.into(), binary, http: None }))
    }
}

/// Refuses an open model where a request does not name its tensors.
///
/// # Errors
/// `Unsupported`, with what to call instead.
pub(crate) fn refuse_open(spec: &ModelSpec, what: &str) -> Result<()> {
    if !spec.open {
        return Ok(());
    }
    let text = format!("model '{}' declares no inputs, so {what}: call infer, or a route of its own", spec.name);
    Err(Error::new(Kind::Unsupported, text))
}

fn check_name(role: &str, name: &str, place: usize) -> Result<()> {
    match name.len() {
        0 => Err(Error::invalid(format!("'{role}s[{place}]' has an empty 'name'"))),
        1..=MAX_NAME => Ok(()),
        len => {
            let text = format!("'{role}s[{place}]' has a name of {len} bytes, at most {MAX_NAME} are accepted");
            Err(Error::invalid(text))
        }
    }
}
