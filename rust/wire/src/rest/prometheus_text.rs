//! Prometheus' text format 0.0.4, from the text of OpenMetrics 1.0.

/// Converts a text of OpenMetrics. Exemplars, units and the end mark are left out: the format has none.
///
/// ```
/// use penstock_wire::rest::to_prometheus_text;
///
/// let text = "# HELP calls Calls.\n# TYPE calls counter\ncalls_total 1\n# EOF\n";
/// assert_eq!(to_prometheus_text(text), "# HELP calls_total Calls.\n# TYPE calls_total counter\ncalls_total 1\n");
/// ```
pub fn to_prometheus_text(openmetrics: &str) -> String {
    let mut text = String::with_capacity(openmetrics.len());
    // The description of a family comes before its type, which decides the name.
    let mut description = None;
    for line in openmetrics.lines() {
        let parts = [
            line.strip_prefix("# HELP ").map(|rest| ("HELP", rest)),
            line.strip_prefix("# TYPE ").map(|rest| ("TYPE", rest)),
        ];
        match parts.into_iter().flatten().next() {
            Some(("HELP", help)) => description = help.split_once(' '),
            Some((_, family)) => {
                let (name, kind) = family.split_once(' ').unwrap_or((family, "unknown"));
                let (suffix, kind) = of_prometheus(kind);
                if let Some((_, help)) = description.take().filter(|(described, _)| *described == name) {
                    push(&mut text, &["# HELP ", name, suffix, " ", help]);
                }
                push(&mut text, &["# TYPE ", name, suffix, " ", kind]);
            }
            None if line.starts_with('#') => {}
            None => push(&mut text, &[without_exemplar(line)]),
        }
    }
    text
}

/// Suffix of the name, and type, for a type of OpenMetrics.
fn of_prometheus(kind: &str) -> (&'static str, &'static str) {
    match kind {
        "counter" => ("_total", "counter"),
        "gauge" | "stateset" => ("", "gauge"),
        "histogram" | "gaugehistogram" => ("", "histogram"),
        "summary" => ("", "summary"),
        "info" => ("_info", "gauge"),
        _ => ("", "untyped"),
    }
}

/// Cuts the exemplar off a sample. The value of a label cannot look like one: quotes within it are escaped.
fn without_exemplar(line: &str) -> &str {
    line.rfind(" # {trace_id=\"").map_or(line, |end| &line[..end])
}

fn push(text: &mut String, parts: &[&str]) {
    parts.iter().for_each(|part| text.push_str(part));
    text.push('\n');
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn each_type_has_its_counterpart() {
        for (kind, name, other) in [
            ("counter", "m_total", "counter"),
            ("gauge", "m", "gauge"),
            ("histogram", "m", "histogram"),
            ("info", "m_info", "gauge"),
            ("unknown", "m", "untyped"),
        ] {
            let text = to_prometheus_text(&format!("# HELP m Help \"x\".\n# TYPE m {kind}\n# UNIT m seconds\n# EOF\n"));
            assert_eq!(text, format!("# HELP {name} Help \"x\".\n# TYPE {name} {other}\n"));
        }
    }

    #[test]
    fn exemplars_are_cut_and_labels_are_not() {
        let trace = "0af7651916cd43dd8448eb211c80319c";
        let sample = r#"m_bucket{le="0.5",model="a # {trace_id=\"b\"} 1 2"} 7"#;
        assert_eq!(
            to_prometheus_text(&format!("{sample} # {{trace_id=\"{trace}\"}} 0.25 1700000000.5\n")),
            format!("{sample}\n")
        );
        assert_eq!(to_prometheus_text(&format!("{sample}\n")), format!("{sample}\n"));
    }

    proptest! {
        #[test]
        fn arbitrary_text_never_panics(text in "(# (HELP|TYPE|UNIT|EOF)?|[a-z_ ]|\\{|\"|\n| # \\{trace_id=\"|é){0,40}") {
            let _ = to_prometheus_text(&text);
        }
    }
}
