//! Which Ingresses of a remote cluster are served: as annotations of its Secret say, or flags.
//!
//! Whoever may write Secrets in the system namespace decides, nobody in the cluster itself.

use std::sync::Arc;

use model::Labels;
use model::edge::RemoteIngress;
use model::names::ClusterId;

/// The classes whose Ingresses are served. Without it none of the cluster is read.
pub const CLASS: &str = "pilothouse.io/ingress-class";
/// The namespaces whose Ingresses are served; all where it is absent.
const NAMESPACES: &str = "pilothouse.io/ingress-namespaces";
/// Whether their status is written into the cluster.
const STATUS: &str = "pilothouse.io/ingress-status";

/// What annotations say.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Said {
    /// What is served; nothing where none is.
    pub(super) served: Option<RemoteIngress>,
    /// What is wrong, each with its annotation.
    pub(super) faults: Vec<(&'static str, String)>,
}

impl Said {
    /// Reads the annotations of a Secret.
    pub(super) fn read(annotations: &Labels) -> Self {
        let mut said = Self::default();
        let Some(stated) = annotations.get(CLASS) else {
            for name in [NAMESPACES, STATUS] {
                if annotations.get(name).is_some() {
                    let message = format!("has no effect without {CLASS}");
                    said.faults.push((name, message));
                }
            }
            return said;
        };
        let mut served = of_classes(stated);
        if served.classes.is_empty() {
            let message = "names no class, so no Ingress of the cluster is read".to_owned();
            said.faults.push((CLASS, message));
            return said;
        }
        if let Some(stated) = annotations.get(NAMESPACES) {
            served.namespaces = stated.into();
            if served.namespaces.is_empty() {
                let message = "names no namespace, so no Ingress of the cluster is read".to_owned();
                said.faults.push((NAMESPACES, message));
                return said;
            }
        }
        served.writes_status = match annotations.get(STATUS) {
            None | Some("true") => true,
            Some("false") => false,
            Some(_) => {
                let message = "is neither true nor false, so no status is written".to_owned();
                said.faults.push((STATUS, message));
                false
            }
        };
        said.served = Some(served);
        said
    }
}

/// Ingresses of classes, in every namespace and with their status.
pub(super) fn of_classes(classes: &str) -> RemoteIngress {
    RemoteIngress {
        classes: classes.into(),
        namespaces: "".into(),
        writes_status: true,
    }
}

/// Reads `CLUSTER=CLASS,CLASS`.
pub(super) fn class_of(text: &str) -> Result<(ClusterId, Arc<str>), String> {
    match text.rsplit_once('=') {
        Some((cluster, classes))
            if !cluster.is_empty() && !of_classes(classes).classes.is_empty() =>
        {
            Ok((cluster.into(), classes.into()))
        }
        _ => Err("is to be CLUSTER=CLASS".to_owned()),
    }
}

/// Reads `CLUSTER=true` or `CLUSTER=false`.
pub(super) fn status_of(text: &str) -> Result<(ClusterId, bool), String> {
    let (cluster, writes) = text.rsplit_once('=').unwrap_or_default();
    match (cluster, writes) {
        ("", _) => Err("is to be CLUSTER=BOOL".to_owned()),
        (cluster, "true") => Ok((cluster.into(), true)),
        (cluster, "false") => Ok((cluster.into(), false)),
        _ => Err(format!("{writes:?} is neither true nor false")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(annotations: &[(&str, &str)]) -> String {
        let said = Said::read(&annotations.iter().copied().collect());
        let served = said.served.map(|served| {
            let words = |words: &model::settings::Words| {
                let words: Vec<&str> = words.iter().map(|word| &**word).collect();
                words.join("+")
            };
            let (classes, namespaces) = (words(&served.classes), words(&served.namespaces));
            format!("{classes} in [{namespaces}] {}", served.writes_status)
        });
        let faults = said.faults.iter().map(|(at, fault)| {
            let (_, at) = at.split_once('/').unwrap();
            format!("{at} {fault}")
        });
        served
            .into_iter()
            .chain(faults)
            .collect::<Vec<_>>()
            .join("; ")
    }

    #[test]
    fn annotations_say_what_is_served_and_what_is_wrong_with_them() {
        for (annotations, wanted) in [
            (&[][..], ""),
            (&[(CLASS, "nginx")], "nginx in [] true"),
            (
                &[(CLASS, "a, b"), (NAMESPACES, "shop"), (STATUS, "false")],
                "a+b in [shop] false",
            ),
            (
                &[(CLASS, "a"), (STATUS, "no")],
                "a in [] false; ingress-status is neither true nor false, so no status is written",
            ),
            (
                &[(CLASS, " , ")],
                "ingress-class names no class, so no Ingress of the cluster is read",
            ),
            (
                &[(CLASS, "a"), (NAMESPACES, "")],
                "ingress-namespaces names no namespace, so no Ingress of the cluster is read",
            ),
            (
                &[(STATUS, "true")],
                "ingress-status has no effect without pilothouse.io/ingress-class",
            ),
        ] {
            assert_eq!(read(annotations), wanted, "{annotations:?}");
        }
    }

    #[test]
    fn flags_name_a_cluster_each() {
        assert_eq!(
            class_of("a=b=nginx").unwrap(),
            ("a=b".into(), "nginx".into())
        );
        assert_eq!(status_of("east=false").unwrap(), ("east".into(), false));
        for bad in ["", "nginx", "=nginx", "east=", "east=,"] {
            assert!(class_of(bad).is_err(), "{bad}");
            assert!(status_of(bad).is_err(), "{bad}");
        }
        assert!(status_of("east=yes").unwrap_err().contains("yes"));
    }
}
