//! One process, from the server's side.

use crate::{
    codec::{
        batch::{EncodedBatch, describe_batch, describe_over},
        fields::Reader,
    },
    supervisor::{
        exit_reason::{ExitReason, LoadFailure, out_of_memory_kills},
        launch::Launch,
        peer::Peer,
        responses::ResponseRegions,
    },
    transport::{
        control_channel::InstanceChannel,
        frame::{BRISK, Frame, KEPT, Kind, NEW},
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

/// A process, and what it shares with this one. A child is killed when this is dropped.
#[derive(Debug)]
pub(crate) struct Process {
    partner: Peer,
    pub(crate) socket: Socket,
    /// Where batches are written: one region, replaced when it is too small or was kept.
    input: Option<Region>,
    pub(crate) answers: ResponseRegions,
    serial: u64,
    pub(crate) started: Instant,
    pub(crate) batches: u64,
}

impl Process {
    /// Starts one, and tells it what to load.
    pub(crate) fn start(launch: &Launch, model: &str, index: usize) -> Result<Self, LoadFailure> {
        let failed = |error: io::Error| LoadFailure::of(format!("its process could not be started: {error}"));
        let (socket, end) = Socket::pair().map_err(failed)?;
        let mut command = Command::new(&launch.program);
        // The socket takes the place of the standard input; no other descriptor is inherited.
        command.args(&launch.arguments).stdin(Stdio::from(end.into_fd()));
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command.envs(launch.environment(index).iter().map(|(name, value)| (name, value)));
        let kills_before = out_of_memory_kills();
        let child = command.spawn().map_err(failed)?;
        drop(command);
        let partner = Peer::child(child, model, kills_before).map_err(failed)?;
        let mut process = Self::of(partner, socket);
        process.send_bytes(Kind::Start, &launch.payload).map_err(failed)?;
        Ok(process)
    }

    /// One that attached itself, and that is loading already.
    pub(crate) fn attached(channel: InstanceChannel) -> Self {
        Self::of(Peer::Guest, Socket::of(channel.into_fd()))
    }

    fn of(partner: Peer, socket: Socket) -> Self {
        Self {
            partner,
            socket,
            input: None,
            answers: ResponseRegions::default(),
            serial: 0,
            started: Instant::now(),
            batches: 0,
        }
    }

    /// The number of a process that was started here.
    pub(crate) fn id(&self) -> Option<u32> {
        self.partner.id()
    }

    pub(crate) fn is_guest(&self) -> bool {
        self.partner.is_guest()
    }

    pub(crate) fn pidfd(&self) -> Option<BorrowedFd<'_>> {
        self.partner.pidfd()
    }

    /// What it answers to what it was told to load, if it has answered by now.
    pub(crate) fn loaded(&mut self, fingerprint: u64) -> Option<Result<(), LoadFailure>> {
        let broken = || LoadFailure::of(ExitReason::Broken.to_string());
        let (frame, descriptor) = match self.socket.receive() {
            Ok(Received::Frame(frame, descriptor)) => (frame, descriptor),
            Ok(Received::Nothing) => {
                return Some(Err(LoadFailure::of(self.status()?.to_string())));
            }
            Ok(Received::Ended { .. }) => return Some(Err(LoadFailure::of(self.end().to_string()))),
            Err(_) => return Some(Err(broken())),
        };
        Some(match frame.kind {
            Kind::Ready if frame.value == fingerprint => Ok(()),
            Kind::Ready => Err(LoadFailure::of(
                "its process found another signature than the server has: its code has changed, or depends on where it runs",
            )),
            Kind::Failed => Err(self.failure(&frame, descriptor).unwrap_or_else(broken)),
            _ => Err(broken()),
        })
    }

    fn failure(&mut self, frame: &Frame, descriptor: Option<OwnedFd>) -> Option<LoadFailure> {
        let description = self.answers.description(frame, descriptor)?;
        let mut from = Reader(&description);
        Some(LoadFailure { summary: from.text()?, traceback: from.text()? })
    }

    /// Hands a batch over. It is not begun if this fails.
    pub(crate) fn send(&mut self, job: &Job, brisk: bool) -> io::Result<EncodedBatch> {
        let written = describe_batch(job, &self.answers.take_returned());
        let descriptor = self.make_room(written.len())?;
        let Some(region) = &mut self.input else { return Err(io::ErrorKind::OutOfMemory.into()) };
        written.write(job, region);
        self.serial += 1;
        let flags = if brisk { BRISK } else { 0 };
        let frame = Frame { flags, length: written.description_len() as u64, ..Frame::bare(Kind::Batch) };
        self.send_frame(frame, descriptor)?;
        Ok(written)
    }

    /// Tells it of sequences that are over.
    pub(crate) fn send_over(&mut self, ids: &[SequenceId]) -> io::Result<()> {
        self.send_bytes(Kind::Over, &describe_over(ids))
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
        let flags = if descriptor.is_some() { frame.flags | NEW } else { frame.flags };
        let frame = Frame { flags, serial: self.serial, ..frame };
        self.socket.send(&frame, descriptor.as_ref().map(|file| file.as_fd()))
    }

    /// A region of at least that size; its descriptor, if it is new.
    fn make_room(&mut self, len: usize) -> io::Result<Option<OwnedFd>> {
        if self.input.as_ref().is_some_and(|region| region.len() >= len) {
            return Ok(None);
        }
        let (region, descriptor) = Region::create(len)?;
        self.input = Some(region);
        Ok(Some(descriptor))
    }

    /// Where the batch lies that it computes.
    pub(crate) fn input(&self) -> Option<&Region> {
        self.input.as_ref()
    }

    /// Whether a frame answers what it was told last. Notes whether it keeps the region.
    pub(crate) fn answers(&mut self, frame: &Frame) -> bool {
        if frame.kind == Kind::Done && frame.has(KEPT) {
            // An array of its handler's lives there now.
            self.input = None;
        }
        frame.serial == self.serial
    }

    /// Lets it send one more piece, and tells it which slots are free again.
    pub(crate) fn credit(&self) -> io::Result<()> {
        let credit = |region, value| self.socket.send(&Frame { region, value, ..Frame::bare(Kind::Credit) }, None);
        for slot in self.answers.take_returned() {
            credit(slot, 0)?;
        }
        credit(crate::transport::frame::NO_REGION, 1)
    }

    /// Asks it to close its handler, and to end.
    pub(crate) fn stop(&self) {
        // One that is gone already needs no telling.
        let _ = self.socket.send(&Frame::bare(Kind::Stop), None);
    }

    /// How it ended, if it has.
    pub(crate) fn status(&mut self) -> Option<ExitReason> {
        self.partner.status(&self.socket)
    }

    /// Whether it has ended, without asking the kernel more than that.
    pub(crate) fn has_ended(&mut self) -> bool {
        self.partner.has_ended(&self.socket)
    }

    /// How it ended; one that has not though it closed its socket is ended here.
    pub(crate) fn end(&mut self) -> ExitReason {
        self.partner.end(&self.socket)
    }

    /// Ends it at once. Blocks until it is gone, which is not long.
    pub(crate) fn kill(&mut self) {
        self.partner.kill(&self.socket);
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
        self.partner.finish();
    }
}
