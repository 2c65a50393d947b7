//! One segment of a path pattern, between two slashes.

use std::sync::Arc;

/// Literal text and parameters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Segment {
    /// Text before the first parameter, or the whole segment without parameters.
    first: Box<str>,
    /// Parameters, each with the literal text after it. Only the last text may be empty.
    parts: Box<[(Arc<str>, Box<str>)]>,
}

/// Parser state: the target of literal text.
#[derive(Default)]
struct Reading {
    first: String,
    parts: Vec<(Arc<str>, String)>,
}

impl Reading {
    fn text(&mut self) -> &mut String {
        self.parts.last_mut().map_or(&mut self.first, |(_, text)| text)
    }
}

impl Segment {
    /// Parses a segment; the error is the predicate of a message.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let mut read = Reading::default();
        let mut left = text;
        while let Some(at) = left.find(['{', '}']) {
            read.text().push_str(&left[..at]);
            let (brace, after) = left[at..].split_at(1);
            // A doubled brace is a literal brace.
            if let Some(after) = after.strip_prefix(brace) {
                read.text().push_str(brace);
                left = after;
                continue;
            }
            if brace == "}" {
                return Err("has a brace that is not opened".to_owned());
            }
            let (name, after) = after.split_once('}').ok_or("has a brace that is not closed")?;
            if name.ends_with("...") {
                return Err(format!("has {{{name}}}, which is possible only at the end, as a segment of its own"));
            }
            if !is_name(name) {
                return Err(format!("has a part named '{name}', expected a letter, then letters, digits and '_'"));
            }
            if read.parts.last().is_some_and(|(_, text)| text.is_empty()) {
                return Err("has two parts with nothing between them".to_owned());
            }
            read.parts.push((name.into(), String::new()));
            left = after;
        }
        read.text().push_str(left);
        let parts = read.parts.into_iter().map(|(name, text)| (name, text.into_boxed_str())).collect();
        Ok(Self { first: read.first.into_boxed_str(), parts })
    }

    /// The text of a segment without parameters.
    pub(super) fn literal(&self) -> Option<&str> {
        self.parts.is_empty().then_some(&*self.first)
    }

    pub(super) fn names(&self) -> impl Iterator<Item = &Arc<str>> {
        self.parts.iter().map(|(name, _)| name)
    }

    pub(super) fn write(&self, path: &mut String, text: impl Fn(&str) -> String, mut name: impl FnMut(&str) -> String) {
        path.push_str(&text(&self.first));
        for (own, literal) in &self.parts {
            path.push_str(&name(own));
            path.push_str(&text(literal));
        }
    }

    /// Returns true if both match the same texts, regardless of parameter names.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        self.first == other.first
            && self.parts.len() == other.parts.len()
            && self.parts.iter().zip(&other.parts).all(|((_, one), (_, another))| one == another)
    }

    /// Length of the literal text. Patterns with more literal text are tried first.
    pub(super) fn weight(&self) -> usize {
        self.first.len() + self.parts.iter().map(|(_, text)| text.len()).sum::<usize>()
    }

    /// Values of the parameters for `text`, from left to right; `None` if it does not match. A value has at least one
    /// character; the leftmost parameters match as much as possible.
    pub(super) fn fit<'t>(&self, text: &'t str) -> Option<Vec<&'t str>> {
        let Some(((_, last), before)) = self.parts.split_last() else {
            return (*self.first == *text).then(Vec::new);
        };
        let mut left = text.strip_prefix(&*self.first)?.strip_suffix(&**last)?;
        let mut found = Vec::with_capacity(self.parts.len());
        // From the right: the last occurrence of a literal leaves the most to the parameters before it.
        for (_, literal) in before.iter().rev() {
            let end = left.char_indices().next_back()?.0;
            let at = left[..end].rfind(&**literal)?;
            found.push(&left[at + literal.len()..]);
            left = &left[..at];
        }
        if left.is_empty() {
            return None;
        }
        found.push(left);
        found.reverse();
        Some(found)
    }
}

/// Name of a `{name...}` segment.
pub(super) fn rest(segment: &str) -> Option<&str> {
    segment.strip_prefix('{')?.strip_suffix("...}").filter(|name| is_name(name))
}

fn is_name(name: &str) -> bool {
    name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

#[cfg(test)]
mod tests {
    use super::Segment;
    use proptest::prelude::*;

    fn fit<'t>(pattern: &str, text: &'t str) -> Option<Vec<&'t str>> {
        Segment::parse(pattern).unwrap().fit(text)
    }

    #[test]
    fn parameters_match_the_text_between_literals() {
        assert_eq!(fit("add:predict", "add:predict"), Some(vec![]));
        assert_eq!(fit("add:predict", "add:predicts"), None);
        assert_eq!(fit("{name}:{verb}", "add:predict"), Some(vec!["add", "predict"]));
        assert_eq!(fit("{name}:{verb}", "a:b:predict"), Some(vec!["a:b", "predict"]));
        assert_eq!(fit("x-{name}.json", "x-ü.json"), Some(vec!["ü"]));
        assert_eq!(fit("{{{name}}}", "{a}"), Some(vec!["a"]));
    }

    #[test]
    fn parameter_never_matches_empty_text() {
        for (pattern, text) in
            [("{a}", ""), ("{a}:{b}", ":b"), ("{a}:{b}", "a:"), ("x{a}", "x"), ("{a}x", "x"), ("x{a}x", "x")]
        {
            assert_eq!(fit(pattern, text), None, "{pattern} {text}");
        }
        assert_eq!(fit("{a}:{b}", "::"), None);
        assert_eq!(fit("{a}:{b}", ":::"), Some(vec![":", ":"]));
    }

    /// Text of a segment with values in place of its parameters.
    fn fill(first: &str, parts: &[(String, String)]) -> String {
        parts.iter().fold(first.to_owned(), |text, (value, literal)| text + value + literal)
    }

    proptest! {
        #[test]
        fn filled_in_pattern_matches(
            first in "[ab:]{0,3}",
            parts in prop::collection::vec(("[ab:ü]{1,4}", "[ab:]{1,2}"), 0..4),
            end in any::<bool>(),
        ) {
            let mut parts = parts;
            if let Some((_, last)) = parts.last_mut().filter(|_| end) {
                last.clear();
            }
            let names: Vec<_> =
                parts.iter().enumerate().map(|(at, (_, literal))| (format!("{{p{at}}}"), literal.clone())).collect();
            let segment = Segment::parse(&fill(&first, &names)).unwrap();
            let text = fill(&first, &parts);
            let values = segment.fit(&text).expect("its own text fits");
            // Filling in the values again results in the text.
            prop_assert!(values.iter().all(|value| !value.is_empty()));
            let rebuilt: Vec<_> =
                values.iter().zip(&parts).map(|(value, (_, literal))| ((*value).to_owned(), literal.clone())).collect();
            prop_assert_eq!(fill(&first, &rebuilt), text);
        }

        #[test]
        fn matched_values_rebuild_the_text(pattern in "[a:{}b]{0,8}", text in "[a:b{}ü]{0,8}") {
            let Ok(segment) = Segment::parse(&pattern) else { return Ok(()) };
            if let Some(values) = segment.fit(&text) {
                let mut rebuilt = segment.first.to_string();
                for (value, (_, literal)) in values.iter().zip(&segment.parts) {
                    rebuilt.push_str(value);
                    rebuilt.push_str(literal);
                }
                prop_assert_eq!(rebuilt, text);
            }
        }
    }
}
