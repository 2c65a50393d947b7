//! Ids of events: the secret token of their stream, and their number in it.

use ring::rand::{SecureRandom as _, SystemRandom};
use std::fmt;

const TOKEN_BYTES: usize = 16;

/// Secret name of a stream: 128 random bits of the operating system, as 32 hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Token([u8; TOKEN_BYTES]);

impl Token {
    /// Creates a token; `None` where the operating system has no random numbers.
    pub(crate) fn random() -> Option<Self> {
        let mut bytes = [0; TOKEN_BYTES];
        SystemRandom::new().fill(&mut bytes).ok()?;
        Some(Self(bytes))
    }

    /// Parses the form of [`fmt::Display`].
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let digits = text.as_bytes();
        if digits.len() != 2 * TOKEN_BYTES {
            return None;
        }
        let mut bytes = [0; TOKEN_BYTES];
        for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
            *byte = digit(pair[0])? << 4 | digit(pair[1])?;
        }
        Some(Self(bytes))
    }
}

fn digit(text: u8) -> Option<u8> {
    match text {
        b'0'..=b'9' => Some(text - b'0'),
        b'a'..=b'f' => Some(text - b'a' + 10),
        _ => None,
    }
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Token {
    /// Without the secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token")
    }
}

/// Id of an event: `TOKEN-N`. The first event of a stream has number 1; 0 is before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct EventId {
    pub(crate) token: Token,
    pub(crate) number: u64,
}

impl EventId {
    /// Parses an id; `None` for one that this server has not made.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (token, number) = text.split_once('-')?;
        let is_number = (1..=19).contains(&number.len()) && number.bytes().all(|digit| digit.is_ascii_digit());
        Some(Self { token: Token::parse(token)?, number: number.parse().ok().filter(|_| is_number)? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_parsed_as_they_are_written() {
        let token = Token::random().unwrap();
        for number in [0, 1, 1234567] {
            assert_eq!(EventId::parse(&format!("{token}-{number}")), Some(EventId { token, number }));
        }
        assert_eq!(format!("{token:?}"), "Token");
    }

    #[test]
    fn other_texts_are_refused() {
        let token = "0123456789abcdef0123456789abcdef";
        assert!(EventId::parse(&format!("{token}-1")).is_some());
        for text in ["", "7", "a-1", &format!("{token}1-1"), &format!("{token}-"), &format!("{token}-+1")] {
            assert_eq!(EventId::parse(text), None, "{text}");
        }
        assert_eq!(EventId::parse(&format!("{}-1", token.to_uppercase())), None);
        assert_eq!(EventId::parse(&format!("{token}-99999999999999999999")), None);
    }

    #[test]
    fn tokens_differ() {
        let tokens: std::collections::HashSet<Token> = (0..1000).filter_map(|_| Token::random()).collect();
        assert_eq!(tokens.len(), 1000);
    }
}
