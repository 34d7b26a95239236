//! What a certificate says of itself, as far as the log tells it: X.509 (RFC 5280, section 4.1) in DER. Whether it is true is for others to check.

use std::fmt::Write as _;
use std::time::{Duration, SystemTime};

/// Most characters of a subject that are told.
const MAX_SUBJECT_CHARS: usize = 256;

/// Some fields of a certificate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Facts {
    /// In the order of the certificate, escaped: `O=Example, CN=broker`.
    pub(crate) subject: String,
    pub(crate) not_before: SystemTime,
    pub(crate) not_after: SystemTime,
}

impl Facts {
    /// Reads them; `None` where this is no certificate.
    pub(crate) fn read(der: &[u8]) -> Option<Self> {
        let mut certificate = Der(Der(der).expect(SEQUENCE)?);
        let mut fields = Der(certificate.expect(SEQUENCE)?);
        fields.optional(VERSION);
        fields.expect(INTEGER)?;
        let _algorithm = fields.expect(SEQUENCE)?;
        let _issuer = fields.expect(SEQUENCE)?;
        let mut validity = Der(fields.expect(SEQUENCE)?);
        let (not_before, not_after) = (time(validity.next()?)?, time(validity.next()?)?);
        let subject = subject(fields.expect(SEQUENCE)?)?;
        Some(Self { subject, not_before, not_after })
    }
}

const INTEGER: u8 = 0x02;
const OBJECT_ID: u8 = 0x06;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;
const BMP_STRING: u8 = 0x1e;
const SEQUENCE: u8 = 0x30;
const SET: u8 = 0x31;
/// `[0]`, around the version.
const VERSION: u8 = 0xa0;

/// Values back to back.
struct Der<'a>(&'a [u8]);

impl<'a> Der<'a> {
    /// The next value, with its tag.
    fn next(&mut self) -> Option<(u8, &'a [u8])> {
        let (&[tag, short], mut rest) = self.0.split_first_chunk()?;
        let len = if short < 0x80 {
            usize::from(short)
        } else {
            // "In the long form, the number of octets of the length is in bits 7 to 1." Four are more than any certificate has.
            let (octets, behind) =
                rest.split_at_checked(usize::from(short & 0x7f)).filter(|(octets, _)| (1..=4).contains(&octets.len()))?;
            rest = behind;
            octets.iter().fold(0_usize, |len, octet| len << 8 | usize::from(*octet))
        };
        let (value, behind) = rest.split_at_checked(len)?;
        self.0 = behind;
        Some((tag, value))
    }

    fn expect(&mut self, expected: u8) -> Option<&'a [u8]> {
        self.next().filter(|(tag, _)| *tag == expected).map(|(_, value)| value)
    }

    fn optional(&mut self, tag: u8) {
        if self.0.first() == Some(&tag) {
            self.next();
        }
    }
}

/// A name: sets of attributes, each of which is an object identifier and a text.
fn subject(name: &[u8]) -> Option<String> {
    let (mut told, mut sets) = (String::new(), Der(name));
    while !sets.0.is_empty() {
        let mut attributes = Der(sets.expect(SET)?);
        while !attributes.0.is_empty() {
            let mut attribute = Der(attributes.expect(SEQUENCE)?);
            let (kind, (tag, value)) = (attribute.expect(OBJECT_ID)?, attribute.next()?);
            let separator = if told.is_empty() { "" } else { ", " };
            write!(told, "{separator}{}={}", kind_of(kind), text(tag, value).escape_debug()).ok()?;
        }
    }
    if let Some((at, _)) = told.char_indices().nth(MAX_SUBJECT_CHARS) {
        told.truncate(at);
        told.push('…');
    }
    Some(if told.is_empty() { "(no subject)".into() } else { told })
}

/// The usual abbreviations (RFC 4514, section 3).
const fn kind_of(object_id: &[u8]) -> &'static str {
    match object_id {
        [0x55, 4, 3] => "CN",
        [0x55, 4, 6] => "C",
        [0x55, 4, 7] => "L",
        [0x55, 4, 8] => "ST",
        [0x55, 4, 10] => "O",
        [0x55, 4, 11] => "OU",
        _ => "?",
    }
}

fn text(tag: u8, value: &[u8]) -> String {
    if tag == BMP_STRING {
        let units: Vec<_> = value.as_chunks().0.iter().map(|unit| u16::from_be_bytes(*unit)).collect();
        return String::from_utf16_lossy(&units);
    }
    String::from_utf8_lossy(value).into_owned()
}

/// `YYMMDDHHMMSSZ` until 2049, `YYYYMMDDHHMMSSZ` after (RFC 5280, section 4.1.2.5).
fn time((tag, value): (u8, &[u8])) -> Option<SystemTime> {
    let (year, rest) = match tag {
        UTC_TIME => {
            let (year, rest) = number(value, 2)?;
            (if year < 50 { 2000 + year } else { 1900 + year }, rest)
        }
        GENERALIZED_TIME => number(value, 4)?,
        _ => return None,
    };
    let (month, rest) = number(rest, 2).filter(|(month, _)| (1..=12).contains(month))?;
    let (day, rest) = number(rest, 2).filter(|(day, _)| (1..=31).contains(day))?;
    let (hour, rest) = number(rest, 2)?;
    let (minute, rest) = number(rest, 2)?;
    let (second, rest) = number(rest, 2)?;
    if rest != b"Z" {
        return None;
    }
    let seconds = days_since_epoch(year, month, day) * 86_400 + hour * 3600 + minute * 60 + second;
    let (distance, epoch) = (Duration::from_secs(seconds.unsigned_abs()), SystemTime::UNIX_EPOCH);
    if seconds < 0 { epoch.checked_sub(distance) } else { epoch.checked_add(distance) }
}

fn number(digits: &[u8], count: usize) -> Option<(i64, &[u8])> {
    let (digits, rest) = digits.split_at_checked(count)?;
    let mut number = 0;
    for digit in digits {
        number = number * 10 + i64::from(char::from(*digit).to_digit(10)?);
    }
    Some((number, rest))
}

/// Days of the Gregorian calendar, of which 400 years have 146,097. Years are counted from March, so that the leap day comes last.
const fn days_since_epoch(year: i64, month: i64, day: i64) -> i64 {
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let (era, year_of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let day_of_year = (153 * month + 2) / 5 + day - 1;
    era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn made(change: impl FnOnce(&mut rcgen::CertificateParams)) -> Vec<u8> {
        let mut params = rcgen::CertificateParams::new(vec!["localhost".into()]).unwrap();
        params.distinguished_name = rcgen::DistinguishedName::new();
        change(&mut params);
        params.self_signed(&rcgen::KeyPair::generate().unwrap()).unwrap().der().to_vec()
    }

    fn seconds(time: SystemTime) -> u64 {
        time.duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs()
    }

    #[test]
    fn subject_and_times_are_read() {
        let der = made(|params| {
            params.not_before = rcgen::date_time_ymd(1999, 12, 31);
            params.not_after = rcgen::date_time_ymd(2052, 2, 29);
            params.distinguished_name.push(rcgen::DnType::OrganizationName, "Ex, \"ample\"");
            params.distinguished_name.push(rcgen::DnType::CommonName, "a\n\u{1b}[31mb");
        });
        let facts = Facts::read(&der).unwrap();
        assert_eq!(facts.subject, r#"O=Ex, \"ample\", CN=a\n\u{1b}[31mb"#);
        assert_eq!((seconds(facts.not_before), seconds(facts.not_after)), (946_598_400, 2_592_777_600));
    }

    #[test]
    fn a_long_subject_is_cut_and_none_is_said_to_be_none() {
        let long = made(|params| params.distinguished_name.push(rcgen::DnType::CommonName, "ä".repeat(10_000)));
        assert_eq!(Facts::read(&long).unwrap().subject.chars().count(), MAX_SUBJECT_CHARS + 1);
        assert_eq!(Facts::read(&made(|_| ())).unwrap().subject, "(no subject)");
    }

    #[test]
    fn what_is_cut_is_no_certificate() {
        let der = made(|_| ());
        for cut in 0..der.len() {
            assert_eq!(Facts::read(&der[..cut]), None, "cut at {cut}");
        }
    }

    proptest! {
        #[test]
        fn nothing_makes_it_panic(mut der in Just(made(|_| ())), changes in prop::collection::vec((0usize..400, any::<u8>()), 0..6)) {
            for (at, byte) in changes {
                if let Some(place) = der.get_mut(at) {
                    *place = byte;
                }
            }
            let _any = Facts::read(&der);
        }
    }
}
