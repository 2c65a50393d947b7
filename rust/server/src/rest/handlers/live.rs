//! The page at `/live`, which shows what the server does now, and its figures as server-sent events.
//!
//! A viewer costs a sample of all models each second; without a viewer there is none.

mod access;
mod delta;
mod events;
mod model;
mod processes;
mod sampler;

pub(crate) use access::{check_access, is_local};

use super::page::Page;
use crate::{body::Body, observe::live::MAX_VIEWERS, rest::handler::PathParams, state::Context};
use bytes::Bytes;
use http::{
    HeaderValue, Response,
    header::{CACHE_CONTROL, CONTENT_TYPE},
};
use penstock_core::{Error, Kind, Result};
use std::{
    sync::{Arc, LazyLock},
    time::Duration,
};

/// Style and scripts of the page; the scripts are joined in this order.
const STYLE: &str = include_str!("live/page.css");
const SCRIPT: &str = concat!(
    include_str!("live/parts.js"),
    include_str!("live/charts.js"),
    include_str!("live/models.js"),
    include_str!("live/detail.js"),
    include_str!("live/lists.js"),
    include_str!("live/feed.js"),
    include_str!("live/page.js"),
);

/// SHA-256 of the style and the script: a browser accepts no other. A house test compares them.
const STYLE_HASH: &str = "sha256-6VZn7AXgD+iRB0m4FKP6RpA49kF/2B5DW0tbIndTb1g=";
const SCRIPT_HASH: &str = "sha256-0M3mtQeReLEP7+GeRvW31KLfDNTNXr3Lr++rCF5h188=";

/// `GET /live`.
pub(crate) fn page(_: &Context, _: &PathParams) -> Result<Response<Body>> {
    static PAGE: LazyLock<Page> = LazyLock::new(|| Page {
        html: Bytes::from(include_str!("live/page.html").replace("STYLE", STYLE).replace("SCRIPT", SCRIPT)),
        style: STYLE_HASH,
        script: SCRIPT_HASH,
    });
    Ok(PAGE.respond())
}

/// `GET /live/events`: the whole state once, then each second what has changed.
pub(crate) fn events(context: &Context, _: &PathParams) -> Result<Response<Body>> {
    if context.completions.is_none() {
        return Err(Error::new(
            Kind::Unsupported,
            "the events of /live never end, a call in this process would not return",
        ));
    }
    context.check_all_models()?;
    let Some((viewer, feed)) = context.app.live.join() else {
        let text =
            format!("{MAX_VIEWERS} viewers watch this server at /live already, and no more are served: close one");
        return Err(Error::new(Kind::Unavailable, text).retry_after(Duration::from_secs(5)));
    };
    if let Some(feed) = feed {
        tokio::spawn(events::sample(Arc::clone(&context.app), feed));
    }
    let mut response = Response::new(Body::Streamed(axum::body::Body::from_stream(events::stream(viewer))));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream; charset=utf-8"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    // Proxies shall forward each event at once.
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    Ok(response)
}
