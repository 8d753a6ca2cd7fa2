//! What the derive thread wants others to fetch or make: keys of issuers, certificates, access reviews.

use super::*;

#[tokio::test]
async fn keys_are_wanted_while_a_policy_names_them() {
    let running = Running::start();
    let mut wanted = running.derive.wanted_keys();
    let key = running
        .put(
            "
apiVersion: security.istio.io/v1
kind: RequestAuthentication
metadata: {name: t, namespace: shop}
spec: {jwtRules: [{issuer: me, jwksUri: 'https://me/keys', timeout: 3s}]}
",
        )
        .await;
    let known = || running.derive.ask(|state| state.has_what_it_wants());
    assert!(!known().await.unwrap());
    let uri = KeySource::Uri("https://me/keys".into());
    let demand = wanted.borrow_and_update()[&uri].clone();
    assert_eq!(demand.limit.as_secs(), 3);
    assert_eq!(demand.namespaces, ["shop".into()].into());
    let outcome = Some(Arc::new(FetchedKeys::default()));
    let fetched = vec![Change::Keys(uri, outcome)];
    running
        .derive
        .change(fetched, Instant::now())
        .await
        .unwrap();
    assert!(known().await.unwrap());

    let gone = vec![Change::Delete(source(), key)];
    running.derive.change(gone, Instant::now()).await.unwrap();
    assert!(known().await.unwrap());
    assert!(wanted.borrow_and_update().is_empty());
}

#[tokio::test]
async fn a_certificate_is_wanted_while_a_proxy_has_the_identity_and_nothing_is_said_until_it_is_there()
 {
    const CART: &str = "spiffe://cluster.local/ns/shop/sa/cart";
    let running = Running::start();
    let mut wanted = running.derive.wanted_certificates();
    let join = async |id: &str| {
        let node = testkit::node(&json!({
            "id": id, "token": "sa:shop:cart",
            "metadata": {"NAMESPACE": "shop", "PILOTHOUSE_CERTIFICATES": "ads"},
        }));
        let joined = running.derive.subscribe(node, PEER, None).await.unwrap();
        running.derive.want(joined.proxy, TypeUrl::Secret).unwrap();
        joined
    };
    let mut first = join("sidecar~10.0.0.1~cart-0.shop~shop.svc.cluster.local").await;
    let second = join("sidecar~10.0.0.2~cart-1.shop~shop.svc.cluster.local").await;
    let settled = || running.derive.ask(|_| ());
    settled().await.unwrap();
    let list: Vec<Arc<str>> = wanted.borrow_and_update().iter().cloned().collect();
    assert_eq!(list, [Arc::from(CART)]);

    let names = |proxy: &mut Subscription| {
        let published = proxy.published.newest();
        let set = published.get(TypeUrl::Secret);
        set.map(|set| set.iter().map(|r| r.name.to_string()).collect::<Vec<_>>())
    };
    let say = async |change: Change| {
        let said = running.derive.change(vec![change], Instant::now());
        said.await.unwrap();
        settled().await.unwrap();
    };
    let made = |chain: &str| {
        let made = WorkloadCertificate {
            chain: chain.into(),
            key: PrivateKey::from_pem("key"),
        };
        Change::Certificate(CART.into(), Some(Arc::new(made)))
    };
    assert_eq!(names(&mut first), None, "nothing is there to begin with");
    say(made("one")).await;
    assert_eq!(names(&mut first), None, "roots are missing");
    let roots = MeshRoots {
        roots: include_str!("../../../../model/src/x509/keys/ec.crt").into(),
        revoked: None,
    };
    say(Change::Roots(Some(Arc::new(roots)))).await;
    assert_eq!(
        names(&mut first),
        Some(vec!["ROOTCA".to_owned(), "default".to_owned()])
    );
    let before = first.published.newest();
    say(made("two")).await;
    let after = first.published.newest();
    assert_ne!(before.get(TypeUrl::Secret), after.get(TypeUrl::Secret));
    // What is there is not taken away because another is not made yet.
    say(Change::Certificate(CART.into(), None)).await;
    assert_eq!(
        first.published.newest().get(TypeUrl::Secret),
        after.get(TypeUrl::Secret)
    );

    drop(second);
    settled().await.unwrap();
    assert!(!wanted.has_changed().unwrap());
    drop(first);
    settled().await.unwrap();
    assert!(wanted.borrow_and_update().is_empty());
}

#[tokio::test]
async fn reviews_are_wanted_while_a_proxy_depends_on_them() {
    let running = Running::start();
    let mut settings = testkit::settings("");
    settings.access_reviews.configured = true;
    let settings = vec![Change::Settings(Arc::new(settings))];
    running
        .derive
        .change(settings, Instant::now())
        .await
        .unwrap();
    let gateway = "
apiVersion: networking.istio.io/v1
kind: Gateway
metadata: {name: edge, namespace: shop}
spec:
  selector: {app: edge}
  servers:
  - port: {number: 443, name: https, protocol: HTTPS}
    hosts: ['*']
    tls: {mode: SIMPLE, credentialName: web}
";
    let key = running.put(gateway).await;
    let mut wanted = running.derive.wanted_reviews();
    let edge = |id: &str| {
        testkit::node(&json!({
            "id": format!("router~10.1.0.1~{id}.shop~shop.svc.cluster.local"),
            "metadata": {"NAMESPACE": "shop", "LABELS": {"app": "edge"}},
            "token": "sa:shop:edge",
        }))
    };
    let mut reviews = async || {
        running.derive.ask(|_| ()).await.unwrap();
        let all = wanted.borrow_and_update().clone();
        all.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    let one = running.derive.subscribe(edge("a"), PEER, None).await;
    let one = one.unwrap();
    running.derive.want(one.proxy, TypeUrl::Listener).unwrap();
    assert_eq!(reviews().await, [""; 0], "it asks for no secrets");
    running.derive.want(one.proxy, TypeUrl::Secret).unwrap();
    let asked = ["system:serviceaccount:shop:edge"];
    assert_eq!(reviews().await, asked);
    let two = running.derive.subscribe(edge("b"), PEER, None).await;
    let two = two.unwrap();
    running.derive.want(two.proxy, TypeUrl::Secret).unwrap();
    drop(one);
    assert_eq!(reviews().await, asked);
    let gone = vec![Change::Delete(source(), key)];
    running.derive.change(gone, Instant::now()).await.unwrap();
    assert_eq!(reviews().await, [""; 0], "nothing names a secret");
    running.put(gateway).await;
    assert_eq!(reviews().await, asked);
    drop(two);
    assert_eq!(reviews().await, [""; 0]);
}

#[tokio::test]
async fn modules_are_wanted_while_a_proxy_asks_for_their_filters() {
    let running = Running::start();
    let plugin = |version: &str| {
        format!(
            "
apiVersion: extensions.higress.io/v1alpha1
kind: WasmPlugin
metadata: {{name: auth, namespace: higress-system}}
spec: {{url: 'oci://registry.example.com/auth:{version}'}}
"
        )
    };
    running.put(&plugin("v1")).await;
    let mut wanted = running.derive.wanted_modules();
    let mut urls = async || {
        running.derive.ask(|_| ()).await.unwrap();
        let all = wanted.borrow_and_update().clone();
        let urls = all.iter().map(|demand| demand.source.url.to_string());
        urls.collect::<Vec<_>>()
    };
    let node = testkit::node(&json!({
        "id": "router~10.1.0.1~edge-0.higress-system~higress-system.svc.cluster.local",
        "metadata": {
            "NAMESPACE": "higress-system",
            "LABELS": {"higress": "higress-system-higress-gateway"},
            "PILOTHOUSE_CERTIFICATES": "ads"},
        "extensions": ["envoy.filters.http.wasm", "envoy.filters.http.rbac"],
    }));
    let mut edge = running.derive.subscribe(node, PEER, None).await.unwrap();
    running.derive.want(edge.proxy, TypeUrl::Listener).unwrap();
    assert_eq!(urls().await, [""; 0], "it asks for no filters");
    running.derive.want(edge.proxy, TypeUrl::Extension).unwrap();
    let v1 = "oci://registry.example.com/auth:v1";
    assert_eq!(urls().await, [v1]);
    let names = |proxy: &mut Subscription| {
        let published = proxy.published.newest();
        let set = published.get(TypeUrl::Extension);
        set.map_or(0, |set| set.len())
    };
    assert_eq!(names(&mut edge), 0, "nothing is known of it");
    let source = ModuleSource {
        url: v1.into(),
        sha256: "".into(),
        pull: Pull::Once,
        secret: None,
    };
    let came = FetchedModule {
        module: Some(Module::new(&b"\0asm"[..])),
        trouble: None,
    };
    let came = vec![Change::Module(source, Some(Arc::new(came)))];
    running.derive.change(came, Instant::now()).await.unwrap();
    assert_eq!(urls().await, [v1]);
    assert_eq!(names(&mut edge), 1);
    running.put(&plugin("v2")).await;
    assert_eq!(urls().await, ["oci://registry.example.com/auth:v2"]);
    drop(edge);
    assert_eq!(urls().await, [""; 0]);
}
