//! The parameters that both protocols use to say whose turn a request is.

use penstock_core::{Parameter, Schedule, SequenceId, Step};

/// What was read of them so far. They come in any order.
#[derive(Debug, Default)]
pub(crate) struct ScheduleParameters {
    pub(crate) priority: u64,
    pub(crate) start: bool,
    pub(crate) end: bool,
    id: Option<SequenceId>,
}

impl ScheduleParameters {
    /// Takes `sequence_id`, which is a number or a text. 0 and the empty text are no sequence.
    ///
    /// gRPC has signed numbers only: its clients send ids above the largest of them as negative ones.
    pub(crate) fn set_id(&mut self, value: Parameter) {
        self.id = match value {
            Parameter::Int(0) => None,
            Parameter::Int(number) => Some(SequenceId::Number(number.cast_unsigned())),
            Parameter::Uint(number) => Some(SequenceId::Number(number)),
            Parameter::String(text) if !text.is_empty() => Some(SequenceId::Text(text.into())),
            _ => None,
        };
    }

    /// All of it.
    pub(crate) fn finish(self) -> Schedule {
        let Self { priority, start, end, id } = self;
        Schedule { priority, step: id.map(|id| Box::new(Step { id, start, end })), ..Schedule::default() }
    }
}
