//! Values that several commands take.

use hermit_client::{Codec, Durability, OnLostPosition};

pub(super) fn durability(text: &str) -> Result<Durability, String> {
    match text {
        "sync" => Ok(Durability::Sync),
        "os" => Ok(Durability::Os),
        _ => Err("it is `sync` or `os`".to_owned()),
    }
}

pub(super) fn switch(text: &str) -> Result<bool, String> {
    match text {
        "on" => Ok(true),
        "off" => Ok(false),
        _ => Err("it is `on` or `off`".to_owned()),
    }
}

pub(super) fn codec(text: &str) -> Result<Codec, String> {
    match text {
        "none" => Ok(Codec::None),
        "lz4" => Ok(Codec::Lz4),
        "zstd" => Ok(Codec::Zstd),
        _ => Err("it is `none`, `lz4` or `zstd`".to_owned()),
    }
}

pub(super) fn on_lost_position(text: &str) -> Result<OnLostPosition, String> {
    match text {
        "earliest" => Ok(OnLostPosition::Earliest),
        "latest" => Ok(OnLostPosition::Latest),
        "epoch-end" => Ok(OnLostPosition::EpochEnd),
        _ => Err("it is `earliest`, `latest` or `epoch-end`".to_owned()),
    }
}
