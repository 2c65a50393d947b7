//! Categories of routes, and sets of them.

/// Category of routes, in Triton's division.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Category {
    /// Live, ready, and gRPC's health service.
    Health,
    /// Metadata of the server and of models; gRPC reflection.
    Metadata,
    /// Inference in every protocol.
    Inference,
    /// Regions of shared memory.
    SharedMemory,
    /// Configuration of models.
    ModelConfig,
    /// Loading and unloading.
    ModelRepository,
    /// Statistics of models.
    Statistics,
    /// Trace settings.
    Trace,
    /// Log settings.
    Logging,
    /// The metrics.
    Metrics,
    /// The live page and reports for operators.
    Debug,
}

impl Category {
    /// All categories, by name.
    pub const ALL: [(&'static str, Self); 11] = [
        ("health", Self::Health),
        ("metadata", Self::Metadata),
        ("inference", Self::Inference),
        ("shared-memory", Self::SharedMemory),
        ("model-config", Self::ModelConfig),
        ("model-repository", Self::ModelRepository),
        ("statistics", Self::Statistics),
        ("trace", Self::Trace),
        ("logging", Self::Logging),
        ("metrics", Self::Metrics),
        ("debug", Self::Debug),
    ];

    /// Returns the name, which is that of a scope too.
    pub(crate) fn name(self) -> &'static str {
        // Each category has an entry.
        Self::ALL.into_iter().find_map(|(name, category)| (category == self).then_some(name)).unwrap_or_default()
    }

    /// Returns the category whose rules apply to routes of this one, if it has none: before there were
    /// the categories `metrics` and `debug`, these routes were statistics.
    pub(super) const fn wider(self) -> Option<Self> {
        match self {
            Self::Metrics | Self::Debug => Some(Self::Statistics),
            _ => None,
        }
    }

    /// Returns the category of a name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find_map(|(known, category)| (known == name).then_some(category))
    }
}

/// Stands for all scopes.
const ALL: &str = "*";

/// Set of categories: the scopes of a key, or the routes of an address.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Categories(u32);

impl Categories {
    /// All categories.
    pub const ALL: Self = Self(u32::MAX);

    /// The set of some categories.
    pub fn of(categories: impl IntoIterator<Item = Category>) -> Self {
        categories.into_iter().fold(Self::default(), |scopes, category| Self(scopes.0 | bit(category)))
    }

    /// Reports whether a category is in the set.
    pub(crate) const fn contain(self, category: Category) -> bool {
        self.0 & bit(category) != 0
    }

    /// Reports whether no category is in the set.
    pub(crate) const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The categories of both sets.
    pub(crate) const fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Reads the name of a scope: that of a category, or `*` for all.
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
        let hint = |name| Categories::from_name(name).unwrap_err();
        assert_eq!(hint("infer"), "scope 'infer' is not known; did you mean 'inference'?");
        assert_eq!(hint("metadat"), "scope 'metadat' is not known; did you mean 'metadata'?");
        assert!(hint("everything").contains("expected health, metadata, inference"), "{}", hint("everything"));
    }

    #[test]
    fn each_category_is_one_scope() {
        for (name, category) in Category::ALL {
            let scopes = Categories::from_name(name).unwrap();
            let contained = Category::ALL.into_iter().filter(|(_, other)| scopes.contain(*other));
            assert_eq!(contained.map(|(other, _)| other).collect::<Vec<_>>(), [name]);
            assert!(Categories::ALL.contain(category));
        }
    }
}
