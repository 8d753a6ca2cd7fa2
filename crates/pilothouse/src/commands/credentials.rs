//! The certificates and roots that a connected proxy has from a server.

use std::collections::BTreeSet;

use serde_json::Value;

use super::proxy_config::debug_page;

/// The names of those that it can use; none where it has not asked for any.
///
/// # Errors
///
/// When the server does not answer, or does not know the proxy.
pub(super) async fn usable(address: &str, proxy: &str) -> anyhow::Result<Option<BTreeSet<String>>> {
    let page = debug_page(address, &format!("/debug/certz?proxyID={proxy}")).await?;
    Ok(of_page(&page))
}

fn of_page(page: &Value) -> Option<BTreeSet<String>> {
    let secrets = page["secrets"].as_array()?.iter();
    let usable = secrets.filter(|secret| secret["usable"] != false);
    let names = usable.filter_map(|secret| secret["name"].as_str());
    Some(names.map(str::to_owned).collect())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_a_proxy_refuses_is_not_usable() {
        let page = json!({"secrets": [
            {"name": "a", "chain": "A", "usable": true},
            {"name": "b", "chain": "B", "usable": false},
        ]});
        assert_eq!(of_page(&page), Some(BTreeSet::from(["a".to_owned()])));
        assert_eq!(of_page(&json!({"secrets": []})), Some(BTreeSet::new()));
        assert_eq!(of_page(&json!({"secrets": null})), None);
    }
}
