//! The cache of artifacts: in memory, and on disk for all processes of a user.
//!
//! An entry is a file named by its key, written beside and renamed into place, with a checksum at its end. A damaged entry is removed,
//! with an event, and is a miss. The folder is kept below a size: the entries that were not used for longest go first; what was
//! used when is the modification time of the entry, which a hit renews.

use crate::error::{Error, Result, err};
use crate::events::{Event, EventKind, emit};
use crate::files::write_atomically;
use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::SystemTime;

/// What identifies a result: the hash of everything that can change it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key([u8; 32]);

impl Key {
    /// A key from the bytes of one; none where their number is another.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        bytes.try_into().ok().map(Self)
    }

    /// Its bytes.
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

/// As it is printed.
impl std::str::FromStr for Key {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let bad =
            || err!(Input, "'{text}' is no key: 64 hexadecimal digits").next("pass a key as it was printed");
        let digit = |i: usize| text.get(2 * i..2 * i + 2).and_then(|d| u8::from_str_radix(d, 16).ok());
        let bytes: Option<Vec<u8>> = (0..32).map(digit).collect();
        bytes.filter(|_| text.len() == 64).and_then(|b| Self::from_bytes(&b)).ok_or_else(bad)
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|b| write!(f, "{b:02x}"))
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Collects the parts of a key. Each part has a name, so that no two lists of parts run together into the same bytes.
#[derive(Clone)]
pub struct KeyBuilder(blake3::Hasher);

impl Default for KeyBuilder {
    fn default() -> Self {
        Self::new()
    }
}

impl KeyBuilder {
    /// A key that begins with the versions of the runtime and its file formats.
    pub fn new() -> Self {
        let k = Self(blake3::Hasher::new());
        k.part("runtime", env!("CARGO_PKG_VERSION"))
            .part("artifact", crate::artifact::FORMAT_VERSION.to_le_bytes())
            .part("protocol", crate::client::protocol::PROTOCOL_VERSION.to_le_bytes())
    }

    /// Adds a part.
    #[must_use]
    pub fn part(mut self, name: &str, bytes: impl AsRef<[u8]>) -> Self {
        for b in [name.as_bytes(), bytes.as_ref()] {
            self.0.update(&(b.len() as u64).to_le_bytes());
            self.0.update(b);
        }
        self
    }

    /// The key.
    pub fn finish(&self) -> Key {
        Key(*self.0.finalize().as_bytes())
    }
}

/// What a cache did so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct CacheStats {
    /// Found in memory.
    pub memory_hits: u64,
    /// Found on disk.
    pub disk_hits: u64,
    /// Not found.
    pub misses: u64,
    /// Found on disk and unusable.
    pub damaged: u64,
}

/// A cache; may be used by several threads, and its folder by several processes.
pub struct Cache {
    folder: Option<PathBuf>,
    disk_bound: u64,
    memory_bound: usize,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    entries: BTreeMap<Key, (Arc<[u8]>, u64)>,
    bytes: usize,
    clock: u64,
    stats: CacheStats,
}

const SUFFIX: &str = "strata-cache";
const SUM: usize = 32;

impl Cache {
    /// A cache with a folder (none: memory only) and bounds in bytes.
    pub fn new(folder: Option<PathBuf>, disk_bound: u64, memory_bound: usize) -> Self {
        Self { folder, disk_bound, memory_bound, state: Mutex::default() }
    }

    /// The user's folder: `STRATA_CACHE_DIR`, else `strata` in `XDG_CACHE_HOME` or `~/.cache`.
    pub fn default_folder() -> Option<PathBuf> {
        let var = |name| std::env::var_os(name).filter(|v| !v.is_empty()).map(PathBuf::from);
        var("STRATA_CACHE_DIR").or_else(|| {
            Some(var("XDG_CACHE_HOME").or_else(|| Some(var("HOME")?.join(".cache")))?.join("strata"))
        })
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// Whether the folder holds any entry.
    pub fn has_entries(&self) -> bool {
        let entries = self.folder.as_ref().and_then(|f| std::fs::read_dir(f).ok());
        entries.is_some_and(|mut e| {
            e.any(|e| e.is_ok_and(|e| e.path().extension().is_some_and(|x| x == SUFFIX)))
        })
    }

    fn path(&self, key: Key) -> Option<PathBuf> {
        Some(self.folder.as_ref()?.join(format!("{key}.{SUFFIX}")))
    }

    /// The value of a key. Errors of the disk are misses.
    pub fn get(&self, key: Key) -> Option<Arc<[u8]>> {
        {
            let mut state = self.state();
            state.clock += 1;
            let now = state.clock;
            if let Some((value, used)) = state.entries.get_mut(&key) {
                *used = now;
                let value = value.clone();
                state.stats.memory_hits += 1;
                return Some(value);
            }
        }
        let found = self.path(key).and_then(|path| self.read(key, &path));
        match &found {
            Some(value) => {
                self.state().stats.disk_hits += 1;
                self.remember(key, value.clone());
            }
            None => self.state().stats.misses += 1,
        }
        found
    }

    fn read(&self, key: Key, path: &Path) -> Option<Arc<[u8]>> {
        let bytes = std::fs::read(path).ok()?;
        let split = bytes.len().checked_sub(SUM);
        let value =
            split.map(|at| bytes.split_at(at)).filter(|(value, sum)| checksum(key, value)[..] == **sum);
        let Some((value, _)) = value else {
            self.state().stats.damaged += 1;
            let _ = std::fs::remove_file(path);
            emit(
                Event::new(EventKind::CacheDamaged, "a cache entry was damaged and is removed")
                    .at(path.display().to_string())
                    .cost("one compilation")
                    .next("nothing, unless it happens again: then check the disk"),
            );
            return None;
        };
        // The time of use; without the right to change it the entry merely goes earlier.
        if let Ok(file) = std::fs::File::options().append(true).open(path) {
            let _ = file.set_modified(SystemTime::now());
        }
        Some(value.into())
    }

    /// Keeps a value in memory and on disk.
    ///
    /// # Errors
    /// The disk's; the value is in memory all the same.
    pub fn put(&self, key: Key, value: &[u8]) -> Result<()> {
        self.remember(key, value.into());
        let Some(path) = self.path(key) else { return Ok(()) };
        let mut bytes = value.to_vec();
        bytes.extend_from_slice(&checksum(key, value));
        write_atomically(&path, &bytes)?;
        self.trim()
    }

    fn remember(&self, key: Key, value: Arc<[u8]>) {
        let mut state = self.state();
        let state = &mut *state;
        state.clock += 1;
        state.bytes += value.len();
        if let Some((old, _)) = state.entries.insert(key, (value, state.clock)) {
            state.bytes -= old.len();
        }
        while state.bytes > self.memory_bound {
            let Some(oldest) = state.entries.iter().min_by_key(|(_, (_, used))| *used).map(|(k, _)| *k)
            else {
                break;
            };
            if let Some((old, _)) = state.entries.remove(&oldest) {
                state.bytes -= old.len();
            }
        }
    }

    /// Removes the entries that were not used for longest, until the folder is below its bound.
    pub fn trim(&self) -> Result<()> {
        let mut entries = self.disk_entries()?;
        entries.sort();
        let mut total: u64 = entries.iter().map(|(_, _, bytes)| bytes).sum();
        for (_, path, bytes) in entries {
            if total <= self.disk_bound {
                break;
            }
            // Another process may have removed it already.
            let _ = std::fs::remove_file(&path);
            total -= bytes;
        }
        Ok(())
    }

    /// Time of use, path and size of each entry on disk.
    fn disk_entries(&self) -> Result<Vec<(SystemTime, PathBuf, u64)>> {
        let Some(folder) = &self.folder else { return Ok(Vec::new()) };
        let list = match std::fs::read_dir(folder) {
            Ok(list) => list,
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(e) => {
                return Err(
                    Error::io("list the cache", folder, &e).next("set STRATA_CACHE_DIR to another folder")
                );
            }
        };
        let entries = list.filter_map(|entry| {
            let path = entry.ok()?.path();
            let ours = path.extension().is_some_and(|e| e == SUFFIX);
            let meta = path.metadata().ok().filter(|m| ours && m.is_file())?;
            Some((meta.modified().ok()?, path, meta.len()))
        });
        Ok(entries.collect())
    }

    /// Number of entries on disk and their bytes.
    pub fn disk_usage(&self) -> Result<(usize, u64)> {
        let entries = self.disk_entries()?;
        Ok((entries.len(), entries.iter().map(|(_, _, bytes)| bytes).sum()))
    }

    /// Removes everything, in memory and on disk.
    pub fn clear(&self) -> Result<()> {
        {
            let mut state = self.state();
            state.entries.clear();
            state.bytes = 0;
        }
        for (_, path, _) in self.disk_entries()? {
            match std::fs::remove_file(&path) {
                Err(e) if e.kind() != std::io::ErrorKind::NotFound => {
                    return Err(Error::io("remove the cache entry", &path, &e));
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// What the cache did so far.
    pub fn stats(&self) -> CacheStats {
        self.state().stats
    }
}

/// Covers the key too: a file under another's name is damaged.
fn checksum(key: Key, value: &[u8]) -> [u8; SUM] {
    *blake3::Hasher::new_keyed(&key.0).update(value).finalize().as_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn key(n: u32) -> Key {
        KeyBuilder::new().part("n", n.to_le_bytes()).finish()
    }

    fn open(dir: &Path) -> Cache {
        Cache::new(Some(dir.join("deep/folder")), 1 << 20, 1 << 20)
    }

    #[test]
    fn entries_are_found_in_memory_on_disk_and_by_others() {
        let dir = tempfile::tempdir().unwrap();
        let (a, b) = (open(dir.path()), open(dir.path()));
        assert!(a.get(key(1)).is_none());
        a.put(key(1), b"one").unwrap();
        assert_eq!(&*a.get(key(1)).unwrap(), b"one");
        assert_eq!(&*b.get(key(1)).unwrap(), b"one");
        assert_eq!(&*b.get(key(1)).unwrap(), b"one");
        assert_eq!(a.stats(), CacheStats { memory_hits: 1, misses: 1, ..Default::default() });
        assert_eq!(b.stats(), CacheStats { memory_hits: 1, disk_hits: 1, ..Default::default() });
        a.put(key(2), b"").unwrap();
        assert_eq!(&*open(dir.path()).get(key(2)).unwrap(), b"");
        a.clear().unwrap();
        assert!(a.get(key(1)).is_none() && open(dir.path()).get(key(1)).is_none());
    }

    #[test]
    fn damaged_cut_and_renamed_entries_are_misses_and_go_away() {
        let dir = tempfile::tempdir().unwrap();
        let cache = open(dir.path());
        cache.put(key(1), b"some artifact").unwrap();
        let path = cache.path(key(1)).unwrap();
        let good = std::fs::read(&path).unwrap();
        let mut flipped = good.clone();
        flipped[3] ^= 1;
        for bad in [&flipped[..], &good[..20], b""] {
            std::fs::write(&path, bad).unwrap();
            let fresh = open(dir.path());
            assert!(fresh.get(key(1)).is_none() && !path.exists());
            assert_eq!(fresh.stats().damaged, 1);
        }
        std::fs::write(cache.path(key(2)).unwrap(), good).unwrap();
        assert!(open(dir.path()).get(key(2)).is_none());
    }

    #[test]
    fn the_oldest_unused_entries_go_first() {
        let dir = tempfile::tempdir().unwrap();
        let cache = Cache::new(Some(dir.path().into()), 3 * 132, 250);
        for n in 0..3 {
            cache.put(key(n), &[n as u8; 100]).unwrap();
            let file = std::fs::File::options().append(true).open(cache.path(key(n)).unwrap()).unwrap();
            file.set_modified(SystemTime::now() - Duration::from_secs(1000 - 100 * n as u64)).unwrap();
        }
        std::fs::write(dir.path().join("not ours"), [0; 1000]).unwrap();
        // Memory holds two; the first is read from disk and so becomes the youngest.
        assert_eq!(cache.get(key(0)).unwrap()[0], 0);
        assert_eq!(cache.stats().disk_hits, 1);
        cache.put(key(3), &[3; 100]).unwrap();
        assert_eq!(cache.disk_usage().unwrap(), (3, 3 * 132));
        let exists = |n| cache.path(key(n)).unwrap().exists();
        assert_eq!([0, 1, 2, 3].map(exists), [true, false, true, true]);
    }

    #[test]
    fn a_folder_that_cannot_be_written_is_an_error_with_its_name() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let cache = Cache::new(Some(file.path().join("x")), 100, 100);
        let e = cache.put(key(1), b"v").unwrap_err();
        assert_eq!(e.kind(), crate::ErrorKind::Io);
        assert_eq!(&*cache.get(key(1)).unwrap(), b"v");
    }

    #[test]
    fn parts_do_not_run_together() {
        let k = |a: &str, b: &str| KeyBuilder::new().part("x", a).part("x", b).finish();
        assert_ne!(k("ab", "c"), k("a", "bc"));
        assert_ne!(KeyBuilder::new().part("a", "").finish(), KeyBuilder::new().part("", "a").finish());
    }

    #[test]
    fn many_threads_share_a_folder() {
        let dir = tempfile::tempdir().unwrap();
        std::thread::scope(|s| {
            for t in 0..4u32 {
                let dir = dir.path();
                s.spawn(move || {
                    // A cache of its own, as in a process of its own; too small for all.
                    let cache = Cache::new(Some(dir.into()), 2000, 0);
                    for i in 0..60u32 {
                        let n = (i * 7 + t) % 10;
                        if let Some(v) = cache.get(key(n)) {
                            assert_eq!(&*v, &[n as u8; 300]);
                        } else {
                            cache.put(key(n), &[n as u8; 300]).unwrap();
                        }
                    }
                    assert_eq!(cache.stats().damaged, 0);
                });
            }
        });
        assert!(Cache::new(Some(dir.path().into()), 2000, 0).disk_usage().unwrap().1 <= 2000);
    }
}
