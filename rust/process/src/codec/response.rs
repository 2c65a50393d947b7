//! A response on its way from a process: a description, then the tensors, each aligned.

use super::{
    raw_request::HeadMessage,
    tensors::{Layout, TensorEntry},
    user_metrics::UpdateMessage,
    values::{ErrorMessage, ParameterTokens, decode, encode},
};
use crate::transport::region::aligned;
use penstock_core::{
    BatchOutput, Error, InterpreterTimes, Outputs, Parameters, RequestOutput, Result, RowChunk, RowFailures, Tensor,
    metrics::MetricUpdate,
};
use serde::{Deserialize, Serialize};
use std::{io, mem, time::Duration};

/// A response of a process.
#[derive(Debug)]
pub(crate) enum Response {
    /// The last one, of a batch that was computed.
    Done { outputs: Outputs, failed: RowFailures, parameters: Parameters, times: InterpreterTimes },
    /// The last one, of a batch that failed.
    Failed(Error),
    /// A chunk for all rows; with `last` there is none after it.
    Chunk { outputs: Outputs, parameters: Parameters, last: bool },
    /// A chunk for each row.
    Rows { rows: Vec<RowChunk>, parameters: Parameters },
    /// One for each request: with `times` the last one of the batch, else a chunk.
    PerRequest { each: Vec<RowChunk<RequestOutput>>, parameters: Parameters, times: Option<InterpreterTimes> },
    /// The regular end of all streams.
    EndAll,
}

impl Response {
    /// The last response to a batch.
    pub(crate) fn last(result: Result<BatchOutput>) -> Self {
        match result {
            Ok(BatchOutput { per_request: Some(each), parameters, times, .. }) => {
                Self::PerRequest { each: each.into_iter().map(Into::into).collect(), parameters, times: Some(times) }
            }
            Ok(BatchOutput { outputs, failed, parameters, times, .. }) => {
                Self::Done { outputs, failed, parameters, times }
            }
            Err(error) => Self::Failed(error),
        }
    }
}

/// A response as its description has it.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct ResponseMessage<'a> {
    #[serde(borrow)]
    metrics: Vec<UpdateMessage<'a>>,
    body: BodyMessage<'a>,
}

#[derive(Debug, Serialize, Deserialize)]
enum BodyMessage<'a> {
    Done {
        #[serde(borrow)]
        failed: Vec<(usize, ErrorMessage<'a>)>,
        parameters: ParameterTokens<'a>,
        times: Times,
        outputs: Vec<TensorEntry>,
    },
    Failed(ErrorMessage<'a>),
    Chunk {
        parameters: ParameterTokens<'a>,
        last: bool,
        outputs: Vec<TensorEntry>,
    },
    Rows {
        parameters: ParameterTokens<'a>,
        rows: Vec<RowMessage<'a, Vec<TensorEntry>>>,
    },
    PerRequest {
        parameters: ParameterTokens<'a>,
        times: Option<Times>,
        each: Vec<RowMessage<'a, OutputMessage<'a>>>,
    },
    EndAll,
}

#[derive(Debug, Serialize, Deserialize)]
enum RowMessage<'a, T> {
    Nothing,
    More(T),
    Last(T),
    End,
    #[serde(borrow)]
    Fail(ErrorMessage<'a>),
}

#[derive(Debug, Serialize, Deserialize)]
struct OutputMessage<'a> {
    #[serde(borrow)]
    parameters: ParameterTokens<'a>,
    head: Option<HeadMessage<'a>>,
    outputs: Vec<TensorEntry>,
}

/// Handler, its processor time, boundary, and conversion of its outputs.
type Times = [Duration; 4];

/// A response that is ready to be written to a region.
#[derive(Debug)]
pub(crate) struct EncodedResponse {
    pub(crate) description: Vec<u8>,
    /// The tensors and their offsets from [`Self::start`].
    pub(crate) tensors: Vec<(usize, Tensor)>,
    tensors_len: usize,
}

impl EncodedResponse {
    /// A description without tensors.
    pub(crate) fn bare(description: Vec<u8>) -> Self {
        Self { description, tensors: Vec::new(), tensors_len: 0 }
    }

    /// Its size in a region.
    pub(crate) fn len(&self) -> usize {
        self.start() + self.tensors_len
    }

    /// The offset of its tensors.
    pub(crate) fn start(&self) -> usize {
        aligned(self.description.len())
    }
}

/// Encodes a response and the metric updates that go with it.
pub(crate) fn encode_response(mut response: Response, metrics: &[MetricUpdate]) -> io::Result<EncodedResponse> {
    let mut placed = Placed::default();
    let body = match &mut response {
        Response::Done { outputs, failed, parameters, times } => BodyMessage::Done {
            failed: failed.iter().map(|(row, error)| (*row, error.into())).collect(),
            parameters: (&*parameters).into(),
            times: to_times(*times),
            outputs: placed.take(outputs),
        },
        Response::Failed(error) => BodyMessage::Failed((&*error).into()),
        Response::Chunk { outputs, parameters, last } => {
            BodyMessage::Chunk { parameters: (&*parameters).into(), last: *last, outputs: placed.take(outputs) }
        }
        Response::Rows { rows, parameters } => BodyMessage::Rows {
            parameters: (&*parameters).into(),
            rows: rows.iter_mut().map(|row| to_row(row, |outputs| placed.take(outputs))).collect(),
        },
        Response::PerRequest { each, parameters, times } => BodyMessage::PerRequest {
            parameters: (&*parameters).into(),
            times: times.map(to_times),
            each: each.iter_mut().map(|row| to_row(row, |output| to_output(output, &mut placed))).collect(),
        },
        Response::EndAll => BodyMessage::EndAll,
    };
    let description = encode(&ResponseMessage { metrics: metrics.iter().map(Into::into).collect(), body })?;
    Ok(EncodedResponse { description, tensors: placed.tensors, tensors_len: placed.layout.len() })
}

/// The tensors of a response that have a place.
#[derive(Default)]
struct Placed {
    layout: Layout,
    tensors: Vec<(usize, Tensor)>,
}

impl Placed {
    fn take(&mut self, outputs: &mut Outputs) -> Vec<TensorEntry> {
        let place = |tensor: Tensor| {
            if tensor.is_absent() {
                return TensorEntry::absent(tensor.datatype());
            }
            let row_lengths = tensor.lengths().map(|lengths| &**lengths);
            let len = tensor.as_slice().len();
            let (entry, offset) = self.layout.place(tensor.datatype(), tensor.shape(), row_lengths, len);
            self.tensors.push((offset, tensor));
            entry
        };
        mem::take(outputs).into_iter().map(place).collect()
    }
}

fn to_row<'a, T, U>(row: &'a mut RowChunk<T>, message: impl FnOnce(&'a mut T) -> U) -> RowMessage<'a, U> {
    match row {
        RowChunk::Nothing => RowMessage::Nothing,
        RowChunk::More(output) => RowMessage::More(message(output)),
        RowChunk::Last(output) => RowMessage::Last(message(output)),
        RowChunk::End => RowMessage::End,
        RowChunk::Fail(error) => RowMessage::Fail((&*error).into()),
    }
}

fn to_output<'a>(output: &'a mut RequestOutput, placed: &mut Placed) -> OutputMessage<'a> {
    OutputMessage {
        outputs: placed.take(&mut output.outputs),
        parameters: (&output.parameters).into(),
        head: output.head.as_deref().map(Into::into),
    }
}

fn to_times(times: InterpreterTimes) -> Times {
    [times.handler, times.handler_cpu, times.boundary, times.output]
}

/// Makes tensors of their entries; `None` for broken ones.
type MakeTensors<'m> = &'m dyn Fn(Vec<TensorEntry>) -> Option<Outputs>;

impl<'a> ResponseMessage<'a> {
    /// Decodes a description; `None` for a broken one.
    pub(crate) fn decode(description: &'a [u8]) -> Option<Self> {
        decode(description)
    }

    /// The size of its tensors, for a response to all rows; else 0.
    pub(crate) fn tensors_len(&self) -> usize {
        match &self.body {
            BodyMessage::Done { outputs, .. } | BodyMessage::Chunk { outputs, .. } => {
                outputs.iter().map(TensorEntry::len).fold(0, usize::saturating_add)
            }
            _ => 0,
        }
    }

    /// The response and its metric updates; `None` for one that no process may send.
    pub(crate) fn response(self, tensors: MakeTensors<'_>) -> Option<(Response, Vec<MetricUpdate>)> {
        let metrics = self.metrics.into_iter().map(UpdateMessage::update).collect::<Option<_>>()?;
        let response = match self.body {
            BodyMessage::Done { failed, parameters, times, outputs } => {
                let failed = failed.into_iter().map(|(row, error)| Some((row, error.error()?)));
                Response::Done {
                    outputs: tensors(outputs)?,
                    failed: RowFailures::new(failed.collect::<Option<_>>()?),
                    parameters: parameters.parameters()?,
                    times: from_times(times),
                }
            }
            BodyMessage::Failed(error) => Response::Failed(error.error()?),
            BodyMessage::Chunk { parameters, last, outputs } => {
                Response::Chunk { outputs: tensors(outputs)?, parameters: parameters.parameters()?, last }
            }
            BodyMessage::Rows { parameters, rows } => Response::Rows {
                rows: rows.into_iter().map(|row| from_row(row, tensors)).collect::<Option<_>>()?,
                parameters: parameters.parameters()?,
            },
            BodyMessage::PerRequest { parameters, times, each } => {
                let output = |message| from_output(message, tensors);
                Response::PerRequest {
                    each: each.into_iter().map(|row| from_row(row, output)).collect::<Option<_>>()?,
                    parameters: parameters.parameters()?,
                    times: times.map(from_times),
                }
            }
            BodyMessage::EndAll => Response::EndAll,
        };
        Some((response, metrics))
    }
}

fn from_row<T, U>(row: RowMessage<'_, T>, make: impl FnOnce(T) -> Option<U>) -> Option<RowChunk<U>> {
    Some(match row {
        RowMessage::Nothing => RowChunk::Nothing,
        RowMessage::More(message) => RowChunk::More(make(message)?),
        RowMessage::Last(message) => RowChunk::Last(make(message)?),
        RowMessage::End => RowChunk::End,
        RowMessage::Fail(error) => RowChunk::Fail(error.error()?),
    })
}

fn from_output(message: OutputMessage<'_>, tensors: MakeTensors<'_>) -> Option<RequestOutput> {
    Some(RequestOutput {
        outputs: tensors(message.outputs)?,
        parameters: message.parameters.parameters()?,
        head: message.head.map(|head| Box::new(head.head())),
    })
}

fn from_times([handler, handler_cpu, boundary, hand_out]: Times) -> InterpreterTimes {
    InterpreterTimes { handler, handler_cpu, boundary, output: hand_out }
}

#[cfg(test)]
mod tests {
    use super::*;
    use penstock_core::{Kind, Parameter, ResponseHead, testing::fp32};
    use proptest::prelude::*;

    fn round_trip(response: Response, metrics: &[MetricUpdate]) -> Option<Response> {
        let encoded = encode_response(response, metrics).unwrap();
        let tensors: Vec<_> = encoded.tensors.iter().map(|(_, tensor)| tensor.clone()).collect();
        let made = std::cell::Cell::new(0);
        let make = |entries: Vec<TensorEntry>| {
            let first = made.replace(made.get() + entries.len());
            Some(tensors[first..made.get()].iter().cloned().collect())
        };
        let (response, read) = ResponseMessage::decode(&encoded.description)?.response(&make)?;
        assert_eq!(read, metrics);
        Some(response)
    }

    #[test]
    fn every_response_round_trips() {
        let outputs = || -> Outputs { [fp32(&[2], &[1., 2.]), fp32(&[], &[3.])].into_iter().collect() };
        let parameters = || vec![("p".to_owned(), Parameter::Int(-1))];
        let times = InterpreterTimes { handler: Duration::from_micros(3), ..InterpreterTimes::default() };
        let head = ResponseHead { status: 404, ..ResponseHead::default() };
        let output =
            || RequestOutput { outputs: outputs(), parameters: parameters(), head: Some(Box::new(head.clone())) };
        let late = || Error::new(Kind::Timeout, "late").batch_too_large();
        let all = || {
            [
                Response::Done {
                    outputs: outputs(),
                    failed: RowFailures::new(vec![(1, late())]),
                    parameters: parameters(),
                    times,
                },
                Response::Failed(late()),
                Response::Chunk { outputs: outputs(), parameters: parameters(), last: true },
                Response::Rows {
                    rows: vec![RowChunk::Nothing, RowChunk::More(outputs()), RowChunk::End, RowChunk::Fail(late())],
                    parameters: parameters(),
                },
                Response::PerRequest {
                    each: vec![RowChunk::Last(output()), RowChunk::Fail(late())],
                    parameters: parameters(),
                    times: Some(times),
                },
                Response::EndAll,
            ]
        };
        let counter = MetricUpdate::counter("hits", 1.0, Vec::new()).unwrap();
        for (sent, expected) in all().into_iter().zip(all()) {
            let read = round_trip(sent, std::slice::from_ref(&counter)).unwrap();
            assert_eq!(format!("{read:?}"), format!("{expected:?}"));
        }
    }

    proptest! {
        #[test]
        fn arbitrary_descriptions_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let message = ResponseMessage::decode(&bytes);
            let _ = message.map(|message| (message.tensors_len(), message.response(&|_| Some(Outputs::new()))));
        }

        #[test]
        fn errors_round_trip(message in "[a-z ]{0,80}", after in prop::option::of(0_u64..1 << 40)) {
            let mut error = Error::new(Kind::Overloaded, message);
            if let Some(after) = after {
                error = error.retry_after(Duration::from_nanos(after));
            }
            let Some(Response::Failed(read)) = round_trip(Response::Failed(error.clone()), &[]) else { panic!("an error") };
            prop_assert_eq!((read.kind(), read.message(), read.retry_hint()), (error.kind(), error.message(), error.retry_hint()));
        }
    }
}
