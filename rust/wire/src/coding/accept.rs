//! Choice of a response's coding by `Accept-Encoding`.

use super::codings::Coding;

/// Returns the coding that a client prefers; `None` for an uncompressed response.
///
/// The highest weight wins, and of equals the first. `*` is ignored. zstd is for clients that accept neither gzip
/// nor deflate: some list all, and read only these two. Brotli is not written.
///
/// ```
/// use penstock_wire::coding::{Coding, choose};
///
/// assert_eq!(choose("gzip;q=0, deflate;q=0.5"), Some(Coding::Deflate));
/// assert_eq!(choose("br, gzip;q=0.1"), Some(Coding::Gzip));
/// assert_eq!(choose("identity, gzip;q=0.5"), None);
/// ```
pub fn choose(header: &str) -> Option<Coding> {
    let old = |coding: &Coding| matches!(coding, Coding::Gzip | Coding::Deflate);
    best(header, old).or_else(|| best(header, |coding| *coding == Coding::Zstd))?
}

/// The best of the codings that `allowed` lets through and of identity: `None` when there is none of
/// them, `Some(None)` for identity.
#[expect(clippy::option_option, reason = "no choice and the choice of identity are two things")]
fn best(header: &str, allowed: impl Fn(&Coding) -> bool) -> Option<Option<Coding>> {
    let mut best: Option<(f32, Option<Coding>)> = None;
    let mut has_coding = false;
    for item in header.split(',') {
        let (name, parameters) = item.split_once(';').unwrap_or((item, ""));
        let name = name.trim();
        let coding = Coding::from_name(name).filter(&allowed);
        if coding.is_none() && !name.eq_ignore_ascii_case("identity") {
            continue;
        }
        let Some(weight) = weight(parameters) else { continue };
        has_coding |= coding.is_some();
        if best.is_none_or(|(most, _)| weight > most) {
            best = Some((weight, coding));
        }
    }
    best.filter(|_| has_coding).map(|(_, coding)| coding)
}

/// The `q` of an item, 1 without one; `None` when it refuses the item or is not a number.
fn weight(parameters: &str) -> Option<f32> {
    let mut weight = 1.0;
    for parameter in parameters.split(';') {
        if let Some((name, value)) = parameter.split_once('=')
            && name.trim().eq_ignore_ascii_case("q")
        {
            weight = value.trim().parse().ok()?;
        }
    }
    (weight > 0.0).then_some(weight)
}
