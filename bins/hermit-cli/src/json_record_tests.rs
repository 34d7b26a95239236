use super::*;

#[test]
fn null_empty_and_missing_are_told_apart() {
    let read = |line: &str| parse(line.as_bytes()).map(|record| (record.key, record.value));
    assert_eq!(read(r#"{"key":null,"value":""}"#), Ok((None, Some(vec![]))));
    assert_eq!(read(r#"{"key":"","value":null}"#), Ok((Some(vec![]), None)));
    assert_eq!(read(r#"{"value":"v"}"#), Ok((None, Some(b"v".to_vec()))));
    assert_eq!(read(r#"{"key_base64":"/wA=","value_base64":""}"#), Ok((Some(vec![0xFF, 0]), Some(vec![]))));
    assert!(read(r#"{"key":"k"}"#).unwrap_err().contains("no field `value`"));
}

#[test]
fn headers_times_and_partitions_are_read() {
    let line =
        r#"{"value":"v","headers":{"a":"1","b":null},"timestamp":"1970-01-01T00:00:01Z","partition":3,"topic":"x","offset":9}"#;
    let record = parse(line.as_bytes()).unwrap();
    assert_eq!(record.headers, [("a".to_owned(), Some(b"1".to_vec())), ("b".to_owned(), None)]);
    assert_eq!((record.timestamp, record.partition), (Some(1_000_000_000), Some(3)));

    let line = r#"{"value":"v","headers":[{"name":"a","value_base64":"/w=="},{"name":"a","value":null}],"timestamp_ms":7}"#;
    let record = parse(line.as_bytes()).unwrap();
    assert_eq!(record.headers, [("a".to_owned(), Some(vec![0xFF])), ("a".to_owned(), None)]);
    assert_eq!(record.timestamp, Some(7_000_000));
}

#[test]
fn the_field_at_fault_is_named() {
    for (line, part) in [
        ("", "not JSON"),
        ("{\"value\":\"v\"", "not JSON"),
        ("{\"value\":\"v\"} x", "not JSON: trailing characters, at byte 15"),
        ("[1]", "it is a list"),
        (r#"{"value":7}"#, "`value` is a number"),
        (r#"{"value":{"a":1}}"#, "`value` is an object"),
        (r#"{"value":"v","value":"w"}"#, "`value` is there twice"),
        (r#"{"value":"v","value_base64":""}"#, "both `value` and `value_base64`"),
        (r#"{"value_base64":"?"}"#, "`value_base64` is not base64"),
        (r#"{"value_base64":null}"#, "`value_base64` is null"),
        (r#"{"value":"v","kye":"k"}"#, "`kye` is not known"),
        (r#"{"value":"v","partition":-1}"#, "`partition` is -1"),
        (r#"{"value":"v","partition":4294967296}"#, "`partition` is 4294967296"),
        (r#"{"value":"v","timestamp":7}"#, "`timestamp` should be RFC 3339"),
        (r#"{"value":"v","timestamp_ms":1.5}"#, "`timestamp_ms` should be a whole number"),
        (r#"{"value":"v","timestamp_ms":18446744073709551615}"#, "`timestamp_ms` should be"),
        (r#"{"value":"v","timestamp_ms":1,"timestamp_ns":1}"#, "both `timestamp_ms` and `timestamp_ns`"),
        (r#"{"value":"v","headers":"h"}"#, "`headers` is a string"),
        (r#"{"value":"v","headers":["h"]}"#, "`headers` has a string"),
        (r#"{"value":"v","headers":[{"value":"h"}]}"#, "no `name`"),
        (r#"{"value":"v","headers":[{"name":"h"}]}"#, "`h` has no `value`"),
        (r#"{"value":"v","headers":[{"name":"h","name":"i","value":""}]}"#, "`name` is there twice"),
        (r#"{"value":"v","headers":[{"name":"h","value":"","x":1}]}"#, "`headers.x` is not known"),
        (r#"{"value":"v","headers":{"h":1}}"#, "`headers.h` is a number"),
        ("{\"value\":\"\u{1}\"}", "not JSON"),
        (r#"{"value":"\ud800"}"#, "not JSON"),
    ] {
        let error = parse(line.as_bytes()).unwrap_err();
        assert!(error.contains(part), "{line}: {error}");
    }
    assert!(parse(&[b"[".repeat(100_000), b"]".repeat(100_000)].concat()).unwrap_err().contains("not JSON"));
}
