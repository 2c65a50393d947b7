//! Invariants under random actions of clients, handlers and operators: every accepted request gets exactly one
//! response, no request is computed twice, and client i gets row i.
//!
//! Threads are real, so that each run has other interleavings. The hand-off itself (a slot behind one mutex and a
//! flag, `reply.rs`) is not explored by loom: it would have to be built on loom's mutex in place of the standard one in
//! all of the crate, for a lock that is held for one replacement and never together with another.

use penstock_core::{
    BatchOutput, Error, Job, Kind, Model, Readiness, Ticket, Work,
    metrics::Metrics,
    testing::{batching, fp32, fp32_spec, request, values},
};
use proptest::{collection::vec, prelude::*};
use smallvec::smallvec;
use std::{
    collections::HashMap,
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

const MAX_QUEUE: usize = 12;

#[derive(Clone, Copy, Debug)]
enum Event {
    Submit {
        rows: usize,
        deadline_us: Option<u64>,
    },
    /// The client of a waiting request disconnects.
    Leave(usize),
    /// Resumes the instances.
    Pause(u64),
    Drain,
    /// A new version takes over; the old one computes what it accepted.
    Swap,
    /// A drain that took too long.
    CutOff,
}

/// The outcome of a batch in the handler.
#[derive(Clone, Copy, Debug)]
enum Outcome {
    Answers,
    Takes(u64),
    Fails,
    Panics,
    /// The batch is dropped on the way.
    Drops,
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        12 => (1usize..5, prop_oneof![3 => Just(None), 1 => (0u64..3000).prop_map(Some)])
            .prop_map(|(rows, deadline_us)| Event::Submit { rows, deadline_us }),
        3 => any::<usize>().prop_map(Event::Leave),
        2 => (0u64..800).prop_map(Event::Pause),
        1 => Just(Event::Swap),
        1 => Just(Event::Drain),
        1 => Just(Event::CutOff),
    ]
}

fn outcome() -> impl Strategy<Value = Outcome> {
    prop_oneof![
        6 => Just(Outcome::Answers),
        2 => (0u64..500).prop_map(Outcome::Takes),
        1 => Just(Outcome::Fails),
        1 => Just(Outcome::Panics),
        1 => Just(Outcome::Drops),
    ]
}

/// Number of handler calls of each row, by row number.
type Computed = Arc<Mutex<HashMap<u32, usize>>>;

struct Version {
    model: Arc<Model>,
    threads: Vec<JoinHandle<()>>,
}

impl Version {
    fn load(script: &Arc<[Outcome]>, turn: &Arc<AtomicUsize>, computed: &Computed) -> Self {
        let mut spec = fp32_spec("m", &[Some(1)], Some(batching(4)));
        (spec.max_queue, spec.instances) = (MAX_QUEUE, 2);
        let model = Arc::new(Model::new(spec, &Metrics::default()));
        model.set_readiness(Readiness::Ready);
        let threads = (0..2)
            .map(|instance| {
                let (queue, script) = (Arc::clone(model.queue()), Arc::clone(script));
                let (turn, computed) = (Arc::clone(turn), Arc::clone(computed));
                thread::spawn(move || {
                    while let Some(work) = queue.next(instance) {
                        let Work::Batch(job) = work else { continue };
                        let outcome = script[turn.fetch_add(1, Ordering::Relaxed) % script.len()];
                        // A panic ends only its batch, as in a real instance.
                        _ = catch_unwind(AssertUnwindSafe(|| handle(job, outcome, &computed)));
                    }
                })
            })
            .collect();
        Self { model, threads }
    }

    fn retire(self) {
        self.model.queue().close();
        self.threads.into_iter().for_each(|thread| thread.join().expect("an instance outlives its handler's panics"));
        assert_eq!(self.model.metrics().queue_depth.get(), 0);
    }
}

fn handle(mut job: Job, outcome: Outcome, computed: &Computed) {
    let inputs = job.gather();
    let rows = values(inputs[0].as_ref().expect("a required input"));
    for row in &rows {
        *computed.lock().expect("no panic").entry(*row as u32).or_default() += 1;
    }
    match outcome {
        Outcome::Answers => {}
        Outcome::Takes(us) => thread::sleep(Duration::from_micros(us)),
        Outcome::Fails => return job.finish(Err(Error::handler("as the test wants"))),
        // Suppresses the panic hook's message.
        Outcome::Panics => resume_unwind(Box::new("as the test wants")),
        Outcome::Drops => return drop(job),
    }
    let doubled: Vec<f32> = rows.iter().map(|row| row * 2.0).collect();
    let outputs = smallvec![fp32(&[rows.len(), 1], &doubled)];
    job.finish(Ok(BatchOutput { outputs, ..BatchOutput::default() }));
}

/// A waiting client: its request, and true if a deadline may end it.
struct Waiting {
    sent: Vec<f32>,
    has_deadline: bool,
    ticket: Ticket,
}

fn check(waiting: Waiting, cut_off: bool) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
    let Waiting { sent, has_deadline, ticket } = waiting;
    let answer = runtime
        .block_on(async { tokio::time::timeout(Duration::from_secs(20), ticket).await })
        .expect("every accepted request completes");
    match answer {
        Ok(response) => {
            let doubled: Vec<f32> = sent.iter().map(|row| row * 2.0).collect();
            assert_eq!(values(&response.outputs[0]), doubled, "client i gets row i");
        }
        Err(error) => match error.kind() {
            Kind::Handler | Kind::Internal => {}
            Kind::Timeout => assert!(has_deadline, "no deadline was given: {}", error.message()),
            Kind::Unavailable => assert!(cut_off, "nothing was cut off: {}", error.message()),
            other => panic!("{other:?}: {}", error.message()),
        },
    }
}

fn play(events: &[Event], script: Vec<Outcome>) {
    let (script, turn, computed) = (Arc::from(script), Arc::default(), Computed::default());
    let mut version = Version::load(&script, &turn, &computed);
    let (mut retired, mut waiting, mut cut_off, mut number) = (Vec::new(), Vec::<Waiting>::new(), false, 0u32);
    for event in events {
        match *event {
            Event::Submit { rows, deadline_us } => {
                let sent: Vec<f32> = (0..rows).map(|row| (number + row as u32) as f32).collect();
                number += rows as u32;
                let mut request = request(fp32(&[rows, 1], &sent));
                request.deadline = deadline_us.map(|us| Instant::now() + Duration::from_micros(us));
                match version.model.queue().submit(request, None) {
                    Ok(ticket) => waiting.push(Waiting { sent, has_deadline: deadline_us.is_some(), ticket }),
                    Err(error) => assert!(matches!(error.kind(), Kind::Overloaded | Kind::Unavailable)),
                }
            }
            Event::Leave(index) if !waiting.is_empty() => drop(waiting.swap_remove(index % waiting.len())),
            Event::Leave(_) => {}
            Event::Pause(us) => thread::sleep(Duration::from_micros(us)),
            Event::Drain => version.model.queue().drain(),
            Event::Swap => {
                let old = std::mem::replace(&mut version, Version::load(&script, &turn, &computed));
                old.model.queue().close();
                retired.push(old);
            }
            Event::CutOff => {
                cut_off = true;
                version.model.queue().fail_waiting(&Error::new(Kind::Unavailable, "cut off"));
            }
        }
    }
    retired.push(version);
    retired.iter().for_each(|version| version.model.queue().close());
    waiting.into_iter().for_each(|one| check(one, cut_off));
    retired.into_iter().for_each(Version::retire);
    let twice: Vec<_> =
        computed.lock().expect("no panic").clone().into_iter().filter(|(_, times)| *times > 1).collect();
    assert!(twice.is_empty(), "computed more than once: {twice:?}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn each_accepted_request_gets_exactly_its_own_response(
        events in vec(event(), 1..60),
        script in vec(outcome(), 1..12),
    ) {
        play(&events, script);
    }
}
