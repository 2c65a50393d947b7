//! Route matching: by example, and compared with a match of each route alone.

use penstock_core::{Route, RouteTable, TableMatch};
use proptest::prelude::*;

fn table(routes: &[&str]) -> RouteTable<String> {
    let mut table: RouteTable<String> = RouteTable::default();
    for text in routes {
        let route = Route::parse(text).unwrap();
        table.entry(&route).push_str(text);
    }
    table
}

/// The match of a request: the route and its values, or the allowed methods.
fn find_route(table: &RouteTable<String>, request: &str) -> String {
    let (method, path) = request.split_once(' ').unwrap();
    let segments: Vec<&str> = path[1..].split('/').collect();
    match table.find(method, &segments) {
        TableMatch::Route { target, values, route } => {
            assert_eq!(values.len(), route.names().count());
            format!("{target} {values:?}")
        }
        TableMatch::OtherMethods(methods) => format!("{methods:?}"),
        TableMatch::NotFound => "nothing".to_owned(),
    }
}

#[test]
fn paths_match_their_routes() {
    let table = table(&["GET /", "POST /score/{customer}", "POST /v1/models/{name}:{verb}", "GET /files/{path...}"]);
    for (request, expected) in [
        ("GET /", "GET / []"),
        ("POST /score/anna", r#"POST /score/{customer} ["anna"]"#),
        ("POST /v1/models/a:predict", r#"POST /v1/models/{name}:{verb} ["a", "predict"]"#),
        ("GET /files/", r#"GET /files/{path...} [""]"#),
        ("GET /files/a/../b/", r#"GET /files/{path...} ["a/../b/"]"#),
    ] {
        assert_eq!(find_route(&table, request), expected, "{request}");
    }
    for request in ["GET /files", "POST /score", "POST /score/", "POST /score/a/", "POST /score/a/b", "GET //"] {
        assert_eq!(find_route(&table, request), "nothing", "{request}");
    }
}

#[test]
fn more_specific_routes_match_first() {
    let routes = ["GET /{rest...}", "GET /{a}", "GET /x{a}", "GET /xy{a}", "GET /xyz", "GET /{a}/end", "GET /x/{b}"];
    for table in [table(&routes), table(&routes.iter().rev().copied().collect::<Vec<_>>())] {
        for (request, expected) in [
            ("GET /xyz", "GET /xyz []"),
            ("GET /xyzz", r#"GET /xy{a} ["zz"]"#),
            ("GET /xz", r#"GET /x{a} ["z"]"#),
            ("GET /z", r#"GET /{a} ["z"]"#),
            ("GET /z/z", r#"GET /{rest...} ["z/z"]"#),
            // Segments are compared from the left.
            ("GET /x/end", r#"GET /x/{b} ["end"]"#),
            ("GET /y/end", r#"GET /{a}/end ["y"]"#),
        ] {
            assert_eq!(find_route(&table, request), expected, "{request}");
        }
    }
}

#[test]
fn matching_backtracks_from_a_dead_end_literal() {
    let table = table(&["GET /a/b/c", "GET /{x}/b/d", "POST /a/b/d"]);
    assert_eq!(find_route(&table, "GET /a/b/d"), r#"GET /{x}/b/d ["a"]"#);
    assert_eq!(find_route(&table, "POST /a/b/d"), "POST /a/b/d []");
}

#[test]
fn allowed_methods_are_listed_in_order() {
    let table = table(&["POST /a", "GET /a", "PUT /{x}", "HEAD /h", "GET /h"]);
    assert_eq!(find_route(&table, "DELETE /a"), r#"{"GET", "POST", "PUT"}"#);
    assert_eq!(find_route(&table, "PUT /a"), r#"PUT /{x} ["a"]"#);
    assert_eq!(find_route(&table, "HEAD /a"), "GET /a []");
    assert_eq!(find_route(&table, "HEAD /h"), "HEAD /h []");
    assert_eq!(find_route(&table, "HEAD /b"), r#"{"PUT"}"#);
}

#[test]
fn equal_routes_share_one_entry() {
    let mut table = table(&["GET /a/{x}"]);
    table.entry(&Route::parse("GET /a/{y}").unwrap()).push_str(" and {y}");
    assert_eq!(find_route(&table, "GET /a/1"), r#"GET /a/{x} and {y} ["1"]"#);
}

const SEGMENTS: [&str; 6] = ["a", "b", "{p}", "a{p}", "{p}b", "{p}:{q}"];

/// A route of any of those segments; names are made distinct.
fn any_route() -> impl Strategy<Value = String> {
    let segments = prop::collection::vec(prop::sample::select(&SEGMENTS[..]), 1..4);
    (segments, any::<bool>()).prop_map(|(segments, rest)| {
        let mut path = String::new();
        for (at, segment) in segments.iter().enumerate() {
            path +=
                &format!("/{}", segment.replace("{p}", &format!("{{p{at}}}")).replace("{q}", &format!("{{q{at}}}")));
        }
        format!("GET {path}{}", if rest { "/{rest...}" } else { "" })
    })
}

proptest! {
    /// The tree finds a route exactly if one of them matches alone.
    #[test]
    fn table_agrees_with_matching_each_route_alone(
        routes in prop::collection::vec(any_route(), 1..8),
        path in prop::collection::vec("[ab:]{0,3}", 1..5),
    ) {
        let texts: Vec<&str> = routes.iter().map(String::as_str).collect();
        let request = format!("GET /{}", path.join("/"));
        let all = find_route(&table(&texts), &request);
        let alone: Vec<_> = texts.iter().map(|text| find_route(&table(&[text]), &request)).collect();
        if all == "nothing" {
            prop_assert!(alone.iter().all(|one| one == "nothing"));
        } else {
            let values = |one: &str| one[one.rfind('[').unwrap_or(0)..].to_owned();
            prop_assert!(alone.iter().any(|one| values(one) == values(&all)), "{all} of {alone:?}");
        }
    }
}
