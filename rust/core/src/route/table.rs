//! Route matching: a tree of segments.
//!
//! matchit, which matches the server's own routes, cannot do this: version 0.9 refuses two parameters in one segment
//! (`{name}:{verb}`), and `pre-{name}` next to `{name}:predict`. Both are routes that models have.

use super::{Route, segment::Segment};
use std::collections::{BTreeSet, HashMap};

/// Routes, each with a target.
///
/// If several routes match a path, literal segments win over patterns, from the left, and `{name...}` comes last. A
/// lookup takes at most one visit of each route.
#[derive(Debug)]
pub struct RouteTable<T> {
    root: Node<T>,
}

#[derive(Debug)]
struct Node<T> {
    literals: HashMap<Box<str>, Node<T>>,
    /// Pattern segments, most literal text first.
    patterns: Vec<(Segment, Node<T>)>,
    /// Routes that end here.
    ends: Vec<End<T>>,
    /// Routes with `{name...}` from here on.
    rests: Vec<End<T>>,
}

#[derive(Debug)]
struct End<T> {
    route: Route,
    target: T,
}

/// Result of a lookup.
#[derive(Debug)]
pub enum TableMatch<'t, T> {
    /// A route matches.
    Route {
        /// The route.
        route: &'t Route,
        /// Its target.
        target: &'t T,
        /// Values of its parameters, in order.
        values: Vec<String>,
    },
    /// Routes of these other methods match.
    OtherMethods(BTreeSet<&'t str>),
    /// No route matches.
    NotFound,
}

impl<T: Default> RouteTable<T> {
    /// Target of a route, which is added if missing.
    pub fn entry(&mut self, route: &Route) -> &mut T {
        let mut node = &mut self.root;
        for segment in &route.segments {
            node = node.next(segment);
        }
        let ends = if route.rest.is_some() { &mut node.rests } else { &mut node.ends };
        let at = ends.iter().position(|end| end.route.method() == route.method()).unwrap_or_else(|| {
            ends.push(End { route: route.clone(), target: T::default() });
            ends.len() - 1
        });
        &mut ends[at].target
    }
}

impl<T> RouteTable<T> {
    /// Looks up a path by its decoded segments; `/` has one empty segment. `GET` routes also answer `HEAD`, unless a
    /// route
    /// for `HEAD` matches.
    pub fn find<'t, S: AsRef<str>>(&'t self, method: &str, segments: &[S]) -> TableMatch<'t, T> {
        let mut walk = Walk { method, values: Vec::new(), others: BTreeSet::new() };
        if let Some(end) = walk.down(&self.root, segments) {
            return TableMatch::Route { route: &end.route, target: &end.target, values: walk.values };
        }
        if method == "HEAD" {
            walk.method = "GET";
            if let Some(end) = walk.down(&self.root, segments) {
                return TableMatch::Route { route: &end.route, target: &end.target, values: walk.values };
            }
        }
        if walk.others.is_empty() { TableMatch::NotFound } else { TableMatch::OtherMethods(walk.others) }
    }
}

impl<T> Node<T> {
    fn next(&mut self, segment: &Segment) -> &mut Self {
        if let Some(literal) = segment.literal() {
            return self.literals.entry(literal.into()).or_default();
        }
        let at = self.patterns.iter().position(|(known, _)| known.is_same(segment)).unwrap_or_else(|| {
            let at = self.patterns.partition_point(|(known, _)| known.weight() >= segment.weight());
            self.patterns.insert(at, (segment.clone(), Self::default()));
            at
        });
        &mut self.patterns[at].1
    }
}

/// State of a lookup.
struct Walk<'t, 'm> {
    method: &'m str,
    values: Vec<String>,
    /// Methods of routes that match the path only.
    others: BTreeSet<&'t str>,
}

impl<'t> Walk<'t, '_> {
    /// Descends as deep as the longest route. Each node is visited at most once, for it matches one segment only.
    fn down<T, S: AsRef<str>>(&mut self, node: &'t Node<T>, segments: &[S]) -> Option<&'t End<T>> {
        let Some((segment, after)) = segments.split_first() else { return self.choose(&node.ends) };
        let segment = segment.as_ref();
        if let Some(end) = node.literals.get(segment).and_then(|next| self.down(next, after)) {
            return Some(end);
        }
        let before = self.values.len();
        for (pattern, next) in &node.patterns {
            let Some(values) = pattern.fit(segment) else { continue };
            self.values.extend(values.into_iter().map(str::to_owned));
            if let Some(end) = self.down(next, after) {
                return Some(end);
            }
            self.values.truncate(before);
        }
        let end = self.choose(&node.rests)?;
        let rest: Vec<&str> = segments.iter().map(AsRef::as_ref).collect();
        self.values.push(rest.join("/"));
        Some(end)
    }

    fn choose<T>(&mut self, ends: &'t [End<T>]) -> Option<&'t End<T>> {
        let found = ends.iter().find(|end| end.route.method() == self.method);
        if found.is_none() {
            self.others.extend(ends.iter().map(|end| end.route.method()));
        }
        found
    }
}

impl<T> Default for RouteTable<T> {
    /// A table without routes.
    fn default() -> Self {
        Self { root: Node::default() }
    }
}

impl<T> Default for Node<T> {
    fn default() -> Self {
        Self { literals: HashMap::new(), patterns: Vec::new(), ends: Vec::new(), rests: Vec::new() }
    }
}
