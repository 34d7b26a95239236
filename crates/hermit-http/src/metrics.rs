//! The broker's figures as OpenMetrics text.

use std::fmt::Write as _;

use hermit_broker::Broker;

/// What `/metrics` answers with.
pub const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Writes all metrics of a broker, and the end that OpenMetrics asks for, behind what is in `out`.
pub fn write(broker: &Broker, out: &mut String) {
    out.push_str("# HELP hermit_connections Client connections over the native port.\n# TYPE hermit_connections gauge\n");
    // Writing to a string does not fail.
    let _infallible = writeln!(out, "hermit_connections {}", broker.connections());
    out.push_str("# EOF\n");
}
