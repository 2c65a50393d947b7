//! A batch as its process reads it.

use super::{Batch, NO_DEADLINE};
use crate::{
    codec::{fields::Reader, raw_request::read_asked, tensors::placed},
    transport::region::{Region, aligned},
};
use penstock_core::{
    InferRequest, Inputs, Protocol, RemoteClient, Reply, RequestContext, RequestMetadata, Schedule, SequenceId, Step,
    TraceText,
};
use std::{
    sync::{Arc, atomic::Ordering},
    time::{Duration, Instant},
};

/// A caller, as far as its process can see it.
#[derive(Debug)]
struct Seen {
    region: Arc<Region>,
    flag: usize,
}

impl RemoteClient for Seen {
    fn has_left(&self) -> bool {
        self.region.flag(self.flag).is_some_and(|flag| flag.load(Ordering::Acquire) != 0)
    }
}

/// Reads a batch and the slots that are free again; `None` if it is broken.
pub(crate) fn read_batch(region: &Arc<Region>, len: usize) -> Option<(Batch, Vec<u32>)> {
    let description = region.copied(0..len)?;
    let mut from = Reader(&description);
    let free = (0..from.count()?).map(|_| u32::try_from(from.number()?).ok()).collect::<Option<_>>()?;
    let callers = from.count()?;
    let now = Instant::now();
    let requests = (0..callers).map(|caller| {
        let request = read_request(&mut from, now)?;
        Some((request, Reply::elsewhere(Arc::new(Seen { region: Arc::clone(region), flag: len + caller }))))
    });
    let mut requests = requests.collect::<Option<Vec<_>>>()?;
    let trace = read_trace(&mut from)?;
    let start = aligned(len + callers);
    let count = from.count()?;
    let input = |_| match from.byte()? {
        0 => Some(None),
        _ => placed(&mut from)?.lent(region, start).map(Some),
    };
    let mut inputs = (0..count).map(input).collect::<Option<Inputs>>()?;
    // Requests as they are have their own back.
    let mut left = inputs.len();
    for (request, asked) in
        requests.iter_mut().rev().filter_map(|(request, _)| Some((&mut request.inputs, request.raw.as_ref()?)))
    {
        left = left.checked_sub(asked.names.len())?;
        *request = inputs.drain(left..).collect();
    }
    Some((Batch { requests, inputs, trace }, free))
}

fn read_request(from: &mut Reader<'_>, now: Instant) -> Option<InferRequest> {
    let rows = from.size()?;
    let deadline = Some(from.number()?).filter(|&left| left != NO_DEADLINE);
    let deadline = deadline.and_then(|left| now.checked_add(Duration::from_nanos(left)));
    let protocol = [Protocol::Http, Protocol::Grpc, Protocol::InProcess].into_iter().nth(from.byte()?.into())?;
    let priority = from.number()?;
    let step = match from.byte()? {
        0 => None,
        marks => {
            Some(Box::new(Step { id: read_sequence(from)?, start: (marks - 1) & 1 != 0, end: (marks - 1) & 2 != 0 }))
        }
    };
    let context = match from.byte()? {
        0 => None,
        _ => Some(Box::new(RequestContext { id: from.text()?, trace: None })),
    };
    let raw = read_asked(from)?;
    let metadata = match from.byte()? {
        0 => None,
        _ => Some(Box::new(RequestMetadata {
            id: from.text()?,
            headers: from.headers()?,
            parameters: from.parameters()?,
            outputs: match from.byte()? {
                0 => None,
                _ => Some((0..from.count()?).map(|_| from.size()).collect::<Option<_>>()?),
            },
        })),
    };
    let schedule = Schedule { priority, step, ..Schedule::default() };
    let (inputs, takes_memory) = (Inputs::new(), false);
    Some(InferRequest { inputs, rows, metadata, deadline, protocol, schedule, takes_memory, context, raw })
}

fn read_sequence(from: &mut Reader<'_>) -> Option<SequenceId> {
    Some(match from.byte()? {
        0 => SequenceId::Number(from.number()?),
        _ => SequenceId::Text(from.text()?.into()),
    })
}

/// Reads what [`describe_over`] wrote.
pub(crate) fn read_over(description: &[u8]) -> Option<Vec<SequenceId>> {
    let mut from = Reader(description);
    (0..from.count()?).map(|_| read_sequence(&mut from)).collect()
}

fn read_trace(from: &mut Reader<'_>) -> Option<Option<Box<TraceText>>> {
    Some(match from.byte()? {
        0 => None,
        _ => Some(Box::new(TraceText { parent: from.text()?, state: from.text()? })),
    })
}
