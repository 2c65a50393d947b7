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

    /// Routes a request with the marks of `flags`: s for start, e for end, d for a model that drains.
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
fn a_sequence_stays_where_it_began_and_new_ones_spread() {
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
fn what_did_not_start_is_refused_by_its_id() {
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
fn silence_ends_a_sequence_and_requests_under_way_do_not_count_as_silence() {
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
fn one_too_many_is_overloaded_until_a_place_is_free() {
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
fn a_draining_model_begins_nothing_and_goes_on_with_what_began() {
    let mut fixture = Fixture::new(2, 1);
    fixture.route(0, 1, "s").unwrap();
    let expected = "model 'stateful' is shutting down and begins no sequence, 2 for one";
    assert_eq!(refused(fixture.route(0, 2, "sd")), (Kind::Unavailable, expected.to_owned()));
    assert!(fixture.route(0, 1, "d").is_ok());
    assert!(refused(fixture.route(0, 1, "sd")).1.contains("begins no sequence"));
    assert!(fixture.route(0, 1, "ed").is_ok());
}

#[test]
fn a_dropped_request_breaks_its_sequence_unless_a_start_follows() {
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
fn what_is_no_step_is_refused() {
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
