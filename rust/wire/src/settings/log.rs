//! The settings of the server's log, as both protocols read and change them.

use crate::generated::inference::{
    LogSettingsRequest, LogSettingsResponse,
    log_settings_request::setting_value::ParameterChoice,
    log_settings_response::{SettingValue, setting_value::ParameterChoice as Shown},
};
use penstock_core::{Error, Kind, Result};
use serde_json::{Map, Value, json};

const NAMES: &str = "log_info, log_warning, log_error, log_verbose_level, log_format";

/// Format of a line's time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogFormat {
    /// As seconds since 1970.
    #[default]
    Default,
    /// As date and time.
    Iso8601,
}

impl LogFormat {
    /// Its name in the settings.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Default => "default",
            Self::Iso8601 => "ISO8601",
        }
    }
}

/// All settings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogSettings {
    /// Log information.
    pub info: bool,
    /// Log warnings.
    pub warning: bool,
    /// Log errors of the server.
    pub error: bool,
    /// From 1 on, each inference request is logged.
    pub verbose_level: u32,
    /// Format of a line's time.
    pub format: LogFormat,
}

/// A value from a client, of either protocol.
enum Given {
    Nothing,
    Bool(bool),
    Number(i64),
    Text(String),
    Other,
}

impl LogSettings {
    /// Applies the body of `POST /v2/logging`, all of it or nothing.
    ///
    /// # Errors
    /// `InvalidInput` with the setting; `Unsupported` for the file, which a running server cannot change.
    pub fn changed_by_json(self, body: &[u8]) -> Result<Self> {
        object(body)?.into_iter().try_fold(self, |settings, (name, value)| {
            let given = match value {
                Value::Null => Given::Nothing,
                Value::Bool(value) => Given::Bool(value),
                Value::Number(number) => number.as_i64().map_or(Given::Other, Given::Number),
                Value::String(text) => Given::Text(text),
                Value::Array(_) | Value::Object(_) => Given::Other,
            };
            settings.with(&name, given)
        })
    }

    /// Changed by a message; nothing is changed if any of it is wrong.
    ///
    /// # Errors
    /// As [`changed_by_json`](Self::changed_by_json).
    pub fn changed_by_message(self, message: LogSettingsRequest) -> Result<Self> {
        message.settings.into_iter().try_fold(self, |settings, (name, value)| {
            let given = match value.parameter_choice {
                None => Given::Nothing,
                Some(ParameterChoice::BoolParam(value)) => Given::Bool(value),
                Some(ParameterChoice::Uint32Param(value)) => Given::Number(value.into()),
                Some(ParameterChoice::StringParam(text)) => Given::Text(text),
            };
            settings.with(&name, given)
        })
    }

    fn with(mut self, name: &str, given: Given) -> Result<Self> {
        let wrong = |expected: &str| Err(Error::invalid(format!("log setting '{name}' is wrong, expected {expected}")));
        match (name, given) {
            (
                "log_file" | "log_info" | "log_warning" | "log_error" | "log_verbose_level" | "log_format",
                Given::Nothing,
            ) => {}
            ("log_file", _) => {
                return Err(Error::new(
                    Kind::Unsupported,
                    "log setting 'log_file' cannot be changed: the log goes to standard error",
                ));
            }
            ("log_info", Given::Bool(value)) => self.info = value,
            ("log_warning", Given::Bool(value)) => self.warning = value,
            ("log_error", Given::Bool(value)) => self.error = value,
            ("log_info" | "log_warning" | "log_error", _) => return wrong("true or false"),
            ("log_verbose_level", Given::Number(level)) if u32::try_from(level).is_ok() => {
                self.verbose_level = u32::try_from(level).unwrap_or(0);
            }
            ("log_verbose_level", _) => return wrong("an integer of 0 or more"),
            ("log_format", Given::Text(text)) if text == LogFormat::Default.name() => self.format = LogFormat::Default,
            ("log_format", Given::Text(text)) if text == LogFormat::Iso8601.name() => self.format = LogFormat::Iso8601,
            ("log_format", _) => return wrong("'default' or 'ISO8601'"),
            _ => {
                let name: String = name.chars().take(128).collect();
                return Err(Error::invalid(format!("unknown log setting '{name}', expected one of {NAMES}")));
            }
        }
        Ok(self)
    }

    /// Body of the response to `GET` and `POST /v2/logging`.
    pub fn json(&self) -> Vec<u8> {
        let document = json!({
            "log_file": "",
            "log_info": self.info,
            "log_warning": self.warning,
            "log_error": self.error,
            "log_verbose_level": self.verbose_level,
            "log_format": self.format.name(),
        });
        document.to_string().into_bytes()
    }

    /// Response message of `LogSettings`.
    pub fn message(&self) -> LogSettingsResponse {
        let values = [
            ("log_file", Shown::StringParam(String::new())),
            ("log_info", Shown::BoolParam(self.info)),
            ("log_warning", Shown::BoolParam(self.warning)),
            ("log_error", Shown::BoolParam(self.error)),
            ("log_verbose_level", Shown::Uint32Param(self.verbose_level)),
            ("log_format", Shown::StringParam(self.format.name().to_owned())),
        ];
        let shown = |(name, value): (&str, Shown)| (name.to_owned(), SettingValue { parameter_choice: Some(value) });
        LogSettingsResponse { settings: values.into_iter().map(shown).collect() }
    }
}

/// The members of a body, which may be empty.
pub(super) fn object(body: &[u8]) -> Result<Map<String, Value>> {
    if body.is_empty() {
        return Ok(Map::new());
    }
    match serde_json::from_slice(body) {
        Ok(Value::Object(members)) => Ok(members),
        Ok(_) => Err(Error::invalid("the body is not a JSON object, expected settings by name")),
        Err(error) => Err(Error::invalid(format!("the body is not valid JSON: {error}"))),
    }
}
