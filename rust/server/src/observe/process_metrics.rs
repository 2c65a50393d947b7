//! Metrics of the process under the names that all Prometheus clients use, read from `/proc` when they are scraped.
//!
//! What the machine does not show is left out.

use penstock_core::metrics::{write_head, write_sample};
use rustix::param::{clock_ticks_per_second, page_size};
use std::fs;

/// Readings of `/proc/self/stat`.
#[derive(Debug, PartialEq)]
struct Stat {
    /// Processor time of all threads, in clock ticks.
    cpu_ticks: u64,
    threads: u64,
    /// Start of the process after that of the machine, in clock ticks.
    start_ticks: u64,
    virtual_bytes: u64,
    resident_pages: u64,
}

/// Writes the metrics.
pub(crate) fn write(text: &mut String) {
    if let Some(stat) = fs::read_to_string("/proc/self/stat").ok().as_deref().and_then(Stat::parse) {
        let ticks = clock_ticks_per_second() as f64;
        write_head(text, "process_cpu_seconds", "Processor time of the process", "counter");
        write_sample(text, "process_cpu_seconds_total", "", stat.cpu_ticks as f64 / ticks);
        gauge(text, "process_resident_memory_bytes", "Resident memory", stat.resident_pages * page_size() as u64);
        gauge(text, "process_virtual_memory_bytes", "Virtual memory", stat.virtual_bytes);
        gauge(text, "process_threads", "Threads of the process", stat.threads);
        if let Some(boot) = fs::read_to_string("/proc/stat").ok().as_deref().and_then(boot_time) {
            let start = boot as f64 + stat.start_ticks as f64 / ticks;
            gauge(text, "process_start_time_seconds", "Start of the process, in seconds since 1970", start);
        }
    }
    if let Ok(files) = fs::read_dir("/proc/self/fd") {
        // The folder itself is open while it is read.
        gauge(text, "process_open_fds", "Open files and sockets", files.count().saturating_sub(1));
    }
    if let Some(limit) = fs::read_to_string("/proc/self/limits").ok().as_deref().and_then(open_files_limit) {
        gauge(text, "process_max_fds", "Limit on open files and sockets", limit);
    }
}

fn gauge(text: &mut String, name: &str, help: &str, value: impl std::fmt::Display) {
    write_head(text, name, help, "gauge");
    write_sample(text, name, "", value);
}

impl Stat {
    /// Parses the line. The name of the program, in parentheses, may have spaces and parentheses.
    fn parse(line: &str) -> Option<Self> {
        let fields: Vec<&str> = line.rsplit_once(')')?.1.split_ascii_whitespace().collect();
        // Fields by their numbers in proc(5), of which the first two stand before.
        let field = |number: usize| fields.get(number - 3)?.parse::<u64>().ok();
        Some(Self {
            cpu_ticks: field(14)? + field(15)?,
            threads: field(20)?,
            start_ticks: field(22)?,
            virtual_bytes: field(23)?,
            resident_pages: field(24)?,
        })
    }
}

/// Start of the machine in `/proc/stat`, in seconds since 1970.
fn boot_time(stat: &str) -> Option<u64> {
    stat.lines().find_map(|line| line.strip_prefix("btime "))?.trim().parse().ok()
}

/// Soft limit on open files in `/proc/self/limits`; `None` without one.
fn open_files_limit(limits: &str) -> Option<u64> {
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"))?;
    line.split_ascii_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_of_the_program_may_have_parentheses() {
        let line =
            "7 (a) b (c) S 1 7 7 0 -1 4194560 1 0 0 0 250 50 0 0 20 0 12 0 4242 1048576 300 18446744073709551615 1";
        let stat =
            Stat { cpu_ticks: 300, threads: 12, start_ticks: 4242, virtual_bytes: 1_048_576, resident_pages: 300 };
        assert_eq!(Stat::parse(line), Some(stat));
        assert_eq!(Stat::parse("7 (a) S 1 7"), None);
    }

    #[test]
    fn limits_are_read_by_their_names() {
        let limits =
            "Limit  Soft Limit  Hard Limit  Units\nMax open files            1024                 4096    files\n";
        assert_eq!(open_files_limit(limits), Some(1024));
        assert_eq!(open_files_limit(&limits.replace("1024", "unlimited")), None);
        assert_eq!(boot_time("cpu 1 2\nbtime 1700000000\nprocesses 5\n"), Some(1_700_000_000));
    }

    #[test]
    fn own_process_has_all_metrics() {
        let mut text = String::new();
        write(&mut text);
        let names = ["cpu_seconds_total", "resident_memory_bytes", "virtual_memory_bytes", "threads"];
        for name in names.into_iter().chain(["start_time_seconds", "open_fds", "max_fds"]) {
            let line = text.lines().find_map(|line| line.strip_prefix(&format!("process_{name} ")));
            assert!(line.is_some_and(|value| value.parse::<f64>().is_ok_and(|value| value >= 0.0)), "{name}: {text}");
        }
    }
}
