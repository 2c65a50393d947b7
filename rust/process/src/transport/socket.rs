//! One end of the socket between a server and a process. It carries whole frames, each with at most one descriptor.

use crate::transport::frame::{Frame, LEN};
use rustix::{
    cmsg_space,
    event::{PollFd, PollFlags, Timespec, poll},
    io::Errno,
    net::{
        AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
        SendFlags, Shutdown, SocketAddrUnix, SocketFlags, SocketType, connect, recvmsg, sendmsg, shutdown, socket_with,
        socketpair,
    },
};
use std::{
    io::{self, IoSlice, IoSliceMut},
    mem::MaybeUninit,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    path::Path,
    sync::atomic::{AtomicBool, Ordering},
    time::{Duration, Instant},
};

/// The time that an end polls for the next frame of a fast exchange before it sleeps: the round trip of a client that
/// sends its next request at once, and twice the time of a fast handler.
const SPIN_TIME: Duration = Duration::from_micros(200);

/// One end.
#[derive(Debug)]
pub(crate) struct Socket {
    end: OwnedFd,
    /// Set if the other end was closed with unread frames.
    reset: AtomicBool,
}

/// The result of a receive.
#[derive(Debug)]
pub(crate) enum Received {
    Frame(Frame, Option<OwnedFd>),
    /// No frame is there yet.
    Nothing,
    /// The other end is closed.
    Closed {
        /// Set if frames sent to it were left unread.
        unread: bool,
    },
}

impl Socket {
    /// The two ends of a socket. A started process inherits neither.
    pub(crate) fn pair() -> io::Result<(Self, Self)> {
        // Packets, so that a frame arrives whole or not at all.
        let (one, other) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
        Ok((Self::new(one), Self::new(other)))
    }

    /// Connects to the listener at a path.
    pub(crate) fn connect(path: &Path) -> io::Result<Self> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let end = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
        connect(&end, &SocketAddrUnix::new(path)?)?;
        Ok(Self::new(end))
    }

    pub(crate) fn new(end: OwnedFd) -> Self {
        Self { end, reset: AtomicBool::new(false) }
    }

    pub(crate) fn into_fd(self) -> OwnedFd {
        self.end
    }

    /// Sends a frame. Never blocks: an end that does not read counts as gone.
    pub(crate) fn send(&self, frame: &Frame, descriptor: Option<BorrowedFd<'_>>) -> io::Result<()> {
        let bytes = frame.encode();
        let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        let descriptors = descriptor.as_slice();
        if !descriptors.is_empty() {
            control.push(SendAncillaryMessage::ScmRights(descriptors));
        }
        let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
        loop {
            match sendmsg(&self.end, &[IoSlice::new(&bytes)], &mut control, flags) {
                Err(Errno::INTR) => {}
                sent => return sent.map(drop).map_err(Into::into),
            }
        }
    }

    /// Receives a frame without waiting. A packet that is not a frame is an error.
    pub(crate) fn receive(&self) -> io::Result<Received> {
        // One byte more than a frame, to detect longer packets.
        let mut bytes = [0; LEN + 1];
        let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(1))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let flags = RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT;
        let received = loop {
            match recvmsg(&self.end, &mut [IoSliceMut::new(&mut bytes)], &mut control, flags) {
                Ok(received) => break received.bytes,
                Err(Errno::AGAIN | Errno::INTR) => return Ok(Received::Nothing),
                // ResponseHead once, and before the packets that the other end had sent.
                Err(Errno::CONNRESET) => self.reset.store(true, Ordering::Relaxed),
                Err(error) => return Err(error.into()),
            }
        };
        let descriptors = control.drain().filter_map(|message| match message {
            RecvAncillaryMessage::ScmRights(descriptors) => Some(descriptors),
            _ => None,
        });
        let descriptor = descriptors.flatten().last();
        if received == 0 {
            return Ok(Received::Closed { unread: self.reset.load(Ordering::Relaxed) });
        }
        let frame = Frame::decode(&bytes[..received]);
        frame.map(|frame| Received::Frame(frame, descriptor)).ok_or_else(|| io::ErrorKind::InvalidData.into())
    }

    /// Polls for a frame for a short time. Yields the core to other threads that want it.
    pub(crate) fn receive_spinning(&self) -> io::Result<Received> {
        let end = Instant::now() + SPIN_TIME;
        loop {
            match self.receive()? {
                Received::Nothing if Instant::now() < end => std::thread::yield_now(),
                other => return Ok(other),
            }
        }
    }

    /// Shuts the connection down for both ends, even if other processes hold them open.
    pub(crate) fn shutdown(&self) {
        // It may be closed already.
        let _ = shutdown(&self.end, Shutdown::Both);
    }

    /// Returns whether the other end is closed. Frames that it sent before can still be received.
    pub(crate) fn is_closed(&self) -> bool {
        let mut ends = [PollFd::new(&self.end, PollFlags::empty())];
        poll(&mut ends, Some(&Timespec::default())).is_ok() && ends[0].revents().contains(PollFlags::HUP)
    }

    pub(crate) fn descriptor(&self) -> BorrowedFd<'_> {
        self.end.as_fd()
    }

    /// Returns whether a descriptor is readable.
    pub(crate) fn is_ready(descriptor: BorrowedFd<'_>) -> bool {
        let mut ends = [PollFd::from_borrowed_fd(descriptor, PollFlags::IN)];
        poll(&mut ends, Some(&Timespec::default())).is_ok_and(|ready| ready > 0)
    }

    /// Blocks until a frame is there or the other descriptor is readable. Returns whether either is.
    pub(crate) fn wait(&self, other: Option<BorrowedFd<'_>>, timeout: Duration) -> io::Result<bool> {
        let mut ends = [
            PollFd::new(&self.end, PollFlags::IN),
            PollFd::from_borrowed_fd(other.unwrap_or(self.end.as_fd()), PollFlags::IN),
        ];
        let timeout = Timespec::try_from(timeout).ok();
        match poll(&mut ends, timeout.as_ref()) {
            Ok(ready) => Ok(ready > 0),
            Err(Errno::INTR) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transport::frame::Kind;
    use std::fs::File;

    #[test]
    fn frames_and_descriptors_arrive_whole_and_in_order() {
        let (one, other) = Socket::pair().unwrap();
        let file = File::open("/dev/null").unwrap();
        one.send(&Frame { serial: 7, ..Frame::bare(Kind::Batch) }, Some(file.as_fd())).unwrap();
        one.send(&Frame::bare(Kind::Stop), None).unwrap();
        let Received::Frame(frame, Some(_)) = other.receive().unwrap() else { panic!("the first with its descriptor") };
        assert_eq!((frame.kind, frame.serial), (Kind::Batch, 7));
        assert!(other.wait(None, Duration::ZERO).unwrap());
        assert!(matches!(other.receive_spinning().unwrap(), Received::Frame(Frame { kind: Kind::Stop, .. }, None)));
        assert!(matches!(other.receive().unwrap(), Received::Nothing));
        assert!(!other.wait(None, Duration::from_millis(1)).unwrap());
        drop(one);
        assert!(other.wait(None, Duration::from_secs(5)).unwrap());
        assert!(matches!(other.receive().unwrap(), Received::Closed { unread: false }));
        assert!(other.send(&Frame::bare(Kind::Done), None).is_err());
    }

    #[test]
    fn invalid_packet_is_an_error() {
        for packet in [&[0_u8; LEN][..], &[1; 5], &[1; LEN + 9]] {
            let (one, other) = Socket::pair().unwrap();
            rustix::net::send(&one.end, packet, SendFlags::empty()).unwrap();
            assert!(other.receive().is_err());
        }
    }

    #[test]
    fn unread_frames_are_detected() {
        let (one, other) = Socket::pair().unwrap();
        one.send(&Frame::bare(Kind::Batch), None).unwrap();
        drop(other);
        assert!(matches!(one.receive().unwrap(), Received::Closed { unread: true }));
    }

    #[test]
    fn frames_sent_before_a_close_are_received() {
        let (one, other) = Socket::pair().unwrap();
        one.send(&Frame::bare(Kind::Credit), None).unwrap();
        other.send(&Frame { serial: 1, ..Frame::bare(Kind::Chunk) }, None).unwrap();
        other.send(&Frame { serial: 2, ..Frame::bare(Kind::Chunk) }, None).unwrap();
        drop(other);
        for serial in [1, 2] {
            assert!(matches!(one.receive().unwrap(), Received::Frame(frame, None) if frame.serial == serial));
        }
        assert!(matches!(one.receive().unwrap(), Received::Closed { unread: true }));
    }

    #[test]
    fn full_socket_is_an_error_without_blocking() {
        let (one, _other) = Socket::pair().unwrap();
        assert!((0..100_000).any(|_| one.send(&Frame::bare(Kind::Done), None).is_err()));
    }
}
