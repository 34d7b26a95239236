//! Topics.

use axum::http::StatusCode;
use hermit_broker::proto::TopicName;
use hermit_broker::proto::session::AccessOperations;

use crate::answer::Answer;
use crate::auth::Client;
use crate::blocking::blocking;
use crate::body::Unread;
use crate::params::{Path, Query};
use crate::problem::Problem;
use crate::schema::{NewTopic, Page, TopicChange, TopicInfo, TopicPage};

/// Lists topics that the client has some right on.
#[utoipa::path(get, path = "/api/v1/topics", tag = "topics", params(Page), responses((status = 200, body = TopicPage), (status = "default", body = Problem)))]
pub(super) async fn list(client: Client, Query(page): Query<Page>) -> Result<Answer<TopicPage>, Problem> {
    let (caller, most) = (client.caller.clone(), page.most());
    let broker = client.broker.clone();
    // Rules may be many, and dear to match with all topics.
    blocking(move || {
        let topics = broker.topics();
        let behind = topics.partition_point(|topic| topic.meta.name.as_str() <= page.after.as_str());
        let rest = topics.get(behind..).unwrap_or_default();
        let mut seen = rest.iter().filter(|topic| !caller.on_topic(topic.meta.name.as_str()).is_empty());
        let topics = seen.by_ref().take(most).map(|topic| TopicInfo::of(topic)).collect();
        Ok(Answer(TopicPage { topics, more: seen.next().is_some() }))
    })
    .await
}

/// Creates a topic. Once this is answered it survives a power cut.
#[utoipa::path(post, path = "/api/v1/topics", tag = "topics", request_body = NewTopic, responses((status = 201, body = TopicInfo), (status = "default", body = Problem)))]
pub(super) async fn create(mut client: Client, body: Unread) -> Result<(StatusCode, Answer<TopicInfo>), Problem> {
    client.caller.check_some_topic(AccessOperations::CREATE)?;
    let new: NewTopic = body.json(&client.broker).await?;
    client.check_topic_now(&new.name, AccessOperations::CREATE)?;
    let broker = client.broker.clone();
    blocking(move || {
        let topic = broker.create_topic(&new.name, new.partitions, &new.settings.to_config())?;
        Ok((StatusCode::CREATED, Answer(TopicInfo::with_partitions(&topic))))
    })
    .await
}

/// Describes a topic and its partitions.
#[utoipa::path(get, path = "/api/v1/topics/{topic}", tag = "topics", params(("topic" = String, Path, description = "Its name")), responses((status = 200, body = TopicInfo), (status = "default", body = Problem)))]
pub(super) async fn describe(client: Client, Path(topic): Path<String>) -> Result<Answer<TopicInfo>, Problem> {
    client.caller.check_sees_topic(&topic)?;
    let topic = client.broker.topic(&TopicName::new(&topic)?)?;
    Ok(Answer(TopicInfo::with_partitions(&topic)))
}

/// Changes settings of a topic, and adds partitions.
#[utoipa::path(patch, path = "/api/v1/topics/{topic}", tag = "topics", params(("topic" = String, Path, description = "Its name")), request_body = TopicChange, responses((status = 200, body = TopicInfo), (status = "default", body = Problem)))]
pub(super) async fn alter(mut client: Client, Path(topic): Path<String>, body: Unread) -> Result<Answer<TopicInfo>, Problem> {
    client.caller.check_topic(&topic, AccessOperations::ADMINISTER)?;
    let change: TopicChange = body.json(&client.broker).await?;
    client.check_topic_now(&topic, AccessOperations::ADMINISTER)?;
    let (name, broker) = (TopicName::new(&topic)?, client.broker.clone());
    blocking(move || {
        let config = change.settings.to_config();
        // What is refused is refused before anything is changed, and a shorter retention deletes for good.
        if let Some(partitions) = change.partitions {
            broker.topic(&name)?.meta.settings.with(&config)?;
            broker.add_partitions(&name, partitions)?;
        }
        let topic = broker.alter_topic(&name, &config)?;
        Ok(Answer(TopicInfo::with_partitions(&topic)))
    })
    .await
}

/// Deletes a topic and its data.
#[utoipa::path(delete, path = "/api/v1/topics/{topic}", tag = "topics", params(("topic" = String, Path, description = "Its name")), responses((status = 204), (status = "default", body = Problem)))]
pub(super) async fn delete(client: Client, Path(topic): Path<String>) -> Result<StatusCode, Problem> {
    client.caller.check_topic(&topic, AccessOperations::ADMINISTER)?;
    let (name, broker) = (TopicName::new(&topic)?, client.broker.clone());
    blocking(move || {
        broker.delete_topic(&name)?;
        Ok(StatusCode::NO_CONTENT)
    })
    .await
}
