//! A batch in a process: its answer, or its pieces.

use crate::{
    codec::{
        batch::EncodedBatch,
        response::{Outputs, Response},
    },
    supervisor::{exit_reason::ExitReason, instance::say, process::Process, watchdog::Watchdog},
    transport::frame::{Frame, Kind},
};
use penstock_core::{BatchOutput, Job, Streaming};
use std::{io, os::fd::OwnedFd};

/// What a batch came to.
type Computed = penstock_core::Result<BatchOutput>;

/// The answer to a batch.
pub(crate) fn answer(
    process: &mut Process,
    frame: &Frame,
    descriptor: Option<OwnedFd>,
    job: &Job,
) -> Result<Computed, ExitReason> {
    match read(process, frame, descriptor, job) {
        Some(Response::Done { outputs, failed, parameters, times }) => {
            Ok(Ok(BatchOutput { outputs, failed, per_request: None, parameters, times }))
        }
        Some(Response::Apart { each, parameters, times: Some(times) }) => {
            let per_request = Some(each.into_iter().map(Into::into).collect());
            Ok(Ok(BatchOutput { per_request, parameters, times, ..BatchOutput::default() }))
        }
        Some(Response::Failed(error)) => Ok(Err(error)),
        _ => Err(ExitReason::Broken),
    }
}

/// Hands out the pieces of a batch until it ends.
pub(crate) fn stream(
    process: &mut Process,
    watch: &mut Watchdog<'_>,
    sent: &EncodedBatch,
    streaming: &mut Streaming,
    first: (Frame, Option<OwnedFd>),
) -> Result<Computed, ExitReason> {
    // Once a piece does not fit the signature, the handler learns that nobody wants more.
    let mut refused = None;
    let mut next = first;
    loop {
        let (frame, descriptor) = next;
        let piece = match read(process, &frame, descriptor, streaming.job()) {
            Some(Response::Done { outputs, failed, parameters, times }) => {
                let output = BatchOutput { outputs, failed, per_request: None, parameters, times };
                return Ok(refused.map_or(Ok(output), Err));
            }
            Some(Response::Failed(error)) => return Ok(Err(refused.unwrap_or(error))),
            Some(piece) => piece,
            None => return Err(ExitReason::Broken),
        };
        if refused.is_none() {
            refused = push(streaming, piece).err();
        }
        if let Some(region) = process.input()
            && (refused.is_some() || !streaming.is_wanted())
        {
            sent.tell_all_left(region);
        }
        if refused.is_none() && streaming.is_wanted() && streaming.is_full() {
            streaming.wait_for_room();
            watch.restart();
        }
        if let Err(error) = process.credit()
            && !is_gone(&error)
        {
            return Err(process.end());
        }
        next = watch.frame(process, Some((sent, streaming.job())))?;
    }
}

/// Whether the other end is closed. It may have sent more before, and how it ended is told after that.
fn is_gone(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset)
}

fn push(streaming: &mut Streaming, piece: Response<Outputs>) -> penstock_core::Result<()> {
    match piece {
        Response::Piece { outputs, parameters, last } => streaming.send(outputs, &parameters, last),
        Response::Rows { rows, parameters } => streaming.send_rows(rows, &parameters),
        Response::Apart { each, parameters, .. } => streaming.send_apart(each, &parameters),
        Response::EndAll | Response::Done { .. } | Response::Failed(_) => {
            streaming.end_all();
            Ok(())
        }
    }
}

/// Reads what a frame answers, and adds what the handler counted.
fn read(process: &mut Process, frame: &Frame, descriptor: Option<OwnedFd>, job: &Job) -> Option<Response<Outputs>> {
    if !process.answers(frame) || !matches!(frame.kind, Kind::Done | Kind::Piece) {
        return None;
    }
    let (answer, kept) = process.answers.read(frame, descriptor)?;
    let is_last =
        matches!(answer, Response::Done { .. } | Response::Failed(_) | Response::Apart { times: Some(_), .. });
    if is_last != (frame.kind == Kind::Done) {
        return None;
    }
    for one in kept {
        if let Some(line) = job.metrics().keep(one).err().and_then(|unkept| job.metrics().tell(&unkept)) {
            say(job.spec(), format_args!("{line}"));
        }
    }
    Some(answer)
}
