//! Tokens of one request, which its handler records.

use crate::convert::token_counts::{TokenCounts, refused};
use penstock_core::{ModelSpec, TokenUsage, Traced};
use pyo3::{exceptions::PyRuntimeError, prelude::*};
use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Instant,
};

/// Tokens of one request, until its handler ends.
#[derive(Debug)]
pub(crate) struct RequestTokens {
    /// Place of the request in its batch.
    place: usize,
    /// Time of the cut of the batch.
    began: Instant,
    trace: Option<Arc<Traced>>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Allocated by the first record.
    usage: Option<Box<TokenUsage>>,
    has_ended: bool,
}

impl RequestTokens {
    pub(super) fn new(place: usize, began: Instant, trace: Option<Arc<Traced>>) -> Self {
        Self { place, began, trace, state: Mutex::default() }
    }

    /// Adds counts.
    ///
    /// # Errors
    /// Those of [`TokenCounts::usage`], `ValueError` for sums over the maximum, `RuntimeError` after the end of the handler.
    pub(super) fn record(&self, spec: &Arc<ModelSpec>, counts: TokenCounts<'_>) -> PyResult<()> {
        let more = TokenUsage { place: self.place, ..counts.usage(self.began)? };
        let mut state = self.lock();
        if state.has_ended {
            let text = "record_tokens: the handler of this request has ended, and its tokens are counted";
            return Err(PyRuntimeError::new_err(text));
        }
        let usage = state.usage.get_or_insert_default();
        usage.add(more).map_err(refused)?;
        // A client may have the last response, and the span its end, before the handler has ended.
        if let Some(trace) = &self.trace {
            trace.set_usage(spec, (**usage).clone());
        }
        Ok(())
    }

    /// Takes the counts when the handler has ended.
    pub(super) fn end(&self) -> Option<Box<TokenUsage>> {
        let mut state = self.lock();
        state.has_ended = true;
        state.usage.take()
    }

    /// Trace of the request.
    pub(super) fn trace(&self) -> Option<&Arc<Traced>> {
        self.trace.as_ref()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
