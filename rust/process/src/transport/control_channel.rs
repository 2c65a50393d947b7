//! The line between a server and a process that attaches models to it.
//!
//! Messages go both ways, in memory of their own, so that their size is no matter; what they say is for
//! those who talk. With a message may go channels: the sockets over which instances get their batches.
//! A line ends when either end hangs up or dies, even if a copy of the process holds its socket open.

use crate::transport::{
    frame::{Frame, Kind, NEW},
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

/// The largest message.
pub(crate) const MOST_BYTES: usize = 64 << 20;

/// The most channels of a message.
pub(crate) const MOST_CHANNELS: usize = 1024;

/// How long the other end may take to send, or to make room for, the rest of a message.
const WITHIN: Duration = Duration::from_secs(5);

/// How long is waited where nothing else is said.
const FOREVER: Duration = Duration::from_secs(3600);

/// One end.
#[derive(Debug)]
pub struct ControlChannel {
    socket: Socket,
    /// Ready to be read once the other process has ended.
    partner: OnceLock<OwnedFd>,
    /// Held while a message and its channels are sent.
    saying: Mutex<()>,
}

/// What is heard.
#[derive(Debug)]
pub enum ControlEvent {
    /// A message, with its channels.
    Message(Vec<u8>, Vec<InstanceChannel>),
    /// Nothing yet.
    Nothing,
    /// The other end has hung up, or is dead.
    Ended,
}

/// The socket of an instance, on its way to one end or the other.
#[derive(Debug)]
pub struct InstanceChannel(OwnedFd);

impl InstanceChannel {
    /// A channel's two ends: one for the server, one for the instance.
    ///
    /// # Errors
    /// There are no descriptors left.
    pub fn pair() -> io::Result<(Self, Self)> {
        let (one, other) = Socket::pair()?;
        Ok((Self(one.into_fd()), Self(other.into_fd())))
    }

    /// The same end once more.
    ///
    /// # Errors
    /// There are no descriptors left.
    pub fn again(&self) -> io::Result<Self> {
        self.0.try_clone().map(Self)
    }

    /// Ends what goes over it, whoever holds it.
    pub fn hang_up(self) {
        Socket::of(self.0).hang_up();
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
    /// A line to the server at a path.
    ///
    /// # Errors
    /// Nobody listens there, or not for this user.
    pub fn connect(path: &Path) -> io::Result<Self> {
        Ok(Self::of(Socket::connect(path)?))
    }

    pub(crate) fn of(socket: Socket) -> Self {
        Self { socket, partner: OnceLock::new(), saying: Mutex::default() }
    }

    /// From now on the line ends with the process of that number, the one at the other end. Where the kernel
    /// does not show it, as in another container, only its socket tells.
    pub fn watch(&self, process: i32) {
        let pidfd = Pid::from_raw(process).and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok());
        if let Some(pidfd) = pidfd {
            let _ = self.partner.set(pidfd);
        }
    }

    /// Sends a message, and channels with it.
    ///
    /// # Errors
    /// The other end is gone or does not listen, the message is too large, or there is no memory.
    pub fn say(&self, message: &[u8], channels: &[InstanceChannel]) -> io::Result<()> {
        if message.len() > MOST_BYTES || channels.len() > MOST_CHANNELS {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "a message that is too large"));
        }
        let (mut region, file) = Region::create(message.len())?;
        region.write(0, message);
        let (length, value) = (message.len() as u64, channels.len() as u64);
        let _saying = self.saying.lock().unwrap_or_else(PoisonError::into_inner);
        self.send(&Frame { flags: NEW, length, value, ..Frame::bare(Kind::Message) }, file.as_fd())?;
        channels.iter().try_for_each(|channel| self.send(&Frame::bare(Kind::Channel), channel.0.as_fd()))
    }

    fn send(&self, frame: &Frame, descriptor: BorrowedFd<'_>) -> io::Result<()> {
        let until = Instant::now() + WITHIN;
        loop {
            match self.socket.send(frame, Some(descriptor)) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock && Instant::now() < until => {
                    thread::sleep(Duration::from_millis(1));
                }
                sent => return sent,
            }
        }
    }

    /// Waits for a message, for so long or for ever.
    ///
    /// # Errors
    /// What came is no message.
    pub fn hear(&self, patience: Option<Duration>) -> io::Result<ControlEvent> {
        let broken = || io::Error::from(io::ErrorKind::InvalidData);
        let (frame, file) = match self.receive(patience.unwrap_or(FOREVER))? {
            Received::Frame(frame, file) => (frame, file),
            Received::Nothing => return Ok(ControlEvent::Nothing),
            Received::Ended { .. } => return Ok(ControlEvent::Ended),
        };
        let length = usize::try_from(frame.length).ok().filter(|&length| length <= MOST_BYTES);
        let count = usize::try_from(frame.value).ok().filter(|&count| count <= MOST_CHANNELS);
        let (Kind::Message, Some(file), Some(length), Some(count)) = (frame.kind, file, length, count) else {
            return Err(broken());
        };
        let message = Region::adopt(&file, false)?.copied(0..length).ok_or_else(broken)?;
        let mut channels = Vec::with_capacity(count);
        let until = Instant::now() + WITHIN;
        while channels.len() < count {
            match self.receive(until.saturating_duration_since(Instant::now()))? {
                Received::Frame(Frame { kind: Kind::Channel, .. }, Some(end)) => channels.push(InstanceChannel(end)),
                Received::Ended { .. } => return Ok(ControlEvent::Ended),
                _ => return Err(broken()),
            }
        }
        Ok(ControlEvent::Message(message, channels))
    }

    fn receive(&self, patience: Duration) -> io::Result<Received> {
        let until = Instant::now() + patience;
        loop {
            let is_dead = self.partner.get().is_some_and(|pidfd| Socket::is_ready(pidfd.as_fd()));
            match self.socket.receive()? {
                Received::Nothing if is_dead => return Ok(Received::Ended { unread: false }),
                Received::Nothing if Instant::now() < until => {
                    let pidfd = self.partner.get().map(|pidfd| pidfd.as_fd());
                    self.socket.wait(pidfd, until.saturating_duration_since(Instant::now()))?;
                }
                other => return Ok(other),
            }
        }
    }

    /// Ends the line.
    pub fn hang_up(&self) {
        self.socket.hang_up();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn pair() -> (ControlChannel, ControlChannel) {
        let (one, other) = Socket::pair().unwrap();
        (ControlChannel::of(one), ControlChannel::of(other))
    }

    fn heard(line: &ControlChannel) -> (Vec<u8>, Vec<InstanceChannel>) {
        match line.hear(Some(Duration::from_secs(5))).unwrap() {
            ControlEvent::Message(message, channels) => (message, channels),
            other => panic!("a message, not {other:?}"),
        }
    }

    #[test]
    fn messages_arrive_whole_with_their_channels() {
        let (one, other) = pair();
        let (ours, theirs) = InstanceChannel::pair().unwrap();
        let long = vec![7; 3 << 20];
        one.say(&long, &[theirs.again().unwrap(), theirs]).unwrap();
        one.say(b"", &[]).unwrap();
        let (message, channels) = heard(&other);
        assert!(message == long && channels.len() == 2);
        assert_eq!(heard(&other).0, b"");
        assert!(matches!(other.hear(Some(Duration::ZERO)).unwrap(), ControlEvent::Nothing));
        // Whoever holds a channel, it ends for all.
        channels.into_iter().next().unwrap().hang_up();
        assert!(Socket::of(ours.into_fd()).is_closed());
        one.hang_up();
        assert!(matches!(other.hear(None).unwrap(), ControlEvent::Ended));
        assert!(other.say(b"too late", &[]).is_err());
    }

    #[test]
    fn many_channels_are_given_while_the_other_end_takes_them() {
        let (one, other) = pair();
        let (channel, _other_end) = InstanceChannel::pair().unwrap();
        let channels: Vec<_> = (0..400).map(|_| channel.again().unwrap()).collect();
        let taker = thread::spawn(move || heard(&other).1.len());
        one.say(b"many", &channels).unwrap();
        assert_eq!(taker.join().unwrap(), 400);
    }

    #[test]
    fn a_message_that_is_too_large_is_not_sent() {
        let (one, other) = pair();
        assert!(one.say(&vec![0; MOST_BYTES + 1], &[]).is_err());
        assert!(matches!(other.hear(Some(Duration::ZERO)).unwrap(), ControlEvent::Nothing));
    }

    #[test]
    fn a_line_ends_with_the_process_it_watches() {
        let (one, _open_still) = pair();
        let mut child = std::process::Command::new("sleep").arg("600").spawn().unwrap();
        one.watch(i32::try_from(child.id()).unwrap());
        assert!(matches!(one.hear(Some(Duration::from_millis(1))).unwrap(), ControlEvent::Nothing));
        child.kill().unwrap();
        assert!(matches!(one.hear(None).unwrap(), ControlEvent::Ended));
        child.wait().unwrap();
    }

    proptest! {
        #[test]
        fn any_frame_is_a_message_or_refused(
            kind in prop::sample::select(vec![Kind::Message, Kind::Channel, Kind::Batch, Kind::Done]),
            (length, value, flags) in (0_u64..200_000, 0_u64..3, any::<u8>()),
            with_region in any::<bool>(),
        ) {
            let (one, other) = Socket::pair().unwrap();
            let (_region, file) = Region::create(1).unwrap();
            let frame = Frame { flags, length, value, ..Frame::bare(kind) };
            one.send(&frame, with_region.then(|| file.as_fd())).unwrap();
            drop(one);
            let heard = ControlChannel::of(other).hear(Some(Duration::ZERO));
            let good = kind == Kind::Message && with_region && length <= 64 << 10;
            prop_assert_eq!(heard.is_ok(), good, "{:?}", heard);
        }
    }
}
