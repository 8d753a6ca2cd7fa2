use std::collections::BTreeSet;
use std::sync::Mutex;

use writeback::testing::{FakePlace, Faults};
use writeback::{ObjectRef, Place};

use super::kept::{Kept, Policy};
use super::*;
use crate::certificate::Certificate;
use crate::csr::Csr;
use crate::key::PrivateKey;
use crate::path;
use crate::signer::{Issued, SignError, SigningRequest};

const WORKLOAD: &str = "spiffe://cluster.local/ns/shop/sa/web";
const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_hours(1);

/// A clock that goes as tokio's does, which tests let pass.
fn clock() -> Clock {
    let (wall, start) = (SystemTime::now(), tokio::time::Instant::now());
    Arc::new(move || wall + start.elapsed())
}

/// A root of ten days that is replaced in its last two, trusted an hour before it signs.
fn options() -> Options {
    Options {
        lifetime: 240 * HOUR,
        check_interval: 10 * MINUTE,
        jitter: false,
        distribution: HOUR,
        // Time that passes in an instant passes in as many looks.
        look: 5 * MINUTE,
        lifetimes: Lifetimes {
            default: HOUR,
            longest: 4 * HOUR,
        },
        ..Options::default()
    }
}

fn policy() -> Policy {
    let options = options();
    Policy {
        organization: options.organization,
        algorithm: options.algorithm,
        lifetime: options.lifetime,
        grace_percent: options.grace_percent,
        distribution: options.distribution,
        longest_leaf: options.lifetimes.longest,
    }
}

fn in_secret(place: Arc<dyn Place>) -> Storage {
    Storage::Secret {
        place,
        namespace: "istio-system".into(),
        as_cacerts: false,
    }
}

fn reference(name: &str) -> ObjectRef {
    secret(&"istio-system".into(), name)
}

async fn sign(authority: &Authority, ttl: Duration) -> Result<Issued, SignError> {
    let key = PrivateKey::generate(KeyAlgorithm::EcdsaP256).unwrap();
    let request = SigningRequest {
        csr: Csr::make(&key, &[WORKLOAD]).unwrap(),
        sans: vec![WORKLOAD.into()],
        ttl: Some(ttl),
        signer: None,
    };
    authority.signer().sign(request).await
}

/// What a workload has: a certificate, and the roots that it judges others by.
struct Workload {
    leaf: Certificate,
    roots: Vec<Certificate>,
}

impl Workload {
    fn of(issued: &Issued) -> Self {
        Self {
            leaf: Certificate::from_pem(issued.chain[0].as_bytes())
                .unwrap()
                .remove(0),
            roots: Certificate::from_pem(issued.roots.as_bytes()).unwrap(),
        }
    }

    fn takes(&self, other: &Self, at: SystemTime) -> bool {
        path::find(&other.leaf, &[], &self.roots, at).is_ok()
    }
}

/// Workloads that renew their certificate when half of its time is over, at different times, and learn of roots only then: each
/// takes each other at any time, through rotations.
async fn nobody_is_refused(authorities: &[Authority], clock: &Clock, time: Duration) -> usize {
    const WORKLOADS: usize = 6;
    let start = clock();
    let mut workloads = Vec::new();
    for index in 0..WORKLOADS {
        let issued = sign(&authorities[index % authorities.len()], HOUR)
            .await
            .unwrap();
        workloads.push(Workload::of(&issued));
    }
    let mut roots = BTreeSet::new();
    // A signature that was good stays good, as long as nothing expires.
    let mut taken = BTreeSet::new();
    let mut turn = 0;
    while clock() < start + time {
        tokio::time::sleep(2 * MINUTE).await;
        turn += 1;
        let now = clock();
        for (index, workload) in workloads.iter_mut().enumerate() {
            let half = HOUR / 2 - 2 * MINUTE * u32::try_from(index).unwrap();
            if workload.leaf.not_after() < now + half {
                let authority = &authorities[(index + turn) % authorities.len()];
                *workload = Workload::of(&sign(authority, HOUR).await.unwrap());
            }
            roots.insert(workload.roots[0].fingerprint());
        }
        for (index, one) in workloads.iter().enumerate() {
            for (other_index, other) in workloads.iter().enumerate() {
                let expires = one.roots.iter().map(Certificate::not_after).min();
                let known = (one.leaf.serial(), other.leaf.serial(), expires < Some(now));
                if !other.leaf.is_valid_at(now) || taken.insert(known) {
                    assert!(
                        one.takes(other, now),
                        "{index} refuses {other_index} after {:?}",
                        now.duration_since(start)
                    );
                }
            }
        }
    }
    roots.len()
}

#[tokio::test(start_paused = true)]
async fn nobody_is_refused_through_rotations_with_three_replicas() {
    let place = FakePlace::new();
    let clock = clock();
    let faults = Faults {
        delay: Duration::from_secs(2),
        lost: 100,
        unanswered: 100,
    };
    let options = Options {
        lifetime: 24 * HOUR,
        look: 2 * MINUTE,
        ..options()
    };
    let authorities: Vec<_> = (0..3)
        .map(|replica| {
            let storage = in_secret(place.client(&format!("replica-{replica}"), replica, faults));
            start(
                storage,
                options.clone(),
                clock.clone(),
                CancellationToken::new(),
            )
        })
        .collect();
    for authority in &authorities {
        authority.ready().await;
    }
    let roots = nobody_is_refused(&authorities, &clock, 44 * HOUR).await;
    assert!(roots >= 3, "{roots} roots in 44 hours of 24 each");
    let made = place
        .written()
        .iter()
        .filter(|w| w.before.is_null())
        .count();
    assert_eq!(made, 1, "one CA is made, whoever comes first");
    // Of the old roots nothing is left but those whose certificates may still be valid.
    let kept = place.object(&reference(SECRET));
    let roots = value_of(&kept, "root-cert.pem").unwrap();
    let roots = Certificate::from_pem(&roots).unwrap();
    assert!(roots.len() <= 2, "{} roots are trusted", roots.len());
}

#[tokio::test(start_paused = true)]
async fn a_rotation_goes_on_while_the_secret_cannot_be_written() {
    let place = FakePlace::new();
    let clock = clock();
    let client = place.client("only", 1, Faults::default());
    let storage = in_secret(client.clone());
    let authority = start(storage, options(), clock.clone(), CancellationToken::new());
    authority.ready().await;
    let first = authority.roots().borrow().pems.clone();
    let mut roots = authority.roots();
    let announced = roots
        .wait_for(|roots| roots.pems.len() == 2)
        .await
        .unwrap()
        .clone();
    assert_eq!(
        announced.pems[0], first[0],
        "the new root does not sign yet"
    );
    assert!(authority.state().next_signs_from.is_some());
    client.set_faults(Faults {
        lost: 1000,
        ..Faults::default()
    });
    let switched = roots
        .wait_for(|roots| roots.pems[0] != first[0])
        .await
        .unwrap()
        .clone();
    assert_eq!(switched.pems[1], first[0], "the old root stays trusted");
    let issued = sign(&authority, HOUR).await.unwrap();
    let leaf = Certificate::from_pem(issued.chain[0].as_bytes())
        .unwrap()
        .remove(0);
    let new = Certificate::from_pem(switched.pems[0].as_bytes())
        .unwrap()
        .remove(0);
    assert!(new.has_signed(&leaf));
    assert!(authority.state().fault.is_some());
}

#[tokio::test(start_paused = true)]
async fn without_an_interval_nothing_rotates() {
    let clock = clock();
    let options = Options {
        check_interval: Duration::ZERO,
        ..options()
    };
    let authority = start(Storage::memory(), options, clock, CancellationToken::new());
    authority.ready().await;
    let first = authority.roots().borrow().clone();
    tokio::time::sleep(239 * HOUR).await;
    assert_eq!(*authority.roots().borrow(), first);
    tokio::time::sleep(2 * HOUR).await;
    let refused = sign(&authority, HOUR).await.unwrap_err();
    assert_eq!(refused.label(), "CERT_GEN_ERROR");
}

#[tokio::test(start_paused = true)]
async fn a_ca_that_expired_while_nobody_looked_is_replaced_at_once() {
    let place = FakePlace::new();
    let client = place.client("only", 1, Faults::default());
    let stop = CancellationToken::new();
    let clock = clock();
    let first = start(
        in_secret(client.clone()),
        options(),
        clock.clone(),
        stop.clone(),
    );
    first.ready().await;
    let old = first.roots().borrow().pems.clone();
    stop.cancel();
    tokio::time::sleep(300 * HOUR).await;
    let again = start(
        in_secret(client),
        options(),
        clock,
        CancellationToken::new(),
    );
    again.ready().await;
    assert_ne!(again.roots().borrow().pems, old);
    sign(&again, HOUR).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn what_istiod_keeps_is_read_and_what_is_kept_here_istiod_can_read() {
    let now = SystemTime::now();
    let kept = Kept::new(&policy(), now).unwrap();
    let place = FakePlace::new();
    let certificate = kept.current.certificate.pem();
    let base64 = |text: &str| {
        use base64::Engine;
        base64::engine::general_purpose::STANDARD.encode(text)
    };
    // As istiod writes it: some texts are empty.
    let object = serde_json::json!({
        "type": "istio.io/ca-root",
        "data": {
            "ca-cert.pem": base64(&certificate), "ca-key.pem": base64(kept.current.key.pem()),
            "root-cert.pem": base64(&certificate), "cert-chain.pem": "", "key.pem": "",
        },
    });
    place.put("istiod", &reference(SECRET), object);
    let client = place.client("only", 1, Faults::default());
    let clock = clock();
    let authority = start(
        in_secret(client),
        options(),
        clock,
        CancellationToken::new(),
    );
    authority.ready().await;
    assert_eq!(
        authority.roots().borrow().pems,
        std::slice::from_ref(&certificate)
    );
    assert_eq!(place.written().len(), 1, "nothing is written that is there");
    tokio::time::sleep(230 * HOUR).await;
    let kept = place.object(&reference(SECRET));
    assert_eq!(kept["type"], "istio.io/ca-root");
    assert_eq!(kept["data"]["key.pem"], "", "what is not ours stays");
    let new = value_of(&kept, "ca-cert.pem").unwrap();
    let new = Certificate::from_pem(&new).unwrap().remove(0);
    assert_ne!(new.pem(), certificate);
    let key = PrivateKey::from_pem(&value_of(&kept, "ca-key.pem").unwrap()).unwrap();
    assert_eq!(key.public_key(), new.public_key());
}

#[tokio::test(start_paused = true)]
async fn a_secret_that_cannot_be_read_is_never_written_over() {
    let place = FakePlace::new();
    let broken = serde_json::json!({"data": {"ca-cert.pem": "bm9uc2Vuc2U=", "ca-key.pem": ""}});
    place.put("somebody", &reference(SECRET), broken);
    let client = place.client("only", 1, Faults::default());
    let clock = clock();
    let authority = start(
        in_secret(client),
        options(),
        clock,
        CancellationToken::new(),
    );
    tokio::time::sleep(HOUR).await;
    assert!(!authority.roots().borrow().are_known());
    assert!(authority.state().fault.is_some());
    assert_eq!(
        sign(&authority, HOUR).await.unwrap_err().label(),
        "CA_NOT_READY"
    );
    assert_eq!(place.written().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_new_secret_is_called_cacerts_where_that_is_asked_for() {
    let place = FakePlace::new();
    let storage = Storage::Secret {
        place: place.client("only", 1, Faults::default()),
        namespace: "istio-system".into(),
        as_cacerts: true,
    };
    start(storage, options(), clock(), CancellationToken::new())
        .ready()
        .await;
    assert!(place.object(&reference(SECRET)).is_null());
    assert_eq!(place.object(&reference(CACERTS))["data"][GENERATED], "");
}

#[tokio::test]
async fn a_folder_holds_the_secret_for_the_next_start_and_for_nobody_else() {
    use std::os::unix::fs::PermissionsExt;
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("above/ca");
    let begin = || {
        let storage = Storage::Folder(folder.clone());
        start(
            storage,
            options(),
            crate::system_clock(),
            CancellationToken::new(),
        )
    };
    let first = begin();
    first.ready().await;
    let second = begin();
    second.ready().await;
    assert_eq!(first.roots().borrow().pems, second.roots().borrow().pems);
    let file = folder.join("istio-ca-secret.json");
    let mode = |path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&file), mode(&folder)), (0o600, 0o700));
    let object: serde_json::Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
    assert_eq!(object["kind"], "Secret");
    assert_eq!(object["metadata"]["name"], SECRET);
}

#[test]
fn the_steps_of_a_rotation_are_those_that_are_due() {
    let (policy, now) = (policy(), SystemTime::now());
    let first = Kept::new(&policy, now).unwrap();
    let old = first.current.certificate.clone();
    let advanced = |kept: &Kept, at, may| kept.advanced(&policy, at, may).unwrap();
    assert!(
        advanced(&first, now + 190 * HOUR, true).is_none(),
        "there is time"
    );
    assert!(
        advanced(&first, now + 193 * HOUR, false).is_none(),
        "it is not looked at"
    );
    let at = now + 193 * HOUR;
    let second = advanced(&first, at, true).unwrap();
    let next = second.next.as_ref().unwrap();
    assert_eq!(second.current.certificate, old);
    assert_eq!(next.signs_from, at + HOUR);
    assert!(advanced(&second, at + HOUR - MINUTE, true).is_none());
    assert_eq!(second.signing(at + HOUR).certificate, next.pair.certificate);
    let third = advanced(&second, at + HOUR, true).unwrap();
    assert_eq!(third.current.certificate, next.pair.certificate);
    let until = third.trusted[0].until;
    assert!(until >= at + HOUR + policy.longest_leaf && until < old.not_after());
    let fourth = advanced(&third, until, true).unwrap();
    assert!(fourth.trusted.is_empty());
    for kept in [&first, &second, &third, &fourth] {
        let read = Kept::read(&kept.data()).unwrap();
        assert_eq!(read.current.certificate, kept.current.certificate);
        assert_eq!(read.next.is_some(), kept.next.is_some());
        let roots = |kept: &Kept| kept.issuer(at).unwrap().roots().to_vec();
        assert_eq!(roots(&read), roots(kept));
        let seconds = |t: Option<SystemTime>| t.map(|t| t.duration_since(now).unwrap().as_secs());
        let (own, again) = (seconds(kept.next_step()), seconds(read.next_step()));
        assert!(own.zip(again).is_none_or(|(a, b)| a.abs_diff(b) <= 1));
    }
}

#[tokio::test(start_paused = true)]
async fn keys_stand_in_no_line_of_the_log_nor_in_what_is_shown() {
    #[derive(Clone, Default)]
    struct Lines(Arc<Mutex<Vec<u8>>>);
    impl std::io::Write for Lines {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let lines = Lines::default();
    let writer = lines.clone();
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(tracing::Level::TRACE)
        .with_writer(move || writer.clone())
        .finish();
    let _guard = tracing::subscriber::set_default(subscriber);
    let place = FakePlace::new();
    let client = place.client("only", 1, Faults::default());
    let authority = start(
        in_secret(client),
        options(),
        clock(),
        CancellationToken::new(),
    );
    authority.ready().await;
    sign(&authority, HOUR).await.unwrap();
    tokio::time::sleep(230 * HOUR).await;
    let shown = String::from_utf8(lines.0.lock().unwrap().clone()).unwrap();
    assert!(shown.contains("A new CA was made."), "{shown}");
    let shown = format!("{shown}{:?}{:?}", authority.state(), authority.roots());
    for written in place.written() {
        let key = value_of(&written.after, "ca-key.pem").unwrap();
        let key = String::from_utf8(key.to_vec()).unwrap();
        let body = key.lines().nth(1).unwrap();
        assert!(!shown.contains(&body[8..32]), "{shown}");
        let encoded = written.after["data"]["ca-key.pem"].as_str().unwrap();
        assert!(!shown.contains(&encoded[60..90]), "{shown}");
    }
}
