//! Priority levels: higher levels first, each in order of arrival.

use super::bounds::Load;
use std::collections::VecDeque;

/// Item of a queue.
pub(crate) trait Weighed {
    /// Load of the item.
    fn load(&self) -> Load;
}

/// One deque per level. Levels that delay overdue items have a second deque for these.
#[derive(Debug)]
pub(crate) struct Levels<T> {
    levels: Box<[VecDeque<T>]>,
    /// Deques per level.
    stride: usize,
    load: Load,
}

/// Position in serving order.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Place {
    level: usize,
    index: usize,
}

impl Place {
    /// Moves behind the item at this position.
    pub(crate) fn skip(&mut self) {
        self.index += 1;
    }
}

impl<T: Weighed> Levels<T> {
    /// `delays`: items may be delayed.
    pub(crate) fn new(count: usize, delays: bool) -> Self {
        let stride = 1 + usize::from(delays);
        let levels = std::iter::repeat_with(VecDeque::new).take(count.max(1) * stride).collect();
        Self { levels, stride, load: Load::default() }
    }

    pub(crate) fn len(&self) -> usize {
        self.load.requests
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.load.requests == 0
    }

    /// Load of all items.
    pub(crate) fn load(&self) -> Load {
        self.load
    }

    /// Number of items of a level, counted from 0.
    pub(crate) fn len_of(&self, level: usize) -> usize {
        let first = level * self.stride;
        self.levels.get(first..first + self.stride).unwrap_or_default().iter().map(VecDeque::len).sum()
    }

    /// Moves items from the front of a level to its end, while `late` returns true.
    pub(crate) fn delay(&mut self, level: usize, mut late: impl FnMut(&T) -> bool) {
        let first = level * self.stride;
        let Some([in_time, delayed]) = self.levels.get_mut(first..first + 2) else { return };
        while in_time.front().is_some_and(&mut late) {
            delayed.extend(in_time.pop_front());
        }
    }

    /// Appends an item to its level, counted from 0.
    pub(crate) fn push(&mut self, level: usize, item: T) {
        let level = (level * self.stride).min(self.levels.len() - self.stride);
        self.load += item.load();
        self.levels[level].push_back(item);
    }

    /// Inserts an item behind those of its level that are not `after` it. The level is partitioned by `after`.
    pub(crate) fn insert(&mut self, level: usize, item: T, after: impl Fn(&T) -> bool) {
        let level = (level * self.stride).min(self.levels.len() - self.stride);
        self.load += item.load();
        let line = &mut self.levels[level];
        let place = line.partition_point(|other| !after(other));
        line.insert(place, item);
    }

    /// First item of a level.
    pub(crate) fn first_of(&self, level: usize) -> Option<&T> {
        self.levels.get((level * self.stride).min(self.levels.len() - self.stride))?.front()
    }

    /// Puts an item at the front of its level.
    pub(crate) fn push_front(&mut self, level: usize, item: T) {
        let level = (level * self.stride).min(self.levels.len() - self.stride);
        self.load += item.load();
        self.levels[level].push_front(item);
    }

    /// The item at a position, or the next one; `place` moves to it.
    pub(crate) fn get(&self, place: &mut Place) -> Option<&T> {
        while let Some(level) = self.levels.get(place.level) {
            if let Some(item) = level.get(place.index) {
                return Some(item);
            }
            *place = Place { level: place.level + 1, index: 0 };
        }
        None
    }

    /// Removes the item at a position, where the next item is afterwards.
    pub(crate) fn remove(&mut self, place: Place) -> Option<T> {
        let item = self.levels.get_mut(place.level)?.remove(place.index)?;
        self.load -= item.load();
        Some(item)
    }

    /// Load of the items below a level.
    pub(crate) fn load_below(&self, level: usize) -> Load {
        let lower = self.levels.iter().skip((level + 1) * self.stride).flatten();
        lower.fold(Load::default(), |sum, item| sum + item.load())
    }

    /// Removes the last item of the lowest level that has one, if it is below `level`.
    pub(crate) fn pop_below(&mut self, level: usize) -> Option<T> {
        let lower = self.levels.iter_mut().skip((level + 1) * self.stride);
        let item = lower.rev().find_map(VecDeque::pop_back)?;
        self.load -= item.load();
        Some(item)
    }

    /// All items in serving order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        self.levels.iter().flatten()
    }

    /// First item of each deque.
    pub(crate) fn fronts(&self) -> impl Iterator<Item = &T> {
        self.levels.iter().filter_map(VecDeque::front)
    }

    /// Removes the items for which `goes` returns a reason, in serving order.
    pub(crate) fn part<F>(&mut self, mut goes: impl FnMut(&T) -> Option<F>) -> Vec<(F, T)> {
        let mut gone = Vec::new();
        for level in &mut self.levels {
            for item in std::mem::take(level) {
                match goes(&item) {
                    Some(why) => {
                        self.load -= item.load();
                        gone.push((why, item));
                    }
                    None => level.push_back(item),
                }
            }
        }
        gone
    }

    /// Removes all items, in serving order.
    pub(crate) fn clear(&mut self) -> Vec<T> {
        self.load = Load::default();
        self.levels.iter_mut().flat_map(std::mem::take).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Weighed for char {
        fn load(&self) -> Load {
            Load { requests: 1, rows: 1, bytes: self.len_utf8() }
        }
    }

    #[test]
    fn higher_levels_are_served_first_in_arrival_order() {
        let mut levels = Levels::new(3, false);
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
        assert_eq!(levels.load(), Load::default());
    }

    #[test]
    fn overdue_requests_go_last_within_their_level() {
        let mut levels = Levels::new(2, true);
        for (level, item) in [(0, 'a'), (0, 'b'), (1, 'c'), (0, 'd')] {
            levels.push(level, item);
        }
        levels.delay(0, |item| *item < 'c');
        levels.delay(1, |_| false);
        assert_eq!(levels.iter().collect::<String>(), "dabc");
        assert_eq!((levels.len_of(0), levels.len_of(1), levels.load().rows), (3, 1, 4));
        levels.push(0, 'e');
        levels.delay(0, |item| *item < 'c');
        assert_eq!(levels.clear(), ['d', 'e', 'a', 'b', 'c']);
    }
}
