//! Printing answers: aligned columns for people, JSON for programs.

use std::io::{self, Write};

use hermit_client::Record;
use serde_json::{Value, json};

/// Prints rows with their columns aligned, two blanks apart. Nothing stands behind the last column.
pub(crate) fn table(out: &mut impl Write, rows: &[Vec<String>]) -> io::Result<()> {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max().unwrap_or(0);
    let widths: Vec<_> = (0..columns).map(width).collect();
    for row in rows {
        let mut line = String::new();
        for (cell, width) in row.iter().zip(&widths) {
            if !line.is_empty() {
                line.push_str("  ");
            }
            line.push_str(cell);
            line.extend(std::iter::repeat_n(' ', width.saturating_sub(cell.chars().count())));
        }
        writeln!(out, "{}", line.trim_end())?;
    }
    Ok(())
}

/// A record as JSON. What is not UTF-8 stands in base64 under another name, so that nothing is lost or mistaken.
pub(crate) fn record(record: &Record) -> Value {
    let mut object = json!({
        "topic": &*record.topic,
        "partition": record.partition.0,
        "offset": record.offset.0,
        "timestamp_ns": record.timestamp,
        "append_time_ns": record.append_time,
        "leader_epoch": record.leader_epoch.0,
    });
    put(&mut object, "key", record.key.as_deref());
    put(&mut object, "value", record.value.as_deref());
    if !record.headers.is_empty() {
        let headers = record.headers.iter().map(|(name, value)| {
            let mut header = json!({ "name": name });
            put(&mut header, "value", value.as_deref());
            header
        });
        object["headers"] = headers.collect();
    }
    object
}

fn put(object: &mut Value, name: &str, bytes: Option<&[u8]>) {
    use base64::Engine as _;
    match bytes.map(|bytes| (bytes, std::str::from_utf8(bytes))) {
        None => object[name] = Value::Null,
        Some((_, Ok(text))) => object[name] = text.into(),
        Some((bytes, Err(_not_utf8))) => {
            object[format!("{name}_base64")] = base64::engine::general_purpose::STANDARD.encode(bytes).into();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned_by_characters() {
        let rows = [["a", "bb", "c"], ["äöü", "b", ""]].map(|row| row.map(str::to_owned).to_vec());
        let mut out = Vec::new();
        table(&mut out, &rows).unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), "a    bb  c\näöü  b\n");
    }

    #[test]
    fn bytes_that_are_no_text_are_kept() {
        let mut object = json!({});
        put(&mut object, "key", None);
        put(&mut object, "value", Some(&[0xFF, 0]));
        put(&mut object, "empty", Some(b""));
        assert_eq!(object, json!({ "key": null, "value_base64": "/wA=", "empty": "" }));
    }
}
