//! Control channel between a server and a process that attaches models to it.
//!
//! Messages go both ways, each in its own region, so that they may be large; their content is up to the two ends. A
//! message can carry instance channels: the sockets over which instances get their batches. A control channel closes
//! when either end closes it or dies, even if a forked copy of the process holds the socket open.

use crate::transport::{
    frame::{Frame, Kind, NEW_REGION},
    region::Region,
    socket::{Received, Socket},
};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use std::{
    io,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    path::Path,
    sync::{Mutex, OnceLock, PoisonError},
    thread,
    time::{Duration, Instant},
};

/// The size limit of a message in bytes.
pub(crate) const MAX_BYTES: usize = 64 << 20;

/// The most instance channels of a message.
pub(crate) const MAX_CHANNELS: usize = 1024;

/// The time that the other end may take to send the rest of a message, or to read enough of its queue.
const MESSAGE_TIMEOUT: Duration = Duration::from_secs(5);

/// The wait of a receive without a timeout.
const FOREVER: Duration = Duration::from_secs(3600);

/// One end of a control channel.
#[derive(Debug)]
pub struct ControlChannel {
    socket: Socket,
    /// The pidfd of the other process: readable once it has ended.
    peer: OnceLock<OwnedFd>,
    /// Held while a message and its instance channels are sent.
    sending: Mutex<()>,
}

/// The result of a receive.
#[derive(Debug)]
pub enum ControlEvent {
    /// A message with its instance channels.
    Message(Vec<u8>, Vec<InstanceChannel>),
    /// The wait timed out.
    TimedOut,
    /// The other end has closed the channel, or is dead.
    Closed,
}

/// The socket of an instance, which can be sent over a control channel.
#[derive(Debug)]
pub struct InstanceChannel(OwnedFd);

impl InstanceChannel {
    /// Creates a channel. Returns its two ends: one for the server, one for the instance.
    ///
    /// # Errors
    /// There are no descriptors left.
    pub fn pair() -> io::Result<(Self, Self)> {
        let (one, other) = Socket::pair()?;
        Ok((Self(one.into_fd()), Self(other.into_fd())))
    }

    /// Duplicates this end.
    ///
    /// # Errors
    /// There are no descriptors left.
    pub fn try_clone(&self) -> io::Result<Self> {
        self.0.try_clone().map(Self)
    }

    /// Closes the channel for both ends, even if other processes hold them open.
    pub fn close(self) {
        Socket::new(self.0).shutdown();
    }

    pub(crate) fn into_fd(self) -> OwnedFd {
        self.0
    }
}

impl AsFd for ControlChannel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.descriptor()
    }
}

impl ControlChannel {
    /// Connects to the server that listens at a path.
    ///
    /// # Errors
    /// No server listens there, or this user has no access.
    pub fn connect(path: &Path) -> io::Result<Self> {
        Ok(Self::new(Socket::connect(path)?))
    }

    pub(crate) fn new(socket: Socket) -> Self {
        Self { socket, peer: OnceLock::new(), sending: Mutex::default() }
    }

    /// Closes the channel when the process with this id ends, which must be the one at the other end. Where the
    /// kernel does not show that process, as in another container, only its socket counts.
    pub fn watch_process(&self, process: i32) {
        let pidfd = Pid::from_raw(process).and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok());
        if let Some(pidfd) = pidfd {
            let _ = self.peer.set(pidfd);
        }
    }

    /// Sends a message and instance channels.
    ///
    /// # Errors
    /// The other end is gone or does not read, the message is too large, or no memory is left.
    pub fn send(&self, message: &[u8], channels: &[InstanceChannel]) -> io::Result<()> {
        if message.len() > MAX_BYTES || channels.len() > MAX_CHANNELS {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                format!(
                    "control message: got {} bytes and {} channels, expected at most {MAX_BYTES} and {MAX_CHANNELS}",
                    message.len(),
                    channels.len()
                ),
            ));
        }
        let (mut region, file) = Region::create(message.len())?;
        region.write(0, message);
        let (length, value) = (message.len() as u64, channels.len() as u64);
        let _sending = self.sending.lock().unwrap_or_else(PoisonError::into_inner);
        self.send_frame(&Frame { flags: NEW_REGION, length, value, ..Frame::bare(Kind::Message) }, file.as_fd())?;
        channels.iter().try_for_each(|channel| self.send_frame(&Frame::bare(Kind::InstanceChannel), channel.0.as_fd()))
    }

    fn send_frame(&self, frame: &Frame, descriptor: BorrowedFd<'_>) -> io::Result<()> {
        let until = Instant::now() + MESSAGE_TIMEOUT;
        loop {
            match self.socket.send(frame, Some(descriptor)) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock && Instant::now() < until => {
                    thread::sleep(Duration::from_millis(1));
                }
                sent => return sent,
            }
        }
    }

    /// Waits for a message, without a limit if `timeout` is `None`.
    ///
    /// # Errors
    /// The received frames are not a message.
    pub fn receive(&self, timeout: Option<Duration>) -> io::Result<ControlEvent> {
        let broken = || io::Error::from(io::ErrorKind::InvalidData);
        let (frame, file) = match self.receive_frame(timeout.unwrap_or(FOREVER))? {
            Received::Frame(frame, file) => (frame, file),
            Received::Nothing => return Ok(ControlEvent::TimedOut),
            Received::Closed { .. } => return Ok(ControlEvent::Closed),
        };
        let length = usize::try_from(frame.length).ok().filter(|&length| length <= MAX_BYTES);
        let count = usize::try_from(frame.value).ok().filter(|&count| count <= MAX_CHANNELS);
        let (Kind::Message, Some(file), Some(length), Some(count)) = (frame.kind, file, length, count) else {
            return Err(broken());
        };
        let message = Region::adopt(&file, false)?.copied(0..length).ok_or_else(broken)?;
        let mut channels = Vec::with_capacity(count);
        let until = Instant::now() + MESSAGE_TIMEOUT;
        while channels.len() < count {
            match self.receive_frame(until.saturating_duration_since(Instant::now()))? {
                Received::Frame(Frame { kind: Kind::InstanceChannel, .. }, Some(end)) => {
                    channels.push(InstanceChannel(end))
                }
                Received::Closed { .. } => return Ok(ControlEvent::Closed),
                _ => return Err(broken()),
            }
        }
        Ok(ControlEvent::Message(message, channels))
    }

    fn receive_frame(&self, timeout: Duration) -> io::Result<Received> {
        let until = Instant::now() + timeout;
        loop {
            let is_dead = self.peer.get().is_some_and(|pidfd| Socket::is_ready(pidfd.as_fd()));
            match self.socket.receive()? {
                Received::Nothing if is_dead => return Ok(Received::Closed { unread: false }),
                Received::Nothing if Instant::now() < until => {
                    let pidfd = self.peer.get().map(|pidfd| pidfd.as_fd());
                    self.socket.wait(pidfd, until.saturating_duration_since(Instant::now()))?;
                }
                other => return Ok(other),
            }
        }
    }

    /// Ends the line.
    pub fn close(&self) {
        self.socket.shutdown();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn pair() -> (ControlChannel, ControlChannel) {
        let (one, other) = Socket::pair().unwrap();
        (ControlChannel::new(one), ControlChannel::new(other))
    }

    fn receive_message(channel: &ControlChannel) -> (Vec<u8>, Vec<InstanceChannel>) {
        match channel.receive(Some(Duration::from_secs(5))).unwrap() {
            ControlEvent::Message(message, channels) => (message, channels),
            other => panic!("a message, not {other:?}"),
        }
    }

    #[test]
    fn messages_arrive_whole_with_their_channels() {
        let (one, other) = pair();
        let (ours, theirs) = InstanceChannel::pair().unwrap();
        let long = vec![7; 3 << 20];
        one.send(&long, &[theirs.try_clone().unwrap(), theirs]).unwrap();
        one.send(b"", &[]).unwrap();
        let (message, channels) = receive_message(&other);
        assert!(message == long && channels.len() == 2);
        assert_eq!(receive_message(&other).0, b"");
        assert!(matches!(other.receive(Some(Duration::ZERO)).unwrap(), ControlEvent::TimedOut));
        // A closed channel is closed for every process that holds it.
        channels.into_iter().next().unwrap().close();
        assert!(Socket::new(ours.into_fd()).is_closed());
        one.close();
        assert!(matches!(other.receive(None).unwrap(), ControlEvent::Closed));
        assert!(other.send(b"too late", &[]).is_err());
    }

    #[test]
    fn many_channels_arrive_while_the_other_end_reads() {
        let (one, other) = pair();
        let (channel, _other_end) = InstanceChannel::pair().unwrap();
        let channels: Vec<_> = (0..400).map(|_| channel.try_clone().unwrap()).collect();
        let reader = thread::spawn(move || receive_message(&other).1.len());
        one.send(b"many", &channels).unwrap();
        assert_eq!(reader.join().unwrap(), 400);
    }

    #[test]
    fn too_large_message_is_not_sent() {
        let (one, other) = pair();
        assert!(one.send(&vec![0; MAX_BYTES + 1], &[]).is_err());
        assert!(matches!(other.receive(Some(Duration::ZERO)).unwrap(), ControlEvent::TimedOut));
    }

    #[test]
    fn control_channel_closes_with_the_watched_process() {
        let (one, _open_still) = pair();
        let mut child = std::process::Command::new("sleep").arg("600").spawn().unwrap();
        one.watch_process(i32::try_from(child.id()).unwrap());
        assert!(matches!(one.receive(Some(Duration::from_millis(1))).unwrap(), ControlEvent::TimedOut));
        child.kill().unwrap();
        assert!(matches!(one.receive(None).unwrap(), ControlEvent::Closed));
        child.wait().unwrap();
    }

    proptest! {
        #[test]
        fn arbitrary_frames_are_a_message_or_refused(
            kind in prop::sample::select(vec![Kind::Message, Kind::InstanceChannel, Kind::Batch, Kind::Done]),
            (length, value, flags) in (0_u64..200_000, 0_u64..3, any::<u8>()),
            with_region in any::<bool>(),
        ) {
            let (one, other) = Socket::pair().unwrap();
            let (_region, file) = Region::create(1).unwrap();
            let frame = Frame { flags, length, value, ..Frame::bare(kind) };
            one.send(&frame, with_region.then(|| file.as_fd())).unwrap();
            drop(one);
            let receive_message = ControlChannel::new(other).receive(Some(Duration::ZERO));
            let is_valid = kind == Kind::Message && with_region && length <= 64 << 10;
            prop_assert_eq!(receive_message.is_ok(), is_valid, "{:?}", receive_message);
        }
    }
}
