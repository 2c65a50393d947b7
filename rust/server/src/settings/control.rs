//! Commands to load and unload models, on their way to whoever decides: a bounded list, and an answer each.

use penstock_core::{Error, Kind, Result};
use std::{
    collections::VecDeque,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    time::Duration,
};
use tokio::sync::oneshot;

/// Commands that may wait. Each may take minutes, so more are refused at once.
const MAX_WAITING: usize = 16;

/// The list, shared by those who ask and the one who decides.
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

/// Whether clients see how models batch, and may change it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BatchingDebug {
    /// Neither.
    Off,
    /// They see it.
    Read,
    /// They may change it too.
    Change,
}

/// What a client wants of a model.
#[derive(Debug)]
pub enum Action {
    /// Loads it, again if it is loaded.
    Load(penstock_wire::LoadRequest),
    /// Unload it.
    Unload,
}

/// A client's wish. Dropped without an answer, it is answered `Unavailable`.
#[derive(Debug)]
pub struct Command {
    /// The model's name as the client gave it.
    pub model: String,
    /// What to do.
    pub action: Action,
    reply: oneshot::Sender<Result<()>>,
}

impl Command {
    /// Responses the client.
    pub fn answer(self, result: Result<()>) {
        // A client that has left is not told; what was done stays done.
        let _ = self.reply.send(result);
    }
}

impl Control {
    /// Asks for something, and waits until it is done.
    ///
    /// # Errors
    /// What was answered; `Overloaded` when too many wait, `Unavailable` when the server stops.
    pub async fn ask(&self, model: String, action: Action) -> Result<()> {
        let (reply, answer) = oneshot::channel();
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
        answer.await.unwrap_or_else(|_| Err(stopping()))
    }

    /// The next command; `None` after `timeout`, or at once when closed. Blocks.
    pub fn take(&self, timeout: Duration) -> Option<Command> {
        let idle = |state: &mut State| state.waiting.is_empty() && !state.closed;
        let waited = self.0.changed.wait_timeout_while(self.lock(), timeout, idle);
        waited.unwrap_or_else(PoisonError::into_inner).0.waiting.pop_front()
    }

    /// Takes no more commands; those that wait are answered `Unavailable`.
    pub fn close(&self) {
        let mut state = self.lock();
        state.closed = true;
        let waiting = std::mem::take(&mut state.waiting);
        drop(state);
        self.0.changed.notify_all();
        drop(waiting);
    }

    /// Whether it is closed.
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

    fn ask(control: &Control, model: &str) -> tokio::task::JoinHandle<Result<()>> {
        let (control, model) = (control.clone(), model.to_owned());
        tokio::spawn(async move { control.ask(model, Action::Unload).await })
    }

    #[tokio::test]
    async fn commands_come_in_order_and_are_answered() {
        let control = Control::default();
        let (first, second) = (ask(&control, "a"), ask(&control, "b"));
        tokio::task::yield_now().await;
        let taken = [(); 2].map(|()| control.take(Duration::ZERO).unwrap());
        assert_eq!(taken.each_ref().map(|command| command.model.as_str()), ["a", "b"]);
        assert!(control.take(Duration::ZERO).is_none());
        let [a, b] = taken;
        b.answer(Err(Error::invalid("no")));
        a.answer(Ok(()));
        assert!(first.await.unwrap().is_ok());
        assert_eq!(second.await.unwrap().unwrap_err().message(), "no");
    }

    #[tokio::test]
    async fn more_than_may_wait_are_refused() {
        let control = Control::default();
        let waiting: Vec<_> = (0..MAX_WAITING).map(|_| ask(&control, "m")).collect();
        tokio::task::yield_now().await;
        let refused = control.ask("m".to_owned(), Action::Unload).await.unwrap_err();
        assert_eq!(refused.kind(), Kind::Overloaded);
        assert_eq!(refused.message(), "16 requests to load or unload models wait already");
        control.close();
        for one in waiting {
            assert_eq!(one.await.unwrap().unwrap_err().kind(), Kind::Unavailable);
        }
        assert_eq!(control.ask("m".to_owned(), Action::Unload).await.unwrap_err().kind(), Kind::Unavailable);
        assert!(control.take(Duration::from_secs(60)).is_none() && control.is_closed());
    }
}
