//! Any text as the header in which gateways tell of client certificates, any headers and any bytes as a certificate: no panic; what
//! is read of a header comes from it, and nobody is known by a token that nobody signed.
#![no_main]

use std::sync::{Arc, LazyLock};

use http::{HeaderMap, HeaderName, HeaderValue};
use identity::{
    Authenticator, Authenticators, Claimant, ClientCertificate, Clusters, Domains,
    ForwardedCertificates, IdTokens, KubernetesTokens, Observer, Refusal, Reviewer, Source,
    TrustDomains, parse_xfcc,
};
use libfuzzer_sys::fuzz_target;
use rustls_pki_types::CertificateDer;
use tokio::runtime::Runtime;

/// There is no cluster: nothing is asked.
struct Nobody;

impl Clusters for Nobody {
    fn reviewer(&self, _: &str) -> Option<Arc<dyn Reviewer>> {
        None
    }
}

impl Observer for Nobody {
    fn proven(&self, _: &'static str) {}

    fn refused(&self, refusal: &Refusal, claimant: &Claimant) {
        assert!(claimant.claims.len() <= 200 && claimant.claims.is_ascii());
        // A detail is a line of a log, however long what it is about.
        assert!(refusal.detail.len() < 4096);
    }
}

static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    runtime.enable_time().build().expect("a runtime")
});

static AUTHENTICATORS: LazyLock<Authenticators> = LazyLock::new(|| {
    let domains = Domains::constant(TrustDomains {
        own: "mesh.test".into(),
        aliases: vec!["old.test".to_owned()],
    });
    let rule = r#"{"issuer": "a", "audiences": ["a"], "jwks":
        "{\"keys\": [{\"kty\": \"OKP\", \"crv\": \"Ed25519\", \"x\": \"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo\"}]}"}"#;
    let fetcher = fetch::jwks::Fetcher::trusting(None).expect("roots");
    let list: Vec<Box<dyn Authenticator>> = vec![
        Box::new(ClientCertificate::new(domains.clone())),
        Box::new(IdTokens::new(rule.parse().expect("a rule"), fetcher, domains.clone())),
        Box::new(KubernetesTokens::new(Arc::new(Nobody), Arc::from(["a".to_owned()]), domains.clone())),
        Box::new(ForwardedCertificates::new(Default::default(), domains)),
    ];
    Authenticators::new(list, Arc::new(Nobody))
});

fuzz_target!(|input: (&str, Vec<(u8, &[u8])>, &[u8])| {
    let (xfcc, shown, certificate) = input;
    for uri in parse_xfcc(xfcc).into_iter().flatten() {
        assert!(uri.len() <= xfcc.len());
    }
    let names = ["authorization", "x-forwarded-client-cert", "clusterid"];
    let mut headers = HeaderMap::new();
    for (which, value) in shown {
        let name = HeaderName::from_static(names[usize::from(which) % names.len()]);
        if let Ok(value) = HeaderValue::from_bytes(value) {
            headers.append(name, value);
        }
    }
    let certificates = [CertificateDer::from_slice(certificate)];
    let evidence = identity::Evidence {
        // This machine may tell of certificates.
        peer: ([127, 0, 0, 1], 1).into(),
        certificates: if certificate.is_empty() { &[] } else { &certificates },
        headers: &headers,
    };
    if let Ok(caller) = RUNTIME.block_on(AUTHENTICATORS.authenticate(&evidence)) {
        assert!(caller.source != Source::IdToken, "nobody signed it");
        for id in &caller.ids {
            assert!(id.is_whole());
            assert!(["mesh.test", "old.test"].contains(&&*id.trust_domain));
            assert_eq!(id.to_string().parse().as_ref(), Ok(id));
        }
    }
});
