//! Check of the chain of an audit log.

use super::chain::{ChainEnd, MAX_LINE_BYTES, NONE};
use std::{
    fs::File,
    io::{BufRead as _, BufReader, Read as _},
    path::Path,
};

/// Files whose chain is whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditedFiles {
    /// Lines of all files.
    pub lines: u64,
    /// Number of the last line in the chain; 0 without lines.
    pub seq: u64,
    /// Hash of the last line: the chain does not protect it before another one follows.
    pub hash: String,
}

/// Checks the chain of files in their order, which are parts of one log.
///
/// # Errors
/// The file and the first broken line.
pub fn verify_audit_log(paths: &[impl AsRef<Path>]) -> Result<AuditedFiles, String> {
    let (mut lines, mut end) = (0, None);
    for path in paths.iter().map(AsRef::as_ref) {
        let (count, of_file) = verify_file(path, end).map_err(|problem| format!("{}: {problem}", path.display()))?;
        (lines, end) = (lines + count, of_file);
    }
    let ChainEnd { seq, hash } = end.unwrap_or_default();
    Ok(AuditedFiles { lines, seq, hash })
}

/// Checks one file behind the end of those before it; `None` before the first line.
fn verify_file(path: &Path, mut end: Option<ChainEnd>) -> Result<(u64, Option<ChainEnd>), String> {
    let mut reader = BufReader::new(File::open(path).map_err(|error| error.to_string())?);
    let (mut number, mut line) = (0, Vec::new());
    loop {
        line.clear();
        let mut limited = (&mut reader).take(MAX_LINE_BYTES as u64 + 1);
        if limited.read_until(b'\n', &mut line).map_err(|error| error.to_string())? == 0 {
            return Ok((number, end));
        }
        number += 1;
        let Some(text) = line.strip_suffix(b"\n") else {
            return Err(format!("line {number}: cut off, it has no end"));
        };
        let Some((next, linked)) = ChainEnd::of(text) else {
            return Err(format!("line {number}: not a line of an audit log"));
        };
        match &end {
            // The log may have been moved away before it.
            None if linked.seq != 1 => {}
            None if linked.prev != NONE => {
                return Err(format!("line {number}: changed, its prev is not that of seq 1"));
            }
            None => {}
            Some(before) if linked.seq != before.seq + 1 => {
                let expected = before.seq + 1;
                return Err(format!(
                    "line {number}: got seq {}, expected {expected}: a line before it is missing or added",
                    linked.seq
                ));
            }
            Some(before) if linked.prev != before.hash => {
                let place = if number == 1 { "the line before".to_owned() } else { format!("line {}", number - 1) };
                return Err(format!("{place}: changed, its hash is not the prev of line {number}"));
            }
            Some(_) => {}
        }
        end = Some(next);
    }
}

#[cfg(test)]
mod tests {
    use super::{super::event::AuditEvent, *};
    use std::{env, fs, path::PathBuf, process};

    /// A file that is removed again.
    struct Saved(PathBuf);

    impl Saved {
        fn new(name: &str, text: &[u8]) -> Self {
            let path = env::temp_dir().join(format!("penstock-audit-{}-{name}", process::id()));
            fs::write(&path, text).unwrap();
            Self(path)
        }
    }

    impl Drop for Saved {
        fn drop(&mut self) {
            let _ = fs::remove_file(&self.0);
        }
    }

    fn lines(count: u64) -> Vec<String> {
        let mut end = ChainEnd::default();
        let event = AuditEvent::of_operator("load", Some("a\nb"), true);
        (0..count)
            .map(|_| {
                let (line, next) = end.append(&event, "2026-01-01T00:00:00.000Z");
                end = next;
                line + "\n"
            })
            .collect()
    }

    fn verify(name: &str, lines: &[String]) -> Result<u64, String> {
        let saved = Saved::new(name, lines.concat().as_bytes());
        let path = format!("{}: ", saved.0.display());
        verify_audit_log(&[&saved.0]).map(|files| files.lines).map_err(|text| text.replace(&path, ""))
    }

    #[test]
    fn whole_chain_is_accepted() {
        assert_eq!(verify("none", &[]), Ok(0));
        assert_eq!(verify("whole", &lines(5)), Ok(5));
        assert_eq!(verify("rotated", &lines(5)[2..]), Ok(3));
    }

    #[test]
    fn broken_line_is_named() {
        let mut changed = lines(5);
        changed[2] = changed[2].replace("load", "lead");
        assert_eq!(verify("flip", &changed).unwrap_err(), "line 3: changed, its hash is not the prev of line 4");
        let mut dropped = lines(5);
        dropped.remove(2);
        let missing = "line 3: got seq 4, expected 3: a line before it is missing or added";
        assert_eq!(verify("drop", &dropped).unwrap_err(), missing);
        let mut short = lines(5);
        short[4].truncate(30);
        assert_eq!(verify("cut", &short).unwrap_err(), "line 5: cut off, it has no end");
        short[4].push('\n');
        assert_eq!(verify("broken", &short).unwrap_err(), "line 5: not a line of an audit log");
        let mut first = lines(2);
        first[0] = first[0].replace(NONE, &"1".repeat(64));
        assert_eq!(verify("first", &first).unwrap_err(), "line 1: changed, its prev is not that of seq 1");
        let mut doubled = lines(3);
        doubled.insert(1, doubled[1].clone());
        assert_eq!(verify("twice", &doubled).unwrap_err().split(':').next(), Some("line 3"));
    }

    #[test]
    fn files_in_their_order_are_one_chain() {
        let all = lines(5);
        let (one, two) =
            (Saved::new("one", all[..2].concat().as_bytes()), Saved::new("two", all[2..].concat().as_bytes()));
        let files = verify_audit_log(&[&one.0, &two.0]).unwrap();
        assert_eq!((files.lines, files.seq), (5, 5));
        assert_eq!(files.hash, blake3::hash(all[4].trim_end().as_bytes()).to_hex().to_string());
        let wrong = verify_audit_log(&[&two.0, &one.0]).unwrap_err();
        assert!(wrong.ends_with("line 1: got seq 1, expected 6: a line before it is missing or added"), "{wrong}");
    }
}
