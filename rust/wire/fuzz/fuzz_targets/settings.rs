//! Log and trace settings, as JSON and as messages: refused, or changed to settings that can be read and set again.
#![no_main]

use libfuzzer_sys::fuzz_target;
use penstock_core::{Error, Kind};
use penstock_wire::{
    generated::inference::{LogSettingsRequest, TraceSettingRequest},
    settings::{LogSettings, TraceSettings},
};
use penstock_wire_fuzz::within_budget;
use prost::Message;

fuzz_target!(|body: &[u8]| {
    within_budget(body.len(), || {
        log(LogSettings::default().changed_by_json(body));
        trace(TraceSettings::default().changed_by_json(body));
        if let Ok(message) = LogSettingsRequest::decode(body) {
            log(LogSettings::default().changed_by_message(message));
        }
        if let Ok(message) = TraceSettingRequest::decode(body) {
            trace(TraceSettings::default().changed_by_message(&message));
        }
    });
});

fn log(changed: Result<LogSettings, Error>) {
    let Ok(settings) = changed.map_err(|error| refused(&error)) else { return };
    // The file is shown and cannot be set.
    let shown = without(&settings.json(), &["log_file"]);
    assert_eq!(LogSettings::default().changed_by_json(&shown).expect("its own JSON"), settings);
    assert_eq!(settings.message().settings.len(), 6);
}

fn trace(changed: Result<TraceSettings, Error>) {
    let Ok(settings) = changed.map_err(|error| refused(&error)) else { return };
    let server = TraceSettings::default();
    let shown = without(&settings.json(&server), &["trace_file", "trace_mode"]);
    let again = TraceSettings::default().changed_by_json(&shown).expect("its own JSON");
    assert_eq!(again.json(&server), settings.json(&server));
    assert_eq!(settings.message(&server).settings.len(), 6);
}

fn without(json: &[u8], names: &[&str]) -> Vec<u8> {
    let mut members: serde_json::Map<_, _> = serde_json::from_slice(json).expect("its own JSON");
    members.retain(|name, _| !names.contains(&name.as_str()));
    serde_json::to_vec(&members).expect("JSON again")
}

fn refused(error: &Error) {
    assert!(matches!(error.kind(), Kind::InvalidInput | Kind::Unsupported), "{error:?}");
    assert!(!error.message().is_empty());
}
