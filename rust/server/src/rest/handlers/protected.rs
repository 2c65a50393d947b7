//! Access to reports of the category `debug` that are for this machine where nothing protects it.

use super::live::is_local;
use crate::{settings::Category, state::Context};
use http::HeaderMap;
use penstock_core::{Error, Kind, Result};

/// Checks that a key, a secret or an address of operators protects the category, or that the client is of this machine.
///
/// # Errors
/// `Forbidden` that names the path.
pub(super) fn check_protected(context: &Context, headers: &HeaderMap, path: &str) -> Result<()> {
    let config = &context.app.config;
    let is_protected =
        context.key.is_some() || config.access.protects(Category::Debug) || config.admin_only.contain(Category::Debug);
    if is_protected || is_local(context, headers) {
        return Ok(());
    }
    let text = format!("{path} is for programs of this machine, unless keys, restricted_access or admin protect it");
    Err(Error::new(Kind::Forbidden, text))
}
