//! The tables of what is asked of messages, which the build writes.

/// What is asked of a message.
pub(crate) struct Message {
    pub(crate) name: &'static str,
    /// What must be written, a field or one of several, by bit.
    pub(crate) must: &'static [&'static str],
    /// Fields of which there may be only so many: name, fewest, most.
    pub(crate) counted: &'static [(&'static str, u32, u32)],
    /// The numbers of fields that may not repeat a value.
    pub(crate) unique: &'static [u32],
    /// What is asked of several fields together.
    pub(crate) whole: &'static [Whole],
    /// Where in `fields` the field of a number is; 255 where it is skipped.
    index: &'static [u8],
    fields: &'static [Field],
}

/// What is asked of a field.
pub(crate) struct Field {
    pub(crate) name: &'static str,
    /// The bit that says that it, or one of its group, is written; 0 where nobody asks.
    pub(crate) bit: u64,
    /// Where it is counted; 255 where it is not.
    pub(crate) counter: u8,
    pub(crate) kind: Kind,
    /// Whether a default value breaks no rule.
    pub(crate) ignore_empty: bool,
    pub(crate) rules: &'static [Rule],
}

/// How a value is read.
#[derive(Clone, Copy)]
#[expect(dead_code, reason = "today's protos do not use every type")]
pub(crate) enum Kind {
    /// Nothing is asked of the value.
    Skipped,
    Signed,
    Unsigned,
    Zigzag,
    Fixed,
    SignedFixed,
    Float,
    Double,
    Text,
    Bytes,
    /// A message that a table knows.
    Message(u16),
    /// A message of the type that it names.
    Any,
    Duration,
    /// A message that holds one value.
    Wrapped(&'static Kind),
}

/// A rule of a value: bounds are allowed values.
#[derive(Clone, Copy)]
pub(crate) enum Rule {
    Signed(i64, i64),
    Unsigned(u64, u64),
    Real(f64, f64),
    OneOf(&'static [i64]),
    Nanos(i128, i128),
    /// Characters.
    Length(u64, u64),
    /// Bytes.
    Size(u64, u64),
    Prefix(&'static str),
    Suffix(&'static str),
    Among(&'static [&'static str]),
    /// The name of a header, by the strict rule or the lenient one.
    HeaderName(bool),
    /// The value of a header, likewise.
    HeaderValue(bool),
    Check(Check),
}

/// A check of one value that Envoy's code makes.
#[derive(Clone, Copy)]
pub(crate) enum Check {
    /// An expression of RE2.
    Regex,
    /// The name of a header that may be removed.
    Removable,
    /// A prefix that ends at a slash of the path.
    SeparatedPrefix,
    /// The path of a Unix socket.
    SocketPath,
    /// A prime number.
    Prime,
    /// A SHA-256 in base64.
    KeyHash,
    /// A SHA-256 in hexadecimal digits.
    CertificateHash,
    /// The name of a resource that a proxy may ask for.
    ResourceName,
}

/// A check of several fields that Envoy's code makes.
#[derive(Clone, Copy)]
pub(crate) enum Whole {
    /// The weights of clusters.
    Weights,
    /// The value of a header that is added, in which `%` starts a command.
    Format,
    /// The address of a range.
    Cidr,
    /// The sizes of a ring.
    Ring,
    /// The same under the numbers that the typed policy has.
    TypedRing,
    /// How long retries wait.
    BackOff,
    /// The ways in which a path may be rewritten.
    Rewrites,
    /// Who vouches for peers that are known by name.
    NamedPeers,
    /// Where a listener listens.
    ListensAtIp,
    /// How a cluster finds its endpoints, and what it holds beside that.
    Discovery,
}

impl Message {
    /// What is asked of the field with that number; `None` where it is skipped.
    pub(crate) fn field(&self, number: u32) -> Option<&'static Field> {
        let at = *self.index.get(number as usize)?;
        self.fields.get(usize::from(at))
    }
}

include!(concat!(env!("OUT_DIR"), "/tables.rs"));

/// The table of the message with that full name.
pub(crate) fn of(name: &str) -> Option<&'static Message> {
    let at = MESSAGES
        .binary_search_by(|message| message.name.cmp(name))
        .ok()?;
    MESSAGES.get(at)
}

/// The table at a place.
pub(crate) fn at(place: u16) -> Option<&'static Message> {
    MESSAGES.get(usize::from(place))
}
