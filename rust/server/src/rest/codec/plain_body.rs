//! Bodies in the types of a model's handler: plain JSON, forms with files, and single files.

use super::receive::{receive_whole, whole};
use crate::{
    body::{
        Body, RequestBody,
        offload::{self, Offloaded},
    },
    rest::{error, headers::InferHeaders},
    settings::Config,
    state::RequestGuard,
};
use bytes::{Bytes, BytesMut};
use futures_util::stream;
use http::{HeaderMap, HeaderValue, Response, header::CONTENT_TYPE};
use multer::{Field, Multipart};
use penstock_core::{Datatype, Error, InferResponse, ModelSpec, Result, bytes_tensor};
use penstock_wire::{
    DecodedRequest,
    rest::{
        EncodeOptions, generate, media_ranges,
        plain::{self, Part},
    },
};
use std::{convert::Infallible, sync::Arc};

/// Maximum number of fields and files of a form.
const MAX_PARTS: usize = 4096;

/// Condition for a plain body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PlainBody {
    /// On the route of plain requests.
    Always,
    /// On a route of the protocol: for a model whose inputs have plain types, if the body is not the protocol's.
    ByShape,
}

/// Content of a body.
#[derive(Debug, PartialEq, Eq)]
enum Content {
    Json,
    /// Fields and files, separated by this boundary.
    Form(String),
    /// One file.
    File,
}

impl PlainBody {
    /// Returns whether a request with these headers may be plain.
    pub(crate) fn may_be(self, spec: &ModelSpec, headers: &InferHeaders<'_>) -> bool {
        self == Self::Always || (spec.plain_types && headers.json_length.is_none())
    }

    /// Reads and decodes a body; a large one on a blocking thread. Returns whether it was plain.
    ///
    /// # Errors
    /// Those of a JSON body, and of a form.
    pub(crate) async fn receive<B: RequestBody>(
        self,
        spec: &Arc<ModelSpec>,
        (described, headers): (&InferHeaders<'_>, &HeaderMap),
        body: B,
        config: &Config,
        guard: &mut RequestGuard,
    ) -> Result<(DecodedRequest, bool)> {
        let content = Content::of(described.content_type)?;
        let bytes = receive_whole(headers, body, &config.limits, guard.memory()).await?;
        let (limits, length, own) = (config.decode_limits(), bytes.len(), Arc::clone(spec));
        let decoded = match content {
            // Clients of the protocol send its JSON with other content types, too.
            Content::Json | Content::File if self == Self::ByShape && is_infer(&bytes).await? => {
                return Ok((whole(spec, None, bytes, config).await?, false));
            }
            Content::Json => offload::run(length, move || plain::decode(&own, &bytes, &limits)).await?,
            Content::File => {
                let decode = move || {
                    let name = Arc::clone(&plain::bytes_input(&own)?.name);
                    plain::decode_parts(&own, &[Part { name: &name, content: &bytes }], &limits)
                };
                offload::run(length, decode).await?
            }
            Content::Form(boundary) => {
                let parts = read_form(bytes, boundary).await?;
                let decode = move || {
                    let parts: Vec<_> = parts.iter().map(|(name, content)| Part { name, content }).collect();
                    plain::decode_parts(&own, &parts, &limits)
                };
                offload::run(length, decode).await?
            }
        };
        Ok((decoded, true))
    }
}

/// Reports whether a JSON body is an infer request; a large one is searched on a blocking thread.
pub(crate) fn is_infer(json: &Bytes) -> Offloaded<bool> {
    let json = json.clone();
    offload::run(json.len(), move || Ok(generate::is_infer(&json)))
}

impl Content {
    /// Reads the content type. Without one, and with the one that curl sends by default, a body is JSON.
    fn of(content_type: Option<&HeaderValue>) -> Result<Self> {
        let text = content_type.and_then(|value| value.to_str().ok()).unwrap_or_default();
        let media = text.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
        match &*media {
            "" | "application/json" | "text/json" | "application/x-www-form-urlencoded" => Ok(Self::Json),
            "multipart/form-data" => multer::parse_boundary(text).map(Self::Form).map_err(|_| {
                Error::invalid("the content type multipart/form-data has no boundary, which separates the fields")
            }),
            json if json.ends_with("+json") => Ok(Self::Json),
            _ => Ok(Self::File),
        }
    }
}

/// Reads the fields and files of a form. Content is copied only where the parser returns it in pieces.
async fn read_form(bytes: Bytes, boundary: String) -> Result<Vec<(String, Bytes)>> {
    let mut form = Multipart::new(stream::iter([Ok::<_, Infallible>(bytes)]), boundary);
    let mut parts = Vec::new();
    while let Some(field) = form.next_field().await.map_err(|error| malformed(&error))? {
        let Some(name) = field.name().map(str::to_owned) else {
            return Err(Error::invalid("a part of the form has no name, expected that of an input"));
        };
        if parts.len() == MAX_PARTS {
            return Err(Error::invalid(format!(
                "the form has more than {MAX_PARTS} parts, the most that are accepted"
            )));
        }
        parts.push((name, content_of(field).await.map_err(|error| malformed(&error))?));
    }
    Ok(parts)
}

async fn content_of(mut field: Field<'_>) -> multer::Result<Bytes> {
    let first = field.chunk().await?.unwrap_or_default();
    let Some(second) = field.chunk().await? else { return Ok(first) };
    let mut joined = BytesMut::from(&*first);
    joined.extend_from_slice(&second);
    while let Some(next) = field.chunk().await? {
        joined.extend_from_slice(&next);
    }
    Ok(joined.freeze())
}

fn malformed(error: &multer::Error) -> Error {
    Error::invalid(format!("the form cannot be read: {error}"))
}

/// Form of a plain response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum PlainForm {
    /// JSON.
    Json,
    /// The bytes of the only output, of this media type.
    Bytes(HeaderValue),
}

impl PlainForm {
    /// Reads `Accept`: a media type other than JSON selects the bytes of a model's only output, if it has bytes.
    pub(crate) fn of(spec: &ModelSpec, accept: Option<&HeaderValue>) -> Self {
        let [only] = &spec.outputs[..] else { return Self::Json };
        if only.datatype != Datatype::Bytes || only.document || only.text {
            return Self::Json;
        }
        let text = accept.and_then(|value| value.to_str().ok()).unwrap_or("*/*");
        let own = only.media_type.as_deref();
        for wanted in media_ranges(text) {
            let found = match (wanted, own) {
                ("application/json", _) => return Self::Json,
                ("*/*", own) => own,
                (wanted, Some(own)) if matches(wanted, own) => Some(own),
                (wanted, None) if is_bytes(wanted) => Some(wanted),
                _ => None,
            };
            if let Some(media) = found.and_then(|media| HeaderValue::from_str(media).ok()) {
                return Self::Bytes(media);
            }
        }
        Self::Json
    }

    /// Encodes a response. An output of several elements is JSON in any case.
    ///
    /// # Errors
    /// Those of [`plain::encode`].
    pub(crate) fn encode(
        &self,
        spec: &ModelSpec,
        response: &InferResponse,
        options: &EncodeOptions,
    ) -> Result<Response<Body>> {
        if let (Self::Bytes(media), [output]) = (self, &response.outputs[..]) {
            let mut elements = bytes_tensor::elements(output.as_slice());
            if let (Some(only), None) = (elements.next(), elements.next()) {
                let mut http_response = Response::new(Body::from(Bytes::copy_from_slice(only)));
                http_response.headers_mut().insert(CONTENT_TYPE, media.clone());
                return Ok(http_response);
            }
        }
        Ok(error::json(200, plain::encode(spec, response, options)?))
    }
}

/// Returns whether a media range, such as `image/*`, contains a media type.
fn matches(range: &str, media: &str) -> bool {
    let whole =
        range.strip_suffix("/*").and_then(|kind| media.strip_prefix(kind)).is_some_and(|rest| rest.starts_with('/'));
    whole || range.eq_ignore_ascii_case(media)
}

/// Returns whether a media type is one of bytes, for an output that declares none.
fn is_bytes(media: &str) -> bool {
    let kinds = ["image/", "audio/", "video/", "application/octet-stream", "application/pdf", "application/zip"];
    kinds.iter().any(|kind| media.starts_with(kind)) && !media.ends_with("/*")
}

#[cfg(test)]
mod tests {
    use super::*;
    use penstock_core::TensorSpec;

    fn form(spec: &TensorSpec, accept: &'static str) -> Option<String> {
        let spec = ModelSpec { outputs: vec![spec.clone()], ..ModelSpec::default() };
        match PlainForm::of(&spec, Some(&HeaderValue::from_static(accept))) {
            PlainForm::Json => None,
            PlainForm::Bytes(media) => Some(media.to_str().unwrap().to_owned()),
        }
    }

    #[test]
    fn accept_selects_bytes_or_json() {
        let bytes = TensorSpec::new("output", Datatype::Bytes, vec![]);
        let image = TensorSpec { media_type: Some("image/png".into()), ..bytes.clone() };
        let text = TensorSpec { text: true, ..bytes.clone() };
        for (spec, accept, expected) in [
            (&bytes, "*/*", None),
            (&bytes, "application/octet-stream", Some("application/octet-stream")),
            (&bytes, "text/html, image/jpeg;q=0.9", Some("image/jpeg")),
            (&bytes, "application/json, image/jpeg", None),
            (&bytes, "image/*", None),
            (&image, "*/*", Some("image/png")),
            (&image, "image/*", Some("image/png")),
            (&image, "image/webp, image/*", Some("image/png")),
            (&image, "application/json", None),
            (&image, "text/html", None),
            (&image, "image/*;q=0", None),
            (&image, "application/json;q=0.5, image/png", Some("image/png")),
            (&text, "application/octet-stream", None),
        ] {
            assert_eq!(form(spec, accept).as_deref(), expected, "{accept}");
        }
    }

    #[test]
    fn content_type_selects_json_form_or_file() {
        for (text, expected) in [
            ("", Content::Json),
            ("Application/JSON; charset=utf-8", Content::Json),
            ("application/problem+json", Content::Json),
            ("application/x-www-form-urlencoded", Content::Json),
            ("multipart/form-data; boundary=x-1", Content::Form("x-1".into())),
            ("image/jpeg", Content::File),
        ] {
            assert_eq!(Content::of(Some(&HeaderValue::from_static(text))).unwrap(), expected, "{text}");
        }
        let refused = Content::of(Some(&HeaderValue::from_static("multipart/form-data"))).unwrap_err();
        assert!(refused.message().ends_with("has no boundary, which separates the fields"));
    }

    #[tokio::test]
    async fn form_is_read_in_order_and_refused_with_a_reason() {
        let body = "--x\r\ncontent-disposition: form-data; name=\"a\"; filename=\"f.jpg\"\r\n\
            content-type: image/jpeg\r\n\r\n\0\r\n--y\r\n--x\r\n\
            content-disposition: form-data; name=b\r\n\r\n\r\n--x--\r\n";
        let parts = read_form(Bytes::from(body), "x".into()).await.unwrap();
        let parts: Vec<_> = parts.iter().map(|(name, content)| (&**name, &**content)).collect();
        assert_eq!(parts, [("a", &b"\0\r\n--y"[..]), ("b", b"")]);
        for wrong in ["", "--x", "--x\r\ncontent-disposition: form-data; name=a\r\n\r\nopen"] {
            let error = read_form(Bytes::from(wrong), "x".into()).await.unwrap_err();
            assert!(error.message().starts_with("the form cannot be read: "), "{}", error.message());
        }
    }
}
