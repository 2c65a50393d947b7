//! Head of a response.

use penstock_core::{Error, Kind};
use penstock_wire::coding::Coding;
use std::time::Duration;

const MAX_HEADERS: usize = 100;

/// Head of a response.
#[derive(Debug)]
pub(crate) struct Head {
    /// Status code.
    pub(crate) status: u16,
    /// `Inference-Header-Content-Length`.
    pub(crate) json_len: Option<usize>,
    /// `Retry-After`, if it is a number of seconds.
    pub(crate) retry_after: Option<Duration>,
    /// Compression of the body.
    pub(crate) encoding: Option<Coding>,
    /// End of the body.
    pub(crate) framing: Framing,
    /// The connection can be reused.
    pub(crate) keep_alive: bool,
    /// All headers, if requested.
    pub(crate) headers: Vec<(String, String)>,
}

/// End of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Framing {
    /// After that many bytes.
    Length(usize),
    /// At the last chunk; that many bytes of the current chunk are left.
    Chunked(usize),
    /// At the end of the connection.
    Close,
    /// Reached.
    Done,
}

impl Framing {
    /// Returns the framing after `count` bytes.
    pub(super) fn after(self, count: usize) -> Self {
        match self {
            Self::Length(left) => Self::Length(left - count),
            Self::Chunked(left) => Self::Chunked(left - count),
            other => other,
        }
    }
}

/// Parses the head at the front of `bytes`, with `all` its headers if set, and its length; `None` until it is complete.
pub(super) fn parse(bytes: &[u8], all: bool) -> penstock_core::Result<Option<(Head, usize)>> {
    let mut headers = [httparse::EMPTY_HEADER; MAX_HEADERS];
    let mut response = httparse::Response::new(&mut headers);
    let length = match response.parse(bytes) {
        Ok(httparse::Status::Complete(length)) => length,
        Ok(httparse::Status::Partial) => return Ok(None),
        Err(error) => return Err(not_http(&error.to_string())),
    };
    let status = response.code.unwrap_or_default();
    let mut head = Head {
        status,
        json_len: None,
        retry_after: None,
        encoding: None,
        framing: Framing::Close,
        keep_alive: response.version == Some(1),
        headers: Vec::new(),
    };
    let mut chunked = false;
    for header in response.headers.iter() {
        read_header(&mut head, &mut chunked, header)?;
        if all {
            let value = String::from_utf8_lossy(header.value).trim().to_owned();
            head.headers.push((header.name.to_ascii_lowercase(), value));
        }
    }
    if status == 204 || status == 304 || status < 200 {
        head.framing = Framing::Length(0);
    } else if chunked {
        head.framing = Framing::Chunked(0);
    }
    head.keep_alive &= head.framing != Framing::Close;
    Ok(Some((head, length)))
}

fn read_header(head: &mut Head, chunked: &mut bool, header: &httparse::Header<'_>) -> penstock_core::Result<()> {
    let text = || std::str::from_utf8(header.value).unwrap_or_default().trim();
    let number = || text().parse::<usize>().ok().filter(|_| text().bytes().all(|byte| byte.is_ascii_digit()));
    let is = |name: &str| header.name.eq_ignore_ascii_case(name);
    if is("content-length") {
        let length = number().ok_or_else(|| not_http("its content length is not a number"))?;
        if !matches!(head.framing, Framing::Close) && head.framing != Framing::Length(length) {
            return Err(not_http("it has two content lengths"));
        }
        head.framing = Framing::Length(length);
    } else if is("transfer-encoding") {
        if !text().eq_ignore_ascii_case("chunked") {
            return Err(not_http("its transfer encoding is not known"));
        }
        *chunked = true;
    } else if is("connection") {
        let has = |word: &str| text().split(',').any(|part| part.trim().eq_ignore_ascii_case(word));
        head.keep_alive = !has("close") && (head.keep_alive || has("keep-alive"));
    } else if is("inference-header-content-length") {
        head.json_len = Some(number().ok_or_else(|| not_http("its JSON length is not a number"))?);
    } else if is("retry-after") {
        head.retry_after = number().map(|seconds| Duration::from_secs(seconds as u64));
    } else if is("content-encoding") && !text().is_empty() && !text().eq_ignore_ascii_case("identity") {
        let encoding = Coding::from_name(&text().to_ascii_lowercase());
        head.encoding = Some(encoding.ok_or_else(|| not_http("its content encoding is not known"))?);
    }
    Ok(())
}

/// Error for a response that is not HTTP/1.1.
pub(super) fn not_http(why: &str) -> Error {
    Error::new(Kind::Internal, format!("the server's answer is not HTTP/1.1: {why}"))
}
