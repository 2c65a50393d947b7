//! The file of keys, in TOML.

use super::{
    address_limits::AddressLimits,
    key::{Key, Limits},
    key_table::KeyTable,
    limits::ClientLimits,
    rate::Rate,
};
use crate::settings::{Categories, Category};
use chrono::{DateTime, NaiveDate, Utc};
use penstock_core::ModelPatterns;
use serde::Deserialize;
use std::{collections::HashMap, fs, ops::Range, path::Path, sync::Arc};
use toml::{Spanned, value::Datetime};

/// Digits of a SHA-256 in hexadecimal.
const DIGEST_DIGITS: usize = 64;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FileText {
    #[serde(default)]
    key: Vec<Spanned<KeyText>>,
    #[serde(default)]
    anonymous: Option<AnonymousText>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct KeyText {
    name: Spanned<String>,
    sha256: Option<Spanned<String>>,
    subject: Option<Spanned<String>>,
    scopes: Option<Vec<Spanned<String>>>,
    models: Option<Vec<String>>,
    expires: Option<Spanned<Datetime>>,
    rate: Option<Spanned<String>>,
    burst: Option<u64>,
    concurrency: Option<usize>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct AnonymousText {
    scopes: Option<Vec<Spanned<String>>>,
    models: Option<Vec<String>>,
    rate: Option<Spanned<String>>,
    burst: Option<u64>,
    concurrency: Option<usize>,
}

/// A problem at a position of the text.
struct Problem(Range<usize>, String);

/// Reads the keys of a file.
///
/// # Errors
/// The first problem, as `FILE:LINE: problem`.
pub(super) fn read(path: &Path) -> Result<KeyTable, String> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let text = fs::read_to_string(path).map_err(|error| format!("'{}' cannot be read: {error}", path.display()))?;
    parse(&text).map_err(|Problem(span, problem)| {
        let line = 1 + text.as_bytes().iter().take(span.start).filter(|byte| **byte == b'\n').count();
        format!("{name}:{line}: {problem}")
    })
}

fn parse(text: &str) -> Result<KeyTable, Problem> {
    let file: FileText = toml::from_str(text)
        .map_err(|error| Problem(error.span().unwrap_or_default(), error.message().trim().to_owned()))?;
    let mut table = KeyTable { anonymous: Arc::new(anonymous(file.anonymous)?), ..KeyTable::default() };
    let mut names = HashMap::new();
    for key in file.key {
        let span = key.span();
        let KeyText { name, sha256, subject, scopes, models, expires, rate, burst, concurrency } = key.into_inner();
        let limits = read_limits(rate, burst, concurrency, &span)?;
        if names.insert(name.get_ref().clone(), ()).is_some() {
            return Err(Problem(name.span(), format!("two keys have the name '{}'", name.get_ref())));
        }
        let key = Arc::new(Key {
            name: Some(named(&name)?),
            scopes: scopes.map_or(Ok(default_scopes()), |scopes| read_scopes(&scopes))?,
            models: patterns(models),
            expires: expires.map(expiry).transpose()?,
            limits: limits.map_or(Limits::None, Limits::Key),
        });
        let taken = match (&sha256, &subject) {
            (Some(digest), None) => table.by_digest.insert(self::digest(digest)?, key).is_some(),
            (None, Some(subject)) => table.by_subject.insert(subject.get_ref().clone(), key).is_some(),
            _ => {
                let text = format!("key '{}' needs 'sha256', the digest of a key, or 'subject'", name.get_ref());
                return Err(Problem(span, text));
            }
        };
        if taken {
            return Err(Problem(span, format!("key '{}' is the same as a key before it", name.get_ref())));
        }
    }
    Ok(table)
}

fn anonymous(text: Option<AnonymousText>) -> Result<Key, Problem> {
    let mut key = Key::anonymous_by_default();
    if let Some(AnonymousText { scopes, models, rate, burst, concurrency }) = text {
        let limits = read_limits(rate, burst, concurrency, &(0..0))?;
        key.limits = limits.map_or(Limits::None, |limits| Limits::Addresses(AddressLimits::new(limits)));
        key.scopes = scopes.map_or(Ok(key.scopes), |scopes| read_scopes(&scopes))?;
        key.models = patterns(models);
    }
    Ok(key)
}

/// Limits of an entry, whose position is `span`; `None` if it has none.
fn read_limits(
    rate: Option<Spanned<String>>,
    burst: Option<u64>,
    concurrency: Option<usize>,
    span: &Range<usize>,
) -> Result<Option<Arc<ClientLimits>>, Problem> {
    if rate.is_none() && burst.is_some() {
        return Err(Problem(span.clone(), "'burst' has no meaning without 'rate'".to_owned()));
    }
    let read =
        |rate: Spanned<String>| Rate::parse(rate.get_ref(), burst).map_err(|problem| Problem(rate.span(), problem));
    Ok(ClientLimits::new(rate.map(read).transpose()?, concurrency))
}

fn default_scopes() -> Categories {
    Categories::of([Category::Health, Category::Metadata, Category::Inference])
}

fn named(name: &Spanned<String>) -> Result<Arc<str>, Problem> {
    let text = name.get_ref();
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_.@/".contains(c);
    match !text.is_empty() && text.len() <= 128 && text.chars().all(is_plain) {
        true => Ok(text.as_str().into()),
        false => {
            let text = "a key's name has 1 to 128 letters, digits and '-', '_', '.', '@' or '/'".to_owned();
            Err(Problem(name.span(), text))
        }
    }
}

fn read_scopes(scopes: &[Spanned<String>]) -> Result<Categories, Problem> {
    scopes.iter().try_fold(Categories::default(), |all, scope| {
        let one = Categories::from_name(scope.get_ref()).map_err(|problem| Problem(scope.span(), problem))?;
        Ok(all.and(one))
    })
}

fn patterns(models: Option<Vec<String>>) -> Option<Arc<ModelPatterns>> {
    models.filter(|models| *models != ["*"]).map(|models| Arc::new(ModelPatterns::new(models)))
}

fn digest(text: &Spanned<String>) -> Result<[u8; 32], Problem> {
    let digits = text.get_ref();
    let wrong = || {
        let given = digits.len();
        Problem(
            text.span(),
            format!("'sha256' has {DIGEST_DIGITS} hexadecimal digits, this text has {given} characters"),
        )
    };
    if digits.len() != DIGEST_DIGITS || !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
        return Err(wrong());
    }
    let mut digest = [0; 32];
    for (byte, pair) in digest.iter_mut().zip(digits.as_bytes().chunks(2)) {
        let pair = std::str::from_utf8(pair).map_err(|_| wrong())?;
        *byte = u8::from_str_radix(pair, 16).map_err(|_| wrong())?;
    }
    Ok(digest)
}

/// The time of a TOML date or date-time: a key is valid before its day. Times without an offset are in UTC.
fn expiry(expires: Spanned<Datetime>) -> Result<DateTime<Utc>, Problem> {
    let wrong =
        || Problem(expires.span(), "'expires' is a date such as 2027-01-01, or a time of such a date".to_owned());
    let text = expires.get_ref().to_string();
    if let Ok(date) = text.parse::<NaiveDate>() {
        return date.and_hms_opt(0, 0, 0).map(|time| time.and_utc()).ok_or_else(wrong);
    }
    let with_offset =
        DateTime::parse_from_rfc3339(&text).or_else(|_| DateTime::parse_from_rfc3339(&format!("{text}Z")));
    with_offset.map(|time| time.to_utc()).map_err(|_| wrong())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem(text: &str) -> (usize, String) {
        let Problem(span, problem) = parse(text).map(drop).expect_err(text);
        (1 + text[..span.start].matches('\n').count(), problem)
    }

    fn key(more: &str) -> String {
        format!("[[key]]\nname = 'a'\nsha256 = '{}'\n{more}\n", "0a".repeat(32))
    }

    #[test]
    fn keys_have_scopes_models_and_an_expiry() {
        let text = key("scopes = ['inference', 'metrics']\nmodels = ['bert*']\nexpires = 2027-01-01");
        let table = parse(&text).ok().unwrap();
        let read = &table.by_digest[&[10; 32]];
        assert_eq!(read.scopes, Categories::of([Category::Inference, Category::Metrics]));
        assert!(read.models.as_ref().unwrap().allow("bert-base"));
        assert_eq!(read.expires.unwrap().to_rfc3339(), "2027-01-01T00:00:00+00:00");
        assert_eq!(table.anonymous.scopes, Categories::of([Category::Health]));
    }

    #[test]
    fn times_of_expiry_have_any_form_of_toml() {
        for (text, expected) in [
            ("2027-01-01T10:00:00", "2027-01-01T10:00:00+00:00"),
            ("2027-01-01 10:00:00+02:00", "2027-01-01T08:00:00+00:00"),
        ] {
            let table = parse(&key(&format!("expires = {text}"))).ok().unwrap();
            assert_eq!(table.by_digest[&[10; 32]].expires.unwrap().to_rfc3339(), expected);
        }
    }

    #[test]
    fn wrong_files_are_refused_with_their_line() {
        let digest = "0a".repeat(32);
        for (text, line, expected) in [
            (key("scopes = [\n 'infer']"), 5, "scope 'infer' is not known; did you mean 'inference'?"),
            (key("expires = 10:00:00"), 4, "'expires' is a date"),
            (key("rate = '100'"), 4, "rate '100' is not a number of requests in a time"),
            (key("burst = 3"), 1, "'burst' has no meaning without 'rate'"),
            (key("concurrency = -1"), 4, ""),
            (key("rates = 3"), 4, "unknown field `rates`"),
            (format!("{}{}", key(""), key("")), 6, "two keys have the name 'a'"),
            (format!("{}{}", key(""), key("").replace("'a'", "'b'")), 5, "key 'b' is the same as a key before it"),
            ("[[key]]\nname='a'\nsha256='ab'".to_owned(), 3, "64 hexadecimal digits, this text has 2"),
            (format!("[[key]]\nname='a'\nsha256='{}'", digest.replace('a', "g")), 3, "64 hexadecimal digits"),
            ("\n[[key]]\nname = 'a'".to_owned(), 2, "needs 'sha256'"),
            (format!("[[key]]\nname='a b'\nsha256='{digest}'"), 2, "a key's name has"),
            ("[anonymous]\nscopes = ['all']".to_owned(), 2, "scope 'all' is not known"),
            ("[[key]\n".to_owned(), 1, ""),
        ] {
            let (found, shown) = problem(&text);
            assert!(found == line && shown.contains(expected), "{text}: {found}: {shown}");
        }
    }
}
