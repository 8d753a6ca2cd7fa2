//! What becomes of the annotations and fields of one Ingress.

use std::collections::BTreeMap;
use std::sync::Arc;

use annotations::Annotations;
use annotations::spec::{self, Becomes, Spec};
use convert::code;
use model::kinds::kube::Ingress;
use model::{Diagnostic, Object, ObjectName, Severity};
use store::Snapshot;

use super::{Line, Verdict, worst_first};
use crate::{name_of, ports};

/// The beginning of the path of a finding about an annotation.
const PATH: &str = "metadata.annotations[";

/// How it is said that requests are refused.
const REFUSED: &str = "get 503";

/// How it is said that something tunes nginx itself, and no request can tell whether it is there.
const LEAVE: &str = "; leave it out";

/// What becomes of the annotations of an Ingress, and of its fields; the worst first.
pub(super) fn lines(
    snapshot: &Snapshot,
    ingress: &Object<Ingress>,
    read: &Annotations,
    findings: &[&Diagnostic],
) -> (Vec<Line>, Vec<Line>) {
    let stated = ingress.meta.annotations.iter();
    let mut annotations: BTreeMap<Arc<str>, Line> = stated
        .filter_map(|(key, value)| Some((key.clone(), by_name(key, name_of(key)?, value))))
        .collect();
    let mut fields: BTreeMap<Arc<str>, Line> = BTreeMap::new();
    for note in &read.notes {
        let line = annotations.entry(note.key.clone());
        let line = line.or_insert_with(|| same(&note.key));
        add(
            line,
            of_message(note.severity, &note.message),
            &note.message,
        );
    }
    for finding in findings {
        let key = finding.path.strip_prefix(PATH);
        let key = key.map(|rest| rest.trim_end_matches(']').trim_matches(['"', '\'']));
        let line = match key.and_then(|key| annotations.get_mut(key)) {
            Some(line) => line,
            None => {
                let path = match &*finding.path {
                    "" => "the Ingress".into(),
                    _ => finding.path.clone(),
                };
                fields.entry(path.clone()).or_insert_with(|| same(&path))
            }
        };
        let is_found = || is_found_by_nginx(snapshot, ingress, &finding.path);
        let verdict = of_finding(finding, is_found);
        add(line, verdict, &finding.message);
        if let Some(help) = &finding.help {
            add(line, Verdict::Same, help);
        }
    }
    (
        worst_first(annotations.into_values().collect()),
        worst_first(fields.into_values().collect()),
    )
}

/// An annotation's name without the prefix, or a field without what tells its places apart.
pub(super) fn title(key: &Arc<str>) -> Arc<str> {
    if let Some(name) = name_of(key) {
        return name.into();
    }
    let mut title = String::new();
    let mut in_brackets = false;
    for c in key.chars() {
        match c {
            '[' => in_brackets = true,
            ']' => {
                in_brackets = false;
                title.push_str("[]");
            }
            _ if in_brackets => {}
            _ => title.push(c),
        }
    }
    title.into()
}

fn same(key: &Arc<str>) -> Line {
    Line {
        key: key.clone(),
        verdict: Verdict::Same,
        how: Vec::new(),
    }
}

/// What becomes of an annotation by its name, and by its value where that alone decides.
fn by_name(key: &Arc<str>, name: &str, value: &str) -> Line {
    let Some(known) = spec::find(name) else {
        let how =
            "neither ingress-nginx nor Higress has an annotation of this name: nothing reads it";
        return Line {
            key: key.clone(),
            verdict: Verdict::Different,
            how: vec![how.into()],
        };
    };
    if known.becomes == Becomes::Different && spec::means_the_same(name, value) {
        return same(key);
    }
    by_spec(key, known)
}

/// What becomes of an annotation or option by what is known of its name.
pub(super) fn by_spec(key: &Arc<str>, known: &Spec) -> Line {
    let how = (!known.how.is_empty()).then(|| known.how.into());
    Line {
        key: key.clone(),
        verdict: match known.becomes {
            Becomes::Same => Verdict::Same,
            // Nothing is lost without it.
            Becomes::Refused if known.how.ends_with(LEAVE) => Verdict::Different,
            Becomes::Different => Verdict::Different,
            Becomes::Refused => Verdict::Unsupported,
        },
        how: how.into_iter().collect(),
    }
}

fn verdict(severity: Severity) -> Verdict {
    match severity {
        Severity::Info => Verdict::Same,
        Severity::Warning => Verdict::Different,
        Severity::Error => Verdict::Unsupported,
    }
}

/// How something fares by what is told of it: what it asks for is lost where it is left out.
fn of_message(severity: Severity, message: &str) -> Verdict {
    let is_lost = message.starts_with("is left out") || message.ends_with("so it is left out");
    match severity {
        Severity::Warning if is_lost => Verdict::Unsupported,
        severity => verdict(severity),
    }
}

fn of_finding(finding: &Diagnostic, is_found_by_nginx: impl Fn() -> bool) -> Verdict {
    let is_refused = match finding.code {
        code::NOT_SERVED | code::OVER_LIMIT => true,
        code::CLOSED | code::NOT_PERMITTED => finding.message.ends_with(REFUSED),
        // Of a Service that is not there, or has not the port, nginx refuses the requests as well.
        code::NO_BACKEND => finding.message.ends_with(REFUSED) && is_found_by_nginx(),
        _ => false,
    };
    match is_refused && finding.severity > Severity::Info {
        true => Verdict::Unsupported,
        false => of_message(finding.severity, &finding.message),
    }
}

/// Whether the field of an Ingress at a path is a backend, or is within one, that nginx has somewhere to send requests for: it looks
/// up the name of a Service of the type ExternalName, and takes the ports of pods for those of a Service.
fn is_found_by_nginx(snapshot: &Snapshot, ingress: &Object<Ingress>, path: &str) -> bool {
    let rules = ingress.spec.rules.iter().enumerate();
    let of_rules = rules.flat_map(|(i, rule)| {
        let paths = rule.http.iter().flat_map(|http| &http.paths).enumerate();
        paths.map(move |(j, path)| (format!("spec.rules[{i}].http.paths[{j}]"), &path.backend))
    });
    let default = ingress.spec.default_backend.iter();
    let default = default.map(|backend| ("spec.defaultBackend".to_owned(), backend));
    let mut there = of_rules
        .chain(default)
        .filter(|(at, _)| path.starts_with(&**at));
    there.any(|(_, backend)| {
        let Some(to) = &backend.service else {
            return false;
        };
        let name = ObjectName::new(ingress.namespace().clone(), to.name.clone());
        let service = snapshot.tables.kube_services.get(&name);
        service.is_some_and(|service| {
            let is_alias = &*service.spec.service_type == "ExternalName";
            is_alias || ports::number_of(&service.spec, &to.port).is_some()
        })
    })
}

fn add(line: &mut Line, verdict: Verdict, how: &Arc<str>) {
    line.verdict = line.verdict.max(verdict);
    if line.how.contains(how) {
        return;
    }
    // What was said of this very value goes before what holds for all.
    let at = line.how.len().saturating_sub(1);
    match verdict {
        Verdict::Same => line.how.push(how.clone()),
        Verdict::Different | Verdict::Unsupported => line.how.insert(at, how.clone()),
    }
}
