//! One certificate, from an order to the Secret. Every step goes on from what is kept, so that whoever is killed in between
//! loses nothing, and makes no second order.
//!
//! The URL and the key of an order are kept before anything is done with it, and what gateways are to answer before the
//! directory is told that they do. What is not kept is the moment between a directory's answer to a new order and our
//! writing it down; a directory gives the same order again then (Let's Encrypt does), or makes another.

use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use instant_acme::{
    Account, AuthorizationStatus, ChallengeStatus, ChallengeType, Error, Identifier, NewOrder,
    Order, OrderStatus, RetryPolicy, RevocationReason, RevocationRequest,
};
use model::ObjectName;
use model::certificate::PrivateKey;
use model::challenges::Answer;
use rcgen::{CertificateParams, DistinguishedName, KeyPair};
use rustls::pki_types::CertificateDer;

use crate::account::Accounts;
use crate::chain::{self, Chain, time};
use crate::client::Client;
use crate::error::{Failure, shown};
use crate::record::{DnsRecord, Orders, Pending, Record};
use crate::store::{CERTIFICATE, Content, Kept, Store};
use crate::{Options, Wish};

/// How long a directory may take to look at answers, and to sign.
const VALIDATING: Duration = Duration::from_secs(90);
/// How often it is asked meanwhile, at first.
const ASKING: Duration = Duration::from_millis(300);

/// The annotations of a certificate. Those of Higress are as Higress writes them.
///
/// Higress: pkg/cert/secret.go constructSecret, 2.1.
const DOMAIN: &str = "higress.io/cert-domain";
const DIRECTORY: &str = "pilothouse.io/acme-directory";
const REVOKED: &str = "pilothouse.io/acme-revoked";

/// The keys of a Secret for TLS.
const CHAIN_KEY: &str = "tls.crt";
const KEY_KEY: &str = "tls.key";

/// The proxies that answer challenges.
pub trait Gateways: Send + Sync + 'static {
    /// Waits until every proxy that serves the hosts of these answers gives them, but not for long; why they do not, otherwise.
    fn ready<'a>(&'a self, answers: &'a [Answer]) -> BoxFuture<'a, Result<(), String>>;
}

/// Orders certificates.
pub(crate) struct Issuer {
    pub(crate) store: Store,
    pub(crate) orders: Orders,
    pub(crate) accounts: Accounts,
    pub(crate) options: Arc<Options>,
    pub(crate) gateways: Arc<dyn Gateways>,
}

/// What a Secret holds.
#[derive(Debug)]
pub(crate) enum Held {
    /// Nothing that can be used: one is ordered.
    Nothing,
    /// A certificate of ours.
    Ours(Chain),
    /// Somebody else's.
    Foreign,
}

/// A challenge that is met.
struct Chosen {
    authorization: usize,
    kind: ChallengeType,
    /// The directory looks at it already.
    is_under_way: bool,
}

impl Issuer {
    /// What the Secret of a wish holds.
    pub(crate) async fn look(&self, secret: &ObjectName, wish: &Wish) -> Result<Held, Failure> {
        if (self.options.is_foreign)(secret) {
            return Ok(Held::Foreign);
        }
        let Some(kept) = self.store.get(secret).await? else {
            return Ok(Held::Nothing);
        };
        if !kept.is(CERTIFICATE) {
            return Ok(Held::Foreign);
        }
        Ok(self.usable(&kept, wish).map_or(Held::Nothing, Held::Ours))
    }

    fn usable(&self, kept: &Kept, wish: &Wish) -> Option<Chain> {
        let of_directory = kept.annotations.get(DIRECTORY);
        if kept.annotations.contains_key(REVOKED)
            || of_directory.is_none_or(|url| **url != *self.options.directory)
        {
            return None;
        }
        let chain = std::str::from_utf8(kept.value(CHAIN_KEY)).ok()?;
        let now = (self.options.clock)();
        chain::check(chain, kept.value(KEY_KEY), &wish.hosts, now).ok()
    }

    /// Orders the certificate, or goes on with an order, and puts it into its Secret.
    pub(crate) async fn issue(
        &self,
        secret: &ObjectName,
        wish: &Wish,
        email: Option<&str>,
    ) -> Result<Chain, Failure> {
        // What could not be kept is not ordered.
        if matches!(self.look(secret, wish).await?, Held::Foreign) {
            let foreign = crate::store::StoreError::Foreign(secret.clone());
            return Err(foreign.into());
        }
        let opened = self.accounts.open(email).await;
        let (account, client) = opened.map_err(Failure::of_all)?;
        let done = self.with(&account, &client, secret, wish).await;
        if matches!(done, Err(Failure::NoAccount(_))) {
            self.accounts.forget().await?;
        }
        done
    }

    async fn with(
        &self,
        account: &Account,
        client: &Client,
        secret: &ObjectName,
        wish: &Wish,
    ) -> Result<Chain, Failure> {
        let failure = |error| Failure::of(error, client.heard());
        let (mut order, mut pending) = self.order(account, client, secret, wish).await?;
        if order.state().status == OrderStatus::Pending {
            let authorized = self
                .authorize(&mut order, &mut pending, secret, client)
                .await;
            let cleaned = self.clean_up(&mut pending, secret).await;
            authorized?;
            cleaned?;
        } else {
            // Of who was killed when that was over.
            self.clean_up(&mut pending, secret).await?;
        }
        if order.state().status == OrderStatus::Ready {
            let csr = request(&pending.key, &wish.hosts)?;
            order.finalize_csr(&csr).await.map_err(failure)?;
        }
        let chain = match order.state().status {
            OrderStatus::Processing | OrderStatus::Ready => {
                let policy = policy();
                order.poll_certificate(&policy).await
            }
            OrderStatus::Valid => match order.certificate().await {
                Ok(Some(chain)) => Ok(chain),
                Ok(None) => Err(Error::Str("the certificate is not ready")),
                Err(error) => Err(error),
            },
            _ => Err(Error::Str("the order is not valid")),
        };
        let chain = match chain {
            Ok(chain) => chain,
            Err(error) => return Err(self.ended(&mut order, secret, failure(error)).await),
        };
        if let Err(why) = chain::read(&chain) {
            // It was issued, and can be fetched again.
            let why = format!("what the directory issued {why}");
            return Err(Failure::Later(why));
        }
        let now = (self.options.clock)();
        let known = match chain::check(&chain, pending.key.expose(), &wish.hosts, now) {
            Ok(known) => known,
            Err(why) => {
                self.orders.remove(secret).await?;
                let why = format!("what the directory issued {why}");
                return Err(Failure::Refused(why));
            }
        };
        self.keep(secret, wish, (&chain, &pending.key), &known)
            .await?;
        self.orders.remove(secret).await?;
        Ok(known)
    }

    /// The order that is under way, or a new one.
    async fn order(
        &self,
        account: &Account,
        client: &Client,
        secret: &ObjectName,
        wish: &Wish,
    ) -> Result<(Order, Pending), Failure> {
        if let Some(pending) = self.orders.get(secret).await? {
            let record = &pending.record;
            let goes_on = record.directory == *self.options.directory
                && record.account == account.id()
                && *record.hosts == *wish.hosts;
            if goes_on {
                match account.order(record.url.clone()).await {
                    Ok(mut order) => {
                        if order.state().status != OrderStatus::Invalid {
                            return Ok((order, pending));
                        }
                    }
                    Err(error) => match Failure::of(error, client.heard()) {
                        // The directory has forgotten it.
                        Failure::Refused(_) => {}
                        failure => return Err(failure),
                    },
                }
            }
            let mut pending = pending;
            self.clean_up(&mut pending, secret).await?;
            self.orders.remove(secret).await?;
        }
        let key = KeyPair::generate().map_err(|error| Failure::Later(error.to_string()))?;
        let key = PrivateKey::from_pem(key.serialize_pem());
        let names = wish.hosts.iter();
        let names: Vec<Identifier> = names.map(|h| Identifier::Dns(h.to_string())).collect();
        let order = account.new_order(&NewOrder::new(&names)).await;
        let order = order.map_err(|error| Failure::of(error, client.heard()))?;
        let pending = Pending {
            record: Record {
                directory: self.options.directory.to_string(),
                account: account.id().to_owned(),
                url: order.url().to_owned(),
                hosts: wish.hosts.to_vec(),
                secret: format!("{}/{}", secret.namespace, secret.name),
                dns: Vec::new(),
            },
            key,
            answers: Vec::new(),
        };
        self.orders.put(secret, &pending).await?;
        Ok((order, pending))
    }

    /// Proves that the hosts are served here.
    async fn authorize(
        &self,
        order: &mut Order,
        pending: &mut Pending,
        secret: &ObjectName,
        client: &Client,
    ) -> Result<(), Failure> {
        let failure = |error| Failure::of(error, client.heard());
        let (chosen, records) = self.choose(order, pending, client).await?;
        // Kept first: records that were made are taken away even by who comes after us.
        self.orders.put(secret, pending).await?;
        for record in &records {
            if let Some(dns) = &self.options.dns {
                dns.present(record).await.map_err(Failure::Refused)?;
            }
        }
        if !pending.answers.is_empty() {
            let ready = self.gateways.ready(&pending.answers).await;
            ready.map_err(Failure::Later)?;
        }
        let mut authorizations = order.authorizations();
        let mut at = 0;
        while let Some(authorization) = authorizations.next().await {
            let mut authorization = authorization.map_err(failure)?;
            let mine = chosen.iter().find(|c| c.authorization == at);
            at += 1;
            let Some(mine) = mine.filter(|c| !c.is_under_way) else {
                continue;
            };
            if let Some(mut challenge) = authorization.challenge(mine.kind.clone()) {
                challenge.set_ready().await.map_err(failure)?;
            }
        }
        match order.poll_ready(&policy()).await {
            Ok(OrderStatus::Ready) => Ok(()),
            Ok(_) => {
                let why = Failure::Refused("the directory refuses the order".to_owned());
                Err(self.ended(order, secret, why).await)
            }
            // Whoever asks again while it is still looking goes on with it.
            Err(error @ Error::Timeout(_)) => Err(failure(error)),
            Err(error) => Err(self.ended(order, secret, failure(error)).await),
        }
    }

    /// Which challenge is met for each host, and what is answered to it.
    async fn choose(
        &self,
        order: &mut Order,
        pending: &mut Pending,
        client: &Client,
    ) -> Result<(Vec<Chosen>, Vec<DnsRecord>), Failure> {
        let failure = |error| Failure::of(error, client.heard());
        let (mut chosen, mut answers, mut records) = (Vec::new(), Vec::new(), Vec::new());
        let mut authorizations = order.authorizations();
        let mut at = 0;
        while let Some(authorization) = authorizations.next().await {
            let mut authorization = authorization.map_err(failure)?;
            let authorization_at = at;
            at += 1;
            if authorization.status == AuthorizationStatus::Valid {
                continue;
            }
            let identifier = authorization.identifier();
            let (Identifier::Dns(host), wildcard) = (identifier.identifier, identifier.wildcard)
            else {
                return Err(Failure::Refused(
                    "the directory asks about no host".to_owned(),
                ));
            };
            let host = host.to_ascii_lowercase();
            let has_http = authorization
                .challenges
                .iter()
                .any(|c| c.r#type == ChallengeType::Http01);
            let kind = match wildcard || !has_http {
                true => ChallengeType::Dns01,
                false => ChallengeType::Http01,
            };
            if kind == ChallengeType::Dns01 && self.options.dns.is_none() {
                let why = format!("{host} can only be proven by DNS, which needs --acme-dns-hook");
                return Err(Failure::Refused(why));
            }
            let Some(challenge) = authorization.challenge(kind.clone()) else {
                let why = format!("the directory offers no challenge for {host} that can be met");
                return Err(Failure::Refused(why));
            };
            let proof = challenge.key_authorization();
            if kind == ChallengeType::Dns01 {
                records.push(DnsRecord {
                    name: format!("_acme-challenge.{host}"),
                    domain: host,
                    value: proof.dns_value(),
                });
            } else {
                let answer = Answer {
                    host: host.into(),
                    token: challenge.token.as_str().into(),
                    text: proof.as_str().into(),
                };
                if !answer.is_sound() {
                    let why = "the directory's token is none";
                    return Err(Failure::Refused(why.to_owned()));
                }
                answers.push(answer);
            }
            chosen.push(Chosen {
                authorization: authorization_at,
                kind,
                is_under_way: challenge.status != ChallengeStatus::Pending,
            });
        }
        pending.answers = answers;
        let made = &mut pending.record.dns;
        made.extend(
            records
                .iter()
                .filter(|r| !made.contains(r))
                .cloned()
                .collect::<Vec<_>>(),
        );
        Ok((chosen, records))
    }

    /// Takes away what was made for challenges: they are over, or failed.
    async fn clean_up(&self, pending: &mut Pending, secret: &ObjectName) -> Result<(), Failure> {
        if pending.answers.is_empty() && pending.record.dns.is_empty() {
            return Ok(());
        }
        if let Some(dns) = &self.options.dns {
            for record in &pending.record.dns {
                if let Err(error) = dns.clean_up(record).await {
                    tracing::warn!(name = record.name, %error, "A record of DNS was not taken away.");
                }
            }
        }
        pending.answers.clear();
        pending.record.dns.clear();
        // Where the order is gone already, there is nothing to keep.
        if self.orders.get(secret).await?.is_some() {
            self.orders.put(secret, pending).await?;
        }
        Ok(())
    }

    /// What a failure means for an order: one that cannot become valid any more is forgotten, and what the directory says of
    /// its challenges says more than that it failed.
    async fn ended(&self, order: &mut Order, secret: &ObjectName, failure: Failure) -> Failure {
        if order.refresh().await.is_err() || order.state().status != OrderStatus::Invalid {
            return failure;
        }
        if let Err(error) = self.orders.remove(secret).await {
            return error.into();
        }
        let mut why = Vec::new();
        let mut authorizations = order.authorizations();
        while let Some(Ok(mut authorization)) = authorizations.next().await {
            if authorization.refresh().await.is_err() {
                break;
            }
            let errors = authorization.challenges.iter();
            why.extend(errors.filter_map(|c| Some(c.error.as_ref()?.to_string())));
        }
        match (why.is_empty(), failure) {
            (true, failure) => failure,
            (false, _) => Failure::Refused(shown(&why.join("; "))),
        }
    }

    /// Puts a certificate into its Secret.
    async fn keep(
        &self,
        secret: &ObjectName,
        wish: &Wish,
        (chain, key): (&str, &PrivateKey),
        known: &Chain,
    ) -> Result<(), Failure> {
        let former = self.store.own(secret, CERTIFICATE).await?;
        let directory = &self.options.directory;
        let issuer = match **directory == *crate::LETS_ENCRYPT {
            true => "letsencrypt",
            false => host_of(directory),
        };
        let mut annotations = vec![
            (DOMAIN, wish.hosts.join(",")),
            ("higress.io/cert-notBefore", time(known.not_before)),
            ("higress.io/cert-notAfter", time(known.not_after)),
            ("higress.io/cert-renew", former.is_some().to_string()),
            ("higress.io/cert-source", issuer.to_owned()),
            (DIRECTORY, directory.to_string()),
        ];
        if former.is_some() {
            let now = time((self.options.clock)());
            annotations.push(("higress.io/cert-renew-time", now));
        }
        let owned = annotations.into_iter();
        let content = Content {
            what: CERTIFICATE,
            of_type: "kubernetes.io/tls",
            annotations: owned.map(|(key, text)| (key.to_owned(), text)).collect(),
            data: vec![(CHAIN_KEY, chain.as_bytes()), (KEY_KEY, key.expose())],
        };
        Ok(self.store.put(secret, &content).await?)
    }

    /// Revokes the certificate of a Secret: the next look finds none.
    pub(crate) async fn revoke(
        &self,
        secret: &ObjectName,
        email: Option<&str>,
    ) -> Result<(), Failure> {
        let Some(kept) = self.store.own(secret, CERTIFICATE).await? else {
            let why = format!("the Secret {secret} holds no certificate that was ordered here");
            return Err(Failure::Refused(why));
        };
        let chain = std::str::from_utf8(kept.value(CHAIN_KEY)).unwrap_or_default();
        let read = chain::read(chain);
        let (der, ..) = read.map_err(|why| Failure::Refused(format!("{secret} {why}")))?;
        let (account, client) = self.accounts.open(email).await?;
        let request = RevocationRequest {
            certificate: &CertificateDer::from(der),
            reason: Some(RevocationReason::Superseded),
        };
        match account.revoke(&request).await {
            Ok(()) => {}
            Err(Error::Api(problem)) if is_revoked_already(&problem) => {}
            Err(error) => return Err(Failure::of(error, client.heard())),
        }
        let mut annotations = kept.annotations.clone();
        annotations.insert(REVOKED.to_owned(), time((self.options.clock)()));
        let content = Content {
            what: CERTIFICATE,
            of_type: "kubernetes.io/tls",
            annotations,
            data: vec![
                (CHAIN_KEY, kept.value(CHAIN_KEY)),
                (KEY_KEY, kept.value(KEY_KEY)),
            ],
        };
        Ok(self.store.put(secret, &content).await?)
    }
}

fn is_revoked_already(problem: &instant_acme::Problem) -> bool {
    let kind = problem.r#type.as_deref();
    kind == Some("urn:ietf:params:acme:error:alreadyRevoked")
}

fn policy() -> RetryPolicy {
    RetryPolicy::new()
        .initial_delay(ASKING)
        .backoff(1.5)
        .timeout(VALIDATING)
}

/// The request for a certificate, in DER.
fn request(key: &PrivateKey, hosts: &[Arc<str>]) -> Result<Vec<u8>, Failure> {
    let made = || {
        let pem = std::str::from_utf8(key.expose()).unwrap_or_default();
        let key = KeyPair::from_pem(pem)?;
        let names: Vec<String> = hosts.iter().map(ToString::to_string).collect();
        let mut params = CertificateParams::new(names)?;
        params.distinguished_name = DistinguishedName::new();
        Ok(params.serialize_request(&key)?.der().to_vec())
    };
    let request = made();
    request
        .map_err(|error: rcgen::Error| Failure::Later(format!("no request can be made: {error}")))
}

/// The host of a URL.
pub(crate) fn host_of(url: &str) -> &str {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    rest.split('/').next().unwrap_or(rest)
}
