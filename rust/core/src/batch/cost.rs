//! Cost model of batches: `S(n) = fixed + per_unit * n`, by least squares with exponential decay. A unit is a row, or a
//! unit of cost if rows have a cost.

/// Decay of older batches with each new one: about the last twenty count.
const MEMORY: f64 = 0.95;

/// Batches to observe before an estimate is returned.
const WARM_UP: u32 = 8;

/// Learned cost of a batch. Times are in nanoseconds.
#[derive(Clone, Debug, Default)]
pub struct CostModel {
    seen: u32,
    weight: f64,
    units: f64,
    units_squared: f64,
    time: f64,
    units_time: f64,
    per_unit: f64,
    /// Batches of several sizes were observed, so the slope is known.
    sloped: bool,
}

impl CostModel {
    /// Records one batch.
    pub fn observe(&mut self, units: u64, duration_ns: u64) {
        let (units, time) = (units as f64, duration_ns as f64);
        self.seen = self.seen.saturating_add(1);
        let add = |sum: &mut f64, value: f64| *sum = *sum * MEMORY + value;
        add(&mut self.weight, 1.0);
        add(&mut self.units, units);
        add(&mut self.units_squared, units * units);
        add(&mut self.time, time);
        add(&mut self.units_time, units * time);

        let (mean_units, mean_time) = (self.units / self.weight, self.time / self.weight);
        let variance = self.units_squared / self.weight - mean_units * mean_units;
        // Batches of one size do not determine the slope: the last known slope is retained.
        if variance > 1e-3 * mean_units * mean_units {
            let covariance = self.units_time / self.weight - mean_units * mean_time;
            self.sloped = true;
            self.per_unit = (covariance / variance).clamp(0.0, mean_time / mean_units.max(1.0));
        }
    }

    /// Fixed cost of a batch, in nanoseconds; 0 until enough batches were observed.
    ///
    /// While all batches have one size, the whole duration counts as fixed: that is the upper bound.
    pub fn fixed_ns(&self) -> u64 {
        if self.seen < WARM_UP {
            return 0;
        }
        ((self.time - self.per_unit * self.units) / self.weight).max(0.0) as u64
    }

    /// Cost of one more unit, in nanoseconds.
    pub fn per_unit_ns(&self) -> u64 {
        self.per_unit as u64
    }

    /// Expected duration of a batch of `units`, in nanoseconds; 0 until enough batches were observed.
    pub fn batch_ns(&self, units: u64) -> u64 {
        match self.fixed_ns() {
            0 => 0,
            fixed => fixed.saturating_add(self.per_unit_ns().saturating_mul(units)),
        }
    }

    /// Units that are expected to finish within a duration; 0 before the first batch.
    ///
    /// While all batches have one size, the whole duration counts as that of the units: that is the upper bound.
    pub fn units_within(&self, duration_ns: u64) -> usize {
        if self.seen == 0 {
            return 0;
        }
        let (fixed, per_unit) = match self.sloped {
            true => ((self.time - self.per_unit * self.units) / self.weight, self.per_unit),
            false => (0.0, self.time / self.units.max(1.0)),
        };
        // For units that cost nothing the cast saturates.
        ((duration_ns as f64 - fixed.max(0.0)) / per_unit) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::CostModel;

    #[test]
    fn cost_model_retains_its_slope_when_batch_sizes_stop_varying() {
        let mut cost = CostModel::default();
        for rows in [1, 7, 1, 7, 3, 5, 1, 7, 2, 6] {
            cost.observe(rows, 5_000_000 + 50_000 * rows);
        }
        assert!(cost.fixed_ns().abs_diff(5_000_000) < 1_000, "{}", cost.fixed_ns());
        assert!(cost.per_unit_ns().abs_diff(50_000) < 100);
        for _ in 0..200 {
            cost.observe(8, 5_400_000);
        }
        assert!(cost.fixed_ns().abs_diff(5_000_000) < 20_000, "{}", cost.fixed_ns());
    }

    #[test]
    fn cost_model_predicts_the_rows_that_fit_a_duration() {
        let mut cost = CostModel::default();
        assert_eq!(cost.units_within(1_000_000), 0);
        cost.observe(1, 100_000);
        assert_eq!(cost.units_within(1_000_000), 10, "as if nothing were fixed");
        for rows in [1, 7, 1, 7, 3, 5, 1, 7, 2, 6] {
            cost.observe(rows, 80_000 + 20_000 * rows);
        }
        assert!((45..=46).contains(&cost.units_within(1_000_000)), "{}", cost.units_within(1_000_000));
        assert_eq!(cost.units_within(50_000), 0);
        (0..400).for_each(|batch| cost.observe(1 + batch % 2, 10_000));
        assert_eq!(cost.units_within(5_000), 0);
        assert!(cost.units_within(1_000_000) > 1_000, "rows cost nothing");
    }

    #[test]
    fn cost_model_is_zero_before_enough_observations() {
        let mut cost = CostModel::default();
        for _ in 0..7 {
            cost.observe(1, 1_000_000);
        }
        assert_eq!(cost.fixed_ns(), 0);
        cost.observe(1, 1_000_000);
        assert_eq!(cost.fixed_ns(), 1_000_000);
    }
}
