//! The package for Debian and what descends from it, written without its tools, so that it comes out the same on any machine.

use std::fmt::Write as _;

use anyhow::Result;
use md5::{Digest, Md5};

use super::archive::{FILE, PROGRAM, Tree, ar, gz};
use super::material::Material;
use super::{Made, date};

/// Where the documentation of the package is.
const DOC: &str = "usr/share/doc/hermitmq";

/// Packs everything where Debian wants it.
pub(super) fn make(material: &Material) -> Result<Made> {
    let version = version(&material.version);
    let architecture = material.needs.architecture.debian;
    let data = data(material, &version)?;
    let control = control(material, &version, &data)?.tar_gz("./", material.time, material.effort)?;
    let data = data.tar_gz("./", material.time, material.effort)?;
    let parts = [("debian-binary", &b"2.0\n"[..]), ("control.tar.gz", &control), ("data.tar.gz", &data)];
    Ok(Made { name: format!("hermitmq_{version}_{architecture}.deb"), bytes: ar(&parts, material.time) })
}

/// What comes before a release is told by `~`, which sorts before the end.
fn version(version: &str) -> String {
    version.replacen('-', "~", 1)
}

/// What is installed.
fn data(material: &Material, version: &str) -> Result<Tree> {
    let mut tree = Tree::default();
    for (name, bytes) in &material.programs {
        tree.add(format!("usr/bin/{name}"), PROGRAM, bytes.as_slice());
    }
    for (name, bytes) in &material.brought.pages {
        tree.add(format!("usr/share/man/man1/{name}.gz"), FILE, gz(bytes)?);
    }
    for (shell, name, bytes) in &material.brought.completions {
        let folder = match *shell {
            "bash" => "bash-completion/completions",
            "fish" => "fish/vendor_completions.d",
            _ => "zsh/vendor-completions",
        };
        tree.add(format!("usr/share/{folder}/{name}"), FILE, bytes.as_slice());
    }
    tree.add("etc/hermitmq/hermitd.toml", FILE, material.packaging("hermitd.toml")?);
    tree.add("usr/lib/systemd/system/hermitmq.service", FILE, material.packaging("systemd/hermitmq.service")?);
    tree.add("usr/lib/sysusers.d/hermitmq.conf", FILE, material.packaging("systemd/sysusers.conf")?);
    documentation(material, version, &mut tree)?;
    Ok(tree)
}

fn documentation(material: &Material, version: &str, tree: &mut Tree) -> Result<()> {
    for (path, bytes) in &material.manual {
        tree.add(format!("{DOC}/docs/{path}"), FILE, bytes.as_slice());
    }
    for (name, bytes) in material.pages.iter().filter(|(name, _)| !name.starts_with("LICENSE")) {
        tree.add(format!("{DOC}/{name}"), FILE, bytes.as_slice());
    }
    let mut copyright = material.packaging("deb/copyright")?;
    for (name, text) in material.pages.iter().filter(|(name, _)| name == "LICENSE-MIT") {
        write!(copyright, "\n{name}\n\n{}", String::from_utf8_lossy(text))?;
    }
    tree.add(format!("{DOC}/copyright"), FILE, copyright);
    tree.add(format!("{DOC}/LICENSES-THIRD-PARTY.gz"), FILE, gz(material.notices.as_bytes())?);
    let (maintainer, date) = (maintainer(material)?, date::for_debian(material.time));
    let changelog = format!(
        "hermitmq ({version}) stable; urgency=medium\n\n  * See {DOC}/CHANGELOG.md for what has changed.\n\n -- {maintainer}  {date}\n",
        DOC = format_args!("/{DOC}")
    );
    tree.add(format!("{DOC}/changelog.gz"), FILE, gz(changelog.as_bytes())?);
    Ok(())
}

/// Who is asked about the package, as its control file says.
fn maintainer(material: &Material) -> Result<String> {
    let control = material.packaging("deb/control")?;
    Ok(control.lines().find_map(|line| line.strip_prefix("Maintainer: ")).unwrap_or_default().to_owned())
}

/// What tells the package manager about it.
fn control(material: &Material, version: &str, data: &Tree) -> Result<Tree> {
    let needed = material.needs.packages.iter().map(|(package, version)| format!("{package} (>= {version})"));
    let control = material
        .packaging("deb/control")?
        .replace("@VERSION@", version)
        .replace("@ARCHITECTURE@", material.needs.architecture.debian)
        .replace("@INSTALLED_KIB@", &data.installed_kib().to_string())
        .replace("@NEEDED@", &needed.collect::<Vec<_>>().join(", "));
    let mut conffiles = String::new();
    let mut sums = String::new();
    for (path, bytes) in data.files() {
        if path.starts_with("etc/") {
            writeln!(conffiles, "/{path}")?;
        } else {
            let sum: String = Md5::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect();
            writeln!(sums, "{sum}  {path}")?;
        }
    }
    let mut tree = Tree::default();
    tree.add("control", FILE, control);
    tree.add("conffiles", FILE, conffiles);
    tree.add("md5sums", FILE, sums);
    for script in ["postinst", "prerm", "postrm"] {
        tree.add(script, PROGRAM, material.packaging(&format!("deb/{script}"))?);
    }
    Ok(tree)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_before_a_release_sorts_before_it() {
        assert_eq!(version("1.2.3-rc.1"), "1.2.3~rc.1");
        assert_eq!(version("1.2.3"), "1.2.3");
    }
}
