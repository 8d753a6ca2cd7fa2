//! Any bytes as what a client sends that forwards ports: frames of SPDY with their headers, and frames of a WebSocket.
#![no_main]

use apiserver::forward::{spdy, websocket};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let mut frames = spdy::Decoder::default();
    for part in bytes.chunks(100) {
        frames.push(part);
        while let Ok(Some(frame)) = frames.pop() {
            if let spdy::Frame::Data { data, .. } = frame {
                assert!(data.len() <= spdy::LARGEST);
            }
        }
    }
    let mut frames = websocket::Decoder::default();
    for part in bytes.chunks(100) {
        frames.push(part);
        while let Ok(Some(frame)) = frames.pop() {
            if let websocket::Frame::Data(data) = frame {
                assert!(data.len() <= websocket::LARGEST);
            }
        }
    }
});
