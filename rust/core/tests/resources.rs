//! Resources shared by the instances of several models: within their totals, returned, without starvation.

use penstock_core::{
    BatchOutput, Job, Kind, Model, ModelSpec, Pulled, Readiness, ResourceRequest, Resources, Work,
    metrics::Metrics,
    testing::{fp32, fp32_spec, request, run_closure},
};
use proptest::{collection::vec, prelude::*};
use smallvec::smallvec;
use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread,
    time::Duration,
};

fn resources(has: &[(&str, u64)]) -> Arc<Resources> {
    Arc::new(Resources::new(has.iter().map(|&(name, amount)| (name.into(), amount))))
}

fn needs(amounts: &[(&str, u64)], weight: f64) -> ResourceRequest {
    ResourceRequest { amounts: amounts.iter().map(|&(name, amount)| (name.into(), amount)).collect(), weight }
}

/// A model with one row per call.
fn model(resources: &Arc<Resources>, needs: ResourceRequest, instances: usize) -> Arc<Model> {
    let spec = ModelSpec { resources: Some(needs), instances, max_queue: 10_000, ..fp32_spec("m", &[Some(1)], None) };
    let model = Model::new(spec, &Metrics::default());
    model.queue().set_resources(resources.register("m", model.spec().resources.as_ref().unwrap()).unwrap());
    model.set_readiness(Readiness::Ready);
    Arc::new(model)
}

fn submit(model: &Model) -> penstock_core::Ticket {
    model.queue().submit(request(fp32(&[1], &[1.0])), None).unwrap()
}

fn pull(model: &Model) -> Option<Job> {
    match model.queue().next_within(0, Duration::ZERO) {
        Pulled::Work(Work::Batch(job)) => Some(job),
        _ => None,
    }
}

fn finish(job: Job) {
    job.finish(Ok(BatchOutput { outputs: smallvec![fp32(&[1], &[2.0])], ..BatchOutput::default() }));
}

#[test]
fn batch_starts_only_with_all_its_resources() {
    let shared = resources(&[("a", 2), ("b", 1)]);
    let (one, both) =
        (model(&shared, needs(&[("a", 1)], 1.0), 2), model(&shared, needs(&[("a", 2), ("b", 1)], 1.0), 1));
    let _tickets = [submit(&one), submit(&one), submit(&one), submit(&both)];
    let (first, second) = (pull(&one).unwrap(), pull(&one).unwrap());
    assert!(pull(&one).is_none() && pull(&both).is_none());
    // A dropped job, for example after a panic, returns its resources.
    drop(first);
    assert!(pull(&both).is_none(), "one of two is not enough");
    finish(second);
    let job = pull(&both).unwrap();
    assert!(pull(&one).is_none());
    finish(job);
    finish(pull(&one).unwrap());
}

#[test]
fn missing_resources_are_refused_by_name() {
    let shared = resources(&[("a", 2)]);
    for (needs, text) in [
        (needs(&[("a", 3)], 1.0), "model 'm' needs 3 of resource 'a', the server has 2"),
        (needs(&[("b", 1)], 1.0), "model 'm' needs resource 'b', the server has 'a'"),
    ] {
        let error = shared.register("m", &needs).unwrap_err();
        assert_eq!((error.kind(), error.message()), (Kind::InvalidInput, text));
    }
}

/// Starts of two models that share one resource and always have requests.
fn turns(weights: [f64; 2], amounts: [u64; 2]) -> [usize; 2] {
    let shared = resources(&[("a", 2)]);
    let started: Arc<[AtomicUsize; 2]> = Arc::default();
    let all_run = Arc::new(AtomicBool::new(false));
    let models: Vec<_> = weights
        .iter()
        .zip(amounts)
        .map(|(&weight, amount)| model(&shared, needs(&[("a", amount)], weight), 2))
        .collect();
    // All requests are queued before the first start, and counting ends before either queue is empty.
    let _tickets: Vec<_> =
        models.iter().flat_map(|model| (0..900).map(|_| submit(model)).collect::<Vec<_>>()).collect();
    let threads: Vec<_> = models
        .iter()
        .enumerate()
        .flat_map(|(index, model)| {
            let (started, all_run) = (Arc::clone(&started), Arc::clone(&all_run));
            run_closure(model, move |_, _| {
                while !all_run.load(Ordering::Acquire) {
                    thread::yield_now();
                }
                if started.iter().map(|count| count.load(Ordering::Relaxed)).sum::<usize>() < 600 {
                    started[index].fetch_add(1, Ordering::Relaxed);
                }
                // A handler that sleeps, so that the turns do not depend on which threads the system runs.
                thread::sleep(Duration::from_micros(100));
                Ok(smallvec![fp32(&[1], &[2.0])])
            })
        })
        .collect();
    all_run.store(true, Ordering::Release);
    models.iter().for_each(|model| model.queue().close());
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    [0, 1].map(|index| started[index].load(Ordering::Relaxed))
}

#[test]
fn large_resource_requests_are_not_starved_by_small_ones() {
    let [small, large] = turns([1.0, 1.0], [1, 2]);
    assert!(large >= 100, "{small} and {large}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn resources_are_never_oversubscribed_and_all_requests_complete(
        model_needs in vec((0u64..3, 0u64..3, 1usize..3), 2..5),
        requests_per_model in 1usize..30,
    ) {
        let shared = resources(&[("a", 2), ("b", 2)]);
        let held: Arc<[AtomicUsize; 2]> = Arc::default();
        let models: Vec<_> = model_needs
            .iter()
            .map(|&(a, b, instances)| {
                let amounts: Vec<_> = [("a", a), ("b", b)].into_iter().filter(|(_, amount)| *amount > 0).collect();
                model(&shared, needs(&amounts, 1.0), instances)
            })
            .collect();
        let threads: Vec<_> = models
            .iter()
            .zip(&model_needs)
            .flat_map(|(model, &(a, b, _))| {
                let held = Arc::clone(&held);
                run_closure(model, move |_, _| {
                    for (index, amount) in [a, b].into_iter().enumerate() {
                        let before = held[index].fetch_add(amount as usize, Ordering::SeqCst);
                        assert!(before + amount as usize <= 2, "more than there is");
                    }
                    thread::yield_now();
                    for (index, amount) in [a, b].into_iter().enumerate() {
                        held[index].fetch_sub(amount as usize, Ordering::SeqCst);
                    }
                    Ok(smallvec![fp32(&[1], &[2.0])])
                })
            })
            .collect();
        let _tickets: Vec<_> =
            (0..requests_per_model).flat_map(|_| models.iter().map(|model| submit(model)).collect::<Vec<_>>()).collect();
        models.iter().for_each(|model| model.queue().close());
        threads.into_iter().for_each(|thread| thread.join().expect("no more is held than there is"));
        for model in &models {
            prop_assert_eq!(model.metrics().queue_depth.get(), 0);
        }
    }
}
