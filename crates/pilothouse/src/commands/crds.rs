//! `pilothouse crds`: CustomResourceDefinitions of the kinds that clusters do not have by themselves.

use std::io::Write;

use anyhow::bail;
use apiserver::definitions::{definitions, kinds};
use clap::Args;
use model::Kind;

use crate::yaml::write_yaml;

/// `pilothouse crds`.
#[derive(Args)]
pub(crate) struct CrdsOptions {
    /// Only kinds of these groups, by their ends: `networking.istio.io`, or `istio.io` for all of Istio's.
    #[arg(long, value_name = "GROUP", value_delimiter = ',')]
    groups: Vec<String>,
    /// Only these kinds, as in objects or in paths: `VirtualService`, `gateways`.
    #[arg(long, value_name = "KIND", value_delimiter = ',')]
    kinds: Vec<String>,
}

/// Prints the definitions in YAML, a document each, by group and name.
pub(crate) fn run(options: &CrdsOptions, out: &mut impl Write) -> anyhow::Result<()> {
    for definition in definitions(&wanted(options)?) {
        writeln!(out, "---")?;
        write_yaml(out, &definition, 0)?;
    }
    Ok(())
}

fn wanted(options: &CrdsOptions) -> anyhow::Result<Vec<Kind>> {
    let all = kinds();
    let in_group = |kind: Kind, wanted: &str| {
        let rest = kind.group().strip_suffix(wanted);
        rest.is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
    };
    let named = |kind: Kind, wanted: &str| {
        kind.name().eq_ignore_ascii_case(wanted) || kind.plural().eq_ignore_ascii_case(wanted)
    };
    if let Some(group) = options
        .groups
        .iter()
        .find(|g| !all.iter().any(|k| in_group(*k, g)))
    {
        bail!(
            "there are no definitions of the group {group:?} here, but of Istio's (istio.io) and Higress's (higress.io): \
             the Gateway API and the Multi-Cluster Services API are installed from their own releases"
        );
    }
    if let Some(name) = options
        .kinds
        .iter()
        .find(|name| !all.iter().any(|k| named(*k, name)))
    {
        bail!(
            "there is no definition of a kind {name:?} here; `pilothouse crds` prints all there are"
        );
    }
    let wanted = |kind: &Kind| {
        (options.groups.is_empty() || options.groups.iter().any(|g| in_group(*kind, g)))
            && (options.kinds.is_empty() || options.kinds.iter().any(|n| named(*kind, n)))
    };
    Ok(all.into_iter().filter(wanted).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(groups: &[&str], kinds: &[&str]) -> anyhow::Result<Vec<&'static str>> {
        let owned = |all: &[&str]| all.iter().map(|s| (*s).to_owned()).collect();
        let options = CrdsOptions {
            groups: owned(groups),
            kinds: owned(kinds),
        };
        Ok(wanted(&options)?.iter().map(|k| k.name()).collect())
    }

    #[test]
    fn kinds_are_chosen_by_group_and_name() {
        assert_eq!(names(&[], &[]).unwrap().len(), 18);
        assert_eq!(names(&["istio.io"], &[]).unwrap().len(), 15);
        assert_eq!(names(&["telemetry.istio.io"], &[]).unwrap(), ["Telemetry"]);
        assert_eq!(
            names(&[], &["wasmplugins"]).unwrap(),
            ["WasmPlugin", "WasmPlugin"]
        );
        assert_eq!(
            names(&["higress.io"], &["WasmPlugin"]).unwrap(),
            ["WasmPlugin"]
        );
        assert!(names(&["gateway.networking.k8s.io"], &[]).is_err());
        assert!(names(&["io"], &[]).is_ok());
        assert!(names(&["stio.io"], &[]).is_err());
        assert!(names(&[], &["Service"]).is_err());
    }
}
