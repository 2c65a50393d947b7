//! Parameters that both protocols share: scheduling and shared memory.

use crate::shared_memory::RegionSlice;
use penstock_core::{Error, Kind, Parameter, Result, Schedule, SequenceId, Step};

/// Scheduling parameters read so far, in any order.
#[derive(Debug, Default)]
pub(crate) struct ScheduleParameters {
    pub(crate) priority: u64,
    pub(crate) start: bool,
    pub(crate) end: bool,
    id: Option<SequenceId>,
}

impl ScheduleParameters {
    /// Sets `sequence_id`, a number or a text. 0 and the empty text mean no sequence.
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

    /// Returns the schedule.
    pub(crate) fn finish(self) -> Schedule {
        let Self { priority, start, end, id } = self;
        Schedule { priority, step: id.map(|id| Box::new(Step { id, start, end })), ..Schedule::default() }
    }
}

/// Name of the parameter with the size in shared memory.
pub(crate) const BYTE_SIZE: &str = "shared_memory_byte_size";

/// Shared-memory parameters of a tensor, in any order.
#[derive(Clone, Debug, Default)]
pub(crate) struct SharedMemoryParameters {
    region: Option<String>,
    offset: Option<u64>,
    size: Option<u64>,
}

impl SharedMemoryParameters {
    /// Returns whether a parameter is one of these.
    pub(crate) fn has(name: &str) -> bool {
        name.starts_with("shared_memory_")
    }

    /// Takes the parameter of that name.
    ///
    /// # Errors
    /// `InvalidInput` for a value of the wrong type; `Unsupported` if shared memory is not `allowed`.
    pub(crate) fn take(&mut self, name: &str, value: Parameter, allowed: bool) -> Result<()> {
        if !allowed {
            return Err(Error::new(
                Kind::Unsupported,
                format!(
                    "parameter '{name}': shared memory is for inference without server-sent events, where the server allows it"
                ),
            ));
        }
        match (name, value) {
            ("shared_memory_region", Parameter::String(region)) => self.region = Some(region),
            ("shared_memory_region", _) => {
                return Err(Error::invalid(format!("parameter '{name}' must be a string, a region's name")));
            }
            ("shared_memory_offset", value) => self.offset = Some(unsigned(name, &value)?),
            (BYTE_SIZE, value) => self.size = Some(unsigned(name, &value)?),
            _ => {}
        }
        Ok(())
    }

    /// Returns the region slice; `None` without any of the parameters.
    ///
    /// # Errors
    /// `InvalidInput` when only some of them are there.
    pub(crate) fn finish(self) -> Result<Option<RegionSlice>> {
        let (region, size) = match (self.region, self.size) {
            (Some(region), Some(size)) => (region, size),
            (None, None) if self.offset.is_none() => return Ok(None),
            (Some(_), None) => return Err(alone("shared_memory_region", BYTE_SIZE)),
            (None, Some(_)) => return Err(alone(BYTE_SIZE, "shared_memory_region")),
            (None, None) => return Err(alone("shared_memory_offset", "shared_memory_region")),
        };
        let size = usize::try_from(size).map_err(|_| Error::invalid(format!("'{BYTE_SIZE}' is too large")))?;
        Ok(Some(RegionSlice { region, offset: self.offset.unwrap_or(0), size }))
    }
}

fn alone(given: &str, missing: &str) -> Error {
    Error::invalid(format!("'{given}' is given without '{missing}'"))
}

fn unsigned(name: &str, value: &Parameter) -> Result<u64> {
    match *value {
        Parameter::Uint(value) => Some(value),
        Parameter::Int(value) => u64::try_from(value).ok(),
        _ => None,
    }
    .ok_or_else(|| Error::invalid(format!("parameter '{name}' must be an integer of 0 or more")))
}
