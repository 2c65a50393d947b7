//! Settings that may change while the server runs.
//!
//! Each is one atomic word. A relaxed load is the instruction that reads a plain field, so a request pays nothing.

use super::{access_log::AccessLog, config::LogLevel};
use std::{
    fmt,
    marker::PhantomData,
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

/// A setting that may change while others read it.
pub struct Live<T> {
    word: AtomicU64,
    kind: PhantomData<fn() -> T>,
}

/// A value that fits into a word.
pub trait Word: Copy {
    /// Returns the word.
    fn to_word(self) -> u64;
    /// Returns the value of a word.
    fn from_word(word: u64) -> Self;
}

impl<T: Word> Live<T> {
    /// A setting with this value.
    pub fn new(value: T) -> Self {
        Self { word: AtomicU64::new(value.to_word()), kind: PhantomData }
    }

    /// Returns the current value.
    pub fn get(&self) -> T {
        T::from_word(self.word.load(Ordering::Relaxed))
    }

    /// Changes the value.
    pub fn set(&self, value: T) {
        self.word.store(value.to_word(), Ordering::Relaxed);
    }

    /// Takes over the value of another one.
    pub(crate) fn take_over(&self, other: &Self) {
        self.word.store(other.word.load(Ordering::Relaxed), Ordering::Relaxed);
    }
}

impl<T: Word> From<T> for Live<T> {
    fn from(value: T) -> Self {
        Self::new(value)
    }
}

impl<T: Word> Clone for Live<T> {
    fn clone(&self) -> Self {
        self.get().into()
    }
}

impl<T: Word + fmt::Debug> fmt::Debug for Live<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.get().fmt(f)
    }
}

impl Word for u64 {
    fn to_word(self) -> u64 {
        self
    }

    fn from_word(word: u64) -> Self {
        word
    }
}

impl Word for usize {
    fn to_word(self) -> u64 {
        self as u64
    }

    fn from_word(word: u64) -> Self {
        word as Self
    }
}

impl Word for f64 {
    fn to_word(self) -> u64 {
        self.to_bits()
    }

    fn from_word(word: u64) -> Self {
        Self::from_bits(word)
    }
}

/// As nanoseconds; those beyond 584 years are [`Duration::MAX`].
impl Word for Duration {
    fn to_word(self) -> u64 {
        u64::try_from(self.as_nanos()).unwrap_or(u64::MAX)
    }

    fn from_word(word: u64) -> Self {
        if word == u64::MAX { Self::MAX } else { Self::from_nanos(word) }
    }
}

/// As nanoseconds; those beyond 584 years are `None`.
impl Word for Option<Duration> {
    fn to_word(self) -> u64 {
        self.unwrap_or(Duration::MAX).to_word()
    }

    fn from_word(word: u64) -> Self {
        if word == u64::MAX { None } else { Some(Duration::from_nanos(word)) }
    }
}

impl Word for AccessLog {
    fn to_word(self) -> u64 {
        self as u64
    }

    fn from_word(word: u64) -> Self {
        match word {
            1 => Self::Text,
            2 => Self::Json,
            3 => Self::Short,
            _ => Self::Off,
        }
    }
}

impl Word for LogLevel {
    fn to_word(self) -> u64 {
        self as u64
    }

    fn from_word(word: u64) -> Self {
        match word {
            1 => Self::Error,
            2 => Self::Warning,
            3 => Self::Info,
            4 => Self::Debug,
            _ => Self::Off,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept<T: Word + PartialEq + fmt::Debug>(values: impl IntoIterator<Item = T>) {
        for value in values {
            assert_eq!(Live::from(value).clone().get(), value);
        }
    }

    #[test]
    fn values_are_kept() {
        kept([0, 1, usize::MAX]);
        kept([0, u64::MAX]);
        kept([0.0, 0.95, 1.0]);
        kept([Duration::ZERO, Duration::from_nanos(1), Duration::from_secs(366 * 86400), Duration::MAX]);
        kept([None, Some(Duration::ZERO), Some(Duration::from_secs(30))]);
        kept([AccessLog::Off, AccessLog::Text, AccessLog::Json, AccessLog::Short]);
        kept(LogLevel::ALL);
    }

    #[test]
    fn another_value_is_taken_over() {
        let (one, two) = (Live::from(1_usize), Live::from(2));
        one.take_over(&two);
        assert_eq!((one.get(), two.get()), (2, 2));
        two.set(3);
        assert_eq!((one.get(), two.get()), (2, 3));
    }
}
