//! Names of images, and what manifests say of them.
//!
//! Istio: pkg/wasm/imagefetcher.go, 1.32; Open Container Initiative, image-spec 1.1 and distribution-spec 1.1.

use http::uri::Authority;
use serde_json::Value;

/// The registry of images that name none.
const DOCKER: &str = "docker.io";
/// Where it is asked.
const DOCKER_HOST: &str = "registry-1.docker.io";
/// The layer that is a module as it is.
const MODULE_LAYER: &str = "application/vnd.module.wasm.content.layer.v1+wasm";
/// How many parts a manifest may list.
const MOST: usize = 128;

/// What manifests are asked for as.
pub(super) const MANIFESTS: &str = "application/vnd.oci.image.manifest.v1+json, \
     application/vnd.oci.image.index.v1+json, application/vnd.docker.distribution.manifest.v2+json, \
     application/vnd.docker.distribution.manifest.list.v2+json";

/// Why an image cannot be used.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum BadImage {
    /// The name is none.
    #[error("{0:?} is not the name of an image")]
    Name(String),
    /// The manifest is none.
    #[error("its manifest is not one")]
    NoManifest,
    /// It has no layer, or no image for any platform.
    #[error("it has no layers")]
    Empty,
    /// A digest is of another kind.
    #[error("the digest {0:?} is not of SHA-256")]
    Digest(String),
}

/// The name of an image.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Image {
    /// The registry, as it is known to credentials.
    pub registry: String,
    /// The host that is asked, with its port if it has one.
    pub host: String,
    /// The repository.
    pub repository: String,
    /// A tag, or a digest.
    pub reference: String,
}

impl Image {
    /// The image that a URL names, which begins with `oci://`.
    ///
    /// # Errors
    ///
    /// When it names none. Who wrote it can act.
    pub fn parse(url: &str) -> Result<Self, BadImage> {
        let wrong = || BadImage::Name(url.to_owned());
        let rest = url.strip_prefix("oci://").ok_or_else(wrong)?;
        let (rest, digest) = match rest.split_once('@') {
            Some((rest, digest)) => (rest, Some(sha256(digest)?)),
            None => (rest, None),
        };
        let (rest, tag) = match rest.rsplit_once(':') {
            Some((rest, tag)) if !tag.contains('/') => (rest, Some(tag)),
            _ => (rest, None),
        };
        let (registry, repository) = match rest.split_once('/') {
            Some((first, rest)) if first.contains(['.', ':']) || first == "localhost" => {
                (first.to_owned(), rest.to_owned())
            }
            Some(_) => (DOCKER.to_owned(), rest.to_owned()),
            None => (DOCKER.to_owned(), format!("library/{rest}")),
        };
        let is_tag = |tag: &str| {
            let good = |c: char| c.is_ascii_alphanumeric() || "_.-".contains(c);
            !tag.is_empty() && tag.len() <= 128 && tag.chars().all(good)
        };
        let is_part = |part: &str| {
            let good = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "_.-".contains(c);
            part.starts_with(|c: char| c.is_ascii_lowercase() || c.is_ascii_digit())
                && part.chars().all(good)
        };
        let is_host = registry
            .parse::<Authority>()
            .is_ok_and(|authority| authority.host() == registry || authority.port_u16().is_some());
        let tag = tag.unwrap_or("latest");
        let is_name = repository.len() <= 255 && repository.split('/').all(is_part);
        if !is_host || !is_name || !is_tag(tag) || tag.starts_with(['.', '-']) {
            return Err(wrong());
        }
        let host = match registry.as_str() {
            DOCKER | "index.docker.io" => DOCKER_HOST.to_owned(),
            other => other.to_owned(),
        };
        Ok(Self {
            registry,
            host,
            repository,
            reference: digest.map_or_else(|| tag.to_owned(), |d| format!("sha256:{d}")),
        })
    }
}

/// The hexadecimal digits of a digest.
///
/// # Errors
///
/// When it is not one of SHA-256.
pub fn sha256(digest: &str) -> Result<String, BadImage> {
    let hex = digest.strip_prefix("sha256:");
    let is_whole = |hex: &&str| hex.len() == 64 && hex.bytes().all(|b| b.is_ascii_hexdigit());
    hex.filter(is_whole)
        .map(str::to_ascii_lowercase)
        .ok_or_else(|| BadImage::Digest(digest.chars().take(80).collect()))
}

/// A part of an image that is fetched by its digest.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Part {
    /// SHA-256, in hexadecimal.
    pub sha256: String,
    /// Its bytes, where that is stated.
    pub size: Option<u64>,
}

/// What a manifest says.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Manifest {
    /// Another manifest is the image.
    Index(Part),
    /// The layer with the module.
    Layer(Part),
}

/// Reads a manifest: of an index the image for Wasm, else for Linux, else the first; of an image the layer that is a module,
/// else the last.
///
/// # Errors
///
/// When it is none. Who made the image can act.
pub fn manifest(text: &[u8]) -> Result<Manifest, BadImage> {
    let value: Value = serde_json::from_slice(text).map_err(|_| BadImage::NoManifest)?;
    let list = |key: &str| value.get(key).and_then(Value::as_array);
    if let Some(all) = list("manifests") {
        let of = |architecture: &str, os: &str| {
            all.iter().take(MOST).find(|entry| {
                let platform = &entry["platform"];
                platform["architecture"].as_str() == Some(architecture)
                    && (os.is_empty() || platform["os"].as_str() == Some(os))
            })
        };
        let best = of("wasm", "").or_else(|| of("amd64", "linux"));
        let best = best.or_else(|| all.first()).ok_or(BadImage::Empty)?;
        return part(best).map(Manifest::Index);
    }
    let layers = list("layers").ok_or(BadImage::NoManifest)?;
    let mut modules = layers.iter().take(MOST);
    let module = modules.find(|layer| layer["mediaType"].as_str() == Some(MODULE_LAYER));
    let layer = module.or_else(|| layers.last()).ok_or(BadImage::Empty)?;
    part(layer).map(Manifest::Layer)
}

fn part(value: &Value) -> Result<Part, BadImage> {
    Ok(Part {
        sha256: sha256(value["digest"].as_str().unwrap_or_default())?,
        size: value["size"].as_u64(),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn names_of_images_are_read_as_everywhere() {
        let digest = "ab".repeat(32);
        let by_digest = format!("oci://r.example/a@sha256:{digest}");
        let both = format!("oci://r.example/a:v1@sha256:{digest}");
        let reference = format!("sha256:{digest}");
        for (url, host, repository, reference) in [
            ("oci://r.example/a/b:v1", "r.example", "a/b", "v1"),
            ("oci://r.example:50/a", "r.example:50", "a", "latest"),
            ("oci://localhost/a", "localhost", "a", "latest"),
            ("oci://[::1]:50/a:v1", "[::1]:50", "a", "v1"),
            ("oci://me/a:v1", DOCKER_HOST, "me/a", "v1"),
            ("oci://a", DOCKER_HOST, "library/a", "latest"),
            ("oci://docker.io/me/a", DOCKER_HOST, "me/a", "latest"),
            (&by_digest, "r.example", "a", &reference),
            (&both, "r.example", "a", &reference),
        ] {
            let image = Image::parse(url).unwrap();
            assert_eq!(
                (&*image.host, &*image.repository, &*image.reference),
                (host, repository, reference),
                "{url}"
            );
        }
        for url in [
            "oci://",
            "https://r.example/a",
            "oci://r.example/",
            "oci://r.example/../v2",
            "oci://r.example/a/./b",
            "oci://r.example/a?b",
            "oci://r.example/A",
            "oci://u:p@r.example/a",
            "oci://r.example/a:",
            "oci://r.example/a:v 1",
            "oci://r.example/a@sha256:12",
            "oci://r.example/a@md5:12",
            "oci://r.example:x/a",
        ] {
            assert!(Image::parse(url).is_err(), "{url}");
        }
    }

    proptest::proptest! {
        #[test]
        fn whatever_is_a_name_is_asked_where_it_says(
            rest in "[a-z0-9:./@\\[\\]-]{1,30}|[a-z]{1,5}(\\.[a-z]{2})?(:[0-9x]{1,6})?/[a-zA-Z0-9./?#%_-]{1,20}(:[a-zA-Z0-9._-]{1,9})?",
        ) {
            if let Ok(image) = Image::parse(&format!("oci://{rest}")) {
                let Image { host, repository, reference, .. } = &image;
                let uri: http::Uri = format!("https://{host}/v2/{repository}/manifests/{reference}").parse().unwrap();
                proptest::prop_assert_eq!(uri.authority().map(Authority::as_str), Some(host.as_str()));
                proptest::prop_assert!(uri.query().is_none() && uri.path().split('/').all(|p| p != ".." && p != "."));
            }
        }
    }

    #[test]
    fn the_layer_with_the_module_is_taken() {
        let digest = |n: u8| format!("sha256:{}", format!("{n:02x}").repeat(32));
        let part = |n: u8, size| Part {
            sha256: format!("{n:02x}").repeat(32),
            size,
        };
        let read = |value: Value| manifest(value.to_string().as_bytes());
        let plain = json!({"layers": [
            {"digest": digest(1), "size": 3}, {"digest": digest(2), "size": 4}]});
        assert_eq!(read(plain), Ok(Manifest::Layer(part(2, Some(4)))));
        // As Higress packs plugins: documents lie beside the module.
        let packed = json!({"layers": [
            {"mediaType": "application/vnd.module.wasm.spec.v1+yaml", "digest": digest(1)},
            {"mediaType": MODULE_LAYER, "digest": digest(2)},
            {"mediaType": "application/vnd.oci.image.layer.v1.tar+gzip", "digest": digest(3)}]});
        assert_eq!(read(packed), Ok(Manifest::Layer(part(2, None))));
        let index = |platforms: &[(&str, &str)]| {
            let entry = |(at, (architecture, os)): (usize, &(&str, &str))| {
                let at = u8::try_from(at).unwrap();
                json!({"digest": digest(at), "platform": {"architecture": architecture, "os": os}})
            };
            let all: Vec<Value> = platforms.iter().enumerate().map(entry).collect();
            read(json!({ "manifests": all }))
        };
        let arm = ("arm64", "linux");
        assert_eq!(
            index(&[arm, ("wasm", "wasip1")]),
            Ok(Manifest::Index(part(1, None)))
        );
        assert_eq!(
            index(&[arm, ("amd64", "linux")]),
            Ok(Manifest::Index(part(1, None)))
        );
        assert_eq!(index(&[arm]), Ok(Manifest::Index(part(0, None))));
        assert_eq!(index(&[]), Err(BadImage::Empty));
        assert_eq!(read(json!({"layers": []})), Err(BadImage::Empty));
        assert_eq!(read(json!({"errors": []})), Err(BadImage::NoManifest));
        assert_eq!(manifest(b"<html>"), Err(BadImage::NoManifest));
        let odd = json!({"layers": [{"digest": "sha512:00"}]});
        assert_eq!(read(odd), Err(BadImage::Digest("sha512:00".to_owned())));
    }
}
