//! An answer on its way from a process: a description, then the tensors, each aligned.

use crate::{
    codec::{
        fields::{Reader, Writer},
        raw_request::{read_told, write_told},
        tensors::{Layout, Placed, describe, describe_absent, placed},
        user_metrics::{read_kept, write_kept},
    },
    transport::region::aligned,
};
use penstock_core::{
    BatchOutput, Error, InterpreterTimes, Kind, Parameters, RequestOutput, Result, RowChunk, RowFailures, Tensor,
    metrics::MetricUpdate,
};
use smallvec::SmallVec;
use std::time::Duration;

/// The outputs of a batch or of a row.
pub(crate) type Outputs = SmallVec<[Tensor; 2]>;

/// Tensors as a description places them, which are not looked at yet.
pub(crate) type PlacedOutputs = SmallVec<[Placed; 2]>;

/// What a process answers, with its tensors as `T`: to be written, or as they were described.
#[derive(Debug)]
pub(crate) enum Response<T> {
    /// The last, of a batch that was computed.
    Done { outputs: T, failed: RowFailures, parameters: Parameters, times: InterpreterTimes },
    /// The last, of one that was not.
    Failed(Error),
    /// One for all rows; with `last` there is none after it.
    Piece { outputs: T, parameters: Parameters, last: bool },
    /// One for each row.
    Rows { rows: Vec<RowChunk<T>>, parameters: Parameters },
    /// One for each request, made by itself: the last of the batch, which took that long, or a piece.
    Apart { each: Vec<RowChunk<RequestOutput<T>>>, parameters: Parameters, times: Option<InterpreterTimes> },
    /// All streams are over, well.
    EndAll,
}

/// An answer that is to be written.
#[derive(Debug)]
pub(crate) struct EncodedResponse {
    pub(crate) description: Vec<u8>,
    /// What goes where, counted from where the tensors begin.
    pub(crate) tensors: Vec<(usize, Tensor)>,
    tensors_len: usize,
}

impl EncodedResponse {
    /// How much room it needs.
    pub(crate) fn len(&self) -> usize {
        self.start() + self.tensors_len
    }

    /// Where its tensors begin.
    pub(crate) fn start(&self) -> usize {
        aligned(self.description.len())
    }

    /// A description alone.
    pub(crate) fn of(description: Vec<u8>) -> Self {
        Self { description, tensors: Vec::new(), tensors_len: 0 }
    }
}

/// Describes an answer.
pub(crate) fn pack(answer: Response<Outputs>, kept: &[MetricUpdate]) -> EncodedResponse {
    let mut packing = Encoder::default();
    write_kept(&mut packing.out, kept);
    match answer {
        Response::Done { outputs, failed, parameters, times } => {
            packing.out.byte(0);
            packing.out.number(failed.iter().count() as u64);
            for (row, error) in failed.iter() {
                packing.out.number(*row as u64);
                write_error(&mut packing.out, error);
            }
            packing.out.parameters(&parameters);
            packing.times(times);
            packing.outputs(outputs);
        }
        Response::Failed(error) => {
            packing.out.byte(1);
            write_error(&mut packing.out, &error);
        }
        Response::Piece { outputs, parameters, last } => {
            packing.out.byte(2);
            packing.out.parameters(&parameters);
            packing.out.byte(u8::from(last));
            packing.outputs(outputs);
        }
        Response::Rows { rows, parameters } => {
            packing.out.byte(3);
            packing.out.parameters(&parameters);
            packing.out.number(rows.len() as u64);
            rows.into_iter().for_each(|row| packing.row(row, Encoder::outputs));
        }
        Response::EndAll => packing.out.byte(4),
        Response::Apart { each, parameters, times } => {
            packing.out.byte(5);
            packing.out.parameters(&parameters);
            packing.out.byte(u8::from(times.is_some()));
            times.into_iter().for_each(|times| packing.times(times));
            packing.out.number(each.len() as u64);
            each.into_iter().for_each(|one| packing.row(one, Encoder::own));
        }
    }
    EncodedResponse { description: packing.out.0, tensors: packing.tensors, tensors_len: packing.places.total() }
}

#[derive(Default)]
struct Encoder {
    out: Writer,
    places: Layout,
    tensors: Vec<(usize, Tensor)>,
}

impl Encoder {
    fn times(&mut self, times: InterpreterTimes) {
        for time in [times.handler, times.handler_cpu, times.boundary, times.hand_out] {
            self.out.duration(time);
        }
    }

    fn outputs(&mut self, outputs: Outputs) {
        self.out.number(outputs.len() as u64);
        for tensor in outputs {
            if tensor.is_absent() {
                describe_absent(&mut self.out, tensor.datatype());
                continue;
            }
            let len = tensor.as_slice().len();
            let place =
                describe(&mut self.out, &mut self.places, (tensor.datatype(), tensor.shape(), tensor.lengths()), len);
            self.tensors.push((place, tensor));
        }
    }

    fn own(&mut self, own: RequestOutput) {
        self.out.parameters(&own.parameters);
        write_told(&mut self.out, own.head.as_deref());
        self.outputs(own.outputs);
    }

    fn row<T>(&mut self, row: RowChunk<T>, write: impl FnOnce(&mut Self, T)) {
        match row {
            RowChunk::Nothing => self.out.byte(0),
            RowChunk::More(answer) => {
                self.out.byte(1);
                write(self, answer);
            }
            RowChunk::Last(answer) => {
                self.out.byte(2);
                write(self, answer);
            }
            RowChunk::End => self.out.byte(3),
            RowChunk::Fail(error) => {
                self.out.byte(4);
                write_error(&mut self.out, &error);
            }
        }
    }
}

pub(crate) fn write_error(out: &mut Writer, error: &Error) {
    out.text(error.kind().name());
    out.text(error.message());
    out.duration(error.retry_hint().unwrap_or(Duration::MAX));
    out.byte(u8::from(error.is_of_a_too_large_batch()));
}

/// Reads an answer's description; `None` if it is broken.
pub(crate) fn unpack(description: &[u8]) -> Option<(Response<PlacedOutputs>, Vec<MetricUpdate>)> {
    let mut from = Reader(description);
    let kept = read_kept(&mut from)?;
    let answer = match from.byte()? {
        0 => {
            let failed = (0..from.count()?).map(|_| Some((from.size()?, read_error(&mut from)?)));
            let failed = RowFailures::new(failed.collect::<Option<_>>()?);
            let parameters = from.parameters()?;
            let times = read_times(&mut from)?;
            Response::Done { outputs: outputs(&mut from)?, failed, parameters, times }
        }
        1 => Response::Failed(read_error(&mut from)?),
        2 => {
            let (parameters, last) = (from.parameters()?, from.byte()? != 0);
            Response::Piece { outputs: outputs(&mut from)?, parameters, last }
        }
        3 => {
            let parameters = from.parameters()?;
            let rows = (0..from.count()?).map(|_| row(&mut from, outputs)).collect::<Option<_>>()?;
            Response::Rows { rows, parameters }
        }
        4 => Response::EndAll,
        5 => {
            let parameters = from.parameters()?;
            let times = if from.byte()? == 0 { None } else { Some(read_times(&mut from)?) };
            let each = (0..from.count()?).map(|_| row(&mut from, own)).collect::<Option<_>>()?;
            Response::Apart { each, parameters, times }
        }
        _ => return None,
    };
    from.0.is_empty().then_some((answer, kept))
}

fn read_times(from: &mut Reader<'_>) -> Option<InterpreterTimes> {
    let [handler, handler_cpu, boundary, hand_out] =
        [from.duration()?, from.duration()?, from.duration()?, from.duration()?];
    Some(InterpreterTimes { handler, handler_cpu, boundary, hand_out })
}

pub(crate) fn read_error(from: &mut Reader<'_>) -> Option<Error> {
    let kind = Kind::from_name(&from.text()?)?;
    let error = Error::new(kind, from.text()?);
    let error = match from.number()? {
        u64::MAX => error,
        nanoseconds => error.retry_after(Duration::from_nanos(nanoseconds)),
    };
    Some(if from.byte()? == 0 { error } else { error.of_a_too_large_batch() })
}

fn outputs(from: &mut Reader<'_>) -> Option<PlacedOutputs> {
    (0..from.count()?).map(|_| placed(from)).collect()
}

fn own(from: &mut Reader<'_>) -> Option<RequestOutput<PlacedOutputs>> {
    let (parameters, head) = (from.parameters()?, read_told(from)?);
    Some(RequestOutput { outputs: outputs(from)?, parameters, head })
}

fn row<T>(from: &mut Reader<'_>, read: impl FnOnce(&mut Reader<'_>) -> Option<T>) -> Option<RowChunk<T>> {
    Some(match from.byte()? {
        0 => RowChunk::Nothing,
        1 => RowChunk::More(read(from)?),
        2 => RowChunk::Last(read(from)?),
        3 => RowChunk::End,
        4 => RowChunk::Fail(read_error(from)?),
        _ => return None,
    })
}

impl<T> Response<T> {
    /// The same answer with its tensors made of what they were.
    pub(crate) fn map<U>(self, mut make: impl FnMut(T) -> Option<U>) -> Option<Response<U>> {
        Some(match self {
            Self::Done { outputs, failed, parameters, times } => {
                Response::Done { outputs: make(outputs)?, failed, parameters, times }
            }
            Self::Failed(error) => Response::Failed(error),
            Self::Piece { outputs, parameters, last } => Response::Piece { outputs: make(outputs)?, parameters, last },
            Self::Rows { rows, parameters } => Response::Rows {
                rows: rows.into_iter().map(|row| row.map(&mut make)).collect::<Option<_>>()?,
                parameters,
            },
            Self::Apart { each, parameters, times } => {
                let each = each.into_iter().map(|one| one.map(|own| own.map(&mut make))).collect::<Option<_>>()?;
                Response::Apart { each, parameters, times }
            }
            Self::EndAll => Response::EndAll,
        })
    }
}

impl Response<Outputs> {
    /// The last answer of a batch.
    pub(crate) fn of(result: Result<BatchOutput>) -> Self {
        match result {
            Ok(BatchOutput { per_request: Some(apart), parameters, times, .. }) => {
                Self::Apart { each: apart.into_iter().map(Into::into).collect(), parameters, times: Some(times) }
            }
            Ok(BatchOutput { outputs, failed, parameters, times, .. }) => {
                Self::Done { outputs, failed, parameters, times }
            }
            Err(error) => Self::Failed(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn any_description_is_read_without_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = unpack(&bytes);
        }

        #[test]
        fn errors_round_trip(message in "[a-z ]{0,80}", after in prop::option::of(0_u64..1 << 40)) {
            let mut error = Error::new(Kind::Overloaded, message);
            if let Some(after) = after {
                error = error.retry_after(Duration::from_nanos(after));
            }
            let packed = pack(Response::Failed(error.clone()), &[]);
            let Some((Response::Failed(read), _)) = unpack(&packed.description) else { panic!("an error") };
            prop_assert_eq!((read.kind(), read.message(), read.retry_hint()), (error.kind(), error.message(), error.retry_hint()));
        }
    }
}
