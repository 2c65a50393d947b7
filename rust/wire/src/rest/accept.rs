//! The `Accept` header.

/// Returns the media ranges of an `Accept` header without their parameters, the most preferred first. Ranges of equal
/// weight keep their order; those of weight 0 are left out.
///
/// ```
/// use penstock_wire::rest::media_ranges;
///
/// let ranges = media_ranges("text/html;q=0.8, image/png, image/gif;q=0");
/// assert_eq!(ranges, ["image/png", "text/html"]);
/// ```
pub fn media_ranges(header: &str) -> Vec<&str> {
    let parsed = header.split(',').map(|item| {
        let mut parts = item.split(';');
        (parts.next().unwrap_or_default().trim(), weight(parts))
    });
    let mut ranges: Vec<(&str, f32)> = parsed.filter(|(_, weight)| *weight > 0.0).collect();
    ranges.sort_by(|one, other| other.1.total_cmp(&one.1));
    ranges.into_iter().map(|(range, _)| range).collect()
}

fn weight<'a>(parameters: impl Iterator<Item = &'a str>) -> f32 {
    let given = parameters.filter_map(|parameter| parameter.split_once('='));
    let mut quality = given.filter(|(name, _)| name.trim().eq_ignore_ascii_case("q"));
    quality.next().map_or(1.0, |(_, value)| value.trim().parse().unwrap_or(0.0))
}
