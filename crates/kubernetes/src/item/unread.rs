//! Which parts of objects nobody reads. What is missing here costs memory for a moment, and nothing else.

/// The way to a part: the names of fields, `*` for each item of a list.
pub(super) type Path = &'static [&'static str];

/// What nobody reads of any object.
pub(super) const IN_ALL: &[Path] = &[
    &["metadata", "managedFields"],
    &[
        "metadata",
        "annotations",
        "kubectl.kubernetes.io/last-applied-configuration",
    ],
];

const POD: &[Path] = &[
    &["spec", "volumes"],
    &["spec", "tolerations"],
    &["spec", "affinity"],
    &["spec", "topologySpreadConstraints"],
    &["spec", "ephemeralContainers"],
    &["spec", "containers", "*", "args"],
    &["spec", "containers", "*", "command"],
    &["spec", "containers", "*", "lifecycle"],
    &["spec", "containers", "*", "livenessProbe"],
    &["spec", "containers", "*", "readinessProbe"],
    &["spec", "containers", "*", "resources"],
    &["spec", "containers", "*", "startupProbe"],
    &["spec", "containers", "*", "volumeMounts"],
    &["spec", "initContainers", "*", "args"],
    &["spec", "initContainers", "*", "command"],
    &["spec", "initContainers", "*", "resources"],
    &["spec", "initContainers", "*", "volumeMounts"],
    &["status", "containerStatuses"],
    &["status", "ephemeralContainerStatuses"],
    &["status", "initContainerStatuses"],
];

const NODE: &[Path] = &[
    &["status", "allocatable"],
    &["status", "capacity"],
    &["status", "conditions"],
    &["status", "images"],
    &["status", "nodeInfo", "architecture"],
    &["status", "nodeInfo", "bootID"],
    &["status", "nodeInfo", "kernelVersion"],
    &["status", "nodeInfo", "machineID"],
    &["status", "nodeInfo", "osImage"],
    &["status", "nodeInfo", "systemUUID"],
    &["status", "volumesAttached"],
    &["status", "volumesInUse"],
];

const DEPLOYMENT: &[Path] = &[
    &["spec", "template", "spec", "volumes"],
    &["spec", "template", "spec", "affinity"],
    &["spec", "template", "spec", "tolerations"],
    &["spec", "template", "spec", "containers", "*", "args"],
    &["spec", "template", "spec", "containers", "*", "command"],
    &["spec", "template", "spec", "containers", "*", "resources"],
    &[
        "spec",
        "template",
        "spec",
        "containers",
        "*",
        "volumeMounts",
    ],
    &["status"],
];

const DEFINITION: &[Path] = &[
    &["spec", "conversion"],
    &["spec", "versions", "*", "schema"],
    &["spec", "versions", "*", "additionalPrinterColumns"],
];

/// What nobody reads of objects of a kind.
pub(super) fn unread(kind: &str) -> &'static [Path] {
    match kind {
        "Pod" => POD,
        "Node" => NODE,
        "Deployment" => DEPLOYMENT,
        "CustomResourceDefinition" => DEFINITION,
        _ => &[],
    }
}
