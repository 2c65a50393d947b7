//! A batch on its way to a process.
//!
//! A region holds, one after another: the description of the requests and of their tensors; a byte for
//! each caller, set when it leaves; the tensors, each aligned.

mod read;

pub(crate) use self::read::{read_batch, read_over};

use crate::{
    codec::{
        fields::Writer,
        raw_request::write_asked,
        tensors::{Layout, describe},
    },
    transport::region::{Region, aligned},
};
use penstock_core::{
    InferRequest, Inputs, Job, Reply, SequenceId, Tensor, TraceText,
    copies::{self, Step as Copied},
};
use std::{sync::atomic::Ordering, time::Instant};

/// A batch as a process gets it.
#[derive(Debug)]
pub struct Batch {
    /// Its requests, and what is known of their callers. Only requests as they are have their inputs.
    pub requests: Vec<(InferRequest, Reply)>,
    /// The inputs of all others.
    pub inputs: Inputs,
    /// The span that it is computed in.
    pub trace: Option<Box<TraceText>>,
}

/// What is to be written to a region.
#[derive(Debug)]
pub(crate) struct EncodedBatch {
    description: Vec<u8>,
    callers: usize,
    /// For each input the place of its bytes.
    places: Vec<Option<usize>>,
    tensors_len: usize,
}

const NO_DEADLINE: u64 = u64::MAX;

/// Describes a batch. `free` are the slots that are free again.
pub(crate) fn describe_batch(job: &Job, free: &[u32]) -> EncodedBatch {
    let mut out = Writer::default();
    out.number(free.len() as u64);
    free.iter().for_each(|&slot| out.number(slot.into()));
    let parts = job.parts();
    out.number(parts.len() as u64);
    let now = Instant::now();
    for part in parts {
        request(&mut out, &part.request, now);
    }
    trace(&mut out, job.trace());
    let mut places = Layout::default();
    let joins = parts.len() > 1 && !job.spec().raw_requests;
    out.number(inputs(job) as u64);
    let mut places_of = Vec::new();
    each_input(job, |tensors| {
        let mut len = 0;
        let mut first: Option<&Tensor> = None;
        for tensor in tensors {
            len += tensor.as_slice().len();
            first.get_or_insert(tensor);
        }
        out.byte(u8::from(first.is_some()));
        places_of.push(first.map(|first| {
            let mut shape = penstock_core::Shape::from_slice(first.shape());
            if joins && first.lengths().is_none() {
                shape[0] = job.padded();
            }
            describe(&mut out, &mut places, (first.datatype(), &shape, first.lengths()), len)
        }));
    });
    EncodedBatch { description: out.0, callers: parts.len(), places: places_of, tensors_len: places.total() }
}

/// How many inputs are written of a batch: those of all its requests, if these are handed on as they are.
fn inputs(job: &Job) -> usize {
    let mut counts = job.parts().iter().map(|part| part.request.inputs.len());
    if job.spec().raw_requests { counts.sum() } else { counts.next().unwrap_or(0) }
}

/// The tensors of each of them, in order: one of every request, whose rows are joined; or the only one.
fn each_input<'j>(job: &'j Job, mut input: impl FnMut(&mut dyn Iterator<Item = &'j Tensor>)) {
    let parts = job.parts();
    if job.spec().raw_requests {
        parts.iter().flat_map(|part| &part.request.inputs).for_each(|tensor| input(&mut tensor.iter()));
        return;
    }
    for index in 0..inputs(job) {
        input(&mut parts.iter().filter_map(|part| part.request.inputs.get(index)?.as_ref()));
    }
}

fn trace(out: &mut Writer, trace: Option<&TraceText>) {
    let Some(TraceText { parent, state }) = trace else { return out.byte(0) };
    out.byte(1);
    out.text(parent);
    out.text(state);
}

fn request(out: &mut Writer, request: &InferRequest, now: Instant) {
    out.number(request.rows as u64);
    match request.deadline {
        None => out.number(NO_DEADLINE),
        Some(deadline) => out.duration(deadline.saturating_duration_since(now)),
    }
    out.byte(request.protocol as u8);
    out.number(request.schedule.priority);
    match request.schedule.step.as_deref() {
        None => out.byte(0),
        Some(step) => {
            out.byte(1 + u8::from(step.start) + 2 * u8::from(step.end));
            sequence(out, &step.id);
        }
    }
    match &request.context {
        None => out.byte(0),
        Some(origin) => {
            out.byte(1);
            out.text(&origin.id);
        }
    }
    write_asked(out, request.raw.as_deref());
    let Some(caller) = &request.metadata else { return out.byte(0) };
    out.byte(1);
    out.text(&caller.id);
    out.headers(&caller.headers);
    out.parameters(&caller.parameters);
    match &caller.outputs {
        None => out.byte(0),
        Some(outputs) => {
            out.byte(1);
            out.number(outputs.len() as u64);
            outputs.iter().for_each(|&output| out.number(output as u64));
        }
    }
}

fn sequence(out: &mut Writer, id: &SequenceId) {
    match id {
        SequenceId::Number(number) => {
            out.byte(0);
            out.number(*number);
        }
        SequenceId::Text(text) => {
            out.byte(1);
            out.text(text);
        }
    }
}

/// The description of sequences that are over.
pub(crate) fn describe_over(ids: &[SequenceId]) -> Vec<u8> {
    let mut out = Writer::default();
    out.number(ids.len() as u64);
    ids.iter().for_each(|id| sequence(&mut out, id));
    out.0
}

impl EncodedBatch {
    /// How much room it needs.
    pub(crate) fn len(&self) -> usize {
        aligned(self.description.len() + self.callers) + self.tensors_len
    }

    /// The length of the description.
    pub(crate) fn description_len(&self) -> usize {
        self.description.len()
    }

    /// Writes a batch, and joins its rows while it does: the one copy of its tensors on this way.
    pub(crate) fn write(&self, job: &Job, region: &mut Region) {
        region.write(0, &self.description);
        for caller in 0..self.callers {
            region.write(self.description.len() + caller, &[0]);
        }
        let start = aligned(self.description.len() + self.callers);
        let mut places = self.places.iter();
        each_input(job, |tensors| {
            let Some(place) = places.next().copied().flatten() else { return };
            let mut offset = start + place;
            for tensor in tensors {
                region.write(offset, tensor.as_slice());
                offset += tensor.as_slice().len();
            }
            copies::count(Copied::Gather, offset - start - place);
        });
    }

    /// Tells the process which callers have left by now. Whether that is all of them.
    pub(crate) fn tell_who_left(&self, job: &Job, region: &Region) -> bool {
        let mut all = true;
        for (caller, part) in job.parts().iter().enumerate() {
            let left = part.has_left();
            all &= left;
            if left && let Some(flag) = region.flag(self.description.len() + caller) {
                flag.store(1, Ordering::Release);
            }
        }
        all
    }
}

impl EncodedBatch {
    /// Tells the process that nobody wants more of this batch.
    pub(crate) fn tell_all_left(&self, region: &Region) {
        let flags = (0..self.callers).filter_map(|caller| region.flag(self.description.len() + caller));
        flags.for_each(|flag| flag.store(1, Ordering::Release));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use penstock_core::{
        ModelSpec, Parameter, Pulled, RawRequest, RequestContext, RequestMetadata, Schedule, Step, Work,
        metrics::Metrics,
        queue::Queue,
        testing::{batching, fp32, fp32_spec, request, values},
    };
    use proptest::prelude::*;
    use std::{sync::Arc, time::Duration};

    fn caller(id: &str) -> Option<Box<RequestMetadata>> {
        let parameters =
            vec![("share".to_owned(), Parameter::List(vec![Parameter::Float(0.5), Parameter::Bool(true)]))];
        let headers = [("x", "y")].into_iter().collect();
        Some(Box::new(RequestMetadata { id: id.to_owned(), parameters, headers, outputs: Some(Box::new([1, 0])) }))
    }

    #[test]
    fn a_batch_arrives_as_it_was_sent() {
        let spec = Arc::new(fp32_spec("m", &[Some(2)], Some(batching(8))));
        let queue = Arc::new(Queue::new(Arc::clone(&spec), Arc::new(Metrics::default().model(&spec))));
        let step = Step { id: SequenceId::Text("s".into()), start: false, end: true };
        let first = InferRequest {
            metadata: caller("one"),
            context: Some(Box::new(RequestContext { id: "ü".to_owned(), trace: None })),
            deadline: Some(Instant::now() + Duration::from_secs(60)),
            schedule: Schedule { priority: 3, step: Some(Box::new(step.clone())), ..Schedule::default() },
            ..request(fp32(&[2, 2], &[1., 2., 3., 4.]))
        };
        let _one = queue.submit(first, None).unwrap();
        let two = queue.submit(request(fp32(&[1, 2], &[5., 6.])), None).unwrap();
        let Pulled::Work(Work::Batch(job)) = queue.next_within(0, Duration::ZERO) else { panic!("a batch") };
        let job = job.under(Some(TraceText { parent: "00-1".to_owned(), state: "a=b".to_owned() }));

        let written = describe_batch(&job, &[4, 9]);
        let (mut region, file) = Region::create(written.len()).unwrap();
        written.write(&job, &mut region);
        let theirs = Arc::new(Region::adopt(&file, true).unwrap());
        let (Batch { requests, inputs, trace }, free) = read_batch(&theirs, written.description_len()).unwrap();
        assert_eq!(free, [4, 9]);
        assert_eq!(values(inputs[0].as_ref().unwrap()), [1., 2., 3., 4., 5., 6.]);
        assert_eq!(inputs[0].as_ref().unwrap().shape(), [3, 2]);
        let [(first, first_reply), (second, second_reply)] = &requests[..] else { panic!("two requests") };
        assert_eq!((first.rows, second.rows), (2, 1));
        assert_eq!(first.context.as_ref().map(|origin| &*origin.id), Some("ü"));
        assert_eq!(trace.as_deref(), job.trace());
        assert_eq!(trace.map(|trace| trace.state).as_deref(), Some("a=b"));
        assert!(second.context.is_none());
        assert_eq!(format!("{:?}", first.metadata), format!("{:?}", caller("one")));
        assert_eq!(first.schedule, Schedule { priority: 3, step: Some(Box::new(step)), ..Schedule::default() });
        assert!(first.deadline.is_some_and(|at| at > Instant::now() + Duration::from_secs(50)));
        assert!(second.metadata.is_none() && second.deadline.is_none());

        drop(two);
        assert!(!written.tell_who_left(&job, &region));
        assert!(!first_reply.is_abandoned() && second_reply.is_abandoned());
        written.tell_all_left(&region);
        assert!(first_reply.is_abandoned());
        job.finish(Err(penstock_core::Error::handler("enough")));
    }

    #[test]
    fn requests_as_they_are_keep_their_own_tensors() {
        let spec = ModelSpec { inputs: Vec::new(), raw_requests: true, ..fp32_spec("m", &[], Some(batching(8))) };
        let spec = Arc::new(spec);
        let queue = Arc::new(Queue::new(Arc::clone(&spec), Arc::new(Metrics::default().model(&spec))));
        let of = |tensors: &[(&str, &[usize], &[f32])]| {
            let names = tensors.iter().map(|&(name, ..)| name.into()).collect();
            InferRequest {
                inputs: tensors.iter().map(|&(_, shape, values)| Some(fp32(shape, values))).collect(),
                raw: Some(Box::new(RawRequest { names, ..RawRequest::default() })),
                rows: 1,
                ..request(fp32(&[], &[0.0]))
            }
        };
        let _tickets = [
            queue.submit(of(&[("a", &[2], &[1., 2.]), ("b", &[], &[3.])]), None).unwrap(),
            queue.submit(of(&[]), None).unwrap(),
            queue.submit(of(&[("c", &[1, 1], &[4.])]), None).unwrap(),
        ];
        let Pulled::Work(Work::Batch(job)) = queue.next_within(0, Duration::ZERO) else { panic!("a batch") };
        let written = describe_batch(&job, &[]);
        let (mut region, file) = Region::create(written.len()).unwrap();
        written.write(&job, &mut region);
        let theirs = Arc::new(Region::adopt(&file, true).unwrap());
        let (Batch { requests, inputs, .. }, _) = read_batch(&theirs, written.description_len()).unwrap();
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
        fn any_description_is_read_without_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let (mut region, _file) = Region::create(bytes.len()).unwrap();
            region.write(0, &bytes);
            let region = Arc::new(region);
            let _ = read_batch(&region, bytes.len());
            let _ = read_over(&bytes);
        }
    }
}
