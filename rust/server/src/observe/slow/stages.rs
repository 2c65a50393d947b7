//! Stages of a request, and the parts of its duration.

use penstock_core::{Model, Timings};
use std::{
    sync::{
        OnceLock,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

/// Moments of a request, collected only while slow requests are recorded.
#[derive(Debug)]
pub(in crate::observe) struct Stages {
    started: Instant,
    /// Waits for the request's body.
    read_ns: AtomicU64,
    submitted: OnceLock<Submitted>,
    computed: OnceLock<Instant>,
    ended: OnceLock<Instant>,
    responded: OnceLock<Instant>,
}

/// Submission of a request to its model's queue.
#[derive(Clone, Copy, Debug)]
struct Submitted {
    at: Instant,
    load: Load,
}

/// Instances of a model when a request came to its queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::observe) struct Load {
    pub(super) busy: usize,
    pub(super) instances: usize,
}

impl Stages {
    pub(in crate::observe) fn new() -> Self {
        Self {
            started: Instant::now(),
            read_ns: AtomicU64::new(0),
            submitted: OnceLock::new(),
            computed: OnceLock::new(),
            ended: OnceLock::new(),
            responded: OnceLock::new(),
        }
    }

    /// Adds a wait for the request's body.
    pub(in crate::observe) fn read(&self, waited: Duration) {
        self.read_ns.fetch_add(u64::try_from(waited.as_nanos()).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    /// Records the submission; only the first one counts.
    pub(in crate::observe) fn submitted(&self, model: &Model) {
        let (busy, instances) = model.queue().busy_instances();
        let _ = self.submitted.set(Submitted { at: Instant::now(), load: Load { busy, instances } });
    }

    /// Records that the outputs are computed.
    pub(in crate::observe) fn computed(&self) {
        let _ = self.computed.set(Instant::now());
    }

    /// Records the outcome.
    pub(in crate::observe) fn ended(&self) {
        let _ = self.ended.set(Instant::now());
    }

    /// Records that a complete response is about to be sent.
    pub(in crate::observe) fn responded(&self) {
        let _ = self.responded.set(Instant::now());
    }

    /// Returns the durations up to now.
    pub(in crate::observe) fn measured(&self, timings: Timings) -> Measured {
        let since = |at: &Instant| at.saturating_duration_since(self.started);
        let responded = self.responded.get().max(self.ended.get());
        Measured {
            total: self.started.elapsed(),
            read: Duration::from_nanos(self.read_ns.load(Ordering::Relaxed)),
            submitted: self.submitted.get().map(|submitted| since(&submitted.at)),
            timings,
            computed: self.computed.get().map(since),
            responded: responded.map(since),
            load: self.submitted.get().map(|submitted| submitted.load).unwrap_or_default(),
        }
    }
}

/// Durations of a request. Moments are counted from its head.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::observe) struct Measured {
    pub(in crate::observe) total: Duration,
    /// Waits for the request's body, before `submitted`.
    pub(super) read: Duration,
    /// `None` for a request that was refused before.
    pub(super) submitted: Option<Duration>,
    /// Zero for a failed request, and for a cached response.
    pub(super) timings: Timings,
    /// `None` for a failed request and for a streamed response.
    pub(super) computed: Option<Duration>,
    /// Time at which the response was ready, or the last one of a stream.
    pub(super) responded: Option<Duration>,
    pub(super) load: Load,
}

/// Part of a request's duration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// Waits for the request's body.
    Read,
    /// From the head to the queue, without `Read`.
    Decode,
    /// In the queue while no instance was free that could take it.
    Queue,
    /// In the queue while the instance that took it was free.
    BatchWait,
    /// Its batch in the handler; of a stream, from the cut of the batch to the last response.
    Compute,
    /// From the outputs to the encoded response.
    Encode,
    /// From the response to its last byte, where the server waits for it.
    Write,
    /// The rest.
    Other,
}

impl Part {
    pub(super) const ALL: [Self; 8] =
        [Self::Read, Self::Decode, Self::Queue, Self::BatchWait, Self::Compute, Self::Encode, Self::Write, Self::Other];

    /// Returns the name in lines.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Decode => "decode",
            Self::Queue => "queue",
            Self::BatchWait => "batch_wait",
            Self::Compute => "compute",
            Self::Encode => "encode",
            Self::Write => "write",
            Self::Other => "other",
        }
    }
}

/// Parts of a request's duration in microseconds. They add up to the whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Parts {
    pub(super) total: u64,
    parts: [u64; 8],
}

impl Parts {
    /// Splits a duration. A part is at most what those before it leave, and what no part accounts for is `Other`.
    pub(super) fn of(measured: &Measured) -> Self {
        let Measured { total, read, submitted, timings, computed, responded, .. } = *measured;
        let ready = responded.unwrap_or(total);
        let mut left = microseconds(total);
        let mut take = |part: Duration| {
            let taken = microseconds(part).min(left);
            left -= taken;
            taken
        };
        let parts = [
            take(read),
            take(submitted.unwrap_or(ready).saturating_sub(read)),
            take(timings.queue.saturating_sub(timings.batch_wait)),
            take(timings.batch_wait),
            take(timings.compute),
            take(computed.map_or(Duration::ZERO, |computed| ready.saturating_sub(computed))),
            take(total.saturating_sub(ready)),
        ];
        let [read, decode, queue, batch_wait, compute, encode, write] = parts;
        Self { total: microseconds(total), parts: [read, decode, queue, batch_wait, compute, encode, write, left] }
    }

    /// Returns all parts.
    pub(super) fn all(&self) -> impl Iterator<Item = (Part, u64)> {
        Part::ALL.into_iter().zip(self.parts)
    }

    /// Returns the largest part, the first one of several.
    pub(super) fn largest(&self) -> (Part, u64) {
        self.all().reduce(|most, next| if next.1 > most.1 { next } else { most }).unwrap_or((Part::Other, 0))
    }
}

fn microseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn ms(milliseconds: u64) -> Duration {
        Duration::from_millis(milliseconds)
    }

    #[test]
    fn each_part_is_what_was_measured() {
        let timings = Timings { queue: ms(180), batch_wait: ms(30), compute: ms(20), ..Timings::default() };
        let measured = Measured {
            total: ms(241),
            read: ms(3),
            submitted: Some(ms(5)),
            timings,
            computed: Some(ms(210)),
            responded: Some(ms(220)),
            ..Measured::default()
        };
        let parts: Vec<_> = Parts::of(&measured).all().map(|(part, us)| (part.name(), us / 1000)).collect();
        let expected = [
            ("read", 3),
            ("decode", 2),
            ("queue", 150),
            ("batch_wait", 30),
            ("compute", 20),
            ("encode", 10),
            ("write", 21),
            ("other", 5),
        ];
        assert_eq!(parts, expected);
        assert_eq!(Parts::of(&measured).largest(), (Part::Queue, 150_000));
    }

    #[test]
    fn failed_request_is_not_split_behind_its_queue() {
        let measured =
            Measured { total: ms(100), submitted: Some(ms(1)), responded: Some(ms(100)), ..Measured::default() };
        assert_eq!(Parts::of(&measured).largest(), (Part::Other, 99_000));
    }

    proptest! {
        #[test]
        fn parts_add_up_to_the_whole(
            total in 0_u64..10_000_000, read in 0_u64..20_000_000, submitted in prop::option::of(0_u64..20_000_000),
            queue in 0_u64..20_000_000, batch_wait in 0_u64..20_000_000, compute in 0_u64..20_000_000,
            computed in prop::option::of(0_u64..20_000_000), responded in prop::option::of(0_u64..20_000_000),
        ) {
            let of = Duration::from_nanos;
            let measured = Measured {
                total: of(total),
                read: of(read),
                submitted: submitted.map(of),
                timings: Timings { queue: of(queue), batch_wait: of(batch_wait), compute: of(compute), ..Timings::default() },
                computed: computed.map(of),
                responded: responded.map(of),
                load: Load::default(),
            };
            let parts = Parts::of(&measured);
            prop_assert_eq!(parts.all().map(|(_, us)| us).sum::<u64>(), parts.total);
            prop_assert_eq!(parts.total, total / 1000);
        }
    }
}
