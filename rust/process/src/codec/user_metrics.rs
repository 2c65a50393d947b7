//! Metric updates of a handler, on their way from its process.

use super::values::Pairs;
use penstock_core::{
    GenAiOperation, TokenUsage,
    metrics::{Change, MetricUpdate, Observations},
};
use serde::{Deserialize, Serialize};
use std::{borrow::Cow, time::Duration};

/// One update.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct UpdateMessage<'a> {
    name: &'a str,
    #[serde(borrow)]
    labels: Pairs<'a>,
    change: ChangeMessage<'a>,
}

#[derive(Debug, Serialize, Deserialize)]
enum ChangeMessage<'a> {
    Custom(f64),
    Add(f64),
    Set(f64),
    Observe { counts: Cow<'a, [u64]>, sum: f64 },
    Tokens(#[serde(borrow)] TokensMessage<'a>),
}

/// Tokens of a request.
#[derive(Debug, Serialize, Deserialize)]
struct TokensMessage<'a> {
    place: usize,
    prompt: Option<u64>,
    completion: Option<u64>,
    duration: Duration,
    #[serde(borrow)]
    finish_reason: Option<&'a str>,
    operation: &'a str,
}

impl<'a> From<&'a TokenUsage> for TokensMessage<'a> {
    fn from(usage: &'a TokenUsage) -> Self {
        let &TokenUsage { place, prompt, completion, duration, ref finish_reason, operation } = usage;
        let (finish_reason, operation) = (finish_reason.as_deref(), operation.name());
        Self { place, prompt, completion, duration, finish_reason, operation }
    }
}

impl TokensMessage<'_> {
    /// The tokens; `None` for an unknown operation.
    fn usage(self) -> Option<TokenUsage> {
        let Self { place, prompt, completion, duration, finish_reason, operation } = self;
        let (finish_reason, operation) = (finish_reason.map(str::to_owned), GenAiOperation::by_name(operation)?);
        Some(TokenUsage { place, prompt, completion, duration, finish_reason, operation })
    }
}

impl<'a> From<&'a MetricUpdate> for UpdateMessage<'a> {
    fn from(MetricUpdate { name, labels, change }: &'a MetricUpdate) -> Self {
        let change = match change {
            Change::Custom(value) => ChangeMessage::Custom(*value),
            Change::Add(value) => ChangeMessage::Add(*value),
            Change::Set(value) => ChangeMessage::Set(*value),
            Change::Observe(Observations { counts, sum }) => {
                ChangeMessage::Observe { counts: Cow::Borrowed(counts), sum: *sum }
            }
            Change::Tokens(usage) => ChangeMessage::Tokens(usage.into()),
        };
        Self { name, labels: labels.iter().map(|(label, value)| (&**label, &**value)).collect(), change }
    }
}

impl UpdateMessage<'_> {
    /// The update; `None` for one that no handler can make.
    pub(crate) fn update(self) -> Option<MetricUpdate> {
        let owned = |(label, value): (&str, &str)| (label.to_owned(), value.to_owned());
        let change = match self.change {
            ChangeMessage::Custom(value) => Change::Custom(value),
            ChangeMessage::Add(value) => Change::Add(value),
            ChangeMessage::Set(value) => Change::Set(value),
            ChangeMessage::Observe { counts, sum } => {
                Change::Observe(Observations { counts: counts.into_owned(), sum })
            }
            ChangeMessage::Tokens(tokens) => Change::Tokens(tokens.usage()?),
        };
        let labels = self.labels.into_iter().map(owned).collect();
        let update = MetricUpdate { name: self.name.to_owned(), labels, change };
        update.check().is_ok().then_some(update)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::values::{decode, encode};
    use penstock_core::MAX_TOKENS;
    use proptest::prelude::*;

    fn round_trip(updates: &[MetricUpdate]) -> Option<Vec<MetricUpdate>> {
        let encoded = encode(&updates.iter().map(UpdateMessage::from).collect::<Vec<_>>()).unwrap();
        let messages: Vec<UpdateMessage<'_>> = decode(&encoded)?;
        messages.into_iter().map(UpdateMessage::update).collect()
    }

    fn update(change: Change) -> MetricUpdate {
        MetricUpdate { name: "hits".to_owned(), labels: vec![("kind".to_owned(), "ü".to_owned())], change }
    }

    #[test]
    fn updates_round_trip() {
        let observed = Observations { counts: vec![1, 0, 4], sum: 2.5 };
        let all = [Change::Custom(2.0), Change::Add(0.5), Change::Set(-1.0), Change::Observe(observed)].map(update);
        assert_eq!(round_trip(&all).as_deref(), Some(&all[..]));
        let tokens = TokenUsage {
            place: 3,
            prompt: Some(7),
            completion: None,
            duration: Duration::from_millis(5),
            finish_reason: Some("stop".to_owned()),
            operation: GenAiOperation::Chat,
        };
        let tokens = [MetricUpdate::tokens(tokens)];
        assert_eq!(round_trip(&tokens).as_deref(), Some(&tokens[..]));
    }

    #[test]
    fn updates_that_no_handler_can_make_are_refused() {
        for value in [-1.0, f64::NAN, f64::INFINITY] {
            assert!(round_trip(&[update(Change::Add(value))]).is_none());
            assert!(round_trip(&[update(Change::Custom(value))]).is_none());
            assert!(round_trip(&[update(Change::Observe(Observations { counts: vec![1], sum: value }))]).is_none());
        }
        let tokens = TokenUsage { prompt: Some(MAX_TOKENS + 1), ..TokenUsage::default() };
        assert!(round_trip(&[MetricUpdate::tokens(tokens)]).is_none());
        assert!(round_trip(&[MetricUpdate { name: "penstock_x".to_owned(), ..update(Change::Add(1.0)) }]).is_none());
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let messages = decode::<Vec<UpdateMessage<'_>>>(&bytes);
            let _ = messages.map(|messages| messages.into_iter().map(UpdateMessage::update).count());
        }
    }
}
