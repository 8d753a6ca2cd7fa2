//! What takes the place of a template until its value does: what is asked for, and who asks, sealed.
//!
//! A mark is encrypted and authenticated with a key that is drawn once in each process and never leaves it. So a text
//! that was not sealed here is not a mark, a mark cannot be changed, and one that reaches a proxy by mistake says
//! nothing.

use std::sync::{Arc, OnceLock};

use aws_lc_rs::aead::{AES_256_GCM_SIV, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use aws_lc_rs::hmac;

use super::{BEGIN, MARK, SecretRef};
use crate::kinds::Kind;
use crate::names::{ClusterId, Namespace};
use crate::object::ObjectName;
use crate::redacted::Redacted;

/// Separates the parts of a mark; no part but the last may have it.
const SEPARATOR: char = '\0';
/// Separates namespaces; none has it.
const COMMA: char = ',';
/// How gateways of the edge are written.
const EDGE: &str = "*edge";

/// The object that asks for a value, and whose proxies may have it besides those of its own namespace.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Asker {
    /// The object's kind.
    pub kind: Kind,
    /// Its name.
    pub name: ObjectName,
    /// The field that asks.
    pub path: Arc<str>,
    /// The gateways that the object names.
    pub gateways: Gateways,
}

/// The gateways that an object names.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Gateways {
    /// Those of Gateways in these namespaces.
    Of(Arc<[Namespace]>),
    /// Those that serve Ingresses.
    Edge,
}

impl Gateways {
    /// None.
    pub fn none() -> Self {
        Self::Of(Arc::default())
    }
}

/// What a value is to be put in for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Content {
    /// A template.
    Template(SecretRef),
    /// A field of an object that names a Secret, which counts where templates are turned off as well.
    Field(SecretRef),
    /// A text that is for the same proxies, as hashes of passwords are.
    Hidden(Redacted),
}

/// What is asked for, and who asks.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Mark {
    /// Who asks.
    pub asker: Asker,
    /// What is asked for.
    pub content: Content,
    /// `name.key` or `namespace/name.key` as the author wrote it.
    stated: Arc<str>,
}

impl Mark {
    /// A template of an object; `None` where `stated` does not name a key of a Secret.
    pub(super) fn template(asker: &Asker, stated: &str) -> Option<Self> {
        let wanted = SecretRef::read(stated, &asker.name.namespace)?;
        Some(Self::new(asker, Content::Template(wanted), stated))
    }

    /// A field of an object that names a key of a Secret, as `name.key` or `namespace/name.key`.
    pub fn field(asker: &Asker, stated: &str) -> Option<Self> {
        let wanted = SecretRef::read(stated, &asker.name.namespace)?;
        Some(Self::new(asker, Content::Field(wanted), stated))
    }

    /// A text that only proxies of the asker's may have.
    pub fn hidden(asker: &Asker, text: Redacted) -> Self {
        Self::new(asker, Content::Hidden(text), "")
    }

    fn new(asker: &Asker, content: Content, stated: &str) -> Self {
        Self {
            asker: asker.clone(),
            content,
            stated: stated.into(),
        }
    }

    /// The key of a Secret that is asked for.
    pub fn secret(&self) -> Option<&SecretRef> {
        match &self.content {
            Content::Template(wanted) | Content::Field(wanted) => Some(wanted),
            Content::Hidden(_) => None,
        }
    }

    /// What people see in its place.
    pub fn written(&self) -> String {
        match &self.content {
            Content::Template(_) | Content::Field(_) => format!("{BEGIN}{}}}", self.stated),
            Content::Hidden(_) => "redacted".to_owned(),
        }
    }

    /// A text that opens nothing, for an audience that gets no value: another for each asker, content and audience, which
    /// nobody who lacks the secret `key` can guess.
    pub fn nothing(&self, key: &Redacted, audience: &str) -> String {
        let key = hmac::Key::new(hmac::HMAC_SHA256, key.reveal().as_bytes());
        let mut tag = hmac::Context::with_key(&key);
        let ObjectName {
            namespace, name, ..
        } = &self.asker.name;
        let kind = self.asker.kind.name();
        for part in [audience, kind, namespace, name, &self.stated] {
            tag.update(&(part.len() as u64).to_le_bytes());
            tag.update(part.as_bytes());
        }
        let tag = tag.sign();
        let mut out = "no-value-".to_owned();
        hex(&tag.as_ref()[..16], &mut out);
        out
    }

    /// The text that stands in its place until it is filled; `None` where the system gives no random numbers for a key,
    /// or a name has characters that no name has.
    pub fn sealed(&self) -> Option<String> {
        let gateways = match &self.asker.gateways {
            Gateways::Edge => EDGE.to_owned(),
            Gateways::Of(namespaces) => {
                let fits = |n: &&Namespace| !n.contains([COMMA, '*']);
                let namespaces = namespaces.iter().filter(fits).map(Namespace::as_str);
                namespaces.collect::<Vec<_>>().join(",")
            }
        };
        let kind = Kind::ALL.iter().position(|k| *k == self.asker.kind)?;
        let kind = kind.to_string();
        let (form, last) = match &self.content {
            Content::Template(_) => ("template", &*self.stated),
            Content::Field(_) => ("field", &*self.stated),
            Content::Hidden(text) => ("hidden", text.reveal()),
        };
        let ObjectName {
            namespace,
            name,
            cluster,
        } = &self.asker.name;
        let cluster = cluster.as_deref().unwrap_or_default();
        let path = &*self.asker.path;
        let parts = [form, &kind, namespace, name, cluster, &gateways, path];
        if parts.iter().any(|part| part.contains(SEPARATOR)) {
            return None;
        }
        let mut plain = parts.join("\0");
        plain.extend([SEPARATOR.to_string().as_str(), last]);
        let mut bytes = plain.into_bytes();
        // A key of this kind may be used with one nonce: equal texts become equal marks, and no more can be seen.
        let nonce = Nonce::assume_unique_for_key([0; NONCE_LEN]);
        key()?
            .seal_in_place_append_tag(nonce, Aad::empty(), &mut bytes)
            .ok()?;
        let mut out = String::with_capacity(2 * bytes.len() + 2 * MARK.len());
        out.push_str(MARK);
        hex(&bytes, &mut out);
        out.push_str(MARK);
        Some(out)
    }

    /// Opens what stands between two characters of marks; `None` where this process has not sealed it.
    pub(super) fn open(sealed: &str) -> Option<Self> {
        let digits = sealed.as_bytes();
        if !digits.len().is_multiple_of(2) {
            return None;
        }
        let digit = |b: u8| char::from(b).to_digit(16);
        let octet = |pair: &[u8]| u8::try_from(digit(pair[0])? << 4 | digit(pair[1])?).ok();
        let mut bytes: Vec<u8> = digits.chunks_exact(2).map(octet).collect::<Option<_>>()?;
        let nonce = Nonce::assume_unique_for_key([0; NONCE_LEN]);
        let opened = key()?.open_in_place(nonce, Aad::empty(), &mut bytes).ok()?;
        let text = std::str::from_utf8(opened).ok()?;
        let parts: Vec<&str> = text.splitn(8, SEPARATOR).collect();
        let [form, kind, namespace, name, cluster, gateways, path, last] = parts[..] else {
            return None;
        };
        let gateways = match gateways {
            EDGE => Gateways::Edge,
            "" => Gateways::none(),
            listed => Gateways::Of(listed.split(COMMA).map(Namespace::from).collect()),
        };
        let cluster = Some(ClusterId::from(cluster)).filter(|c| !c.is_empty());
        let asker = Asker {
            kind: *Kind::ALL.get(kind.parse::<usize>().ok()?)?,
            name: ObjectName::new(namespace, name).in_cluster(cluster.as_ref()),
            path: path.into(),
            gateways,
        };
        match form {
            "template" => Self::template(&asker, last),
            "field" => Self::field(&asker, last),
            "hidden" => Some(Self::hidden(&asker, Redacted::new(last))),
            _ => None,
        }
    }
}

fn hex(bytes: &[u8], out: &mut String) {
    for byte in bytes {
        for digit in [byte >> 4, byte & 15] {
            out.extend(char::from_digit(digit.into(), 16));
        }
    }
}

/// The key of this process. Reading objects draws it, before anything is made of them.
fn key() -> Option<&'static LessSafeKey> {
    static KEY: OnceLock<Option<LessSafeKey>> = OnceLock::new();
    let drawn = KEY.get_or_init(|| {
        let mut bytes = [0; 32];
        aws_lc_rs::rand::fill(&mut bytes).ok()?;
        let key = UnboundKey::new(&AES_256_GCM_SIV, &bytes).ok()?;
        Some(LessSafeKey::new(key))
    });
    drawn.as_ref()
}
