//! `GET /debug/slow`: the last slow requests, and the parts of their durations.

use super::protected::check_protected;
use crate::{body::Body, rest::error, state::Context};
use http::{HeaderMap, HeaderValue, Response, header::CACHE_CONTROL};
use penstock_core::{Error, Kind, Result};
use serde_json::{Value, json};

/// `GET /debug/slow`.
///
/// # Errors
/// `Forbidden` to clients of other machines where neither a secret nor an address of operators protects the category.
/// `Unsupported` where slow requests are not recorded.
pub(crate) fn slow(context: &Context, headers: &HeaderMap) -> Result<Response<Body>> {
    check_protected(context, headers, "/debug/slow")?;
    context.check_all_models()?;
    let Some(slow) = context.app.log.slow() else {
        return Err(Error::new(
            Kind::Unsupported,
            "slow requests are not recorded, the server was started without slow_request",
        ));
    };
    let (count, last) = slow.last();
    let requests: Vec<Value> = last.iter().map(|record| record.json()).collect();
    let report = json!({
        "slow_request_ms": slow.threshold.as_secs_f64() * 1e3,
        "count": count,
        "requests": requests,
    });
    let mut response = error::json(200, report.to_string().into_bytes());
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    Ok(response)
}
