//! Responses of a process to one batch.

use crate::{
    codec::{batch::EncodedBatch, response::Response},
    supervisor::{exit_reason::ExitReason, instance::log, process::Process, watchdog::Watchdog},
    transport::frame::{Frame, Kind},
};
use penstock_core::{BatchOutput, Job, Streaming};
use std::{io, os::fd::OwnedFd};

/// The result of a batch.
type Computed = penstock_core::Result<BatchOutput>;

/// Reads the only response to a batch.
pub(crate) fn read_last(
    process: &mut Process,
    frame: &Frame,
    descriptor: Option<OwnedFd>,
    job: &Job,
) -> Result<Computed, ExitReason> {
    match read(process, frame, descriptor, job) {
        Some(Response::Done { outputs, failed, parameters, times }) => {
            Ok(Ok(BatchOutput { outputs, failed, per_request: None, parameters, times }))
        }
        Some(Response::PerRequest { each, parameters, times: Some(times) }) => {
            let per_request = Some(each.into_iter().map(Into::into).collect());
            Ok(Ok(BatchOutput { per_request, parameters, times, ..BatchOutput::default() }))
        }
        Some(Response::Failed(error)) => Ok(Err(error)),
        _ => Err(ExitReason::ProtocolError),
    }
}

/// Forwards the chunks of a batch until it ends.
pub(crate) fn stream(
    process: &mut Process,
    watchdog: &mut Watchdog<'_>,
    sent: &EncodedBatch,
    streaming: &mut Streaming,
    first: (Frame, Option<OwnedFd>),
) -> Result<Computed, ExitReason> {
    // After a chunk that does not fit the signature, the handler sees all clients as disconnected.
    let mut refused = None;
    let mut next = first;
    loop {
        let (frame, descriptor) = next;
        let chunk = match read(process, &frame, descriptor, streaming.job()) {
            Some(Response::Done { outputs, failed, parameters, times }) => {
                let output = BatchOutput { outputs, failed, per_request: None, parameters, times };
                return Ok(refused.map_or(Ok(output), Err));
            }
            Some(Response::Failed(error)) => return Ok(Err(refused.unwrap_or(error))),
            Some(chunk) => chunk,
            None => return Err(ExitReason::ProtocolError),
        };
        if refused.is_none() {
            refused = push(streaming, chunk).err();
        }
        if let Some(region) = process.input()
            && (refused.is_some() || !streaming.is_wanted())
        {
            sent.mark_all_disconnected(region);
        }
        if refused.is_none() && streaming.is_wanted() && streaming.is_full() {
            streaming.wait_for_room();
            watchdog.restart();
        }
        if let Err(error) = process.credit()
            && !is_gone(&error)
        {
            return Err(process.reap());
        }
        next = watchdog.next_frame(process, Some((sent, streaming.job())))?;
    }
}

/// Returns whether the other end is closed. Frames that it sent before, and its exit reason, follow.
fn is_gone(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset)
}

fn push(streaming: &mut Streaming, chunk: Response) -> penstock_core::Result<()> {
    match chunk {
        Response::Chunk { outputs, parameters, last } => streaming.send(outputs, &parameters, last),
        Response::Rows { rows, parameters } => streaming.send_rows(rows, &parameters),
        Response::PerRequest { each, parameters, .. } => streaming.send_per_request(each, &parameters),
        Response::EndAll | Response::Done { .. } | Response::Failed(_) => {
            streaming.end_all();
            Ok(())
        }
    }
}

/// Reads the response of a frame, and applies its metric updates.
fn read(process: &mut Process, frame: &Frame, descriptor: Option<OwnedFd>, job: &Job) -> Option<Response> {
    if !process.accepts(frame) || !matches!(frame.kind, Kind::Done | Kind::Chunk) {
        return None;
    }
    let (response, updates) = process.responses.read(frame, descriptor)?;
    let is_last =
        matches!(response, Response::Done { .. } | Response::Failed(_) | Response::PerRequest { times: Some(_), .. });
    if is_last != (frame.kind == Kind::Done) {
        return None;
    }
    for update in updates {
        if let Some(line) = job.apply(update).err().and_then(|unkept| job.metrics().log_line(&unkept)) {
            log(job.spec(), format_args!("{line}"));
        }
    }
    Some(response)
}
