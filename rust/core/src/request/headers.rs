//! Headers as text.

use smallvec::SmallVec;
use std::fmt;

/// Names and values of headers, in their order; several may have one name.
///
/// All their text is in one piece: they are made on one thread and dropped on another, where each piece of memory
/// that is given back costs more than its bytes.
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
    /// Where each name ends, and its value.
    ends: SmallVec<[(usize, usize); 8]>,
}

impl Headers {
    /// Adds one, after those that there are.
    pub fn push(&mut self, name: &str, value: &str) {
        self.text.push_str(name);
        let end_of_name = self.text.len();
        self.text.push_str(value);
        self.ends.push((end_of_name, self.text.len()));
    }

    /// Makes room for the text of further ones.
    pub fn reserve(&mut self, bytes: usize) {
        self.text.reserve(bytes);
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Each name with its value.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&str, &str)> {
        let mut begin = 0;
        self.ends.iter().map(move |&(end_of_name, end)| {
            let pair = (&self.text[begin..end_of_name], &self.text[end_of_name..end]);
            begin = end;
            pair
        })
    }

    /// The first value under a name, which is compared letter by letter.
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
        fn what_goes_in_comes_out(pairs in prop::collection::vec((".{0,5}", ".{0,9}"), 0..20)) {
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
    fn they_are_shown_by_name() {
        let headers: Headers = [("a", "b"), ("", "c"), ("d", "")].into_iter().collect();
        assert_eq!(format!("{headers:?}"), r#"{"a": "b", "": "c", "d": ""}"#);
    }
}
