//! Latency target: limits the size of batches and the wait for more requests.
//!
//! A request that arrives just after the start of a batch waits for that batch and then for its own. So the target
//! holds
//! for all requests if a batch takes at most half of it and all waiting rows fit into two batches. With more rows
//! waiting, or with a target below two minimal batches, short batches would only drain the queue more slowly. Then
//! batches are as large as possible. Before the cost is known, a batch counts as half of the target.

use super::{cost::CostModel, policy::View};

/// Factor on the expected duration, which is a mean.
const MARGIN: f64 = 1.25;

/// Limits of the next batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reach {
    /// Maximum rows of the next batch.
    pub most_rows: usize,
    /// Latest start; in the past for now.
    pub latest_ns: u64,
}

/// Limits that keep the latency within `target_ns`.
pub fn reach(target_ns: u64, cost: &CostModel, view: &View) -> Reach {
    let fixed = cost.fixed_ns() as f64;
    if fixed == 0.0 {
        return Reach { most_rows: usize::MAX, latest_ns: view.oldest_ns.saturating_add(target_ns / 2) };
    }
    let rows = view.rows.max(1);
    // If rows have a cost, the mean cost of the waiting rows.
    let row = cost.per_unit_ns() as f64 * view.cost.map_or(1.0, |units| units as f64 / rows as f64);
    let half = ((target_ns as f64 / 2.0 / MARGIN - fixed) / row).min(1e9);
    let most_rows = if half < 1.0 || rows as f64 > half.floor() * 2.0 { usize::MAX } else { half as usize };
    let takes = MARGIN * (fixed + row * rows.min(most_rows) as f64);
    let end_ns = view.oldest_ns.saturating_add(target_ns);
    Reach { most_rows, latest_ns: end_ns.saturating_sub(takes as u64) }
}

/// Earliest time at which `rows` rows are answered, in nanoseconds from now, by full batches on all instances. 0 while
/// the cost of a batch is not known.
pub fn at_best_ns(rows: usize, max_size: usize, instances: usize, cost: &CostModel) -> u64 {
    let (full, rest) = (rows / max_size.max(1), rows % max_size.max(1));
    let whole = cost.batch_ns(max_size as u64).saturating_mul(full as u64) / instances.max(1) as u64;
    whole.saturating_add(if rest > 0 { cost.batch_ns(rest as u64) } else { 0 })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn learned_cost(fixed_ns: u64, row_ns: u64) -> CostModel {
        let mut cost = CostModel::default();
        (1..=12).for_each(|rows| cost.observe(rows, fixed_ns + row_ns * rows));
        cost
    }

    #[test]
    fn batches_take_half_of_the_latency_target_unless_the_queue_is_long() {
        // 25 ms with the margin is 20, so half is 10: 2 and 8 rows of 1.
        let cost = learned_cost(2_000_000, 1_000_000);
        let reach_of = |rows| reach(25_000_001, &cost, &View { rows, requests: rows, ..View::default() });
        assert_eq!(reach_of(12).most_rows, 8);
        assert_eq!(reach_of(16).most_rows, 8);
        assert_eq!(reach_of(17).most_rows, usize::MAX);
        assert!(reach_of(4).latest_ns.abs_diff(25_000_001 - 7_500_000) < 1_000);
        // No batch is that short.
        assert_eq!(reach(4_000_000, &cost, &View { rows: 3, ..View::default() }).most_rows, usize::MAX);
        let unknown = reach(25_000_000, &CostModel::default(), &View { rows: 30, ..View::default() });
        assert_eq!(unknown, Reach { most_rows: usize::MAX, latest_ns: 12_500_000 });
        assert!(at_best_ns(40, 16, 2, &cost).abs_diff(18_000_000 + 10_000_000) < 1_000);
    }

    proptest! {
        #[test]
        fn batch_limited_by_the_target_takes_at_most_half_of_it(
            (fixed, row) in (1_000u64..20_000_000, 1_000u64..5_000_000),
            target in 1_000_000u64..500_000_000,
            rows in 1usize..200,
            oldest_ns in 0u64..1 << 40,
        ) {
            let cost = learned_cost(fixed, row);
            let view = View { rows, requests: rows, oldest_ns, ..View::default() };
            let Reach { most_rows, latest_ns } = reach(target, &cost, &view);
            prop_assert!(most_rows >= 1);
            let next = rows.min(most_rows) as u64;
            if most_rows < usize::MAX {
                prop_assert!(cost.batch_ns(next) as f64 <= target as f64 / 2.0);
                // Two batches hold all waiting rows.
                prop_assert!(rows <= most_rows * 2);
            }
            // A batch that starts by then ends in time, if there was any.
            let duration = cost.batch_ns(next);
            prop_assert!(latest_ns == 0 || latest_ns + duration <= oldest_ns + target + 1_000);
            prop_assert!(latest_ns <= oldest_ns + target);
        }
    }
}
