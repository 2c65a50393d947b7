//! Headers as text.

use smallvec::SmallVec;
use std::fmt;

/// Names and values of headers, in order. Names may repeat.
///
/// One allocation holds all text. Headers are created on one thread and dropped on another, where each deallocation
/// costs more than its bytes.
///
/// ```
/// # use penstock_core::Headers;
/// let headers: Headers = [("accept", "text/csv"), ("x-key", "7")].into_iter().collect();
/// assert_eq!(headers.get("x-key"), Some("7"));
/// assert_eq!(headers.iter().next(), Some(("accept", "text/csv")));
/// ```
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Headers {
    text: String,
    /// End of each name, and end of its value.
    ends: SmallVec<[(usize, usize); 8]>,
}

impl Headers {
    /// Appends a header.
    pub fn push(&mut self, name: &str, value: &str) {
        self.text.push_str(name);
        let end_of_name = self.text.len();
        self.text.push_str(value);
        self.ends.push((end_of_name, self.text.len()));
    }

    /// Reserves bytes for more headers.
    pub fn reserve(&mut self, bytes: usize) {
        self.text.reserve(bytes);
    }

    /// Number of headers.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Returns true without headers.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Names and values.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&str, &str)> {
        let mut begin = 0;
        self.ends.iter().map(move |&(end_of_name, end)| {
            let pair = (&self.text[begin..end_of_name], &self.text[end_of_name..end]);
            begin = end;
            pair
        })
    }

    /// First value of a name. Names are compared byte by byte.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.iter().find(|&(known, _)| known == name).map(|(_, value)| value)
    }
}

impl fmt::Debug for Headers {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_map().entries(self.iter()).finish()
    }
}

impl<N: AsRef<str>, V: AsRef<str>> FromIterator<(N, V)> for Headers {
    fn from_iter<I: IntoIterator<Item = (N, V)>>(pairs: I) -> Self {
        let mut headers = Self::default();
        pairs.into_iter().for_each(|(name, value)| headers.push(name.as_ref(), value.as_ref()));
        headers
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn headers_round_trip(pairs in prop::collection::vec((".{0,5}", ".{0,9}"), 0..20)) {
            let headers: Headers = pairs.iter().map(|(name, value)| (name, value)).collect();
            let out: Vec<_> = headers.iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
            prop_assert_eq!((headers.len(), headers.is_empty()), (pairs.len(), pairs.is_empty()));
            for (name, _) in &pairs {
                let first = pairs.iter().find(|(known, _)| known == name).map(|(_, value)| &**value);
                prop_assert_eq!(headers.get(name), first);
            }
            prop_assert_eq!(out, pairs);
        }
    }

    #[test]
    fn headers_debug_format_is_a_map() {
        let headers: Headers = [("a", "b"), ("", "c"), ("d", "")].into_iter().collect();
        assert_eq!(format!("{headers:?}"), r#"{"a": "b", "": "c", "d": ""}"#);
    }
}
