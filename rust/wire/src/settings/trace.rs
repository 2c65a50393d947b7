//! Settings of request tracing, for both protocols.
//!
//! Penstock writes no trace files: the level is always OFF. The other settings are stored, for clients that set all of
//! them in turn.

use crate::generated::inference::{TraceSettingRequest, TraceSettingResponse, trace_setting_response::SettingValue};
use penstock_core::{Error, Kind, Result};
use serde_json::{Map, Value, json};

/// Settings that count something: name, default, smallest value.
const NUMBERS: [(&str, &str, i64); 3] =
    [("trace_rate", "1000", 1), ("trace_count", "-1", -1), ("log_frequency", "0", 0)];

/// Settings of the server, or of a model.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TraceSettings {
    /// In the order of [`NUMBERS`]; `None` is not set here.
    numbers: [Option<i64>; NUMBERS.len()],
}

impl TraceSettings {
    /// Changed by the body of a POST; nothing is changed if any of it is wrong.
    ///
    /// # Errors
    /// `InvalidInput` that names the setting; `Unsupported` for a level or file that this server does not have.
    pub fn changed_by_json(self, body: &[u8]) -> Result<Self> {
        super::log::object(body)?.into_iter().try_fold(self, |settings, (name, value)| {
            let text = |value: Value| match value {
                Value::String(text) => Ok(text),
                _ => Err(wrong(&name, "a string, an array of strings, or null")),
            };
            let values = match value {
                Value::Null => Vec::new(),
                Value::Array(values) => {
                    let values = values.into_iter().map(text).collect::<Result<Vec<_>>>()?;
                    if values.is_empty() {
                        return Err(wrong(&name, "at least one value, or null"));
                    }
                    values
                }
                value => vec![text(value)?],
            };
            settings.with(&name, &values)
        })
    }

    /// Changed by a message; nothing is changed if any of it is wrong.
    ///
    /// # Errors
    /// As [`changed_by_json`](Self::changed_by_json).
    pub fn changed_by_message(self, message: &TraceSettingRequest) -> Result<Self> {
        message.settings.iter().try_fold(self, |settings, (name, given)| settings.with(name, &given.value))
    }

    /// Without values a setting goes back to what it is without this one.
    fn with(mut self, name: &str, values: &[String]) -> Result<Self> {
        match name {
            "trace_level" => check_level(values)?,
            "trace_file" | "trace_mode" => {
                if !values.is_empty() {
                    return Err(Error::new(
                        Kind::Unsupported,
                        format!("trace setting '{name}' cannot be changed: this server writes no trace files"),
                    ));
                }
            }
            _ => {
                let Some(index) = NUMBERS.iter().position(|(known, ..)| *known == name) else {
                    let name: String = name.chars().take(128).collect();
                    return Err(Error::invalid(format!(
                        "unknown trace setting '{name}', expected one of trace_level, trace_rate, trace_count, log_frequency"
                    )));
                };
                self.numbers[index] = number(index, values)?;
            }
        }
        Ok(self)
    }

    /// Each setting as it counts: a model's own, else the server's, else the default.
    fn shown<'a>(&'a self, server: &'a Self) -> impl Iterator<Item = (&'static str, String)> + 'a {
        let numbers = NUMBERS.into_iter().zip(self.numbers.iter().zip(&server.numbers));
        let numbers = numbers.map(|((name, default, _), (own, server))| {
            (name, own.or(*server).map_or_else(|| default.to_owned(), |number| number.to_string()))
        });
        let fixed = [("trace_level", "OFF"), ("trace_file", ""), ("trace_mode", "triton")];
        numbers.chain(fixed.into_iter().map(|(name, value)| (name, value.to_owned())))
    }

    /// Body of the response with these settings, over those of the `server`.
    pub fn json(&self, server: &Self) -> Vec<u8> {
        let shown = |(name, value): (&str, String)| {
            // The level is a list in Triton's form, the others are texts.
            (name.to_owned(), if name == "trace_level" { json!([value]) } else { json!(value) })
        };
        Value::Object(self.shown(server).map(shown).collect::<Map<_, _>>()).to_string().into_bytes()
    }

    /// Response message with these settings, over those of the `server`.
    pub fn message(&self, server: &Self) -> TraceSettingResponse {
        let shown = |(name, value): (&str, String)| (name.to_owned(), SettingValue { value: vec![value] });
        TraceSettingResponse { settings: self.shown(server).map(shown).collect() }
    }
}

fn check_level(values: &[String]) -> Result<()> {
    match values.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        [] | ["OFF"] => Ok(()),
        levels if levels.iter().all(|level| matches!(*level, "TIMESTAMPS" | "TENSORS")) => Err(Error::new(
            Kind::Unsupported,
            format!(
                "trace_level {} is not supported: this server writes no trace files, expected OFF",
                levels.join(", ")
            ),
        )),
        _ => Err(wrong("trace_level", "OFF alone, or TIMESTAMPS and TENSORS")),
    }
}

fn number(index: usize, values: &[String]) -> Result<Option<i64>> {
    let (name, _, least) = NUMBERS[index];
    match values {
        [] => Ok(None),
        [text] => match text.parse::<i64>() {
            Ok(number) if number >= least => Ok(Some(number)),
            _ => Err(wrong(name, &format!("an integer of {least} or more, as text"))),
        },
        _ => Err(wrong(name, "one value")),
    }
}

fn wrong(name: &str, expected: &str) -> Error {
    let name: String = name.chars().take(128).collect();
    Error::invalid(format!("trace setting '{name}' is wrong, expected {expected}"))
}
