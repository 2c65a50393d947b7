//! Access log: one line per request.

use super::{
    plain::{MAX_MESSAGE_BYTES, MAX_NAME_BYTES, plain},
    timestamp::Stamp,
};
use crate::settings::AccessField;
use http::{HeaderValue, Method};
use penstock_core::{ClientIdentity, ModelSpec, Timings};
use std::{borrow::Cow, fmt::Write as _, sync::Arc, time::Duration};

/// Outcome of a request.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) id: String,
    pub(crate) protocol: &'static str,
    /// `None` for a request of no known model.
    pub(crate) model: Option<Arc<ModelSpec>>,
    /// `ok`, or the name of the error's kind.
    pub(crate) outcome: &'static str,
    /// HTTP status or gRPC code.
    pub(crate) status: i32,
    pub(crate) duration: Duration,
    pub(crate) timings: Timings,
    pub(crate) error: Option<String>,
    /// Trace of a sampled request.
    pub(crate) trace_id: Option<[u8; 16]>,
}

/// Facts of a request that are known before it is answered.
#[derive(Clone, Debug, Default)]
pub(crate) struct RequestFacts {
    pub(crate) client: Arc<ClientIdentity>,
    pub(crate) method: Method,
    pub(crate) tls: bool,
    /// `None` also where the field is not logged.
    pub(crate) user_agent: Option<HeaderValue>,
    /// Trace of the client; `None` also where the field is not logged.
    pub(crate) trace_id: Option<[u8; 16]>,
}

/// The HTTP request of an entry, and its response.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Exchange<'a> {
    pub(crate) facts: &'a RequestFacts,
    /// `None` where no route answers.
    pub(crate) route: Option<&'a str>,
    pub(crate) request_bytes: u64,
    pub(crate) response_bytes: u64,
}

/// A line before it is formatted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Line<'a> {
    pub(crate) entry: &'a Entry,
    /// `None` for a request that began before the access log was turned on.
    pub(crate) exchange: Option<Exchange<'a>>,
    pub(crate) time: &'a Stamp,
}

enum Value<'a> {
    Absent,
    Text(Cow<'a, str>),
    Number(u64),
    Status(i32),
    Milliseconds(Duration),
    Flag(bool),
}

impl<'a> Line<'a> {
    fn value(&self, field: AccessField) -> Value<'a> {
        let Self { entry, exchange, .. } = *self;
        let of_exchange = |value: fn(Exchange<'a>) -> Value<'a>| exchange.map_or(Value::Absent, value);
        match field {
            AccessField::Time => Value::Text(Cow::Owned(self.time.text())),
            AccessField::Id => name(&entry.id),
            AccessField::Protocol => Value::Text(Cow::Borrowed(entry.protocol)),
            AccessField::Model => entry.model.as_ref().map_or(Value::Absent, |model| name(&model.name)),
            AccessField::Version => name(entry.version()),
            AccessField::Outcome => Value::Text(Cow::Borrowed(entry.outcome)),
            AccessField::Status => Value::Status(entry.status),
            AccessField::Duration => Value::Milliseconds(entry.duration),
            AccessField::Queue => Value::Milliseconds(entry.timings.queue),
            AccessField::Compute => Value::Milliseconds(entry.timings.compute),
            AccessField::BatchRows => Value::Number(entry.timings.batch_rows as u64),
            AccessField::Error => {
                entry.error.as_ref().map_or(Value::Absent, |error| Value::Text(plain(error, MAX_MESSAGE_BYTES)))
            }
            AccessField::Address => of_exchange(|exchange| {
                let address = exchange.facts.client.address;
                address.map_or(Value::Absent, |address| Value::Text(Cow::Owned(address.to_string())))
            }),
            AccessField::Client => {
                of_exchange(|exchange| exchange.facts.client.proven_name().map_or(Value::Absent, name))
            }
            AccessField::Method => of_exchange(|exchange| name(exchange.facts.method.as_str())),
            AccessField::Route => of_exchange(|exchange| exchange.route.map_or(Value::Absent, name)),
            AccessField::RequestBytes => of_exchange(|exchange| Value::Number(exchange.request_bytes)),
            AccessField::ResponseBytes => of_exchange(|exchange| Value::Number(exchange.response_bytes)),
            AccessField::TraceId => {
                let of_client = exchange.and_then(|exchange| exchange.facts.trace_id);
                let trace_id = entry.trace_id.or(of_client);
                trace_id
                    .map_or(Value::Absent, |id| Value::Text(Cow::Owned(format!("{:032x}", u128::from_be_bytes(id)))))
            }
            AccessField::UserAgent => of_exchange(|exchange| {
                let agent = exchange.facts.user_agent.as_ref();
                agent.map_or(Value::Absent, |agent| match String::from_utf8_lossy(agent.as_bytes()) {
                    Cow::Borrowed(agent) => name(agent),
                    Cow::Owned(agent) => Value::Text(Cow::Owned(plain(&agent, MAX_NAME_BYTES).into_owned())),
                })
            }),
            AccessField::Tls => of_exchange(|exchange| Value::Flag(exchange.facts.tls)),
        }
    }
}

fn name(text: &str) -> Value<'_> {
    Value::Text(plain(text, MAX_NAME_BYTES))
}

impl Entry {
    fn version(&self) -> &str {
        self.model.as_ref().map_or("-", |model| &model.version)
    }

    /// Model and version, separated by a slash.
    pub(super) fn model_name(&self) -> String {
        let model = self.model.as_ref().map_or("-", |model| &*model.name);
        format!("{}/{}", plain(model, MAX_NAME_BYTES), plain(self.version(), MAX_NAME_BYTES))
    }
}

fn milliseconds(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}

/// Formats the text line of a log without chosen fields.
pub(super) fn text_line(Line { entry, time, .. }: Line<'_>) -> String {
    let mut line = String::with_capacity(160);
    let _ = write!(
        line,
        "{} {} {} {} {} {:.2}ms queue={:.2}ms compute={:.2}ms batch={} id={}",
        time.text(),
        entry.protocol,
        entry.model_name(),
        entry.status,
        entry.outcome,
        milliseconds(entry.duration),
        milliseconds(entry.timings.queue),
        milliseconds(entry.timings.compute),
        entry.timings.batch_rows,
        plain(&entry.id, MAX_NAME_BYTES),
    );
    if let Some(error) = &entry.error {
        let _ = write!(line, " error=\"{}\"", plain(error, MAX_MESSAGE_BYTES));
    }
    line.push('\n');
    line
}

/// Formats a text line of chosen fields: `NAME=VALUE` each, and `-` for a value that is absent.
pub(super) fn text_line_of(line: Line<'_>, fields: &[AccessField]) -> String {
    let mut text = String::with_capacity(fields.len() * 24);
    for (index, &field) in fields.iter().enumerate() {
        if index > 0 {
            text.push(' ');
        }
        text.push_str(field.name());
        text.push('=');
        match line.value(field) {
            Value::Text(value) if value.is_empty() || value.contains([' ', '"', '=', '\\']) => quote(&mut text, &value),
            Value::Text(value) => text.push_str(&value),
            Value::Absent => text.push('-'),
            other => other.write(&mut text),
        }
    }
    text.push('\n');
    text
}

/// Formats a JSON line.
pub(super) fn json_line(line: Line<'_>, fields: &[AccessField]) -> String {
    let mut text = String::with_capacity(fields.len() * 24);
    for (index, &field) in fields.iter().enumerate() {
        text.push_str(if index == 0 { "{\"" } else { ",\"" });
        text.push_str(field.name());
        text.push_str("\":");
        match line.value(field) {
            // Seconds are a number.
            Value::Text(value) if field == AccessField::Time && line.time.is_number() => text.push_str(&value),
            Value::Text(value) => quote(&mut text, &value),
            Value::Absent => text.push_str("null"),
            other => other.write(&mut text),
        }
    }
    text.push_str("}\n");
    text
}

impl Value<'_> {
    fn write(&self, line: &mut String) {
        // Writing into a `String` cannot fail.
        let _ = match self {
            Self::Number(number) => write!(line, "{number}"),
            Self::Status(number) => write!(line, "{number}"),
            Self::Milliseconds(duration) => {
                let nanoseconds = duration.as_nanos();
                write!(line, "{}.{:06}", nanoseconds / 1_000_000, nanoseconds % 1_000_000)
            }
            Self::Flag(flag) => write!(line, "{flag}"),
            Self::Absent | Self::Text(_) => Ok(()),
        };
    }
}

/// Writes a JSON string. The text has no control characters: [`plain`] escapes them.
fn quote(line: &mut String, text: &str) {
    line.push('"');
    let mut rest = text;
    while let Some(place) = rest.find(['"', '\\']) {
        line.push_str(&rest[..place]);
        line.push('\\');
        line.push_str(&rest[place..=place]);
        rest = &rest[place + 1..];
    }
    line.push_str(rest);
    line.push('"');
}

#[cfg(test)]
mod tests {
    use super::quote;

    #[test]
    fn quoted_text_is_json() {
        for text in ["", "plain", "a \"b\" \\ 'c'", "\\\"", "日本語 \\u{a}"] {
            let mut line = String::new();
            quote(&mut line, text);
            assert_eq!(serde_json::from_str::<String>(&line).unwrap(), text);
        }
    }
}
