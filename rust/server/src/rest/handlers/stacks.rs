//! `GET /debug/stacks`: the stacks of all threads of the server and of its child processes.
//!
//! It works while the interpreter is held: no step needs it. The reader may wait for a process for 200 ms, so it runs on
//! a thread that may block.

use super::protected::check_protected;
use crate::{body::Body, settings::ReadStacks, state::Context};
use bytes::Bytes;
use http::{
    HeaderMap, HeaderValue, Response,
    header::{CACHE_CONTROL, CONTENT_TYPE},
};
use penstock_core::{Error, Kind, Result};
use std::{fmt::Write as _, process};
use tokio::runtime::Handle;

/// Media type of the stacks.
pub(crate) const TEXT: &str = "text/plain; charset=utf-8";

/// `GET /debug/stacks`.
///
/// # Errors
/// `Forbidden` to clients of other machines where neither a secret nor an address of operators protects the category.
/// `Unavailable` where the server's process has no handler of the signal.
pub(crate) async fn stacks(context: &Context, headers: &HeaderMap) -> Result<Response<Body>> {
    // They name files and lines of the program.
    check_protected(context, headers, "/debug/stacks")?;
    context.check_all_models()?;
    let children = children(context);
    let reader = context.app.config.stacks;
    let read = move || text(reader, &children);
    let read = match Handle::try_current() {
        // A call in this process may have no runtime.
        Err(_) => read(),
        Ok(runtime) => runtime
            .spawn_blocking(read)
            .await
            .unwrap_or_else(|error| Err(format!("stacks: they could not be read: {error}"))),
    };
    let text = read.map_err(|problem| Error::new(Kind::Unavailable, problem))?;
    let mut response = Response::new(Body::from(Bytes::from(text)));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(TEXT));
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    Ok(response)
}

/// Number, model and instance of each child process.
fn children(context: &Context) -> Vec<(u32, String)> {
    let mut found = Vec::new();
    for model in context.app.registry.all() {
        let spec = model.spec();
        for (index, report) in model.queue().instance_reports().iter().enumerate() {
            if let Some(id) = report.process.id {
                let name = format!("model '{}' version '{}' instance {index}", spec.name, spec.version);
                found.push((id, name));
            }
        }
    }
    found
}

/// The stacks of this process, then those of each child or the reason why there are none.
fn text(read: ReadStacks, children: &[(u32, String)]) -> std::result::Result<String, String> {
    let id = process::id();
    let mut text = format!("process {id}: server\n\n{}", read(id)?);
    for (id, name) in children {
        let stacks = read(*id).unwrap_or_else(|problem| problem + "\n");
        // Writing to a `String` cannot fail.
        let _ = write!(text, "\nprocess {id}: {name}\n\n{stacks}");
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn child_without_stacks_does_not_hide_the_others() {
        let read: ReadStacks = |id| if id == 2 { Err("stacks: no".to_owned()) } else { Ok("File\n".to_owned()) };
        let children = [(2, "a".to_owned()), (3, "b".to_owned())];
        let expected = "server\n\nFile\n\nprocess 2: a\n\nstacks: no\n\nprocess 3: b\n\nFile\n";
        assert_eq!(text(read, &children).unwrap(), format!("process {}: {expected}", process::id()));
        assert_eq!(text(|_| Err("gone".to_owned()), &children), Err("gone".to_owned()));
    }
}
