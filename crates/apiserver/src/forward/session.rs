//! One connection that forwards ports: for each connection of the client two streams, one for data and one for what goes wrong.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;

use super::spdy::{self, Decoder, Encoder, Frame};
use super::websocket::write;

/// Streams at one time, and connections to ports.
const STREAMS: usize = 256;
/// A connection on which nothing comes in either direction ends after so long, or up to twice as long.
const IDLE: Duration = Duration::from_secs(60 * 60);
/// What is read at once.
const PIECE: usize = 32 << 10;
/// Frames that wait to be written, and pieces that a port has not taken.
const WAITING: usize = 16;

/// A stream that the client has opened.
enum Stream {
    /// For what goes wrong with the connection of this id.
    Error(String),
    /// For data.
    Data {
        /// Where the data goes, until the client has sent its last.
        port: Option<mpsc::Sender<Bytes>>,
        /// Dropped with the stream, which ends the connection to the port.
        _open: oneshot::Sender<()>,
    },
}

/// Forwards until either side ends the connection, or neither says anything.
pub(super) async fn run<S>(connection: S, ports: Arc<[(u16, SocketAddr)]>)
where
    S: AsyncRead + AsyncWrite + Send + 'static,
{
    let (reader, writer) = tokio::io::split(connection);
    let (send, queue) = mpsc::channel(WAITING);
    let session = Session {
        ports,
        send,
        encoder: Encoder::default(),
        streams: HashMap::new(),
        tasks: JoinSet::new(),
        active: Arc::default(),
    };
    let active = session.active.clone();
    tokio::select! {
        () = session.read(reader) => {}
        () = idle(&active) => {}
        () = write(writer, queue, |_| false) => {}
    }
}

/// Ends once nothing has come for a while.
async fn idle(active: &AtomicBool) {
    loop {
        tokio::time::sleep(IDLE).await;
        if !active.swap(false, Ordering::Relaxed) {
            return;
        }
    }
}

struct Session {
    ports: Arc<[(u16, SocketAddr)]>,
    send: mpsc::Sender<Bytes>,
    encoder: Encoder,
    streams: HashMap<u32, Stream>,
    /// The connections to ports, which end with this one.
    tasks: JoinSet<u32>,
    /// Whether anything has come, from the client or from a port, since this was last looked at.
    active: Arc<AtomicBool>,
}

impl Session {
    async fn read(mut self, mut reader: impl AsyncRead + Unpin) {
        let (mut decoder, mut buffer) = (Decoder::default(), vec![0; PIECE]);
        loop {
            let read = match reader.read(&mut buffer).await {
                Ok(0) | Err(_) => return,
                Ok(read) => read,
            };
            self.active.store(true, Ordering::Relaxed);
            decoder.push(&buffer[..read]);
            loop {
                let frame = match decoder.pop() {
                    Ok(Some(frame)) => frame,
                    Ok(None) => break,
                    Err(error) => {
                        tracing::debug!(%error, "A client that forwards ports is disconnected.");
                        return;
                    }
                };
                if self.take(frame).await.is_none() {
                    return;
                }
            }
        }
    }

    /// Takes in a frame; `None` at the end.
    async fn take(&mut self, frame: Frame) -> Option<()> {
        while let Some(ended) = self.tasks.try_join_next() {
            if let Ok(stream) = ended {
                self.streams.remove(&stream);
            }
        }
        match frame {
            Frame::Open {
                stream, headers, ..
            } => self.open(stream, &headers).await,
            Frame::Data { stream, data, last } => {
                if let Some(Stream::Data { port, .. }) = self.streams.get_mut(&stream) {
                    if let Some(port) = port.as_ref().filter(|_| !data.is_empty()) {
                        // One that is closed takes nothing; the client is told by its stream.
                        let _ = port.send(data).await;
                    }
                    if last {
                        *port = None;
                    }
                }
                Some(())
            }
            Frame::Reset { stream } => {
                self.streams.remove(&stream);
                Some(())
            }
            Frame::Ping { id } => self.send(spdy::ping(id)).await,
            Frame::End => None,
            Frame::Other => Some(()),
        }
    }

    async fn send(&self, frame: Bytes) -> Option<()> {
        self.send.send(frame).await.ok()
    }

    async fn open(&mut self, stream: u32, headers: &[(String, String)]) -> Option<()> {
        let header = |name: &str| {
            let found = headers.iter().find(|(known, _)| known == name);
            found.map_or("", |(_, value)| value.as_str())
        };
        let kind = header("streamtype");
        // A connection may outlive its stream for a moment.
        let full = self.streams.len().max(self.tasks.len()) >= STREAMS
            || self.streams.contains_key(&stream);
        if full || !matches!(kind, "error" | "data") {
            return self.send(spdy::refuse(stream)).await;
        }
        let reply = self.encoder.reply(stream);
        self.send(reply).await?;
        let id = header("requestid");
        if kind == "error" {
            self.streams.insert(stream, Stream::Error(id.to_owned()));
            return Some(());
        }
        let mut errors = self.streams.iter();
        let error = errors.find(|(_, s)| matches!(s, Stream::Error(known) if known == id));
        let error = error.map(|(stream, _)| *stream);
        if let Some(error) = error {
            self.streams.remove(&error);
        }
        let port = header("port");
        let stated: Option<u16> = port.parse().ok();
        let known = self.ports.iter().find(|(known, _)| Some(*known) == stated);
        let address = known
            .map(|(_, address)| *address)
            .ok_or_else(|| format!("the control plane does not listen on port {port}"));
        let (to_port, from_client) = mpsc::channel(WAITING);
        let (open, reset) = oneshot::channel();
        let data = Stream::Data {
            port: Some(to_port),
            _open: open,
        };
        self.streams.insert(stream, data);
        let (send, active) = (self.send.clone(), self.active.clone());
        self.tasks.spawn(async move {
            let carried = async {
                let failure = match address {
                    Ok(address) => forward(stream, address, from_client, &send, &active)
                        .await
                        .err(),
                    Err(why) => Some(why),
                };
                let _ = send.send(spdy::data(stream, &[], true)).await;
                failure
            };
            let failure = tokio::select! {
                failure = carried => failure,
                // Reset: the client takes no more of it, and waits for the end of the other stream.
                _ = reset => None,
            };
            if let Some(error) = error {
                let words = failure.unwrap_or_default();
                let _ = send.send(spdy::data(error, words.as_bytes(), true)).await;
            }
            stream
        });
        Some(())
    }
}

/// Carries data between a stream and a port until both sides have sent their last.
async fn forward(
    stream: u32,
    address: SocketAddr,
    mut from_client: mpsc::Receiver<Bytes>,
    send: &mpsc::Sender<Bytes>,
    active: &AtomicBool,
) -> Result<(), String> {
    let socket = TcpStream::connect(address).await;
    let (mut reader, mut writer) = socket.map_err(|e| e.to_string())?.into_split();
    let up = async move {
        while let Some(data) = from_client.recv().await {
            if writer.write_all(&data).await.is_err() {
                return;
            }
        }
        let _ = writer.shutdown().await;
    };
    let down = async move {
        let mut buffer = vec![0; PIECE];
        while let Ok(read @ 1..) = reader.read(&mut buffer).await {
            active.store(true, Ordering::Relaxed);
            let frame = spdy::data(stream, &buffer[..read], false);
            if send.send(frame).await.is_err() {
                return;
            }
        }
    };
    // A server that has sent its last wants to hear no more.
    tokio::pin!(up);
    tokio::pin!(down);
    tokio::select! {
        () = &mut down => {}
        () = &mut up => down.await,
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A server that answers what it is asked with itself and a full stop.
    async fn echo() -> SocketAddr {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move {
            while let Ok((mut socket, _)) = listener.accept().await {
                tokio::spawn(async move {
                    let mut said = Vec::new();
                    let _ = socket.read_to_end(&mut said).await;
                    said.push(b'.');
                    let _ = socket.write_all(&said).await;
                });
            }
        });
        address
    }

    /// What comes back on each stream, until `ends` streams have ended.
    async fn exchange(sent: Vec<Bytes>, ends: usize) -> HashMap<u32, Vec<u8>> {
        let gone = {
            let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
            listener.local_addr().unwrap()
        };
        let ports: Arc<[_]> = [(80, echo().await), (81, gone)].into();
        let (mut near, far) = tokio::io::duplex(1 << 20);
        tokio::spawn(run(far, ports));
        near.write_all(&sent.concat()).await.unwrap();
        let (mut decoder, mut buffer) = (Decoder::default(), vec![0; 4096]);
        let (mut streams, mut ended) = (HashMap::<u32, Vec<u8>>::new(), 0);
        while ended < ends {
            let read = near.read(&mut buffer).await.unwrap();
            assert!(read > 0, "{streams:?}");
            decoder.push(&buffer[..read]);
            while let Some(frame) = decoder.pop().unwrap() {
                match frame {
                    Frame::Data { stream, data, last } => {
                        streams.entry(stream).or_default().extend_from_slice(&data);
                        ended += usize::from(last);
                    }
                    Frame::Reset { stream } => {
                        streams.insert(stream, b"refused".to_vec());
                        ended += 1;
                    }
                    _ => {}
                }
            }
        }
        streams
    }

    fn pair(encoder: &mut Encoder, first: u32, id: &str, port: &str) -> [Bytes; 2] {
        let headers = |kind| [("streamtype", kind), ("port", port), ("requestid", id)];
        [
            encoder.open(first, &headers("error"), true),
            encoder.open(first + 2, &headers("data"), false),
        ]
    }

    #[tokio::test]
    async fn each_connection_has_its_own_data_and_failure() {
        let mut encoder = Encoder::default();
        let mut sent = Vec::new();
        for (first, id, port) in [(1, "0", "80"), (5, "1", "81"), (9, "2", "82")] {
            sent.extend(pair(&mut encoder, first, id, port));
        }
        sent.push(spdy::data(3, b"ab", false));
        sent.push(spdy::data(3, b"c", true));
        let streams = exchange(sent, 6).await;
        let text = |stream: u32| String::from_utf8(streams[&stream].clone()).unwrap();
        assert_eq!((text(3), text(1)), ("abc.".to_owned(), String::new()));
        assert!(text(5).contains("refused"), "{}", text(5));
        assert_eq!(text(9), "the control plane does not listen on port 82");
    }

    #[tokio::test]
    async fn a_stream_that_is_reset_ends_its_connection_to_the_port() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let ports: Arc<[_]> = [(80, listener.local_addr().unwrap())].into();
        let (mut near, far) = tokio::io::duplex(1 << 20);
        tokio::spawn(run(far, ports));
        let sent = pair(&mut Encoder::default(), 1, "0", "80").concat();
        near.write_all(&sent).await.unwrap();
        // A server that says nothing, and does not end the connection by itself.
        let (_socket, _) = listener.accept().await.unwrap();
        near.write_all(&spdy::refuse(3)).await.unwrap();
        let (mut decoder, mut buffer) = (Decoder::default(), vec![0; 4096]);
        let ended = async {
            loop {
                let read = near.read(&mut buffer).await.unwrap();
                assert!(read > 0, "the session goes on");
                decoder.push(&buffer[..read]);
                while let Some(frame) = decoder.pop().unwrap() {
                    if let Frame::Data {
                        stream: 1, last, ..
                    } = frame
                    {
                        assert!(last, "nothing went wrong");
                        return;
                    }
                }
            }
        };
        let ended = tokio::time::timeout(Duration::from_secs(60), ended).await;
        ended.expect("the other stream ends");
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_on_which_nothing_comes_ends() {
        let (mut near, far) = tokio::io::duplex(1 << 20);
        tokio::spawn(run(far, Arc::from([])));
        let begin = tokio::time::Instant::now();
        let mut answer = vec![0; spdy::ping(1).len()];
        for _ in 0..5 {
            near.write_all(&spdy::ping(1)).await.unwrap();
            near.read_exact(&mut answer).await.unwrap();
            tokio::time::sleep(IDLE * 3 / 4).await;
        }
        assert!(
            begin.elapsed() > IDLE * 3,
            "one that says something goes on"
        );
        assert_eq!(near.read(&mut answer).await.unwrap(), 0);
        assert!(begin.elapsed() < IDLE * 6);
    }

    #[tokio::test]
    async fn other_streams_are_not_taken() {
        let mut encoder = Encoder::default();
        let sent = vec![encoder.open(1, &[("streamtype", "stdin")], false)];
        assert_eq!(exchange(sent, 1).await[&1], b"refused");
    }
}
