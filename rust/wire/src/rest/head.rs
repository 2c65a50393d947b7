//! The JSON of a request, as a whole.

use super::{
    input::{self, Inputs, Strings},
    parameters::{self, RequestParameters},
    reader::{Reader, Skip},
};
use crate::Limits;
use penstock_core::{AnswerPlan, CallerInfo, Error, ModelSpec, RequestedOutput, Result};
use smallvec::SmallVec;

/// All that the JSON says. It is filled in place, because it is large.
#[derive(Debug)]
pub(super) struct Head<'s> {
    spec: &'s ModelSpec,
    limits: &'s Limits,
    pub(super) inputs: Inputs,
    pub(super) plan: AnswerPlan,
    pub(super) parameters: RequestParameters,
}

/// A listed output, and its own `binary_data`.
type Listed = (usize, Option<bool>);

impl<'s> Head<'s> {
    pub(super) fn new(spec: &'s ModelSpec, limits: &'s Limits) -> Self {
        let (plan, parameters) = (AnswerPlan::default(), RequestParameters::default());
        Self { spec, limits, inputs: Inputs::new(), plan, parameters }
    }

    /// Reads the whole of `json`.
    ///
    /// # Errors
    /// `InvalidInput` that says where, or names what is wrong; `Unsupported` for extensions that this
    /// server does not have.
    pub(super) fn read(&mut self, json: &[u8]) -> Result<()> {
        let mut reader = Reader::new(json);
        let mut listed = SmallVec::new();
        let mut has_inputs = false;
        reader.expect(b'{', "a JSON object")?;
        let mut first = true;
        while let Some(key) = reader.key(&mut first)? {
            match &*key.bytes()? {
                b"id" => {
                    self.plan.id.clear();
                    self.plan.id.push_str(&reader.string("a string for 'id'")?.text()?);
                }
                b"inputs" => {
                    has_inputs = true;
                    self.read_inputs(&mut reader)?;
                }
                b"outputs" => self.read_outputs(&mut reader, &mut listed)?,
                b"parameters" => self.parameters.read(&mut reader, self.spec.wants_context)?,
                _ => drop(reader.skip(Skip { max_depth: self.limits.max_depth, non_finite: false })?),
            }
        }
        if reader.peek().is_some() {
            return Err(reader.fault("nothing after the request's object").into());
        }
        if !has_inputs {
            return Err(Error::invalid("the request has no 'inputs'"));
        }
        self.plan_answer(&listed);
        Ok(())
    }

    /// An empty list of outputs means all.
    fn plan_answer(&mut self, listed: &[Listed]) {
        let binary = self.parameters.binary_output;
        self.plan.binary = binary;
        if !listed.is_empty() {
            let output = |&(index, own): &Listed| RequestedOutput { index, binary: own.unwrap_or(binary) };
            self.plan.outputs = Some(listed.iter().map(output).collect());
        }
    }

    /// What the handler is told, if it asks.
    pub(super) fn take_caller(&mut self) -> Option<Box<CallerInfo>> {
        self.spec.wants_context.then(|| {
            let parameters = std::mem::take(&mut self.parameters.custom);
            Box::new(CallerInfo { id: self.plan.id.clone(), parameters, ..CallerInfo::default() })
        })
    }

    fn read_inputs(&mut self, reader: &mut Reader<'_>) -> Result<()> {
        let most = self.limits.max_inputs;
        self.inputs.clear();
        self.plan.base64 = false;
        reader.expect(b'[', "an array for 'inputs'")?;
        let mut first = true;
        while reader.item(&mut first)? {
            if self.inputs.len() == most {
                return Err(Error::invalid(format!("the request has more than {most} inputs")));
            }
            let strings = input::read(reader, self.spec, self.limits, &mut self.inputs)?;
            self.plan.base64 |= strings == Strings::Base64;
        }
        Ok(())
    }

    fn read_outputs(&self, reader: &mut Reader<'_>, listed: &mut SmallVec<[Listed; 4]>) -> Result<()> {
        let most = self.limits.max_outputs;
        listed.clear();
        reader.expect(b'[', "an array for 'outputs'")?;
        let mut first = true;
        while reader.item(&mut first)? {
            if listed.len() == most {
                return Err(Error::invalid(format!("the request has more than {most} outputs")));
            }
            let output = self.read_output(reader, listed.len())?;
            if listed.iter().any(|(index, _)| *index == output.0) {
                let name = &self.spec.outputs[output.0].name;
                return Err(Error::invalid(format!("output '{name}' is requested twice")));
            }
            listed.push(output);
        }
        Ok(())
    }

    fn read_output(&self, reader: &mut Reader<'_>, position: usize) -> Result<Listed> {
        let (mut index, mut binary) = (None, None);
        reader.expect(b'{', "an object for each of 'outputs'")?;
        let mut first = true;
        while let Some(key) = reader.key(&mut first)? {
            match &*key.bytes()? {
                b"name" => {
                    let name = reader.string("a string for an output's 'name'")?;
                    index = Some(self.spec.output_index(&name.text()?)?);
                }
                b"parameters" => binary = parameters::read_output(reader)?,
                _ => drop(reader.skip(Skip { max_depth: self.limits.max_depth, non_finite: false })?),
            }
        }
        let index = index.ok_or_else(|| Error::invalid(format!("'outputs[{position}]' has no 'name'")))?;
        Ok((index, binary))
    }
}
