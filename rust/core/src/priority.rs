//! What waits, by priority: higher levels first, each in order of arrival.

use std::{collections::VecDeque, time::Duration};

/// How requests wait for an instance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Queueing {
    /// Levels of priority; 1 is none at all. The highest is 1, the lowest is this number.
    pub priorities: usize,
    /// The level of requests that name none.
    pub default_priority: usize,
    /// The longest that a request may wait, whatever its own deadline.
    pub timeout: Option<Duration>,
}

impl Default for Queueing {
    fn default() -> Self {
        Self { priorities: 1, default_priority: 1, timeout: None }
    }
}

impl Queueing {
    /// The level, counted from 0, of a request with that priority.
    ///
    /// 0 and what lies beyond the levels mean the default.
    pub fn level(&self, priority: u64) -> usize {
        let named = usize::try_from(priority).ok().filter(|level| (1..=self.priorities).contains(level));
        named.unwrap_or(self.default_priority).saturating_sub(1)
    }
}

/// A queue for each level. One level costs what a plain queue does.
#[derive(Debug)]
pub(crate) struct Levels<T> {
    levels: Box<[VecDeque<T>]>,
    len: usize,
}

/// A place in the order of serving.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Place {
    level: usize,
    index: usize,
}

impl Place {
    /// Goes on behind the item that is here.
    pub(crate) fn skip(&mut self) {
        self.index += 1;
    }
}

impl<T> Levels<T> {
    pub(crate) fn new(count: usize) -> Self {
        Self { levels: std::iter::repeat_with(VecDeque::new).take(count.max(1)).collect(), len: 0 }
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Adds an item behind those of its level, counted from 0.
    pub(crate) fn push(&mut self, level: usize, item: T) {
        let level = level.min(self.levels.len() - 1);
        self.levels[level].push_back(item);
        self.len += 1;
    }

    /// The item at a place, or the next one behind it; `place` is moved there.
    pub(crate) fn get(&self, place: &mut Place) -> Option<&T> {
        while let Some(level) = self.levels.get(place.level) {
            if let Some(item) = level.get(place.index) {
                return Some(item);
            }
            *place = Place { level: place.level + 1, index: 0 };
        }
        None
    }

    /// Takes out the item at a place, where the next one then is.
    pub(crate) fn remove(&mut self, place: Place) -> Option<T> {
        let item = self.levels.get_mut(place.level)?.remove(place.index)?;
        self.len -= 1;
        Some(item)
    }

    /// All items in the order of serving.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        self.levels.iter().flatten()
    }

    /// The first item of each level that has one.
    pub(crate) fn fronts(&self) -> impl Iterator<Item = &T> {
        self.levels.iter().filter_map(VecDeque::front)
    }

    /// Takes out the items for which `goes` says why, in the order of serving.
    pub(crate) fn part<F>(&mut self, mut goes: impl FnMut(&T) -> Option<F>) -> Vec<(F, T)> {
        let mut gone = Vec::new();
        for level in &mut self.levels {
            for item in std::mem::take(level) {
                match goes(&item) {
                    Some(why) => gone.push((why, item)),
                    None => level.push_back(item),
                }
            }
        }
        self.len -= gone.len();
        gone
    }

    /// Takes out everything, in the order of serving.
    pub(crate) fn clear(&mut self) -> Vec<T> {
        self.len = 0;
        self.levels.iter_mut().flat_map(std::mem::take).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zero_and_beyond_the_levels_is_the_default() {
        let queueing = Queueing { priorities: 3, default_priority: 2, timeout: None };
        let levels = [0, 1, 2, 3, 4, u64::MAX].map(|priority| queueing.level(priority));
        assert_eq!(levels, [1, 0, 1, 2, 1, 1]);
        assert_eq!(Queueing::default().level(7), 0);
    }

    #[test]
    fn higher_levels_are_served_first_and_each_in_order() {
        let mut levels = Levels::new(3);
        for (level, item) in [(2, 'a'), (0, 'b'), (2, 'c'), (1, 'd'), (0, 'e')] {
            levels.push(level, item);
        }
        assert_eq!(levels.iter().collect::<String>(), "bedac");
        assert_eq!(levels.fronts().collect::<String>(), "bda");
        let mut place = Place::default();
        assert_eq!(levels.get(&mut place), Some(&'b'));
        place.skip();
        assert_eq!(levels.remove(place), Some('e'));
        assert_eq!(levels.get(&mut place), Some(&'d'));
        assert_eq!(levels.remove(place), Some('d'));
        assert_eq!(levels.get(&mut place), Some(&'a'));
        assert_eq!(levels.part(|item| (*item == 'a').then_some(())), [((), 'a')]);
        levels.push(2, 'a');
        assert_eq!((levels.len(), levels.clear()), (3, vec!['b', 'c', 'a']));
        assert!(levels.is_empty() && levels.get(&mut Place::default()).is_none());
    }
}
