//! Stop texts, found across chunks.

/// Passes text up to the first stop text, and holds back what may begin one.
#[derive(Debug)]
pub(super) struct Stops {
    stops: Vec<String>,
    /// Text that is held back.
    held: String,
    /// Index of the stop text that was found.
    found: Option<usize>,
}

impl Stops {
    /// A matcher of `stops`; `None` if all are empty.
    pub(super) fn new(mut stops: Vec<String>) -> Option<Self> {
        stops.retain(|stop| !stop.is_empty());
        (!stops.is_empty()).then(|| Self { stops, held: String::new(), found: None })
    }

    /// Appends the part of `chunk` that can be passed on.
    pub(super) fn feed(&mut self, chunk: &str, out: &mut String) {
        if self.found.is_some() {
            return;
        }
        self.held.push_str(chunk);
        // The stop text that is complete first counts, so that the result does not depend on the chunks. Of several
        // that end there, the longest counts.
        let ends = self.stops.iter().enumerate().filter_map(|(index, stop)| {
            let start = self.held.find(&**stop)?;
            Some((start + stop.len(), start, index))
        });
        if let Some((_, start, index)) = ends.min() {
            out.push_str(&self.held[..start]);
            self.held.clear();
            self.found = Some(index);
            return;
        }
        let kept = self.stops.iter().map(|stop| overlap(&self.held, stop)).max().unwrap_or(0);
        let passed = self.held.len() - kept;
        out.push_str(&self.held[..passed]);
        self.held.drain(..passed);
    }

    /// Appends the text that is held back, at the end of the text.
    pub(super) fn finish(&mut self, out: &mut String) {
        out.push_str(&std::mem::take(&mut self.held));
    }

    /// Returns the stop text that was found.
    pub(super) fn found(&self) -> Option<&str> {
        self.found.map(|index| &*self.stops[index])
    }
}

/// Length of the longest end of `text` that is a beginning of `stop`, in bytes.
fn overlap(text: &str, stop: &str) -> usize {
    let mut beginnings = stop.char_indices().rev().map(|(length, _)| length);
    beginnings.find(|&length| text.ends_with(&stop[..length])).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn feed(chunks: &[impl AsRef<str>], stops: &[impl ToString]) -> (String, bool) {
        let mut out = String::new();
        let Some(mut matcher) = Stops::new(stops.iter().map(ToString::to_string).collect()) else {
            return (chunks.iter().map(AsRef::as_ref).collect(), false);
        };
        chunks.iter().for_each(|chunk| matcher.feed(chunk.as_ref(), &mut out));
        matcher.finish(&mut out);
        (out, matcher.found().is_some())
    }

    #[test]
    fn text_ends_before_a_stop() {
        for (chunks, stops, text, stopped) in [
            (&["one two"][..], &[][..], "one two", false),
            (&["one STOP two"], &["STOP"], "one ", true),
            (&["one ST", "OP two"], &["STOP"], "one ", true),
            (&["one S", "T", "O", "P"], &["STOP"], "one ", true),
            (&["one ST", "ART"], &["STOP"], "one START", false),
            (&["one ST"], &["STOP"], "one ST", false),
            (&["aab"], &["ab", "aab"], "", true),
            (&["xx", "y"], &["xy"], "x", true),
            (&["STOP"], &["STOP"], "", true),
            (&["é", "è"], &["èé"], "éè", false),
        ] {
            assert_eq!(feed(chunks, stops), (text.to_owned(), stopped), "{chunks:?} {stops:?}");
        }
    }

    #[test]
    fn beginning_of_a_stop_is_held_back() {
        let mut matcher = Stops::new(vec!["\n\n".to_owned()]).unwrap();
        for (chunk, passed) in [("one\n", "one"), ("two", "\ntwo"), ("\n", "")] {
            let mut out = String::new();
            matcher.feed(chunk, &mut out);
            assert_eq!(out, passed);
        }
        let mut out = String::new();
        matcher.finish(&mut out);
        assert_eq!(out, "\n");
    }

    proptest! {
        #[test]
        fn chunks_do_not_change_the_result(
            chunks in proptest::collection::vec("[ab]{0,4}", 0..6),
            stops in proptest::collection::vec("[ab]{1,3}", 0..3),
        ) {
            let whole = chunks.concat();
            // The shortest prefix that ends with a stop, without the longest stop at its end.
            let expected = (0..=whole.len()).find_map(|length| {
                let prefix = &whole[..length];
                let longest = stops.iter().filter(|stop| prefix.ends_with(&***stop)).map(String::len).max()?;
                Some((whole[..length - longest].to_owned(), true))
            });
            prop_assert_eq!(feed(&chunks, &stops), expected.unwrap_or((whole, false)));
        }
    }
}
