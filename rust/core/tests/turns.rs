//! Instances that wait for the GIL before they compute. With short batches, one waits at a time.

use penstock_core::{
    BatchOutput, Batching, Job, Model, ModelSpec, Readiness, Ticket, Work,
    metrics::Metrics,
    testing::{batching, fp32, fp32_spec, request},
};
use smallvec::smallvec;
use std::{
    sync::{Arc, mpsc},
    thread,
    time::{Duration, Instant},
};

fn model(max_duration_ns: Option<u64>) -> Arc<Model> {
    model_with_instances(2, max_duration_ns)
}

fn model_with_instances(instances: usize, max_duration_ns: Option<u64>) -> Arc<Model> {
    let batching = Batching { max_duration_ns, hold: false, ..batching(1) };
    let spec = ModelSpec { instances, ..fp32_spec("m", &[Some(1)], Some(batching)) };
    let model = Model::new(spec, &Metrics::default());
    model.set_readiness(Readiness::Ready);
    Arc::new(model)
}

fn submit(model: &Model) -> Ticket {
    model.queue().submit(request(fp32(&[1, 1], &[1.0])), None).unwrap()
}

/// Receives the batches of an instance, on a new thread.
fn pull_on_thread(model: &Arc<Model>, instance: usize) -> mpsc::Receiver<Job> {
    let (queue, (jobs, received)) = (Arc::clone(model.queue()), mpsc::channel());
    thread::spawn(move || {
        let Some(Work::Batch(job)) = queue.next_to_enter(instance) else { panic!("it is a batch") };
        let _ = jobs.send(job);
    });
    received
}

fn finish(job: Job) {
    job.finish(Ok(BatchOutput { outputs: smallvec![fp32(&[1, 1], &[2.0])], ..BatchOutput::default() }));
}

#[test]
fn second_instance_waits_until_the_first_has_entered() {
    let model = model(Some(1_000_000));
    let _tickets = [submit(&model), submit(&model)];
    let mut first = pull_on_thread(&model, 0).recv().unwrap();
    let second = pull_on_thread(&model, 1);
    assert!(second.recv_timeout(Duration::from_millis(50)).is_err());
    first.entered();
    // It computes for longer than it should, so the second need not wait for its end.
    finish(second.recv().unwrap());
    finish(first);
}

#[test]
fn dropped_job_does_not_block_other_instances() {
    let model = model(Some(1_000_000));
    let _tickets = [submit(&model), submit(&model)];
    drop(pull_on_thread(&model, 0).recv().unwrap());
    finish(pull_on_thread(&model, 1).recv().unwrap());
}

#[test]
fn batches_without_max_duration_do_not_wait_for_each_other() {
    let model = model(None);
    let _tickets = [submit(&model), submit(&model)];
    let (first, second) = (pull_on_thread(&model, 0), pull_on_thread(&model, 1));
    let both = [first.recv().unwrap(), second.recv().unwrap()];
    both.into_iter().for_each(finish);
}

#[test]
fn idle_instance_is_woken_after_another_deferred() {
    let model = model_with_instances(3, Some(1_000_000));
    let instances = [0, 1, 2].map(|instance| pull_on_thread(&model, instance));
    let next = |label: &str| {
        let end = Instant::now() + Duration::from_secs(10);
        loop {
            if let Some(mut job) = instances.iter().find_map(|instance| instance.try_recv().ok()) {
                job.entered();
                return job;
            }
            assert!(Instant::now() < end, "{label} waits while an instance sleeps");
            thread::sleep(Duration::from_millis(1));
        }
    };
    // Until all instances sleep: an instance that is awake finds a request without a wake-up.
    thread::sleep(Duration::from_millis(20));
    let (_first, first) = (submit(&model), next("the first"));
    // One instance checks and waits briefly, as the first may finish. It then takes the second; no instance waits.
    let (_second, second) = (submit(&model), next("the second"));
    let (_third, third) = (submit(&model), next("the third"));
    [first, second, third].into_iter().for_each(finish);
}
