//! One process: its socket, its regions, and the commands sent to it.

use crate::{
    codec::{
        batch::{EncodedBatch, encode_batch},
        request::encode_sequences,
        values::decode,
    },
    supervisor::{
        exit_reason::{ExitReason, LoadFailure, out_of_memory_kills},
        launch::Launch,
        peer::Peer,
        responses::ResponseRegions,
    },
    transport::{
        control_channel::InstanceChannel,
        frame::{Frame, Kind, NEW_REGION, NO_REGION, RETAINED, SPIN},
        region::Region,
        socket::{Received, Socket},
    },
};
use penstock_core::{Job, SequenceId};
use std::{
    io,
    os::fd::{AsFd as _, BorrowedFd, OwnedFd},
    process::{Command, Stdio},
    time::Instant,
};

/// A process and the memory shared with it. A child is killed when this is dropped.
#[derive(Debug)]
pub(crate) struct Process {
    peer: Peer,
    pub(crate) socket: Socket,
    /// The region of batches, replaced when it is too small or the process retains it.
    input: Option<Region>,
    pub(crate) responses: ResponseRegions,
    serial: u64,
    pub(crate) started: Instant,
    pub(crate) batches: u64,
}

impl Process {
    /// Starts a child and sends it the payload to load.
    pub(crate) fn spawn(launch: &Launch, model: &str, index: usize) -> Result<Self, LoadFailure> {
        let failed = |error: io::Error| LoadFailure::new(format!("its process could not be started: {error}"));
        let (socket, end) = Socket::pair().map_err(failed)?;
        let mut command = Command::new(&launch.program);
        // The socket becomes the standard input; the child inherits no other descriptor.
        command.args(&launch.arguments).stdin(Stdio::from(end.into_fd()));
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command.envs(launch.environment(index).iter().map(|(name, value)| (name, value)));
        let kills_before = out_of_memory_kills();
        let child = command.spawn().map_err(failed)?;
        drop(command);
        let peer = Peer::child(child, model, kills_before).map_err(failed)?;
        let mut process = Self::new(peer, socket);
        process.send_bytes(Kind::Load, &launch.payload).map_err(failed)?;
        Ok(process)
    }

    /// A process that attached itself, and that loads already.
    pub(crate) fn attached(channel: InstanceChannel) -> Self {
        Self::new(Peer::Attached, Socket::new(channel.into_fd()))
    }

    fn new(peer: Peer, socket: Socket) -> Self {
        Self {
            peer,
            socket,
            input: None,
            responses: ResponseRegions::default(),
            serial: 0,
            started: Instant::now(),
            batches: 0,
        }
    }

    /// The process id of a child.
    pub(crate) fn id(&self) -> Option<u32> {
        self.peer.id()
    }

    pub(crate) fn is_attached(&self) -> bool {
        self.peer.is_attached()
    }

    pub(crate) fn pidfd(&self) -> Option<BorrowedFd<'_>> {
        self.peer.pidfd()
    }

    /// The result of loading, once it is known.
    pub(crate) fn poll_loaded(&mut self, fingerprint: u64) -> Option<Result<(), LoadFailure>> {
        let broken = || LoadFailure::new(ExitReason::ProtocolError.to_string());
        let (frame, descriptor) = match self.socket.receive() {
            Ok(Received::Frame(frame, descriptor)) => (frame, descriptor),
            Ok(Received::Nothing) => {
                return Some(Err(LoadFailure::new(self.status()?.to_string())));
            }
            Ok(Received::Closed { .. }) => return Some(Err(LoadFailure::new(self.reap().to_string()))),
            Err(_) => return Some(Err(broken())),
        };
        Some(match frame.kind {
            Kind::Ready if frame.value == fingerprint => Ok(()),
            Kind::Ready => Err(LoadFailure::new(
                "its process loaded another signature than the server has: its code has changed, or depends on its environment",
            )),
            Kind::Failed => Err(self.failure(&frame, descriptor).unwrap_or_else(broken)),
            _ => Err(broken()),
        })
    }

    fn failure(&mut self, frame: &Frame, descriptor: Option<OwnedFd>) -> Option<LoadFailure> {
        let description = self.responses.description(frame, descriptor)?;
        let (summary, traceback) = decode(&description)?;
        Some(LoadFailure { summary, traceback })
    }

    /// Sends a batch. If this fails, the process has not begun it.
    pub(crate) fn send(&mut self, job: &Job, spins: bool) -> io::Result<EncodedBatch> {
        let batch = encode_batch(job, self.responses.take_freed())?;
        let descriptor = self.make_room(batch.len())?;
        let Some(region) = &mut self.input else { return Err(io::ErrorKind::OutOfMemory.into()) };
        batch.write(job, region);
        self.serial += 1;
        let flags = if spins { SPIN } else { 0 };
        let frame = Frame { flags, length: batch.description_len() as u64, ..Frame::bare(Kind::Batch) };
        self.send_frame(frame, descriptor)?;
        Ok(batch)
    }

    /// Sends the ids of sequences that have ended.
    pub(crate) fn send_end_of_sequences(&mut self, ids: &[SequenceId]) -> io::Result<()> {
        self.send_bytes(Kind::EndSequences, &encode_sequences(ids)?)
    }

    fn send_bytes(&mut self, kind: Kind, bytes: &[u8]) -> io::Result<()> {
        let descriptor = self.make_room(bytes.len())?;
        if let Some(region) = &mut self.input {
            region.write(0, bytes);
        }
        self.serial += 1;
        self.send_frame(Frame { length: bytes.len() as u64, ..Frame::bare(kind) }, descriptor)
    }

    fn send_frame(&self, frame: Frame, descriptor: Option<OwnedFd>) -> io::Result<()> {
        let flags = if descriptor.is_some() { frame.flags | NEW_REGION } else { frame.flags };
        let frame = Frame { flags, serial: self.serial, ..frame };
        self.socket.send(&frame, descriptor.as_ref().map(|file| file.as_fd()))
    }

    /// Ensures a region of at least that size. Returns its descriptor if it is new.
    fn make_room(&mut self, len: usize) -> io::Result<Option<OwnedFd>> {
        if self.input.as_ref().is_some_and(|region| region.len() >= len) {
            return Ok(None);
        }
        let (region, descriptor) = Region::create(len)?;
        self.input = Some(region);
        Ok(Some(descriptor))
    }

    /// The region of the current batch.
    pub(crate) fn input(&self) -> Option<&Region> {
        self.input.as_ref()
    }

    /// Returns whether a frame responds to the last command. Gives up the region if the process retains it.
    pub(crate) fn accepts(&mut self, frame: &Frame) -> bool {
        if frame.kind == Kind::Done && frame.has(RETAINED) {
            // An array of its handler is in it.
            self.input = None;
        }
        frame.serial == self.serial
    }

    /// Permits one more chunk, and releases slots.
    pub(crate) fn credit(&self) -> io::Result<()> {
        let credit = |region, value| self.socket.send(&Frame { region, value, ..Frame::bare(Kind::Credit) }, None);
        for slot in self.responses.take_freed() {
            credit(slot, 0)?;
        }
        credit(NO_REGION, 1)
    }

    /// Sends the command to close the handler and exit.
    pub(crate) fn stop(&self) {
        // A process that is gone needs no command.
        let _ = self.socket.send(&Frame::bare(Kind::Stop), None);
    }

    /// Its exit reason, if it has ended.
    pub(crate) fn status(&mut self) -> Option<ExitReason> {
        self.peer.status(&self.socket)
    }

    /// Returns whether it has ended, by the cheapest check.
    pub(crate) fn has_ended(&mut self) -> bool {
        self.peer.has_ended(&self.socket)
    }

    /// Returns the exit reason. Kills a child that closed its socket but is still running.
    pub(crate) fn reap(&mut self) -> ExitReason {
        self.peer.reap(&self.socket)
    }

    /// Kills it, and blocks until it is gone, which takes milliseconds.
    pub(crate) fn kill(&mut self) {
        self.peer.kill(&self.socket);
    }

    /// Its resident memory in bytes.
    pub(crate) fn rss(&self) -> Option<u64> {
        let statistics = std::fs::read_to_string(format!("/proc/{}/statm", self.id()?)).ok()?;
        let pages: u64 = statistics.split(' ').nth(1)?.parse().ok()?;
        Some(pages.saturating_mul(rustix::param::page_size() as u64))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if self.status().is_none() {
            self.kill();
        }
        self.peer.finish();
    }
}
