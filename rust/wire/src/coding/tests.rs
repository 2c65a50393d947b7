use super::*;
use penstock_core::{Kind, Result};
use proptest::prelude::*;

const WIDE: InflateLimits = InflateLimits { bytes: 64 << 20, ratio: 1 << 20 };

/// Inflates `data` in chunks of `size` bytes.
fn inflate(coding: Coding, data: &[u8], size: usize, bounds: InflateLimits) -> Result<Vec<u8>> {
    let mut inflater = Inflater::new(coding, bounds);
    for mut chunk in data.chunks(size) {
        while inflater.is_pending() || !chunk.is_empty() {
            inflater.write(&mut chunk, 1 << 20)?;
        }
    }
    inflater.finish()
}

fn compress_any(coding: Coding, data: &[u8]) -> Vec<u8> {
    if coding != Coding::Brotli {
        return compress(coding, &[data]).unwrap();
    }
    let mut out = Vec::new();
    let parameters = brotli::enc::BrotliEncoderParams { quality: 2, ..Default::default() };
    brotli::BrotliCompress(&mut &*data, &mut out, &parameters).unwrap();
    out
}

fn refused(coding: Coding, data: &[u8], bounds: InflateLimits) -> (Kind, String) {
    let error = inflate(coding, data, 1000, bounds).unwrap_err();
    (error.kind(), error.message().to_owned())
}

/// zlib data without its header of two bytes and its checksum of four.
fn raw_deflate(data: &[u8]) -> Vec<u8> {
    let zlib = compress_any(Coding::Deflate, data);
    zlib[2..zlib.len() - 4].to_vec()
}

fn text() -> Vec<u8> {
    (0..20_000).flat_map(|number: u32| format!("{number},").into_bytes()).collect()
}

#[test]
fn coding_names_are_case_insensitive() {
    for coding in Coding::ALL {
        assert_eq!(Coding::from_name(&coding.name().to_uppercase()), Some(coding));
        assert!(ACCEPTED.split(", ").any(|name| name == coding.name()));
    }
    assert_eq!(Coding::from_name("x-gzip"), Some(Coding::Gzip));
    for other in ["", "identity", "compress", "gzip,", "zlib"] {
        assert_eq!(Coding::from_name(other), None);
    }
}

#[test]
fn compressed_data_starts_with_the_format_magic() {
    let data = b"[1,2,3,4]";
    assert_eq!(compress_any(Coding::Gzip, data)[..3], [0x1F, 0x8B, 8]);
    // T66: the zlib wrapper, never raw.
    assert_eq!(compress_any(Coding::Deflate, data)[0], 0x78);
    assert_eq!(compress_any(Coding::Zstd, data)[..4], 0xFD2F_B528_u32.to_le_bytes());
}

#[test]
fn codings_round_trip_for_any_chunk_size() {
    let data = text();
    for coding in Coding::ALL {
        let small = compress_any(coding, &data);
        assert!(small.len() < data.len() / 2, "{coding:?} {}", small.len());
        for size in [1, 7, 4096, small.len()] {
            assert_eq!(inflate(coding, &small, size, WIDE).unwrap(), data, "{coding:?} {size}");
        }
        assert_eq!(inflate(coding, &compress_any(coding, b""), 1, WIDE).unwrap(), b"");
    }
}

#[test]
fn raw_deflate_is_accepted_as_deflate() {
    let data = text();
    for size in [1, 2, 3, 5000] {
        assert_eq!(inflate(Coding::Deflate, &raw_deflate(&data), size, WIDE).unwrap(), data);
    }
    // An empty final block of one byte and a bit, in one chunk and in two.
    for size in [1, 2] {
        assert_eq!(inflate(Coding::Deflate, &[3, 0], size, WIDE).unwrap(), b"");
    }
}

#[test]
fn concatenated_gzip_and_zstd_streams_are_accepted() {
    for coding in [Coding::Gzip, Coding::Zstd] {
        let two = [compress_any(coding, b"one"), compress_any(coding, b"two")].concat();
        assert_eq!(inflate(coding, &two, 5, WIDE).unwrap(), b"onetwo");
    }
    for coding in [Coding::Deflate, Coding::Brotli] {
        let mut data = compress_any(coding, b"one");
        data.push(0);
        let message = format!("bytes follow the {} data of the request's body", coding.name());
        assert_eq!(refused(coding, &data, WIDE), (Kind::InvalidInput, message));
    }
}

#[test]
fn truncated_or_corrupt_body_is_refused() {
    for coding in Coding::ALL {
        let data = compress_any(coding, &text());
        let name = coding.name();
        let early = (Kind::InvalidInput, format!("the request's body ends before its {name} data does"));
        for end in [0, 1, data.len() / 2, data.len() - 1] {
            assert_eq!(refused(coding, &data[..end], WIDE), early, "{coding:?} {end}");
        }
        // Raw deflate reads it as a block of the reserved type.
        let message = refused(coding, &[0xFF; 100], WIDE).1;
        assert!(message.starts_with(&format!("the request's body is not valid {name} data")), "{message}");
    }
    let mut wrong_sum = compress_any(Coding::Gzip, b"abc");
    let at = wrong_sum.len() - 8;
    wrong_sum[at] ^= 1;
    let invalid = (Kind::InvalidInput, "the request's body is not valid gzip data".to_owned());
    assert_eq!(refused(Coding::Gzip, &wrong_sum, WIDE), invalid);
}

#[test]
fn decompression_bomb_is_refused_early() {
    let bomb = vec![0; (2 << 20) + 2];
    for coding in Coding::ALL {
        let data = compress_any(coding, &bomb);
        let most = 2 << 20;
        let mut inflater = Inflater::new(coding, InflateLimits { bytes: most, ratio: 1 << 30 });
        let mut chunk = &data[..];
        let error = loop {
            if let Err(error) = inflater.write(&mut chunk, 1 << 20) {
                break error;
            }
            assert!(inflater.is_pending() || !chunk.is_empty());
        };
        assert_eq!(error.kind(), Kind::TooLarge);
        assert!(inflater.len() <= most + 1);
        let message = format!("the request's body inflates to more than {most} bytes, at most {most} are accepted");
        assert_eq!(error.message(), message);
        let bounds = InflateLimits { bytes: 64 << 20, ratio: 100 };
        let message = "the request's body inflates to more than 100 times its size, which is not accepted";
        assert_eq!(refused(coding, &data, bounds), (Kind::TooLarge, message.to_owned()));
        // A body of the bound itself is fine, and so is a small one of any ratio.
        assert_eq!(
            inflate(coding, &data, 4096, InflateLimits { bytes: bomb.len(), ratio: 1 << 20 }).unwrap().len(),
            bomb.len()
        );
        let small = compress_any(coding, &bomb[..InflateLimits::FREE]);
        assert_eq!(inflate(coding, &small, 4096, bounds).unwrap().len(), InflateLimits::FREE);
    }
}

/// An empty gzip stream, an empty zstd frame, and a skippable one.
const EMPTY_STREAMS: [(Coding, &[u8]); 3] = [
    (Coding::Gzip, &[0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0]),
    (Coding::Zstd, &[0x28, 0xb5, 0x2f, 0xfd, 0x20, 0, 1, 0, 0]),
    (Coding::Zstd, &[0x50, 0x2a, 0x4d, 0x18, 0, 0, 0, 0]),
];

#[test]
fn empty_streams_are_bounded() {
    for (coding, empty) in EMPTY_STREAMS {
        assert_eq!(inflate(coding, &empty.repeat(1024), 999, WIDE).unwrap(), b"");
        for size in [7, 1000, 1 << 20] {
            let error = inflate(coding, &empty.repeat(5000), size, WIDE).unwrap_err();
            let name = coding.name();
            let expected = format!(
                "the request's body has more than 1024 {name} streams, accepted are 1024 and one for each KiB inflated"
            );
            assert_eq!((error.kind(), error.message()), (Kind::TooLarge, &*expected));
        }
    }
}

#[test]
fn many_nonempty_streams_are_accepted() {
    let part = compress_any(Coding::Gzip, &text()[..1500]);
    assert_eq!(inflate(Coding::Gzip, &part.repeat(3000), 1 << 16, WIDE).unwrap().len(), 4_500_000);
}

#[test]
fn empty_blocks_are_refused() {
    // A frame of zstd with blocks of no bytes, raw ones; stored blocks of deflate with none, and fixed ones, four in five bytes.
    let zstd = [&[0x28, 0xb5, 0x2f, 0xfd, 0, 0x58][..], &[0, 0, 0].repeat(1 << 20)].concat();
    let deflate = [0, 0, 0, 0xff, 0xff].repeat(1 << 20);
    let fixed = [0x02, 0x08, 0x20, 0x80, 0x00].repeat(1 << 20);
    for (coding, data) in [(Coding::Zstd, zstd), (Coding::Deflate, deflate), (Coding::Deflate, fixed)] {
        let error = inflate(coding, &data, 1 << 16, WIDE).unwrap_err();
        let expected = "the request's body inflates to less than a part in 8 of its size, which is not accepted";
        assert_eq!((error.kind(), error.message()), (Kind::TooLarge, expected));
    }
}

#[test]
fn incompressible_data_is_accepted() {
    let mut state = 1_u64;
    let noise = std::iter::repeat_with(|| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 56) as u8
    });
    let noise: Vec<u8> = noise.take(4 << 20).collect();
    for coding in Coding::ALL {
        assert!(inflate(coding, &compress_any(coding, &noise), 1 << 16, WIDE).unwrap() == noise, "{coding:?}");
    }
}

#[test]
fn write_consumes_no_more_input_than_its_budget() {
    let (coding, empty) = EMPTY_STREAMS[0];
    let data = empty.repeat(1000);
    let mut inflater = Inflater::new(coding, WIDE);
    let mut rest = &data[..];
    inflater.write(&mut rest, 4000).unwrap();
    assert!((4000..4100).contains(&(data.len() - rest.len())), "{}", data.len() - rest.len());
    assert_eq!(inflater.work(), data.len() - rest.len());
}

#[test]
fn zstd_windows_are_bounded() {
    // A frame header that requests a window of 16 MiB, and an empty last block.
    let frame = [0x28, 0xB5, 0x2F, 0xFD, 0, (24 - 10) << 3, 1, 0, 0];
    let message = "the request's body is not valid zstd data with a window of at most 8 MiB";
    assert_eq!(refused(Coding::Zstd, &frame, WIDE), (Kind::InvalidInput, message.to_owned()));
    let frame = [0x28, 0xB5, 0x2F, 0xFD, 0, (23 - 10) << 3, 1, 0, 0];
    assert_eq!(inflate(Coding::Zstd, &frame, 2, WIDE).unwrap(), b"");
}

#[test]
fn write_produces_no_more_output_than_its_budget() {
    let data = compress_any(Coding::Gzip, &vec![0; 1 << 20]);
    let mut inflater = Inflater::new(Coding::Gzip, WIDE);
    let mut chunk = &data[..];
    inflater.write(&mut chunk, 100).unwrap();
    assert!((1..=64 << 10).contains(&inflater.len()));
    assert!(inflater.is_pending() || !chunk.is_empty());
}

#[test]
fn brotli_is_decoded_but_not_encoded() {
    let error = compress(Coding::Brotli, &[b"a"]).unwrap_err();
    assert_eq!((error.kind(), error.message()), (Kind::Internal, "the response could not be compressed with br"));
}

#[test]
fn accept_encoding_chooses_the_coding() {
    use Coding::{Deflate, Gzip, Zstd};
    for (header, coding) in [
        ("", None),
        ("*", None),
        ("identity", None),
        ("gzip", Some(Gzip)),
        ("GZIP ; Q=0.5", Some(Gzip)),
        ("gzip, deflate, br", Some(Gzip)),
        ("deflate, gzip", Some(Deflate)),
        ("br, zstd, gzip;q=0.1", Some(Gzip)),
        ("br;q=0.9, zstd", Some(Zstd)),
        ("br", None),
        ("gzip;q=0, zstd", Some(Zstd)),
        ("zstd, identity;q=0.5", Some(Zstd)),
        ("gzip;q=0", None),
        ("gzip;q=0, deflate;q=0.5", Some(Deflate)),
        ("gzip;q=0.5, identity", None),
        ("gzip, identity", Some(Gzip)),
        ("identity;q=0.5, gzip", Some(Gzip)),
        ("gzip;q=x, deflate;q=0.1", Some(Deflate)),
        ("lzma, , ;q=1", None),
    ] {
        assert_eq!(choose(header), coding, "{header}");
    }
}

proptest! {
    #[test]
    fn any_data_round_trips(
        data in proptest::collection::vec(any::<u8>(), 0..5000),
        index in 0usize..4,
        cut in 1usize..100,
        repeat in 1usize..20,
    ) {
        let (coding, data) = (Coding::ALL[index], data.repeat(repeat));
        let (left, right) = data.split_at(data.len() / cut);
        let small = compress(coding, &[left, right]).unwrap_or_else(|_| compress_any(coding, &data));
        prop_assert_eq!(inflate(coding, &small, cut, WIDE).unwrap(), data);
    }

    #[test]
    fn arbitrary_bytes_never_panic(
        data in proptest::collection::vec(any::<u8>(), 0..300),
        index in 0usize..4,
        size in 1usize..50,
    ) {
        let bounds = InflateLimits { bytes: 10_000, ratio: 100 };
        if let Ok(out) = inflate(Coding::ALL[index], &data, size, bounds) {
            prop_assert!(out.len() <= bounds.bytes);
        }
    }

    #[test]
    fn damaged_data_never_panics(
        data in proptest::collection::vec(any::<u8>(), 0..300),
        index in 0usize..4,
        at in any::<prop::sample::Index>(),
        bit in 0u8..8,
    ) {
        let coding = Coding::ALL[index];
        let mut small = compress_any(coding, &data);
        let at = at.index(small.len());
        small[at] ^= 1 << bit;
        let _ = inflate(coding, &small, 7, WIDE);
    }
}
