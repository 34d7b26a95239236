//! What the fuzz targets of this crate do with their bytes: plain functions over what is private here, which `fuzz/` runs under libFuzzer,
//! and a test below over the stored corpus, on any compiler. None may panic but for its own assertions.

mod directories;
#[cfg(test)]
mod smoke;
mod steps;
mod world;

pub use crate::access::fuzzing::access;
pub use crate::manifest::fuzzing::manifest;
pub use crate::offsets::fuzzing::positions;
pub use crate::server::fuzzing::{requests, v1_consumer, v1_stream};
pub use directories::{data_directory, old_directory};
pub(crate) use steps::Steps;
pub(crate) use world::World;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_users_and_rules() {
        smoke::run("access", access);
    }

    #[test]
    fn manifests_and_copies_of_topics() {
        smoke::run("manifest", manifest);
    }

    #[test]
    fn committed_positions() {
        smoke::run("positions", positions);
    }

    #[test]
    fn streams_of_version_1_producers() {
        smoke::run("v1_stream", v1_stream);
    }

    #[test]
    fn what_version_1_consumers_get() {
        smoke::run("v1_consumer", v1_consumer);
    }

    #[test]
    fn sessions() {
        smoke::run("requests", requests);
    }

    #[test]
    fn data_directories() {
        smoke::run("data_directory", data_directory);
    }

    #[test]
    fn directories_of_older_releases() {
        smoke::run("old_directory", old_directory);
    }
}
