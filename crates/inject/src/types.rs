//! The types of a Pod: which fields there are, of what kind, in which order, and how patches merge them.

use std::collections::HashMap;
use std::sync::LazyLock;

use strategic::{Shape, Strategy};

/// What a field holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    String,
    Bool,
    Int32,
    Int64,
    Quantity,
    IntOrString,
    Time,
    /// Anything, kept as it is.
    Any,
    Struct(&'static str),
    Pointer(Box<Kind>),
    List(Box<Kind>),
    Map(Box<Kind>),
}

/// A field of a struct.
#[derive(Clone, Debug)]
pub(crate) struct Field {
    pub(crate) name: &'static str,
    /// Go's name of it.
    pub(crate) go: String,
    pub(crate) kind: Kind,
    /// Whether it is written even where it is empty.
    pub(crate) always: bool,
    strategy: Strategy<'static>,
}

/// A struct.
#[derive(Clone, Debug, Default)]
pub(crate) struct Type {
    /// Its fields in order, those of embedded types among them.
    pub(crate) fields: Vec<Field>,
    /// Embedded types, which are fields too.
    pub(crate) embedded: Vec<&'static str>,
}

impl Type {
    /// A field as Go finds it: by its name, else by its name in other capitals.
    pub(crate) fn field(&self, name: &str) -> Option<&Field> {
        let exact = self.fields.iter().find(|f| f.name == name);
        exact.or_else(|| {
            let mut fields = self.fields.iter();
            fields.find(|f| f.name.eq_ignore_ascii_case(name))
        })
    }
}

static TYPES: LazyLock<HashMap<&'static str, Type>> =
    LazyLock::new(|| parse(include_str!("types.txt")));

/// A type by its name; one without fields if there is none.
pub(crate) fn named(name: &str) -> &'static Type {
    static NONE: Type = Type {
        fields: Vec::new(),
        embedded: Vec::new(),
    };
    TYPES.get(name).unwrap_or(&NONE)
}

fn parse(text: &'static str) -> HashMap<&'static str, Type> {
    let mut written: HashMap<&str, Vec<&str>> = HashMap::new();
    let mut current = "";
    for line in text.lines() {
        if let Some(name) = line.strip_prefix("type ") {
            current = name;
            written.insert(name, Vec::new());
        } else if let (Some(row), Some(rows)) = (line.strip_prefix("  "), written.get_mut(current))
        {
            rows.push(row);
        }
    }
    let names = written.keys();
    names
        .map(|name| (*name, flattened(name, &written)))
        .collect()
}

fn flattened(name: &str, written: &HashMap<&str, Vec<&'static str>>) -> Type {
    let mut of = Type::default();
    for row in written.get(name).into_iter().flatten() {
        match row.strip_prefix("...") {
            Some(embedded) => {
                of.fields.extend(flattened(embedded, written).fields);
                of.embedded.push(embedded);
            }
            None => of.fields.push(field(row)),
        }
    }
    of
}

fn field(row: &'static str) -> Field {
    let mut words = row.split(' ');
    let name = words.next().unwrap_or_default();
    let kind = kind(words.next().unwrap_or_default());
    let always = name.ends_with('!');
    let name = name.trim_end_matches('!');
    let mut capital = name.to_owned();
    capital[..1].make_ascii_uppercase();
    let mut field = Field {
        name,
        go: capital,
        kind,
        always,
        strategy: Strategy::Plain,
    };
    for word in words {
        let (word, argument) = word
            .trim_end_matches(')')
            .split_once('(')
            .unwrap_or((word, ""));
        match (word, argument) {
            ("go", name) => name.clone_into(&mut field.go),
            ("merge", "") => field.strategy = Strategy::Merge,
            ("merge", key) => field.strategy = Strategy::MergeBy(key),
            ("replace", _) => field.strategy = Strategy::Replace,
            _ => {}
        }
    }
    field
}

fn kind(text: &'static str) -> Kind {
    let inner = |text| Box::new(kind(text));
    if let Some(to) = text.strip_prefix('*') {
        return Kind::Pointer(inner(to));
    }
    if let Some(item) = text.strip_prefix("[]") {
        return Kind::List(inner(item));
    }
    if let Some(value) = text.strip_prefix("map:") {
        return Kind::Map(inner(value));
    }
    match text {
        "string" => Kind::String,
        "bool" => Kind::Bool,
        "int32" => Kind::Int32,
        "int64" => Kind::Int64,
        "quantity" => Kind::Quantity,
        "int-or-string" => Kind::IntOrString,
        "time" => Kind::Time,
        "any" => Kind::Any,
        name => Kind::Struct(name),
    }
}

impl Kind {
    /// What a pointer points to, else itself.
    fn target(&self) -> &Self {
        match self {
            Self::Pointer(to) => to.target(),
            other => other,
        }
    }
}

/// A field as patches see it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Known {
    kind: &'static Kind,
    strategy: Strategy<'static>,
}

impl Known {
    /// A whole Pod.
    pub(crate) fn pod() -> Self {
        static POD: Kind = Kind::Struct("Pod");
        Self::plain(&POD)
    }

    /// A whole object of a kind that is deployed for Gateways; `None` for any other.
    pub(crate) fn deployed(kind: &str) -> Option<Self> {
        static KINDS: [Kind; 5] = [
            Kind::Struct("ServiceAccount"),
            Kind::Struct("Deployment"),
            Kind::Struct("Service"),
            Kind::Struct("HorizontalPodAutoscaler"),
            Kind::Struct("PodDisruptionBudget"),
        ];
        let is_it = |of: &&Kind| matches!(of, Kind::Struct(name) if *name == kind);
        KINDS.iter().find(is_it).map(Self::plain)
    }

    fn plain(kind: &'static Kind) -> Self {
        Self {
            kind,
            strategy: Strategy::Plain,
        }
    }
}

impl Shape for Known {
    fn field(self, name: &str) -> Option<Self> {
        match self.kind.target() {
            Kind::Struct(of) => named(of).field(name).map(|field| Self {
                kind: &field.kind,
                strategy: field.strategy,
            }),
            Kind::Map(value) => Some(Self::plain(value)),
            _ => None,
        }
    }

    fn items(self) -> Option<Self> {
        match self.kind.target() {
            Kind::List(item) => Some(Self::plain(item)),
            _ => None,
        }
    }

    fn strategy(&self) -> Strategy<'_> {
        self.strategy
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn innermost(kind: &Kind) -> &Kind {
        match kind {
            Kind::Pointer(inner) | Kind::List(inner) | Kind::Map(inner) => innermost(inner),
            other => other,
        }
    }

    #[test]
    fn every_type_that_a_field_names_is_there() {
        assert!(TYPES.len() > 100);
        for (name, of) in TYPES.iter() {
            assert!(!of.fields.is_empty(), "{name}");
            for field in &of.fields {
                if let Kind::Struct(inner) = innermost(&field.kind) {
                    assert!(TYPES.contains_key(inner), "{name}.{}: {inner}", field.name);
                }
            }
            for embedded in &of.embedded {
                assert!(TYPES.contains_key(embedded), "{name}: {embedded}");
            }
        }
    }

    #[test]
    fn embedded_fields_and_other_capitals_are_found() {
        let probe = named("Probe");
        assert_eq!(probe.field("httpGet").unwrap().go, "HTTPGet");
        assert_eq!(probe.field("HTTPGET").unwrap().name, "httpGet");
        assert_eq!(probe.embedded, ["ProbeHandler"]);
        assert!(probe.field("other").is_none());
    }

    #[test]
    fn lists_are_merged_by_the_keys_of_kubernetes() {
        let spec = Known::pod().field("spec").unwrap();
        let containers = spec.field("containers").unwrap();
        assert_eq!(containers.strategy(), Strategy::MergeBy("name"));
        let container = containers.items().unwrap();
        let ports = container.field("ports").unwrap();
        assert_eq!(ports.strategy(), Strategy::MergeBy("containerPort"));
        assert_eq!(container.field("args").unwrap().strategy(), Strategy::Plain);
        let meta = Known::pod().field("metadata").unwrap();
        assert_eq!(
            meta.field("finalizers").unwrap().strategy(),
            Strategy::Merge
        );
    }
}
