//! Patterns of model names, as keys of clients have them.

/// Patterns of model names, in which `*` stands for any text. Those that begin with `!` exclude.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ModelPatterns(Box<[Box<str>]>);

impl ModelPatterns {
    /// The patterns in the order of the file.
    pub fn new(patterns: impl IntoIterator<Item = impl Into<Box<str>>>) -> Self {
        Self(patterns.into_iter().map(Into::into).collect())
    }

    /// The patterns as text.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|pattern| &**pattern)
    }

    /// Reports whether a model's name matches a pattern, and none that excludes. With exclusions only, all other
    /// models match. An explainer, which has a colon in its name, belongs to the model that it explains.
    pub fn allow(&self, model: &str) -> bool {
        let model = model.split_once(':').map_or(model, |(explained, _)| explained);
        let mut matched = self.iter().all(|pattern| pattern.starts_with('!'));
        for pattern in self.iter() {
            match pattern.strip_prefix('!') {
                Some(excluded) if matches(excluded, model) => return false,
                None if matches(pattern, model) => matched = true,
                _ => {}
            }
        }
        matched
    }
}

/// Reports whether a name matches a pattern. Linear but for the last star, to which it returns.
fn matches(pattern: &str, name: &str) -> bool {
    let (pattern, name) = (pattern.as_bytes(), name.as_bytes());
    let (mut p, mut n) = (0, 0);
    let mut star = None;
    while n < name.len() {
        match pattern.get(p) {
            Some(b'*') => {
                star = Some((p, n));
                p += 1;
            }
            Some(byte) if *byte == name[n] => (p, n) = (p + 1, n + 1),
            _ => {
                let Some((at, from)) = star else { return false };
                star = Some((at, from + 1));
                (p, n) = (at + 1, from + 1);
            }
        }
    }
    pattern[p..].iter().all(|byte| *byte == b'*')
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn patterns_select_and_exclude_models() {
        let patterns = ModelPatterns::new(["bert*", "!bert-secret"]);
        let allowed = ["bert", "bert-base", "bert-secret", "resnet", "bert:explain", "bert-secret:explain"]
            .map(|model| patterns.allow(model));
        assert_eq!(allowed, [true, true, false, false, true, false]);
        assert!(ModelPatterns::new(["!a"]).allow("b") && !ModelPatterns::new(["!a"]).allow("a"));
        assert!(ModelPatterns::new(["*"]).allow("any"));
        assert!(!ModelPatterns::new([""]).allow("any"));
    }

    proptest! {
        #[test]
        fn stars_match_any_text(pattern in "[ab*]{0,8}", name in "[ab]{0,8}") {
            prop_assert_eq!(matches(&pattern, &name), by_definition(pattern.as_bytes(), name.as_bytes()));
        }
    }

    fn by_definition(pattern: &[u8], name: &[u8]) -> bool {
        match (pattern.split_first(), name.split_first()) {
            (None, None) => true,
            (Some((b'*', rest)), left) => {
                by_definition(rest, name) || left.is_some_and(|(_, left)| by_definition(pattern, left))
            }
            (Some((byte, rest)), Some((first, left))) => byte == first && by_definition(rest, left),
            _ => false,
        }
    }
}
