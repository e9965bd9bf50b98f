//! System packages: what is missing, and where Debian keeps it.
//!
//! LLVM 22 is in Debian 12's *security* suite. Container images and fresh installations usually have that suite;
//! where it is missing, its address is derived from the mirror that the machine already uses.

use crate::failure::{Context, Failure, Result};
use crate::sh::{self, Cmd};
use std::collections::BTreeSet;
use std::path::Path;

/// What building and testing need.
pub const PACKAGES: [&str; 14] = [
    "llvm-22-dev",
    "libmlir-22-dev",
    "mlir-22-tools",
    "llvm-22-tools",
    "clang-22",
    "libclang-22-dev",
    "libpolly-22-dev",
    "zlib1g-dev",
    "libzstd-dev",
    "libxml2-dev",
    "libffi-dev",
    "g++",
    "pkg-config",
    "xz-utils",
];

/// Those of `wanted` that are not installed. None where there is no dpkg to ask.
pub fn missing(wanted: &[&str]) -> Option<Vec<String>> {
    let query = Cmd::new("dpkg-query").arg("-W").arg("-f=${Package} ${db:Status-Abbrev}\\n").args(wanted);
    let output = query.capture().ok()?;
    let have = installed(&output.text);
    Some(wanted.iter().filter(|&&name| !have.contains(name)).map(|&name| name.to_owned()).collect())
}

fn installed(listing: &str) -> BTreeSet<&str> {
    let words = listing.lines().filter_map(|line| line.split_once(' '));
    words.filter(|(_, status)| status.trim().starts_with("ii")).map(|(name, _)| name).collect()
}

/// Installs packages; adds the security suite where a package has no candidate.
pub fn install(packages: &[String]) -> Result<()> {
    if sh::which("apt-get").is_none() {
        let by_hand = format!("install by hand: {}", packages.join(" "));
        return Err(
            Failure::new("there is no apt-get; this set-up knows Debian 12 and its like").fix(by_hand)
        );
    }
    if !all_have_candidates(packages)? {
        update()?;
    }
    if !all_have_candidates(packages)? {
        add_security_suite()?;
        update()?;
    }
    privileged("apt-get")?
        .args(["install", "-y", "--no-install-recommends"])
        .args(packages)
        .run()
        .map_err(|failure| failure.fix("read apt's message above, repair, and run `cargo xtask setup` again"))
}

fn update() -> Result<()> {
    privileged("apt-get")?.arg("update").run().map_err(|failure| {
        failure.fix("check the network and the apt sources under /etc/apt, then try again")
    })
}

/// A command that runs as root: directly, or through sudo.
fn privileged(program: &str) -> Result<Cmd> {
    if sh::is_root() {
        return Ok(Cmd::new(program).env("DEBIAN_FRONTEND", "noninteractive"));
    }
    if sh::which("sudo").is_some() {
        return Ok(Cmd::new("sudo").args(["env", "DEBIAN_FRONTEND=noninteractive", program]));
    }
    Err(Failure::new("installing system packages needs root, and there is no sudo")
        .fix("run `cargo xtask setup` once as root"))
}

fn all_have_candidates(packages: &[String]) -> Result<bool> {
    let policy = Cmd::new("apt-cache").env("LC_ALL", "C").arg("policy").args(packages).check()?;
    Ok(packages.iter().all(|name| has_candidate(&policy, name)))
}

fn has_candidate(policy: &str, package: &str) -> bool {
    let mut lines = policy.lines().skip_while(|line| *line != format!("{package}:"));
    lines
        .find_map(|line| line.trim().strip_prefix("Candidate: "))
        .is_some_and(|candidate| candidate != "(none)")
}

fn add_security_suite() -> Result<()> {
    let codename = codename()?;
    let by_hand =
        format!("add Debian's suite {codename}-security (component main) to the apt sources, then try again");
    let sources = read_sources();
    if sources.iter().any(|source| source.has_suite(&format!("{codename}-security"))) {
        let what = "a needed package is neither in Debian's main suite nor in its security suite";
        return Err(Failure::new(what)
            .fix("apt-cache policy llvm-22-dev clang-22; this project needs Debian 12 (bookworm)"));
    }
    let entry = sources
        .iter()
        .find(|source| source.has_suite(&codename) && source.components.iter().any(|name| name == "main"))
        .and_then(|source| source.security_sibling(&codename))
        .ok_or_else(|| {
            Failure::new("no apt source to derive Debian's security suite from").fix(by_hand.clone())
        })?;
    let made = std::env::temp_dir().join(format!("strata-security-{}.sources", std::process::id()));
    std::fs::write(&made, entry).context(|| format!("writing {}", made.display()))?;
    let installed = privileged("install")?
        .args(["-m", "644"])
        .arg(&made)
        .arg("/etc/apt/sources.list.d/strata-security.sources")
        .run()
        .map_err(|failure| failure.fix(by_hand));
    std::fs::remove_file(&made).ok();
    installed
}

fn codename() -> Result<String> {
    let text = std::fs::read_to_string("/etc/os-release").context(|| "reading /etc/os-release".into())?;
    let value = text.lines().find_map(|line| line.strip_prefix("VERSION_CODENAME="));
    value.map(|name| name.trim_matches('"').to_owned()).ok_or_else(|| {
        Failure::new("/etc/os-release has no VERSION_CODENAME").fix("use Debian 12 (bookworm)")
    })
}

/// One apt source that offers binary packages.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Source {
    uri: String,
    suites: Vec<String>,
    components: Vec<String>,
    signed_by: Option<String>,
}

impl Source {
    fn has_suite(&self, suite: &str) -> bool {
        self.suites.iter().any(|name| name == suite)
    }

    /// Mirrors keep the security archive beside the main one: `…/debian` and `…/debian-security`.
    fn security_sibling(&self, codename: &str) -> Option<String> {
        let base = self.uri.trim_end_matches('/').strip_suffix("/debian")?;
        let keyring = "/usr/share/keyrings/debian-archive-keyring.gpg";
        let found = Path::new(keyring).is_file().then(|| keyring.to_owned());
        let signed =
            self.signed_by.clone().or(found).map(|key| format!("Signed-By: {key}\n")).unwrap_or_default();
        Some(format!(
            "Types: deb\nURIs: {base}/debian-security\nSuites: {codename}-security\nComponents: main\n{signed}"
        ))
    }
}

fn read_sources() -> Vec<Source> {
    let read = |path: &Path| std::fs::read_to_string(path).unwrap_or_default();
    let mut found = one_line_sources(&read(Path::new("/etc/apt/sources.list")));
    let folder = std::fs::read_dir("/etc/apt/sources.list.d").into_iter().flatten().flatten();
    let mut files: Vec<_> = folder.map(|entry| entry.path()).collect();
    files.sort();
    for file in files {
        match file.extension().and_then(|ext| ext.to_str()) {
            Some("list") => found.extend(one_line_sources(&read(&file))),
            Some("sources") => found.extend(deb822_sources(&read(&file))),
            _ => {}
        }
    }
    found
}

/// `deb [signed-by=KEY arch=amd64] URI SUITE COMPONENT…`
fn one_line_sources(text: &str) -> Vec<Source> {
    let parse = |line: &str| {
        let mut rest = line.trim().strip_prefix("deb")?.strip_prefix([' ', '\t'])?.trim();
        let mut signed_by = None;
        if let Some((options, after)) = rest.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            signed_by = options
                .split_whitespace()
                .find_map(|word| word.strip_prefix("signed-by="))
                .map(str::to_owned);
            rest = after.trim();
        }
        let mut words = rest.split_whitespace().map(str::to_owned);
        Some(Source {
            uri: words.next()?,
            suites: vec![words.next()?],
            components: words.collect(),
            signed_by,
        })
    };
    text.lines().filter_map(parse).collect()
}

/// Paragraphs of `Key: value`.
fn deb822_sources(text: &str) -> Vec<Source> {
    let text: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
    let paragraphs = text.split(|line| line.trim().is_empty());
    let parse = |lines: &[&str]| {
        let field = |name: &str| {
            let value = lines
                .iter()
                .find_map(|line| line.split_once(':').filter(|(key, _)| key.eq_ignore_ascii_case(name)));
            value.map(|(_, value)| value.trim().to_owned())
        };
        let words = |name: &str| {
            field(name).unwrap_or_default().split_whitespace().map(str::to_owned).collect::<Vec<_>>()
        };
        if !words("Types").iter().any(|word| word == "deb")
            || field("Enabled").is_some_and(|value| value == "no")
        {
            return None;
        }
        let uri = words("URIs").first()?.clone();
        let signed_by = field("Signed-By").filter(|key| key.starts_with('/'));
        Some(Source { uri, suites: words("Suites"), components: words("Components"), signed_by })
    };
    paragraphs.filter_map(parse).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_fully_installed_packages_count() {
        let listing = "g++ ii \nclang-22 rc \nxz-utils un \nlibffi-dev ii \n";
        assert_eq!(installed(listing), BTreeSet::from(["g++", "libffi-dev"]));
    }

    #[test]
    fn candidates_are_read_per_package() {
        let policy = "\
llvm-22-dev:
  Installed: (none)
  Candidate: 1:22.1.8-1~deb12u1
  Version table:
clang-22:
  Installed: (none)
  Candidate: (none)
";
        assert!(has_candidate(policy, "llvm-22-dev"));
        assert!(!has_candidate(policy, "clang-22"));
        assert!(!has_candidate(policy, "unknown"));
    }

    #[test]
    fn both_source_formats_are_read() {
        let old = "# a comment\ndeb [arch=amd64 signed-by=/k.gpg] http://mirror.test/debian bookworm main contrib\ndeb-src http://mirror.test/debian bookworm main\n";
        let new = "\
Types: deb
# a comment
URIs: http://mirror.test/debian
Suites: bookworm bookworm-updates
Components: main
Signed-By: /k.gpg

Types: deb-src
URIs: http://mirror.test/debian
Suites: bookworm
Components: main
";
        let (old, new) = (one_line_sources(old), deb822_sources(new));
        assert_eq!((old.len(), new.len()), (1, 1));
        assert!(old[0].has_suite("bookworm") && new[0].has_suite("bookworm"));
        assert_eq!(old[0].signed_by, new[0].signed_by);
        assert_eq!(old[0].components, ["main", "contrib"]);
    }

    #[test]
    fn the_security_suite_is_beside_the_main_one() {
        let source =
            &one_line_sources("deb [signed-by=/k.gpg] https://mirror.test/pub/debian/ bookworm main")[0];
        assert_eq!(
            source.security_sibling("bookworm").as_deref(),
            Some(
                "Types: deb\nURIs: https://mirror.test/pub/debian-security\nSuites: bookworm-security\nComponents: main\nSigned-By: /k.gpg\n"
            )
        );
        let other = &one_line_sources("deb http://mirror.test/ubuntu noble main")[0];
        assert_eq!(other.security_sibling("noble"), None);
    }
}
