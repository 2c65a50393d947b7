//! Batches with a cost per row: within the limit, as large as it allows, and in order.

use penstock_core::{
    BatchOutput, Batching, Dim, Kind, Model, Oversize, Pulled, Readiness, RowCost, Term, Work,
    batch::policy::Reason,
    metrics::Metrics,
    testing::{batching, fp32, fp32_spec, request, values},
};
use proptest::{collection::vec, prelude::*};
use smallvec::smallvec;
use std::time::Duration;

const MAX_SIZE: usize = 8;

/// Each row costs its width.
fn by_width(max_cost: u64, oversize: Oversize) -> Batching {
    let dim = Dim { input: 0, axis: 0 };
    Batching {
        cost: Some(RowCost { terms: vec![Term { factor: 1, dims: vec![dim] }], max_cost }),
        oversize,
        ..batching(MAX_SIZE)
    }
}

fn model(batching: Batching) -> Model {
    let model = Model::new(fp32_spec("m", &[None], Some(batching)), &Metrics::default());
    model.set_readiness(Readiness::Ready);
    model
}

fn rows(first: f32, rows: usize, width: usize) -> penstock_core::InferRequest {
    request(fp32(&[rows, width], &vec![first; rows * width]))
}

#[test]
fn overflowing_row_cost_saturates() {
    let dim = Dim { input: 0, axis: 0 };
    let squared = Term { factor: u64::MAX / 2, dims: vec![dim, dim] };
    let cost = RowCost { terms: vec![squared, Term { factor: 7, dims: vec![] }], max_cost: 10 };
    assert_eq!(cost.of_row(&rows(0., 1, 3).inputs), u64::MAX);
    assert_eq!(cost.of_row(&smallvec![None]), 7);
}

#[test]
fn requests_over_max_cost_are_refused_or_split() {
    let submit = |oversize, count, width| {
        let model = model(by_width(10, oversize));
        let future = Box::pin(model.infer(rows(1., count, width), None));
        let mut future = future;
        let waker = std::task::Waker::noop();
        let polled = std::future::Future::poll(future.as_mut(), &mut std::task::Context::from_waker(waker));
        let refused = match polled {
            std::task::Poll::Ready(Err(error)) => Some((error.kind(), error.message().to_owned())),
            _ => None,
        };
        (refused, model.metrics().queue_depth.get())
    };
    let text = "the request costs 12, 4 for each of its 3 rows, model 'm' accepts at most 10".to_owned();
    assert_eq!(submit(Oversize::Refuse, 3, 4), (Some((Kind::InvalidInput, text)), 0));
    assert_eq!(submit(Oversize::Split, 3, 4), (None, 2));
    let text = "a row of the request costs 11, model 'm' computes at most 10".to_owned();
    assert_eq!(submit(Oversize::Split, 1, 11), (Some((Kind::InvalidInput, text)), 0));
    // An empty tensor costs 0, whatever its width.
    assert_eq!(submit(Oversize::Refuse, 0, 11), (None, 1));
}

proptest! {
    #[test]
    fn batches_stay_within_max_cost_in_arrival_order(
        requests in vec((1usize..4, 1usize..6), 1..30),
        max_cost in 15u64..30,
    ) {
        let model = model(by_width(max_cost, Oversize::Refuse));
        let mut waiting: Vec<(usize, usize, usize)> =
            requests.iter().enumerate().map(|(index, &(rows, width))| (index, rows, width)).collect();
        let _tickets: Vec<_> = waiting
            .iter()
            .map(|&(index, count, width)| model.queue().submit(rows(index as f32, count, width), None).unwrap())
            .collect();
        while !waiting.is_empty() {
            let Pulled::Work(Work::Batch(mut job)) = model.queue().next_within(0, Duration::ZERO) else {
                panic!("something waits")
            };
            // The first row and the following rows of the same width, up to the first that does not fit.
            let width = waiting[0].2;
            let (mut taken, mut count, mut is_cut) = (Vec::new(), 0, false);
            for &(index, rows, own) in waiting.iter().filter(|one| one.2 == width) {
                let fits = count + rows <= MAX_SIZE && ((count + rows) * own) as u64 <= max_cost;
                if count >= MAX_SIZE || !fits && !taken.is_empty() {
                    is_cut = ((count + rows) * own) as u64 > max_cost && count < MAX_SIZE && count + rows <= MAX_SIZE;
                    break;
                }
                taken.push(index);
                count += rows;
            }
            prop_assert!((count * width) as u64 <= max_cost);
            if is_cut {
                prop_assert!(matches!(job.reason(), Reason::Cost), "{:?}", job.reason());
            }
            prop_assert_eq!(job.rows(), count);
            let inputs = job.gather();
            let got: Vec<usize> = values(inputs[0].as_ref().unwrap()).iter().map(|&value| value as usize).collect();
            let expected: Vec<usize> = waiting
                .iter()
                .filter(|one| taken.contains(&one.0))
                .flat_map(|&(index, rows, width)| vec![index; rows * width])
                .collect();
            prop_assert_eq!(got, expected);
            job.finish(Ok(BatchOutput::default()));
            waiting.retain(|one| !taken.contains(&one.0));
        }
    }
}
