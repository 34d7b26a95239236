use super::*;
use crate::backoff::BackoffConfig;
use hermit_proto::FrameSalt;
use std::time::Duration;

const SUBSCRIPTION: CorrelationId = CorrelationId(9);

fn assigned(on_damage: OnDamage, on_lost_position: OnLostPosition) -> Assignment {
    let topic = TopicId(1);
    let source = Source {
        topic: "t".into(),
        topic_id: topic,
        partition: PartitionId(0),
        salt: FrameSalt::new(topic, PartitionId(0)),
        max_unpacked_bytes: 1,
    };
    let policies = Policies { on_damage, on_lost_position };
    let mut assignment =
        Assignment::new(topic, source, Offset(10), LeaderEpoch(2), policies, Backoff::new(BackoffConfig::default()));
    assert_eq!(assignment.request(1000).offset, Offset(10));
    assignment.requested(SUBSCRIPTION, Instant::now());
    assignment.subscribed(&SubscribeResponse { start_offset: Offset(10), log_start: Offset(0), high_watermark: Offset(50) });
    assert_eq!(assignment.state, State::Subscribed { subscription: SUBSCRIPTION });
    assignment
}

fn lost_position() -> [WireError; 2] {
    [WireError::new(Status::Diverged, "x").detail(7), WireError::new(Status::OffsetOutOfRange, "x").detail(3).detail(7)]
}

#[test]
fn a_lost_position_is_an_error_by_default() {
    for error in lost_position() {
        let mut assignment = assigned(OnDamage::Stop, OnLostPosition::Fail);
        let remedy = assignment.trouble(error, true, Instant::now());
        let reported = matches!(
            remedy,
            Remedy::Report(
                Error::Diverged { position: Offset(10), leader_epoch: LeaderEpoch(2), epoch_end: Offset(7), .. }
                    | Error::OutOfRange { position: Offset(10), log_start: Offset(3), high_watermark: Offset(7), .. }
            )
        );
        assert!(reported, "{remedy:?}");
        assert!(assignment.is_over());
        assignment.seek(Offset(7), LeaderEpoch::UNKNOWN);
        assert!(assignment.is_due(Instant::now()));
    }
}

#[test]
fn a_lost_position_is_left_by_the_policy() {
    for error in lost_position() {
        let mut assignment = assigned(OnDamage::Stop, OnLostPosition::EpochEnd);
        assert!(matches!(assignment.trouble(error.clone(), true, Instant::now()), Remedy::GoOn));
        assert_eq!((assignment.position(), assignment.place().leader_epoch), (Offset(7), LeaderEpoch::UNKNOWN));
        assert!(assignment.is_due(Instant::now()));
        for (policy, expected) in [(OnLostPosition::Earliest, Reset::Earliest), (OnLostPosition::Latest, Reset::Latest)] {
            let mut assignment = assigned(OnDamage::Stop, policy);
            assert!(matches!(assignment.trouble(error.clone(), true, Instant::now()), Remedy::GoOn));
            assert_eq!(assignment.state, State::Lost(expected));
            assert!(!assignment.is_over() && !assignment.is_due(Instant::now()) && assignment.subscription().is_none());
        }
    }
}

#[test]
fn damage_stops_or_is_skipped_and_is_reported_either_way() {
    let damage = WireError::new(Status::CorruptLog, "x").detail(12).detail(20);
    for ended in [true, false] {
        let mut assignment = assigned(OnDamage::Stop, OnLostPosition::Fail);
        let remedy = assignment.trouble(damage.clone(), ended, Instant::now());
        assert!(matches!(remedy, Remedy::Report(Error::Corrupt { first: Offset(12), next: Offset(20), .. })), "{remedy:?}");
        assert_eq!((assignment.state, assignment.position()), (State::Stopped, Offset(10)));

        let mut assignment = assigned(OnDamage::Skip, OnLostPosition::Fail);
        let remedy = assignment.trouble(damage.clone(), ended, Instant::now());
        assert!(matches!(remedy, Remedy::Report(Error::Corrupt { .. })), "{remedy:?}");
        assert_eq!(assignment.position(), Offset(20));
        assert_eq!(assignment.is_due(Instant::now()), ended, "a subscription that goes on is kept");
    }
}

#[test]
fn damage_that_leads_nowhere_is_not_asked_for_in_circles() {
    for nowhere in [WireError::new(Status::CorruptLog, "x"), WireError::new(Status::CorruptLog, "x").detail(4).detail(9)] {
        let mut assignment = assigned(OnDamage::Skip, OnLostPosition::Fail);
        let now = Instant::now();
        assert!(matches!(assignment.trouble(nowhere, true, now), Remedy::Report(_)));
        assert!(!assignment.is_due(now), "only after a wait");
        assert!(assignment.next_wake(Duration::from_secs(1)).is_some());
    }
}

#[test]
fn what_time_cures_is_asked_for_again_and_what_it_does_not_is_reported() {
    let mut assignment = assigned(OnDamage::Stop, OnLostPosition::Fail);
    let now = Instant::now();
    assert!(matches!(assignment.trouble(WireError::new(Status::ShuttingDown, "x"), true, now), Remedy::GoOn));
    assert!(!assignment.is_due(now));
    assert!(assignment.is_due(now + Duration::from_secs(3)));

    for status in [Status::UnknownTopic, Status::NotAuthorized, Status::Other(7)] {
        let mut assignment = assigned(OnDamage::Stop, OnLostPosition::Fail);
        let remedy = assignment.trouble(WireError::new(status, "x"), true, Instant::now());
        assert!(matches!(remedy, Remedy::Report(_)), "{remedy:?}");
        assert!(assignment.is_over());
    }
}

#[test]
fn the_end_is_reached_by_records_and_by_gaps() {
    let mut assignment = assigned(OnDamage::Stop, OnLostPosition::Fail);
    assignment.stop_at(Offset(12));
    assert!(assignment.wants(Offset(11)) && !assignment.wants(Offset(12)));
    assignment.advance(Offset(11), Some(LeaderEpoch(3)));
    assert_eq!((assignment.is_over(), assignment.place().leader_epoch), (false, LeaderEpoch(3)));
    assignment.advance(Offset(15), None);
    assert_eq!(assignment.state, State::Ended);

    let mut assignment = assigned(OnDamage::Stop, OnLostPosition::Fail);
    assignment.stop_at(Offset(10));
    assert_eq!(assignment.state, State::Ended, "there already");
}

#[test]
fn a_log_that_begins_behind_the_position_moves_it() {
    let mut assignment = assigned(OnDamage::Stop, OnLostPosition::Fail);
    assignment.disconnected();
    assignment.requested(SUBSCRIPTION, Instant::now());
    assignment.subscribed(&SubscribeResponse { start_offset: Offset(30), log_start: Offset(30), high_watermark: Offset(50) });
    assert_eq!(assignment.place().offset, Offset(30));
    assert_eq!(assignment.place().leader_epoch, LeaderEpoch::UNKNOWN);
}
