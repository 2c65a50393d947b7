//! Stall clock: for how long counters of progress have not changed.
//!
//! The time is that of the monitor's own steps. A process that was stopped, or a machine that slept, has lost that time
//! and not stalled.

use penstock_core::queue::Activity;
use std::{collections::HashMap, fmt, sync::Arc, time::Duration};

/// Something that makes progress.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Subject {
    /// An instance of a version of a model.
    Instance(Arc<str>, Arc<str>, usize),
    /// The queue of a version of a model.
    Queue(Arc<str>, Arc<str>),
    Interpreter,
    IoThread(usize),
}

impl Subject {
    /// Model, version and instance in the metric.
    pub(super) fn labels(&self) -> [String; 3] {
        match self {
            Self::Instance(model, version, index) => [model.to_string(), version.to_string(), index.to_string()],
            Self::Queue(model, version) => [model.to_string(), version.to_string(), "queue".to_owned()],
            Self::Interpreter => [String::new(), String::new(), "interpreter".to_owned()],
            Self::IoThread(index) => [String::new(), String::new(), format!("io-{index}")],
        }
    }

    /// Describes the stall.
    pub(super) fn reason(&self, activity: Activity, still: Duration) -> String {
        let seconds = still.as_secs();
        let problem: &dyn fmt::Display = match self {
            Self::Instance(..) => match activity {
                Activity::Batch => &"one batch",
                Activity::Stream => &"no piece of its stream",
                Activity::Loop => &"no step of its event loop",
                Activity::Step => &"no step of its rows",
            },
            Self::Queue(..) => &"requests wait, an instance is idle, and no batch was cut",
            Self::Interpreter => &"no thread could take it",
            Self::IoThread(_) => &"no heartbeat",
        };
        format!("{self}: {problem} for {seconds} s")
    }
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Instance(model, _, index) => write!(f, "model '{model}' instance {index}"),
            Self::Queue(model, _) => write!(f, "model '{model}'"),
            Self::Interpreter => f.write_str("the interpreter"),
            Self::IoThread(index) => write!(f, "I/O thread {index}"),
        }
    }
}

/// One reading of a counter.
#[derive(Clone, Debug)]
pub(super) struct Reading {
    pub(super) subject: Subject,
    /// The counter; `None` if nothing has to happen now.
    pub(super) count: Option<u64>,
    pub(super) activity: Activity,
    pub(super) timeout: Duration,
}

/// A subject without progress for at least half of its timeout.
#[derive(Debug)]
pub(super) struct Stall {
    pub(super) subject: Subject,
    pub(super) reason: String,
    pub(super) stalled: bool,
    /// Set the first time that it has stalled, until it moves again.
    pub(super) is_new: bool,
}

/// The last readings.
#[derive(Debug, Default)]
pub(super) struct StallClock(HashMap<Subject, Still>);

#[derive(Debug)]
struct Still {
    count: u64,
    time: Duration,
    stalled: bool,
    round: u64,
}

impl StallClock {
    /// Compares readings with the last ones, which were made `step` before. Returns what stands still, and what has
    /// moved after it had stalled. `round` numbers the calls.
    pub(super) fn advance(&mut self, readings: Vec<Reading>, step: Duration, round: u64) -> (Vec<Stall>, Vec<Subject>) {
        let (mut found, mut healed) = (Vec::new(), Vec::new());
        for Reading { subject, count, activity, timeout } in readings {
            let Some(count) = count else { continue };
            let still =
                self.0.entry(subject.clone()).or_insert(Still { count, time: Duration::ZERO, stalled: false, round });
            still.time = if still.count == count && still.round != round { still.time + step } else { Duration::ZERO };
            still.count = count;
            still.round = round;
            let stalled = still.time >= timeout;
            let is_new = stalled && !still.stalled;
            if still.stalled && !stalled {
                healed.push(subject.clone());
            }
            still.stalled = stalled;
            if still.time >= timeout / 2 {
                let reason = subject.reason(activity, still.time);
                found.push(Stall { subject, reason, stalled, is_new });
            }
        }
        self.0.retain(|subject, still| {
            if still.round != round && still.stalled {
                healed.push(subject.clone());
            }
            still.round == round
        });
        (found, healed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reading(count: Option<u64>) -> Vec<Reading> {
        let subject = Subject::Instance("bert".into(), "1".into(), 0);
        vec![Reading { subject, count, activity: Activity::Batch, timeout: Duration::from_secs(4) }]
    }

    #[test]
    fn counter_that_stands_still_is_suspected_then_stalled_once_and_heals() {
        let mut clock = StallClock::default();
        let mut round = 0;
        let mut step = |count| {
            round += 1;
            let (found, healed) = clock.advance(reading(count), Duration::from_secs(1), round);
            let found = found.into_iter().map(|one| (one.reason, one.stalled, one.is_new)).next();
            (found, healed.len())
        };
        assert_eq!([step(Some(7)), step(Some(7))], [(None, 0), (None, 0)]);
        let reason = |seconds| format!("model 'bert' instance 0: one batch for {seconds} s");
        assert_eq!(step(Some(7)), (Some((reason(2), false, false)), 0));
        assert_eq!(step(Some(7)), (Some((reason(3), false, false)), 0));
        assert_eq!(step(Some(7)), (Some((reason(4), true, true)), 0));
        assert_eq!(step(Some(7)), (Some((reason(5), true, false)), 0));
        assert_eq!(step(Some(8)), (None, 1));
        assert_eq!(
            [step(Some(8)), step(None), step(Some(8)), step(Some(8))],
            [(None, 0), (None, 0), (None, 0), (None, 0)]
        );
        for _ in 0..3 {
            step(Some(8));
        }
        assert_eq!(step(None), (None, 1));
    }

    #[test]
    fn reason_names_what_does_not_move() {
        let queue = Subject::Queue("bert".into(), "1".into());
        let reason = |subject: &Subject, activity| subject.reason(activity, Duration::from_secs(9));
        let expected = "model 'bert': requests wait, an instance is idle, and no batch was cut for 9 s";
        assert_eq!(reason(&queue, Activity::Batch), expected);
        assert_eq!(reason(&Subject::Interpreter, Activity::Batch), "the interpreter: no thread could take it for 9 s");
        assert_eq!(reason(&Subject::IoThread(1), Activity::Batch), "I/O thread 1: no heartbeat for 9 s");
        let instance = Subject::Instance("bert".into(), "1".into(), 2);
        assert_eq!(reason(&instance, Activity::Stream), "model 'bert' instance 2: no piece of its stream for 9 s");
        assert_eq!(reason(&instance, Activity::Loop), "model 'bert' instance 2: no step of its event loop for 9 s");
        assert_eq!(reason(&instance, Activity::Step), "model 'bert' instance 2: no step of its rows for 9 s");
        assert_eq!(Subject::IoThread(1).labels(), ["", "", "io-1"]);
    }
}
