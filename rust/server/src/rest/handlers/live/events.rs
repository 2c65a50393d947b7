//! Events of viewers, and the task that samples for all of them.

use super::sampler::Sampler;
use crate::{
    observe::live::{Feed, Update, Viewer},
    state::{App, Phase},
};
use bytes::Bytes;
use futures_util::{Stream, stream::unfold};
use std::{convert::Infallible, sync::Arc, time::Duration};
use tokio::{
    task::spawn_blocking,
    time::{MissedTickBehavior, interval},
};

/// Time between two samples.
const PERIOD: Duration = Duration::from_secs(1);

/// Samples the server while someone watches, and until it has drained.
pub(super) async fn sample(app: Arc<App>, mut feed: Feed) {
    let mut sampler = Sampler::default();
    let mut ticks = interval(PERIOD);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        let drained = app.phase() == Phase::Draining && app.requests_under_way() == 0;
        if drained || !feed.is_watched() {
            return;
        }
        let sampled = Arc::clone(&app);
        // Not on the I/O thread: with many models it takes longer than a request.
        let work = spawn_blocking(move || {
            let update = sampler.sample(&sampled);
            (sampler, update)
        });
        let Ok((next, update)) = work.await else { return };
        sampler = next;
        feed.send(update);
    }
}

/// Events of one viewer: the state, then changes. A viewer that missed one gets the state again.
pub(super) fn stream(viewer: Viewer) -> impl Stream<Item = Result<Bytes, Infallible>> + Send + 'static {
    unfold((viewer, None::<u64>), |(mut viewer, seen)| async move {
        // An error is the sampler's end.
        viewer.updates.changed().await.ok()?;
        let update = viewer.updates.borrow_and_update().clone()?;
        let follows = seen.is_some_and(|seen| seen + 1 == update.number);
        Some((Ok(event(&update, follows)), (viewer, Some(update.number))))
    })
}

fn event(update: &Update, follows: bool) -> Bytes {
    let Update { number, state, delta } = update;
    let mut event = format!("id: {number}\nevent: {}\ndata: ", if follows { "delta" } else { "state" }).into_bytes();
    match follows {
        true => event.extend_from_slice(delta),
        false => event.extend_from_slice(state.to_string().as_bytes()),
    }
    event.extend_from_slice(b"\n\n");
    event.into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observe::live::Live;
    use futures_util::StreamExt as _;
    use serde_json::json;

    fn update(number: u64) -> Update {
        Update { number, state: Arc::new(json!({"n": number})), delta: Bytes::from(format!("{{\"d\":{number}}}")) }
    }

    #[tokio::test]
    async fn viewer_gets_the_state_then_changes_and_the_state_after_a_gap() {
        let live = Arc::new(Live::default());
        let (viewer, feed) = live.join().unwrap();
        let (mut events, feed) = (Box::pin(stream(viewer)), feed.unwrap());
        let mut texts = Vec::new();
        for sent in [&[1][..], &[2], &[3], &[4, 5], &[6]] {
            sent.iter().for_each(|&number| feed.send(update(number)));
            texts.push(String::from_utf8(events.next().await.unwrap().unwrap().to_vec()).unwrap());
        }
        assert_eq!(texts[0], "id: 1\nevent: state\ndata: {\"n\":1}\n\n");
        assert_eq!(texts[1], "id: 2\nevent: delta\ndata: {\"d\":2}\n\n");
        assert_eq!(texts[3], "id: 5\nevent: state\ndata: {\"n\":5}\n\n", "it missed the fourth");
        assert_eq!(texts[4], "id: 6\nevent: delta\ndata: {\"d\":6}\n\n");
        drop(feed);
        assert!(events.next().await.is_none());
    }
}
