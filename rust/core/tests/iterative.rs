//! Rows of an iterative model: a closure makes the steps, on the thread of the test.

use penstock_core::{
    Batching, Client, Error, FairBy, Fairness, InferRequest, InterpreterTimes, Iterative, Job, Model, ModelSpec,
    Outputs, Parameters, Queueing, Readiness, ResponseStream, RowChunk, RowSet, Schedule,
    metrics::Metrics,
    queue::Activity,
    testing::{fp32, fp32_spec, request, values},
};
use proptest::prelude::*;
use smallvec::smallvec;
use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
    task::{Context, Poll, Waker},
    thread,
    time::{Duration, Instant},
};

const MAX_STEPS: u64 = 200;

/// An instance of an iterative model.
struct Instance {
    model: Arc<Model>,
    rows: RowSet<u32>,
    /// Payloads of all rows that joined, in order, with the first input value of their request.
    joined: Vec<(u32, f32)>,
    /// Rows that have been in a step.
    seen: BTreeSet<u32>,
    left: Vec<u32>,
}

fn model(max_rows: usize, queueing: Queueing) -> Arc<Model> {
    let batching = Batching { dynamic: false, ..Batching::new(max_rows) };
    let iterative = Some(Iterative { max_steps: MAX_STEPS });
    let spec = ModelSpec { streams: true, iterative, queueing, ..fp32_spec("it", &[Some(1)], Some(batching)) };
    let model = Arc::new(Model::new(spec, &Metrics::default()));
    model.set_readiness(Readiness::Ready);
    model
}

fn chunk(value: f32) -> Outputs {
    smallvec![fp32(&[1, 1], &[value])]
}

fn times() -> InterpreterTimes {
    InterpreterTimes { handler: Duration::from_micros(10), ..InterpreterTimes::default() }
}

impl Instance {
    fn new(max_rows: usize) -> Self {
        Self::with(max_rows, Queueing::default())
    }

    fn with(max_rows: usize, queueing: Queueing) -> Self {
        let model = model(max_rows, queueing);
        let rows = RowSet::new(Arc::clone(model.queue()), 0);
        Self { model, rows, joined: Vec::new(), seen: BTreeSet::new(), left: Vec::new() }
    }

    /// Submits a request with rows of `value`.
    fn submit(&self, rows: usize, value: f32) -> ResponseStream {
        self.submit_with(request(fp32(&[rows, 1], &vec![value; rows])))
    }

    fn submit_with(&self, request: InferRequest) -> ResponseStream {
        self.model.stream(request, None).unwrap()
    }

    fn add(&mut self, mut job: Job) {
        let inputs = std::mem::take(&mut job.parts_mut()[0].request.inputs);
        let all = values(inputs[0].as_ref().unwrap());
        let next = self.joined.len() as u32;
        let payloads: Vec<u32> = (next..next + all.len() as u32).collect();
        self.joined.extend(payloads.iter().copied().zip(all));
        self.rows.add(job, payloads);
    }

    /// Lets waiting requests join and rows leave. Returns the rows of the next step.
    fn begin(&mut self) -> Vec<(u32, u64)> {
        self.rows.take_waiting().into_iter().for_each(|job| self.add(job));
        self.rows.retire(Instant::now());
        self.take_left();
        self.rows.begin_step(Instant::now());
        let rows: Vec<_> = self.rows.step_rows().map(|(row, steps)| (*row, steps)).collect();
        self.seen.extend(rows.iter().map(|(row, _)| row));
        rows
    }

    /// Makes one step, with the result of `step` for each row. Returns its rows.
    fn step(&mut self, step: impl Fn(u32, u64) -> RowChunk) -> Vec<u32> {
        let rows = self.begin();
        if !rows.is_empty() {
            let results = rows.iter().map(|&(row, steps)| (step(row, steps), Parameters::new())).collect();
            self.rows.finish_step(results, times()).unwrap();
        }
        self.take_left();
        rows.into_iter().map(|(row, _)| row).collect()
    }

    fn take_left(&mut self) {
        self.left.extend(self.rows.take_left());
    }
}

/// End of a stream, with the text of its error; `None` if more may come.
type End = Option<Result<(), String>>;

/// Chunks that are there, and the end.
fn read(stream: &mut ResponseStream) -> (Vec<f32>, End) {
    let mut found = Vec::new();
    loop {
        match stream.poll_next(&mut Context::from_waker(Waker::noop())) {
            Poll::Pending => return (found, None),
            Poll::Ready(None) => return (found, Some(Ok(()))),
            Poll::Ready(Some(Err(error))) => return (found, Some(Err(error.message().to_owned()))),
            Poll::Ready(Some(Ok(chunk))) => found.extend(values(&chunk.response.outputs[0])),
        }
    }
}

/// Text of the error that ended a stream.
fn failure(stream: &mut ResponseStream) -> String {
    read(stream).1.expect("it has ended").expect_err("it failed")
}

/// A row that counts to `end`.
fn counts_to(end: u64) -> impl Fn(u32, u64) -> RowChunk {
    move |_, steps| {
        if steps + 1 == end { RowChunk::Last(chunk(steps as f32)) } else { RowChunk::More(chunk(steps as f32)) }
    }
}

#[test]
fn rows_join_between_steps_in_the_order_of_the_queue() {
    let mut instance = Instance::new(3);
    let mut first = instance.submit(1, 0.0);
    assert_eq!(instance.step(counts_to(3)), [0]);
    let _streams: Vec<_> = (1..4).map(|value| instance.submit(1, value as f32)).collect();
    assert_eq!(instance.step(counts_to(3)), [0, 1, 2], "there is room for two more");
    assert_eq!(instance.step(counts_to(3)), [0, 1, 2]);
    assert_eq!(read(&mut first), (vec![0.0, 1.0, 2.0], Some(Ok(()))));
    assert_eq!(instance.left, [0]);
    assert_eq!(instance.step(counts_to(3)), [1, 2, 3]);
    assert_eq!(instance.joined, [(0, 0.0), (1, 1.0), (2, 2.0), (3, 3.0)]);
}

#[test]
fn requests_of_a_higher_priority_and_of_other_clients_join_first() {
    let levels = Queueing { priorities: 2, default_priority: 2, ..Queueing::default() };
    let mut instance = Instance::with(1, levels);
    let with_priority = |value: f32, priority| InferRequest {
        schedule: Schedule { priority, ..Schedule::default() },
        ..request(fp32(&[1, 1], &[value]))
    };
    let requests = [with_priority(0.0, 2), with_priority(1.0, 2), with_priority(2.0, 1)];
    let _streams = requests.map(|request| instance.submit_with(request));
    (0..3).for_each(|_| drop(instance.step(counts_to(1))));
    assert_eq!(instance.joined, [(0, 2.0), (1, 0.0), (2, 1.0)]);

    let fair = Queueing { fair: Some(Fairness { by: FairBy::Client, max_rows: None }), ..Queueing::default() };
    let mut instance = Instance::with(1, fair);
    let of_client = |value: f32, client: &str| InferRequest {
        schedule: Schedule { client: Client::named(client.as_bytes()), ..Schedule::default() },
        ..request(fp32(&[1, 1], &[value]))
    };
    let requests = [of_client(0.0, "a"), of_client(1.0, "a"), of_client(2.0, "a"), of_client(3.0, "b")];
    let _streams = requests.map(|request| instance.submit_with(request));
    (0..4).for_each(|_| drop(instance.step(counts_to(1))));
    assert_eq!(instance.joined, [(0, 0.0), (1, 3.0), (2, 1.0), (3, 2.0)]);
}

#[test]
fn long_row_does_not_delay_short_ones() {
    let mut instance = Instance::new(2);
    let mut long = instance.submit(1, 100.0);
    let mut short: Vec<_> = (0..10).map(|value| instance.submit(1, value as f32)).collect();
    let step = |row: u32, steps: u64| counts_to(if row == 0 { 100 } else { 2 })(row, steps);
    // Each short row takes its own two steps, and waits for those before it only.
    for _ in 0..20 {
        assert!(instance.step(step).contains(&0));
    }
    assert!(short.iter_mut().all(|stream| read(stream) == (vec![0.0, 1.0], Some(Ok(())))));
    assert_eq!(read(&mut long), ((0..20).map(|step| step as f32).collect(), None));
}

#[test]
fn rows_of_one_request_end_independently_and_name_themselves() {
    let mut instance = Instance::new(4);
    let mut stream = instance.submit(3, 1.0);
    let step = |row: u32, steps: u64| match (row, steps) {
        (0, _) => RowChunk::Last(chunk(10.0)),
        (1, 0) => RowChunk::Nothing,
        (_, 0) => RowChunk::More(chunk(12.0)),
        _ => RowChunk::End,
    };
    assert_eq!(instance.step(step), [0, 1, 2]);
    assert_eq!(instance.left, [0]);
    assert_eq!(instance.step(step), [1, 2]);
    assert_eq!(instance.left, [0, 1, 2]);
    assert_eq!(read(&mut stream), (vec![10.0, 12.0], Some(Ok(()))));
    assert!(instance.rows.is_empty());
}

#[test]
fn request_waits_until_all_its_rows_have_room_and_none_overtakes_it() {
    let mut instance = Instance::new(3);
    let _streams = [instance.submit(2, 0.0), instance.submit(2, 1.0), instance.submit(1, 2.0)];
    assert_eq!(instance.step(counts_to(2)), [0, 1]);
    assert_eq!(instance.step(counts_to(2)), [0, 1]);
    assert_eq!(instance.step(counts_to(2)), [2, 3, 4]);
}

#[test]
fn row_of_a_client_that_left_is_not_in_the_next_step() {
    let mut instance = Instance::new(2);
    let (gone, mut stays) = (instance.submit(1, 0.0), instance.submit(1, 1.0));
    assert_eq!(instance.step(counts_to(3)), [0, 1]);
    drop(gone);
    assert_eq!(instance.step(counts_to(3)), [1]);
    assert_eq!(instance.left, [0]);
    assert_eq!(read(&mut stays).0, [0.0, 1.0]);
    let statistics = instance.model.metrics().statistics.snapshot();
    assert_eq!(statistics.success.count, 0);
}

#[test]
fn row_past_its_deadline_leaves_with_an_error() {
    let mut instance = Instance::new(2);
    let late = InferRequest { deadline: Some(Instant::now() + Duration::from_millis(50)), ..row() };
    let (mut late, mut other) = (instance.submit_with(late), instance.submit(1, 1.0));
    let mut steps = 0;
    while instance.step(|_, _| RowChunk::Nothing).contains(&0) {
        steps += 1;
        thread::sleep(Duration::from_millis(1));
        assert!(steps < 20_000, "the deadline has passed");
    }
    assert_eq!(failure(&mut late), "model 'it' did not answer within the deadline");
    assert_eq!(instance.left, [0]);
    assert_eq!(read(&mut other).1, None);
}

fn row() -> InferRequest {
    request(fp32(&[1, 1], &[0.0]))
}

#[test]
fn row_leaves_with_an_error_after_max_steps() {
    let mut instance = Instance::new(2);
    let mut stream = instance.submit(1, 0.0);
    for _ in 0..MAX_STEPS {
        assert_eq!(instance.step(|_, _| RowChunk::Nothing), [0]);
    }
    assert!(instance.rows.is_empty());
    assert_eq!(failure(&mut stream), "model 'it' did not end a row within max_steps=200 steps");
    // The last step may end the row by itself.
    let mut stream = instance.submit(1, 0.0);
    let mut end = None;
    for _ in 0..MAX_STEPS {
        instance.step(counts_to(MAX_STEPS));
        end = end.or(read(&mut stream).1);
    }
    assert_eq!(end, Some(Ok(())));
    assert_eq!(instance.left, [0, 1]);
}

#[test]
fn failed_step_answers_all_rows_and_the_instance_goes_on() {
    let mut instance = Instance::new(3);
    let mut streams = [instance.submit(2, 0.0), instance.submit(1, 1.0)];
    assert_eq!(instance.step(|_, _| RowChunk::More(chunk(1.0))), [0, 1, 2]);
    let mut waiting = instance.submit(1, 2.0);
    instance.begin();
    instance.rows.fail_step(&Error::handler("broken"));
    instance.take_left();
    assert_eq!(instance.left, [0, 1, 2]);
    for stream in &mut streams {
        assert_eq!(failure(stream), "broken");
    }
    assert_eq!(instance.step(counts_to(1)), [3]);
    assert_eq!(read(&mut waiting), (vec![0.0], Some(Ok(()))));
}

#[test]
fn results_that_do_not_match_are_refused_before_anything_is_sent() {
    let mut instance = Instance::new(2);
    let mut streams = [instance.submit(1, 0.0), instance.submit(1, 1.0)];
    assert_eq!(instance.begin().len(), 2);
    let some = |chunk| (chunk, Parameters::new());
    let error = instance.rows.finish_step(vec![some(RowChunk::Nothing)], times()).unwrap_err();
    assert_eq!(error.message(), "model 'it' returned 1 results of a step of 2 rows");
    let wrong = RowChunk::More(smallvec![fp32(&[1, 2], &[1.0, 2.0])]);
    let error = instance.rows.finish_step(vec![some(RowChunk::Last(chunk(1.0))), some(wrong)], times()).unwrap_err();
    assert!(error.message().starts_with("model 'it' returned output 'y' with shape [1, 2]"), "{error}");
    assert!(streams.iter_mut().all(|stream| read(stream) == (vec![], None)));
}

#[test]
fn failed_row_fails_its_request_alone() {
    let mut instance = Instance::new(4);
    let mut streams = [instance.submit(2, 0.0), instance.submit(1, 1.0), instance.submit(1, 2.0)];
    let fails = |row: u32, _| match row {
        1 | 2 => RowChunk::Fail(Error::invalid("no")),
        _ => RowChunk::More(chunk(1.0)),
    };
    assert_eq!(instance.step(fails), [0, 1, 2, 3]);
    assert_eq!(instance.left, [0, 1, 2]);
    let [first, second, open] = &mut streams;
    assert_eq!([failure(first), failure(second)], ["row 1: no", "no"]);
    assert_eq!(read(open).1, None);
    assert_eq!(instance.step(fails), [3]);
}

#[test]
fn row_of_a_slow_reader_is_left_out_and_the_others_go_on() {
    let mut instance = Instance::new(2);
    let (mut slow, mut fast) = (instance.submit(1, 0.0), instance.submit(1, 1.0));
    let endless = |_, steps| RowChunk::More(chunk(steps as f32));
    let mut of_fast = 0;
    while instance.step(endless).contains(&0) {
        of_fast += read(&mut fast).0.len();
    }
    assert_eq!(instance.step(endless), [1]);
    of_fast += read(&mut fast).0.len();
    let unread = read(&mut slow).0;
    assert!(unread.len() < of_fast);
    assert_eq!(unread, (0..unread.len()).map(|step| step as f32).collect::<Vec<_>>(), "no step is lost");
    assert_eq!(instance.step(endless), [0, 1]);
    assert_eq!(instance.left, [0_u32; 0]);
}

/// Lets `wait` run while all rows wait for `stream`, and `meanwhile` on another thread.
fn waits(
    max_rows: usize,
    meanwhile: impl FnOnce(&Arc<Model>, ResponseStream) -> Option<ResponseStream> + Send,
) -> Vec<u32> {
    let mut instance = Instance::new(max_rows);
    let stream = instance.submit(1, 0.0);
    while instance.step(|_, _| RowChunk::More(chunk(0.0))) == [0] {}
    assert!(!instance.rows.is_empty());
    let model = Arc::clone(&instance.model);
    let (_, activity) = model.queue().progress()[0];
    assert_eq!(activity, Activity::Step);
    thread::scope(|scope| {
        let other = scope.spawn(|| {
            // Mostly after the instance has begun to wait: then it waits for no step.
            let end = Instant::now() + Duration::from_secs(1);
            while model.queue().progress()[0].0.is_some() && Instant::now() < end {
                thread::yield_now();
            }
            meanwhile(&model, stream)
        });
        let end = Instant::now() + Duration::from_secs(20);
        loop {
            instance.rows.wait();
            let rows = instance.step(|_, _| RowChunk::Nothing);
            if !rows.is_empty() || instance.rows.is_empty() {
                drop(other.join());
                return rows;
            }
            assert!(Instant::now() < end, "waited in vain");
        }
    })
}

#[test]
fn wait_ends_when_a_client_reads() {
    for max_rows in [1, 2] {
        let rows = waits(max_rows, |_, mut stream| {
            read(&mut stream);
            Some(stream)
        });
        assert_eq!(rows, [0]);
    }
}

#[test]
fn wait_ends_when_the_client_leaves() {
    for max_rows in [1, 2] {
        assert_eq!(
            waits(max_rows, |_, stream| {
                drop(stream);
                None
            }),
            [0_u32; 0]
        );
    }
}

#[test]
fn wait_ends_when_a_request_can_join() {
    let kept = std::sync::Mutex::new(None);
    let rows = waits(2, |model, stream| {
        *kept.lock().unwrap() = Some(stream);
        Some(model.stream(row(), None).unwrap())
    });
    assert_eq!(rows, [1]);
}

#[test]
fn statistics_count_steps_as_executions_and_requests_once() {
    let mut instance = Instance::new(2);
    let mut streams = [instance.submit(1, 0.0), instance.submit(1, 1.0)];
    let step = |row: u32, steps: u64| counts_to(2 + u64::from(row))(row, steps);
    while !instance.step(step).is_empty() {}
    assert!(streams.iter_mut().all(|stream| read(stream).1 == Some(Ok(()))));
    let metrics = instance.model.metrics();
    let statistics = metrics.statistics.snapshot();
    assert_eq!((statistics.executions, statistics.inferences, statistics.success.count), (3, 2, 2));
    assert_eq!(statistics.queue.count, 2);
    let sizes: Vec<_> = statistics.batches.iter().map(|(rows, totals)| (*rows, totals.infer.count)).collect();
    assert_eq!(sizes, [(1, 1), (2, 2)]);
    assert_eq!(statistics.compute.infer.ns, 50_000, "each request has the time of its own steps");
    assert_eq!(instance.model.queue().busy_instances().0, 0);
}

#[test]
fn each_step_is_progress() {
    let mut instance = Instance::new(2);
    let _stream = instance.submit(1, 0.0);
    let progress = |instance: &Instance| instance.model.queue().progress()[0].0;
    assert_eq!(progress(&instance), None);
    let seen = [0; 3].map(|_| {
        instance.step(|_, _| RowChunk::Nothing);
        progress(&instance).expect("it has a row")
    });
    assert!(seen[0] != seen[1] && seen[1] != seen[2], "{seen:?}");
}

#[test]
fn request_without_rows_ends_at_once() {
    let mut instance = Instance::new(2);
    let mut stream = instance.submit(0, 0.0);
    assert!(instance.step(counts_to(1)).is_empty());
    assert_eq!(read(&mut stream), (vec![], Some(Ok(()))));
}

#[derive(Clone, Debug)]
enum Action {
    Submit { rows: usize, steps: u64 },
    Step,
    Read(usize),
    Leave(usize),
    Fail,
}

fn action() -> impl Strategy<Value = Action> {
    prop_oneof![
        4 => (1_usize..4, 1_u64..100).prop_map(|(rows, steps)| Action::Submit { rows, steps }),
        10 => Just(Action::Step),
        3 => (0_usize..16).prop_map(Action::Read),
        1 => (0_usize..16).prop_map(Action::Leave),
        1 => Just(Action::Fail),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// Whatever clients do: rows join in order, at most `max_rows` at once; each leaves exactly once; each client that
    /// stays gets every chunk of its rows once, then one end.
    #[test]
    fn rows_join_in_order_and_leave_exactly_once(max_rows in 3_usize..6, actions in prop::collection::vec(action(), 1..120)) {
        let mut instance = Instance::new(max_rows);
        // By request: its stream, the steps of its rows, the chunks read, its end.
        let mut clients: Vec<(Option<ResponseStream>, u64, Vec<f32>, End)> = Vec::new();
        let mut failures = 0;
        let steps_of = |joined: &[(u32, f32)], clients: &[(Option<ResponseStream>, u64, Vec<f32>, _)]| -> HashMap<u32, u64> {
            joined.iter().map(|&(row, value)| (row, clients[value as usize].1)).collect()
        };
        let finish = (0..20_000).map(|turn| if turn % 2 == 0 { Action::Step } else { Action::Read(turn / 2) });
        let count = actions.len();
        for (turn, action) in actions.into_iter().chain(finish).enumerate() {
            match action {
                Action::Submit { rows, steps } => {
                    let stream = instance.submit(rows, clients.len() as f32);
                    clients.push((Some(stream), steps, Vec::new(), None));
                }
                Action::Step => {
                    let rows = instance.begin();
                    let steps_of = steps_of(&instance.joined, &clients);
                    prop_assert!(rows.len() <= max_rows);
                    prop_assert!(rows.windows(2).all(|pair| pair[0].0 < pair[1].0), "in the order of joining");
                    let results = rows.iter().map(|&(row, steps)| (counts_to(steps_of[&row])(row, steps), Parameters::new()));
                    if !rows.is_empty() {
                        instance.rows.finish_step(results.collect(), times()).unwrap();
                    }
                    instance.take_left();
                }
                Action::Fail => {
                    if !instance.begin().is_empty() {
                        instance.rows.fail_step(&Error::handler("broken"));
                        failures += 1;
                    }
                    instance.take_left();
                }
                Action::Read(client) | Action::Leave(client) if clients.is_empty() => { let _ = client; }
                Action::Read(client) => {
                    let client = client % clients.len();
                    if let (Some(stream), _, chunks, end) = &mut clients[client] && end.is_none() {
                        let (more, ended) = read(stream);
                        chunks.extend(more);
                        *end = ended;
                    }
                }
                Action::Leave(client) => {
                    let client = client % clients.len();
                    clients[client].0 = None;
                }
            }
            let over = |(stream, _, _, end): &(Option<ResponseStream>, _, _, End)| stream.is_none() || end.is_some();
            if turn >= count && clients.iter().all(over) && instance.rows.is_empty() && !instance.model.queue().has_waiting() {
                break;
            }
        }
        prop_assert!(instance.rows.is_empty(), "all rows have left");
        let mut left = instance.left.clone();
        left.sort_unstable();
        let seen: Vec<u32> = instance.seen.iter().copied().collect();
        prop_assert_eq!(left, seen, "each row that was in a step has left exactly once");
        prop_assert!(instance.joined.windows(2).all(|pair| pair[0].1 <= pair[1].1), "in the order of submission");
        for (client, (stream, steps, chunks, end)) in clients.iter().enumerate().filter(|(_, client)| client.0.is_some()) {
            let _ = stream;
            let rows = instance.joined.iter().filter(|&&(_, value)| value == client as f32).count() as u64;
            match end.as_ref().expect("it has ended") {
                Err(error) => prop_assert!(failures > 0 && error == "broken"),
                Ok(()) => prop_assert_eq!(chunks.len() as u64, rows * steps),
            }
        }
        prop_assert_eq!(instance.model.queue().busy_instances().0, 0);
    }
}
