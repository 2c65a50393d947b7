//! `LogSettings` and `TraceSetting`.

use crate::{settings::LogLevel, state::App};
use penstock_core::Result;
use penstock_wire::generated::inference as pb;

/// Changes the log settings, if the request has any, and returns them.
pub(super) fn logging(app: &App, request: pb::LogSettingsRequest) -> Result<pb::LogSettingsResponse> {
    let only_read = request.settings.is_empty();
    let settings = app.log.change(|settings| settings.changed_by_message(request))?;
    if !only_read {
        app.log.event(LogLevel::Info, "the log settings were changed");
    }
    Ok(settings.message())
}

/// Changes the trace settings of the server or of a model, if the request has any, and returns them.
pub(super) fn trace(app: &App, request: &pb::TraceSettingRequest) -> Result<pb::TraceSettingResponse> {
    let name = Some(&*request.model_name).filter(|name| !name.is_empty());
    let model = name.map(|name| app.registry.find(name, None)).transpose()?;
    let name = model.map(|model| model.spec().name.clone());
    let (settings, server) = app.trace.update(name, |settings| settings.changed_by_message(request))?;
    Ok(settings.message(&server))
}
