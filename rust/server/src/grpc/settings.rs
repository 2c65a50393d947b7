//! `LogSettings` and `TraceSetting`.

use super::{service::Answered, status::status};
use crate::{app::App, config::LogLevel};
use penstock_wire::generated::inference as pb;
use tonic::Response;

/// Changes what is logged, if anything is asked to be, and tells it.
pub(super) fn logging(app: &App, request: pb::LogSettingsRequest) -> Answered<pb::LogSettingsResponse> {
    let only_read = request.settings.is_empty();
    let changed = app.log.change(|settings| settings.changed_by_message(request));
    let settings = changed.map_err(|error| status(app, &error))?;
    if !only_read {
        app.log.say(LogLevel::Info, "the log settings were changed");
    }
    Ok(Response::new(settings.message()))
}

/// Changes the trace settings of the server or of a model, if anything is asked to be, and tells them.
pub(super) fn trace(app: &App, request: &pb::TraceSettingRequest) -> Answered<pb::TraceSettingResponse> {
    let name = Some(&*request.model_name).filter(|name| !name.is_empty());
    let found = name.map(|name| app.registry.find(name, None)).transpose();
    let answer = found.and_then(|model| {
        let name = model.map(|model| model.spec().name.clone());
        app.trace.update(name, |settings| settings.changed_by_message(request))
    });
    let (settings, server) = answer.map_err(|error| status(app, &error))?;
    Ok(Response::new(settings.message(&server)))
}
