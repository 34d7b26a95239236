//! `hermit-cli bench …`: the loads of `hermit-load`, for a user's own topic.

mod report;

use std::io::{self, Write};
use std::time::Duration;

use anyhow::{Context, Result};
use hermit_client::{Acks, Client};
use hermit_load::{ConsumeLoad, EndToEndLoad, Meter, ProduceLoad, Spread, Target, Via};
use indicatif::ProgressBar;

use self::report::Report;
use crate::args::{BenchCommand, BenchConsumeArgs, BenchProduceArgs, EndToEndArgs, Output};
use crate::failure::Interrupted;
use crate::produce::refuse_internal;
use crate::progress;
use crate::signals::Signals;

/// How long records are sent if nothing else is said, in ms.
const DEFAULT_DURATION_MS: u64 = 10_000;
/// How often progress is drawn.
const DRAWN_EVERY: Duration = Duration::from_millis(200);

/// Runs a load, and tells what it came to. Fails where records were lost or wrong, after that was told.
pub(crate) async fn run(client: &Client, command: BenchCommand, via: Via, output: Output) -> Result<()> {
    if let BenchCommand::Consume(args) = &command {
        // A consumer creates no topic, and tells that it is missing with what to do.
        client.admin().describe_topic(&args.topic).await?;
    } else {
        refuse_internal(command.topic())?;
    }
    let (topic, meter) = (command.topic().to_owned(), Meter::default());
    let mut signals = Signals::new()?;
    let mut interrupted = None;
    let report = {
        let mut running = std::pin::pin!(Box::pin(start(command, &via, &meter)));
        loop {
            tokio::select! {
                report = &mut running => break report?,
                signal = signals.recv() => {
                    // A second one does not wait for the report.
                    if interrupted.replace(signal).is_some() {
                        return Err(Interrupted { signal }.into());
                    }
                    meter.stop();
                }
            }
        }
    };
    let mut out = Vec::new();
    match output {
        Output::Text => report.table(&mut out)?,
        Output::Json => writeln!(out, "{}", report.json(&topic)?)?,
    }
    io::stdout().write_all(&out).context("standard output")?;
    match interrupted {
        Some(signal) => Err(Interrupted { signal }.into()),
        None => report.verdict(),
    }
}

async fn start(command: BenchCommand, via: &Via, meter: &Meter) -> Result<Report> {
    match command {
        BenchCommand::Produce(args) => {
            let ready = produce_load(&args, via).prepare().await.map_err(of_load)?;
            watched(ready.run(meter), meter, args.records).await.map(Report::Produce)
        }
        BenchCommand::Consume(args) => {
            let ready = consume_load(&args, via).prepare().await.map_err(of_load)?;
            watched(ready.run(meter), meter, args.records).await.map(Report::Consume)
        }
        BenchCommand::E2e(args) => {
            let load = end_to_end_load(&args, via);
            if args.max_rate {
                return load.max_rate(meter).await.map(Report::MaxRate).map_err(of_load);
            }
            let rate = load.rate.unwrap_or_default();
            let ready = load.prepare().await.map_err(of_load)?;
            let report = watched(ready.run(meter), meter, None).await?;
            Ok(Report::EndToEnd { rate, report })
        }
    }
}

fn produce_load(args: &BenchProduceArgs, via: &Via) -> ProduceLoad {
    let unbounded = args.records.is_none() && args.duration.is_none();
    ProduceLoad {
        records: args.records,
        duration_ms: args.duration.map(|duration| duration.0).or(unbounded.then_some(DEFAULT_DURATION_MS)),
        size_bytes: args.load.size,
        contents: args.load.contents,
        batch_records: args.load.batch as usize,
        in_flight: args.in_flight as usize,
        results: args.results.into(),
        spread: args.keys.map_or(Spread::Partitions, Spread::Keys),
        compression: args.load.compression,
        rate: args.rate,
        acknowledged: args.acks != Acks::None,
        ..ProduceLoad::new(target(via, &args.topic, args.load.connections))
    }
}

fn consume_load(args: &BenchConsumeArgs, via: &Via) -> ConsumeLoad {
    let unbounded = args.records.is_none() && args.duration.is_none();
    // A group has no end that one could know from outside.
    let default = (unbounded && args.group.is_some()).then_some(DEFAULT_DURATION_MS);
    ConsumeLoad {
        records: args.records,
        duration_ms: args.duration.map(|duration| duration.0).or(default),
        until_end: unbounded && args.group.is_none(),
        start: args.from,
        owned: args.owned,
        check: args.check,
        group: args.group.clone(),
        ..ConsumeLoad::new(target(via, &args.topic, args.connections))
    }
}

fn end_to_end_load(args: &EndToEndArgs, via: &Via) -> EndToEndLoad {
    let base = EndToEndLoad::new(target(via, &args.topic, args.load.connections));
    EndToEndLoad {
        rate: Some(args.rate),
        duration_ms: args.duration.0,
        warm_up_ms: args.duration.0 / 10,
        size_bytes: args.load.size,
        contents: args.load.contents,
        batch_records: args.load.batch as usize,
        window: base.window.max(args.load.batch as usize),
        compression: args.load.compression,
        ..base
    }
}

fn target(via: &Via, topic: &str, connections: u32) -> Target {
    Target { connections: connections as usize, ..Target::via(via.clone(), topic) }
}

/// Draws progress while the load runs.
async fn watched<T>(running: impl Future<Output = hermit_load::Result<T>>, meter: &Meter, total: Option<u64>) -> Result<T> {
    let progress = progress::of_records(total);
    let mut running = std::pin::pin!(running);
    let mut ticks = tokio::time::interval(DRAWN_EVERY);
    let done = loop {
        tokio::select! {
            done = &mut running => break done,
            _ = ticks.tick() => draw(&progress, meter),
        }
    };
    progress.finish_and_clear();
    done.map_err(of_load)
}

fn draw(progress: &ProgressBar, meter: &Meter) {
    let seconds = progress.elapsed().as_secs_f64().max(0.001);
    #[expect(clippy::cast_precision_loss, reason = "for people")]
    let per_second = meter.records() as f64 / seconds;
    progress.set_message(format!("{per_second:.0} a second"));
    progress.set_position(meter.records());
}

/// The SDK's error, which is told with what to do, without the load around it.
fn of_load(error: hermit_load::Error) -> anyhow::Error {
    match error {
        hermit_load::Error::Client(error) => error.into(),
        other => other.into(),
    }
}
