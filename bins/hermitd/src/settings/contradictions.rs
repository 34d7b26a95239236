//! Values that are allowed each by itself, and not together.

use hermit_broker::BrokerConfig;

use super::gather::Gathered;
use super::quantity::{Bytes, Time};
use super::value::Value;

/// Adds what does not go together.
pub(super) fn find(broker: &BrokerConfig, gathered: &mut Gathered) {
    let limits = &broker.limits;
    let time = |duration| Time::of(duration).shown();
    let bytes = |bytes| Bytes(bytes).shown();
    let session = [limits.min_session_timeout, limits.default_session_timeout, limits.max_session_timeout];
    let processing = [limits.min_processing_timeout, limits.default_processing_timeout, limits.max_processing_timeout];
    for (kind, [min, default, max]) in [("session", session), ("processing", processing)] {
        let [least, usual, most] = ["min", "default", "max"].map(|which| format!("{which}_{kind}_timeout"));
        if !gathered.are_sound(&[&least, &usual, &most]) {
            continue;
        }
        if min > max {
            above(gathered, (&least, time(min)), (&most, time(max)));
        } else if default < min {
            above(gathered, (&least, time(min)), (&usual, time(default)));
        } else if default > max {
            above(gathered, (&usual, time(default)), (&most, time(max)));
        }
    }
    if limits.disk_low_bytes > limits.disk_high_bytes && gathered.are_sound(&["disk_low_bytes", "disk_high_bytes"]) {
        let (low, high) = (bytes(limits.disk_low_bytes), bytes(limits.disk_high_bytes));
        above(gathered, ("disk_low_bytes", low), ("disk_high_bytes", high));
    }
    if broker.default_partitions > limits.max_partitions && gathered.are_sound(&["default_partitions", "max_partitions"]) {
        let (default, most) = (broker.default_partitions.shown(), limits.max_partitions.shown());
        above(gathered, ("default_partitions", default), ("max_partitions", most));
    }
    let least = u64::from(limits.max_request_bytes) + (64 << 10);
    if limits.max_inflight_bytes < least && gathered.are_sound(&["max_inflight_bytes", "max_frame_bytes"]) {
        let (inflight, frame) = (bytes(limits.max_inflight_bytes), bytes(limits.max_frame_bytes.into()));
        let message = format!(
            "`max_inflight_bytes` is {inflight}: with `max_frame_bytes` of {frame} it must be at least {}; raise it, or lower `max_frame_bytes`",
            bytes(least)
        );
        gathered.wrong(&["max_inflight_bytes", "max_frame_bytes"], message);
    }
}

/// Says that the first value is above the second, with where the second stands when that is another place.
fn above(gathered: &mut Gathered, (low, low_value): (&str, String), (high, high_value): (&str, String)) {
    use super::finding::Origin;
    let [low_origin, high_origin] = [low, high].map(|name| gathered.origins.of(name));
    let there = match (&low_origin, &high_origin) {
        // It is told in front of the message.
        (Origin::Default, _) => String::new(),
        (_, Origin::Default) => ", the default".to_owned(),
        (_, origin) => format!(" ({origin})"),
    };
    let default = if low_origin == Origin::Default { ", the default," } else { "" };
    let message = format!("`{low}` is {low_value}{default} which is more than `{high}` of {high_value}{there}: change one of them");
    gathered.wrong(&[low, high], message);
}
