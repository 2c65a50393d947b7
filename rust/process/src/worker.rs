//! The process's side: it receives commands from the server and responds.

mod slots;

use self::slots::Slots;
use crate::{
    codec::{
        batch::{Batch, decode_batch},
        request::decode_sequences,
        response::{EncodedResponse, Response, encode_response},
        values::encode,
    },
    transport::{
        control_channel::InstanceChannel,
        frame::{Frame, Kind, NEW_REGION, NO_REGION, RETAINED, SPIN},
        region::Region,
        socket::{Received, Socket},
    },
};
use penstock_core::{
    BatchOutput, Outputs, Parameters, RequestOutput, Result, RowChunk, SequenceId, metrics::MetricUpdate,
};
use rustix::process::{Signal, set_parent_process_death_signal};
use std::{
    fs::File,
    io,
    os::fd::{AsFd as _, OwnedFd},
    sync::Arc,
    time::Duration,
};

/// The most chunks that the server has not confirmed yet.
const WINDOW: u64 = 4;

/// A command of the server.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "nearly every command is a batch")]
pub enum Command {
    /// Load this payload, then report that it is ready, or the reason of a failure.
    Load(Vec<u8>),
    /// Compute a batch, then respond.
    Batch(Batch),
    /// Drop the state of sequences that have ended, then confirm it.
    EndSequences(Vec<SequenceId>),
    /// Close the handler and exit.
    Stop,
    /// The server is gone, or has closed the connection.
    Disconnected,
}

/// A process that computes batches for a server.
#[derive(Debug)]
pub struct Worker {
    socket: Socket,
    input: Option<Arc<Region>>,
    slots: Slots,
    /// The number of the current command.
    serial: u64,
    spins: bool,
    credit: u64,
}

impl Worker {
    /// Takes the socket that the server passed as standard input, and replaces that by an empty one.
    ///
    /// From here on the kernel kills this process when the server's thread for it ends.
    ///
    /// # Errors
    /// No server started this process.
    pub fn new() -> io::Result<Self> {
        let socket = io::stdin().as_fd().try_clone_to_owned()?;
        rustix::net::sockopt::socket_domain(&socket)?;
        rustix::stdio::dup2_stdin(File::open("/dev/null")?)?;
        set_parent_process_death_signal(Some(Signal::KILL))?;
        Ok(Self::on(socket))
    }

    /// Serves one end of a channel whose other end a server has.
    pub fn attached(channel: InstanceChannel) -> Self {
        Self::on(channel.into_fd())
    }

    fn on(socket: OwnedFd) -> Self {
        let socket = Socket::new(socket);
        Self { socket, input: None, slots: Slots::default(), serial: 0, spins: false, credit: WINDOW }
    }

    /// Waits for the next command.
    pub fn next_command(&mut self) -> Command {
        let first = if self.spins { self.socket.receive_spinning() } else { self.socket.receive() };
        self.command_from(first).unwrap_or(Command::Disconnected)
    }

    fn command_from(&mut self, first: io::Result<Received>) -> Option<Command> {
        let mut received = first;
        loop {
            match received.ok()? {
                Received::Frame(frame, descriptor) => {
                    if frame.kind != Kind::Credit {
                        return self.command(&frame, descriptor);
                    }
                    self.add_credit(&frame);
                }
                Received::Nothing => {
                    self.socket.wait(None, Duration::from_secs(3600)).ok()?;
                }
                Received::Closed { .. } => return None,
            }
            received = self.socket.receive();
        }
    }

    fn command(&mut self, frame: &Frame, descriptor: Option<OwnedFd>) -> Option<Command> {
        self.serial = frame.serial;
        self.spins = frame.has(SPIN);
        if frame.has(NEW_REGION) {
            self.input = Some(Arc::new(Region::adopt(&descriptor?, true).ok()?));
        }
        let len = usize::try_from(frame.length).ok()?;
        let region = || self.input.as_ref();
        Some(match frame.kind {
            Kind::Load => Command::Load(region()?.copied(0..len)?),
            Kind::EndSequences => Command::EndSequences(decode_sequences(&region()?.copied(0..len)?)?),
            Kind::Batch => {
                let (batch, freed) = decode_batch(region()?, len)?;
                freed.into_iter().for_each(|slot| self.slots.release(slot));
                self.credit = WINDOW;
                Command::Batch(batch)
            }
            Kind::Stop => Command::Stop,
            _ => return None,
        })
    }

    fn add_credit(&mut self, frame: &Frame) {
        if frame.region != NO_REGION {
            self.slots.release(frame.region);
        }
        self.credit = (self.credit + frame.value).min(WINDOW);
    }

    /// Reports that the process takes batches of the signature with this fingerprint.
    ///
    /// # Errors
    /// The server is gone.
    pub fn ready(&mut self, fingerprint: u64) -> io::Result<()> {
        self.socket.send(&Frame { serial: self.serial, value: fingerprint, ..Frame::bare(Kind::Ready) }, None)
    }

    /// Reports why the process could not load.
    ///
    /// # Errors
    /// The server is gone.
    pub fn failed(&mut self, summary: &str, traceback: &str) -> io::Result<()> {
        let description = encode(&(summary, traceback))?;
        self.send(Kind::Failed, &EncodedResponse::bare(description))
    }

    /// Confirms the end of sequences.
    ///
    /// # Errors
    /// The server is gone.
    pub fn sequences_ended(&mut self) -> io::Result<()> {
        self.socket.send(&Frame { serial: self.serial, ..Frame::bare(Kind::Done) }, None)
    }

    /// Responds to a batch, which must be dropped before. A region that an array still uses is retained for it.
    ///
    /// # Errors
    /// The server is gone, or no memory is left for the response.
    pub fn done(&mut self, result: Result<BatchOutput>, metrics: &[MetricUpdate]) -> io::Result<()> {
        let response = encode_response(Response::last(result), metrics)?;
        let (frame, descriptor) = self.write(Kind::Done, &response)?;
        // Outputs may be inputs that the handler returned.
        drop(response);
        let retained = self.input.take_if(|region| Arc::strong_count(region) > 1).is_some();
        let flags = if retained { frame.flags | RETAINED } else { frame.flags };
        self.socket.send(&Frame { flags, ..frame }, descriptor.as_ref().map(|file| file.as_fd()))
    }

    /// Returns whether a chunk may be sent now.
    pub fn has_room(&mut self) -> bool {
        loop {
            match self.socket.receive() {
                Ok(Received::Frame(frame, _)) if frame.kind == Kind::Credit => self.add_credit(&frame),
                Ok(Received::Nothing) => return self.credit > 0,
                // The server is gone: sending the next chunk reports it.
                _ => return true,
            }
        }
    }

    /// Waits until a chunk may be sent.
    pub fn wait_for_room(&mut self) {
        while !self.has_room() {
            if self.socket.wait(None, Duration::from_secs(3600)).is_err() {
                return;
            }
        }
    }

    /// Responds with one chunk for all rows.
    ///
    /// # Errors
    /// Those of [`Worker::done`].
    pub fn chunk(
        &mut self,
        outputs: Outputs,
        parameters: &Parameters,
        last: bool,
        metrics: &[MetricUpdate],
    ) -> io::Result<()> {
        self.send_chunk(Response::Chunk { outputs, parameters: parameters.clone(), last }, metrics)
    }

    /// Responds with one chunk for each row.
    ///
    /// # Errors
    /// Those of [`Worker::done`].
    pub fn rows(&mut self, rows: Vec<RowChunk>, parameters: &Parameters, metrics: &[MetricUpdate]) -> io::Result<()> {
        self.send_chunk(Response::Rows { rows, parameters: parameters.clone() }, metrics)
    }

    /// Responds with one chunk for each request.
    ///
    /// # Errors
    /// Those of [`Worker::done`].
    pub fn per_request(
        &mut self,
        each: Vec<RowChunk<RequestOutput>>,
        parameters: &Parameters,
        metrics: &[MetricUpdate],
    ) -> io::Result<()> {
        self.send_chunk(Response::PerRequest { each, parameters: parameters.clone(), times: None }, metrics)
    }

    /// Ends all streams of the batch without an error.
    ///
    /// # Errors
    /// Those of [`Worker::done`].
    pub fn end_all(&mut self) -> io::Result<()> {
        self.send_chunk(Response::EndAll, &[])
    }

    fn send_chunk(&mut self, response: Response, metrics: &[MetricUpdate]) -> io::Result<()> {
        self.credit = self.credit.saturating_sub(1);
        self.send(Kind::Chunk, &encode_response(response, metrics)?)
    }

    fn send(&mut self, kind: Kind, response: &EncodedResponse) -> io::Result<()> {
        let (frame, descriptor) = self.write(kind, response)?;
        self.socket.send(&frame, descriptor.as_ref().map(|file| file.as_fd()))
    }

    fn write(&mut self, kind: Kind, response: &EncodedResponse) -> io::Result<(Frame, Option<OwnedFd>)> {
        self.slots.write(response, Frame { serial: self.serial, ..Frame::bare(kind) })
    }
}
