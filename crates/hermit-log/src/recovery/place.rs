//! Where damage lies in the log, and what is missing: between segments, behind the last, before the first.

use hermit_proto::Offset;

use super::RecoveryReport;
use super::act::Opening;
use super::decide::Placed;
use super::facts::Facts;
use super::part::Part;
use crate::fenced::Fenced;
use crate::names;
use crate::scan::Damage;

/// What is known of the log beside its segments.
pub(super) struct Expected<'a> {
    pub(super) first_unflushed: usize,
    pub(super) fenced: &'a Fenced,
    pub(super) log_start: Offset,
    pub(super) floor: Offset,
    /// See [`compacted_end`].
    pub(super) compacted_end: Option<Offset>,
}

/// All damage in log order, with missing bytes as damage of no size. What is missing before the log start was removed.
pub(super) fn place_damages(
    parts: &mut [Part],
    expected: &Expected<'_>,
    is_end_known: impl Fn(&Part, &Damage) -> bool,
) -> Vec<Placed> {
    let Expected { first_unflushed, fenced, log_start, floor, compacted_end } = *expected;
    let mut placed = Vec::new();
    let mut log_position = 0;
    let next_bases: Vec<_> = parts.iter().skip(1).map(|part| Some(part.base)).chain([None]).collect();
    for (segment, (part, next_base)) in parts.iter_mut().zip(next_bases).enumerate() {
        // Behind the last segment, what is known to be flushed stands for the next one's base.
        let goes_on_at = next_base.unwrap_or_else(|| floor.max(part.end));
        let last_is_open = part.damages.last().is_some_and(|damage| damage.next.is_none());
        if last_is_open {
            let is_end_known = part.damages.last().is_some_and(|damage| is_end_known(part, damage));
            if let Some(damage) = part.damages.last_mut() {
                // At least one record was there. Where nothing tells how many, there were hardly more than bytes: none of their offsets is
                // to be given again, and a gap costs nothing.
                let records = match next_base {
                    Some(_) => 0,
                    None if is_end_known => 1,
                    None => (damage.next_position - damage.position).max(1),
                };
                damage.next = Some(goes_on_at.max(Offset(damage.from.0.saturating_add(records))));
            }
        } else {
            let may_lack = compacted_end.is_some_and(|end| goes_on_at <= end);
            let known = fenced.missing_behind(part.base, part.len_bytes).filter(|range| part.end < range.next);
            let lacks = |from, next| Damage { position: part.len_bytes, next_position: part.len_bytes, from, next: Some(next) };
            if let Some(known) = known {
                part.damages.push(lacks(known.from, known.next));
                part.end = known.next;
            }
            if part.end < goes_on_at && log_start < goes_on_at && !may_lack {
                let from = compacted_end.filter(|_| next_base.is_some()).max(Some(part.end)).unwrap_or(part.end);
                part.damages.push(lacks(from, goes_on_at));
            }
        }
        if let Some(next) = part.damages.last().and_then(|damage| damage.next).filter(|next| *next >= goes_on_at) {
            part.end = next;
        }
        if segment < first_unflushed {
            log_position = 0;
        }
        let start = log_position;
        placed.extend(part.damages.iter().map(|damage| Placed {
            segment,
            log_position: start + i64::try_from(damage.position).unwrap_or(i64::MAX),
            damage: *damage,
        }));
        if segment >= first_unflushed {
            part.log_position = start;
            log_position = start + i64::try_from(part.len_bytes).unwrap_or(0);
        }
    }
    placed
}

/// The log should begin before its first segment: that one is gone. Compaction removes segments, and a damaged log start says nothing.
pub(super) fn missing_head(opening: &Opening<'_>, facts: &Facts, report: &RecoveryReport) -> Option<Placed> {
    let first = facts.segments.first()?.base;
    let compacted_end = compacted_end(opening, facts);
    let start = facts.start.unwrap_or(Offset::ZERO);
    let from = start.max(compacted_end.unwrap_or(start));
    let is_known = !report.damaged_state.iter().any(|name| name == names::START);
    let damage = Damage { position: 0, next_position: 0, from, next: Some(first) };
    (is_known && from < first).then_some(Placed { segment: 0, log_position: 0, damage })
}

pub(super) fn is_missing_head(placed: &Placed, part: &Part) -> bool {
    placed.segment == 0 && placed.damage.from < part.base
}

/// Gaps before are a compaction's. Where the marker does not tell how far that came, no further than the checkpoint, which it settles first.
pub(super) fn compacted_end(opening: &Opening<'_>, facts: &Facts) -> Option<Offset> {
    let checkpointed = facts.checkpoint.filter(|_| !opening.clean).map(|checkpoint| checkpoint.offset);
    opening.compacted_end.map(|end| if end == Offset(u64::MAX) { checkpointed.unwrap_or(end) } else { end })
}
