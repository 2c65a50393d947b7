//! Displacement in a full queue: the lowest priority that arrived last goes, and only for a higher one.

use penstock_core::{
    Kind, Level, Model, ModelSpec, Queueing, Readiness, Result, Ticket,
    metrics::Metrics,
    testing::{fp32, fp32_spec, request},
};
use proptest::prelude::*;
use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, Waker},
};

fn model(max_queue: usize, queueing: Queueing) -> Arc<Model> {
    let spec =
        ModelSpec { max_queue, queueing, ..fp32_spec("m", &[Some(1)], Some(penstock_core::testing::batching(8))) };
    let model = Model::new(spec, &Metrics::default());
    model.set_readiness(Readiness::Ready);
    Arc::new(model)
}

fn ranked() -> Queueing {
    Queueing { priorities: 3, default_priority: 3, ..Queueing::default() }
}

fn submit(model: &Model, priority: u64, rows: usize) -> Result<Ticket> {
    let mut request = request(fp32(&[rows, 1], &vec![0.0; rows]));
    request.schedule.priority = priority;
    model.queue().submit(request, None)
}

fn is_displaced(ticket: &mut Ticket) -> bool {
    match Pin::new(ticket).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Pending => false,
        Poll::Ready(Err(error)) => {
            assert_eq!(error.kind(), Kind::Overloaded);
            assert!(error.message().ends_with("has a full queue, and a request of a higher priority arrived"));
            true
        }
        Poll::Ready(Ok(_)) => panic!("nothing computes"),
    }
}

#[test]
fn full_queue_refuses_the_lowest_priority_that_arrived_last() {
    let model = model(3, ranked());
    let (mut first, mut last) = (submit(&model, 3, 1).unwrap(), submit(&model, 3, 1).unwrap());
    let mut middle = submit(&model, 2, 1).unwrap();
    // The priority is in the body, so that the check before it lets the request pass.
    assert!(model.queue().check_capacity().is_ok());
    assert_eq!(submit(&model, 3, 1).unwrap_err().kind(), Kind::Overloaded, "never for the same level");
    let _high = submit(&model, 1, 1).unwrap();
    assert!(!is_displaced(&mut first) && is_displaced(&mut last));
    let _second = submit(&model, 2, 1).unwrap();
    assert!(is_displaced(&mut first));
    assert_eq!(submit(&model, 2, 1).unwrap_err().kind(), Kind::Overloaded);
    assert!(!is_displaced(&mut middle));
    assert_eq!((model.metrics().displaced.get(), model.metrics().queue_depth.get()), (2, 3));
}

#[test]
fn nothing_is_refused_in_vain() {
    let model = model(100, Queueing { max_rows: Some(8), ..ranked() });
    let (mut low, _high) = (submit(&model, 3, 2).unwrap(), submit(&model, 1, 5).unwrap());
    assert_eq!(submit(&model, 1, 4).unwrap_err().kind(), Kind::Overloaded, "too large, even without the low one");
    assert!(!is_displaced(&mut low));
    let _second = submit(&model, 1, 3).unwrap();
    assert!(is_displaced(&mut low));
}

#[test]
fn limit_of_a_level_is_not_extended() {
    let levels = vec![Level { max_size: Some(1), ..Level::default() }];
    let model = model(2, Queueing { levels, ..ranked() });
    let (_high, mut low) = (submit(&model, 1, 1).unwrap(), submit(&model, 3, 1).unwrap());
    assert_eq!(submit(&model, 1, 1).unwrap_err().kind(), Kind::Overloaded);
    assert!(!is_displaced(&mut low), "its own level is full");
}

#[test]
fn model_without_priorities_refuses_arrivals() {
    let model = model(1, Queueing::default());
    let mut first = submit(&model, 3, 1).unwrap();
    assert!(model.queue().check_capacity().is_err());
    assert_eq!(submit(&model, 1, 1).unwrap_err().kind(), Kind::Overloaded);
    assert!(!is_displaced(&mut first));
}

proptest! {
    /// The queue keeps the highest levels, in order of arrival within a level.
    #[test]
    fn full_queue_has_the_highest_priorities(priorities in proptest::collection::vec(1_u64..4, 1..60), max in 1_usize..8) {
        let model = model(max, ranked());
        let mut kept: Vec<(u64, usize)> = Vec::new();
        let mut tickets: Vec<Option<Ticket>> = Vec::new();
        for (number, &priority) in priorities.iter().enumerate() {
            tickets.push(submit(&model, priority, 1).ok());
            kept.push((priority, number));
            kept.sort_unstable();
            kept.truncate(max);
        }
        let waits: Vec<bool> = tickets.iter_mut().map(|ticket| ticket.as_mut().is_some_and(|one| !is_displaced(one))).collect();
        let expected: Vec<bool> = (0..priorities.len()).map(|number| kept.iter().any(|(_, one)| *one == number)).collect();
        prop_assert_eq!(waits, expected);
    }
}
