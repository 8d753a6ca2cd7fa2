//! `pilothouse inject`: sidecars in the pods of manifests.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context, anyhow, bail};
use clap::Args;
use gotemplate::yaml;
use inject::workload::Object;
use inject::{CONFIG_KEY, Injection, Settings, VALUES_KEY, builtin};
use serde_json::{Value, json};

use super::input;

/// `pilothouse inject`.
#[derive(Args)]
pub(crate) struct InjectOptions {
    /// Files with manifests; `-` is standard input.
    #[arg(
        long,
        short,
        value_name = "FILE",
        required_unless_present = "print_config"
    )]
    filename: Vec<PathBuf>,

    /// File with policy and templates, as in the key `config` of the ConfigMap `istio-sidecar-injector`. Default: the
    /// templates for stock Envoys that --print-config prints.
    #[arg(
        long,
        alias = "injectConfigFile",
        value_name = "FILE",
        requires = "values_file"
    )]
    inject_config_file: Option<PathBuf>,

    /// File with the values that templates read, as in the key `values`.
    #[arg(long, alias = "valuesFile", value_name = "FILE")]
    values_file: Option<PathBuf>,

    /// File with the mesh configuration. Default: Istio's defaults.
    #[arg(long, alias = "meshConfigFile", value_name = "FILE")]
    mesh_config_file: Option<PathBuf>,

    /// The revision that the control plane of these pods has.
    #[arg(long, value_name = "REVISION", default_value = "default")]
    revision: String,

    /// The nodes run init containers that stay: Kubernetes 1.29 and newer.
    #[arg(long)]
    native_sidecars: bool,

    /// Write to this file instead of standard output.
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,

    /// Print the ConfigMap `istio-sidecar-injector` with the templates for stock Envoys and their values.
    #[arg(long)]
    print_config: bool,

    /// Namespace of that ConfigMap.
    #[arg(
        long,
        short = 'n',
        value_name = "NAMESPACE",
        default_value = "istio-system",
        requires = "print_config"
    )]
    namespace: String,
}

/// Prints the manifests with sidecars. What their author should know goes to `log`.
///
/// # Errors
///
/// When something cannot be read, or a pod cannot be injected.
pub(crate) fn run(
    options: &InjectOptions,
    out: &mut dyn Write,
    log: &mut dyn Write,
) -> anyhow::Result<()> {
    let text = match options.print_config {
        true => config_map(options),
        false => injected(options, log)?,
    };
    match &options.output {
        None => out.write_all(text.as_bytes())?,
        Some(path) => std::fs::write(path, text)
            .with_context(|| format!("cannot write {}", path.display()))?,
    }
    Ok(())
}

fn config_map(options: &InjectOptions) -> String {
    let name = match options.revision.as_str() {
        "" | "default" => "istio-sidecar-injector".to_owned(),
        revision => format!("istio-sidecar-injector-{revision}"),
    };
    yaml::write(&json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": { "name": name, "namespace": options.namespace },
        "data": { CONFIG_KEY: builtin::config(), VALUES_KEY: builtin::VALUES },
    }))
}

fn injected(options: &InjectOptions, log: &mut dyn Write) -> anyhow::Result<String> {
    let settings = settings(options)?;
    let mut out = String::new();
    for path in &options.filename {
        let text = input::file(path)?;
        for (line, document) in documents(&text) {
            let place = || format!("{}:{line}", path.display());
            let mut warnings = Vec::new();
            let made = made(document, options.native_sidecars, &settings, &mut warnings);
            for warning in warnings {
                writeln!(log, "{}: {warning}", place())?;
            }
            let made = made.map_err(|e| anyhow!("{}: {e}", place()))?;
            if !out.is_empty() {
                out.push_str("---\n");
            }
            out.push_str(made.as_deref().unwrap_or(document));
            if !out.ends_with('\n') {
                out.push('\n');
            }
        }
    }
    Ok(out)
}

fn settings(options: &InjectOptions) -> anyhow::Result<Settings> {
    let config = match &options.inject_config_file {
        Some(path) => input::file(path)?,
        None => builtin::config(),
    };
    let values = match &options.values_file {
        Some(path) => input::file(path)?,
        None => builtin::VALUES.to_owned(),
    };
    let injection = Injection::read(&config, &values, BTreeMap::new())?;
    if !injection.templates.contains_key(inject::SIDECAR) {
        bail!("there is no template {:?}", inject::SIDECAR);
    }
    Ok(Settings {
        injection: Arc::new(injection),
        mesh: Arc::new(input::mesh_config(options.mesh_config_file.as_deref())?),
        revision: options.revision.clone(),
        compliance_policy: String::new(),
        openshift: false,
    })
}

/// The documents of a file as they are written, each with its line.
fn documents(text: &str) -> Vec<(usize, &str)> {
    let mut documents = Vec::new();
    let (mut start, mut first, mut at) = (0, 1, 0);
    for (i, line) in text.split_inclusive('\n').enumerate() {
        if line.starts_with("---") && !line.starts_with("----") {
            documents.push((first, &text[start..at]));
            // What follows the separator in its line is part of the document.
            let bare = line[3..].trim();
            start = if bare.is_empty() || bare.starts_with('#') {
                at + line.len()
            } else {
                at + 3
            };
            first = i + 2;
        }
        at += line.len();
    }
    documents.push((first, &text[start..]));
    documents.retain(|(_, document)| !document.trim().is_empty());
    documents
}

/// A document with sidecars; nothing if it stays as it is written.
fn made(
    document: &str,
    native_sidecars: bool,
    settings: &Settings,
    warnings: &mut Vec<String>,
) -> anyhow::Result<Option<String>> {
    let read = model::parse::to_json(document).into_iter().next();
    let object: Value = match read {
        None => return Ok(None),
        Some(read) => read.map_err(|why| anyhow!("cannot be read as YAML: {why}"))?,
    };
    Ok(
        match inject::workload::inject(&object, native_sidecars, settings, warnings)? {
            Object::Pods(object) => Some(yaml::write(&object)),
            Object::Kept => None,
        },
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn injected_of(text: &str, values: &str) -> (anyhow::Result<String>, String) {
        let dir = tempfile::tempdir().unwrap();
        let (file, values_file) = (dir.path().join("a.yaml"), dir.path().join("values.yaml"));
        std::fs::write(&file, text).unwrap();
        std::fs::write(&values_file, values).unwrap();
        let options = InjectOptions {
            filename: vec![file],
            inject_config_file: None,
            values_file: Some(values_file),
            mesh_config_file: None,
            revision: "default".to_owned(),
            native_sidecars: false,
            output: None,
            print_config: false,
            namespace: "istio-system".to_owned(),
        };
        let (mut out, mut log) = (Vec::new(), Vec::new());
        let result = run(&options, &mut out, &mut log);
        let text = |bytes| String::from_utf8(bytes).unwrap();
        (result.map(|()| text(out)), text(log))
    }

    const DEPLOYMENT: &str = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\nspec:\n  template:\n    metadata: {labels: {app: web}}\n    spec: {containers: [{name: web, image: web}]}\n";

    #[test]
    fn what_makes_pods_is_injected_and_the_rest_stays_as_it_is_written() {
        let service = "# kept\napiVersion: v1\nkind: Service\nmetadata: {name: web} # so is this\n";
        let host = "apiVersion: v1\nkind: Pod\nmetadata: {name: host}\nspec: {hostNetwork: true, containers: [{name: a}]}\n";
        let values = builtin::VALUES.replace("image: \"\"", "image: tools");
        let (out, log) = injected_of(
            &format!("---\n{service}---\n{DEPLOYMENT}\n--- # next\n{host}"),
            &values,
        );
        let out = out.unwrap();
        let parts: Vec<&str> = out.split("---\n").collect();
        assert_eq!((parts.len(), parts[0]), (3, service));
        let deployment: Value = model::parse::to_json(parts[1])[0].clone().unwrap();
        let containers = &deployment["spec"]["template"]["spec"]["containers"];
        assert_eq!(containers[1]["name"], "istio-proxy");
        let args = containers[1]["args"].to_string();
        // A revocation holds for open connections at once, and no route writes a line.
        for flags in [
            "\"--drain-strategy\",\"immediate\",\"--drain-time-s\",\"45\"",
            "\"--component-log-level\",\"misc:error\"",
        ] {
            assert!(args.contains(flags), "{args}");
        }
        assert!(
            log.contains("Pod \"host\" has host networking enabled"),
            "{log}"
        );
    }

    #[test]
    fn a_template_that_fails_is_an_error_with_file_and_line() {
        let (out, _) = injected_of(&format!("# first\n---\n{DEPLOYMENT}"), builtin::VALUES);
        let error = out.unwrap_err().to_string();
        assert!(error.contains("a.yaml:3: "), "{error}");
        assert!(error.contains("set global.proxy_init.image"), "{error}");
        assert!(injected_of("a: [", builtin::VALUES).0.is_err());
    }
}
