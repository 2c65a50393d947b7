//! The content codings.

/// A content coding. All are read; all but Brotli are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Coding {
    /// RFC 1952.
    Gzip,
    /// RFC 1950 (zlib). Raw RFC 1951 data, which some clients send by this name, is read too.
    Deflate,
    /// RFC 7932; only read.
    Brotli,
    /// RFC 8878, in windows of at most 8 MiB (RFC 9659).
    Zstd,
}

/// Accepted codings, as an `Accept-Encoding` header lists them.
pub const ACCEPTED: &str = "gzip, deflate, br, zstd, identity";

impl Coding {
    /// Every coding.
    pub const ALL: [Self; 4] = [Self::Gzip, Self::Deflate, Self::Brotli, Self::Zstd];

    /// The name in `Content-Encoding`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Gzip => "gzip",
            Self::Deflate => "deflate",
            Self::Brotli => "br",
            Self::Zstd => "zstd",
        }
    }

    /// The coding of a name, in any case.
    pub fn from_name(name: &str) -> Option<Self> {
        if name.eq_ignore_ascii_case("x-gzip") {
            return Some(Self::Gzip);
        }
        Self::ALL.into_iter().find(|coding| coding.name().eq_ignore_ascii_case(name))
    }
}
