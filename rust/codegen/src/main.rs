//! Generates the Rust messages of `proto/` in `rust/wire`.
//!
//! `cargo run -p penstock-codegen` writes the files. With `--check` it writes nothing and fails when
//! one of them is stale.
#![forbid(unsafe_code)]

use std::{
    collections::BTreeMap,
    env, error, fs, io,
    path::{Path, PathBuf},
    process::ExitCode,
};

const PROTOS: [&str; 2] = ["open_inference.proto", "health.proto"];
/// Messages that are sent, not served: reflection does not list them.
const SENT: [&str; 1] = ["opentelemetry_trace.proto"];
const MESSAGES: &str = "rust/wire/src/generated";

/// Expected files: contents by path from the repository's root.
type Files = BTreeMap<PathBuf, Vec<u8>>;
type Result<T> = std::result::Result<T, Box<dyn error::Error>>;

fn main() -> ExitCode {
    match run() {
        Ok(code) => code,
        Err(error) => {
            eprintln!("penstock-codegen: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<ExitCode> {
    let check = match env::args().skip(1).collect::<Vec<_>>().as_slice() {
        [] => false,
        [flag] if flag == "--check" => true,
        other => return Err(format!("unexpected arguments {other:?}, expected none or --check").into()),
    };
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize()?;
    let stale = stale(&root, generate(&root)?)?;
    for (path, contents) in &stale {
        if check {
            eprintln!("stale: {}", path.display());
        } else {
            fs::create_dir_all(root.join(path).parent().unwrap_or(&root))?;
            fs::write(root.join(path), contents)?;
            println!("wrote {}", path.display());
        }
    }
    if check && !stale.is_empty() {
        eprintln!("regenerate with: cargo run -p penstock-codegen");
        return Ok(ExitCode::FAILURE);
    }
    Ok(ExitCode::SUCCESS)
}

/// Returns the files that are missing in the tree or differ from the expected contents.
fn stale(root: &Path, files: Files) -> Result<Files> {
    let mut stale = Files::new();
    for (path, contents) in files {
        match fs::read(root.join(&path)) {
            Ok(present) if present == contents => {}
            Ok(_) => drop(stale.insert(path, contents)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => drop(stale.insert(path, contents)),
            Err(error) => return Err(error.into()),
        }
    }
    Ok(stale)
}

fn generate(root: &Path) -> Result<Files> {
    let mut compiler = protox::Compiler::new([root.join("proto")])?;
    compiler.include_source_info(true).include_imports(true).open_files(PROTOS)?;
    let described = compiler.file_descriptor_set();
    // Reflection has no use for comments, and they are most of the size.
    let descriptors = compiler.include_source_info(false).encode_file_descriptor_set();

    let scratch = tempfile::tempdir()?;
    let mut files = Files::from([(Path::new(MESSAGES).join("descriptors.bin"), descriptors)]);
    let messages = scratch.path().join("messages");
    fs::create_dir(&messages)?;
    let mut compiler = protox::Compiler::new([root.join("proto")])?;
    let sent = compiler.include_source_info(true).open_files(SENT)?.file_descriptor_set();
    for files in [described.clone(), sent] {
        prost_build::Config::new()
            .bytes(["."])
            // Ordered, so that encoding is deterministic; and an empty one costs nothing.
            .btree_map(["."])
            .out_dir(&messages)
            .compile_fds(files)?;
    }
    collect(&messages, MESSAGES, &mut files)?;
    Ok(files)
}

fn collect(from: &Path, to: &str, files: &mut Files) -> Result<()> {
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        files.insert(Path::new(to).join(entry.file_name()), fs::read(entry.path())?);
    }
    Ok(())
}
