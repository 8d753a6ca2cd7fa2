//! What a certificate costs the CA, from the text of the request to the chain, by the CA's key. Workloads have P-256 keys.
//!
//! `--threads 2` signs on two threads at once; items per second are certificates.

use std::time::SystemTime;

use divan::Bencher;
use divan::counter::ItemsCount;
use pilothouse_ca::issuer::Parts;
use pilothouse_ca::{
    Authority, Csr, Issuer, KeyAlgorithm, Lifetimes, PrivateKey, SigningRequest, system_clock,
};

/// The program's allocator, so that what is measured is what a server does.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

const WORKLOAD: &str = "spiffe://cluster.local/ns/shop/sa/web";

fn main() {
    divan::main();
}

fn authority(algorithm: KeyAlgorithm) -> Authority {
    let lifetimes = Lifetimes::default();
    let now = SystemTime::now();
    let made = Issuer::self_signed("cluster.local", algorithm, now, lifetimes.longest);
    let (certificate, key) = made.expect("the library works");
    let parts = Parts {
        roots: vec![certificate.clone()],
        certificate,
        key,
        chain: Vec::new(),
        crl: None,
    };
    let issuer = Issuer::new(parts, now).expect("the CA is its own root");
    Authority::fixed(issuer, lifetimes, system_clock())
}

#[divan::bench(args = [KeyAlgorithm::EcdsaP256, KeyAlgorithm::EcdsaP384, KeyAlgorithm::Rsa2048])]
fn sign(bencher: Bencher, of_ca: KeyAlgorithm) {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .build();
    let runtime = runtime.expect("a runtime can be made");
    let signer = authority(of_ca).signer();
    let key = PrivateKey::generate(KeyAlgorithm::EcdsaP256).expect("the library works");
    let text = Csr::make(&key, &[WORKLOAD]).expect("the name fits").pem();
    bencher.counter(ItemsCount::new(1_usize)).bench(|| {
        let request = SigningRequest {
            csr: Csr::parse(text.as_bytes()).expect("it is a request"),
            sans: vec![WORKLOAD.into()],
            ttl: None,
            signer: None,
        };
        runtime
            .block_on(signer.sign(request))
            .expect("it is signed")
    });
}
