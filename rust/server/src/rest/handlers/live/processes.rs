//! Memory, threads and processor time of processes, from `/proc`.

use std::{collections::HashMap, fs, time::Instant};

/// Usage of one process.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Usage {
    /// Resident memory in bytes.
    pub(super) rss: u64,
    pub(super) threads: u64,
    /// Processor time in clock ticks.
    ticks: u64,
}

/// Processor time of processes at the last reading.
#[derive(Debug, Default)]
pub(super) struct Processes(HashMap<u32, (Instant, u64)>);

impl Processes {
    /// Returns the usage of a process, and its processors in use since the last reading. `None` if it is gone, or the
    /// system has no `/proc`.
    pub(super) fn read(&mut self, id: u32) -> Option<(Usage, Option<f64>)> {
        let usage = Usage::parse(&fs::read_to_string(format!("/proc/{id}/stat")).ok()?)?;
        let now = Instant::now();
        let before = self.0.insert(id, (now, usage.ticks));
        let processors = before.map(|(at, ticks)| {
            let seconds = usage.ticks.saturating_sub(ticks) as f64 / rustix::param::clock_ticks_per_second() as f64;
            seconds / now.duration_since(at).as_secs_f64().max(1e-3)
        });
        Some((usage, processors))
    }

    /// Forgets processes that were not read since `oldest`.
    pub(super) fn retain_since(&mut self, oldest: Instant) {
        self.0.retain(|_, (at, _)| *at >= oldest);
    }
}

impl Usage {
    /// Parses the line of `/proc/PID/stat`. The name, in parentheses, may have spaces and parentheses.
    fn parse(line: &str) -> Option<Self> {
        let fields: Vec<&str> = line.rsplit_once(')')?.1.split_whitespace().collect();
        // The first field after the name is the third one of the line.
        let field = |number: usize| fields.get(number - 3)?.parse::<u64>().ok();
        Some(Self {
            ticks: field(14)?.saturating_add(field(15)?),
            threads: field(20)?,
            rss: field(24)?.saturating_mul(rustix::param::page_size() as u64),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_with_a_strange_name_is_parsed() {
        let line =
            "7 (a) (b c) S 1 7 7 0 -1 4194560 100 0 0 0 30 12 0 0 20 0 5 0 1000 10000000 250 18446744073709551615";
        let usage = Usage::parse(line).unwrap();
        assert_eq!((usage.ticks, usage.threads), (42, 5));
        assert_eq!(usage.rss, 250 * rustix::param::page_size() as u64);
        assert_eq!(Usage::parse("7 (x) S 1"), None);
        let own = std::process::id();
        if fs::exists("/proc/self/stat").unwrap() {
            assert!(Processes::default().read(own).unwrap().0.rss > 0);
        }
    }
}
