//! Text form of all metrics. Those that no request changes are read here: readiness, the build, the process.

use super::App;
use crate::{observe::process_metrics, settings::Build};
use penstock_core::{
    VersionState,
    metrics::{escape_label, write_head, write_sample},
};
use penstock_wire::rest::triton_metrics;

impl App {
    /// Renders all metrics in the text form of OpenMetrics 1.0.
    pub(crate) fn exposition(&self) -> String {
        let mut more = String::new();
        self.write_readiness(&mut more);
        write_build(&mut more, &self.config.build);
        self.write_config(&mut more);
        process_metrics::write(&mut more);
        if self.config.dialect.has_triton_metrics() {
            more.push_str(&triton_metrics(&self.registry.all()));
        }
        self.metrics.exposition_with(&more)
    }

    /// Writes the hash of the settings, where it is known.
    fn write_config(&self, text: &mut String) {
        let hash = self.description().hash;
        if !hash.is_empty() {
            write_head(text, "penstock_config_hash", "Hash of the settings in force, without secrets", "info");
            write_sample(text, "penstock_config_hash_info", &format!("hash=\"{}\"", escape_label(&hash)), 1);
        }
    }

    /// Writes a series for each version, except those that clients unloaded.
    fn write_readiness(&self, text: &mut String) {
        write_head(text, "penstock_ready", "1 if the version of the model accepts requests, else 0", "gauge");
        for entry in self.registry.index().iter().filter(|entry| !entry.is_unloaded()) {
            let Some((version, state)) = &entry.version else { continue };
            let labels = format!("model=\"{}\",version=\"{}\"", escape_label(&entry.name), escape_label(version));
            write_sample(text, "penstock_ready", &labels, u8::from(*state == VersionState::Ready));
        }
    }
}

fn write_build(text: &mut String, build: &Build) {
    let Build { version, python, gil, rustc } = build;
    write_head(text, "penstock_build", "Versions of Penstock, its interpreter and its compiler", "info");
    let labels = [("version", version), ("python", python), ("gil", gil), ("rustc", rustc)];
    let labels = labels.map(|(name, value)| format!("{name}=\"{}\"", escape_label(value)));
    write_sample(text, "penstock_build_info", &labels.join(","), 1);
}
