//! Graph of calls between models, without circles.
//!
//! # Rationale
//! A calling model occupies its instance while it waits. If models called each other in a circle, all their instances
//! could wait for one another for ever. So declared and actual calls are kept as a graph, and a call that would close
//! a circle fails: at the first time, under any load, and not only when all instances happen to be busy. All versions
//! of a model are one node.

use penstock_core::{Error, Kind, Model, ModelSpec, Registry, Result};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};

/// The callable models and the calls between them.
#[derive(Debug)]
pub(crate) struct CallGraph {
    registry: Arc<Registry>,
    edges: Mutex<Vec<Edge>>,
}

/// A call of one model by another. A replaced model takes its edges along.
#[derive(Debug)]
struct Edge {
    caller: Weak<ModelSpec>,
    callee: Arc<str>,
    /// Set once the call was made and closed no circle; a declared call is checked at the first time.
    checked: bool,
}

impl Edge {
    fn is(&self, caller: &Arc<ModelSpec>, callee: &str) -> bool {
        self.caller.as_ptr() == Arc::as_ptr(caller) && &*self.callee == callee
    }
}

/// One loaded model, as a caller.
#[derive(Debug)]
pub(crate) struct Caller {
    /// The models that it declares to call; `None` without a declaration.
    calls: Option<Vec<String>>,
    /// Set when a server loads it; never in a process instance.
    peers: OnceLock<Weak<CallGraph>>,
}

impl Caller {
    pub(crate) fn new(calls: Option<Vec<String>>) -> Self {
        Self { calls, peers: OnceLock::new() }
    }

    /// Lets the model call others, and adds its declared calls to the graph.
    pub(crate) fn join(&self, peers: &Arc<CallGraph>, spec: &Arc<ModelSpec>) {
        let mut edges = peers.lock();
        for callee in self.calls.iter().flatten() {
            edges.push(Edge { caller: Arc::downgrade(spec), callee: callee.as_str().into(), checked: false });
        }
        let _ = self.peers.set(Arc::downgrade(peers));
    }

    /// Finds the model that `spec`, which is this caller, wants to call.
    ///
    /// # Errors
    /// Those of [`Registry::find`]; `Handler` for a call that the model may not make.
    pub(super) fn find(&self, spec: &Arc<ModelSpec>, name: &str, version: Option<&str>) -> Result<Arc<Model>> {
        let Some(peers) = self.peers.get() else {
            return Err(Error::handler(format!(
                "model '{}' runs in a process of its own, from where no model can be called: give it \
                 instances=Threads(n), or have a Pipeline call both",
                spec.name
            )));
        };
        let Some(peers) = peers.upgrade() else {
            return Err(Error::new(Kind::Unavailable, "the server is shutting down"));
        };
        let model = peers.registry.find(name, version)?;
        self.check_declared(spec, name)?;
        peers.allow(spec, &model.spec().name)?;
        Ok(model)
    }

    fn check_declared(&self, spec: &ModelSpec, name: &str) -> Result<()> {
        match &self.calls {
            Some(calls) if !calls.iter().any(|known| known == name) => Err(Error::handler(format!(
                "model '{}' calls '{name}', which its calls={calls:?} does not name",
                spec.name
            ))),
            _ => Ok(()),
        }
    }
}

impl CallGraph {
    /// An empty graph.
    pub(crate) fn new(registry: Arc<Registry>) -> Self {
        Self { registry, edges: Mutex::default() }
    }

    fn allow(&self, caller: &Arc<ModelSpec>, callee: &Arc<str>) -> Result<()> {
        let mut edges = self.lock();
        if edges.iter().any(|edge| edge.checked && edge.is(caller, callee)) {
            return Ok(());
        }
        edges.retain(|edge| edge.caller.strong_count() > 0);
        if let Some(path) = path(&edges, callee, &caller.name) {
            let names: Vec<_> = [&caller.name].into_iter().chain(&path).map(|name| format!("'{name}'")).collect();
            return Err(Error::handler(format!(
                "model '{}' cannot call '{callee}': models that call each other in a circle can wait for one another \
                 for ever ({})",
                caller.name,
                names.join(" -> ")
            )));
        }
        match edges.iter_mut().find(|edge| edge.is(caller, callee)) {
            Some(declared) => declared.checked = true,
            None => {
                edges.push(Edge { caller: Arc::downgrade(caller), callee: Arc::clone(callee), checked: true });
            }
        }
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Edge>> {
        self.edges.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The path of calls from one model to another, both included; `None` without one.
fn path(edges: &[Edge], from: &Arc<str>, to: &str) -> Option<Vec<Arc<str>>> {
    // The reached names, and the index of the previous one.
    let mut reached: Vec<(Arc<str>, usize)> = vec![(Arc::clone(from), 0)];
    let mut next = 0;
    while let Some((name, _)) = reached.get(next).cloned() {
        if &*name == to {
            return Some(way_back(&reached, next));
        }
        let called_by = |edge: &&Edge| edge.caller.upgrade().is_some_and(|caller| caller.name == name);
        for edge in edges.iter().filter(called_by) {
            if !reached.iter().any(|(known, _)| *known == edge.callee) {
                reached.push((Arc::clone(&edge.callee), next));
            }
        }
        next += 1;
    }
    None
}

fn way_back(reached: &[(Arc<str>, usize)], end: usize) -> Vec<Arc<str>> {
    let mut names = vec![Arc::clone(&reached[end].0)];
    let mut at = end;
    while at != 0 {
        at = reached[at].1;
        names.push(Arc::clone(&reached[at].0));
    }
    names.reverse();
    names
}
