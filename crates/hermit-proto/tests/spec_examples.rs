//! The examples of `docs/protocol.md` are read out of the document, decoded, compared and written again.
#![expect(clippy::unwrap_used, reason = "a failed expectation is the test's failure")]

mod samples;

use std::collections::BTreeMap;
use std::fmt::Write;

const DOCUMENT: &str = include_str!("../../../docs/protocol.md");

/// The blocks fenced as `hex name=…`: pairs of digits, with a remark behind `#`.
fn examples() -> BTreeMap<String, Vec<u8>> {
    let mut examples = BTreeMap::new();
    let mut lines = DOCUMENT.lines();
    while let Some(line) = lines.next() {
        let Some(name) = line.strip_prefix("```hex name=") else { continue };
        let mut bytes = Vec::new();
        for line in lines.by_ref().take_while(|line| !line.starts_with("```")) {
            let digits: String = line.split('#').next().unwrap().split_whitespace().collect();
            assert!(digits.len().is_multiple_of(2), "{name}: an odd number of digits in {line:?}");
            bytes.extend((0..digits.len()).step_by(2).map(|at| u8::from_str_radix(&digits[at..at + 2], 16).unwrap()));
        }
        assert!(examples.insert(name.to_owned(), bytes).is_none(), "two examples named {name}");
    }
    examples
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").unwrap();
        text
    })
}

#[test]
fn every_example_reads_as_it_says_and_is_written_so_again() {
    let mut examples = examples();
    for sample in samples::all() {
        let bytes = examples.remove(sample.name).unwrap_or_else(|| panic!("the document has no example {}", sample.name));
        let again = (sample.reread)(&bytes).unwrap_or_else(|error| panic!("{}: {error}", sample.name));
        assert_eq!(hex(&again), hex(&bytes), "{}", sample.name);
        if !sample.name.starts_with("record-set-") {
            assert_eq!(hex(&sample.bytes), hex(&bytes), "{}", sample.name);
        }
    }
    assert!(examples.is_empty(), "examples that nothing checks: {:?}", examples.keys());
}

#[test]
fn every_operation_and_status_stands_in_the_document_with_its_number() {
    use hermit_proto::session::{Operation, Status};
    for operation in Operation::ALL {
        let row = format!("| {} | `{}` |", operation.number(), operation.name());
        assert!(DOCUMENT.contains(&row), "{row}");
    }
    for status in Status::ALL {
        let row = format!("| {} | `{}` |", status.code(), status.name());
        assert!(DOCUMENT.contains(&row), "{row}");
    }
}
