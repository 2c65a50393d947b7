//! Short form of the access log: one line per request for a developer's terminal, with colours there.

use super::{plain::plain, timestamp::Stamp};
use std::{
    env,
    fmt::Write as _,
    io::{self, IsTerminal as _},
    sync::LazyLock,
    time::Duration,
};

/// Longest path in a line, in bytes.
const MAX_PATH_BYTES: usize = 512;

/// Fields of one line.
#[derive(Debug)]
pub(crate) struct ShortEntry<'a> {
    /// Method, or the protocol in its place.
    pub(crate) method: &'a str,
    /// Path, or the model in its place.
    pub(crate) path: &'a str,
    /// HTTP status or gRPC code.
    pub(crate) status: i32,
    /// Set where the status is not a success.
    pub(crate) failed: bool,
    pub(crate) duration: Duration,
    /// Rows of the batch that computed the request.
    pub(crate) rows: Option<&'a str>,
}

/// Reports whether standard error is a terminal that shows colours, by <https://no-color.org> too.
pub(crate) fn is_coloured() -> bool {
    static COLOURED: LazyLock<bool> = LazyLock::new(|| {
        let is_set = |name| env::var_os(name).is_some_and(|value| !value.is_empty());
        io::stderr().is_terminal() && !is_set("NO_COLOR") && env::var_os("TERM").is_none_or(|term| term != "dumb")
    });
    *COLOURED
}

/// Formats a line.
pub(crate) fn short_line(entry: &ShortEntry<'_>, time: &Stamp, coloured: bool) -> String {
    let colour = match entry.status {
        _ if !entry.failed => "32",
        400..500 => "33",
        _ => "31",
    };
    let paint = |code: &str| if coloured { format!("\x1b[{code}m") } else { String::new() };
    let mut line = String::with_capacity(120);
    // Writing into a `String` cannot fail.
    let _ = write!(
        line,
        "{}{}{} {} {} {}{}{} {:.1} ms",
        paint("2"),
        time.text(),
        paint("0"),
        plain(entry.method, MAX_PATH_BYTES),
        plain(entry.path, MAX_PATH_BYTES),
        paint(colour),
        entry.status,
        paint("0"),
        entry.duration.as_secs_f64() * 1e3,
    );
    if let Some(rows) = entry.rows {
        let _ = write!(line, ", batch of {} {}", plain(rows, MAX_PATH_BYTES), if rows == "1" { "row" } else { "rows" });
    }
    line.push('\n');
    line
}

#[cfg(test)]
mod tests {
    use super::{Duration, ShortEntry, Stamp, short_line};
    use penstock_wire::settings::LogFormat;

    fn line(status: i32, rows: Option<&str>, coloured: bool) -> String {
        let (failed, duration) = (status >= 400, Duration::from_micros(1_250));
        let entry = ShortEntry { method: "POST", path: "/models/m\n", status, failed, duration, rows };
        let line = short_line(&entry, &Stamp::now(LogFormat::Iso8601), coloured);
        line[line.find(" POST").unwrap() + 1..].to_owned()
    }

    #[test]
    fn line_has_method_path_status_time_and_rows() {
        assert_eq!(line(200, Some("1"), false), "POST /models/m\\u{a} 200 1.2 ms, batch of 1 row\n");
        assert_eq!(line(200, Some("4"), false), "POST /models/m\\u{a} 200 1.2 ms, batch of 4 rows\n");
        assert_eq!(line(404, None, false), "POST /models/m\\u{a} 404 1.2 ms\n");
    }

    #[test]
    fn colour_depends_on_the_status() {
        for (status, colour) in [(200, "32"), (404, "33"), (500, "31")] {
            assert!(line(status, None, true).contains(&format!(" \x1b[{colour}m{status}\x1b[0m ")));
        }
    }
}
