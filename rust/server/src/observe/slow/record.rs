//! One slow request, in words and as JSON.

use super::stages::{Load, Measured, Part, Parts};
use crate::observe::{
    access_log::{Entry, Exchange, RequestFacts},
    plain::{MAX_MESSAGE_BYTES, MAX_NAME_BYTES, plain},
    timestamp::Stamp,
};
use serde_json::{Map, Value, json};
use std::fmt::{self, Write as _};

/// A slow request.
#[derive(Debug)]
pub(crate) struct SlowRecord {
    pub(super) entry: Entry,
    facts: RequestFacts,
    route: Option<String>,
    time: Stamp,
    parts: Parts,
    load: Load,
    /// Set where it was submitted to a queue.
    is_submitted: bool,
}

impl SlowRecord {
    pub(in crate::observe) fn new(entry: Entry, exchange: Exchange<'_>, (measured, time): (&Measured, Stamp)) -> Self {
        Self {
            entry,
            facts: exchange.facts.clone(),
            route: exchange.route.map(str::to_owned),
            time,
            parts: Parts::of(measured),
            load: measured.load,
            is_submitted: measured.submitted.is_some(),
        }
    }

    /// Names the largest part in words.
    fn because(&self) -> String {
        let Self { parts, load: Load { busy, instances }, ref entry, is_submitted, .. } = *self;
        let (part, duration) = parts.largest();
        let share = share(duration, parts.total);
        let rows = match entry.timings.batch_rows {
            1 => "1 row".to_owned(),
            rows => format!("{rows} rows"),
        };
        match part {
            Part::Read => format!("waited {share} for the body of the request"),
            Part::Decode => format!("spent {share} before the queue, on checks and decoding"),
            Part::Queue if busy >= instances => {
                format!("waited {share} for a free instance; {busy} of {instances} were busy")
            }
            Part::Queue => format!("waited {share} in the queue; {busy} of {instances} instances were busy"),
            Part::BatchWait if entry.timings.gathered => {
                format!("waited {share} for more requests; its batch has {rows}")
            }
            Part::BatchWait => format!("waited {share} for its instance to wake up, which was free"),
            Part::Compute => format!("spent {share} in the handler, in a batch of {rows}"),
            Part::Encode => format!("spent {share} on encoding the response"),
            Part::Write => format!("waited {share} for the client to take the response"),
            Part::Other if entry.error.is_some() && is_submitted => {
                format!("failed after {share} in the queue and the handler, which are not split for a failed request")
            }
            Part::Other => format!("spent {share} in parts that are not measured"),
        }
    }

    /// Formats the text line. Parts of 0 are left out.
    pub(in crate::observe) fn text_line(&self, skipped: u64) -> String {
        let Self { entry, parts, .. } = self;
        let mut line = String::with_capacity(256);
        // Writing into a `String` cannot fail.
        let _ = write!(
            line,
            "{} slow {} {} {} {} {}ms",
            self.time.text(),
            entry.protocol,
            entry.model_name(),
            entry.status,
            entry.outcome,
            Milliseconds(parts.total)
        );
        for (part, duration) in parts.all().filter(|(_, duration)| *duration > 0) {
            let _ = write!(line, " {}={}ms", part.name(), Milliseconds(duration));
        }
        let id = plain(&entry.id, MAX_NAME_BYTES);
        let _ = write!(line, " batch={} id={id} because=\"{}\"", entry.timings.batch_rows, self.because());
        if skipped > 0 {
            let _ = write!(line, " skipped={skipped}");
        }
        line.push('\n');
        line
    }

    /// Formats the JSON line.
    pub(in crate::observe) fn json_line(&self, skipped: u64) -> String {
        let mut line = self.json();
        line["event"] = "slow_request".into();
        line["skipped"] = skipped.into();
        line.to_string() + "\n"
    }

    /// Returns the object of `/debug/slow`.
    pub(crate) fn json(&self) -> Value {
        let Self { entry, facts, parts, load, .. } = self;
        let named: Map<String, Value> =
            parts.all().map(|(part, duration)| (format!("{}_ms", part.name()), milliseconds(duration))).collect();
        json!({
            "time": self.time.json(),
            "id": plain(&entry.id, MAX_NAME_BYTES),
            "protocol": entry.protocol,
            "model": entry.model.as_ref().map(|model| plain(&model.name, MAX_NAME_BYTES)),
            "version": entry.model.as_ref().map(|model| plain(&model.version, MAX_NAME_BYTES)),
            "route": self.route.as_ref().map(|route| plain(route, MAX_NAME_BYTES)),
            "client": facts.client.proven_name().map(|client| plain(client, MAX_NAME_BYTES)),
            "address": facts.client.address.map(|address| address.to_string()),
            "outcome": entry.outcome,
            "status": entry.status,
            "error": entry.error.as_ref().map(|error| plain(error, MAX_MESSAGE_BYTES)),
            "duration_ms": milliseconds(parts.total),
            "parts": named,
            "batch_rows": entry.timings.batch_rows,
            "busy_instances": load.busy,
            "instances": load.instances,
            "because": self.because(),
        })
    }
}

/// Microseconds as milliseconds.
struct Milliseconds(u64);

impl fmt::Display for Milliseconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:03}", self.0 / 1000, self.0 % 1000)
    }
}

fn milliseconds(microseconds: u64) -> Value {
    (microseconds as f64 / 1e3).into()
}

/// Formats `180 of 241 ms`, with digits behind the point for a short whole.
fn share(part: u64, whole: u64) -> String {
    let (part, whole) = (part as f64, whole as f64);
    match whole {
        _ if whole >= 1e7 => format!("{:.1} of {:.1} s", part / 1e6, whole / 1e6),
        _ if whole >= 1e4 => format!("{:.0} of {:.0} ms", part / 1e3, whole / 1e3),
        _ => format!("{:.2} of {:.2} ms", part / 1e3, whole / 1e3),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use penstock_core::Timings;
    use penstock_wire::settings::LogFormat;
    use std::time::Duration;

    impl SlowRecord {
        pub(in crate::observe::slow) fn sample(id: &str) -> Self {
            Self::of(id, &Measured::default(), None)
        }

        fn of(id: &str, measured: &Measured, error: Option<&str>) -> Self {
            let entry = Entry {
                id: id.to_owned(),
                protocol: "http",
                model: None,
                outcome: "ok",
                status: 200,
                duration: measured.total,
                timings: measured.timings,
                error: error.map(str::to_owned),
                trace_id: None,
            };
            let facts = RequestFacts::default();
            let exchange = Exchange { facts: &facts, route: None, request_bytes: 0, response_bytes: 0 };
            Self::new(entry, exchange, (measured, Stamp::now(LogFormat::Iso8601)))
        }
    }

    fn ms(milliseconds: u64) -> Duration {
        Duration::from_millis(milliseconds)
    }

    #[test]
    fn largest_part_is_named_in_words() {
        let of = |timings: Timings, change: fn(&mut Measured), error: Option<&str>| {
            let mut measured = Measured {
                total: ms(241),
                timings: Timings { batch_rows: 4, ..timings },
                submitted: Some(ms(1)),
                load: Load { busy: 3, instances: 3 },
                ..Measured::default()
            };
            change(&mut measured);
            SlowRecord::of("r", &measured, error).because()
        };
        let none = Timings::default();
        let queue = Timings { queue: ms(180), ..none };
        assert_eq!(of(queue, |_| (), None), "waited 180 of 241 ms for a free instance; 3 of 3 were busy");
        let expected = "waited 180 of 241 ms in the queue; 1 of 3 instances were busy";
        assert_eq!(of(queue, |measured| measured.load.busy = 1, None), expected);
        let batch = Timings { queue: ms(200), batch_wait: ms(150), gathered: true, ..none };
        assert_eq!(of(batch, |_| (), None), "waited 150 of 241 ms for more requests; its batch has 4 rows");
        let woken = Timings { gathered: false, ..batch };
        let expected = "waited 150 of 241 ms for its instance to wake up, which was free";
        assert_eq!(of(woken, |_| (), None), expected);
        let compute = Timings { compute: ms(200), ..none };
        assert_eq!(of(compute, |_| (), None), "spent 200 of 241 ms in the handler, in a batch of 4 rows");
        let expected = "waited 230 of 241 ms for the body of the request";
        assert_eq!(of(none, |measured| measured.read = ms(230), None), expected);
        let expected = "spent 230 of 241 ms before the queue, on checks and decoding";
        assert_eq!(of(none, |measured| measured.submitted = Some(ms(230)), None), expected);
        let expected = "waited 140 of 241 ms for the client to take the response";
        assert_eq!(of(none, |measured| measured.responded = Some(ms(101)), None), expected);
        assert_eq!(of(none, |_| (), None), "spent 240 of 241 ms in parts that are not measured");
        let expected =
            "failed after 240 of 241 ms in the queue and the handler, which are not split for a failed request";
        assert_eq!(of(none, |_| (), Some("late")), expected);
        let expected = "spent 240 of 241 ms on encoding the response";
        let encoded = |measured: &mut Measured| (measured.computed, measured.responded) = (Some(ms(1)), Some(ms(241)));
        assert_eq!(of(none, encoded, None), expected);
    }

    #[test]
    fn numbers_have_a_unit_that_suits_the_whole() {
        assert_eq!(share(1_800, 2_410), "1.80 of 2.41 ms");
        assert_eq!(share(180_000, 241_000), "180 of 241 ms");
        assert_eq!(share(18_000_000, 24_100_000), "18.0 of 24.1 s");
    }

    #[test]
    fn text_line_leaves_out_parts_of_zero() {
        let measured = Measured {
            total: ms(20),
            timings: Timings { compute: ms(19), batch_rows: 1, ..Timings::default() },
            submitted: Some(ms(0)),
            responded: Some(ms(20)),
            ..Measured::default()
        };
        let line = SlowRecord::of("a\nb", &measured, None).text_line(7);
        let expected = "slow http -/- 200 ok 20.000ms compute=19.000ms other=1.000ms batch=1 id=a\\u{a}b \
                        because=\"spent 19 of 20 ms in the handler, in a batch of 1 row\" skipped=7\n";
        assert_eq!(line.split_once(' ').unwrap().1, expected);
    }
}
