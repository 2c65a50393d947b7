//! Responses of a server, as a client reads them: any bytes in any chunks.
#![no_main]

use libfuzzer_sys::{
    arbitrary::{self, Arbitrary},
    fuzz_target,
};
use penstock_core::{Result, Tensor};
use penstock_wire::{
    ClientResponse, Limits, grpc,
    rest::{self, EventDecoder},
};
use penstock_wire_fuzz::{assert_well_formed, pieces, same_outcome, within_budget};

#[derive(Arbitrary, Debug)]
struct Case<'a> {
    sizes: [u8; 4],
    json_len: u8,
    bytes: &'a [u8],
}

fuzz_target!(|case: Case<'_>| {
    within_budget(case.bytes.len(), || {
        let Case { sizes, bytes, .. } = case;
        let (json, tail) = bytes.split_at(usize::from(case.json_len).min(bytes.len()));
        same(rest_answer(json, tail, [tail].into_iter()), rest_answer(json, tail, pieces(tail, &sizes)));
        same(grpc_answer(bytes, [bytes].into_iter()), grpc_answer(bytes, pieces(bytes, &sizes)));
        assert_eq!(events([bytes].into_iter()), events(pieces(bytes, &sizes)));
        rest::error::message_of(bytes);
    });
});

fn same(whole: Result<Vec<Tensor>>, parts: Result<Vec<Tensor>>) {
    same_outcome(&whole, &parts);
    if let Ok(tensors) = whole {
        assert_well_formed(&tensors);
    }
}

fn tensors(answer: ClientResponse) -> Vec<Tensor> {
    answer.outputs.into_iter().map(|output| output.tensor).collect()
}

fn rest_answer<'a>(json: &[u8], tail: &[u8], pieces: impl Iterator<Item = &'a [u8]>) -> Result<Vec<Tensor>> {
    let mut decoder = rest::begin_response(json, tail.len(), &Limits::default())?;
    for piece in pieces {
        decoder.write(piece)?;
    }
    decoder.finish().map(tensors)
}

fn grpc_answer<'a>(message: &[u8], pieces: impl Iterator<Item = &'a [u8]>) -> Result<Vec<Tensor>> {
    let mut decoder = grpc::ResponseDecoder::new(message.len(), &Limits::default());
    for piece in pieces {
        decoder.push(piece)?;
    }
    decoder.finish().map(tensors)
}

fn events<'a>(pieces: impl Iterator<Item = &'a [u8]>) -> Vec<Vec<u8>> {
    let mut decoder = EventDecoder::new(1 << 20);
    let mut found = Vec::new();
    for piece in pieces {
        decoder.push(piece).expect("below the limit");
        found.extend(std::iter::from_fn(|| decoder.next()));
    }
    found
}
