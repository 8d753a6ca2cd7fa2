//! Any bytes as the file of served resources: no panic, also behind a good head.
#![no_main]

use libfuzzer_sys::fuzz_target;
use warm::{Origin, load};

fuzz_target!(|input: (bool, &[u8])| {
    let (behind_head, bytes) = input;
    let origin = Origin {
        program: String::new(),
        settings: 0,
    };
    let mut file = Vec::new();
    if behind_head {
        file.extend_from_slice(b"pilothouse warm\n\x01\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0");
        let hash = xxhash_rust::xxh3::xxh3_64(&file);
        file.extend_from_slice(&hash.to_le_bytes());
        // Frames with good checksums: a length, a kind, and what is in it.
        let mut rest = bytes;
        while let [kind, len, more @ ..] = rest {
            let (body, next) = more.split_at(more.len().min(*len as usize));
            let start = file.len();
            file.push(kind % 8);
            file.extend_from_slice(&(body.len() as u32).to_le_bytes());
            file.extend_from_slice(body);
            let hash = xxhash_rust::xxh3::xxh3_64(&file[start..]);
            file.extend_from_slice(&hash.to_le_bytes());
            rest = next;
        }
    } else {
        file.extend_from_slice(bytes);
    }
    let _ = load(&file, &origin);
});
