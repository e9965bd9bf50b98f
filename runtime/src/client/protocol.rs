//! What goes between a program and `strata serve`: frames with a length and a checksum, in them [`Request`]s and [`Response`]s.
//!
//! ```text
//! "STRF"  version u32  length u64  first 8 bytes of blake3(payload)  payload (postcard)
//! ```
//! Numbers are little endian. A side that reads anything else stops talking.

use crate::error::{Error, Result, bail, err};
use crate::events::Event;
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use std::collections::BTreeMap;
use std::io::{ErrorKind, Read, Write};

/// The version of the protocol. Any change of the types here, or of the artifact's format, raises it.
pub const PROTOCOL_VERSION: u32 = 1;
const MAGIC: [u8; 4] = *b"STRF";
/// Larger frames are taken for garbage.
pub const MAX_FRAME: u64 = 16 << 30;

/// A question to the server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Request {
    /// Repeated in the answer.
    pub id: u64,
    /// What to do.
    pub op: Op,
}

/// What a request asks for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Op {
    /// Compile a program.
    Compile {
        /// The program.
        source: Source,
        /// How.
        options: CompileOptions,
    },
    /// Answer with nothing: is the server alive?
    Ping,
    /// Answer, then end.
    Shutdown,
    /// Abort the process without an answer; for tests of what follows.
    Abort,
}

/// A program to compile.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Source {
    /// MLIR text.
    Mlir(String),
    /// An ONNX model.
    Onnx(Vec<u8>),
    /// A PyTorch FX graph as JSON.
    Fx(String),
}

/// What to compile for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Target {
    /// The CPU that the server runs on.
    #[default]
    Host,
    /// A CPU by level or features: `x86-64-v3,+avx512f`.
    Cpu(String),
    /// An NVIDIA GPU: `sm_90a`.
    Cuda(String),
}

/// How floats may be computed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Numerics {
    /// f32 may stay f32 between fused ops.
    #[default]
    Default,
    /// Every op rounds as eager execution does.
    Strict,
}

/// What becomes of ops without lowering.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Fallback {
    /// They run in the host program.
    Allow,
    /// They run in the host program, each with a warning.
    #[default]
    Warn,
    /// They are errors.
    Error,
}

/// Options of a compilation.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CompileOptions {
    /// The machine.
    pub target: Target,
    /// Rounding.
    pub numerics: Numerics,
    /// Ops without lowering.
    pub fallback: Fallback,
    /// Where to write every level; nowhere if unset.
    pub dump_dir: Option<String>,
    /// Threads of the compiler; 0 takes what there is. Does not change the result.
    pub threads: u32,
    /// Where reproducers go; the server writes one there before it starts to compile, so that it survives a crash.
    pub reproducer_dir: Option<String>,
    /// The source's name, for the artifact's metadata and messages.
    pub source_name: String,
    /// Anything else, by name; the server refuses names that it does not know.
    pub extra: BTreeMap<String, String>,
}

/// The answer to a request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Response {
    /// The request's.
    pub id: u64,
    /// What came out.
    pub result: Outcome,
}

/// What came out of a request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Outcome {
    /// A compiled program.
    Compiled(Compiled),
    /// Done; of requests without a result.
    Done,
    /// The program cannot be compiled.
    Failed(Failure),
}

/// A compiled program.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Compiled {
    /// The bytes of an [`Artifact`](crate::artifact::Artifact).
    pub artifact: Vec<u8>,
    /// What happened on the way.
    pub events: Vec<Event>,
    /// Nanoseconds by phase, in order.
    pub timings: Vec<(String, u64)>,
}

/// Why a program cannot be compiled.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// The messages, each with reason, place and next step.
    pub diagnostics: Vec<String>,
    /// A file that shows the failure again, if one was written.
    pub reproducer: Option<String>,
}

/// Writes one frame.
pub fn write_frame<T: Serialize>(to: &mut impl Write, message: &T) -> Result<()> {
    let payload = postcard::to_allocvec(message).map_err(|e| err!(Server, "cannot encode a message: {e}"))?;
    let mut header = [0; 24];
    header[..4].copy_from_slice(&MAGIC);
    header[4..8].copy_from_slice(&PROTOCOL_VERSION.to_le_bytes());
    header[8..16].copy_from_slice(&(payload.len() as u64).to_le_bytes());
    header[16..].copy_from_slice(&blake3::hash(&payload).as_bytes()[..8]);
    let io = |e: std::io::Error| err!(Server, "cannot write to the other side: {e}");
    to.write_all(&header).map_err(io)?;
    to.write_all(&payload).map_err(io)?;
    to.flush().map_err(io)
}

/// Reads one frame; `None` where the other side has closed in good order, between frames.
pub fn read_frame<T: DeserializeOwned>(from: &mut impl Read) -> Result<Option<T>> {
    let mut header = [0; 24];
    let mut filled = 0;
    while filled < header.len() {
        match from.read(&mut header[filled..]) {
            Ok(0) if filled == 0 => return Ok(None),
            Ok(0) => bail!(Server, "the stream ended within a frame"),
            Ok(n) => filled += n,
            Err(e) if e.kind() == ErrorKind::Interrupted => {}
            Err(e) => bail!(Server, "cannot read from the other side: {e}"),
        }
    }
    if header[..4] != MAGIC {
        return Err(err!(Server, "the stream holds no frame but {:?}", String::from_utf8_lossy(&header))
            .next(
                "the server must print nothing on standard output; check that the path is that of strata",
            ));
    }
    let version = u32::from_le_bytes([header[4], header[5], header[6], header[7]]);
    if version != PROTOCOL_VERSION {
        return Err(err!(Server, "the other side speaks version {version}, this side {PROTOCOL_VERSION}")
            .next("use the strata binary of the same version (STRATA_SERVER)"));
    }
    let length = u64::from_le_bytes(header[8..16].try_into().expect("eight bytes"));
    if length > MAX_FRAME {
        bail!(Server, "a frame of {length} bytes is too long");
    }
    // Grows with what arrives: a damaged length does not allocate.
    let mut payload = Vec::new();
    from.take(length)
        .read_to_end(&mut payload)
        .map_err(|e| err!(Server, "cannot read from the other side: {e}"))?;
    if payload.len() as u64 != length {
        bail!(Server, "the stream ended within a frame");
    }
    if blake3::hash(&payload).as_bytes()[..8] != header[16..] {
        bail!(Server, "a frame's checksum does not match");
    }
    let message = postcard::from_bytes(&payload);
    message.map(Some).map_err(|e| err!(Server, "a frame does not decode: {e}"))
}

impl From<Failure> for Error {
    fn from(f: Failure) -> Self {
        let text = if f.diagnostics.is_empty() {
            "the program cannot be compiled".into()
        } else {
            f.diagnostics.join("\n")
        };
        let e = Error::new(crate::error::ErrorKind::Compile, text);
        match f.reproducer {
            Some(path) => e.next(format!("to see it again: strata opt --run-reproducer {path}")),
            None => e,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn request() -> Request {
        let options =
            CompileOptions { threads: 3, target: Target::Cuda("sm_90a".into()), ..Default::default() };
        Request { id: 7, op: Op::Compile { source: Source::Mlir("module {}".into()), options } }
    }

    #[test]
    fn frames_follow_each_other() {
        let mut bytes = Vec::new();
        write_frame(&mut bytes, &request()).unwrap();
        write_frame(&mut bytes, &Request { id: 8, op: Op::Ping }).unwrap();
        let mut from = &bytes[..];
        assert_eq!(read_frame::<Request>(&mut from).unwrap(), Some(request()));
        assert_eq!(read_frame::<Request>(&mut from).unwrap().unwrap().id, 8);
        assert_eq!(read_frame::<Request>(&mut from).unwrap(), None);
    }

    proptest! {
        #[test]
        fn damaged_frames_are_errors(at in any::<prop::sample::Index>(), bit in 0..8u8) {
            let mut bytes = Vec::new();
            write_frame(&mut bytes, &request()).unwrap();
            let at = at.index(bytes.len());
            prop_assert!(at == 0 || read_frame::<Request>(&mut &bytes[..at]).is_err());
            bytes[at] ^= 1 << bit;
            prop_assert!(read_frame::<Request>(&mut &bytes[..]).is_err());
        }
    }
}
