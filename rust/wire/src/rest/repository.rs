//! The bodies of the repository's routes.

use crate::repository::{
    FILE, LoadRequest, selected, unknown_load_parameter, unknown_unload_parameter, wrong_dependents,
    wrong_load_parameter,
};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use penstock_core::{Error, IndexEntry, Result, VersionState};
use serde::Serialize;
use serde_json::{Map, Value};

/// The body of the index.
pub fn index(index: &[IndexEntry], ready: bool) -> Vec<u8> {
    #[derive(Serialize)]
    struct Row<'a> {
        name: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        version: Option<&'a str>,
        #[serde(skip_serializing_if = "Option::is_none")]
        state: Option<&'static str>,
        #[serde(skip_serializing_if = "str::is_empty")]
        reason: &'a str,
    }
    let row = |entry| {
        let IndexEntry { name, reason, .. }: &IndexEntry = entry;
        Row { name, version: entry.version_text(), state: entry.state().map(VersionState::name), reason }
    };
    let rows: Vec<Row<'_>> = selected(index, ready).map(row).collect();
    serde_json::to_vec(&rows).unwrap_or_default()
}

/// Returns whether an index request is for ready models only. An empty body is not.
///
/// # Errors
/// `InvalidInput` if it is not an object, or `ready` not a bool.
pub fn ready(body: &[u8]) -> Result<bool> {
    match object(body)?.get("ready") {
        None => Ok(false),
        Some(Value::Bool(ready)) => Ok(*ready),
        Some(_) => Err(Error::invalid("'ready' is not true or false")),
    }
}

/// Reads a load request, which may be empty.
///
/// # Errors
/// `InvalidInput` with the parameter.
pub fn load(body: &[u8]) -> Result<LoadRequest> {
    let mut load = LoadRequest::default();
    for (name, value) in parameters(body)? {
        let Value::String(text) = value else {
            let known = name == "config" || name.starts_with(FILE);
            let wrong = wrong_load_parameter(&name, "a string");
            return Err(if known { wrong } else { unknown_load_parameter(&name) });
        };
        match name.strip_prefix(FILE) {
            Some(file) => {
                let bytes = STANDARD.decode(&text).map_err(|_| wrong_load_parameter(&name, "base64"))?;
                load.files.push((file.to_owned(), bytes.into()));
            }
            None if name == "config" => load.config = Some(text),
            None => return Err(unknown_load_parameter(&name)),
        }
    }
    load.checked()
}

/// Checks an unload request. No model here depends on another, so it has no effect.
///
/// # Errors
/// `InvalidInput` with the parameter.
pub fn unload(body: &[u8]) -> Result<()> {
    parameters(body)?.into_iter().try_for_each(|(name, value)| match (name.as_str(), value) {
        ("unload_dependents", Value::Bool(_)) => Ok(()),
        ("unload_dependents", _) => Err(wrong_dependents()),
        _ => Err(unknown_unload_parameter(&name)),
    })
}

/// Response to a load (`verb` is `load`) or unload (`unload`) request.
pub fn done(model: &str, verb: &str) -> Vec<u8> {
    format!(r#"{{"name":{},"{verb}":true}}"#, Value::from(model)).into_bytes()
}

fn parameters(body: &[u8]) -> Result<Map<String, Value>> {
    match object(body)?.remove("parameters") {
        None | Some(Value::Null) => Ok(Map::new()),
        Some(Value::Object(parameters)) => Ok(parameters),
        Some(_) => Err(Error::invalid("'parameters' is not an object")),
    }
}

/// Clients may send an empty body.
fn object(body: &[u8]) -> Result<Map<String, Value>> {
    if body.trim_ascii().is_empty() {
        return Ok(Map::new());
    }
    match serde_json::from_slice(body) {
        Ok(Value::Object(object)) => Ok(object),
        Ok(_) => Err(Error::invalid("the request's body is not a JSON object")),
        Err(error) => Err(Error::invalid(format!("the request's body is not JSON: {error}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(body: Vec<u8>) -> String {
        String::from_utf8(body).unwrap()
    }

    fn refusal<T: std::fmt::Debug>(result: Result<T>) -> String {
        result.unwrap_err().message().to_owned()
    }

    #[test]
    fn repository_index_omits_empty_fields() {
        let row = |name: &str, version: Option<(&str, VersionState)>, reason: &str| IndexEntry {
            name: name.into(),
            version: version.map(|(version, state)| (version.into(), state)),
            reason: reason.to_owned(),
        };
        let rows = [
            row("a", None, ""),
            row("b", Some(("1", VersionState::Ready)), ""),
            row("b", Some(("2", VersionState::Loading)), "why"),
        ];
        assert_eq!(
            text(index(&rows, false)),
            concat!(
                r#"[{"name":"a"},{"name":"b","version":"1","state":"READY"},"#,
                r#"{"name":"b","version":"2","state":"LOADING","reason":"why"}]"#
            )
        );
        assert_eq!(text(index(&rows, true)), r#"[{"name":"b","version":"1","state":"READY"}]"#);
    }

    #[test]
    fn repository_index_ready_filter_is_parsed() {
        assert!(!ready(b"").unwrap());
        assert!(!ready(b" {} ").unwrap());
        assert!(ready(br#"{"ready":true}"#).unwrap());
        assert_eq!(refusal(ready(br#"{"ready":1}"#)), "'ready' is not true or false");
        assert_eq!(refusal(ready(b"[]")), "the request's body is not a JSON object");
        assert!(refusal(ready(b"{")).starts_with("the request's body is not JSON: "));
    }

    #[test]
    fn load_accepts_a_config_and_files() {
        assert_eq!(load(b"").unwrap(), LoadRequest::default());
        assert_eq!(load(br#"{"parameters":null}"#).unwrap(), LoadRequest::default());
        let given = load(br#"{"parameters":{"config":"{}","file:1/model.py":"eA=="}}"#).unwrap();
        assert_eq!(
            given,
            LoadRequest { config: Some("{}".to_owned()), files: vec![("1/model.py".to_owned(), "x".into())] }
        );
        for (body, message) in [
            (&br#"{"parameters":[]}"#[..], "'parameters' is not an object"),
            (br#"{"parameters":{"config":{}}}"#, "load parameter 'config' is not a string"),
            (br#"{"parameters":{"config":"","file:1/x":"?"}}"#, "load parameter 'file:1/x' is not base64"),
            (br#"{"parameters":{"file:1/x":""}}"#, "load parameters 'file:...' need the load parameter 'config' too"),
            (
                br#"{"parameters":{"zzz":1}}"#,
                "unknown load parameter 'zzz', expected 'config' or 'file:<version>/<file>'",
            ),
        ] {
            assert_eq!(refusal(load(body)), message);
        }
    }

    #[test]
    fn unload_accepts_unload_dependents() {
        for body in [&b""[..], b"{}", br#"{"parameters":{"unload_dependents":false}}"#] {
            assert!(unload(body).is_ok());
        }
        let wrong = refusal(unload(br#"{"parameters":{"unload_dependents":1}}"#));
        assert_eq!(wrong, "unload parameter 'unload_dependents' is not true or false");
        let unknown = refusal(unload(br#"{"parameters":{"x":true}}"#));
        assert_eq!(unknown, "unknown unload parameter 'x', expected 'unload_dependents'");
    }

    #[test]
    fn load_and_unload_bodies_match_kserve() {
        assert_eq!(text(done("m", "load")), r#"{"name":"m","load":true}"#);
        assert_eq!(text(done("m", "unload")), r#"{"name":"m","unload":true}"#);
    }
}
