//! Which route a request is for: a tree of segments.

use super::{Route, segment::Segment};
use std::collections::{BTreeSet, HashMap};

/// Routes, each with what it leads to.
///
/// Of all routes that fit a path, one with literal text goes before one with named parts, segment by segment from the
/// left, and one that takes the rest comes last. No path is looked up in longer than it takes to look at every route.
#[derive(Debug)]
pub struct RouteTable<T> {
    root: Node<T>,
}

#[derive(Debug)]
struct Node<T> {
    literals: HashMap<Box<str>, Node<T>>,
    /// Those with named parts, the ones with the most literal text first.
    patterns: Vec<(Segment, Node<T>)>,
    /// Routes that end here.
    ends: Vec<End<T>>,
    /// Routes that take the rest from here on.
    rests: Vec<End<T>>,
}

#[derive(Debug)]
struct End<T> {
    route: Route,
    target: T,
}

/// What a path and a method lead to.
#[derive(Debug)]
pub enum TableMatch<'t, T> {
    /// A route.
    Route {
        /// It.
        route: &'t Route,
        /// What it leads to.
        target: &'t T,
        /// What its named parts stand for, in their order.
        values: Vec<String>,
    },
    /// Routes of other methods, which are named in order.
    OtherMethods(BTreeSet<&'t str>),
    /// No route.
    NotFound,
}

impl<T: Default> RouteTable<T> {
    /// Where a route leads. It is added if it is not there.
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
    /// What is there for a path, given by its decoded segments: none for `/` is one that is empty. `HEAD` is answered
    /// by a route of `GET`, unless there is one of its own.
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

/// A look at the tree.
struct Walk<'t, 'm> {
    method: &'m str,
    values: Vec<String>,
    /// The methods of routes that fit and are not looked for.
    others: BTreeSet<&'t str>,
}

impl<'t> Walk<'t, '_> {
    /// As deep as the longest route; every node is looked at once at most, for it fits one segment only.
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
    /// Without routes.
    fn default() -> Self {
        Self { root: Node::default() }
    }
}

impl<T> Default for Node<T> {
    fn default() -> Self {
        Self { literals: HashMap::new(), patterns: Vec::new(), ends: Vec::new(), rests: Vec::new() }
    }
}
