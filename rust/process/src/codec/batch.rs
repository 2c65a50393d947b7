//! A batch on its way to a process.
//!
//! A region holds, one after another: the description of the requests and of their tensors; one byte per request, set
//! when its client disconnects; the tensors, each aligned.

use super::{
    request::RequestMessage,
    tensors::{Layout, TensorEntry},
    values::{decode, encode},
};
use crate::transport::region::{Region, aligned};
use penstock_core::{
    InferRequest, Inputs, Job, RemoteClient, Reply, Tensor, TraceText,
    copies::{self, Step as Copied},
};
use serde::{Deserialize, Serialize};
use std::{
    io,
    sync::{Arc, atomic::Ordering},
    time::Instant,
};

/// A batch as its process gets it.
#[derive(Debug)]
pub struct Batch {
    /// Its requests, and the state of their clients. Only raw requests have their inputs.
    pub requests: Vec<(InferRequest, Reply)>,
    /// The inputs of all other requests, joined.
    pub inputs: Inputs,
    /// The span of the batch.
    pub trace: Option<Box<TraceText>>,
}

#[derive(Serialize, Deserialize)]
struct BatchMessage<'a> {
    /// The slots of responses that were sent.
    freed: Vec<u32>,
    #[serde(borrow)]
    requests: Vec<RequestMessage<'a>>,
    /// `traceparent` and `tracestate`.
    trace: Option<(&'a str, &'a str)>,
    inputs: Vec<Option<TensorEntry>>,
}

/// A batch that is ready to be written to a region.
#[derive(Debug)]
pub(crate) struct EncodedBatch {
    description: Vec<u8>,
    requests: usize,
    /// The offset of each input.
    offsets: Vec<Option<usize>>,
    tensors_len: usize,
}

/// Encodes the description of a batch. `freed` are the slots that the process may use again.
pub(crate) fn encode_batch(job: &Job, freed: Vec<u32>) -> io::Result<EncodedBatch> {
    let parts = job.parts();
    let now = Instant::now();
    let joins = parts.len() > 1 && !job.spec().raw_requests;
    let (mut layout, mut inputs, mut offsets) = (Layout::default(), Vec::new(), Vec::new());
    each_input(job, |tensors| {
        let mut len = 0;
        let mut first: Option<&Tensor> = None;
        for tensor in tensors {
            len += tensor.as_slice().len();
            first.get_or_insert(tensor);
        }
        let placed = first.map(|first| {
            let mut shape = penstock_core::Shape::from_slice(first.shape());
            if joins && first.lengths().is_none() {
                shape[0] = job.padded();
            }
            layout.place(first.datatype(), &shape, first.lengths().map(|lengths| &**lengths), len)
        });
        let (input, offset) = placed.unzip();
        inputs.push(input);
        offsets.push(offset);
    });
    let description = encode(&BatchMessage {
        freed,
        requests: parts.iter().map(|part| RequestMessage::of(&part.request, now)).collect(),
        trace: job.trace().map(|trace| (&*trace.parent, &*trace.state)),
        inputs,
    })?;
    Ok(EncodedBatch { description, requests: parts.len(), offsets, tensors_len: layout.len() })
}

/// Calls `input` with the tensors of each input: one of every request, whose rows are joined; or one of a raw request.
fn each_input<'j>(job: &'j Job, mut input: impl FnMut(&mut dyn Iterator<Item = &'j Tensor>)) {
    let parts = job.parts();
    if job.spec().raw_requests {
        parts.iter().flat_map(|part| &part.request.inputs).for_each(|tensor| input(&mut tensor.iter()));
        return;
    }
    for index in 0..parts.first().map_or(0, |part| part.request.inputs.len()) {
        input(&mut parts.iter().filter_map(|part| part.request.inputs.get(index)?.as_ref()));
    }
}

impl EncodedBatch {
    /// Its size in a region.
    pub(crate) fn len(&self) -> usize {
        aligned(self.description.len() + self.requests) + self.tensors_len
    }

    /// The length of the description.
    pub(crate) fn description_len(&self) -> usize {
        self.description.len()
    }

    /// Writes the batch and joins its rows: the only copy of its tensors on this way.
    pub(crate) fn write(&self, job: &Job, region: &mut Region) {
        region.write(0, &self.description);
        for request in 0..self.requests {
            region.write(self.description.len() + request, &[0]);
        }
        let start = aligned(self.description.len() + self.requests);
        let mut offsets = self.offsets.iter();
        each_input(job, |tensors| {
            let Some(begin) = offsets.next().copied().flatten() else { return };
            let mut offset = start + begin;
            for tensor in tensors {
                region.write(offset, tensor.as_slice());
                offset += tensor.as_slice().len();
            }
            copies::count(Copied::Gather, offset - start - begin);
        });
    }

    /// Marks the requests whose clients have disconnected. Returns whether that is all of them.
    pub(crate) fn mark_disconnected(&self, job: &Job, region: &Region) -> bool {
        let mut all = true;
        for (request, part) in job.parts().iter().enumerate() {
            let left = part.is_abandoned();
            all &= left;
            if left && let Some(flag) = region.flag(self.description.len() + request) {
                flag.store(1, Ordering::Release);
            }
        }
        all
    }

    /// Marks all requests of the batch as abandoned.
    pub(crate) fn mark_all_disconnected(&self, region: &Region) {
        let flags = (0..self.requests).filter_map(|request| region.flag(self.description.len() + request));
        flags.for_each(|flag| flag.store(1, Ordering::Release));
    }
}

/// A client, as far as the process can see it.
#[derive(Debug)]
struct ClientFlag {
    region: Arc<Region>,
    offset: usize,
}

impl RemoteClient for ClientFlag {
    fn is_abandoned(&self) -> bool {
        self.region.flag(self.offset).is_some_and(|flag| flag.load(Ordering::Acquire) != 0)
    }
}

/// Decodes a batch, and the slots that are free again; `None` for a broken description.
pub(crate) fn decode_batch(region: &Arc<Region>, len: usize) -> Option<(Batch, Vec<u32>)> {
    let description = region.copied(0..len)?;
    let message: BatchMessage<'_> = decode(&description)?;
    let now = Instant::now();
    let start = aligned(len.checked_add(message.requests.len())?);
    let request = |(index, request): (usize, RequestMessage<'_>)| {
        let client = Arc::new(ClientFlag { region: Arc::clone(region), offset: len + index });
        Some((request.request(now)?, Reply::remote(client)))
    };
    let mut requests = message.requests.into_iter().enumerate().map(request).collect::<Option<Vec<_>>>()?;
    let input = |entry: Option<TensorEntry>| match entry {
        None => Some(None),
        Some(entry) => entry.lend(region, start).map(Some),
    };
    let mut inputs = message.inputs.into_iter().map(input).collect::<Option<Inputs>>()?;
    // Raw requests get their own inputs back, from the last one on.
    let mut left = inputs.len();
    for (own, raw) in
        requests.iter_mut().rev().filter_map(|(request, _)| Some((&mut request.inputs, request.raw.as_ref()?)))
    {
        left = left.checked_sub(raw.names.len())?;
        *own = inputs.drain(left..).collect();
    }
    let trace = message.trace;
    let trace = trace.map(|(parent, state)| Box::new(TraceText { parent: parent.to_owned(), state: state.to_owned() }));
    Some((Batch { requests, inputs, trace }, message.freed))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::request::decode_sequences;
    use penstock_core::{
        ClientCertificate, ClientIdentity, ModelPatterns, ModelSpec, Parameter, Pulled, RawRequest, RequestContext,
        RequestMetadata, Schedule, SequenceId, Step, Work,
        metrics::Metrics,
        queue::Queue,
        testing::{batching, fp32, fp32_spec, request, values},
    };
    use proptest::prelude::*;
    use std::{sync::Arc, time::Duration};

    fn metadata(id: &str) -> Option<Box<RequestMetadata>> {
        let parameters =
            vec![("share".to_owned(), Parameter::List(vec![Parameter::Float(0.5), Parameter::Bool(true)]))];
        let headers = [("x", "y")].into_iter().collect();
        Some(Box::new(RequestMetadata {
            id: id.to_owned(),
            parameters,
            headers,
            outputs: Some(Box::new([1, 0])),
            client: Some(Arc::new(client())),
        }))
    }

    fn client() -> ClientIdentity {
        let texts = |text: &str| vec![text.to_owned()];
        let certificate = ClientCertificate {
            subject: "CN=a".to_owned(),
            dns: texts("a.test"),
            uris: texts("spiffe://a"),
            fingerprint: "0a".to_owned(),
        };
        ClientIdentity {
            key: Some("batch".into()),
            address: Some([10, 0, 0, 1].into()),
            certificate: Some(Arc::new(certificate)),
            models: Some(Arc::new(ModelPatterns::new(["bert*", "!x"]))),
        }
    }

    #[test]
    fn batch_round_trips_through_a_region() {
        let spec = Arc::new(fp32_spec("m", &[Some(2)], Some(batching(8))));
        let queue = Arc::new(Queue::new(Arc::clone(&spec), Arc::new(Metrics::default().model(&spec))));
        let step = Step { id: SequenceId::Text("s".into()), start: false, end: true };
        let first = InferRequest {
            metadata: metadata("one"),
            context: Some(Box::new(RequestContext { id: "ü".to_owned(), trace: None })),
            deadline: Some(Instant::now() + Duration::from_secs(60)),
            schedule: Schedule { priority: 3, step: Some(Box::new(step.clone())), ..Schedule::default() },
            ..request(fp32(&[2, 2], &[1., 2., 3., 4.]))
        };
        let _one = queue.submit(first, None).unwrap();
        let two = queue.submit(request(fp32(&[1, 2], &[5., 6.])), None).unwrap();
        let Pulled::Work(Work::Batch(job)) = queue.next_within(0, Duration::ZERO) else { panic!("a batch") };
        let job = job.with_trace(Some(TraceText { parent: "00-1".to_owned(), state: "a=b".to_owned() }));

        let encoded = encode_batch(&job, vec![4, 9]).unwrap();
        let (mut region, file) = Region::create(encoded.len()).unwrap();
        encoded.write(&job, &mut region);
        let adopted = Arc::new(Region::adopt(&file, true).unwrap());
        let (Batch { requests, inputs, trace }, free) = decode_batch(&adopted, encoded.description_len()).unwrap();
        assert_eq!(free, [4, 9]);
        assert_eq!(values(inputs[0].as_ref().unwrap()), [1., 2., 3., 4., 5., 6.]);
        assert_eq!(inputs[0].as_ref().unwrap().shape(), [3, 2]);
        let [(first, first_reply), (second, second_reply)] = &requests[..] else { panic!("two requests") };
        assert_eq!((first.rows, second.rows), (2, 1));
        assert_eq!(first.context.as_ref().map(|origin| &*origin.id), Some("ü"));
        assert_eq!(trace.as_deref(), job.trace());
        assert_eq!(trace.map(|trace| trace.state).as_deref(), Some("a=b"));
        assert!(second.context.is_none());
        assert_eq!(format!("{:?}", first.metadata), format!("{:?}", metadata("one")));
        assert_eq!(first.schedule, Schedule { priority: 3, step: Some(Box::new(step)), ..Schedule::default() });
        assert!(first.deadline.is_some_and(|at| at > Instant::now() + Duration::from_secs(50)));
        assert!(second.metadata.is_none() && second.deadline.is_none());

        drop(two);
        assert!(!encoded.mark_disconnected(&job, &region));
        assert!(!first_reply.is_abandoned() && second_reply.is_abandoned());
        encoded.mark_all_disconnected(&region);
        assert!(first_reply.is_abandoned());
        job.finish(Err(penstock_core::Error::handler("enough")));
    }

    #[test]
    fn raw_requests_retain_their_tensors_and_names() {
        let spec = ModelSpec { inputs: Vec::new(), raw_requests: true, ..fp32_spec("m", &[], Some(batching(8))) };
        let spec = Arc::new(spec);
        let queue = Arc::new(Queue::new(Arc::clone(&spec), Arc::new(Metrics::default().model(&spec))));
        let raw_request = |tensors: &[(&str, &[usize], &[f32])]| {
            let names = tensors.iter().map(|&(name, ..)| name.into()).collect();
            InferRequest {
                inputs: tensors.iter().map(|&(_, shape, values)| Some(fp32(shape, values))).collect(),
                raw: Some(Box::new(RawRequest { names, ..RawRequest::default() })),
                rows: 1,
                ..request(fp32(&[], &[0.0]))
            }
        };
        let _tickets = [
            queue.submit(raw_request(&[("a", &[2], &[1., 2.]), ("b", &[], &[3.])]), None).unwrap(),
            queue.submit(raw_request(&[]), None).unwrap(),
            queue.submit(raw_request(&[("c", &[1, 1], &[4.])]), None).unwrap(),
        ];
        let Pulled::Work(Work::Batch(job)) = queue.next_within(0, Duration::ZERO) else { panic!("a batch") };
        let encoded = encode_batch(&job, Vec::new()).unwrap();
        let (mut region, file) = Region::create(encoded.len()).unwrap();
        encoded.write(&job, &mut region);
        let adopted = Arc::new(Region::adopt(&file, true).unwrap());
        let (Batch { requests, inputs, .. }, _) = decode_batch(&adopted, encoded.description_len()).unwrap();
        assert!(inputs.is_empty());
        let shapes = |request: &InferRequest| request.inputs.iter().flatten().map(|t| t.shape().to_vec()).collect();
        let read: Vec<Vec<Vec<usize>>> = requests.iter().map(|(request, _)| shapes(request)).collect();
        assert_eq!(read, [vec![vec![2], vec![]], vec![], vec![vec![1, 1]]]);
        assert_eq!(values(requests[0].0.inputs[1].as_ref().unwrap()), [3.]);
        assert_eq!(*requests[2].0.raw.as_ref().unwrap().names, ["c".into()]);
        job.finish(Err(penstock_core::Error::handler("enough")));
    }

    proptest! {
        #[test]
        fn arbitrary_descriptions_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let (mut region, _file) = Region::create(bytes.len()).unwrap();
            region.write(0, &bytes);
            let region = Arc::new(region);
            let _ = decode_batch(&region, bytes.len());
            let _ = decode_sequences(&bytes);
        }
    }
}
