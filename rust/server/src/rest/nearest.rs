//! The route nearest to an unknown path, which the 404 names.

use super::route::Route;

/// Most bytes of a path that is compared.
const LONGEST: usize = 256;
/// Most changed letters in all, where a missing part of the path counts as [`MISSING`].
const MOST_EDITS: usize = 3;
const MISSING: usize = 2;
/// Edits of a path that no route is near to.
const FAR: usize = usize::MAX / 4;

/// Returns the path of the nearest route, if one differs by a few letters or by one missing part.
pub(crate) fn nearest(routes: impl IntoIterator<Item = &'static Route>, path: &str) -> Option<&'static str> {
    if path.len() > LONGEST {
        return None;
    }
    let given = parts(path);
    let edits = routes.into_iter().map(|route| (edits(&given, &parts(route.doc.path)), route.doc.path));
    edits.min_by_key(|(edits, _)| *edits).filter(|(edits, _)| *edits <= MOST_EDITS).map(|(_, path)| path)
}

/// The parts of a path: its segments, and the verb after a colon.
fn parts(path: &str) -> Vec<&str> {
    path.split(['/', ':']).filter(|part| !part.is_empty()).collect()
}

/// Edits that turn a path into a route's, where the path may lack one part.
fn edits(given: &[&str], route: &[&str]) -> usize {
    let without = |missing: usize| {
        let rest = || route.iter().enumerate().filter(move |(place, _)| *place != missing).map(|(_, part)| *part);
        // Otherwise any word would be near to a model's name.
        let is_similar = rest().any(|part| !is_parameter(part));
        let edits = given.iter().zip(rest()).map(|(one, wanted)| between(one, wanted));
        if is_similar { edits.fold(0, usize::saturating_add) } else { FAR }
    };
    match route.len().checked_sub(given.len()) {
        Some(0) => without(route.len()),
        Some(1) => (0..route.len()).map(without).min().map_or(FAR, |edits| edits.saturating_add(MISSING)),
        _ => FAR,
    }
}

/// Edits between two parts. Parameters take any text, but versions are mostly numbers.
fn between(given: &str, wanted: &str) -> usize {
    match wanted {
        "{version}" if given.parse::<u64>().is_err() => return FAR,
        _ if is_parameter(wanted) => return 0,
        _ => {}
    }
    let edits = strsim::osa_distance(given, wanted);
    // A short part with as many edits is another word.
    if edits * 2 > wanted.len() { FAR } else { edits }
}

fn is_parameter(part: &str) -> bool {
    part.starts_with('{')
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rest::routes::ROUTES;

    #[test]
    fn mistyped_and_shortened_paths_have_a_nearest_route() {
        for (path, expected) in [
            ("/v2/models/m/infr", "/v2/models/{model}/infer"),
            ("/v2/model/m/infer", "/v2/models/{model}/infer"),
            ("/v2/m/infer", "/v2/models/{model}/infer"),
            ("/v2/models/m/infer/", "/v2/models/{model}/infer"),
            ("/model/m", "/models/{model}"),
            ("/v2/models/m/version/1/infer", "/v2/models/{model}/versions/{version}/infer"),
            ("/v2/helth/ready", "/v2/health/ready"),
            ("/health/ready", "/v2/health/ready"),
            ("/v2/models/m/generate_strem", "/v2/models/{model}/generate_stream"),
            ("/v1/models/m/predict", "/v1/models/{model}:predict"),
            ("/v1/models/m:predct", "/v1/models/{model}:predict"),
            ("/metric", "/metrics"),
            ("/v2/models/m/predict", "/v1/models/{model}:predict"),
            ("/nope", ""),
            ("/v1/nope", "/v1/models/{model}"),
            ("/a/b/c/d", ""),
            ("/", ""),
            ("", ""),
        ] {
            assert_eq!(nearest(ROUTES, path).unwrap_or_default(), expected, "{path}");
        }
        assert_eq!(nearest(ROUTES, &"/v2/models".repeat(50)), None);
    }
}
