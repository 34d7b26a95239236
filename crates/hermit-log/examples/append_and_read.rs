//! Appends some messages to a log in a temporary directory, reads them back, and opens the log again.
#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use bytes::BytesMut;
use hermit_log::{Batch, Clock, Log, LogConfig, SystemClock};
use hermit_proto::{FrameView, Offset, ProducedFrame};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let dir = tempfile::tempdir()?;
    let config = LogConfig::default();
    let limits = config.frame_limits;
    let (log, _report) = Log::open(dir.path(), config.clone())?;

    let now = SystemClock.now();
    let mut frames = BytesMut::new();
    for city in ["Newark", "Houston", "Miami"] {
        frames.extend_from_slice(&ProducedFrame::message(now, Some(b"city"), city.as_bytes()).to_vec()?);
    }
    // One batch is one write, whatever the number of frames.
    let appended = log.append(&mut Batch::parse(frames, &limits)?)?;
    log.wait_flushed(appended.next_offset)?;
    println!("offsets {} to {} are on disk", appended.base_offset, appended.next_offset);

    let mut cursor = log.cursor(Offset::ZERO)?;
    while let Some(range) = cursor.next(1 << 20)? {
        let mut bytes = Vec::new();
        range.read_into(&mut bytes)?;
        let mut rest = &bytes[..];
        while !rest.is_empty() {
            let (frame, behind) = FrameView::split(rest, &limits)?;
            frame.verify_body()?;
            println!("{}: {}", frame.prefix.offset(), String::from_utf8_lossy(frame.payload()));
            rest = behind;
        }
    }
    log.close()?;
    drop(cursor);

    let (log, report) = Log::open(dir.path(), config)?;
    println!("opened again at offset {}; {} frames had to be read for that", log.bounds().log_end, report.scanned_frames);
    Ok(())
}
