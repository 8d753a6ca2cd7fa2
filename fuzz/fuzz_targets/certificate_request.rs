//! Any bytes as what a client sends to the certificate signing call: framed, as its message, and as the CSR in it.
#![no_main]

use ca::Csr;
use libfuzzer_sys::fuzz_target;
use pilothouse_ads::server::Frames;
use prost::Message;
use proto_istio::ca::IstioCertificateRequest;

fuzz_target!(|bytes: &[u8]| {
    let mut frames = Frames::new(64 << 10);
    for part in bytes.chunks(1000) {
        frames.push(part.to_vec().into());
        while let Ok(Some(message)) = frames.pop() {
            look(&message);
        }
    }
    look(bytes);
    // What is no message may be a request by itself.
    let _ = Csr::parse(bytes);
});

fn look(message: &[u8]) {
    let Ok(request) = IstioCertificateRequest::decode(message) else {
        return;
    };
    if let Ok(csr) = Csr::parse(request.csr.as_bytes()) {
        assert!(Csr::parse(csr.pem().as_bytes()).is_ok());
        assert!(!csr.public_key().is_empty());
    }
}
