//! The process's own side: it takes what the server sends, and answers.

mod slots;

use self::slots::Slots;
use crate::{
    codec::{
        batch::{Batch, read_batch, read_over},
        fields::Writer,
        response::{EncodedResponse, Outputs, Response, pack},
    },
    transport::{
        control_channel::InstanceChannel,
        frame::{BRISK, Frame, KEPT, Kind, NEW, NO_REGION},
        region::Region,
        socket::{Received, Socket},
    },
};
use penstock_core::{BatchOutput, Parameters, RequestOutput, Result, RowChunk, SequenceId, metrics::MetricUpdate};
use rustix::process::{Signal, set_parent_process_death_signal};
use std::{
    fs::File,
    io,
    os::fd::{AsFd as _, OwnedFd},
    sync::Arc,
    time::Duration,
};

/// How many pieces may be on their way before the server says that it took one.
const WINDOW: u64 = 4;

/// What a process is asked.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "nearly every one is a batch")]
pub enum Command {
    /// To load this, and then to say that it is ready or why not.
    Load(Vec<u8>),
    /// To compute a batch, and then to say that it is done.
    Batch(Batch),
    /// To let go of sequences, and then to say so.
    Over(Vec<SequenceId>),
    /// To close, and to end.
    Stop,
    /// Nothing any more: the server is gone, or has hung up.
    Gone,
}

/// A process that computes batches for a server.
#[derive(Debug)]
pub struct Worker {
    socket: Socket,
    input: Option<Arc<Region>>,
    slots: Slots,
    /// What is answered now.
    serial: u64,
    brisk: bool,
    credit: u64,
}

impl Worker {
    /// Takes the socket that the server has put in the place of the standard input, which is empty from then on.
    ///
    /// From here on the kernel kills this process when the server's thread for it ends.
    ///
    /// # Errors
    /// The process was not started by a server.
    pub fn new() -> io::Result<Self> {
        let socket = io::stdin().as_fd().try_clone_to_owned()?;
        rustix::net::sockopt::socket_domain(&socket)?;
        rustix::stdio::dup2_stdin(File::open("/dev/null")?)?;
        set_parent_process_death_signal(Some(Signal::KILL))?;
        Ok(Self::of(socket))
    }

    /// One end of a channel whose other end a server got.
    pub fn attached(channel: InstanceChannel) -> Self {
        Self::of(channel.into_fd())
    }

    fn of(socket: OwnedFd) -> Self {
        let socket = Socket::of(socket);
        Self { socket, input: None, slots: Slots::default(), serial: 0, brisk: false, credit: WINDOW }
    }

    /// Waits for what is to be done next.
    pub fn next_order(&mut self) -> Command {
        let first = if self.brisk { self.socket.watch() } else { self.socket.receive() };
        self.next_of(first).unwrap_or(Command::Gone)
    }

    fn next_of(&mut self, first: io::Result<Received>) -> Option<Command> {
        let mut received = first;
        loop {
            match received.ok()? {
                Received::Frame(frame, descriptor) => {
                    if frame.kind != Kind::Credit {
                        return self.asked(&frame, descriptor);
                    }
                    self.credited(&frame);
                }
                Received::Nothing => {
                    self.socket.wait(None, Duration::from_secs(3600)).ok()?;
                }
                Received::Ended { .. } => return None,
            }
            received = self.socket.receive();
        }
    }

    fn asked(&mut self, frame: &Frame, descriptor: Option<OwnedFd>) -> Option<Command> {
        self.serial = frame.serial;
        self.brisk = frame.has(BRISK);
        if frame.has(NEW) {
            self.input = Some(Arc::new(Region::adopt(&descriptor?, true).ok()?));
        }
        let len = usize::try_from(frame.length).ok()?;
        let region = || self.input.as_ref();
        Some(match frame.kind {
            Kind::Start => Command::Load(region()?.copied(0..len)?),
            Kind::Over => Command::Over(read_over(&region()?.copied(0..len)?)?),
            Kind::Batch => {
                let (batch, free) = read_batch(region()?, len)?;
                free.into_iter().for_each(|slot| self.slots.give_back(slot));
                self.credit = WINDOW;
                Command::Batch(batch)
            }
            Kind::Stop => Command::Stop,
            _ => return None,
        })
    }

    fn credited(&mut self, frame: &Frame) {
        if frame.region != NO_REGION {
            self.slots.give_back(frame.region);
        }
        self.credit = (self.credit + frame.value).min(WINDOW);
    }

    /// Says that it takes batches of the signature with this fingerprint.
    ///
    /// # Errors
    /// The server is gone.
    pub fn ready(&mut self, fingerprint: u64) -> io::Result<()> {
        self.socket.send(&Frame { serial: self.serial, value: fingerprint, ..Frame::bare(Kind::Ready) }, None)
    }

    /// Says why it could not load.
    ///
    /// # Errors
    /// The server is gone.
    pub fn failed(&mut self, summary: &str, traceback: &str) -> io::Result<()> {
        let mut out = Writer::default();
        out.text(summary);
        out.text(traceback);
        self.send(Kind::Failed, 0, &EncodedResponse::of(out.0))
    }

    /// Says that sequences were let go of.
    ///
    /// # Errors
    /// The server is gone.
    pub fn let_go(&mut self) -> io::Result<()> {
        self.socket.send(&Frame { serial: self.serial, ..Frame::bare(Kind::Done) }, None)
    }

    /// ResponseRegions a batch, which must be dropped before. What an array still refers to is that array's from now on.
    ///
    /// # Errors
    /// The server is gone, or there is no memory for the answer.
    pub fn done(&mut self, result: Result<BatchOutput>, kept: &[MetricUpdate]) -> io::Result<()> {
        let packed = pack(Response::of(result), kept);
        let (frame, descriptor) = self.write(Kind::Done, &packed)?;
        // Outputs may be inputs that were handed back.
        drop(packed);
        let kept = self.input.take_if(|region| Arc::strong_count(region) > 1).is_some();
        let flags = if kept { frame.flags | KEPT } else { frame.flags };
        self.socket.send(&Frame { flags, ..frame }, descriptor.as_ref().map(|file| file.as_fd()))
    }

    /// Whether a piece may be sent now.
    pub fn has_room(&mut self) -> bool {
        loop {
            match self.socket.receive() {
                Ok(Received::Frame(frame, _)) if frame.kind == Kind::Credit => self.credited(&frame),
                Ok(Received::Nothing) => return self.credit > 0,
                // The server is gone: the next piece is the one that finds out.
                _ => return true,
            }
        }
    }

    /// Waits until a piece may be sent.
    pub fn wait_for_room(&mut self) {
        while !self.has_room() {
            if self.socket.wait(None, Duration::from_secs(3600)).is_err() {
                return;
            }
        }
    }

    /// ResponseRegions with one piece for all rows.
    ///
    /// # Errors
    /// As [`Worker::done`].
    pub fn piece(
        &mut self,
        outputs: Outputs,
        parameters: &Parameters,
        last: bool,
        kept: &[MetricUpdate],
    ) -> io::Result<()> {
        self.send_piece(Response::Piece { outputs, parameters: parameters.clone(), last }, kept)
    }

    /// ResponseRegions with one piece for each row.
    ///
    /// # Errors
    /// As [`Worker::done`].
    pub fn rows(&mut self, rows: Vec<RowChunk>, parameters: &Parameters, kept: &[MetricUpdate]) -> io::Result<()> {
        self.send_piece(Response::Rows { rows, parameters: parameters.clone() }, kept)
    }

    /// ResponseRegions with one piece for each request, made by itself.
    ///
    /// # Errors
    /// As [`Worker::done`].
    pub fn apart(
        &mut self,
        each: Vec<RowChunk<RequestOutput>>,
        parameters: &Parameters,
        kept: &[MetricUpdate],
    ) -> io::Result<()> {
        self.send_piece(Response::Apart { each, parameters: parameters.clone(), times: None }, kept)
    }

    /// Ends all streams of the batch, well.
    ///
    /// # Errors
    /// As [`Worker::done`].
    pub fn end_all(&mut self) -> io::Result<()> {
        self.send_piece(Response::EndAll, &[])
    }

    fn send_piece(&mut self, answer: Response<Outputs>, kept: &[MetricUpdate]) -> io::Result<()> {
        self.credit = self.credit.saturating_sub(1);
        self.send(Kind::Piece, 0, &pack(answer, kept))
    }

    fn send(&mut self, kind: Kind, flags: u8, packed: &EncodedResponse) -> io::Result<()> {
        let (frame, descriptor) = self.write(kind, packed)?;
        self.socket.send(&Frame { flags: frame.flags | flags, ..frame }, descriptor.as_ref().map(|file| file.as_fd()))
    }

    fn write(&mut self, kind: Kind, packed: &EncodedResponse) -> io::Result<(Frame, Option<OwnedFd>)> {
        self.slots.write(packed, Frame { serial: self.serial, ..Frame::bare(kind) })
    }
}
