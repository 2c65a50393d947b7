//! Rows of different lengths: concatenated or padded; each client gets its own rows back.

use penstock_core::{
    BatchOutput, Batching, Model, ModelSpec, Pulled, Ragged, Readiness, Window, Work,
    metrics::Metrics,
    testing::{batching, fp32, fp32_spec, request, values},
};
use proptest::{collection::vec, prelude::*};
use smallvec::smallvec;
use std::{
    future::Future,
    pin::pin,
    task::{Context, Poll, Waker},
    time::Duration,
};

const FILL: f32 = -1.0;
const STEP: usize = 2;

fn spec(ragged: Ragged, window: Option<Window>) -> ModelSpec {
    let mut spec = fp32_spec("m", &[None, Some(STEP)], Some(Batching { window, ..batching(8) }));
    spec.inputs[0].ragged = Some(ragged);
    spec.outputs[0].ragged = Some(Ragged::Joined);
    spec
}

fn rows(index: usize, rows: usize, length: usize) -> penstock_core::InferRequest {
    request(fp32(&[rows, length, STEP], &vec![index as f32; rows * length * STEP]))
}

proptest! {
    #[test]
    fn ragged_batch_returns_each_client_its_rows(
        requests in vec((1usize..4, 0usize..6), 1..20),
        fills in any::<bool>(),
        edges in prop::option::of(vec(1usize..6, 1..3)),
    ) {
        let ragged = if fills { Ragged::Padded(FILL.to_le_bytes().as_slice().into()) } else { Ragged::Joined };
        let window = edges.clone().map(|mut edges| { edges.sort_unstable(); Window::Edges(edges) });
        let model = Model::new(spec(ragged, window), &Metrics::default());
        model.set_readiness(Readiness::Ready);
        let tickets: Vec<_> = requests
            .iter()
            .enumerate()
            .map(|(index, &(count, length))| model.queue().submit(rows(index, count, length), None).unwrap())
            .collect();
        let mut computed = 0;
        while let Pulled::Work(Work::Batch(mut job)) = model.queue().next_within(0, Duration::ZERO) {
            let shapes: Vec<(usize, usize)> = job
                .parts()
                .iter()
                .map(|part| { let shape = part.request.inputs[0].as_ref().unwrap().shape(); (shape[0], shape[1]) })
                .collect();
            if let Some(edges) = &edges {
                let bucket = |length| edges.iter().filter(|edge| **edge < length).count();
                prop_assert!(shapes.iter().all(|one| bucket(one.1) == bucket(shapes[0].1)));
            }
            computed += job.parts().len();
            let input = job.gather()[0].take().unwrap();
            let lengths: Vec<usize> = shapes.iter().flat_map(|&(rows, length)| vec![length; rows]).collect();
            prop_assert_eq!(&input.lengths().unwrap()[..], &lengths[..]);
            // The handler's view: rows without padding, concatenated.
            let all = values(&input);
            let joined: Vec<f32> = if fills {
                let longest = input.shape()[1];
                prop_assert_eq!(input.shape(), &[lengths.len(), longest, STEP]);
                prop_assert!(longest == 0 || lengths.contains(&longest));
                let mut joined = Vec::new();
                for (row, &length) in lengths.iter().enumerate() {
                    let row = &all[row * longest * STEP..(row + 1) * longest * STEP];
                    let (own, filling) = row.split_at(length * STEP);
                    prop_assert!(filling.iter().all(|&value| value == FILL));
                    joined.extend_from_slice(own);
                }
                joined
            } else {
                prop_assert_eq!(input.shape(), &[lengths.iter().sum(), STEP]);
                all
            };
            let output = fp32(&[joined.len() / STEP, STEP], &joined).with_lengths(lengths.into());
            job.finish(Ok(BatchOutput { outputs: smallvec![output], ..BatchOutput::default() }));
        }
        prop_assert_eq!(computed, requests.len());
        for (index, (ticket, (count, length))) in tickets.into_iter().zip(requests).enumerate() {
            let mut ticket = pin!(ticket);
            let Poll::Ready(response) = ticket.as_mut().poll(&mut Context::from_waker(Waker::noop())) else {
                panic!("a response")
            };
            let response = response.unwrap();
            prop_assert_eq!(response.outputs[0].shape(), &[count, length, STEP]);
            prop_assert!(values(&response.outputs[0]).iter().all(|&value| value == index as f32));
        }
    }
}
