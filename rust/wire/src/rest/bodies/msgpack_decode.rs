//! The protocol's JSON object in msgpack. `data` is the tensor's bytes, a list as in JSON, or an array of
//! msgpack-numpy.

use super::{
    msgpack_elements::{self, Target},
    msgpack_reader::{Item, Reader},
    npy_decode::Element,
    request_options::RequestOptions,
    tensors::Inputs,
};
use crate::{Limits, rest::request_json::RequestJson};
use penstock_core::{
    Datatype, Error, MAX_RANK, Result, Shape,
    copies::{self, Step},
};

pub(super) fn decode(body: &[u8], inputs: &mut Inputs<'_>, extras: &mut RequestOptions) -> Result<()> {
    let mut reader = Reader::new(body, inputs.limits.max_depth);
    // Everything but tensors goes through the JSON decoder, so that the meaning is the same.
    let mut json = b"{\"inputs\":[]".to_vec();
    let (mut has_inputs, mut has_extras) = (false, false);
    for _ in 0..reader.map("a map of the request")? {
        let key = reader.text("a string for a key")?;
        match key {
            "inputs" if has_inputs => return Err(Error::invalid("'inputs' is given twice")),
            "inputs" => {
                has_inputs = true;
                read_inputs(&mut reader, inputs)?;
            }
            "id" | "outputs" | "parameters" => {
                has_extras = true;
                json.extend_from_slice(format!(",\"{key}\":").as_bytes());
                reader.json(&mut json)?;
            }
            _ => reader.skip()?,
        }
    }
    if reader.remaining() > 0 {
        return Err(reader.fault("nothing after the request's map"));
    }
    if !has_inputs {
        return Err(Error::invalid("the request has no 'inputs'"));
    }
    if has_extras {
        json.push(b'}');
        read_extras(&json, inputs, extras)?;
    }
    Ok(())
}

fn read_extras(json: &[u8], inputs: &Inputs<'_>, extras: &mut RequestOptions) -> Result<()> {
    // All tensors are in the body.
    let limits = Limits { shared_memory: false, ..inputs.limits };
    let mut head = RequestJson::new(inputs.spec, &limits);
    head.read(json).map_err(|error| Error::new(error.kind(), without_position(error.message())))?;
    extras.caller = head.take_metadata();
    extras.timeout = head.parameters.timeout;
    extras.schedule = head.parameters.schedule.finish();
    extras.plan = head.plan;
    Ok(())
}

/// Removes the position in the JSON, which the client did not send.
fn without_position(message: &str) -> String {
    match message.strip_prefix("request JSON at byte ").and_then(|rest| rest.split_once(':')) {
        Some((_, rest)) => format!("request msgpack:{rest}"),
        None => message.to_owned(),
    }
}

fn read_inputs(reader: &mut Reader<'_>, inputs: &mut Inputs<'_>) -> Result<()> {
    let count = reader.array("an array for 'inputs'")?;
    let most = inputs.limits.max_inputs;
    if count > most {
        return Err(Error::invalid(format!("the request has more than {most} inputs")));
    }
    for position in 0..count {
        Builder::read(reader, position)?.finish(inputs)?;
    }
    Ok(())
}

/// Members of an input.
struct Builder<'b> {
    position: usize,
    name: Option<&'b str>,
    datatype: Option<&'b str>,
    shape: Option<Shape>,
    /// At `data`.
    data: Option<Reader<'b>>,
}

impl<'b> Builder<'b> {
    fn read(reader: &mut Reader<'b>, position: usize) -> Result<Self> {
        let mut builder = Self { position, name: None, datatype: None, shape: None, data: None };
        for _ in 0..reader.map("a map for each of 'inputs'")? {
            match reader.text("a string for a key")? {
                "name" => builder.name = Some(reader.text("a string for an input's 'name'")?),
                "datatype" => builder.datatype = Some(reader.text("a string for an input's 'datatype'")?),
                "shape" => builder.shape = Some(shape(reader)?),
                "data" => {
                    builder.data = Some(*reader);
                    reader.skip()?;
                }
                _ => reader.skip()?,
            }
        }
        Ok(builder)
    }

    fn finish(self, inputs: &mut Inputs<'_>) -> Result<()> {
        let name = self.name.ok_or_else(|| Error::invalid(format!("'inputs[{}]' has no 'name'", self.position)))?;
        let index = inputs.index(name)?;
        let missing = |key: &str| Error::invalid(format!("input '{name}' has no '{key}'"));
        let datatype = match self.datatype {
            None => None,
            Some(given) => Some(Datatype::from_name(given).ok_or_else(|| {
                let known = Datatype::ALL.map(Datatype::name).join(", ");
                Error::invalid(format!("input '{name}': unknown datatype '{given}', expected one of {known}"))
            })?),
        };
        let mut data = self.data.ok_or_else(|| missing("data"))?;
        let start = data;
        match data.item()? {
            Item::Map(_) => {
                let packed = Packed::read(&mut start.clone()).map_err(|error| inputs.with_input_name(index, &error))?;
                packed.put(index, datatype, self.shape, inputs)
            }
            Item::Bin(bytes) => {
                let datatype = datatype.ok_or_else(|| missing("datatype"))?;
                inputs.copy(index, datatype, self.shape.ok_or_else(|| missing("shape"))?, bytes)
            }
            Item::Array(_) => {
                let datatype = datatype.ok_or_else(|| missing("datatype"))?;
                let shape = self.shape.ok_or_else(|| missing("shape"))?;
                let count = inputs.check(index, datatype, &shape)?;
                let target = Target { name, datatype, shape: &shape, count };
                let buffer = msgpack_elements::read(&mut start.clone(), &target)?;
                copies::count(Step::Receive, buffer.len());
                inputs.put(index, datatype, shape, buffer)
            }
            other => Err(Error::invalid(format!(
                "'data' of input '{name}' is {}, expected bytes, an array, or a map as msgpack-numpy has it",
                other.what()
            ))),
        }
    }
}

fn shape(reader: &mut Reader<'_>) -> Result<Shape> {
    let rank = reader.array("an array for 'shape'")?;
    if rank > MAX_RANK {
        return Err(reader.fault("at most 32 dimensions in 'shape'"));
    }
    (0..rank).map(|_| reader.size("non-negative integers in 'shape'")).collect()
}

/// An array of msgpack-numpy.
struct Packed<'b> {
    descr: &'b str,
    shape: Shape,
    data: &'b [u8],
}

impl<'b> Packed<'b> {
    fn read(reader: &mut Reader<'b>) -> Result<Self> {
        let (mut descr, mut found, mut data) = (None, None, None);
        for _ in 0..reader.map("a map")? {
            match reader.text("a string for a key")? {
                "type" => descr = Some(reader.text("a dtype such as '<f4' for 'type'")?),
                "shape" => found = Some(shape(reader)?),
                "data" => {
                    data = match reader.item()? {
                        Item::Bin(bytes) | Item::Str(bytes) => Some(bytes),
                        _ => return Err(reader.fault("bytes for 'data'")),
                    }
                }
                _ => reader.skip()?,
            }
        }
        let (Some(descr), Some(shape), Some(data)) = (descr, found, data) else {
            return Err(Error::invalid("a map for 'data' has 'type', 'shape' and 'data', as msgpack-numpy packs it"));
        };
        Ok(Self { descr, shape, data })
    }

    fn put(
        self,
        index: usize,
        datatype: Option<Datatype>,
        shape: Option<Shape>,
        inputs: &mut Inputs<'_>,
    ) -> Result<()> {
        let name = &inputs.declared(index).name;
        let element = Element::parse(self.descr).map_err(|error| inputs.with_input_name(index, &error))?;
        let expected = datatype.unwrap_or(inputs.declared(index).datatype);
        let Some(own) = element.datatype(expected).filter(|own| datatype.is_none_or(|given| given == *own)) else {
            return Err(Error::invalid(format!("input '{name}' has dtype '{}', expected {expected}", self.descr)));
        };
        if shape.is_some_and(|given| given != self.shape) {
            return Err(Error::invalid(format!("input '{name}' has two shapes")));
        }
        let count = inputs.check(index, own, &self.shape)?;
        if count.checked_mul(element.size()) != Some(self.data.len()) {
            return Err(Error::invalid(format!(
                "input '{name}': got {} bytes, expected {} for dtype '{}' and shape {:?}",
                self.data.len(),
                count.saturating_mul(element.size()),
                self.descr,
                self.shape.as_slice()
            )));
        }
        let buffer = element.little_endian(self.data).map_err(|error| inputs.with_input_name(index, &error))?;
        copies::count(Step::Receive, buffer.len());
        inputs.put(index, own, self.shape, buffer)
    }
}
