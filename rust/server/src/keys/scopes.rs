//! Scopes: categories of routes that a key may use.

use crate::settings::Category;

/// Stands for all scopes.
const ALL: &str = "*";

/// A set of categories.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Scopes(u32);

impl Scopes {
    pub(crate) const ALL: Self = Self(u32::MAX);

    pub(crate) fn of(categories: impl IntoIterator<Item = Category>) -> Self {
        categories.into_iter().fold(Self::default(), |scopes, category| Self(scopes.0 | bit(category)))
    }

    pub(crate) const fn contain(self, category: Category) -> bool {
        self.0 & bit(category) != 0
    }

    pub(crate) const fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Reads one scope.
    ///
    /// # Errors
    /// The reason, with the nearest name.
    pub(crate) fn from_name(name: &str) -> Result<Self, String> {
        if name == ALL {
            return Ok(Self::ALL);
        }
        Category::from_name(name).map(|category| Self(bit(category))).ok_or_else(|| {
            let distance = |known: &&str| strsim::damerau_levenshtein(known, name);
            // An abbreviation is nearer to its word than any other short word is.
            let near = |known: &&str| known.starts_with(name) || distance(known) <= 2;
            let hint = Category::ALL.iter().map(|(known, _)| *known).filter(near).min_by_key(distance);
            match hint {
                Some(near) => format!("scope '{name}' is not known; did you mean '{near}'?"),
                None => {
                    let known: Vec<_> = Category::ALL.iter().map(|(known, _)| *known).chain([ALL]).collect();
                    format!("scope '{name}' is not known, expected {}", known.join(", "))
                }
            }
        })
    }
}

const fn bit(category: Category) -> u32 {
    1 << category as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_scopes_have_the_nearest_name() {
        let hint = |name| Scopes::from_name(name).unwrap_err();
        assert_eq!(hint("infer"), "scope 'infer' is not known; did you mean 'inference'?");
        assert_eq!(hint("metadat"), "scope 'metadat' is not known; did you mean 'metadata'?");
        assert!(hint("everything").contains("expected health, metadata, inference"), "{}", hint("everything"));
    }

    #[test]
    fn each_category_is_one_scope() {
        for (name, category) in Category::ALL {
            let scopes = Scopes::from_name(name).unwrap();
            let contained = Category::ALL.into_iter().filter(|(_, other)| scopes.contain(*other));
            assert_eq!(contained.map(|(other, _)| other).collect::<Vec<_>>(), [name]);
            assert!(Scopes::ALL.contain(category));
        }
    }
}
