//! What handlers did to their metrics, on its way from a process.

use crate::codec::fields::{Reader, Writer};
use penstock_core::metrics::{Change, MetricUpdate, Observations};

/// Writes changes.
pub(crate) fn write_kept(out: &mut Writer, kept: &[MetricUpdate]) {
    out.number(kept.len() as u64);
    for MetricUpdate { name, labels, change } in kept {
        out.text(name);
        out.number(labels.len() as u64);
        for (label, value) in labels {
            out.text(label);
            out.text(value);
        }
        match change {
            Change::Custom(value) => tagged(out, 0, *value),
            Change::Add(value) => tagged(out, 1, *value),
            Change::Set(value) => tagged(out, 2, *value),
            Change::Observe(Observations { counts, sum }) => {
                tagged(out, 3, *sum);
                out.number(counts.len() as u64);
                counts.iter().for_each(|&count| out.number(count));
            }
        }
    }
}

fn tagged(out: &mut Writer, tag: u8, value: f64) {
    out.byte(tag);
    out.number(value.to_bits());
}

/// Reads them; `None` if they are broken, or not what a handler could do.
pub(crate) fn read_kept(from: &mut Reader<'_>) -> Option<Vec<MetricUpdate>> {
    (0..from.count()?).map(|_| one(from)).collect()
}

fn one(from: &mut Reader<'_>) -> Option<MetricUpdate> {
    let name = from.text()?;
    let labels = (0..from.count()?).map(|_| Some((from.text()?, from.text()?))).collect::<Option<_>>()?;
    let (tag, value) = (from.byte()?, f64::from_bits(from.number()?));
    let change = match tag {
        0 => Change::Custom(value),
        1 => Change::Add(value),
        2 => Change::Set(value),
        3 => {
            let counts = (0..from.count()?).map(|_| from.number()).collect::<Option<_>>()?;
            Change::Observe(Observations { counts, sum: value })
        }
        _ => return None,
    };
    let kept = MetricUpdate { name, labels, change };
    kept.check().is_ok().then_some(kept)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn round(kept: &[MetricUpdate]) -> Option<Vec<MetricUpdate>> {
        let mut out = Writer::default();
        write_kept(&mut out, kept);
        let mut from = Reader(&out.0);
        read_kept(&mut from).filter(|_| from.0.is_empty())
    }

    fn kept(change: Change) -> MetricUpdate {
        MetricUpdate { name: "hits".to_owned(), labels: vec![("kind".to_owned(), "ü".to_owned())], change }
    }

    #[test]
    fn changes_round_trip() {
        let observed = Observations { counts: vec![1, 0, 4], sum: 2.5 };
        let all = [Change::Custom(2.0), Change::Add(0.5), Change::Set(-1.0), Change::Observe(observed)].map(kept);
        assert_eq!(round(&all).as_deref(), Some(&all[..]));
    }

    #[test]
    fn what_no_handler_can_do_is_refused() {
        for value in [-1.0, f64::NAN, f64::INFINITY] {
            assert!(round(&[kept(Change::Add(value))]).is_none());
            assert!(round(&[kept(Change::Custom(value))]).is_none());
            assert!(round(&[kept(Change::Observe(Observations { counts: vec![1], sum: value }))]).is_none());
        }
        assert!(round(&[MetricUpdate { name: "penstock_x".to_owned(), ..kept(Change::Add(1.0)) }]).is_none());
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = read_kept(&mut Reader(&bytes));
        }
    }
}
