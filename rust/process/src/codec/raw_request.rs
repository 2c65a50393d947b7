//! Raw requests and the heads of their responses.

use super::values::{Body, ErrorMessage, Pairs, ParameterTokens, pairs};
use bytes::Bytes;
use penstock_core::{HttpRequest, RawRequest, ResponseHead};
use serde::{Deserialize, Serialize};

/// A raw request without its tensors.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct RawRequestMessage<'a> {
    #[serde(borrow)]
    names: Vec<&'a str>,
    outputs: Option<Vec<&'a str>>,
    parameters: Vec<ParameterTokens<'a>>,
    nested: Vec<usize>,
    binary: bool,
    http: Option<HttpMessage<'a>>,
}

#[derive(Debug, Serialize, Deserialize)]
struct HttpMessage<'a> {
    route: &'a str,
    method: &'a str,
    path: &'a str,
    query: &'a str,
    #[serde(borrow)]
    path_params: Pairs<'a>,
    body: Body<'a>,
    refused: Option<ErrorMessage<'a>>,
}

impl<'a> From<&'a RawRequest> for RawRequestMessage<'a> {
    fn from(request: &'a RawRequest) -> Self {
        Self {
            names: borrowed(&request.names),
            outputs: request.outputs.as_deref().map(borrowed),
            parameters: request.parameters.iter().map(Into::into).collect(),
            nested: request.nested.to_vec(),
            binary: request.binary,
            http: request.http.as_deref().map(|http| HttpMessage {
                route: &http.route,
                method: &http.method,
                path: &http.path,
                query: &http.query,
                path_params: http.path_params.iter().map(|(name, value)| (&**name, &**value)).collect(),
                body: Body(&http.body),
                refused: http.primary_error.as_ref().map(Into::into),
            }),
        }
    }
}

impl RawRequestMessage<'_> {
    /// The raw request; `None` for one that no client can send.
    pub(crate) fn request(self) -> Option<RawRequest> {
        let http = self.http.map(|http| {
            Some(Box::new(HttpRequest {
                route: http.route.into(),
                method: http.method.to_owned().into(),
                path: http.path.to_owned(),
                query: http.query.to_owned(),
                path_params: http
                    .path_params
                    .into_iter()
                    .map(|(name, value)| (name.into(), value.to_owned()))
                    .collect(),
                body: Bytes::copy_from_slice(http.body.0),
                primary_error: http.refused.map(|error| error.error().ok_or(())).transpose().ok()?,
            }))
        });
        Some(RawRequest {
            names: owned(&self.names),
            outputs: self.outputs.as_deref().map(owned),
            parameters: self.parameters.iter().map(ParameterTokens::parameters).collect::<Option<_>>()?,
            nested: self.nested.into(),
            binary: self.binary,
            http: match http {
                Some(http) => Some(http?),
                None => None,
            },
            // The other end sends what it takes.
            takes_events: false,
        })
    }
}

/// The head of a response to a raw request.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct HeadMessage<'a> {
    #[serde(borrow)]
    names: Vec<&'a str>,
    status: u16,
    headers: Pairs<'a>,
    body: Option<Body<'a>>,
    id: Option<&'a str>,
    announces_events: bool,
    event: Option<Body<'a>>,
}

impl<'a> From<&'a ResponseHead> for HeadMessage<'a> {
    fn from(head: &'a ResponseHead) -> Self {
        Self {
            names: borrowed(&head.names),
            status: head.status,
            headers: pairs(&head.headers),
            body: head.body.as_deref().map(Body),
            id: head.id.as_deref(),
            announces_events: head.announces_events,
            event: head.event.as_deref().map(Body),
        }
    }
}

impl HeadMessage<'_> {
    /// The head.
    pub(crate) fn head(self) -> ResponseHead {
        ResponseHead {
            names: owned(&self.names),
            status: self.status,
            headers: self.headers.into_iter().collect(),
            body: self.body.map(|body| Bytes::copy_from_slice(body.0)),
            // No handler in a process calls models, whose streams these are.
            splice: None,
            id: self.id.map(Into::into),
            announces_events: self.announces_events,
            event: self.event.map(|event| Bytes::copy_from_slice(event.0)),
        }
    }
}

fn borrowed(names: &[Box<str>]) -> Vec<&str> {
    names.iter().map(|name| &**name).collect()
}

fn owned(names: &[&str]) -> Box<[Box<str>]> {
    names.iter().map(|&name| name.into()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::values::{decode, encode};
    use penstock_core::{Error, Kind, Parameter};
    use proptest::prelude::*;

    fn names(names: &[&str]) -> Box<[Box<str>]> {
        names.iter().map(|&name| name.into()).collect()
    }

    #[test]
    fn raw_requests_round_trip() {
        let http = HttpRequest {
            route: "GET /a/{b}".into(),
            method: "GET".into(),
            path: "/a/c".to_owned(),
            query: "d=e".to_owned(),
            path_params: vec![("b".into(), "c".to_owned())],
            body: Bytes::from_static(b"\xff"),
            primary_error: Some(Error::new(Kind::Timeout, "late")),
        };
        let one = RawRequest {
            names: names(&["x", ""]),
            outputs: Some(names(&["y"])),
            parameters: Box::new([vec![("p".to_owned(), Parameter::Int(1))], Vec::new()]),
            nested: Box::new([1]),
            binary: true,
            http: None,
            takes_events: false,
        };
        for raw in [one, RawRequest { http: Some(Box::new(http)), ..RawRequest::default() }, RawRequest::default()] {
            let encoded = encode(&RawRequestMessage::from(&raw)).unwrap();
            let message: RawRequestMessage<'_> = decode(&encoded).unwrap();
            assert_eq!(format!("{:?}", message.request().unwrap()), format!("{raw:?}"));
        }
    }

    #[test]
    fn heads_round_trip() {
        let headers = [("a", "b")].into_iter().collect();
        let body = Some(Bytes::from_static(b"no"));
        let head = ResponseHead {
            names: names(&["y"]),
            status: 404,
            headers,
            body,
            splice: None,
            id: Some("7".into()),
            announces_events: false,
            event: Some(Bytes::from_static(b"data: no\n\n")),
        };
        let announcement = ResponseHead { announces_events: true, ..ResponseHead::default() };
        for head in [None, Some(announcement), Some(ResponseHead::default()), Some(head)] {
            let encoded = encode(&head.as_ref().map(HeadMessage::from)).unwrap();
            let message: Option<HeadMessage<'_>> = decode(&encoded).unwrap();
            assert_eq!(message.map(HeadMessage::head), head);
        }
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..120)) {
            let _ = decode::<RawRequestMessage<'_>>(&bytes).map(RawRequestMessage::request);
            let _ = decode::<HeadMessage<'_>>(&bytes).map(HeadMessage::head);
        }
    }
}
