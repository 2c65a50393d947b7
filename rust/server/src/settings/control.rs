//! Bounded queue of clients' commands to load and unload models, each with its outcome.

use penstock_core::{Error, Kind, Result};
use std::{
    collections::VecDeque,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    time::Duration,
};
use tokio::sync::oneshot;

/// Commands that may wait. Each may take minutes, so further ones are refused at once.
const MAX_WAITING: usize = 16;

/// Queue between clients and the repository thread.
#[derive(Clone, Debug, Default)]
pub struct Control(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    waiting: VecDeque<Command>,
    closed: bool,
}

/// Access of clients to batching reports and knobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BatchingDebug {
    /// No access.
    Off,
    /// Reports only.
    Read,
    /// Reports and knobs.
    Change,
}

/// Action on a model.
#[derive(Debug)]
pub enum Action {
    /// Loads or reloads it.
    Load(penstock_wire::LoadRequest),
    /// Unloads it.
    Unload,
}

/// Command of a client. A command that is dropped fails with `Unavailable`.
#[derive(Debug)]
pub struct Command {
    /// Name of the model as the client gave it.
    pub model: String,
    /// Action to take.
    pub action: Action,
    reply: oneshot::Sender<Result<()>>,
}

impl Command {
    /// Sends the outcome to the client.
    pub fn complete(self, result: Result<()>) {
        // A client that has left gets no outcome; the action stands.
        let _ = self.reply.send(result);
    }
}

impl Control {
    /// Queues a command, and waits for its outcome.
    ///
    /// # Errors
    /// The outcome; `Overloaded` when too many commands wait, `Unavailable` when the server stops.
    pub async fn request(&self, model: String, action: Action) -> Result<()> {
        let (reply, outcome) = oneshot::channel();
        {
            let mut state = self.lock();
            if state.closed {
                return Err(stopping());
            }
            if state.waiting.len() >= MAX_WAITING {
                return Err(Error::new(
                    Kind::Overloaded,
                    format!("{MAX_WAITING} requests to load or unload models wait already"),
                )
                .retry_after(Duration::from_secs(1)));
            }
            state.waiting.push_back(Command { model, action, reply });
        }
        self.0.changed.notify_one();
        outcome.await.unwrap_or_else(|_| Err(stopping()))
    }

    /// Blocks for the next command; returns `None` after `timeout`, or at once when closed.
    pub fn take(&self, timeout: Duration) -> Option<Command> {
        let idle = |state: &mut State| state.waiting.is_empty() && !state.closed;
        let waited = self.0.changed.wait_timeout_while(self.lock(), timeout, idle);
        waited.unwrap_or_else(PoisonError::into_inner).0.waiting.pop_front()
    }

    /// Refuses further commands, and fails waiting ones with `Unavailable`.
    pub fn close(&self) {
        let mut state = self.lock();
        state.closed = true;
        let waiting = std::mem::take(&mut state.waiting);
        drop(state);
        self.0.changed.notify_all();
        drop(waiting);
    }

    /// Reports whether it is closed.
    pub fn is_closed(&self) -> bool {
        self.lock().closed
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn stopping() -> Error {
    Error::new(Kind::Unavailable, "the server is shutting down").retry_after(Duration::from_secs(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(control: &Control, model: &str) -> tokio::task::JoinHandle<Result<()>> {
        let (control, model) = (control.clone(), model.to_owned());
        tokio::spawn(async move { control.request(model, Action::Unload).await })
    }

    #[tokio::test]
    async fn commands_are_ordered_and_return_outcomes() {
        let control = Control::default();
        let (first, second) = (request(&control, "a"), request(&control, "b"));
        tokio::task::yield_now().await;
        let commands = [(); 2].map(|()| control.take(Duration::ZERO).unwrap());
        assert_eq!(commands.each_ref().map(|command| command.model.as_str()), ["a", "b"]);
        assert!(control.take(Duration::ZERO).is_none());
        let [a, b] = commands;
        b.complete(Err(Error::invalid("no")));
        a.complete(Ok(()));
        assert!(first.await.unwrap().is_ok());
        assert_eq!(second.await.unwrap().unwrap_err().message(), "no");
    }

    #[tokio::test]
    async fn commands_over_the_limit_are_refused() {
        let control = Control::default();
        let waiting: Vec<_> = (0..MAX_WAITING).map(|_| request(&control, "m")).collect();
        tokio::task::yield_now().await;
        let refused = control.request("m".to_owned(), Action::Unload).await.unwrap_err();
        assert_eq!(refused.kind(), Kind::Overloaded);
        assert_eq!(refused.message(), "16 requests to load or unload models wait already");
        control.close();
        for task in waiting {
            assert_eq!(task.await.unwrap().unwrap_err().kind(), Kind::Unavailable);
        }
        assert_eq!(control.request("m".to_owned(), Action::Unload).await.unwrap_err().kind(), Kind::Unavailable);
        assert!(control.take(Duration::from_secs(60)).is_none() && control.is_closed());
    }
}
