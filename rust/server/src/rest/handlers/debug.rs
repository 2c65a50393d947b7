//! `GET /debug/config`: each setting with its value and origin, and the options of the models.

use super::protected::check_protected;
use crate::{body::Body, rest::error, state::Context};
use http::{HeaderMap, HeaderValue, Response, header::CACHE_CONTROL};
use penstock_core::Result;

/// `GET /debug/config`.
///
/// # Errors
/// `Forbidden` to clients of other machines where neither a secret nor an address of operators protects the category,
/// and to keys of some models.
pub(crate) fn config(context: &Context, headers: &HeaderMap) -> Result<Response<Body>> {
    // It names files of the program.
    check_protected(context, headers, "/debug/config")?;
    context.check_all_models()?;
    let mut response = error::json(200, context.app.description().json);
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    Ok(response)
}
