//! What the value of a flag may be, and how it is read.

use std::sync::Arc;

use crate::names::{Name, Namespace};
use crate::object::ObjectName;

/// A type that a flag may have.
pub(super) trait Value: Sized {
    /// What a value is, for who has stated something else.
    const WANTED: &'static str;

    /// Reads a value; `None` where it has no meaning.
    fn read(text: &str) -> Option<Self>;

    /// The items of a list that have no meaning; the others count.
    fn senseless(_: &str) -> Vec<&str> {
        Vec::new()
    }
}

/// What became of a value.
pub(super) struct Taken<'v> {
    /// What would be accepted.
    wanted: &'static str,
    /// Whether it counts; otherwise the flag is as it was.
    counts: bool,
    /// The items of it that do not.
    senseless: Vec<&'v str>,
}

impl Taken<'_> {
    /// What there is to say of the value, each as a sentence.
    pub(super) fn faults(&self, value: &str, default: &str) -> Vec<String> {
        let wanted = self.wanted;
        if !self.counts {
            return vec![format!(
                "{value:?} is not {wanted}; the default, {default}, is used"
            )];
        }
        let items = self.senseless.iter();
        let items = items.map(|item| {
            format!(
                "{item:?} is not {wanted}, so it allows nothing: items are separated by commas; * or true allows all, off or \
                 false none"
            )
        });
        items.collect()
    }
}

/// Sets a flag, where the value has a meaning.
pub(super) fn take<'v, T: Value>(flag: &mut T, text: &'v str) -> Taken<'v> {
    let read = T::read(text);
    let counts = read.is_some();
    if let Some(read) = read {
        *flag = read;
    }
    Taken {
        wanted: T::WANTED,
        counts,
        senseless: T::senseless(text),
    }
}

impl Value for bool {
    const WANTED: &'static str = "one of true, t, 1, false, f and 0";

    fn read(text: &str) -> Option<Self> {
        // Go: strconv.ParseBool.
        match text {
            "1" | "t" | "T" | "true" | "TRUE" | "True" => Some(true),
            "0" | "f" | "F" | "false" | "FALSE" | "False" => Some(false),
            _ => None,
        }
    }
}

impl Value for Namespace {
    const WANTED: &'static str = "the name of a namespace";

    fn read(text: &str) -> Option<Self> {
        (!text.is_empty()).then(|| text.into())
    }
}

impl Value for Name {
    const WANTED: &'static str = "a name";

    fn read(text: &str) -> Option<Self> {
        (!text.is_empty()).then(|| text.into())
    }
}

/// Who fetches the keys of token issuers that policies name by address.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum JwksFetch {
    /// The control plane.
    ControlPlane,
    /// Proxies from services that they know, else the control plane.
    Hybrid,
    /// Proxies.
    Proxy,
}

impl From<&str> for JwksFetch {
    /// What has no meaning leaves it to the control plane.
    fn from(text: &str) -> Self {
        Self::read(text).unwrap_or(Self::ControlPlane)
    }
}

impl Value for JwksFetch {
    const WANTED: &'static str = "one of istiod, false, hybrid, true and envoy";

    /// Istio: pkg/jwt/jwt.go ConvertToJwksFetchMode, 1.32.
    fn read(text: &str) -> Option<Self> {
        Some(match text {
            "istiod" | "false" => Self::ControlPlane,
            "hybrid" | "true" => Self::Hybrid,
            "envoy" => Self::Proxy,
            _ => return None,
        })
    }
}

/// A share of 0 to 100.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Percentage(f64);

impl Percentage {
    /// From 0 to 100.
    pub fn get(self) -> f64 {
        self.0
    }
}

impl From<f64> for Percentage {
    fn from(value: f64) -> Self {
        Self(value.clamp(0.0, 100.0))
    }
}

impl Value for Percentage {
    const WANTED: &'static str = "a number from 0 to 100";

    fn read(text: &str) -> Option<Self> {
        let value: f64 = text.parse().ok()?;
        (0.0..=100.0).contains(&value).then_some(Self(value))
    }
}

/// Words separated by commas.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Words(Arc<[Arc<str>]>);

impl Words {
    /// The words, in order.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<str>> {
        self.0.iter()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The first word as `namespace/name`.
    pub fn object(&self) -> Option<ObjectName> {
        let (namespace, name) = self.0.first()?.split_once('/')?;
        Some(ObjectName::new(namespace, name))
    }
}

impl From<&str> for Words {
    fn from(text: &str) -> Self {
        Self(words(text).map(Arc::from).collect())
    }
}

impl Value for Words {
    const WANTED: &'static str = "a list of words";

    fn read(text: &str) -> Option<Self> {
        Some(text.into())
    }
}

/// The words of a text, which commas separate.
pub(super) fn words(text: &str) -> impl Iterator<Item = &str> {
    let words = text.split(',').map(str::trim);
    words.filter(|word| !word.is_empty())
}

/// A number of MiB.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Mebibytes(u32);

impl Mebibytes {
    /// In bytes.
    pub fn bytes(self) -> usize {
        usize::try_from(self.0)
            .unwrap_or(usize::MAX)
            .saturating_mul(1 << 20)
    }
}

impl From<u32> for Mebibytes {
    fn from(number: u32) -> Self {
        Self(number)
    }
}

impl Value for Mebibytes {
    const WANTED: &'static str = "a number of MiB from 1 to 4294967295";

    fn read(text: &str) -> Option<Self> {
        let number: u32 = text.parse().ok()?;
        (number > 0).then_some(Self(number))
    }
}

/// How many there may be of something.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Count(u16);

impl Count {
    /// The number, over 0.
    pub fn get(self) -> usize {
        self.0.into()
    }
}

impl From<u16> for Count {
    fn from(number: u16) -> Self {
        Self(number)
    }
}

impl Value for Count {
    const WANTED: &'static str = "a number from 1 to 65535";

    fn read(text: &str) -> Option<Self> {
        let number: u16 = text.parse().ok()?;
        (number > 0).then_some(Self(number))
    }
}

/// A port that proxies listen on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Port(u16);

impl Port {
    /// Over 0.
    pub fn get(self) -> u16 {
        self.0
    }
}

impl From<u16> for Port {
    fn from(port: u16) -> Self {
        Self(port)
    }
}

impl Value for Port {
    const WANTED: &'static str = "a port from 1 to 65535";

    fn read(text: &str) -> Option<Self> {
        let port: u16 = text.parse().ok()?;
        (port > 0).then_some(Self(port))
    }
}
