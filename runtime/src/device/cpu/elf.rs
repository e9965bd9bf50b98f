//! A loader for position-independent relocatable x86-64 objects, as LLVM and C compilers write them.
//!
//! The sections are laid out in one mapping: code and stubs, read-only data and the table of addresses (GOT), writable data. After the
//! relocations are applied each part gets its final protection: no page is ever writable and executable.

use super::memory::{Mapping, Protection};
use crate::error::{Error, Result, bail, err};
use object::elf;
use object::read::elf::ElfFile64;
use object::{
    LittleEndian, Object, ObjectSection, ObjectSymbol, RelocationFlags, RelocationTarget, SectionFlags,
    SectionIndex, SymbolIndex, SymbolSection,
};
use std::collections::BTreeMap;

/// What kernels may call: what LLVM makes of loops that copy and fill.
const EXTERNALS: [&str; 3] = ["memcpy", "memmove", "memset"];

fn external(name: &str) -> Option<u64> {
    let f = match name {
        "memcpy" => libc::memcpy as *const (),
        "memmove" => libc::memmove as *const (),
        "memset" => libc::memset as *const (),
        _ => return None,
    };
    Some(f as usize as u64)
}

const RECOMPILE: &str = "compile the kernel again with relocation model PIC and code model small";

/// A loaded object; its code lives as long as this.
#[derive(Debug)]
pub struct LoadedObject {
    mapping: Mapping,
    /// Defined function → offset into the mapping.
    functions: BTreeMap<String, usize>,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Part {
    Code,
    ReadOnly,
    Writable,
}

impl LoadedObject {
    /// Loads an object file.
    pub fn load(bytes: &[u8]) -> Result<Self> {
        if !cfg!(target_arch = "x86_64") {
            bail!(Unsupported, "x86-64 kernels do not run on {}", std::env::consts::ARCH);
        }
        Loader::new(bytes)?.load()
    }

    /// The address of a function.
    pub fn function(&self, name: &str) -> Result<*const u8> {
        let Some(&at) = self.functions.get(name) else {
            let known: Vec<&str> = self.functions.keys().map(String::as_str).take(8).collect();
            return Err(err!(Artifact, "the object has no function '{name}'; it has {}", known.join(", "))
                .next("compile the artifact again"));
        };
        Ok(self.mapping.address(at) as *const u8)
    }
}

struct Loader<'a> {
    file: ElfFile64<'a, LittleEndian>,
    /// Section → its place in the mapping.
    sections: BTreeMap<usize, usize>,
    /// Symbol → its slot in the GOT.
    got: BTreeMap<usize, usize>,
    /// External symbol → its stub in the code part.
    stubs: BTreeMap<usize, usize>,
}

const STUB: usize = 8;

fn bad(e: object::Error) -> Error {
    err!(Artifact, "the object file is malformed: {e}").next("compile the artifact again")
}

impl<'a> Loader<'a> {
    fn new(bytes: &'a [u8]) -> Result<Self> {
        let file = ElfFile64::parse(bytes).map_err(bad)?;
        let (kind, arch) = (file.kind(), file.architecture());
        if kind != object::ObjectKind::Relocatable || arch != object::Architecture::X86_64 {
            return Err(err!(
                Artifact,
                "the kernel image is {kind:?} for {arch:?}, not a relocatable object for x86-64"
            )
            .next("compile the artifact for this machine"));
        }
        Ok(Self { file, sections: BTreeMap::new(), got: BTreeMap::new(), stubs: BTreeMap::new() })
    }

    fn load(mut self) -> Result<LoadedObject> {
        self.find_external_references()?;
        let page = Mapping::page_size();
        let mut at = 0usize;
        let mut bounds = [0usize; 3];
        for (i, part) in [Part::Code, Part::ReadOnly, Part::Writable].into_iter().enumerate() {
            at = at.next_multiple_of(page);
            bounds[i] = at;
            for section in self.file.sections() {
                if part_of(&section)? != Some(part) {
                    continue;
                }
                let align = section.align().max(1);
                if !align.is_power_of_two() || align > page as u64 || section.size() > 1 << 30 {
                    let name = section.name().unwrap_or("?");
                    bail!(Artifact, "section '{name}' has size {} and alignment {align}", section.size());
                }
                at = at.next_multiple_of(align as usize);
                self.sections.insert(section.index().0, at);
                at += section.size() as usize;
            }
            let slots = match part {
                Part::Code => &mut self.stubs,
                Part::ReadOnly => &mut self.got,
                Part::Writable => continue,
            };
            at = at.next_multiple_of(STUB);
            for slot in slots.values_mut() {
                *slot = at;
                at += STUB;
            }
        }
        let end = at.max(1).next_multiple_of(page);
        let mut mapping = Mapping::new(end)?;
        for section in self.file.sections() {
            if let Some(&start) = self.sections.get(&section.index().0) {
                let data = section.data().map_err(bad)?;
                mapping.bytes_mut()[start..start + data.len()].copy_from_slice(data);
            }
        }
        self.fill_got_and_stubs(&mut mapping)?;
        for section in self.file.sections() {
            if let Some(&start) = self.sections.get(&section.index().0) {
                self.relocate(&section, start, &mut mapping)?;
            }
        }
        let functions = self.functions()?;
        let [code, read_only, writable] = bounds;
        mapping.protect(code..read_only, Protection::ReadExecute)?;
        mapping.protect(read_only..writable, Protection::Read)?;
        Ok(LoadedObject { mapping, functions })
    }

    /// Every symbol that a relocation needs a GOT slot or a stub for.
    fn find_external_references(&mut self) -> Result<()> {
        for section in self.file.sections() {
            if part_of(&section)?.is_none() {
                continue;
            }
            for (_, r) in section.relocations() {
                let (RelocationTarget::Symbol(symbol), RelocationFlags::Elf { r_type }) =
                    (r.target(), r.flags())
                else {
                    continue;
                };
                let undefined = self.file.symbol_by_index(symbol).map_err(bad)?.is_undefined();
                if undefined {
                    self.stubs.insert(symbol.0, 0);
                    self.got.insert(symbol.0, 0);
                }
                if matches!(
                    r_type,
                    elf::R_X86_64_GOTPCREL | elf::R_X86_64_GOTPCRELX | elf::R_X86_64_REX_GOTPCRELX
                ) {
                    self.got.insert(symbol.0, 0);
                }
            }
        }
        Ok(())
    }

    /// The address of a symbol, and its offset into the mapping if it lies there.
    fn symbol(&self, index: SymbolIndex, mapping: &Mapping) -> Result<u64> {
        let symbol = self.file.symbol_by_index(index).map_err(bad)?;
        let name = symbol.name().unwrap_or("?");
        match symbol.section() {
            SymbolSection::Section(SectionIndex(s)) => match self.sections.get(&s) {
                Some(&start) => Ok(mapping.address(start) + symbol.address()),
                None => bail!(Artifact, "symbol '{name}' lies in a section that is not loaded"),
            },
            SymbolSection::Undefined => external(name).ok_or_else(|| {
                err!(Artifact, "the kernel object needs the external symbol '{name}'").next(format!(
                    "kernels may call {} only; lower '{name}' to instructions before making the object",
                    EXTERNALS.join(", ")
                ))
            }),
            SymbolSection::Absolute => Ok(symbol.address()),
            place => bail!(Artifact, "symbol '{name}' has an unsupported place {place:?}"),
        }
    }

    fn fill_got_and_stubs(&self, mapping: &mut Mapping) -> Result<()> {
        for (&symbol, &slot) in &self.got {
            let address = self.symbol(SymbolIndex(symbol), mapping)?;
            mapping.bytes_mut()[slot..slot + 8].copy_from_slice(&address.to_le_bytes());
        }
        for (symbol, &stub) in &self.stubs {
            // jmp *[rip + distance to the GOT slot]; the stub is 6 bytes long.
            let distance = (self.got[symbol] as i64 - (stub as i64 + 6)) as i32;
            let code = &mut mapping.bytes_mut()[stub..stub + STUB];
            code.copy_from_slice(&[0xff, 0x25, 0, 0, 0, 0, 0xcc, 0xcc]);
            code[2..6].copy_from_slice(&distance.to_le_bytes());
        }
        Ok(())
    }

    fn relocate<'d>(
        &self,
        section: &impl ObjectSection<'d>,
        start: usize,
        mapping: &mut Mapping,
    ) -> Result<()> {
        let name = section.name().unwrap_or("?").to_owned();
        for (offset, r) in section.relocations() {
            let RelocationFlags::Elf { r_type } = r.flags() else { continue };
            let (target, symbol) = match r.target() {
                RelocationTarget::Symbol(s) => (self.symbol(s, mapping)?, s.0),
                RelocationTarget::Absolute => (0, usize::MAX),
                t => bail!(Artifact, "unsupported relocation target {t:?} in section '{name}'"),
            };
            let width = match r_type {
                elf::R_X86_64_NONE => continue,
                elf::R_X86_64_64 | elf::R_X86_64_PC64 => 8,
                _ => 4,
            };
            let end = (offset as usize).checked_add(width).filter(|&e| e as u64 <= section.size());
            let Some(_) = end else {
                bail!(Artifact, "a relocation lies outside its section '{name}'");
            };
            let at = start + offset as usize;
            let place = mapping.address(at);
            let relative = |to: u64| (to as i64).wrapping_add(r.addend()).wrapping_sub(place as i64);
            let value = match r_type {
                elf::R_X86_64_64 | elf::R_X86_64_32 | elf::R_X86_64_32S => {
                    (target as i64).wrapping_add(r.addend())
                }
                elf::R_X86_64_PC64 => relative(target),
                // Externals are out of reach of 32 bits: go through the stub.
                elf::R_X86_64_PC32 | elf::R_X86_64_PLT32 => match self.stubs.get(&symbol) {
                    Some(&stub) => relative(mapping.address(stub)),
                    None => relative(target),
                },
                elf::R_X86_64_GOTPCREL | elf::R_X86_64_GOTPCRELX | elf::R_X86_64_REX_GOTPCRELX => {
                    match self.got.get(&symbol) {
                        Some(&slot) => relative(mapping.address(slot)),
                        None => bail!(Artifact, "a relocation in section '{name}' names no symbol"),
                    }
                }
                t => {
                    return Err(err!(Artifact, "unsupported relocation type {} in section '{name}'", t.0)
                        .next(RECOMPILE));
                }
            };
            let fits = match r_type {
                elf::R_X86_64_32 => u32::try_from(value).is_ok(),
                _ => width == 8 || i32::try_from(value).is_ok(),
            };
            if !fits {
                return Err(err!(
                    Artifact,
                    "a 32-bit relocation in section '{name}' does not reach its target"
                )
                .next(RECOMPILE));
            }
            mapping.bytes_mut()[at..at + width].copy_from_slice(&value.to_le_bytes()[..width]);
        }
        Ok(())
    }

    fn functions(&self) -> Result<BTreeMap<String, usize>> {
        let mut out = BTreeMap::new();
        for symbol in self.file.symbols() {
            let (Some(section), true) = (symbol.section_index(), symbol.is_definition()) else { continue };
            let section = self.file.section_by_index(section).map_err(bad)?;
            let inside = symbol.address() < section.size();
            if part_of(&section)? == Some(Part::Code) && inside && symbol.kind() == object::SymbolKind::Text {
                let at = self.sections[&section.index().0] + symbol.address() as usize;
                out.insert(symbol.name().map_err(bad)?.to_owned(), at);
            }
        }
        Ok(out)
    }
}

/// Where a section goes; `None` for those that running does not need.
fn part_of<'d>(section: &impl ObjectSection<'d>) -> Result<Option<Part>> {
    let name = section.name().map_err(bad)?;
    let SectionFlags::Elf { sh_flags, .. } = section.flags() else { return Ok(None) };
    let has = |f| sh_flags.0 & f != 0;
    // Kernels do not unwind.
    if !has(elf::SHF_ALLOC.0)
        || section.size() == 0
        || name.starts_with(".eh_frame")
        || name.starts_with(".note")
    {
        return Ok(None);
    }
    if has(elf::SHF_TLS.0) {
        return Err(
            err!(Artifact, "the kernel object has thread-local data (section '{name}')").next(RECOMPILE)
        );
    }
    Ok(Some(if has(elf::SHF_EXECINSTR.0) {
        Part::Code
    } else if has(elf::SHF_WRITE.0) && !name.starts_with(".data.rel.ro") {
        Part::Writable
    } else {
        Part::ReadOnly
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::cpu::KernelFn;
    use crate::testing::compile_c as compile;

    fn call(object: &LoadedObject, name: &str, buffers: &[*mut u8], symbols: &[i64], begin: i64, end: i64) {
        let f = object.function(name).unwrap();
        // SAFETY: the test's C function has this type.
        let f: KernelFn = unsafe { std::mem::transmute(f) };
        unsafe {
            f(buffers.as_ptr(), symbols.as_ptr(), begin, end, &mut { crate::device::cpu::NO_CHECK_FAILED })
        }
    }

    #[test]
    fn relocations_of_every_supported_kind() {
        // Constants in .rodata, a table of pointers in .data.rel.ro, a GOT access, a call between functions, a call of
        // memcpy, writable data, and a large alignment.
        let source = r"
            #include <stddef.h>
            void *memcpy(void *, const void *, size_t);
            extern const float scale[2];
            const float scale[2] = {2.0f, 10.0f};
            static const float a[2] = {1.0f, 3.0f}, b[2] = {5.0f, 7.0f};
            static const float *const table[2] = {a, b};
            static int counter = 40;
            int other;
            __attribute__((noinline)) float twist(float x) { return x * scale[1] + other; }
            void k(char **buffers, const long *symbols, long begin, long end) {
                float *x = (float *)buffers[0], *y = (float *)buffers[1];
                memcpy(y, x, symbols[0]);
                for (long i = begin; i < end; i++) y[i] = twist(y[i] * scale[0]) + table[i & 1][symbols[1]] + counter;
                counter++;
            }
        ";
        for flags in [&["-fPIC"][..], &["-fPIC", "-fno-plt"], &["-fPIC", "-O0"]] {
            let object = LoadedObject::load(&compile(source, flags)).unwrap();
            let (mut x, mut y) = ([1f32, 2.0, 3.0, 4.0], [0f32; 4]);
            let buffers = [x.as_mut_ptr().cast(), y.as_mut_ptr().cast()];
            call(&object, "k", &buffers, &[16, 1], 1, 3);
            assert_eq!(y, [1.0, 40.0 + 7.0 + 40.0, 60.0 + 3.0 + 40.0, 4.0]);
            call(&object, "k", &buffers, &[16, 0], 0, 1);
            assert_eq!(y[0], 20.0 + 1.0 + 41.0);
        }
    }

    #[test]
    fn other_external_symbols_are_named() {
        let source = "float expf(float); void k(float **b) { b[0][0] = expf(b[0][1]); }";
        let e = LoadedObject::load(&compile(source, &["-fPIC"])).unwrap_err();
        assert!(e.reason().contains("'expf'") && e.next_step().contains("memset"), "{e}");
    }

    #[test]
    fn missing_functions_and_position_dependent_code() {
        let object = LoadedObject::load(&compile("void k(void) {} int data;", &["-fPIC"])).unwrap();
        assert!(object.function("q").unwrap_err().reason().contains("no function 'q'; it has k"));
        assert!(object.function("data").is_err());
        let absolute = "static int t[4]; int *k(long i) { return &t[i]; }";
        let e =
            LoadedObject::load(&compile(absolute, &["-fno-pic", "-fno-pie", "-mcmodel=small"])).unwrap_err();
        assert!(e.reason().contains("does not reach"), "{e}");
    }

    #[test]
    fn damaged_objects_never_crash_the_loader() {
        let good = compile("int t[3] = {1,2,3}; int *p = t; int k(long i) { return t[i]; }", &["-fPIC"]);
        let mut g = crate::tensor::SplitMix64::new(5);
        for _ in 0..2000 {
            let mut bytes = good.clone();
            for _ in 0..1 + g.next_u64() % 4 {
                let at = g.next_u64() as usize % bytes.len();
                bytes[at] = g.next_u64() as u8;
            }
            let _ = LoadedObject::load(&bytes);
            let _ = LoadedObject::load(&good[..g.next_u64() as usize % good.len()]);
        }
        assert!(LoadedObject::load(b"").unwrap_err().reason().contains("malformed"));
    }
}
