//! One connection to a server of ZooKeeper, from the first octet to the last.
//!
//! A connection that was lost is not resumed: nothing of ours is bound to a session, and a new one that reads everything
//! again cannot miss what happened in between.

use std::sync::Arc;
use std::time::Duration;

use bytes::Buf;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep_until, timeout};
use tokio_util::sync::CancellationToken;

use super::Options;
use super::dialogue::Dialogue;
use super::wire::{self, Records};
use crate::outbox::Outbox;
use crate::report::Reports;

/// How long a connection may take to be there.
const CONNECTING: Duration = Duration::from_secs(3);
/// How long a server is given to take a farewell.
const FAREWELL: Duration = Duration::from_millis(200);

/// A session.
pub(super) struct Session {
    socket: TcpStream,
    pub(super) dialogue: Dialogue,
    /// What the server waits for between signs of life.
    timeout: Duration,
    heard_at: Instant,
    sent_at: Instant,
}

impl Session {
    /// Connects to `host:port`, and proves who asks.
    pub(super) async fn open(authority: &str, options: &Options) -> Result<Self, String> {
        timeout(CONNECTING, Self::connect(authority, options))
            .await
            .map_err(|_| format!("{authority} does not answer"))?
    }

    async fn connect(authority: &str, options: &Options) -> Result<Self, String> {
        let unreachable = |e| format!("cannot connect to {authority}: {e}");
        let mut socket = TcpStream::connect(authority).await.map_err(unreachable)?;
        let _ = socket.set_nodelay(true);
        let wanted = i32::try_from(options.session.as_millis()).unwrap_or(i32::MAX);
        let broken = |e: std::io::Error| format!("no answer from {authority}: {e}");
        let hello = wire::connect(wanted);
        socket.write_all(&hello).await.map_err(broken)?;
        let mut records = Records::default();
        let greeting = loop {
            match records.pop() {
                Ok(Some(record)) => break wire::greeting(&record),
                Ok(None) => {}
                Err(error) => break Err(error),
            }
            if socket
                .read_buf(&mut records.waiting)
                .await
                .map_err(broken)?
                == 0
            {
                return Err(format!("{authority} closed the connection at once"));
            }
        };
        let granted = greeting.map_err(|_| format!("{authority} is no ZooKeeper"))?;
        let granted = u64::try_from(granted.timeout_ms).unwrap_or(0);
        if granted == 0 {
            return Err(format!("{authority} grants no session"));
        }
        let now = Instant::now();
        Ok(Self {
            socket,
            dialogue: Dialogue::new(options, records),
            timeout: Duration::from_millis(granted.max(100)),
            heard_at: now,
            sent_at: now,
        })
    }

    /// Reads until the connection is lost, and says why; nothing where it was to stop.
    pub(super) async fn run(
        &mut self,
        out: &mut Outbox,
        to: &Reports,
        stop: &CancellationToken,
    ) -> Option<Arc<str>> {
        // Something may have come with the greeting.
        if let Err(why) = self.dialogue.heard(out) {
            return Some(why.into());
        }
        loop {
            self.dialogue.ask();
            let (ping_at, lost_at) = (
                self.sent_at + self.timeout / 3,
                self.heard_at + self.timeout * 2 / 3,
            );
            let (mut reader, mut writer) = self.socket.split();
            tokio::select! {
                () = stop.cancelled() => break,
                sent = out.send(to), if !out.is_empty() => if sent.is_err() {
                    break;
                },
                read = reader.read_buf(&mut self.dialogue.records.waiting) => match read {
                    Ok(0) => return Some("the server closed the connection".into()),
                    Ok(_) => {
                        self.heard_at = Instant::now();
                        if let Err(why) = self.dialogue.heard(out) {
                            return Some(why.into());
                        }
                    }
                    Err(error) => return Some(error.to_string().into()),
                },
                written = writer.write_buf(&mut self.dialogue.sending), if self.dialogue.sending.has_remaining() => {
                    self.sent_at = Instant::now();
                    if let Err(error) = written {
                        return Some(error.to_string().into());
                    }
                }
                () = sleep_until(lost_at) => return Some("the server does not answer".into()),
                () = sleep_until(ping_at), if !self.dialogue.sending.has_remaining() => {
                    self.dialogue.ping();
                }
            }
        }
        self.dialogue.close();
        // The server forgets the session by itself where it does not hear this.
        let _ = timeout(
            FAREWELL,
            self.socket.write_all_buf(&mut self.dialogue.sending),
        )
        .await;
        None
    }
}
