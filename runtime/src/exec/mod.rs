//! The interpreter of plans: binds symbols, places buffers, runs the steps on a [`Device`].
//!
//! What depends only on the values of the symbols (shapes, strides, grids, offsets) is worked out once for each set of values and
//! kept, so a call with sizes seen before only adds addresses.

mod bind;
mod lives;
mod memory;
mod profile;
mod resolve;
mod run;

pub use memory::{Allocator, DeviceTensor, LARGE, Pool};
pub use profile::{Profile, StepTime};
pub use run::{HostCalls, LaidOut, Layout, NoHostCalls, Origin, OutputRef, Placed, RunOptions};

use crate::artifact::{Artifact, Image};
use crate::device::{Device, DevicePtr, Module, Stream};
use crate::error::{Result, bail};
use crate::plan::{Kernel, Plan, Step};
use crate::tensor::HostTensor;
use resolve::Resolved;
use std::sync::{Arc, Mutex};

/// Sets of symbol values whose sizes are kept.
const RESOLVED_KEPT: usize = 16;

/// An artifact on a device, ready to run; may run on several threads at once.
pub struct Executable {
    artifact: Artifact,
    device: Arc<dyn Device>,
    modules: Vec<Box<dyn Module>>,
    /// Kernel of the plan → (module, index in it).
    kernels: Vec<(usize, usize)>,
    constants: DevicePtr,
    /// Bytes to free at `constants`; `None` where they lie in the artifact.
    constants_owned: Option<usize>,
    pool: Arc<Pool>,
    resolved: Mutex<Vec<Arc<Resolved>>>,
    /// What the plan's library calls use.
    workspace_bytes: usize,
}

impl Executable {
    /// Loads an artifact's kernels and constants. The plan is verified.
    pub fn new(artifact: Artifact, device: Arc<dyn Device>) -> Result<Self> {
        let pool = Arc::new(Pool::new(device.clone()));
        Self::with_pool(artifact, device, pool)
    }

    /// As [`Executable::new`], sharing a pool of device memory with others.
    pub fn with_pool(artifact: Artifact, device: Arc<dyn Device>, pool: Arc<Pool>) -> Result<Self> {
        let plan = &artifact.plan;
        let at = |e: crate::Error| e.at(format_args!("plan @{}", plan.name));
        if plan.device != device.kind() {
            bail!(
                Input,
                "the artifact @{} is for {}, the device is {} ({})",
                plan.name,
                plan.device,
                device.kind(),
                device.name()
            );
        }
        crate::plan::verify::verify(plan).map_err(at)?;
        let mut kernels = vec![(0, 0); plan.kernels.len()];
        let mut members: Vec<Vec<&Kernel>> = vec![Vec::new(); artifact.images.len()];
        for (slot, kernel) in kernels.iter_mut().zip(&plan.kernels) {
            if let Some(list) = members.get_mut(kernel.image as usize) {
                *slot = (kernel.image as usize, list.len());
                list.push(kernel);
            }
        }
        let images: Vec<(&Image, &[&Kernel])> =
            artifact.images.iter().zip(&members).map(|(image, list)| (image, &list[..])).collect();
        let modules = device.load_several(&images).map_err(at)?;
        let used = plan.steps.iter().filter_map(|s| match s {
            Step::Launch { kernel, .. } => plan.kernels.get(*kernel as usize),
            _ => None,
        });
        if let Some(k) = used.into_iter().find(|k| k.image as usize >= artifact.images.len()) {
            bail!(Artifact, "kernel '{}' is in image {}, which the artifact has not", k.name, k.image);
        }
        let library = |s: &Step| matches!(s, Step::Product(_) | Step::Convolution(_));
        let workspace_bytes = if plan.steps.iter().any(library) { device.workspace_bytes() } else { 0 };
        let (constants, constants_owned) = if device.host_memory() || artifact.constants.is_empty() {
            (DevicePtr::from(artifact.constants.as_ptr()), None)
        } else {
            let bytes = artifact.constants.len();
            let ptr = device.alloc(bytes, Stream::default()).map_err(at)?;
            // SAFETY: just allocated with this size.
            unsafe { device.copy_from_host(ptr, &artifact.constants, Stream::default()) }.map_err(at)?;
            device.synchronize(Stream::default()).map_err(at)?;
            (ptr, Some(bytes))
        };
        Ok(Self {
            artifact,
            device,
            modules,
            kernels,
            constants,
            constants_owned,
            pool,
            resolved: Mutex::default(),
            workspace_bytes,
        })
    }

    /// The plan.
    pub fn plan(&self) -> &Plan {
        &self.artifact.plan
    }

    /// The artifact.
    pub fn artifact(&self) -> &Artifact {
        &self.artifact
    }

    /// Where the artifact's constants lie on the device.
    pub fn constants(&self) -> DevicePtr {
        self.constants
    }

    /// The device.
    pub fn device(&self) -> &Arc<dyn Device> {
        &self.device
    }

    /// The pool that arenas and outputs come from by default.
    pub fn pool(&self) -> &Arc<Pool> {
        &self.pool
    }

    /// The sizes for these symbol values, from the list of those kept or worked out now.
    fn resolve(&self, symbols: &[i64]) -> Result<Arc<Resolved>> {
        let mut kept = self.resolved.lock().unwrap_or_else(|e| e.into_inner());
        if let Some(i) = kept.iter().position(|r| r.symbols == symbols) {
            // Most recently used first.
            kept[..=i].rotate_right(1);
            return Ok(kept[0].clone());
        }
        let new = Arc::new(Resolved::new(&self.artifact, symbols)?);
        kept.truncate(RESOLVED_KEPT - 1);
        kept.insert(0, new.clone());
        Ok(new)
    }

    /// Runs on tensors of the device; outputs and the arena come from the pool.
    pub fn run(&self, inputs: &[DeviceTensor]) -> Result<Vec<DeviceTensor>> {
        self.run_with(inputs, RunOptions::default())
    }

    /// Runs on host tensors: copies them to the device, runs, copies the results back.
    pub fn run_host(&self, inputs: &[HostTensor]) -> Result<Vec<HostTensor>> {
        self.run_host_with(inputs, RunOptions::default())
    }

    /// As [`Executable::run_host`], with options.
    pub fn run_host_with(&self, inputs: &[HostTensor], options: RunOptions<'_>) -> Result<Vec<HostTensor>> {
        let stream = options.stream;
        let inputs =
            inputs.iter().map(|t| DeviceTensor::upload(&self.pool, t, stream)).collect::<Result<Vec<_>>>()?;
        let outputs = self.run_with(&inputs, options)?;
        outputs.iter().map(|t| t.download(stream)).collect()
    }

    /// Runs `calls` times on the same inputs and reports the time of each step.
    pub fn profile(
        &self,
        inputs: &[DeviceTensor],
        calls: usize,
        host: &mut dyn HostCalls,
    ) -> Result<Profile> {
        let mut profile = Profile::new(self.plan());
        for _ in 0..calls {
            let options = RunOptions { host: Some(host), profile: Some(&mut profile), ..Default::default() };
            self.run_with(inputs, options)?;
        }
        Ok(profile)
    }
}

impl Drop for Executable {
    fn drop(&mut self) {
        if let Some(bytes) = self.constants_owned {
            // SAFETY: allocated in `with_pool`; work that reads them was waited for or is ordered before in the stream.
            unsafe { self.device.free(self.constants, bytes, Stream::default()) };
        }
    }
}

#[cfg(test)]
mod tests;
