//! Parts of resources: a virtual host of a route configuration, a filter chain of a listener.

use serde_json::Value;

/// Whether a part of one message is in the other too. A JSON pointer says where it is in the first; in the other it may
/// stand elsewhere in its list. Lists on the way are followed through the element of the same name, where it has one.
pub(crate) fn is_kept(before: &Value, after: &Value, pointer: &str) -> bool {
    let tokens: Vec<&str> = pointer.split('/').skip(1).collect();
    holds(before, after, &tokens)
}

fn holds(before: &Value, after: &Value, pointer: &[&str]) -> bool {
    let [first, rest @ ..] = pointer else {
        return before == after;
    };
    match (before, after) {
        (Value::Object(before), Value::Object(after)) => {
            match (before.get(*first), after.get(*first)) {
                (Some(before), Some(after)) => holds(before, after, rest),
                _ => false,
            }
        }
        (Value::Array(before), Value::Array(after)) => {
            let Some(part) = first.parse().ok().and_then(|at: usize| before.get(at)) else {
                return false;
            };
            let name = part["name"].as_str();
            let mut alike = after
                .iter()
                .filter(|other| rest.is_empty() || other["name"].as_str() == name);
            alike.any(|other| holds(part, other, rest))
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::is_kept;

    #[test]
    fn a_part_is_kept_wherever_it_stands_in_its_list() {
        let host = |name: &str, routes: &[u8]| json!({ "name": name, "routes": routes });
        let before = json!({ "hosts": [host("a", &[1, 2]), host("b", &[3])], "other": 1 });
        let after = json!({ "hosts": [host("c", &[1]), host("b", &[3]), host("a", &[2])] });
        assert!(is_kept(&before, &before, ""));
        assert!(!is_kept(&before, &after, ""));
        assert!(is_kept(&before, &after, "/hosts/1"));
        assert!(!is_kept(&before, &after, "/hosts/0"));
        assert!(is_kept(&before, &after, "/hosts/0/routes/1"));
        assert!(!is_kept(&before, &after, "/hosts/0/routes/0"));
        assert!(!is_kept(&before, &after, "/other"));
        assert!(!is_kept(&before, &after, "/hosts/9"));
    }
}
