//! A broker with HTTP and nothing else, in a temporary directory: a topic is created, and the list of topics asked for, as any client would.
//!
//! `cargo run -p hermit-http --example serve`

use hermit_broker::{Broker, BrokerConfig, TopicConfig};
use hermit_http::{HttpConfig, serve};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

#[tokio::main]
#[expect(clippy::print_stdout, reason = "an example")]
async fn main() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let broker = Broker::open(BrokerConfig::new(dir.path()))?;
    broker.create_topic("greetings", 1, &TopicConfig::default())?;
    // A fixed port, such as 127.0.0.1:15672, is what others can find.
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    let serving = tokio::spawn({
        let broker = broker.clone();
        async move { serve(listener, &broker, HttpConfig::default()).await }
    });
    let mut client = TcpStream::connect(address).await?;
    let request = format!("GET /api/v1/topics HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    client.write_all(request.as_bytes()).await?;
    let mut answer = String::new();
    client.read_to_string(&mut answer).await?;
    println!("{answer}");
    // The server ends with the broker.
    broker.shutdown().await?;
    serving.await?;
    Ok(())
}
