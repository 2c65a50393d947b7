//! Parts of the text form of OpenMetrics, for metrics that are read when they are scraped.

use std::fmt::{Display, Write};

/// Writes the description of a metric family.
pub fn write_head(text: &mut String, name: &str, help: &str, kind: &str) {
    // Writing to a `String` cannot fail.
    let _ = writeln!(text, "# HELP {name} {help}.\n# TYPE {name} {kind}");
}

/// Writes a sample. `labels` are written as they are; see [`escape_label`].
pub fn write_sample(text: &mut String, name: &str, labels: &str, value: impl Display) {
    let _ = match labels {
        "" => writeln!(text, "{name} {value}"),
        _ => writeln!(text, "{name}{{{labels}}} {value}"),
    };
}

/// Escapes the value of a label.
#[must_use]
pub fn escape_label(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}
