//! Generates messages, their JSON mapping and one descriptor set from the files below `proto/`.

use std::fs::OpenOptions;
use std::io::BufWriter;
use std::path::{Path, PathBuf};
use std::process::Command;

use prost::Message;
use prost_types::FileDescriptorSet;

/// The Rust type of each well-known type: a type of this crate where `prost-types` has no JSON mapping.
const WELL_KNOWN: &[(&str, &str)] = &[
    ("Any", "crate::wkt::Any"),
    ("BoolValue", "bool"),
    ("BytesValue", "::prost::bytes::Bytes"),
    ("DoubleValue", "f64"),
    ("Duration", "crate::wkt::Duration"),
    ("Empty", "crate::wkt::Empty"),
    ("FloatValue", "f32"),
    ("Int32Value", "i32"),
    ("Int64Value", "i64"),
    ("ListValue", "crate::wkt::ListValue"),
    ("NullValue", "::prost_types::NullValue"),
    ("StringValue", "::prost::alloc::string::String"),
    ("Struct", "crate::wkt::Struct"),
    ("Timestamp", "crate::wkt::Timestamp"),
    ("UInt32Value", "u32"),
    ("UInt64Value", "u64"),
    ("Value", "crate::wkt::Value"),
];

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=proto");
    let out = PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    let root =
        PathBuf::from(std::env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets it")).join("proto");
    let mut files = Vec::new();
    proto_files(&root, &mut files);
    files.sort();

    let fds = out.join("istio.all.fds");
    let output = Command::new(
        protoc_bin_vendored::protoc_bin_path().expect("the package carries this platform"),
    )
    .arg("-I")
    .arg(&root)
    .arg("-I")
    .arg(protoc_bin_vendored::include_path().expect("the package carries the well-known types"))
    .arg("--include_imports")
    .arg("--descriptor_set_out")
    .arg(&fds)
    .args(&files)
    .output()
    .expect("the vendored protoc runs");
    assert!(
        output.status.success(),
        "protoc: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    let bytes = std::fs::read(&fds).expect("protoc wrote the descriptor set");

    let mut config = prost_build::Config::new();
    let mut json = pbjson_build::Builder::new();
    config
        .bytes(["."])
        .btree_map(["."])
        .compile_well_known_types()
        .enable_type_names()
        .disable_comments(["."])
        .include_file("istio.rs")
        .type_name_domain(["."], "type.googleapis.com");
    json.btree_map(["."]);
    for (name, rust) in WELL_KNOWN {
        let path = format!(".google.protobuf.{name}");
        config.extern_path(&path, *rust);
        json.extern_path(path, *rust);
    }

    let set = FileDescriptorSet::decode(bytes.as_slice())
        .expect("a descriptor set that protoc wrote decodes");
    json.register_descriptors(&bytes)
        .expect("pbjson reads what protoc wrote");
    config
        .compile_fds(set)
        .expect("prost generates the messages");

    // The JSON mapping of a package goes behind its messages, so that one include brings both.
    json.exclude([".google"])
        .generate(&["."], |package| {
            let file = out.join(format!("{package}.rs"));
            Ok(BufWriter::new(OpenOptions::new().append(true).open(file)?))
        })
        .expect("pbjson generates the JSON mapping");
    share_labels(&out.join("istio.networking.v1alpha3.rs"));
}

/// Lets equal labels of workloads share their memory: a registry has hundred thousands of endpoints with a handful of sets.
/// The generators know no other maps than those of the standard library.
fn share_labels(file: &Path) {
    const MESSAGE: &str = "pub struct WorkloadEntry {";
    const FIELD: &str = "pub labels: ::prost::alloc::collections::BTreeMap<
        ::prost::alloc::string::String,
        ::prost::alloc::string::String,
    >";
    const JSON: &str = "serde::Deserialize<'de> for WorkloadEntry {";
    const READ: &str = "labels: labels__.unwrap_or_default(),";
    let mut code = std::fs::read_to_string(file).expect("the messages were written");
    for (after, old, new) in [
        (MESSAGE, FIELD, "pub labels: crate::SharedMap"),
        (JSON, READ, "labels: labels__.unwrap_or_default().into(),"),
    ] {
        let start = code.find(after).expect("the message is there");
        let at = code[start..].find(old).expect("it has labels") + start;
        code.replace_range(at..at + old.len(), new);
    }
    std::fs::write(file, code).expect("the messages are writable");
}

fn proto_files(dir: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(dir)
        .expect("the proto folder is readable")
        .flatten()
    {
        let path = entry.path();
        if path.is_dir() {
            proto_files(&path, found);
        } else if path.extension().is_some_and(|e| e == "proto") {
            found.push(path);
        }
    }
}
