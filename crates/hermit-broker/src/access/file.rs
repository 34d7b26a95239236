//! The file `access`: all users, tokens and rules, in one piece.
//!
//! | bytes | what |
//! | --- | --- |
//! | 8 | `HMQACCES` |
//! | u32 | format version |
//! | u64 | revision |
//! | list | users: name, enabled (flag), created at (u64), password (flag, then revision u64, memory in KiB u32, passes u32, salt, hash), tokens (list: label, created at u64, hash) |
//! | list | rules, as on the wire |
//! | u32 | CRC-32C of all before |
//!
//! Integers are big-endian; strings, lists and flags are those of the session's messages.

use std::collections::BTreeMap;

use bytes::BytesMut;
use hermit_proto::session::{AccessRule, BodyError, BodyReader, BodyWriter};
use hermit_proto::{UserName, crc32c};

use super::PasswordHashing;
use super::config::{MAX_MEMORY_KIB, MAX_PASSES};
use super::password::{HASH_BYTES, SALT_BYTES, StoredPassword};
use super::state::{RuleKey, State, StoredToken, User};

pub(super) const MAGIC: &[u8; 8] = b"HMQACCES";
/// The version that is written.
pub(crate) const FORMAT: u32 = 1;
const HEAD_BYTES: usize = MAGIC.len() + size_of::<u32>();
const CRC_BYTES: usize = size_of::<u32>();

/// Why a file cannot be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Unreadable {
    /// A newer release wrote it, in this format.
    Newer(u32),
    /// It is damaged.
    Damaged(String),
}

impl From<BodyError> for Unreadable {
    fn from(error: BodyError) -> Self {
        Self::Damaged(error.to_string())
    }
}

/// The file's bytes.
pub(crate) fn encode(state: &State) -> Result<Vec<u8>, hermit_proto::session::EncodeError> {
    let mut out = BytesMut::new();
    let mut body = BodyWriter::new(&mut out);
    body.raw(MAGIC);
    body.u32(FORMAT);
    body.u64(state.revision);
    let users: Vec<_> = state.users.iter().collect();
    body.list("users", &users, |body, (name, user)| write_user(body, name, user));
    let rules: Vec<_> = state.rules.iter().collect();
    body.list("rules", &rules, |body, (key, operations)| {
        let RuleKey { principal, resource } = (*key).clone();
        AccessRule { principal, resource, operations: **operations }.write(body);
    });
    body.finish()?;
    let crc = crc32c(&out);
    out.extend_from_slice(&crc.to_be_bytes());
    Ok(out.to_vec())
}

fn write_user(body: &mut BodyWriter<'_>, name: &UserName, user: &User) {
    body.string("name", name.as_str());
    body.flag(user.enabled);
    body.u64(user.created_at);
    body.flag(user.password.is_some());
    if let Some(password) = &user.password {
        body.u64(password.revision);
        body.u32(password.hashing.memory_kib);
        body.u32(password.hashing.passes);
        body.raw(&password.salt);
        body.raw(&password.hash);
    }
    let tokens: Vec<_> = user.tokens.iter().collect();
    body.list("tokens", &tokens, |body, (label, token)| {
        body.string("label", label);
        body.u64(token.created_at);
        body.raw(&token.hash);
    });
}

/// What a file says.
pub(crate) fn decode(bytes: &[u8]) -> Result<State, Unreadable> {
    let damaged = |what: &str| Unreadable::Damaged(what.to_owned());
    let (head, _) = bytes.split_at_checked(HEAD_BYTES).ok_or_else(|| damaged("it is cut"))?;
    let mut head = BodyReader::new(head);
    if head.raw("magic", MAGIC.len())? != MAGIC {
        return Err(damaged("it does not begin as such a file does"));
    }
    let format = head.u32("format")?;
    let (covered, crc) = bytes.split_last_chunk::<CRC_BYTES>().ok_or_else(|| damaged("it is cut"))?;
    if crc32c(covered) != u32::from_be_bytes(*crc) {
        return Err(damaged("its checksum does not match"));
    }
    // Every format ends in the checksum, so that a damaged number is not taken for a newer one.
    if format != FORMAT {
        return Err(if format > FORMAT { Unreadable::Newer(format) } else { damaged("there never was such a format") });
    }
    let mut body = BodyReader::new(covered.get(HEAD_BYTES..).unwrap_or_default());
    let revision = body.u64("revision")?;
    let users = body.list("users", read_user)?;
    let rules = body.list("rules", AccessRule::read)?;
    if !body.rest().is_empty() {
        return Err(damaged("there is more than there should be"));
    }
    let rules =
        rules.into_iter().map(|AccessRule { principal, resource, operations }| (RuleKey { principal, resource }, operations));
    Ok(State { revision, users: users.into_iter().collect(), rules: rules.collect() })
}

fn read_user(item: &mut BodyReader<'_>) -> Result<(UserName, User), BodyError> {
    let name = item.string("name")?;
    let name = UserName::new(name).map_err(|_bad| bad("name", name.len() as u64, "a name"))?;
    let (enabled, created_at) = (item.flag("enabled")?, item.u64("created_at")?);
    let password = if item.flag("password")? { Some(read_password(item)?) } else { None };
    let tokens = item.list("tokens", |item| {
        let label = item.string("label")?.to_owned();
        let created_at = item.u64("created_at")?;
        Ok((label, StoredToken { hash: read_array(item, "hash")?, created_at }))
    })?;
    Ok((name, User { enabled, created_at, password, tokens: tokens.into_iter().collect::<BTreeMap<_, _>>() }))
}

fn read_password(item: &mut BodyReader<'_>) -> Result<StoredPassword, BodyError> {
    let revision = item.u64("revision")?;
    let hashing = PasswordHashing { memory_kib: item.u32("memory")?, passes: item.u32("passes")? };
    if !(8..=MAX_MEMORY_KIB).contains(&hashing.memory_kib) {
        return Err(bad("memory", hashing.memory_kib.into(), "8 KiB to 1 GiB"));
    }
    if !(1..=MAX_PASSES).contains(&hashing.passes) {
        return Err(bad("passes", hashing.passes.into(), "1 to 64"));
    }
    let salt: [u8; SALT_BYTES] = read_array(item, "salt")?;
    let hash: [u8; HASH_BYTES] = read_array(item, "hash")?;
    Ok(StoredPassword { revision, hashing, salt, hash })
}

const fn bad(field: &'static str, value: u64, allowed: &'static str) -> BodyError {
    BodyError::BadValue { field, value, allowed }
}

fn read_array<const N: usize>(item: &mut BodyReader<'_>, field: &'static str) -> Result<[u8; N], BodyError> {
    let bytes = item.raw(field, N)?;
    bytes.try_into().map_err(|_other_size| bad(field, bytes.len() as u64, "as many bytes as asked for"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use hermit_proto::session::{AccessOperations, AccessResource, NamePattern};

    fn sample() -> State {
        let mut state = State { revision: 9, ..State::default() };
        let hashing = PasswordHashing { memory_kib: 19 << 10, passes: 2 };
        let password = StoredPassword { revision: 7, hashing, salt: [0x5a; 16], hash: [0xa5; 32] };
        let token = StoredToken { hash: [0x11; 32], created_at: 3 };
        let anna = User { enabled: true, created_at: 2, password: Some(password), tokens: [("ci".to_owned(), token)].into() };
        let bert = User { enabled: false, created_at: 4, password: None, tokens: BTreeMap::new() };
        state.users.extend([(UserName::new("anna").unwrap(), anna), (UserName::new("bert").unwrap(), bert)]);
        let topics = AccessResource::Topic(NamePattern::Regex("a|b".into()));
        let keys = [("*", topics, AccessOperations::CONSUME), ("anna", AccessResource::Broker, AccessOperations::ADMINISTER)];
        state
            .rules
            .extend(keys.map(|(principal, resource, operations)| (RuleKey { principal: principal.into(), resource }, operations)));
        state
    }

    const GOLDEN: &str = concat!(
        "484d51414343455300000001000000000000000900000002000000840004616e6e6101000000000000000201000000000000",
        "000700004c00000000025a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5aa5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5",
        "a5a5a5a5a5a5a5a5000000010000002c00026369000000000000000311111111111111111111111111111111111111111111",
        "11111111111111111111000000140004626572740000000000000000040000000000000000020000000e00012a0002000361",
        "7c62000000040000000e0004616e6e610200000000000008d0f1d272",
    );

    #[test]
    fn files_of_format_1_are_read_and_written_as_ever() {
        let hex: String = encode(&sample()).unwrap().iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(hex, GOLDEN);
        assert_eq!(decode(&encode(&sample()).unwrap()), Ok(sample()));
        assert_eq!(decode(&encode(&State::default()).unwrap()), Ok(State::default()));
    }

    #[test]
    fn every_cut_and_every_flipped_bit_is_noticed() {
        let bytes = encode(&sample()).unwrap();
        for end in 0..bytes.len() {
            assert!(matches!(decode(&bytes[..end]), Err(Unreadable::Damaged(_))), "cut at {end}");
        }
        for bit in 0..bytes.len() * 8 {
            let mut bytes = bytes.clone();
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert!(matches!(decode(&bytes), Err(Unreadable::Damaged(_))), "bit {bit}");
        }
    }

    /// With a checksum that matches, as an attacker or a faulty program would write it.
    #[test]
    fn nothing_that_a_file_says_makes_reading_it_panic_or_costly() {
        let sealed = |mut bytes: Vec<u8>| {
            let crc = crc32c(&bytes).to_be_bytes();
            bytes.extend(crc);
            bytes
        };
        let whole = encode(&sample()).unwrap();
        let covered = &whole[..whole.len() - CRC_BYTES];
        for end in 0..covered.len() {
            assert!(decode(&sealed(covered[..end].to_vec())).is_err(), "cut at {end}");
        }
        for at in 0..covered.len() {
            for value in [0, 1, 0x7f, 0xff] {
                let mut bytes = covered.to_vec();
                bytes[at] = value;
                let _read_or_not = decode(&sealed(bytes));
            }
        }
        let mut newer = covered.to_vec();
        newer[11] = 2;
        assert_eq!(decode(&sealed(newer)), Err(Unreadable::Newer(2)));
        assert!(decode(&sealed([covered, b"x"].concat())).is_err());
    }
}
