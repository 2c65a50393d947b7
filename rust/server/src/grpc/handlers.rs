//! Handlers of settings, statistics and the model repository.

use crate::{
    settings::{Action, LogLevel},
    state::Context,
};
use penstock_core::{Error, Result};
use penstock_wire::{
    generated::inference as pb,
    grpc::{repository as wire, statistics as statistics_of},
};

/// Changes the log settings, if the request has any, and returns them.
pub(super) async fn log_settings(
    context: &Context,
    request: pb::LogSettingsRequest,
) -> Result<pb::LogSettingsResponse> {
    let log = &context.app.log;
    if request.settings.is_empty() {
        return Ok(log.settings().message());
    }
    let change = async {
        let settings = log.change(|settings| settings.changed_by_message(request))?;
        log.event(LogLevel::Info, "the log settings were changed");
        Ok(settings.message())
    };
    context.audited(("log_settings", None), change).await
}

/// Changes the trace settings of the server or of a model, if the request has any, and returns them.
pub(super) async fn trace_setting(
    context: &Context,
    request: pb::TraceSettingRequest,
) -> Result<pb::TraceSettingResponse> {
    let app = &context.app;
    let name = Some(&*request.model_name).filter(|name| !name.is_empty());
    let change = async {
        let model = name.map(|name| context.models().find(name, None)).transpose()?;
        let name = model.map(|model| model.spec().name.clone());
        let (settings, server) = app.trace.update(name, |settings| settings.changed_by_message(&request))?;
        Ok(settings.message(&server))
    };
    if request.settings.is_empty() {
        return change.await;
    }
    context.audited(("trace_settings", name), change).await
}

/// Returns the statistics of a version, of all versions of a model, or without a name of all models.
pub(super) fn statistics(
    context: &Context,
    request: &pb::ModelStatisticsRequest,
) -> Result<pb::ModelStatisticsResponse> {
    let version = Some(&*request.version).filter(|version| !version.is_empty());
    let models = match (&*request.name, version) {
        ("", None) => Ok(context.models().all()),
        ("", Some(version)) => {
            Err(Error::invalid(format!("version '{version}' has no model name, expected a name and a version")))
        }
        (name, version) => context.models().select(name, version),
    };
    Ok(statistics_of(&models?))
}

pub(super) fn repository_index(
    context: &Context,
    request: &pb::RepositoryIndexRequest,
) -> Result<pb::RepositoryIndexResponse> {
    wire::index(request, &context.models().index())
}

pub(super) async fn repository_load(
    context: &Context,
    request: pb::RepositoryModelLoadRequest,
) -> Result<pb::RepositoryModelLoadResponse> {
    let (model_name, load) = wire::load(request)?;
    let change = async {
        context.models().check(&model_name)?;
        context.app.control(&model_name, Action::Load(load)).await
    };
    context.audited(("load", Some(&model_name)), change).await?;
    Ok(pb::RepositoryModelLoadResponse { model_name, is_loaded: true })
}

pub(super) async fn repository_unload(
    context: &Context,
    request: pb::RepositoryModelUnloadRequest,
) -> Result<pb::RepositoryModelUnloadResponse> {
    let model_name = wire::unload(request)?;
    let change = async {
        context.models().check(&model_name)?;
        context.app.control(&model_name, Action::Unload).await
    };
    context.audited(("unload", Some(&model_name)), change).await?;
    Ok(pb::RepositoryModelUnloadResponse { model_name, is_unloaded: true })
}
