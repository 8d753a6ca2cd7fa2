//! Compressing what gateways answer, as the section `gzip` says.
//!
//! Higress: pkg/ingress/kube/configmap/gzip.go, 2.1.

use proto_envoy::envoy::config::core::v3::TypedExtensionConfig;
use proto_envoy::envoy::extensions::compression::gzip::compressor::v3 as library;
use proto_envoy::envoy::extensions::filters::http::compressor::v3::{Compressor, compressor};
use proto_envoy::envoy::extensions::filters::network::http_connection_manager::v3 as hcm;
use xds::any;

use super::fields::{Fields, Wrong};
use crate::filters;

/// The extension that compresses.
pub const EXTENSION: &str = "envoy.filters.http.compressor";
/// What compresses with gzip.
const LIBRARY: &str = "envoy.compression.gzip.compressor";
/// The largest chunk of output that Envoy takes.
const CHUNKS: std::ops::RangeInclusive<u32> = 4096..=65536;

/// What is compressed, and how.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Gzip {
    /// Whether anything is.
    pub enable: bool,
    /// How short answers may be that are not, in bytes.
    pub min_content_length: u32,
    /// Which types of answers are.
    pub content_type: Vec<String>,
    /// Whether answers with an `etag` are not.
    pub disable_on_etag_header: bool,
    /// How much memory is taken, 1 to 9.
    pub memory_level: u32,
    /// The logarithm of the window, 9 to 15.
    pub window_bits: u32,
    /// How much is put out at once, in bytes.
    pub chunk_size: u32,
    /// How much effort is made, by Envoy's name.
    pub compression_level: String,
    /// For what kind of content, by Envoy's name.
    pub compression_strategy: String,
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
    pub(super) fn read(mut fields: Fields<'_>, unknown: &mut Vec<Wrong>) -> Result<Self, Wrong> {
        let default = Self::default();
        let types = fields.texts("contentType")?;
        let most = i32::MAX.unsigned_abs();
        let chosen = |fields: &mut Fields<'_>, name, default: &str, known: fn(&str) -> bool| {
            let text = fields.text(name)?;
            match text.as_str() {
                "" => Ok(default.to_owned()),
                stated if known(stated) => Ok(text),
                _ => Err(fields.wrong(name, "is none that Envoy knows")),
            }
        };
        let read = Self {
            enable: fields.flag("enable", default.enable)?,
            min_content_length: fields.number(
                "minContentLength",
                default.min_content_length,
                1..=most,
            )?,
            content_type: types.unwrap_or(default.content_type),
            disable_on_etag_header: fields
                .flag("disableOnEtagHeader", default.disable_on_etag_header)?,
            memory_level: fields.number("memoryLevel", default.memory_level, 1..=9)?,
            window_bits: fields.number("windowBits", default.window_bits, 9..=15)?,
            chunk_size: fields.number("chunkSize", default.chunk_size, CHUNKS)?,
            compression_level: chosen(
                &mut fields,
                "compressionLevel",
                &default.compression_level,
                |name| level(name).is_some(),
            )?,
            compression_strategy: chosen(
                &mut fields,
                "compressionStrategy",
                &default.compression_strategy,
                |name| strategy(name).is_some(),
            )?,
        };
        if read.content_type.is_empty() {
            return Err(fields.wrong("contentType", "is empty"));
        }
        fields.end(unknown);
        Ok(read)
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
