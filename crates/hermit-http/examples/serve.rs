//! A broker with HTTP and nothing else, in a temporary directory, until it is interrupted.
//!
//! `cargo run -p hermit-http --example serve`, and in another terminal `curl http://127.0.0.1:15672/api/v1/topics`

use hermit_broker::{Broker, BrokerConfig};
use hermit_http::{HttpConfig, serve};

#[tokio::main]
#[expect(clippy::print_stdout, reason = "an example")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let dir = std::env::temp_dir().join(format!("hermit-http-example-{}", std::process::id()));
    let broker = Broker::open(BrokerConfig::new(&dir))?;
    let listener = tokio::net::TcpListener::bind("127.0.0.1:15672").await?;
    println!("http://{}/api/v1", listener.local_addr()?);
    let serving = tokio::spawn({
        let broker = broker.clone();
        async move { serve(listener, &broker, HttpConfig::default()).await }
    });
    tokio::signal::ctrl_c().await?;
    broker.shutdown().await?;
    serving.await?;
    std::fs::remove_dir_all(dir)?;
    Ok(())
}
