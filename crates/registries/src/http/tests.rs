use futures::future::join_all;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Barrier;

use super::*;

/// Answers one request and no other, or all.
async fn serve(mut socket: TcpStream, all: bool, together: Arc<Barrier>) -> std::io::Result<()> {
    let mut said = Vec::new();
    for n in 0.. {
        while !said.ends_with(b"\r\n\r\n") {
            if socket.read_buf(&mut said).await? == 0 {
                return Ok(());
            }
        }
        said.clear();
        if all || n == 0 {
            if !all {
                together.wait().await;
            }
            let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
            socket.write_all(answer).await?;
        }
    }
    Ok(())
}

#[tokio::test]
async fn of_connections_that_were_lost_without_a_word_one_is_waited_for() {
    const LOST: usize = 4;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        let together = Arc::new(Barrier::new(LOST));
        for n in 0.. {
            let (socket, _) = listener.accept().await.unwrap();
            tokio::spawn(serve(socket, n >= LOST, together.clone()));
        }
    });
    let server = Server {
        tls: false,
        host: "127.0.0.1".into(),
        port,
    };
    let client = Client::new(server, Vec::new());
    let long = Duration::from_secs(60);
    let first = (0..LOST).map(|_| client.get("/", long, 100));
    for answer in join_all(first).await {
        assert_eq!(&*answer.unwrap().body, b"ok");
    }
    let lost = client.get("/", Duration::from_millis(100), 100).await;
    assert!(matches!(lost, Err(HttpError::TimedOut(..))), "{lost:?}");
    let again = client.get("/", long, 100).await;
    assert_eq!(&*again.unwrap().body, b"ok");
}
