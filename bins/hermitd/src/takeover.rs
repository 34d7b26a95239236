//! Taking over the data directory of an older HermitMQ, at start.

use anyhow::{Context as _, bail};
use hermit_broker::BrokerConfig;
use hermit_broker::import::{self, Found, Plan};

use crate::notify;
use crate::settings::ImportName;

/// Bytes from one line of progress to the next.
const TELL_BYTES: u64 = 1 << 30;

/// Imports what an older HermitMQ has left in the data directory, if that is what it holds.
pub(crate) fn take_over(config: &BrokerConfig, import: ImportName) -> anyhow::Result<()> {
    let dir = &config.data_dir;
    let old_dir = match import::look(dir)? {
        Found::Nothing | Found::Current => return Ok(()),
        Found::Older => dir.clone(),
        // Of another directory, where the command line began it.
        Found::Unfinished { from } => from,
    };
    if import == ImportName::Never {
        bail!(
            "{} holds the data of an older HermitMQ, and `import` is `never`: set it to `auto`, run `hermit-cli log import {}`, or choose another data directory",
            dir.display(),
            old_dir.display()
        );
    }
    tracing::warn!(old_dir = %old_dir.display(), data_dir = %dir.display(), "the data of an older HermitMQ are taken over, which copies all of them once");
    let mut told_bytes = 0;
    let imported = import::run(&old_dir, config, |progress| {
        if progress.done_bytes >= told_bytes + TELL_BYTES {
            told_bytes = progress.done_bytes;
            let import::Progress { topic, partition, done_bytes, total_bytes } = *progress;
            tracing::info!(%topic, %partition, done_bytes, total_bytes, "importing");
            notify::starting(&format!("Taking over older data: {done_bytes} of {total_bytes} bytes are copied"));
        }
    });
    let plan = imported.context("the data of the older HermitMQ were not taken over, and no broker was started")?;
    tell(&plan);
    Ok(())
}

fn tell(plan: &Plan) {
    for finding in &plan.findings {
        tracing::warn!(%finding, "import: something is not as it should be");
    }
    for topic in &plan.topics {
        for partition in &topic.partitions {
            let (first, end, frames) = (partition.first, partition.end, partition.frames);
            tracing::info!(topic = %topic.name, partition = %partition.partition, %first, %end, frames, "imported");
        }
    }
    tracing::warn!(
        topics = plan.topics.len(),
        frames = plan.frames(),
        bytes = plan.body_bytes(),
        committed_positions = plan.positions,
        findings = plan.findings.len(),
        old_dir = %plan.old_dir.display(),
        "the data of the older HermitMQ were taken over; their age counts from now. The old directories are unchanged and not used any more: remove them once you are content"
    );
}
