//! Reading the file. Everything that is wrong with it is found at once, each with its place; what it holds of secrets is never told.

use std::collections::BTreeMap;
use std::fs::{File, Metadata};
use std::io::{self, Read as _};
use std::ops::Range;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use hermit_settings::{excerpt, line_and_column, nearest};
use toml::de::{DeTable, DeValue};
use zeroize::Zeroizing;

use super::path::{VARIABLE, config_file};
use super::table::{self, Profile};

/// A longer file is another one.
const MAX_BYTES: u64 = 1 << 20;

/// The file, as far as somebody has written one.
#[derive(Debug, Default)]
pub(super) struct Profiles {
    pub(super) path: PathBuf,
    pub(super) default: Option<String>,
    pub(super) by_name: BTreeMap<String, Profile>,
}

impl Profiles {
    /// Reads the file; one that nobody has named need not be there.
    pub(super) fn read() -> Result<Self> {
        let Some((path, named)) = config_file() else { return Ok(Self::default()) };
        let file = match File::open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound && !named => return Ok(Self { path, ..Self::default() }),
            Err(error) if named => return Err(error).with_context(|| format!("{VARIABLE}: {}", path.display())),
            Err(error) => return Err(error).with_context(|| path.display().to_string()),
        };
        let name = path.display().to_string();
        let found = file.metadata().with_context(|| name.clone())?;
        let text = read_text(file).with_context(|| name.clone())?;
        let profiles = Self::parse(&text, &path)?;
        profiles.refuse_open_secrets(&found)?;
        Ok(profiles)
    }

    fn parse(text: &str, path: &Path) -> Result<Self> {
        let (table, errors) = DeTable::parse_recoverable(text);
        let mut findings = Findings { path, text, found: Vec::new() };
        for error in errors {
            findings.add(error.span(), error.message().trim_end());
        }
        let mut read = Self { path: path.to_path_buf(), ..Self::default() };
        // What the parser made of a file with errors is guesswork.
        if findings.found.is_empty() {
            read.take(table.get_ref(), &mut findings);
        }
        findings.end()?;
        Ok(read)
    }

    fn take(&mut self, table: &DeTable<'_>, findings: &mut Findings<'_>) {
        let mut default_at = None;
        for (key, value) in table {
            let name = key.get_ref().as_ref();
            match (name, value.get_ref()) {
                ("default", DeValue::String(default)) => {
                    (self.default, default_at) = (Some(default.to_string()), Some(value.span()));
                }
                ("default", _) => findings.add(Some(value.span()), "`default`: give the name of a profile, in quotes"),
                ("profiles", DeValue::Table(profiles)) => {
                    for (key, value) in profiles {
                        let name = key.get_ref().as_ref();
                        match value.get_ref() {
                            DeValue::Table(settings) => {
                                self.by_name.insert(name.to_owned(), table::read(settings, key.span(), findings));
                            }
                            _ => findings.add(Some(key.span()), &format!("`{}` is to be a table: [profiles.NAME]", excerpt(name))),
                        }
                    }
                }
                ("profiles", _) => findings.add(Some(value.span()), "`profiles` is to be a table: [profiles.NAME]"),
                _ => findings.unknown(key.span(), name, &["default", "profiles"], "nothing that the file may say"),
            }
        }
        if let (Some(default), Some(at)) = (&self.default, default_at)
            && !self.by_name.contains_key(default)
        {
            findings.add(Some(at), &format!("`default`: {}", self.no_such(default)));
        }
    }

    /// What to say of a name that is none.
    pub(super) fn no_such(&self, name: &str) -> String {
        let (known, name): (Vec<&String>, _) = (self.by_name.keys().collect(), excerpt(name));
        match nearest(&name, &known) {
            Some(meant) => format!("there is no profile `{name}`; did you mean `{meant}`?"),
            None if known.is_empty() => format!("there is no profile `{name}`: {} has none", self.path.display()),
            None => format!("there is no profile `{name}`; see `hermit-cli profile list`"),
        }
    }

    pub(super) fn get(&self, name: &str) -> Result<&Profile> {
        match self.by_name.get(name) {
            Some(profile) => Ok(profile),
            None => bail!("{}", self.no_such(name)),
        }
    }

    /// A secret that others can read is none: as ssh does with a key, it is not used.
    fn refuse_open_secrets(&self, found: &Metadata) -> Result<()> {
        if !found.is_file() || found.permissions().mode() & 0o077 == 0 {
            return Ok(());
        }
        if let Some((name, _)) = self.by_name.iter().find(|(_, profile)| profile.holds_secret()) {
            let path = self.path.display();
            bail!("others than its owner may read {path}, which holds a secret of the profile `{name}`: chmod 600 {path}");
        }
        Ok(())
    }
}

fn read_text(file: File) -> Result<Zeroizing<String>> {
    let mut text = Zeroizing::new(String::new());
    file.take(MAX_BYTES + 1).read_to_string(&mut text)?;
    if text.len() as u64 > MAX_BYTES {
        bail!("it has more than {MAX_BYTES} bytes: is it the file with the profiles?");
    }
    Ok(text)
}

/// What is wrong with the file.
#[derive(Debug)]
pub(super) struct Findings<'a> {
    path: &'a Path,
    text: &'a str,
    found: Vec<(usize, String)>,
}

impl<'a> Findings<'a> {
    pub(super) const fn path(&self) -> &'a Path {
        self.path
    }

    pub(super) fn add(&mut self, span: Option<Range<usize>>, message: &str) {
        let at = span.map_or(0, |span| span.start);
        let (line, column) = line_and_column(self.text, at);
        self.found.push((at, format!("{}:{line}:{column}: {message}", self.path.display())));
    }

    pub(super) fn unknown(&mut self, span: Range<usize>, name: &str, known: &[&str], what: &str) {
        let name = excerpt(name);
        let hint = match nearest(&name, known) {
            Some(meant) => format!("did you mean `{meant}`?"),
            None => format!("there are {}", known.join(", ")),
        };
        self.add(Some(span), &format!("`{name}` is {what}; {hint}"));
    }

    /// An error that tells all of them, in the order of the file.
    fn end(mut self) -> Result<()> {
        if self.found.is_empty() {
            return Ok(());
        }
        self.found.sort();
        let all: Vec<_> = self.found.into_iter().map(|(_, message)| message).collect();
        bail!("{}", all.join("; "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wrong(text: &str) -> String {
        Profiles::parse(text, Path::new("c.toml")).unwrap_err().to_string()
    }

    #[test]
    fn everything_that_is_wrong_is_told_at_once_with_its_place_and_without_secrets() {
        let text = "defualt = 'a'\n[profiles.a]\nsever = 'x:1'\npassword = 'geheim'\ntokne = 'geheim'\ntls = 'yes'\n";
        let told = wrong(text);
        let expected = [
            "c.toml:1:1: `defualt` is nothing that the file may say; did you mean `default`?",
            "c.toml:2:11: `password` is given without `user`",
            "c.toml:3:1: `sever` is no setting of a profile; did you mean `server`?",
            "c.toml:5:1: `tokne` is no setting of a profile; did you mean `token`?",
            "c.toml:6:7: `tls`: give true or false",
        ];
        assert_eq!(told, expected.join("; "));
        assert!(!told.contains("geheim"));
        // Nor when it is no TOML at all.
        let told = wrong("[profiles.a]\npassword = 'geheim\ntoken = geheim");
        assert!(told.contains("c.toml:2:") && !told.contains("geheim"), "{told}");
    }

    #[test]
    fn what_contradicts_itself_is_refused() {
        for (settings, said) in [
            ("user = 'a'\ntoken = 't'", "`token` cannot be used with `user`"),
            ("user = 'a'\npassword = 'x'\npassword_file = 'y'", "`password` and `password_file`"),
            ("token = 'a'\ntoken_file = 'x'", "`token` and `token_file`"),
            ("tls_cert = 'a'", "`tls_cert` needs `tls_key`"),
            ("tls = false\ntls_ca = 'a'", "`tls` is false"),
            ("server = []", "`server`: "),
            ("server = 'x'", "HOST:PORT"),
            ("server = ['x:1', 7]", "HOST:PORT"),
            ("user = ''", "`user`: "),
            ("user = 7", "`user`: give a text, in quotes"),
        ] {
            let told = wrong(&format!("[profiles.a]\n{settings}\n"));
            assert!(told.contains(said), "{settings}: {told}");
        }
        assert!(wrong("default = 'prd'\n[profiles.prod]\n").contains("did you mean `prod`?"));
        assert!(wrong("default = 1").contains("`default`: give the name"));
        assert!(wrong("profiles = 1").contains("[profiles.NAME]"));
        assert!(wrong("profiles.a = 1").contains("[profiles.NAME]"));
    }

    #[test]
    fn no_text_makes_it_panic() {
        let whole = "default = 'a'\n[profiles.a]\nserver = ['x:1', 'y:2']\nuser = 'ü'\npassword = 'geheim'\ntls = true\n";
        for cut in (0..whole.len()).filter(|cut| whole.is_char_boundary(*cut)) {
            drop(Profiles::parse(&whole[..cut], Path::new("c.toml")));
        }
        let read = Profiles::parse(whole, Path::new("c.toml")).unwrap();
        assert!(!format!("{read:?}").contains("geheim") && read.by_name["a"].holds_secret());
    }
}
