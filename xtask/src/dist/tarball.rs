//! The archive for everybody who has no package of their own.

use anyhow::Result;

use super::Made;
use super::archive::{FILE, PROGRAM, Tree};
use super::material::Material;

/// Packs everything below one folder.
pub(super) fn make(material: &Material) -> Result<Made> {
    let mut tree = Tree::default();
    for (name, bytes) in &material.programs {
        tree.add(format!("bin/{name}"), PROGRAM, bytes.as_slice());
    }
    for (name, bytes) in &material.pages {
        tree.add(name, FILE, bytes.as_slice());
    }
    for (path, bytes) in &material.manual {
        tree.add(format!("docs/{path}"), FILE, bytes.as_slice());
    }
    for (name, bytes) in &material.brought.pages {
        tree.add(format!("man/man1/{name}"), FILE, bytes.as_slice());
    }
    for (shell, name, bytes) in &material.brought.completions {
        tree.add(format!("completions/{shell}/{name}"), FILE, bytes.as_slice());
    }
    tree.add("LICENSES-THIRD-PARTY", FILE, material.notices.as_str());
    tree.add("hermitd.toml", FILE, material.packaging("hermitd.toml")?);
    // What is installed by hand goes to /usr/local.
    let unit = material.packaging("systemd/hermitmq.service")?.replace("=/usr/bin/", "=/usr/local/bin/");
    tree.add("systemd/hermitmq.service", FILE, unit);
    tree.add("systemd/sysusers.conf", FILE, material.packaging("systemd/sysusers.conf")?);

    let top = format!("hermitmq-{}-{}-linux", material.version, material.needs.architecture.linux);
    Ok(Made { bytes: tree.tar_gz(&format!("{top}/"), material.time, material.effort)?, name: format!("{top}.tar.gz") })
}
