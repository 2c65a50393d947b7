//! Routes of models: patterns of paths, and the tree that matches them.

mod route;
mod segment;
mod table;

pub use self::{
    route::Route,
    table::{RouteTable, TableMatch},
};
