//! Compilations with a cache before the server: what was compiled before needs no server at all.

use super::protocol::{CompileOptions, Compiled, Fallback, Numerics, Source, Target};
use super::{Client, find_server};
use crate::cache::{Cache, Key, KeyBuilder};
use crate::device::cpu::features;
use crate::error::{Error, Result, err};
use crate::events::{Event, EventKind, emit};
use std::path::Path;
use std::time::UNIX_EPOCH;

/// A compiled program, and where it came from.
pub struct Found {
    /// The program.
    pub compiled: Compiled,
    /// Its key in the cache.
    pub key: Key,
    /// Whether it was there.
    pub cached: bool,
}

/// Compiles, or takes from the cache what the same compiler made of the same source with the same options. `client` is asked for only
/// where something is compiled. With a folder for dumps everything is compiled.
pub fn compile<C: AsRef<Client>>(
    cache: &Cache,
    server: Option<&Path>,
    client: impl FnOnce() -> C,
    source: Source,
    options: CompileOptions,
) -> Result<Found> {
    let key = key(compiler(cache, server)?, &source, &options);
    if options.dump_dir.is_none()
        && let Some(bytes) = cache.get(key)
    {
        match postcard::from_bytes(&bytes) {
            Ok(compiled) => return Ok(Found { compiled, key, cached: true }),
            Err(e) => emit(
                Event::new(EventKind::CacheDamaged, format!("a cache entry does not decode: {e}"))
                    .at(key.to_string())
                    .cost("one compilation")
                    .next("nothing: the entry is replaced"),
            ),
        }
    }
    let compiled = client().as_ref().compile(source, options)?;
    // Without times: equal graphs make equal entries, and a time is nothing that a later process took.
    let kept = Compiled { timings: vec![], ..compiled.clone() };
    if let Ok(bytes) = postcard::to_allocvec(&kept)
        && let Err(e) = cache.put(key, &bytes)
    {
        emit(
            Event::new(EventKind::CacheDamaged, format!("a compiled program is not kept: {e}"))
                .cost("a compilation in the next process")
                .next("make the cache's folder writable, or name another in STRATA_CACHE_DIR"),
        );
    }
    Ok(Found { compiled, key, cached: false })
}

/// Everything that can change the result.
fn key(compiler: Key, source: &Source, options: &CompileOptions) -> Key {
    // A new option has to be dealt with here.
    let CompileOptions {
        target,
        numerics,
        fallback,
        extra,
        dump_dir: _,
        threads: _,
        reproducer_dir: _,
        source_name: _,
    } = options;
    let k = KeyBuilder::new().part("compiler", compiler.to_string());
    let k = match source {
        Source::Mlir(text) => k.part("mlir", text),
        Source::Onnx(bytes) => k.part("onnx", bytes),
        Source::Fx(text) => k.part("fx", text),
    };
    let k = match target {
        Target::Host => k.part("host", features::native()),
        Target::Cpu(text) => k.part("cpu", text),
        Target::Cuda(text) => k.part("cuda", text),
    };
    let numerics = match numerics {
        Numerics::Default => "default",
        Numerics::Strict => "strict",
    };
    let fallback = match fallback {
        Fallback::Allow => "allow",
        Fallback::Warn => "warn",
        Fallback::Error => "error",
    };
    let k = k.part("numerics", numerics).part("fallback", fallback);
    extra.iter().fold(k, |k, (name, value)| k.part(name, value)).finish()
}

/// What the compiler is: the hash of its file. Hashed once a file, which its size and time tell apart.
fn compiler(cache: &Cache, server: Option<&Path>) -> Result<Key> {
    let path = find_server(server)?;
    let path = path.canonicalize().unwrap_or(path);
    let io = |e: std::io::Error| Error::io("read the compile server's file", &path, &e);
    let meta = path.metadata().map_err(io)?;
    let changed = meta.modified().ok().and_then(|t| t.duration_since(UNIX_EPOCH).ok()).unwrap_or_default();
    let file = KeyBuilder::new()
        .part("compiler's file", path.as_os_str().as_encoded_bytes())
        .part("bytes", meta.len().to_le_bytes())
        .part("time", changed.as_nanos().to_le_bytes())
        .finish();
    if let Some(known) = cache.get(file).and_then(|bytes| Key::from_bytes(&bytes)) {
        return Ok(known);
    }
    let mut hasher = blake3::Hasher::new();
    hasher.update_reader(std::fs::File::open(&path).map_err(io)?).map_err(io)?;
    let key = Key::from_bytes(hasher.finalize().as_bytes())
        .ok_or_else(|| err!(Server, "a hash of another length").next("report this as a bug"))?;
    // Without a folder it is hashed again.
    let _ = cache.put(file, key.as_bytes());
    Ok(key)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_tell_apart_what_changes_the_result_and_nothing_else() {
        let compiler = KeyBuilder::new().finish();
        let source = || Source::Fx("{}".into());
        let base = CompileOptions::default();
        let of = |o: &CompileOptions| key(compiler, &source(), o);
        let same = CompileOptions {
            threads: 7,
            source_name: "other".into(),
            reproducer_dir: Some("x".into()),
            ..base.clone()
        };
        assert_eq!(of(&base), of(&same));
        let others = [
            CompileOptions { numerics: Numerics::Strict, ..base.clone() },
            CompileOptions { fallback: Fallback::Error, ..base.clone() },
            CompileOptions { target: Target::Cuda("sm_90a".into()), ..base.clone() },
            CompileOptions { extra: [("libraries".to_owned(), "none".to_owned())].into(), ..base.clone() },
        ];
        for o in &others {
            assert_ne!(of(&base), of(o), "{o:?}");
        }
        assert_ne!(of(&base), key(compiler, &Source::Mlir("{}".into()), &base));
        assert_ne!(of(&base), key(KeyBuilder::new().part("x", "y").finish(), &source(), &base));
    }

    #[test]
    fn a_changed_compiler_is_another() {
        let dir = tempfile::tempdir().unwrap();
        let (cache, file) =
            (Cache::new(Some(dir.path().join("cache")), 1 << 20, 0), dir.path().join("strata"));
        std::fs::write(&file, b"one").unwrap();
        let one = compiler(&cache, Some(&file)).unwrap();
        assert_eq!(compiler(&cache, Some(&file)).unwrap(), one);
        std::fs::write(&file, b"three").unwrap();
        assert_ne!(compiler(&cache, Some(&file)).unwrap(), one);
        assert!(compiler(&cache, Some(&dir.path().join("missing"))).is_err());
    }
}
