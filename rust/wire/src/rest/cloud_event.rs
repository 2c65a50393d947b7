//! CloudEvents 1.0 over HTTP: attributes in headers (binary) or in an object around the body (structured).

use crate::Limits;
use crate::json::{
    reader::{Reader, Skip},
    string,
};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use bytes::Bytes;
use penstock_core::{Error, Result};

/// The media type of a structured event.
pub const STRUCTURED: &str = "application/cloudevents+json";

/// The attributes that every event has.
pub const REQUIRED: [&str; 4] = ["specversion", "id", "source", "type"];

/// The version that is spoken.
const VERSION: &str = "1.0";

/// The attributes of an event: what it is about, without its data.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Event {
    attributes: Vec<Attribute>,
}

/// A name, and a value as text.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Attribute {
    name: String,
    value: String,
    /// JSON has it in quotes; booleans and integers have none.
    quoted: bool,
}

impl Event {
    /// The event of a request whose attributes are headers, without their prefix.
    ///
    /// # Errors
    /// `InvalidInput` that names the attribute that is missing or wrong.
    pub fn binary(attributes: impl IntoIterator<Item = (String, String)>) -> Result<Self> {
        let mut event = Self::default();
        attributes.into_iter().for_each(|(name, value)| event.set(&name, value, true));
        event.check()?;
        Ok(event)
    }

    /// Decodes a structured request into its event and data.
    ///
    /// # Errors
    /// `InvalidInput` with the position in the JSON, or the attribute.
    pub fn structured(json: &Bytes, limits: &Limits) -> Result<(Self, Bytes)> {
        let mut event = Self::default();
        let (mut data, mut decoded) = (None, None);
        let mut reader = Reader::new(json);
        reader.expect(b'{', "a JSON object")?;
        let mut first = true;
        while let Some(key) = reader.key(&mut first)? {
            let name = key.text()?;
            reader.peek();
            let start = reader.at();
            if name == "data_base64" {
                let encoded = reader.string("a string for 'data_base64'")?;
                let bytes = STANDARD.decode(encoded.bytes()?);
                decoded = Some(bytes.map_err(|_| malformed("data_base64", "is not padded standard base64"))?);
                continue;
            }
            if name == "data" {
                reader.skip(Skip { max_depth: limits.max_depth, outer: 1, non_finite: true })?;
                data = Some(start..reader.at());
                continue;
            }
            if reader.peek() == Some(b'"') {
                event.set(&name, reader.string("a string")?.text()?.into_owned(), true);
                continue;
            }
            reader.skip(Skip { max_depth: limits.max_depth, outer: 1, non_finite: false })?;
            match reader.since(start) {
                b"null" => {}
                value if value.starts_with(b"{") || value.starts_with(b"[") => {
                    return Err(malformed(&name, "must be a string, boolean or integer"));
                }
                value => event.set(&name, String::from_utf8_lossy(value).into_owned(), false),
            }
        }
        if reader.peek().is_some() {
            return Err(reader.fault("nothing after the event's object").into());
        }
        event.check()?;
        match (data, decoded) {
            (Some(range), None) => {
                event.check_json()?;
                Ok((event, json.slice(range)))
            }
            (None, Some(bytes)) => Ok((event, Bytes::from(bytes))),
            (Some(_), Some(_)) => Err(Error::invalid("the event has both 'data' and 'data_base64'")),
            (None, None) => Err(Error::invalid("the event has neither 'data' nor 'data_base64'")),
        }
    }

    /// Its attributes, by name.
    pub fn attributes(&self) -> impl Iterator<Item = (&str, &str)> {
        self.attributes.iter().map(|attribute| (&*attribute.name, &*attribute.value))
    }

    /// Returns the event of the response. With `merge` it retains the attributes that the response does not set.
    #[must_use]
    pub fn answer(&self, merge: bool, fresh: ResponseAttributes<'_>) -> Self {
        let mut answer = if merge { self.clone() } else { Self::default() };
        for (name, value) in [
            ("specversion", VERSION),
            ("id", fresh.id),
            ("source", fresh.source),
            ("type", fresh.kind),
            ("time", fresh.time),
        ] {
            answer.set(name, value.to_owned(), true);
        }
        answer.attributes.retain(|attribute| attribute.name != "datacontenttype");
        answer
    }

    /// Encodes the event as one JSON object around `data`, which is JSON if `content_type` is.
    pub fn write(&self, content_type: &str, data: &[u8]) -> Vec<u8> {
        let mut out = Vec::with_capacity(data.len() + 256);
        out.push(b'{');
        for Attribute { name, value, quoted } in &self.attributes {
            string::write(&mut out, name);
            out.push(b':');
            if *quoted {
                string::write(&mut out, value)
            } else {
                out.extend_from_slice(value.as_bytes())
            }
            out.push(b',');
        }
        out.extend_from_slice(b"\"datacontenttype\":");
        string::write(&mut out, content_type);
        if is_json(content_type) {
            out.extend_from_slice(b",\"data\":");
            out.extend_from_slice(data);
        } else {
            out.extend_from_slice(b",\"data_base64\":\"");
            out.extend_from_slice(STANDARD.encode(data).as_bytes());
            out.push(b'"');
        }
        out.push(b'}');
        out
    }

    fn get(&self, name: &str) -> Option<&str> {
        self.attributes().find_map(|(known, value)| (known == name).then_some(value))
    }

    /// Sets an attribute; the last of a name stays.
    fn set(&mut self, name: &str, value: String, quoted: bool) {
        match self.attributes.iter_mut().find(|attribute| attribute.name == name) {
            Some(attribute) => (attribute.value, attribute.quoted) = (value, quoted),
            None => self.attributes.push(Attribute { name: name.to_owned(), value, quoted }),
        }
    }

    fn check(&self) -> Result<()> {
        for name in REQUIRED {
            match self.get(name) {
                None => return Err(Error::invalid(format!("the event has no attribute '{name}'"))),
                Some("") => return Err(malformed(name, "is empty")),
                Some(_) => {}
            }
        }
        for (name, value) in self.attributes() {
            if name.is_empty() || !name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit()) {
                return Err(malformed(name, "has a name of more than lower-case letters and digits"));
            }
            if name == "specversion" && value != VERSION {
                return Err(malformed(name, &format!("is '{value}', expected '{VERSION}'")));
            }
            if name == "time" && !is_timestamp(value.as_bytes()) {
                return Err(malformed(name, &format!("is '{value}', expected a time such as 2026-01-31T12:00:00Z")));
            }
        }
        Ok(())
    }

    fn check_json(&self) -> Result<()> {
        match self.get("datacontenttype") {
            Some(kind) if !is_json(kind) => {
                Err(malformed("datacontenttype", &format!("is '{kind}', expected application/json")))
            }
            _ => Ok(()),
        }
    }
}

/// Attributes of a response's event.
#[derive(Clone, Copy, Debug)]
pub struct ResponseAttributes<'a> {
    /// Its `id`.
    pub id: &'a str,
    /// Its `time`.
    pub time: &'a str,
    /// Its `source`.
    pub source: &'a str,
    /// Its `type`.
    pub kind: &'a str,
}

fn malformed(attribute: &str, problem: &str) -> Error {
    Error::invalid(format!("the event's attribute '{attribute}' {problem}"))
}

fn is_json(content_type: &str) -> bool {
    let essence = content_type.split(';').next().unwrap_or_default().trim();
    essence.eq_ignore_ascii_case("application/json") || essence.ends_with("+json")
}

/// Returns whether the text has the form of RFC 3339.
fn is_timestamp(text: &[u8]) -> bool {
    let has_form = |text: &[u8], form: &[u8]| {
        text.len() == form.len()
            && text
                .iter()
                .zip(form)
                .all(|(byte, form)| if *form == b'0' { byte.is_ascii_digit() } else { byte == form })
    };
    let Some((instant, mut rest)) = text.split_at_checked(19) else { return false };
    if let Some(fraction) = rest.strip_prefix(b".") {
        let digits = fraction.iter().take_while(|byte| byte.is_ascii_digit()).count();
        if digits == 0 {
            return false;
        }
        rest = &fraction[digits..];
    }
    let upper = instant.to_ascii_uppercase();
    has_form(&upper, b"0000-00-00T00:00:00")
        && (rest.eq_ignore_ascii_case(b"z") || has_form(rest, b"+00:00") || has_form(rest, b"-00:00"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn structured(json: &str) -> Result<(Event, Bytes)> {
        Event::structured(&Bytes::copy_from_slice(json.as_bytes()), &Limits::default())
    }

    fn refusal(json: &str) -> String {
        structured(json).expect_err(json).message().to_owned()
    }

    const HEAD: &str = r#""specversion":"1.0","id":"7","source":"/s","type":"t""#;

    #[test]
    fn structured_event_is_parsed() {
        let (event, data) = structured(&format!("{{{HEAD},\"n\":3,\"u\":null,\"data\": [1, 2] }}")).unwrap();
        assert_eq!(data, "[1, 2]");
        assert_eq!(
            event.attributes().map(|(name, _)| name).collect::<Vec<_>>(),
            ["specversion", "id", "source", "type", "n"]
        );
        let (_, data) = structured(&format!("{{\"data_base64\":\"AP8=\",{HEAD}}}")).unwrap();
        assert_eq!(data, &b"\0\xff"[..]);
    }

    #[test]
    fn response_event_has_new_attributes_and_may_copy_extensions() {
        let (event, _) =
            structured(&format!("{{{HEAD},\"n\":3,\"datacontenttype\":\"application/json\",\"data\":1}}")).unwrap();
        let fresh = ResponseAttributes { id: "8", time: "2026-01-31T12:00:00Z", source: "m", kind: "r" };
        let own = r#"{"specversion":"1.0","id":"8","source":"m","type":"r","#;
        let end = r#""time":"2026-01-31T12:00:00Z","datacontenttype":"application/json","data":{}}"#;
        let text = |event: Event| String::from_utf8(event.write("application/json", b"{}")).unwrap();
        assert_eq!(text(event.answer(false, fresh)), format!("{own}{end}"));
        assert_eq!(text(event.answer(true, fresh)), format!("{own}\"n\":3,{end}"));
        let bytes = event.answer(false, fresh).write("application/octet-stream", b"\0\xff");
        assert!(bytes.ends_with(br#""datacontenttype":"application/octet-stream","data_base64":"AP8="}"#));
    }

    #[test]
    fn malformed_event_names_its_attribute() {
        for name in REQUIRED {
            let others: Vec<_> = REQUIRED.iter().filter(|other| **other != name).collect();
            let json: Vec<_> = others.iter().map(|other| format!("\"{other}\":\"1.0\"")).collect();
            assert_eq!(
                refusal(&format!("{{{},\"data\":1}}", json.join(","))),
                format!("the event has no attribute '{name}'")
            );
        }
        for (more, message) in [
            ("\"id\":\"\",\"data\":1", "the event's attribute 'id' is empty"),
            ("\"specversion\":\"9\",\"data\":1", "the event's attribute 'specversion' is '9', expected '1.0'"),
            (
                "\"time\":\"noon\",\"data\":1",
                "the event's attribute 'time' is 'noon', expected a time such as 2026-01-31T12:00:00Z",
            ),
            ("\"ext\":{},\"data\":1", "the event's attribute 'ext' must be a string, boolean or integer"),
            (
                "\"a-b\":1,\"data\":1",
                "the event's attribute 'a-b' has a name of more than lower-case letters and digits",
            ),
            (
                "\"datacontenttype\":\"text/plain\",\"data\":1",
                "the event's attribute 'datacontenttype' is 'text/plain', expected application/json",
            ),
            ("\"data_base64\":\"A\"", "the event's attribute 'data_base64' is not padded standard base64"),
            ("\"data_base64\":\"AA==\",\"data\":1", "the event has both 'data' and 'data_base64'"),
            ("\"x\":1", "the event has neither 'data' nor 'data_base64'"),
        ] {
            assert_eq!(refusal(&format!("{{{HEAD},{more}}}")), message);
        }
        assert_eq!(refusal("[]"), "request JSON at byte 0: expected a JSON object");
    }

    #[test]
    fn event_times_are_rfc_3339() {
        for text in ["2026-01-31T12:00:00Z", "2026-01-31t12:00:00.25z", "2026-01-31T12:00:00.1-05:30"] {
            assert!(is_timestamp(text.as_bytes()), "{text}");
        }
        for text in [
            "",
            "2026-01-31",
            "2026-01-31T12:00:00",
            "2026-01-31T12:00:00.Z",
            "2026-01-31T12:00:00+5",
            "2026-01-31 12:00:00Z",
        ] {
            assert!(!is_timestamp(text.as_bytes()), "{text}");
        }
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..80), inside: bool) {
            let json = if inside { [format!("{{{HEAD},").as_bytes(), &bytes].concat() } else { bytes };
            let _ = Event::structured(&Bytes::from(json), &Limits::default());
        }
    }
}
