//! Sequences: related requests, computed in order by the instance that holds their state.
//!
//! [`Table`] maps sequences to instances. It is plain data: each method gets the time as a number.

use crate::{Error, InferRequest, Kind, ModelSpec, Result, SequenceId, Sequences, Step, request::LONGEST_ID};
use std::{collections::HashMap, time::Duration};

/// Instances of the active sequences.
#[derive(Debug)]
pub(crate) struct Table {
    idle_ns: u64,
    max_active: usize,
    active: HashMap<SequenceId, Active>,
    /// Number of sequences per instance.
    load: Vec<usize>,
    /// Earliest time at which a sequence may time out.
    lapse_ns: u64,
}

#[derive(Clone, Copy, Debug)]
struct Active {
    instance: usize,
    /// Requests that wait or are computed.
    pending: usize,
    /// Time of the last arrival or result.
    seen_ns: u64,
    /// A request may continue the sequence.
    open: bool,
}

/// A sequence that lost requests.
#[derive(Debug)]
pub(crate) struct Broken {
    pub(crate) id: SequenceId,
    /// Number of dropped requests.
    pub(crate) dropped: usize,
    /// A start waits behind them.
    pub(crate) restarts: bool,
}

impl Table {
    pub(crate) fn new(limits: &Sequences, instances: usize) -> Self {
        Self {
            idle_ns: u64::try_from(limits.idle_timeout.as_nanos()).unwrap_or(u64::MAX),
            max_active: limits.max_active,
            active: HashMap::new(),
            load: vec![0; instances.max(1)],
            lapse_ns: u64::MAX,
        }
    }

    /// Number of sequences that are active, or have ended and are not computed yet.
    pub(crate) fn len(&self) -> usize {
        self.active.len()
    }

    /// Returns true if a request may continue the sequence.
    pub(crate) fn is_open(&self, now_ns: u64, id: &SequenceId) -> bool {
        let lapses = |active: &Active| active.pending == 0 && active.seen_ns.saturating_add(self.idle_ns) <= now_ns;
        self.active.get(id).is_some_and(|active| active.open && !lapses(active))
    }

    /// Sequences of an instance.
    pub(crate) fn of_instance(&self, instance: usize) -> Vec<SequenceId> {
        self.active.iter().filter(|(_, active)| active.instance == instance).map(|(id, _)| id.clone()).collect()
    }

    /// Earliest time at which a sequence may time out; `u64::MAX` for none.
    pub(crate) fn lapse_ns(&self) -> u64 {
        self.lapse_ns
    }

    /// Instance of a request. Timed-out sequences must have been removed before.
    ///
    /// # Errors
    /// `InvalidInput`: not a step of an active sequence. `Overloaded`: too many sequences. `Unavailable`: a new
    /// sequence
    /// while the model drains. The message has the sequence.
    pub(crate) fn route(
        &mut self,
        now_ns: u64,
        draining: bool,
        request: &InferRequest,
        spec: &ModelSpec,
    ) -> Result<usize> {
        let step = check(request, spec)?;
        let known = self.active.get(&step.id).copied();
        if !step.start && !known.is_some_and(|active| active.open) {
            return Err(Error::invalid(format!(
                "sequence {} must begin with sequence_start: it is not active on model '{}'",
                step.id, spec.name
            )));
        }
        if step.start && draining {
            return Err(Error::new(
                Kind::Unavailable,
                format!("model '{}' is shutting down and begins no sequence, {} for one", spec.name, step.id),
            ));
        }
        let active = match known {
            // A start reuses the entry of the sequence that it follows.
            Some(active) => Active { pending: active.pending + 1, ..active },
            None if self.active.len() >= self.max_active => return Err(self.full(spec, now_ns)),
            None => Active { instance: self.take_place(), pending: 1, seen_ns: now_ns, open: true },
        };
        self.active.insert(step.id.clone(), Active { seen_ns: now_ns, open: !step.end, ..active });
        Ok(active.instance)
    }

    /// Records a computed or failed request. Returns its instance if the sequence is over.
    pub(crate) fn computed(&mut self, now_ns: u64, id: &SequenceId) -> Option<usize> {
        self.dropped(now_ns, id, 1)
    }

    /// Records dropped requests, which end their sequence. Returns its instance if it is over.
    pub(crate) fn broke(&mut self, now_ns: u64, broken: &Broken) -> Option<usize> {
        if !broken.restarts
            && let Some(active) = self.active.get_mut(&broken.id)
        {
            active.open = false;
        }
        self.dropped(now_ns, &broken.id, broken.dropped)
    }

    /// Removes timed-out sequences. Returns them with their instances.
    pub(crate) fn lapse(&mut self, now_ns: u64) -> Vec<(usize, SequenceId)> {
        if now_ns < self.lapse_ns {
            return Vec::new();
        }
        let mut next_ns = u64::MAX;
        let idle_ns = self.idle_ns;
        let lapsed = self.active.extract_if(|_, active| {
            let until_ns = active.seen_ns.saturating_add(idle_ns);
            let lapses = active.pending == 0 && until_ns <= now_ns;
            if active.pending == 0 && !lapses {
                next_ns = next_ns.min(until_ns);
            }
            lapses
        });
        let lapsed: Vec<_> = lapsed.map(|(id, active)| (active.instance, id)).collect();
        self.lapse_ns = next_ns;
        lapsed.iter().for_each(|(instance, _)| self.load[*instance] -= 1);
        lapsed
    }

    fn dropped(&mut self, now_ns: u64, id: &SequenceId, count: usize) -> Option<usize> {
        let active = self.active.get_mut(id)?;
        active.pending = active.pending.saturating_sub(count);
        active.seen_ns = now_ns;
        let Active { instance, pending, open, .. } = *active;
        if pending > 0 {
            return None;
        }
        if open {
            self.lapse_ns = self.lapse_ns.min(now_ns.saturating_add(self.idle_ns));
            return None;
        }
        self.active.remove(id);
        self.load[instance] -= 1;
        Some(instance)
    }

    /// Adds a sequence to the instance with the fewest.
    fn take_place(&mut self) -> usize {
        let least = self.load.iter().enumerate().min_by_key(|(_, count)| **count).map_or(0, |(instance, _)| instance);
        self.load[least] += 1;
        least
    }

    fn full(&self, spec: &ModelSpec, now_ns: u64) -> Error {
        let silent = self.active.values().filter(|active| active.pending == 0);
        let next_ns = silent.map(|active| active.seen_ns.saturating_add(self.idle_ns)).min().unwrap_or(now_ns);
        let wait = Duration::from_nanos(next_ns.saturating_sub(now_ns));
        Error::new(
            Kind::Overloaded,
            format!("model '{}' has its maximum of {} sequences active", spec.name, self.max_active),
        )
        .retry_after(wait.max(Duration::from_secs(1)))
    }
}

/// Checks that do not depend on other requests.
fn check<'r>(request: &'r InferRequest, spec: &ModelSpec) -> Result<&'r Step> {
    let Some(step) = request.schedule.step.as_deref() else {
        return Err(Error::invalid(format!(
            "model '{}' keeps sequences: a request needs the parameter 'sequence_id', a number other than 0 or a text",
            spec.name
        )));
    };
    if let SequenceId::Text(text) = &step.id
        && text.len() > LONGEST_ID
    {
        return Err(Error::invalid(format!(
            "parameter 'sequence_id' is a text of {} bytes, at most {LONGEST_ID} are accepted",
            text.len()
        )));
    }
    if request.rows != 1 {
        return Err(Error::invalid(format!(
            "sequence {} sends {} rows in one request, model '{}' takes one row of a sequence at a time",
            step.id, request.rows, spec.name
        )));
    }
    Ok(step)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{batching, fp32, fp32_spec, request};

    const SECOND: u64 = 1_000_000_000;

    fn spec(max_active: usize) -> ModelSpec {
        let mut spec = fp32_spec("stateful", &[Some(1)], Some(batching(4)));
        spec.sequences = Some(Sequences { idle_timeout: Duration::from_secs(10), max_active });
        spec
    }

    struct Fixture {
        spec: ModelSpec,
        table: Table,
    }

    impl Fixture {
        fn new(max_active: usize, instances: usize) -> Self {
            let spec = spec(max_active);
            let table = Table::new(spec.sequences.as_ref().unwrap(), instances);
            Self { spec, table }
        }

        /// Routes a request with `flags`: s for start, e for end, d for a model that drains.
        fn route(&mut self, second: u64, id: u64, flags: &str) -> Result<usize> {
            self.table.lapse(second * SECOND);
            let mut request = request(fp32(&[1, 1], &[0.0]));
            let (start, end) = (flags.contains('s'), flags.contains('e'));
            request.schedule.step = Some(Box::new(Step { id: SequenceId::Number(id), start, end }));
            self.table.route(second * SECOND, flags.contains('d'), &request, &self.spec)
        }

        fn computed(&mut self, second: u64, id: u64) -> Option<usize> {
            self.table.computed(second * SECOND, &SequenceId::Number(id))
        }
    }

    fn refused(result: Result<usize>) -> (Kind, String) {
        let error = result.unwrap_err();
        (error.kind(), error.message().to_owned())
    }

    #[test]
    fn sequence_stays_on_its_instance_and_new_ones_spread() {
        let mut fixture = Fixture::new(8, 3);
        let places: Vec<usize> = (1..=6).map(|id| fixture.route(0, id, "s").unwrap()).collect();
        assert_eq!(places, [0, 1, 2, 0, 1, 2]);
        for id in (1..=6).rev() {
            assert_eq!(fixture.route(1, id, "").unwrap(), places[id as usize - 1]);
        }
        assert_eq!(fixture.route(1, 2, "e").unwrap(), 1);
        assert_eq!([fixture.computed(1, 2), fixture.computed(1, 2), fixture.computed(1, 2)], [None, None, Some(1)]);
        assert_eq!(fixture.route(2, 7, "s").unwrap(), 1, "the emptiest");
    }

    #[test]
    fn steps_of_inactive_sequences_are_refused_by_id() {
        let mut fixture = Fixture::new(8, 1);
        let unknown = "sequence 5 must begin with sequence_start: it is not active on model 'stateful'";
        assert_eq!(refused(fixture.route(0, 5, "")), (Kind::InvalidInput, unknown.to_owned()));
        assert_eq!(refused(fixture.route(0, 5, "e")).1, unknown);
        fixture.route(0, 5, "s").unwrap();
        fixture.route(0, 5, "e").unwrap();
        assert_eq!(refused(fixture.route(0, 5, "")).1, unknown, "after its end, even before that is computed");
        assert_eq!(fixture.route(0, 5, "s").unwrap(), 0, "a new one behind it");
        assert_eq!(fixture.table.len(), 1);
    }

    #[test]
    fn idle_sequence_expires_but_not_while_a_request_is_computed() {
        let mut fixture = Fixture::new(1, 1);
        fixture.route(0, 5, "s").unwrap();
        assert!(fixture.table.lapse(1000 * SECOND).is_empty(), "it is still computed");
        fixture.computed(20, 5);
        assert_eq!(fixture.table.lapse_ns(), 30 * SECOND);
        fixture.route(29, 5, "").unwrap();
        fixture.computed(29, 5);
        assert!(fixture.table.lapse(38 * SECOND).is_empty());
        assert_eq!(fixture.table.lapse(39 * SECOND), [(0, SequenceId::Number(5))]);
        assert_eq!((fixture.table.len(), fixture.table.lapse_ns()), (0, u64::MAX));
        assert!(refused(fixture.route(39, 5, "")).1.contains("must begin with sequence_start"));
    }

    #[test]
    fn sequence_over_max_active_is_overloaded_until_one_ends() {
        let mut fixture = Fixture::new(2, 1);
        fixture.route(0, 1, "s").unwrap();
        fixture.route(0, 2, "se").unwrap();
        let full = fixture.route(0, 3, "s").unwrap_err();
        assert_eq!(
            (full.kind(), full.message()),
            (Kind::Overloaded, "model 'stateful' has its maximum of 2 sequences active")
        );
        assert_eq!(full.retry_hint(), Some(Duration::from_secs(1)));
        assert!(fixture.route(0, 1, "s").is_ok(), "a restart takes over its own place");
        assert_eq!(fixture.computed(1, 2), Some(0));
        assert!(fixture.route(1, 3, "s").is_ok());
        assert_eq!([1, 1, 3].map(|id| fixture.computed(2, id)), [None; 3]);
        assert_eq!(fixture.route(3, 4, "s").unwrap_err().retry_hint(), Some(Duration::from_secs(9)));
        assert!(fixture.route(12, 4, "s").is_ok(), "both have lapsed");
    }

    #[test]
    fn draining_model_continues_active_sequences_and_starts_none() {
        let mut fixture = Fixture::new(2, 1);
        fixture.route(0, 1, "s").unwrap();
        let expected = "model 'stateful' is shutting down and begins no sequence, 2 for one";
        assert_eq!(refused(fixture.route(0, 2, "sd")), (Kind::Unavailable, expected.to_owned()));
        assert!(fixture.route(0, 1, "d").is_ok());
        assert!(refused(fixture.route(0, 1, "sd")).1.contains("begins no sequence"));
        assert!(fixture.route(0, 1, "ed").is_ok());
    }

    #[test]
    fn dropped_request_breaks_its_sequence_unless_a_start_follows() {
        let mut fixture = Fixture::new(4, 1);
        let broken = |dropped, restarts| Broken { id: SequenceId::Number(1), dropped, restarts };
        fixture.route(0, 1, "s").unwrap();
        fixture.computed(0, 1);
        fixture.route(0, 1, "").unwrap();
        assert_eq!(fixture.table.broke(SECOND, &broken(1, false)), Some(0));
        assert!(refused(fixture.route(1, 1, "")).1.contains("must begin"));
        fixture.route(1, 1, "s").unwrap();
        fixture.route(1, 1, "s").unwrap();
        assert_eq!(fixture.table.broke(SECOND, &broken(1, true)), None);
        assert!(fixture.route(1, 1, "").is_ok());
    }

    #[test]
    fn invalid_sequence_steps_are_refused() {
        let spec = spec(4);
        let mut plain = request(fp32(&[1, 1], &[0.0]));
        let message = |request: &InferRequest| check(request, &spec).unwrap_err().message().to_owned();
        assert_eq!(
            message(&plain),
            "model 'stateful' keeps sequences: a request needs the parameter 'sequence_id', a number other than 0 or a text"
        );
        let step = |id| Some(Box::new(Step { id, start: true, end: false }));
        plain.schedule.step = step(SequenceId::Text("x".repeat(129).into()));
        assert_eq!(message(&plain), "parameter 'sequence_id' is a text of 129 bytes, at most 128 are accepted");
        plain.schedule.step = step(SequenceId::Text("a\nb".into()));
        plain.rows = 3;
        let rows = "sequence 'a?b' sends 3 rows in one request, model 'stateful' takes one row of a sequence at a time";
        assert_eq!(message(&plain), rows);
    }
}
