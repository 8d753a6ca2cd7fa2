//! Any bytes as what holds a module, as a manifest, and any text as the name of an image, as credentials and as what a
//! registry asks for: no panic, and nothing larger than is taken.
#![no_main]

use libfuzzer_sys::fuzz_target;
use sources::modules::{credentials, image, unbox};

const LARGEST: usize = 1 << 16;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(module) = unbox::unbox(&bytes.to_vec().into(), LARGEST) {
        assert!(module.starts_with(b"\0asm") && module.len() <= LARGEST);
    }
    if let Ok(image::Manifest::Index(part) | image::Manifest::Layer(part)) = image::manifest(bytes) {
        assert_eq!(part.sha256.len(), 64);
    }
    let Ok(text) = std::str::from_utf8(bytes) else {
        return;
    };
    for url in [text.to_owned(), format!("oci://{text}")] {
        if let Ok(image) = image::Image::parse(&url) {
            let path = format!("https://{}/v2/{}/manifests/{}", image.host, image.repository, image.reference);
            let uri: http::Uri = path.parse().expect("its parts are those of a URL");
            assert_eq!(uri.authority().map(|a| a.as_str()), Some(&*image.host));
            assert!(uri.path().split('/').all(|part| part != "..") && uri.query().is_none());
        }
    }
    let _ = credentials::basic(text, "registry.example.com");
    let _ = credentials::Challenge::parse(text);
});
