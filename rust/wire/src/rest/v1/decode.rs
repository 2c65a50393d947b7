//! Decodes the body of a V1 call.

use crate::{
    Limits,
    json::{
        fault::Scan,
        reader::{Reader, Skip},
    },
    request_schema::refuse_raw_request_model,
    rest::{parameters::RequestParameters, values::Table},
};
use penstock_core::{Error, InferRequest, ModelSpec, RequestMetadata, Result};
use std::time::Duration;

/// A decoded call.
#[derive(Debug)]
pub struct PredictRequest {
    /// Requests for the queue: one, or one per instance if the model has no batch axis.
    pub requests: Vec<InferRequest>,
    /// Form of the inputs, which the outputs take too.
    pub form: Form,
    /// The client's timeout, from now.
    pub timeout: Option<Duration>,
}

/// Form of a call's inputs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// `instances`: a list with so many rows.
    Instances(usize),
    /// `inputs`: each tensor as a whole, with its batch axis if the model has one.
    Inputs,
}

/// Decodes the body of a V1 call.
///
/// `instances` is a list of rows. For a model that batches, they are one request with that many rows;
/// for others, each is a separate request. A row is an object of values by input name; for a model with
/// one input it may be the value itself. `inputs` holds the tensors as a whole.
///
/// ```
/// use penstock_core::{Batching, Datatype, ModelSpec, TensorSpec};
/// use penstock_wire::{Limits, rest::v1};
///
/// let inputs = vec![TensorSpec::new("x", Datatype::Fp32, vec![Some(2)])];
/// let spec = ModelSpec { inputs, batching: Some(Batching::new(8)), ..ModelSpec::default() };
/// let call = v1::decode(&spec, br#"{"instances": [[1, 2], [3, 4], [5, 6]]}"#, &Limits::default())?;
/// assert_eq!(call.requests[0].inputs[0].as_ref().unwrap().shape(), [3, 2]);
/// # Ok::<(), penstock_core::Error>(())
/// ```
///
/// # Errors
/// `InvalidInput` that says where the JSON is wrong, or names the instance and the input.
pub fn decode(spec: &ModelSpec, json: &[u8], limits: &Limits) -> Result<PredictRequest> {
    refuse_raw_request_model(spec, "V1 is not supported")?;
    let mut body = Body { spec, limits, form: None, requests: Vec::new(), parameters: RequestParameters::default() };
    body.read(json).map_err(|error| {
        if error.message().starts_with("request JSON") {
            return Error::new(error.kind(), format!("Unrecognized request format: {}", error.message()));
        }
        error
    })?;
    body.finish()
}

/// Returns whether a body is a V1 call's: `instances` is among its keys, before any `inputs`.
pub fn has_instances(json: &[u8], limits: &Limits) -> bool {
    let find = || -> Scan<bool> {
        let mut reader = Reader::new(json);
        reader.expect(b'{', "a JSON object")?;
        let mut first = true;
        while let Some(key) = reader.key(&mut first)? {
            match &*key.bytes()? {
                b"instances" => return Ok(true),
                b"inputs" => return Ok(false),
                _ => drop(reader.skip(Skip { max_depth: limits.max_depth, outer: 1, non_finite: true })?),
            }
        }
        Ok(false)
    };
    find().unwrap_or(false)
}

struct Body<'s> {
    spec: &'s ModelSpec,
    limits: &'s Limits,
    form: Option<Form>,
    requests: Vec<InferRequest>,
    parameters: RequestParameters,
}

impl Body<'_> {
    fn read(&mut self, json: &[u8]) -> Result<()> {
        let mut reader = Reader::new(json);
        reader.expect(b'{', "a JSON object")?;
        let mut first = true;
        while let Some(key) = reader.key(&mut first)? {
            match &*key.bytes()? {
                b"instances" => self.read_instances(&mut reader)?,
                b"inputs" => self.read_inputs(&mut reader)?,
                b"parameters" => self.read_parameters(&mut reader)?,
                _ => drop(reader.skip(Skip { max_depth: self.limits.max_depth, outer: 1, non_finite: false })?),
            }
        }
        if reader.peek().is_some() {
            return Err(reader.fault("nothing after the request's object").into());
        }
        Ok(())
    }

    fn finish(self) -> Result<PredictRequest> {
        let form = self.form.ok_or_else(|| Error::invalid("the request has neither 'instances' nor 'inputs'"))?;
        let Self { mut requests, mut parameters, .. } = self;
        let schedule = std::mem::take(&mut parameters.schedule).finish();
        if schedule.step.is_some() && requests.len() > 1 {
            let count = requests.len();
            return Err(Error::invalid(format!("a call of a sequence has one instance, the request has {count}")));
        }
        requests.iter_mut().for_each(|request| request.schedule = schedule.clone());
        if self.spec.wants_context {
            let caller =
                RequestMetadata { parameters: std::mem::take(&mut parameters.custom), ..RequestMetadata::default() };
            requests.iter_mut().for_each(|request| request.metadata = Some(Box::new(caller.clone())));
        }
        Ok(PredictRequest { requests, form, timeout: parameters.timeout })
    }

    fn read_instances(&mut self, reader: &mut Reader<'_>) -> Result<()> {
        if reader.peek() != Some(b'[') {
            return Err(Error::invalid("Expected \"instances\" to be a list"));
        }
        self.begin(matches!(self.form, Some(Form::Inputs)))?;
        reader.bump();
        let spec = self.spec;
        let mut table = Table::new(spec, self.limits, false);
        let (mut first, mut count) = (true, 0);
        while reader.item(&mut first)? {
            if spec.batching.is_some() {
                table.read(reader, count).map_err(|error| with_position(count, &error))?;
            } else {
                self.check_count(count)?;
                let read = table.read(reader, 0).and_then(|()| table.finish(None));
                self.requests.push(read.map_err(|error| with_position(count, &error))?);
                table = Table::new(spec, self.limits, false);
            }
            count += 1;
        }
        if spec.batching.is_some() && count > 0 {
            self.requests.push(table.finish(Some(count))?);
        }
        self.form = Some(Form::Instances(count));
        Ok(())
    }

    fn read_inputs(&mut self, reader: &mut Reader<'_>) -> Result<()> {
        self.begin(matches!(self.form, Some(Form::Instances(_))))?;
        let mut table = Table::new(self.spec, self.limits, self.spec.batching.is_some());
        table.read(reader, 0)?;
        self.requests.push(table.finish(None)?);
        self.form = Some(Form::Inputs);
        Ok(())
    }

    /// Starts a list of inputs: the last of a key counts, and only one of the two keys may be present.
    fn begin(&mut self, other: bool) -> Result<()> {
        self.requests.clear();
        if other { Err(Error::invalid("the request has both 'instances' and 'inputs'")) } else { Ok(()) }
    }

    fn read_parameters(&mut self, reader: &mut Reader<'_>) -> Result<()> {
        if reader.peek() == Some(b'n') && reader.word("null") {
            self.parameters = RequestParameters::default();
            return Ok(());
        }
        self.parameters.read(reader, self.spec.wants_context)
    }

    /// Each instance waits in the queue for itself.
    fn check_count(&self, count: usize) -> Result<()> {
        let most = self.spec.max_queue;
        if count < most {
            return Ok(());
        }
        let name = &self.spec.name;
        Err(Error::invalid(format!("the request has more than {most} instances, the most that model '{name}' accepts")))
    }
}

/// Adds the instance to an error without a position.
fn with_position(instance: usize, error: &Error) -> Error {
    if error.message().starts_with("request JSON") {
        return error.clone();
    }
    Error::new(error.kind(), format!("instances[{instance}]: {}", error.message()))
}
