//! Raw requests over HTTP.

use super::{Outgoing, Rest};
use crate::{CallOptions, RawRequest, RawResponse, failure::Result, http1::Framing};
use penstock_core::BodyChunks;

impl Rest {
    /// Makes one attempt at a raw request and returns the response whatever its status.
    pub(crate) async fn raw(&self, raw: &RawRequest, how: &CallOptions) -> Result<RawResponse> {
        let (mut connection, mut head) = self.exchange(&outgoing(raw, how)).await?;
        if raw.method == "HEAD" {
            head.framing = Framing::Length(0);
        }
        let body = self.body(&mut connection, &mut head).await?;
        // KServe's servers drop the connection after a 500 without announcing it, just when it is used again.
        if head.status != 500 {
            self.release(connection, &head);
        }
        Ok(RawResponse { status: head.status, headers: head.headers, body })
    }

    /// Encodes a raw request, to be sent many times: its head and its body.
    pub(crate) fn prepared_raw(&self, raw: &RawRequest, how: &CallOptions) -> (Vec<u8>, BodyChunks) {
        let outgoing = outgoing(raw, how);
        (self.head(&outgoing), outgoing.body)
    }
}

fn outgoing<'a>(raw: &'a RawRequest, how: &'a CallOptions) -> Outgoing<'a> {
    Outgoing {
        method: &raw.method,
        path: &raw.path,
        headers: &how.headers,
        content_type: None,
        json_len: None,
        compression: None,
        body: BodyChunks::from_iter([raw.body.clone()]),
        idempotent: raw.repeatable,
        all_headers: true,
    }
}
