//! Frames: fixed-size messages over the socket. Their payload is in shared memory.

/// The size of a frame in bytes.
pub(crate) const LEN: usize = 32;

/// The most response regions of one process.
pub(crate) const MAX_SLOTS: usize = 64;

/// The kind of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Kind {
    /// To the process: the payload to load. Answered by `Ready` or `Failed`.
    Load = 1,
    /// To the process: a batch. Answered by any number of `Chunk`, then `Done`.
    Batch = 2,
    /// To the process: sequences that have ended. Answered by `Done`.
    EndSequences = 3,
    /// To the process: permission for one more chunk, or a slot that is free again.
    Credit = 4,
    /// To the process: close the handler and exit.
    Stop = 5,
    /// From the process: it has loaded and takes batches.
    Ready = 16,
    /// From the process: it could not load; the reason is in the slot.
    Failed = 17,
    /// From the process: the last command is done.
    Done = 18,
    /// From the process: one of several responses.
    Chunk = 19,
    /// On a control channel: a message, followed by so many instance channels.
    Message = 32,
    /// On a control channel: the socket of an instance.
    InstanceChannel = 33,
}

impl Kind {
    const ALL: [Self; 11] = [
        Self::Load,
        Self::Batch,
        Self::EndSequences,
        Self::Credit,
        Self::Stop,
        Self::Ready,
        Self::Failed,
        Self::Done,
        Self::Chunk,
        Self::Message,
        Self::InstanceChannel,
    ];
}

/// Flag: the region is new, and its descriptor comes with the frame.
pub(crate) const NEW_REGION: u8 = 1;
/// Flag: the response is expected so soon that polling for it costs less than sleeping.
pub(crate) const SPIN: u8 = 2;
/// Flag: the process retains the batch's region, because an array in it is still in use.
pub(crate) const RETAINED: u8 = 4;

/// The region of a frame without one.
pub(crate) const NO_REGION: u32 = u32::MAX;

/// One frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Frame {
    pub(crate) kind: Kind,
    pub(crate) flags: u8,
    /// From the process: the slot of its response. In a `Credit`: the slot that is free again.
    pub(crate) region: u32,
    /// The length of the description at the beginning of the region.
    pub(crate) length: u64,
    /// The number of the command that this frame belongs to.
    pub(crate) serial: u64,
    /// In `Ready`: the fingerprint of the signature. In a `Credit`: the chunks that it permits. In a `Message`: the
    /// instance channels that follow.
    pub(crate) value: u64,
}

impl Frame {
    /// A frame without a region.
    pub(crate) fn bare(kind: Kind) -> Self {
        Self { kind, flags: 0, region: NO_REGION, length: 0, serial: 0, value: 0 }
    }

    /// Returns whether it has a flag.
    pub(crate) fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    pub(crate) fn encode(&self) -> [u8; LEN] {
        let mut bytes = [0; LEN];
        bytes[0] = self.kind as u8;
        bytes[1] = self.flags;
        bytes[4..8].copy_from_slice(&self.region.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.length.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.serial.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.value.to_le_bytes());
        bytes
    }

    /// Decodes a frame; `None` for one that is not of this protocol.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let (head, rest) = bytes.split_first_chunk::<8>()?;
        let [kind, flags, 0, 0, region @ ..] = *head else { return None };
        let (numbers, []) = rest.as_chunks::<8>() else { return None };
        let [length, serial, value] = <[[u8; 8]; 3]>::try_from(numbers).ok()?.map(u64::from_le_bytes);
        let kind = Kind::ALL.into_iter().find(|known| *known as u8 == kind)?;
        Some(Self { kind, flags, region: u32::from_le_bytes(region), length, serial, value })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn frames_round_trip(
            kind in prop::sample::select(Kind::ALL.to_vec()),
            flags in any::<u8>(),
            region in any::<u32>(),
            (length, serial, value) in any::<(u64, u64, u64)>(),
        ) {
            let frame = Frame { kind, flags, region, length, serial, value };
            prop_assert_eq!(Frame::decode(&frame.encode()), Some(frame));
        }

        #[test]
        fn arbitrary_bytes_are_a_frame_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..70)) {
            if let Some(frame) = Frame::decode(&bytes) {
                prop_assert_eq!(&frame.encode()[..], &bytes[..]);
            }
        }
    }

    #[test]
    fn bytes_that_are_not_a_frame_are_refused() {
        let good = Frame::bare(Kind::Stop).encode();
        assert!(Frame::decode(&good).is_some());
        assert_eq!(Frame::decode(&good[..31]), None, "cut short");
        assert_eq!(Frame::decode(&[&good[..], &[0]].concat()), None, "too long");
        assert_eq!(Frame::decode(&[&[99], &good[1..]].concat()), None, "of no known kind");
        assert_eq!(Frame::decode(&[&good[..2], &[1], &good[3..]].concat()), None, "reserved bits are set");
    }
}
