//! Sequences through the whole queue: routing, order, drops and timeouts, with closures as instances.

use penstock_core::{
    BatchOutput, InferRequest, Kind, Model, ModelSpec, Queueing, Readiness, SequenceId, Sequences, Step, Ticket, Work,
    metrics::Metrics,
    testing::{batching, fp32, fp32_spec, request, values},
};
use proptest::prelude::*;
use smallvec::smallvec;
use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

fn spec(instances: usize, limits: Sequences) -> ModelSpec {
    let mut spec = fp32_spec("stateful", &[Some(1)], Some(batching(4)));
    (spec.instances, spec.sequences) = (instances, Some(limits));
    spec
}

fn limits(idle_timeout: Duration, max_active: usize) -> Sequences {
    Sequences { idle_timeout, max_active }
}

fn ready(spec: ModelSpec) -> Arc<Model> {
    let model = Arc::new(Model::new(spec, &Metrics::default()));
    model.set_readiness(Readiness::Ready);
    model
}

fn step(id: u64, value: f32, start: bool, end: bool) -> InferRequest {
    let mut request = request(fp32(&[1, 1], &[value]));
    request.schedule.step = Some(Box::new(Step { id: SequenceId::Number(id), start, end }));
    request
}

/// The log of an instance: batches of (sequence, start, value), and closed sequences.
#[derive(Clone, Debug, PartialEq)]
enum InstanceEvent {
    Batch(Vec<(u64, bool, f32)>),
    Over(Vec<u64>),
}

type Log = Arc<Mutex<Vec<(usize, InstanceEvent)>>>;

fn number(id: &SequenceId) -> u64 {
    match id {
        SequenceId::Number(number) => *number,
        SequenceId::Text(_) => unreachable!("the test's ids are numbers"),
    }
}

fn run(model: &Arc<Model>, log: &Log) -> Vec<JoinHandle<()>> {
    let instances = 0..model.spec().instances;
    let run = |instance| {
        let (queue, log) = (Arc::clone(model.queue()), Arc::clone(log));
        thread::spawn(move || {
            while let Some(work) = queue.next(instance) {
                let mut job = match work {
                    Work::Over(ids) => {
                        log.lock().unwrap().push((instance, InstanceEvent::Over(ids.iter().map(number).collect())));
                        continue;
                    }
                    Work::Batch(job) => job,
                };
                let steps = job.parts().iter().map(|part| {
                    let step = part.request.schedule.step.as_ref().expect("a step");
                    (number(&step.id), step.start, values(part.request.inputs[0].as_ref().expect("an input"))[0])
                });
                let steps = steps.collect();
                log.lock().unwrap().push((instance, InstanceEvent::Batch(steps)));
                let inputs = job.gather();
                let output = fp32(&[job.rows(), 1], &values(inputs[0].as_ref().expect("an input")));
                job.finish(Ok(BatchOutput { outputs: smallvec![output], ..BatchOutput::default() }));
            }
        })
    };
    instances.map(run).collect()
}

fn wait_for(ticket: Ticket) -> penstock_core::Result<f32> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(ticket).map(|response| values(&response.outputs[0])[0])
}

fn shut_down(model: &Model, threads: Vec<JoinHandle<()>>) {
    model.queue().close();
    threads.into_iter().for_each(|thread| thread.join().expect("no panic"));
}

fn wait_until(mut holds: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(20);
    while !holds() {
        assert!(Instant::now() < end, "the condition did not hold in time");
        thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn idle_sequence_expires_and_its_instance_is_notified() {
    let model = ready(spec(1, limits(Duration::from_millis(30), 1)));
    let log = Log::default();
    let threads = run(&model, &log);
    let queue = model.queue();
    wait_for(queue.submit(step(7, 1.0, true, false), None).unwrap()).unwrap();
    wait_until(|| log.lock().unwrap().len() == 2);
    assert_eq!(log.lock().unwrap()[1], (0, InstanceEvent::Over(vec![7])));
    assert_eq!((queue.active_sequences(), model.metrics().sequences_lapsed.get()), (0, 1));
    let late = queue.submit(step(7, 2.0, false, false), None).unwrap_err();
    assert_eq!(late.message(), "sequence 7 must begin with sequence_start: it is not active on model 'stateful'");
    shut_down(&model, threads);
}

#[test]
fn abandoned_step_ends_its_sequence() {
    let model = ready(spec(1, limits(Duration::from_secs(60), 8)));
    let queue = model.queue();
    let submit = |id, value, start| queue.submit(step(id, value, start, false), None).unwrap();
    let first = submit(1, 1.0, true);
    let other = submit(2, 10.0, true);
    let leaves = submit(1, 2.0, false);
    let orphan = submit(1, 3.0, false);
    let again = submit(1, 4.0, true);
    let follows = submit(1, 5.0, false);
    drop(leaves);
    let log = Log::default();
    let threads = run(&model, &log);
    let error = wait_for(orphan).unwrap_err();
    assert_eq!(error.kind(), Kind::InvalidInput);
    assert_eq!(
        error.message(),
        "sequence 1 must begin again with sequence_start: model 'stateful' did not compute a request before this one"
    );
    assert_eq!([first, other, again, follows].map(|ticket| wait_for(ticket).unwrap()), [1.0, 10.0, 4.0, 5.0]);
    drop(queue.submit(step(2, 11.0, false, false), None).unwrap());
    shut_down(&model, threads);
    assert_eq!(model.metrics().queue_depth.get(), 0);
}

#[test]
fn sequence_slot_is_free_once_its_end_is_answered() {
    let model = ready(spec(2, limits(Duration::from_secs(60), 1)));
    let log = Log::default();
    let threads = run(&model, &log);
    for id in 1..50 {
        wait_for(model.queue().submit(step(id, 1.0, true, false), None).unwrap()).unwrap();
        assert_eq!(model.queue().submit(step(99, 1.0, true, false), None).unwrap_err().kind(), Kind::Overloaded);
        wait_for(model.queue().submit(step(id, 2.0, false, true), None).unwrap()).unwrap();
    }
    wait_until(|| {
        log.lock().unwrap().iter().filter(|(_, event)| matches!(event, InstanceEvent::Over(_))).count() == 49
    });
    shut_down(&model, threads);
}

#[test]
fn queue_timeout_fails_waiting_requests() {
    let mut spec = fp32_spec("plain", &[Some(1)], None);
    spec.queueing = Queueing { timeout: Some(Duration::from_millis(200)), ..Queueing::default() };
    let model = ready(spec);
    let ticket = model.queue().submit(request(fp32(&[1], &[0.0])), None).unwrap();
    model.queue().reject_overdue();
    assert_eq!(model.metrics().queue_depth.get(), 1);
    thread::sleep(Duration::from_millis(201));
    model.queue().reject_overdue();
    let error = wait_for(ticket).unwrap_err();
    assert_eq!(error.kind(), Kind::Timeout);
    assert_eq!(error.message(), "the request waited in the queue of model 'plain' for its limit of 200ms");
    assert_eq!(model.metrics().queue_depth.get(), 0);
}

#[test]
fn priorities_are_served_in_order_and_share_batches() {
    let mut spec = fp32_spec("ranked", &[Some(1)], Some(batching(2)));
    spec.queueing = Queueing { priorities: 3, default_priority: 2, ..Queueing::default() };
    let model = ready(spec);
    let submit = |priority, value| {
        let mut request = request(fp32(&[1, 1], &[value]));
        request.schedule.priority = priority;
        model.queue().submit(request, None).unwrap()
    };
    let sent = [(3, 1.0), (0, 2.0), (1, 3.0), (9, 4.0), (1, 5.0), (2, 6.0), (3, 7.0)];
    let tickets = sent.map(|(priority, value)| submit(priority, value));
    let order = Arc::new(Mutex::new(Vec::new()));
    let recorder = Arc::clone(&order);
    let threads = penstock_core::testing::run_closure(&model, move |inputs, _| {
        let tensor = inputs[0].as_ref().expect("an input");
        recorder.lock().unwrap().push(values(tensor));
        Ok(smallvec![fp32(tensor.shape(), &values(tensor))])
    });
    assert!(tickets.into_iter().all(|ticket| wait_for(ticket).is_ok()));
    shut_down(&model, threads);
    assert_eq!(*order.lock().unwrap(), [vec![3.0, 5.0], vec![2.0, 4.0], vec![6.0, 1.0], vec![7.0]]);
}

/// An action of a client: a step of a sequence, with or without a disconnection.
fn actions() -> impl Strategy<Value = Vec<(u64, bool, bool, bool)>> {
    let leaves = prop::bool::weighted(0.1);
    proptest::collection::vec((1u64..6, prop::bool::weighted(0.3), prop::bool::weighted(0.2), leaves), 1..120)
}

#[tokio::test]
async fn replaced_model_serves_its_sequences_until_they_end() {
    let registry = penstock_core::Registry::default();
    let log = Log::default();
    let make = || ready(spec(1, limits(Duration::from_secs(60), 8)));
    let (first, second) = (make(), make());
    let threads = [run(&first, &log), run(&second, &log)];
    let (first_queue, metrics) = (Arc::downgrade(first.queue()), Arc::clone(first.metrics()));
    registry.swap("stateful", vec![first], &[]);
    let model = registry.find("stateful", None).unwrap();
    model.infer(step(1, 1.0, true, false), None).await.unwrap();
    registry.swap("stateful", vec![Arc::clone(&second)], &[]);
    assert_eq!(second.active_sequences(), 1);
    assert_eq!(second.queue().active_sequences(), 0);
    // A sequence routed to the first instance may still start there; its next step is on the second.
    model.infer(step(2, 2.0, true, false), None).await.unwrap();
    drop(model);
    registry.drop_drained();
    for id in [1, 2] {
        second.infer(step(id, 3.0, false, false), None).await.unwrap();
    }
    assert_eq!((metrics.sequences.get(), second.metrics().sequences.get()), (2, 0));
    second.infer(step(1, 4.0, true, false), None).await.unwrap();
    assert_eq!(second.queue().active_sequences(), 1, "a start begins on what is new");
    for id in [1, 2] {
        second.infer(step(id, 5.0, false, true), None).await.unwrap();
    }
    registry.drop_drained();
    assert!(first_queue.upgrade().is_some(), "the first form of sequence 1 is still silent there");
    assert_eq!(second.active_sequences(), 1);
    let refused = second.infer(step(2, 6.0, false, false), None).await.unwrap_err();
    assert!(refused.message().contains("must begin with sequence_start"), "{}", refused.message());
    registry.swap("stateful", vec![], &[]);
    drop(second);
    registry.drop_drained();
    threads.into_iter().flatten().for_each(|thread| thread.join().unwrap());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    /// Every accepted request gets a response. Steps of a sequence are computed in order, on one instance, one per
    /// batch, and none after a step that was not computed.
    #[test]
    fn sequences_stay_in_order_on_one_instance(
        actions in actions(),
        instances in 1usize..4,
        max_active in 1usize..6,
        running in any::<bool>(),
    ) {
        let model = ready(spec(instances, limits(Duration::from_secs(60), max_active)));
        let log = Log::default();
        let mut threads = if running { run(&model, &log) } else { Vec::new() };
        let mut tickets = Vec::new();
        for (index, &(id, start, end, leaves)) in actions.iter().enumerate() {
            match model.queue().submit(step(id, index as f32, start, end), None) {
                Ok(ticket) if leaves => drop(ticket),
                Ok(ticket) => tickets.push((index, ticket)),
                Err(error) => prop_assert!(matches!(error.kind(), Kind::InvalidInput | Kind::Overloaded)),
            }
        }
        if !running {
            threads = run(&model, &log);
        }
        for (index, ticket) in tickets {
            match wait_for(ticket) {
                Ok(value) => prop_assert_eq!(value, index as f32),
                Err(error) => prop_assert!(error.message().contains("must begin again"), "{}", error.message()),
            }
        }
        shut_down(&model, threads);
        prop_assert_eq!(model.metrics().queue_depth.get(), 0);
        let mut last_steps: HashMap<u64, (usize, f32)> = HashMap::new();
        for (instance, event) in log.lock().unwrap().iter() {
            let InstanceEvent::Batch(steps) = event else { continue };
            for (place, &(id, start, value)) in steps.iter().enumerate() {
                prop_assert!(!steps[..place].iter().any(|(other, ..)| *other == id), "twice in one batch");
                match last_steps.get(&id) {
                    Some(_) if start => {}
                    Some(&(at, before)) => {
                        prop_assert_eq!(at, *instance, "a sequence moved");
                        prop_assert!(before < value, "out of order");
                        // No step between them was skipped.
                        let between = &actions[before as usize + 1..value as usize];
                        let lost = between.iter().any(|&(other, _, _, leaves)| other == id && leaves);
                        prop_assert!(!lost || running, "a step was left out");
                    }
                    None => prop_assert!(start, "a sequence began in the middle"),
                }
                last_steps.insert(id, (*instance, value));
            }
        }
    }
}
