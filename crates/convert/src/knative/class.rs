//! Which of Knative's Ingresses are served.

use model::Labels;
use model::settings::Features;

/// What names the class of an Ingress.
const ANNOTATION: &str = "networking.knative.dev/ingress.class";
/// The class of Higress, which is served with its Ingresses unless other classes are stated.
const HIGRESS: &str = "higress";

/// Whether any is.
pub(super) fn is_on(features: &Features) -> bool {
    !features.knative_classes.is_empty() || is_higress(features)
}

fn is_higress(features: &Features) -> bool {
    features
        .edge_classes
        .iter()
        .any(|class| **class == *HIGRESS)
}

/// Whether an Ingress with these annotations is served.
pub fn is_served(features: &Features, annotations: &Labels) -> bool {
    let Some(named) = annotations.get(ANNOTATION) else {
        return false;
    };
    if features.knative_classes.is_empty() {
        return named == HIGRESS && is_higress(features);
    }
    features
        .knative_classes
        .iter()
        .any(|class| **class == *named)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_are_those_that_are_stated_or_higress() {
        let table = [
            ("", "", "higress", false),
            ("nginx", "", "higress", false),
            ("nginx,higress", "", "higress", true),
            (
                "higress",
                "",
                "kourier.ingress.networking.knative.dev",
                false,
            ),
            ("higress", "mine", "higress", false),
            ("", "mine,yours", "yours", true),
            ("", "mine", "", false),
        ];
        for (edge, knative, named, served) in table {
            let features = Features {
                edge_classes: edge.into(),
                knative_classes: knative.into(),
                ..Features::default()
            };
            let annotations: Labels = [(ANNOTATION, named)].into_iter().collect();
            assert_eq!(
                is_served(&features, &annotations),
                served,
                "{edge} {knative} {named}"
            );
        }
        assert!(!is_served(&Features::default(), &Labels::default()));
    }
}
