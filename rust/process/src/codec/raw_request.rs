//! What goes with requests as they are, and with their answers.

use crate::codec::{
    fields::{Reader, Writer},
    response::{read_error, write_error},
};
use bytes::Bytes;
use penstock_core::{HttpRequest, RawRequest, ResponseHead};

/// Writes what an open model is told of a request.
pub(crate) fn write_asked(out: &mut Writer, asked: Option<&RawRequest>) {
    let Some(RawRequest { names, outputs, parameters, nested, binary, http }) = asked else { return out.byte(0) };
    out.byte(1);
    write_names(out, names);
    out.byte(u8::from(outputs.is_some()));
    outputs.iter().for_each(|names| write_names(out, names));
    out.number(parameters.len() as u64);
    parameters.iter().for_each(|own| out.parameters(own));
    out.number(nested.len() as u64);
    nested.iter().for_each(|&place| out.number(place as u64));
    out.byte(u8::from(*binary));
    let Some(http) = http else { return out.byte(0) };
    out.byte(1);
    [&*http.route, &*http.method, &http.path, &http.query].into_iter().for_each(|text| out.text(text));
    out.number(http.path_params.len() as u64);
    for (name, value) in &http.path_params {
        out.text(name);
        out.text(value);
    }
    out.bytes(&http.body);
    out.byte(u8::from(http.refused.is_some()));
    http.refused.iter().for_each(|error| write_error(out, error));
}

/// Reads what [`write_asked`] wrote; the outer `None` for anything else.
pub(crate) fn read_asked(from: &mut Reader<'_>) -> Option<Option<Box<RawRequest>>> {
    if from.byte()? == 0 {
        return Some(None);
    }
    let names = read_names(from)?;
    let outputs = if from.byte()? == 0 { None } else { Some(read_names(from)?) };
    let parameters = (0..from.count()?).map(|_| from.parameters()).collect::<Option<_>>()?;
    let nested = (0..from.count()?).map(|_| usize::try_from(from.number()?).ok()).collect::<Option<_>>()?;
    let binary = from.byte()? != 0;
    let http = if from.byte()? == 0 { None } else { Some(Box::new(read_http(from)?)) };
    Some(Some(Box::new(RawRequest { names, outputs, parameters, nested, binary, http })))
}

fn read_http(from: &mut Reader<'_>) -> Option<HttpRequest> {
    Some(HttpRequest {
        route: from.text()?.into(),
        method: from.text()?.into(),
        path: from.text()?,
        query: from.text()?,
        path_params: (0..from.count()?).map(|_| Some((from.text()?.into(), from.text()?))).collect::<Option<_>>()?,
        body: Bytes::copy_from_slice(from.bytes()?),
        refused: if from.byte()? == 0 { None } else { Some(read_error(from)?) },
    })
}

/// Writes what an open model tells.
pub(crate) fn write_told(out: &mut Writer, told: Option<&ResponseHead>) {
    let Some(ResponseHead { names, status, headers, body, id }) = told else { return out.byte(0) };
    out.byte(1);
    write_names(out, names);
    out.number((*status).into());
    out.headers(headers);
    out.byte(u8::from(body.is_some()));
    body.iter().for_each(|body| out.bytes(body));
    out.byte(u8::from(id.is_some()));
    id.iter().for_each(|id| out.text(id));
}

/// Reads what [`write_told`] wrote; the outer `None` for anything else.
pub(crate) fn read_told(from: &mut Reader<'_>) -> Option<Option<Box<ResponseHead>>> {
    if from.byte()? == 0 {
        return Some(None);
    }
    let names = read_names(from)?;
    let status = u16::try_from(from.number()?).ok()?;
    let headers = from.headers()?;
    let body = if from.byte()? == 0 { None } else { Some(Bytes::copy_from_slice(from.bytes()?)) };
    let id = if from.byte()? == 0 { None } else { Some(from.text()?.into_boxed_str()) };
    Some(Some(Box::new(ResponseHead { names, status, headers, body, id })))
}

fn write_names(out: &mut Writer, names: &[Box<str>]) {
    out.number(names.len() as u64);
    names.iter().for_each(|name| out.text(name));
}

fn read_names(from: &mut Reader<'_>) -> Option<Box<[Box<str>]>> {
    (0..from.count()?).map(|_| from.text().map(String::into_boxed_str)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use penstock_core::{Error, Kind, Parameter};
    use proptest::prelude::*;

    fn names(names: &[&str]) -> Box<[Box<str>]> {
        names.iter().map(|&name| name.into()).collect()
    }

    #[test]
    fn what_is_asked_round_trips() {
        let http = HttpRequest {
            route: "GET /a/{b}".into(),
            method: "GET".into(),
            path: "/a/c".to_owned(),
            query: "d=e".to_owned(),
            path_params: vec![("b".into(), "c".to_owned())],
            body: Bytes::from_static(b"\xff"),
            refused: Some(Error::new(Kind::Timeout, "late")),
        };
        let one = RawRequest {
            names: names(&["x", ""]),
            outputs: Some(names(&["y"])),
            parameters: Box::new([vec![("p".to_owned(), Parameter::Int(1))], Vec::new()]),
            nested: Box::new([1]),
            binary: true,
            http: None,
        };
        for asked in [one, RawRequest { http: Some(Box::new(http)), ..RawRequest::default() }, RawRequest::default()] {
            let mut out = Writer::default();
            write_asked(&mut out, Some(&asked));
            let mut from = Reader(&out.0);
            let read = read_asked(&mut from).unwrap().unwrap();
            assert_eq!(format!("{read:?}"), format!("{asked:?}"));
            assert!(from.0.is_empty());
        }
    }

    #[test]
    fn what_is_told_round_trips() {
        let headers = [("a", "b")].into_iter().collect();
        let body = Some(Bytes::from_static(b"no"));
        let told = ResponseHead { names: names(&["y"]), status: 404, headers, body, id: Some("7".into()) };
        for told in [None, Some(ResponseHead::default()), Some(told)] {
            let mut out = Writer::default();
            write_told(&mut out, told.as_ref());
            let mut from = Reader(&out.0);
            assert_eq!(read_told(&mut from).unwrap().as_deref(), told.as_ref());
            assert!(from.0.is_empty());
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_panic(bytes in prop::collection::vec(any::<u8>(), 0..120)) {
            let _ = read_asked(&mut Reader(&bytes));
            let _ = read_told(&mut Reader(&bytes));
        }
    }
}
