//! The service account, its rights, its token, and the roots of the API server.

use std::io::Write;
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use k8s_openapi::api::authentication::v1::TokenRequest;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Secret, ServiceAccount};
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding};
use kube::api::{ListParams, PostParams};
use kube::{Api, Client, Resource};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::json;
use server::permissions::{Feature, Reach, rules};

use super::{AuthType, Purpose, RemoteSecretOptions};

/// Secrets of this type hold tokens of service accounts.
const TOKEN_TYPE: &str = "kubernetes.io/service-account-token";
/// Their annotation with the account.
const ACCOUNT_ANNOTATION: &str = "kubernetes.io/service-account.name";
/// How long the cluster may take to put a token into a new Secret.
const PATIENCE: Duration = Duration::from_secs(10);
/// How often it is looked for.
const LOOK: Duration = Duration::from_millis(200);

/// What a control plane needs besides the URL. Never shown but in what was asked for.
pub(super) struct Access {
    /// The token of the service account; empty where a plugin has one.
    pub(super) token: String,
    /// Roots of the API server's certificate, as kubeconfigs have them; `None` where it is not verified by any of its own.
    pub(super) roots: Option<String>,
}

/// Finds the service account with its token, and makes what is missing.
pub(super) async fn find(
    client: &Client,
    options: &RemoteSecretOptions,
    log: &mut impl Write,
) -> anyhow::Result<Access> {
    let (namespace, account) = (options.namespace.as_str(), options.service_account());
    let accounts: Api<ServiceAccount> = Api::namespaced(client.clone(), namespace);
    let known = accounts.get_opt(account).await;
    if known
        .with_context(|| format!("cannot read the service account {namespace}/{account}"))?
        .is_none()
    {
        ensure!(
            options.create_service_account,
            "there is no service account {namespace}/{account}, and --create-service-account=false"
        );
        create_account(client, options).await?;
        writeln!(log, "created the service account {namespace}/{account}")?;
    }
    match options.token_duration {
        Some(duration) => short_lived(client, options, duration).await,
        None => of_secret(client, options, log).await,
    }
}

async fn of_secret(
    client: &Client,
    options: &RemoteSecretOptions,
    log: &mut impl Write,
) -> anyhow::Result<Access> {
    let (namespace, account) = (options.namespace.as_str(), options.service_account());
    let secrets: Api<Secret> = Api::namespaced(client.clone(), namespace);
    let mut secret = match &options.secret_name {
        Some(name) => {
            let secret = secrets.get(name).await;
            let secret =
                secret.with_context(|| format!("cannot read Secret {namespace}/{name}"))?;
            ensure!(
                is_of(&secret, account),
                "Secret {namespace}/{name} holds no token of the service account {account}"
            );
            secret
        }
        None => {
            let fields = format!("type={TOKEN_TYPE}");
            let all = secrets.list(&ListParams::default().fields(&fields)).await;
            let all = all.with_context(|| format!("cannot list Secrets in {namespace}"))?;
            match all.items.into_iter().find(|s| is_of(s, account)) {
                Some(secret) => secret,
                None => create_token(&secrets, account, log).await?,
            }
        }
    };
    let name = secret.metadata.name.clone().unwrap_or_default();
    let needs_token = options.auth_type == AuthType::BearerToken;
    let deadline = tokio::time::Instant::now() + PATIENCE;
    loop {
        let value = |key: &str| secret.data.as_ref().and_then(|d| d.get(key));
        let (token, roots) = (value("token"), value("ca.crt"));
        if let Some(roots) = roots.filter(|_| token.is_some() || !needs_token) {
            let token = token.map_or(&[][..], |t| &t.0);
            let token = std::str::from_utf8(token).context("the token is not text")?;
            return Ok(Access {
                token: token.to_owned(),
                roots: Some(BASE64_STANDARD.encode(&roots.0)),
            });
        }
        if tokio::time::Instant::now() > deadline {
            bail!(
                "the cluster has put no token and ca.crt into Secret {namespace}/{name} within {} s; is its controller manager \
                 running? --token-duration asks for a token that expires",
                PATIENCE.as_secs()
            );
        }
        tokio::time::sleep(LOOK).await;
        secret = secrets
            .get(&name)
            .await
            .with_context(|| format!("cannot read Secret {namespace}/{name}"))?;
    }
}

fn is_of(secret: &Secret, account: &str) -> bool {
    let annotations = secret.metadata.annotations.as_ref();
    let named = annotations.and_then(|a| a.get(ACCOUNT_ANNOTATION));
    secret.type_.as_deref() == Some(TOKEN_TYPE) && named.is_some_and(|n| n == account)
}

async fn create_token(
    secrets: &Api<Secret>,
    account: &str,
    log: &mut impl Write,
) -> anyhow::Result<Secret> {
    let name = format!("{account}-istio-remote-secret-token");
    let secret = json!({
        "metadata": {"name": name, "annotations": {ACCOUNT_ANNOTATION: account}},
        "type": TOKEN_TYPE,
    });
    let secret = serde_json::from_value(secret)?;
    let created = secrets.create(&PostParams::default(), &secret).await;
    let created = created.with_context(|| format!("cannot create Secret {name}"))?;
    writeln!(log, "created the Secret {name} for a token of {account}")?;
    Ok(created)
}

/// A token that expires, and the roots that every namespace is given.
async fn short_lived(
    client: &Client,
    options: &RemoteSecretOptions,
    duration: Duration,
) -> anyhow::Result<Access> {
    let (namespace, account) = (options.namespace.as_str(), options.service_account());
    let accounts: Api<ServiceAccount> = Api::namespaced(client.clone(), namespace);
    let request = json!({"spec": {"audiences": [], "expirationSeconds": duration.as_secs()}});
    let request: TokenRequest = serde_json::from_value(request)?;
    let answer = accounts
        .create_token_request(account, &PostParams::default(), &request)
        .await;
    let answer = answer.with_context(|| format!("cannot get a token of {namespace}/{account}"))?;
    let token = answer.status.and_then(|status| status.token);
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), namespace);
    let map = maps.get_opt("kube-root-ca.crt").await;
    let map = map.context("cannot read the ConfigMap kube-root-ca.crt")?;
    let roots = map.and_then(|map| map.data?.remove("ca.crt"));
    Ok(Access {
        token: token.context("the API server gave no token")?,
        roots: roots.map(|pem| BASE64_STANDARD.encode(pem)),
    })
}

/// Makes the namespace, the account, and for a remote control plane the right to read.
async fn create_account(client: &Client, options: &RemoteSecretOptions) -> anyhow::Result<()> {
    let (namespace, account) = (options.namespace.as_str(), options.service_account());
    let of_cluster = || client.clone();
    create(
        &Api::<Namespace>::all(of_cluster()),
        json!({"metadata": {"name": namespace}}),
    )
    .await?;
    create(
        &Api::<ServiceAccount>::namespaced(of_cluster(), namespace),
        json!({"metadata": {"name": account, "labels": {"app": "istio-reader"}}}),
    )
    .await?;
    if options.purpose == Purpose::Config {
        return Ok(());
    }
    let role = format!("istio-reader-clusterrole-{namespace}");
    let mut features = vec![Feature::Reading, Feature::Reviews];
    if options.ingress_class.is_some() {
        features.extend([Feature::Ingresses, Feature::IngressStatuses]);
    }
    let granted = features.iter().flat_map(|f| rules(Reach::Remote, *f));
    let granted: Vec<_> = granted.map(|rule| rule.json()).collect();
    create(
        &Api::<ClusterRole>::all(of_cluster()),
        json!({
            "metadata": {"name": role, "labels": {"app": "istio-reader"}},
            "rules": granted,
        }),
    )
    .await?;
    create(
        &Api::<ClusterRoleBinding>::all(of_cluster()),
        json!({
            "metadata": {"name": role, "labels": {"app": "istio-reader"}},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
            "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": namespace}],
        }),
    )
    .await
}

/// Creates an object; one that is there already stays as it is.
async fn create<K>(api: &Api<K>, object: serde_json::Value) -> anyhow::Result<()>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Serialize + std::fmt::Debug,
{
    let object: K = serde_json::from_value(object)?;
    match api.create(&PostParams::default(), &object).await {
        Ok(_) => Ok(()),
        Err(kube::Error::Api(status)) if status.code == 409 => Ok(()),
        Err(error) => {
            let name = object.meta().name.clone().unwrap_or_default();
            Err(error).with_context(|| format!("cannot create {} {name}", K::kind(&())))
        }
    }
}
