//! Objects by the names that people give them.

use model::names::ClusterId;
use model::{AnyObject, Kind, ObjectKey, ObjectName, Scope};
use store::Snapshot;

/// Names that are listed where one is unknown.
const LISTED: usize = 20;

/// The object that `KIND/NAMESPACE/NAME` or, of cluster scope, `KIND/NAME` means. The kind is taken in any case, as
/// a plural and by its short names too; where several kinds have the name, it is the one of which there is such an object. `@CLUSTER` behind it means
/// that of a remote cluster.
///
/// # Errors
///
/// What is wrong with the text, for the person who wrote it.
pub(crate) fn find_object(snapshot: &Snapshot, text: &str) -> Result<ObjectKey, String> {
    let (path, cluster) = match text.split_once('@') {
        Some((path, cluster)) => (path, Some(ClusterId::from(cluster))),
        None => (text, None),
    };
    let parts: Vec<&str> = path.split('/').collect();
    let (kind, name) = match parts[..] {
        [kind, name] => (kind, ObjectName::new("", name)),
        [kind, namespace, name] => (kind, ObjectName::new(namespace, name)),
        _ => return Err(format!("{text:?} is not KIND/NAMESPACE/NAME")),
    };
    let name = name.in_cluster(cluster.as_ref());
    let named = |k: &&Kind| {
        let mut names = [k.name(), k.plural()].into_iter();
        let mut short = k.short_names().iter();
        names.any(|name| name.eq_ignore_ascii_case(kind))
            || short.any(|name| name.eq_ignore_ascii_case(kind))
    };
    let kinds: Vec<Kind> = Kind::ALL.iter().filter(named).copied().collect();
    let Some(first) = kinds.first() else {
        return Err(format!("there is no kind {kind:?}"));
    };
    let exact = kinds
        .iter()
        .find(|k| snapshot.tables.get_any(**k, &name).is_some());
    if let Some(kind) = exact {
        return Ok(ObjectKey { kind: *kind, name });
    }
    let mut everywhere = kinds.iter().flat_map(|k| snapshot.tables.iter_any(*k));
    let is_any = |o: &AnyObject| cluster.is_none() && o.meta().name.is_namesake(&name);
    if let Some(remote) = everywhere.find(is_any) {
        return Ok(remote.key());
    }
    if name.namespace.is_empty() && first.scope() == Scope::Namespaced {
        let kind = first.name();
        return Err(format!(
            "{kind} objects have a namespace: {kind}/NAMESPACE/{}",
            name.name
        ));
    }
    let mut message = format!("there is no {} {name}", first.name());
    let others = kinds.iter().flat_map(|k| snapshot.tables.iter_any(*k));
    let others: Vec<String> = others.map(|o| o.meta().name.to_string()).collect();
    if others.is_empty() {
        message.push_str(", nor any other");
    } else {
        message.push_str("; there is:");
        for other in others.iter().take(LISTED) {
            message.push_str(&format!("\n  {other}"));
        }
        if others.len() > LISTED {
            message.push_str(&format!("\n  and {} more", others.len() - LISTED));
        }
    }
    Err(message)
}

#[cfg(test)]
mod tests {
    use model::{Change, Owner};
    use testkit::World;

    use super::find_object;

    #[test]
    fn an_object_of_a_remote_cluster_is_found_by_it_and_without_where_there_is_no_other() {
        let web = "apiVersion: networking.k8s.io/v1\nkind: Ingress\nmetadata: {name: web, namespace: shop}\nspec: {}\n";
        let mut world = World::of("");
        let mut put = |cluster: Option<&str>| {
            let owner = Owner {
                cluster: cluster.map(Into::into),
                ..Owner::new(0, "test")
            };
            let objects = World::objects(web).into_iter();
            world.apply(objects.map(|o| Change::Put(owner.clone(), o)));
            world.store.snapshot()
        };
        let find =
            |snapshot: &_, text: &str| find_object(snapshot, text).map(|key| key.to_string());
        let east = Ok("Ingress shop/web (cluster east)".to_owned());
        let snapshot = put(Some("east"));
        assert_eq!(find(&snapshot, "Ingress/shop/web"), east);
        let snapshot = put(None);
        assert_eq!(find(&snapshot, "Ingress/shop/web@east"), east);
        assert_eq!(
            find(&snapshot, "Ingress/shop/web"),
            Ok("Ingress shop/web".into())
        );
        let refused = find(&snapshot, "Ingress/shop/web@west").unwrap_err();
        assert!(
            refused.contains("there is no Ingress shop/web (cluster west)"),
            "{refused}"
        );
    }

    #[test]
    fn an_object_is_found_by_kind_namespace_and_name() {
        let world = World::of(
            "apiVersion: gateway.networking.k8s.io/v1\nkind: Gateway\n\
             metadata: {name: edge, namespace: shop}\nspec: {gatewayClassName: x, listeners: []}\n---\n\
             apiVersion: v1\nkind: Namespace\nmetadata: {name: shop}\n",
        );
        let snapshot = world.store.snapshot();
        let find = |text: &str| find_object(&snapshot, text).map(|key| key.to_string());
        assert_eq!(find("Gateway/shop/edge"), Ok("Gateway shop/edge".into()));
        assert_eq!(find("gateways/shop/edge"), Ok("Gateway shop/edge".into()));
        assert_eq!(find("Namespace/shop"), Ok("Namespace shop".into()));
        assert_eq!(find("gtw/shop/edge"), Ok("Gateway shop/edge".into()));
        assert_eq!(find("ns/shop"), Ok("Namespace shop".into()));
        let refused = |text: &str| find(text).err().unwrap_or_default();
        assert_eq!(
            refused("Gateway/shop/egde"),
            "there is no Gateway shop/egde; there is:\n  shop/edge"
        );
        assert_eq!(
            refused("Service/a"),
            "Service objects have a namespace: Service/NAMESPACE/a"
        );
        assert_eq!(refused("Thing/a/b"), "there is no kind \"Thing\"");
        assert_eq!(refused("a"), "\"a\" is not KIND/NAMESPACE/NAME");
    }
}
