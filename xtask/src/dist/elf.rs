//! What a program needs of the system it is installed on, as the program itself says.

use std::collections::BTreeMap;
use std::fmt;

use anyhow::{Context, Result, bail};
use object::Endianness;
use object::elf::{self, FileHeader64};
use object::read::elf::{Dyn as _, FileHeader as _};

/// The parts of a version number, to be compared one by one.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Version(Vec<u32>);

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts: Vec<_> = self.0.iter().map(u32::to_string).collect();
        write!(f, "{}", parts.join("."))
    }
}

/// The processor that a program is for, under the names that the kernel and Debian have for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Architecture {
    pub(super) linux: &'static str,
    pub(super) debian: &'static str,
}

/// What a program needs.
#[derive(Debug)]
pub(super) struct Needs {
    pub(super) architecture: Architecture,
    /// The oldest version of each of Debian's packages that will do.
    pub(super) packages: BTreeMap<&'static str, Version>,
}

/// Reads it out of the program.
pub(super) fn needs(program: &[u8]) -> Result<Needs> {
    let header = FileHeader64::<Endianness>::parse(program).context("it is no program of 64 bits")?;
    let endian = header.endian()?;
    let architecture = match header.e_machine(endian) {
        elf::EM_X86_64 => Architecture { linux: "x86_64", debian: "amd64" },
        elf::EM_AARCH64 => Architecture { linux: "aarch64", debian: "arm64" },
        other => bail!("it is for a processor that is not packed for (ELF machine {other})"),
    };
    let mut packages = BTreeMap::new();
    let sections = header.sections(endian, program)?;
    let (dynamic, strings) = sections.dynamic(endian, program)?.context("it is linked statically")?;
    let strings = sections.strings(endian, program, strings)?;
    for entry in dynamic.iter().filter(|entry| entry.tag(endian) == elf::DT_NEEDED) {
        // Without a version the package is wanted all the same.
        want(&mut packages, text(entry.string(endian, strings)?)?, None)?;
    }
    if let Some((mut libraries, strings)) = sections.gnu_verneed(endian, program)? {
        let strings = sections.strings(endian, program, strings)?;
        while let Some((library, mut versions)) = libraries.next()? {
            let library = text(library.file(endian, strings)?)?;
            while let Some(version) = versions.next()? {
                want(&mut packages, library, Some(text(version.name(endian, strings)?)?))?;
            }
        }
    }
    Ok(Needs { architecture, packages })
}

fn text(bytes: &[u8]) -> Result<&str> {
    std::str::from_utf8(bytes).context("it names a library that is not UTF-8")
}

/// Which of Debian's packages has a library, the first version of it that is known to have this set of symbols, and the way that those are named.
fn want(packages: &mut BTreeMap<&'static str, Version>, library: &str, symbols: Option<&str>) -> Result<()> {
    let (package, prefix, least) = match library {
        "libc.so.6"
        | "libm.so.6"
        | "libdl.so.2"
        | "libpthread.so.0"
        | "librt.so.1"
        | "ld-linux-x86-64.so.2"
        | "ld-linux-aarch64.so.1" => ("libc6", "GLIBC_", vec![2, 17]),
        "libgcc_s.so.1" => ("libgcc-s1", "GCC_", vec![3, 0]),
        other => bail!("it needs {other}, of which no package is known here: link it statically, or name its package"),
    };
    let wanted = match symbols {
        None => Version(least),
        // Relative relocations in short: the first release that reads them is meant.
        Some("GLIBC_ABI_DT_RELR") => Version(vec![2, 36]),
        Some(symbols) => {
            let version = symbols.strip_prefix(prefix).and_then(parse);
            version.with_context(|| format!("it needs {symbols} of {library}, and which release brought that is not known here"))?
        }
    };
    raise(packages, package, wanted);
    Ok(())
}

/// The newest version that something wants is what counts.
fn raise(packages: &mut BTreeMap<&'static str, Version>, package: &'static str, wanted: Version) {
    if packages.get(package).is_none_or(|known| wanted > *known) {
        packages.insert(package, wanted);
    }
}

fn parse(version: &str) -> Option<Version> {
    version.split('.').map(|part| part.parse().ok()).collect::<Option<_>>().map(Version)
}

/// The needs of several programs together.
pub(super) fn of_all(programs: impl Iterator<Item = Result<Needs>>) -> Result<Needs> {
    let mut all: Option<Needs> = None;
    for needs in programs {
        let needs = needs?;
        let Some(all) = &mut all else {
            all = Some(needs);
            continue;
        };
        if all.architecture != needs.architecture {
            bail!("programs for {} and for {} do not go into one package", all.architecture.linux, needs.architecture.linux);
        }
        for (package, version) in needs.packages {
            raise(&mut all.packages, package, version);
        }
    }
    all.context("no program")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_program_needs_the_c_library_of_its_time() {
        let needs = needs(&std::fs::read(std::env::current_exe().unwrap()).unwrap()).unwrap();
        assert_eq!(needs.architecture.linux, std::env::consts::ARCH);
        let libc = &needs.packages["libc6"];
        assert!(*libc >= parse("2.17").unwrap() && *libc < parse("3").unwrap(), "{libc}");
        assert!(needs.packages.contains_key("libgcc-s1"), "{needs:?}");
    }

    #[test]
    fn the_newest_symbols_count_by_number_and_an_unknown_library_is_refused() {
        let mut packages = BTreeMap::new();
        for symbols in ["GLIBC_2.9", "GLIBC_2.34", "GLIBC_2.4"] {
            want(&mut packages, "libc.so.6", Some(symbols)).unwrap();
        }
        assert_eq!(packages["libc6"].to_string(), "2.34");
        want(&mut packages, "libc.so.6", Some("GLIBC_ABI_DT_RELR")).unwrap();
        assert_eq!(packages["libc6"].to_string(), "2.36");
        assert!(want(&mut packages, "libc.so.6", Some("GLIBC_PRIVATE")).is_err());
        assert!(want(&mut packages, "libssl.so.3", None).unwrap_err().to_string().contains("libssl.so.3"));
    }
}
