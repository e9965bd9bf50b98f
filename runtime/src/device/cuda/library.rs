//! Finding NVIDIA's shared libraries.
//!
//! cudarc opens a library by its bare name and panics when the loader does not find it. So each library is located
//! first, and opened here by its full path: the loader then resolves the bare name to what is already open.

use super::cudnn_api;
use super::error::failure;
use crate::error::{Error, ErrorKind, Result};
use std::ffi::{CStr, CString, OsString, c_void};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// The environment variable that names folders to search first, separated by colons.
pub const LIBS_VARIABLE: &str = "STRATA_CUDA_LIBS";

/// A library that the device uses.
struct Wanted {
    /// For people.
    title: &'static str,
    /// File names, best first.
    files: &'static [&'static str],
    /// The package that brings it.
    remedy: &'static str,
    /// The error's kind where it is missing: without a math library, own kernels can do its work.
    without: ErrorKind,
}

const DRIVER: Wanted = Wanted {
    title: "the CUDA driver",
    files: &["libcuda.so.1"],
    remedy: "install NVIDIA's driver (`nvidia-smi` must work), or use the CPU device",
    without: ErrorKind::Device,
};

const CUBLASLT: Wanted = Wanted {
    title: "cuBLASLt",
    files: &["libcublasLt.so.13", "libcublasLt.so.12"],
    remedy: "`pip install nvidia-cublas`, or name the folder of libcublasLt.so.13 in STRATA_CUDA_LIBS",
    without: ErrorKind::Unsupported,
};

const CUDNN: Wanted = Wanted {
    title: "cuDNN 9",
    files: &["libcudnn.so.9"],
    remedy: "`pip install nvidia-cudnn-cu13`, or name the folder of libcudnn.so.9 in STRATA_CUDA_LIBS",
    without: ErrorKind::Unsupported,
};

/// What the search reads of the process, so that tests can put something else in its place.
#[derive(Clone, Debug, Default)]
pub struct SearchSpace {
    /// [`LIBS_VARIABLE`].
    pub own: Option<OsString>,
    /// `LD_LIBRARY_PATH`.
    pub loader: Option<OsString>,
    /// `PATH`, for Python environments beside their interpreters.
    pub path: Option<OsString>,
    /// `VIRTUAL_ENV` and `CONDA_PREFIX`.
    pub environments: Vec<PathBuf>,
    /// The text of `/proc/self/maps`: what is mapped already.
    pub maps: String,
    /// The system's folders.
    pub system: Vec<PathBuf>,
}

impl SearchSpace {
    /// That of this process.
    pub fn of_process() -> Self {
        let folder = |name: &str| std::env::var_os(name).filter(|v| !v.is_empty()).map(PathBuf::from);
        Self {
            own: std::env::var_os(LIBS_VARIABLE),
            loader: std::env::var_os("LD_LIBRARY_PATH"),
            path: std::env::var_os("PATH"),
            environments: ["VIRTUAL_ENV", "CONDA_PREFIX"].into_iter().filter_map(folder).collect(),
            maps: std::fs::read_to_string("/proc/self/maps").unwrap_or_default(),
            system: [
                "/usr/local/cuda/lib64",
                "/usr/local/nvidia/lib64",
                "/usr/lib/x86_64-linux-gnu",
                "/usr/lib/aarch64-linux-gnu",
                "/usr/lib64",
                "/usr/lib/wsl/lib",
                "/opt/cuda/lib64",
            ]
            .map(PathBuf::from)
            .into(),
        }
    }

    /// The folders to look in, best first, without repetition: the user's own, those of libraries that are mapped
    /// already, the Python packages beside a mapped torch, the loader's, the active Python environments', the system's.
    pub fn folders(&self) -> Vec<PathBuf> {
        let mut found: Vec<PathBuf> = Vec::new();
        let mut add = |folder: PathBuf| {
            if !folder.as_os_str().is_empty() && !found.contains(&folder) {
                found.push(folder);
            }
        };
        self.own.iter().flat_map(std::env::split_paths).for_each(&mut add);
        let mapped = mapped_libraries(&self.maps);
        for library in mapped.iter().filter(|p| is_nvidia(p)) {
            library.parent().map(Path::to_path_buf).into_iter().for_each(&mut add);
        }
        for library in &mapped {
            // …/site-packages/torch/lib/libtorch_cuda.so has its NVIDIA packages at …/site-packages/nvidia.
            let site = library
                .ancestors()
                .find(|p| p.file_name().is_some_and(|n| n == "site-packages" || n == "dist-packages"));
            site.into_iter().flat_map(wheel_folders).for_each(&mut add);
        }
        self.loader.iter().flat_map(std::env::split_paths).for_each(&mut add);
        self.environments.iter().flat_map(|e| environment_folders(e)).for_each(&mut add);
        for bin in self.path.iter().flat_map(std::env::split_paths) {
            if bin.join("python3").exists() || bin.join("python").exists() {
                bin.parent().into_iter().flat_map(environment_folders).for_each(&mut add);
            }
        }
        self.system.iter().cloned().for_each(&mut add);
        found
    }

    /// The first of `files` that exists in a folder, in the folders' order.
    pub fn find(&self, files: &[&str]) -> Option<PathBuf> {
        self.folders().iter().find_map(|d| files.iter().map(|f| d.join(f)).find(|p| p.is_file()))
    }
}

/// Shared objects in the text of `/proc/self/maps`, in order, without repetition.
fn mapped_libraries(maps: &str) -> Vec<PathBuf> {
    let mut out: Vec<PathBuf> = Vec::new();
    for line in maps.lines() {
        let Some(start) = line.find('/') else { continue };
        let path = Path::new(line[start..].trim_end_matches(" (deleted)"));
        if path.to_string_lossy().contains(".so") && !out.iter().any(|p| p == path) {
            out.push(path.to_path_buf());
        }
    }
    out
}

fn is_nvidia(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    ["libcublas", "libcudnn", "libcudart", "libnvrtc"].iter().any(|p| name.starts_with(p))
}

/// `nvidia/*/lib` of a folder of Python packages, and torch's own `lib`.
fn wheel_folders(site: &Path) -> Vec<PathBuf> {
    let mut out: Vec<PathBuf> = std::fs::read_dir(site.join("nvidia"))
        .into_iter()
        .flatten()
        .flatten()
        .map(|e| e.path().join("lib"))
        .filter(|p| p.is_dir())
        .collect();
    // A folder listing has no order of its own; where several CUDA versions are installed, the newest comes first.
    out.sort_by(|a, b| b.cmp(a));
    out.extend(Some(site.join("torch/lib")).filter(|p| p.is_dir()));
    out
}

/// The packages' folders of a Python environment at `prefix`.
fn environment_folders(prefix: &Path) -> Vec<PathBuf> {
    let mut pythons: Vec<PathBuf> = std::fs::read_dir(prefix.join("lib"))
        .into_iter()
        .flatten()
        .flatten()
        .map(|e| e.path())
        .filter(|p| p.file_name().is_some_and(|n| n.to_string_lossy().starts_with("python3")))
        .collect();
    pythons.sort_by(|a, b| b.cmp(a));
    pythons
        .iter()
        .flat_map(|p| [p.join("site-packages"), p.join("dist-packages")])
        .flat_map(|site| wheel_folders(&site))
        .collect()
}

/// Makes `wanted` available to cudarc, from the search space or by the loader's own search.
fn open(wanted: &Wanted, space: &SearchSpace, present: impl FnOnce() -> bool) -> Result<String> {
    let path = space.find(wanted.files);
    let mut complaint = None;
    if let Some(path) = &path {
        match open_global(path) {
            Ok(_) => {}
            Err(e) => complaint = Some(e),
        }
    }
    if present() {
        return Ok(match path {
            Some(path) if complaint.is_none() => path.display().to_string(),
            _ => format!("{} (by the loader's search)", wanted.files[0]),
        });
    }
    let reason = complaint.unwrap_or_else(|| {
        format!("{} was not found in {} folders", wanted.files.join(" or "), space.folders().len())
    });
    Err(failure(wanted.without, format!("loading {}", wanted.title), reason, wanted.remedy))
}

/// Opens a library for the rest of the process, its symbols visible to libraries that are opened later.
fn open_global(path: &Path) -> std::result::Result<*mut c_void, String> {
    let name = CString::new(path.as_os_str().as_encoded_bytes())
        .map_err(|_| format!("{} has a zero byte in its name", path.display()))?;
    // SAFETY: NVIDIA's libraries may be opened at any time; the handle is kept for good.
    let handle = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_GLOBAL) };
    if !handle.is_null() {
        return Ok(handle);
    }
    // SAFETY: a string or null, valid until the next dl call of this thread.
    let message = unsafe { libc::dlerror() };
    if message.is_null() {
        return Err(format!("{} cannot be opened", path.display()));
    }
    // SAFETY: not null, nul-terminated.
    Err(unsafe { CStr::from_ptr(message) }.to_string_lossy().into_owned())
}

/// Loads the driver, once. Returns where it was found.
pub fn driver() -> Result<&'static str> {
    static DONE: OnceLock<Result<String>> = OnceLock::new();
    remember(&DONE, || {
        // SAFETY: probes by opening.
        open(&DRIVER, &SearchSpace::of_process(), || unsafe { cudarc::driver::sys::is_culib_present() })
    })
}

/// Loads cuBLASLt, once. Returns where it was found.
pub fn cublaslt() -> Result<&'static str> {
    static DONE: OnceLock<Result<String>> = OnceLock::new();
    remember(&DONE, || {
        // SAFETY: probes by opening.
        open(&CUBLASLT, &SearchSpace::of_process(), || unsafe { cudarc::cublaslt::sys::is_culib_present() })
    })
}

/// Loads cuDNN, once. Returns where it was found.
pub fn cudnn() -> Result<&'static str> {
    static DONE: OnceLock<Result<String>> = OnceLock::new();
    remember(&DONE, || {
        // cuDNN's parts need cuBLASLt; in wheels it lies in a sibling folder that the loader may not know.
        cublaslt()?;
        let found = SearchSpace::of_process().find(CUDNN.files);
        let path = found.unwrap_or_else(|| PathBuf::from(CUDNN.files[0]));
        let handle =
            open_global(&path).map_err(|e| failure(CUDNN.without, "loading cuDNN 9", e, CUDNN.remedy))?;
        cudnn_api::use_library(handle);
        let place = path.display().to_string();
        // SAFETY: the library is open.
        let version = unsafe { cudnn_api::cudnnGetVersion() };
        if version < 90000 {
            // Its status codes have other numbers.
            return Err(failure(
                CUDNN.without,
                "loading cuDNN 9",
                format!("found version {version} at {place}"),
                CUDNN.remedy,
            ));
        }
        Ok(place)
    })
}

fn remember(
    cell: &'static OnceLock<Result<String>>,
    load: impl FnOnce() -> Result<String>,
) -> Result<&'static str> {
    cell.get_or_init(load).as_deref().map_err(Error::clone)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn touch(path: &Path) {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, b"not a library").unwrap();
    }

    #[test]
    fn own_folder_wins_and_order_is_stable() {
        let root = tempfile::tempdir().unwrap();
        let at = |p: &str| root.path().join(p);
        for p in
            ["own/libx.so.1", "ld/libx.so.1", "env/lib/python3.11/site-packages/nvidia/cu13/lib/libx.so.1"]
        {
            touch(&at(p));
        }
        touch(&at("env/bin/python3"));
        let mut space = SearchSpace {
            own: Some(at("own").into()),
            loader: Some(at("ld").into()),
            path: Some(at("env/bin").into()),
            ..Default::default()
        };
        assert_eq!(space.find(&["libx.so.1"]), Some(at("own/libx.so.1")));
        space.own = None;
        assert_eq!(space.find(&["libx.so.1"]), Some(at("ld/libx.so.1")));
        space.loader = None;
        assert_eq!(
            space.find(&["libx.so.1"]),
            Some(at("env/lib/python3.11/site-packages/nvidia/cu13/lib/libx.so.1"))
        );
        space.path = None;
        assert_eq!(space.find(&["libx.so.1"]), None);
    }

    #[test]
    fn beside_a_mapped_torch() {
        let root = tempfile::tempdir().unwrap();
        let site = root.path().join("v/lib/python3.12/site-packages");
        touch(&site.join("torch/lib/libtorch_cuda.so"));
        touch(&site.join("nvidia/cudnn/lib/libcudnn.so.9"));
        let maps = format!(
            "7f00-7f01 r-xp 00000000 08:01 1  {}\n7f02-7f03 rw-p 00000000 00:00 0 [heap]\n",
            site.join("torch/lib/libtorch_cuda.so").display()
        );
        let space = SearchSpace { maps, ..Default::default() };
        assert_eq!(space.find(CUDNN.files), Some(site.join("nvidia/cudnn/lib/libcudnn.so.9")));
    }

    #[test]
    fn missing_library_says_what_to_do() {
        let space = SearchSpace::default();
        let e = open(&CUDNN, &space, || false).unwrap_err();
        insta::assert_snapshot!(e.to_string(), @r"
        loading cuDNN 9: libcudnn.so.9 was not found in 0 folders
          next: `pip install nvidia-cudnn-cu13`, or name the folder of libcudnn.so.9 in STRATA_CUDA_LIBS
        ");
    }

    #[test]
    fn a_broken_file_is_reported_with_the_loader_s_words() {
        let root = tempfile::tempdir().unwrap();
        touch(&root.path().join("libcudnn.so.9"));
        let space = SearchSpace { own: Some(root.path().into()), ..Default::default() };
        let e = open(&CUDNN, &space, || false).unwrap_err();
        assert_eq!(e.kind(), ErrorKind::Unsupported);
        assert!(e.reason().contains("libcudnn.so.9"), "{e}");
    }
}
