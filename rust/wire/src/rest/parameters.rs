//! Parameters: booleans, integers, doubles and strings by name. The protocol reserves some names.

use crate::json::reader::{Reader, Skip};
use crate::{
    json::float,
    parameters::{ScheduleParameters, SharedMemoryParameters},
    shared_memory::RegionSlice,
};
use penstock_core::{Error, Parameter, Parameters, Result};
use std::time::Duration;

/// The parameters of a request.
#[derive(Debug, Default)]
pub(super) struct RequestParameters {
    /// `timeout`, if it is not zero.
    pub(super) timeout: Option<Duration>,
    /// `priority` and the sequence.
    pub(super) schedule: ScheduleParameters,
    /// `binary_data_output`.
    pub(super) binary_output: bool,
    /// All that are not reserved, if they are collected.
    pub(super) custom: Parameters,
}

/// The parameters of an input.
#[derive(Debug, Default)]
pub(super) struct InputParameters {
    /// `binary_data_size`.
    pub(super) binary_size: Option<usize>,
    /// `content_type` is `base64`.
    pub(super) base64: bool,
    /// `shared_memory_*`: where its elements are.
    pub(super) span: Option<Box<RegionSlice>>,
    /// All others, if they are collected.
    pub(super) custom: Parameters,
}

/// The parameters of a requested output.
#[derive(Debug, Default)]
pub(super) struct OutputParameters {
    /// `binary_data`.
    pub(super) binary: Option<bool>,
    /// `classification`, 0 for none.
    pub(super) classes: u32,
    /// `shared_memory_*`: where its elements go.
    pub(super) span: Option<Box<RegionSlice>>,
}

impl RequestParameters {
    /// Reads the object at the reader. Custom parameters are collected only if `keep_custom`.
    pub(super) fn read(&mut self, reader: &mut Reader<'_>, keep_custom: bool) -> Result<()> {
        *self = Self::default();
        each(reader, |name, value| self.put(name, value, keep_custom))
    }

    /// Reads a parameter of a generate request, which may also be a list, for example of `stop` texts. No prefix is
    /// reserved.
    pub(super) fn read_generated(&mut self, reader: &mut Reader<'_>, name: &str, keep_custom: bool) -> Result<()> {
        let value = match reader.peek() {
            Some(b'[') => read_list(reader, name)?,
            _ => read_value(reader, name)?,
        };
        self.put(name, value, keep_custom)
    }

    fn put(&mut self, name: &str, value: Parameter, keep_custom: bool) -> Result<()> {
        match name {
            "timeout" => {
                let micros = unsigned(name, &value)?;
                self.timeout = (micros > 0).then(|| Duration::from_micros(micros));
            }
            "binary_data_output" => self.binary_output = boolean(name, &value)?,
            "priority" => self.schedule.priority = unsigned(name, &value)?,
            "sequence_start" => self.schedule.start = boolean(name, &value)?,
            "sequence_end" => self.schedule.end = boolean(name, &value)?,
            "sequence_id" => {
                if !matches!(value, Parameter::String(_)) {
                    unsigned(name, &value)?;
                }
                self.schedule.set_id(value);
            }
            "headers" => {}
            _ if keep_custom => put(&mut self.custom, name, value),
            _ => {}
        }
        Ok(())
    }
}

impl InputParameters {
    /// Reads the object at the reader. Unknown names are checked, and collected only if `keep_custom`.
    pub(super) fn read(reader: &mut Reader<'_>, shared_memory: bool, keep_custom: bool) -> Result<Self> {
        let (mut parameters, mut span) = (Self::default(), None);
        each(reader, |name, value| {
            match name {
                "binary_data_size" => {
                    let size = usize::try_from(unsigned(name, &value)?);
                    parameters.binary_size = Some(size.map_err(|_| Error::invalid("'binary_data_size' is too large"))?);
                }
                "content_type" => match value {
                    Parameter::String(kind) => {
                        parameters.base64 = kind == "base64";
                        if keep_custom && !parameters.base64 {
                            put(&mut parameters.custom, name, Parameter::String(kind));
                        }
                    }
                    other => return Err(wrong(name, &other, "a string")),
                },
                _ if keep_custom && !SharedMemoryParameters::has(name) => put(&mut parameters.custom, name, value),
                _ => take_shared(&mut span, name, value, shared_memory)?,
            }
            Ok(())
        })?;
        parameters.span = finish_shared(span)?;
        Ok(parameters)
    }
}

impl OutputParameters {
    /// Reads the object at the reader. Names without a meaning here are checked and ignored.
    pub(super) fn read(reader: &mut Reader<'_>, shared_memory: bool) -> Result<Self> {
        let (mut parameters, mut span) = (Self::default(), None);
        each(reader, |name, value| {
            match name {
                "binary_data" => parameters.binary = Some(boolean(name, &value)?),
                "classification" => parameters.classes = classes(name, &value)?,
                _ => take_shared(&mut span, name, value, shared_memory)?,
            }
            Ok(())
        })?;
        parameters.span = finish_shared(span)?;
        Ok(parameters)
    }
}

/// Number of classes. Beyond `u32` it exceeds every output.
fn classes(name: &str, value: &Parameter) -> Result<u32> {
    match unsigned(name, value) {
        Ok(classes @ 1..) => Ok(u32::try_from(classes).unwrap_or(u32::MAX)),
        _ => Err(wrong(name, value, "an integer of 1 or more")),
    }
}

/// Boxed, because hardly any tensor has one.
type Shared = Option<Box<SharedMemoryParameters>>;

fn take_shared(span: &mut Shared, name: &str, value: Parameter, allowed: bool) -> Result<()> {
    if !SharedMemoryParameters::has(name) {
        return Ok(());
    }
    span.get_or_insert_default().take(name, value, allowed)
}

fn finish_shared(span: Shared) -> Result<Option<Box<RegionSlice>>> {
    span.map_or(Ok(None), |span| Ok(span.finish()?.map(Box::new)))
}

/// Reads an object and visits its members.
fn each(reader: &mut Reader<'_>, mut visit: impl FnMut(&str, Parameter) -> Result<()>) -> Result<()> {
    reader.expect(b'{', "an object of 'parameters'")?;
    let mut first = true;
    while let Some(key) = reader.key(&mut first)? {
        let name = key.text()?;
        if name.starts_with("triton_") {
            return Err(Error::invalid(format!("parameter '{name}' is reserved, names with 'triton_' are refused")));
        }
        let value = read_value(reader, &name)?;
        visit(&name, value)?;
    }
    Ok(())
}

fn read_value(reader: &mut Reader<'_>, name: &str) -> Result<Parameter> {
    reader.count_parameter()?;
    let found = match reader.peek() {
        Some(b'"') => return Ok(Parameter::String(reader.string("a string")?.text()?.into_owned())),
        Some(b't') if reader.word("true") => return Ok(Parameter::Bool(true)),
        Some(b'f') if reader.word("false") => return Ok(Parameter::Bool(false)),
        Some(b'-' | b'0'..=b'9') => return read_number(reader, name),
        Some(b'n') => "null",
        Some(b'[') => "an array",
        Some(b'{') => "an object",
        _ => return Err(reader.fault("a parameter's value").into()),
    };
    Err(Error::invalid(format!("parameter '{name}' is {found}, expected a boolean, number or string")))
}

fn read_list(reader: &mut Reader<'_>, name: &str) -> Result<Parameter> {
    let mut values = Vec::new();
    reader.expect(b'[', "a list")?;
    let mut first = true;
    while reader.item(&mut first)? {
        values.push(match reader.peek() {
            Some(b'[') => {
                return Err(Error::invalid(format!(
                    "parameter '{name}' has an array in its list, expected booleans, numbers or strings"
                )));
            }
            _ => read_value(reader, name)?,
        });
    }
    Ok(Parameter::List(values))
}

/// Reads a response's parameters. Values of other kinds, which some servers send, are skipped within `rules`.
pub(super) fn read_plain(reader: &mut Reader<'_>, rules: Skip) -> Result<Parameters> {
    let mut parameters = Parameters::new();
    if reader.peek() == Some(b'n') && reader.word("null") {
        return Ok(parameters);
    }
    reader.expect(b'{', "an object of 'parameters'")?;
    let mut first = true;
    while let Some(key) = reader.key(&mut first)? {
        let name = key.text()?;
        reader.peek();
        let at = reader.at();
        let mut ahead = *reader;
        match read_value(&mut ahead, &name) {
            Ok(value) => {
                *reader = ahead;
                put(&mut parameters, &name, value);
            }
            Err(_) => {
                reader.seek(at);
                reader.skip(rules)?;
            }
        }
    }
    Ok(parameters)
}

fn read_number(reader: &mut Reader<'_>, name: &str) -> Result<Parameter> {
    let Some((decimal, text)) = reader.number() else { return Err(reader.fault("a number").into()) };
    if text.iter().all(|byte| matches!(byte, b'-' | b'0'..=b'9'))
        && let Some(value) = crate::json::number::integer(&decimal, text)
    {
        if let Ok(value) = i64::try_from(value) {
            return Ok(Parameter::Int(value));
        }
        if let Ok(value) = u64::try_from(value) {
            return Ok(Parameter::Uint(value));
        }
    }
    let value = float::to_f64(&decimal, text);
    if value.is_infinite() {
        return Err(Error::invalid(format!("parameter '{name}' is out of the range of a double")));
    }
    Ok(Parameter::Float(value))
}

/// Adds a parameter; the last of a name stays.
fn put(parameters: &mut Parameters, name: &str, value: Parameter) {
    match parameters.iter_mut().find(|(known, _)| known == name) {
        Some((_, place)) => *place = value,
        None => parameters.push((name.to_owned(), value)),
    }
}

pub(super) fn boolean(name: &str, value: &Parameter) -> Result<bool> {
    match value {
        Parameter::Bool(value) => Ok(*value),
        other => Err(wrong(name, other, "a boolean")),
    }
}

fn unsigned(name: &str, value: &Parameter) -> Result<u64> {
    let unsigned = match value {
        Parameter::Int(value) => u64::try_from(*value).ok(),
        Parameter::Uint(value) => Some(*value),
        Parameter::Bool(_) | Parameter::Float(_) | Parameter::String(_) | Parameter::List(_) => None,
    };
    unsigned.ok_or_else(|| wrong(name, value, "a non-negative integer"))
}

fn wrong(name: &str, value: &Parameter, expected: &str) -> Error {
    let shown = match value {
        Parameter::Bool(value) => value.to_string(),
        Parameter::Int(value) => value.to_string(),
        Parameter::Uint(value) => value.to_string(),
        Parameter::Float(value) => value.to_string(),
        Parameter::String(_) => "a string".to_owned(),
        Parameter::List(_) => "a list".to_owned(),
    };
    Error::invalid(format!("parameter '{name}' is {shown}, expected {expected}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use penstock_core::{Kind, Schedule, SequenceId, Step};

    fn request(text: &str) -> Result<RequestParameters> {
        let mut parameters = RequestParameters::default();
        parameters.read(&mut Reader::new(text.as_bytes()), true).map(|()| parameters)
    }

    #[test]
    fn parameter_values_retain_their_types() {
        let text =
            r#"{"b":true,"i":-5,"u":18446744073709551615,"f":1.0,"e":1e2,"x":18446744073709551616,"s":"\u00e9"}"#;
        let expected = [
            ("b", Parameter::Bool(true)),
            ("i", Parameter::Int(-5)),
            ("u", Parameter::Uint(u64::MAX)),
            ("f", Parameter::Float(1.0)),
            ("e", Parameter::Float(100.0)),
            ("x", Parameter::Float(18_446_744_073_709_551_616.0)),
            ("s", Parameter::String("é".to_owned())),
        ]
        .map(|(name, value)| (name.to_owned(), value));
        assert_eq!(request(text).unwrap().custom, expected);
        assert_eq!(request(r#"{"a":1,"a":2}"#).unwrap().custom, [("a".to_owned(), Parameter::Int(2))]);
    }

    #[test]
    fn reserved_names_are_typed_and_not_custom() {
        let text = r#"{"timeout":1500,"priority":1,"sequence_id":"a","sequence_start":true,"sequence_end":false,
                       "headers":"x","binary_data_output":true}"#;
        let parameters = request(text).unwrap();
        assert_eq!(parameters.timeout, Some(Duration::from_micros(1500)));
        assert!(parameters.binary_output);
        assert!(parameters.custom.is_empty());
        let step = Step { id: SequenceId::Text("a".into()), start: true, end: false };
        assert_eq!(
            parameters.schedule.finish(),
            Schedule { priority: 1, step: Some(Box::new(step)), ..Schedule::default() }
        );
        let number = request(r#"{"sequence_end":true,"sequence_id":18446744073709551615}"#).unwrap().schedule.finish();
        let step = Step { id: SequenceId::Number(u64::MAX), start: false, end: true };
        assert_eq!(number.step, Some(Box::new(step)));
        for none in [r#"{"sequence_id":0,"sequence_start":true}"#, r#"{"sequence_id":""}"#] {
            assert_eq!(request(none).unwrap().schedule.finish(), Schedule::default());
        }
        assert_eq!(request(r#"{"timeout":0}"#).unwrap().timeout, None);
        let mut discarding = RequestParameters::default();
        discarding.read(&mut Reader::new(br#"{"a":1}"#), false).unwrap();
        assert!(discarding.custom.is_empty());
    }

    #[test]
    fn parameter_counts_are_bounded() {
        let object = |count: usize| {
            let members: Vec<String> = (0..count).map(|number| format!("\"{number}\":0")).collect();
            format!("{{{}}}", members.join(","))
        };
        assert_eq!(request(&object(4096)).unwrap().custom.len(), 4096);
        assert_eq!(request(&object(4097)).unwrap_err().message(), "the request has more than 4096 parameters");
        let list = format!("[{}0]", "0,".repeat(4096));
        let error = read_list(&mut Reader::new(list.as_bytes()), "stop").unwrap_err();
        assert_eq!(error.message(), "the request has more than 4096 parameters");
    }

    #[test]
    fn refusals_name_the_parameter() {
        for (text, message) in [
            (r#"{"a":null}"#, "parameter 'a' is null, expected a boolean, number or string"),
            (r#"{"a":[1]}"#, "parameter 'a' is an array, expected a boolean, number or string"),
            (r#"{"a":{}}"#, "parameter 'a' is an object, expected a boolean, number or string"),
            (r#"{"a":1e999}"#, "parameter 'a' is out of the range of a double"),
            (r#"{"a":NaN}"#, "request JSON at byte 5: expected a parameter's value"),
            (r#"{"triton_x":1}"#, "parameter 'triton_x' is reserved, names with 'triton_' are refused"),
            (r#"{"timeout":-1}"#, "parameter 'timeout' is -1, expected a non-negative integer"),
            (r#"{"timeout":"5"}"#, "parameter 'timeout' is a string, expected a non-negative integer"),
            (r#"{"priority":1.5}"#, "parameter 'priority' is 1.5, expected a non-negative integer"),
            (r#"{"sequence_id":true}"#, "parameter 'sequence_id' is true, expected a non-negative integer"),
            (r#"{"sequence_start":1}"#, "parameter 'sequence_start' is 1, expected a boolean"),
            (r#"{"binary_data_output":"yes"}"#, "parameter 'binary_data_output' is a string, expected a boolean"),
            ("[]", "request JSON at byte 0: expected an object of 'parameters'"),
        ] {
            let error = request(text).unwrap_err();
            assert_eq!((error.message(), error.kind()), (message, Kind::InvalidInput), "{text}");
        }
    }

    #[test]
    fn tensor_parameters_are_parsed_and_checked() {
        let input = |text: &str| InputParameters::read(&mut Reader::new(text.as_bytes()), false, false);
        let parameters = input(r#"{"binary_data_size":16,"content_type":"base64","other":1.5}"#).unwrap();
        assert_eq!((parameters.binary_size, parameters.base64), (Some(16), true));
        assert!(!input(r#"{"content_type":"str"}"#).unwrap().base64);
        let output = |text: &str| {
            OutputParameters::read(&mut Reader::new(text.as_bytes()), false).map(|read| (read.binary, read.classes))
        };
        assert_eq!(output(r#"{"binary_data":false,"other":"x"}"#).unwrap(), (Some(false), 0));
        assert_eq!(output("{}").unwrap(), (None, 0));
        assert_eq!(output(r#"{"classification":3}"#).unwrap(), (None, 3));
        assert_eq!(output(r#"{"classification":18446744073709551615}"#).unwrap(), (None, u32::MAX));
        for (error, kind, message) in [
            (
                input(r#"{"binary_data_size":-1}"#).unwrap_err(),
                Kind::InvalidInput,
                "parameter 'binary_data_size' is -1, expected a non-negative integer",
            ),
            (
                input(r#"{"binary_data_size":"16"}"#).unwrap_err(),
                Kind::InvalidInput,
                "parameter 'binary_data_size' is a string, expected a non-negative integer",
            ),
            (
                input(r#"{"content_type":1}"#).unwrap_err(),
                Kind::InvalidInput,
                "parameter 'content_type' is 1, expected a string",
            ),
            (
                input(r#"{"shared_memory_region":"r"}"#).unwrap_err(),
                Kind::Unsupported,
                "parameter 'shared_memory_region': shared memory is for inference without server-sent events, where the server allows it",
            ),
            (
                output(r#"{"shared_memory_offset":1}"#).unwrap_err(),
                Kind::Unsupported,
                "parameter 'shared_memory_offset': shared memory is for inference without server-sent events, where the server allows it",
            ),
            (
                output(r#"{"classification":0}"#).unwrap_err(),
                Kind::InvalidInput,
                "parameter 'classification' is 0, expected an integer of 1 or more",
            ),
            (
                output(r#"{"classification":true}"#).unwrap_err(),
                Kind::InvalidInput,
                "parameter 'classification' is true, expected an integer of 1 or more",
            ),
            (
                output(r#"{"binary_data":1}"#).unwrap_err(),
                Kind::InvalidInput,
                "parameter 'binary_data' is 1, expected a boolean",
            ),
        ] {
            assert_eq!((error.kind(), error.message()), (kind, message));
        }
    }
}
