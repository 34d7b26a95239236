//! The rule for names.

use hermit_proto::session::{Status, WireError};
use hermit_proto::*;

#[test]
fn what_is_allowed_is_kept_as_it_is() {
    for name in ["x", "Foo", "foo", "../../x", "a/b", "a:b", " ", ".", "naïve", "日本", &"x".repeat(255)] {
        assert_eq!(TopicName::new(name).unwrap().as_str(), name);
        assert_eq!(GroupName::new_public(name).unwrap().as_str(), name);
    }
    assert_ne!(TopicName::new("Foo"), TopicName::new("foo"));
}

#[test]
fn what_is_not_says_why() {
    let kind = "topic";
    let cases: [(&[u8], NameError); 6] = [
        (b"", NameError::Empty { kind }),
        (&[b'x'; 256], NameError::TooLong { kind, bytes: 256 }),
        (b"ab\xff", NameError::NotUtf8 { kind, position: 2 }),
        (b"a\0b", NameError::Control { kind, character: '\0', position: 1 }),
        (b"a\x7f", NameError::Control { kind, character: '\x7f', position: 1 }),
        ("a\u{85}".as_bytes(), NameError::Control { kind, character: '\u{85}', position: 1 }),
    ];
    for (name, error) in cases {
        assert_eq!(TopicName::new(name), Err(error.clone()));
        let wire = WireError::from(error);
        assert_eq!((wire.status, wire.field.as_str()), (Status::InvalidName, "topic"));
    }
}

#[test]
fn two_underscores_are_the_brokers() {
    let name = TopicName::new("__consumer_offsets").unwrap();
    assert!(name.is_internal());
    assert_eq!(TopicName::new_public("__consumer_offsets"), Err(NameError::Reserved { kind: "topic" }));
    assert!(!TopicName::new_public("_x_").unwrap().is_internal());
    assert_eq!("__g".parse::<GroupName>().map(|group| group.is_internal()), Ok(true));
}
