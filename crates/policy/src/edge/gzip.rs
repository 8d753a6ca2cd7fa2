//! Compressing what gateways answer, as the section `gzip` of Higress's ConfigMap says.
//!
//! Higress: pkg/ingress/kube/configmap/gzip.go, 2.1. A section that breaks a rule is refused as a whole.

use model::parse::to_json;
use proto_envoy::envoy::config::core::v3::TypedExtensionConfig;
use proto_envoy::envoy::extensions::compression::gzip::compressor::v3 as library;
use proto_envoy::envoy::extensions::filters::http::compressor::v3::{Compressor, compressor};
use proto_envoy::envoy::extensions::filters::network::http_connection_manager::v3 as hcm;
use serde::Deserialize;
use serde_json::Value;
use xds::any;

use crate::filters;

/// The extension that compresses.
pub const EXTENSION: &str = "envoy.filters.http.compressor";
/// What compresses with gzip.
const LIBRARY: &str = "envoy.compression.gzip.compressor";
/// The section of the ConfigMap.
const SECTION: &str = "gzip";
/// The largest chunk of output that Envoy takes.
const CHUNKS: std::ops::RangeInclusive<u32> = 4096..=65536;

/// What is compressed, and how.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Gzip {
    enable: bool,
    min_content_length: u32,
    content_type: Vec<String>,
    disable_on_etag_header: bool,
    memory_level: u32,
    window_bits: u32,
    chunk_size: u32,
    compression_level: String,
    compression_strategy: String,
}

impl Default for Gzip {
    /// What Higress takes where the section leaves something out.
    fn default() -> Self {
        let types = [
            "text/html",
            "text/css",
            "text/plain",
            "text/xml",
            "application/json",
            "application/javascript",
            "application/xhtml+xml",
            "image/svg+xml",
        ];
        Self {
            enable: true,
            min_content_length: 1024,
            content_type: types.map(str::to_owned).to_vec(),
            disable_on_etag_header: true,
            memory_level: 5,
            window_bits: 12,
            chunk_size: 4096,
            compression_level: "BEST_COMPRESSION".to_owned(),
            compression_strategy: "DEFAULT_STRATEGY".to_owned(),
        }
    }
}

impl Gzip {
    /// Reads the text of the ConfigMap; `None` where nothing is to be compressed.
    ///
    /// # Errors
    ///
    /// What is wrong with it.
    pub fn read(text: &str) -> Result<Option<Self>, String> {
        let Some(document) = to_json(text).into_iter().next() else {
            return Ok(None);
        };
        let section = match document?.get(SECTION) {
            None | Some(Value::Null) => return Ok(None),
            Some(section) => section.clone(),
        };
        let read: Self = serde_json::from_value(section).map_err(|e| format!("{SECTION}: {e}"))?;
        let wrong = |field: &str, why: &str| Err(format!("{SECTION}.{field} {why}"));
        if !(1..=9).contains(&read.memory_level) {
            return wrong("memoryLevel", "is not between 1 and 9");
        }
        if !(9..=15).contains(&read.window_bits) {
            return wrong("windowBits", "is not between 9 and 15");
        }
        if !CHUNKS.contains(&read.chunk_size) {
            return wrong("chunkSize", "is not between 4096 and 65536");
        }
        if level(&read.compression_level).is_none() {
            return wrong("compressionLevel", "is no level of Envoy's");
        }
        if strategy(&read.compression_strategy).is_none() {
            return wrong("compressionStrategy", "is no strategy of Envoy's");
        }
        Ok(read.enable.then_some(read))
    }

    /// The filter that does it.
    pub fn filter(&self) -> hcm::HttpFilter {
        let gzip = library::Gzip {
            memory_level: Some(self.memory_level),
            compression_level: level(&self.compression_level).unwrap_or_default().into(),
            compression_strategy: strategy(&self.compression_strategy)
                .unwrap_or_default()
                .into(),
            window_bits: Some(self.window_bits),
            chunk_size: Some(self.chunk_size),
        };
        // Envoy's matchers of types would tell nothing more, and Higress's tools look for the list.
        #[allow(deprecated)]
        let common = compressor::CommonDirectionConfig {
            min_content_length: Some(self.min_content_length),
            content_type: self.content_type.clone(),
            ..compressor::CommonDirectionConfig::default()
        };
        let compressor = Compressor {
            compressor_library: Some(TypedExtensionConfig {
                name: LIBRARY.to_owned(),
                typed_config: Some(any(&gzip)),
            }),
            response_direction_config: Some(compressor::ResponseDirectionConfig {
                common_config: Some(common),
                disable_on_etag_header: self.disable_on_etag_header,
                ..compressor::ResponseDirectionConfig::default()
            }),
            ..Compressor::default()
        };
        filters::http(EXTENSION, any(&compressor))
    }
}

fn level(name: &str) -> Option<library::gzip::CompressionLevel> {
    // The name that the generated type has under another number's.
    match name {
        "BEST_COMPRESSION" => Some(library::gzip::CompressionLevel::CompressionLevel9),
        "COMPRESSION_LEVEL_1" => Some(library::gzip::CompressionLevel::BestSpeed),
        name => library::gzip::CompressionLevel::from_str_name(name),
    }
}

fn strategy(name: &str) -> Option<library::gzip::CompressionStrategy> {
    library::gzip::CompressionStrategy::from_str_name(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_said_is_as_with_higress() {
        assert_eq!(Gzip::read(""), Ok(None));
        assert_eq!(Gzip::read("tracing: {enable: true}"), Ok(None));
        assert_eq!(Gzip::read("gzip: {enable: false}"), Ok(None));
        assert_eq!(Gzip::read("gzip: {}"), Ok(Some(Gzip::default())));
        let fastest = Gzip::read("gzip: {compressionLevel: BEST_SPEED}");
        assert!(fastest.is_ok_and(|gzip| gzip.is_some()));
    }

    #[test]
    fn what_envoy_would_refuse_is_refused_here() {
        for (section, wanted) in [
            ("{windowBits: 8}", "gzip.windowBits is not between 9 and 15"),
            (
                "{memoryLevel: 0}",
                "gzip.memoryLevel is not between 1 and 9",
            ),
            (
                "{chunkSize: 1}",
                "gzip.chunkSize is not between 4096 and 65536",
            ),
            (
                "{compressionLevel: MOST}",
                "gzip.compressionLevel is no level of Envoy's",
            ),
            (
                "{compressionStrategy: X}",
                "gzip.compressionStrategy is no strategy of Envoy's",
            ),
        ] {
            let found = Gzip::read(&format!("gzip: {section}"));
            assert_eq!(found, Err(wanted.to_owned()));
        }
        assert!(Gzip::read("gzip: [").is_err());
        assert!(Gzip::read("gzip: {minContentLength: many}").is_err());
    }
}
