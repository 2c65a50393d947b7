//! What goes over the socket: frames of one size. What they speak of lies in shared memory.

/// Bytes of a frame.
pub(crate) const LEN: usize = 32;

/// The most response regions of one process.
pub(crate) const MAX_SLOTS: usize = 64;

/// What a frame says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Kind {
    /// To the process: what it is to load. Answered `Ready` or `Failed`.
    Start = 1,
    /// To the process: a batch. Answered by any number of `Piece`, then `Done`.
    Batch = 2,
    /// To the process: sequences to let go of. Answered `Done`.
    Over = 3,
    /// To the process: one more piece may come, and a slot is free again.
    Credit = 4,
    /// To the process: close the handler, and end.
    Stop = 5,
    /// From the process: it takes batches.
    Ready = 16,
    /// From the process: it could not load; why lies in the slot.
    Failed = 17,
    /// From the process: what it was told is done.
    Done = 18,
    /// From the process: one of several answers.
    Piece = 19,
    /// On a line: a message, and after it so many channels.
    Message = 32,
    /// On a line: the socket of an instance.
    Channel = 33,
}

impl Kind {
    const ALL: [Self; 11] = [
        Self::Start,
        Self::Batch,
        Self::Over,
        Self::Credit,
        Self::Stop,
        Self::Ready,
        Self::Failed,
        Self::Done,
        Self::Piece,
        Self::Message,
        Self::Channel,
    ];
}

/// The region is new: its descriptor comes with the frame.
pub(crate) const NEW: u8 = 1;
/// Replies are to be expected so soon that it pays to watch for the next frame awake.
pub(crate) const BRISK: u8 = 2;
/// The process keeps the batch's region: an array in it lives on.
pub(crate) const KEPT: u8 = 4;

/// The region of a frame that speaks of none.
pub(crate) const NO_REGION: u32 = u32::MAX;

/// One frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Frame {
    pub(crate) kind: Kind,
    pub(crate) flags: u8,
    /// From the process: the slot. In a `Credit`: the slot that is free again.
    pub(crate) region: u32,
    /// How many bytes at the region's beginning describe the rest of it.
    pub(crate) length: u64,
    /// Which batch is answered.
    pub(crate) serial: u64,
    /// In `Ready`: the fingerprint of the signature. In a `Credit`: how many more pieces may come. In a
    /// `Message`: how many channels follow.
    pub(crate) value: u64,
}

impl Frame {
    /// A frame that speaks of no region.
    pub(crate) fn bare(kind: Kind) -> Self {
        Self { kind, flags: 0, region: NO_REGION, length: 0, serial: 0, value: 0 }
    }

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

    /// Reads a frame; `None` for one that is not of this protocol.
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
        fn any_bytes_are_a_frame_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..70)) {
            if let Some(frame) = Frame::decode(&bytes) {
                prop_assert_eq!(&frame.encode()[..], &bytes[..]);
            }
        }
    }

    #[test]
    fn what_is_not_a_frame_is_refused() {
        let good = Frame::bare(Kind::Stop).encode();
        assert!(Frame::decode(&good).is_some());
        assert_eq!(Frame::decode(&good[..31]), None, "cut short");
        assert_eq!(Frame::decode(&[&good[..], &[0]].concat()), None, "too long");
        assert_eq!(Frame::decode(&[&[99], &good[1..]].concat()), None, "of no known kind");
        assert_eq!(
            Frame::decode(&[&good[..2], &[1], &good[3..]].concat()),
            None,
            "bits that nobody has given a meaning"
        );
    }
}
