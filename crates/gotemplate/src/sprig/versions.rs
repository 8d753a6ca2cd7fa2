//! Semantic versions and constraints on them, as Masterminds' library reads them.

use std::sync::LazyLock;

use regex::{Captures, Regex};
use semver::{BuildMetadata, Prerelease, Version};

use super::S;
use crate::functions::{Fault, Functions};
use crate::print::quote;
use crate::value::{Struct, Value};

/// The most bytes of a constraint.
const MAX_CONSTRAINT: usize = 512;
/// The most bytes of a version.
const MAX_VERSION: usize = 256;

pub(super) fn add(functions: &mut Functions) {
    functions.add("semver", &[S], |_, args| {
        let original = args.str(0).to_owned();
        let version = version(&original)?;
        let text = version.to_string();
        let named = |value: String| move |_: &[Value]| Ok(Value::from(value.clone()));
        let number = |value: u64| move |_: &[Value]| Ok(Value::Uint(value, crate::IntType::Uint64));
        Ok(Struct::new("*semver.Version")
            .method("Major", &[], number(version.major))
            .method("Minor", &[], number(version.minor))
            .method("Patch", &[], number(version.patch))
            .method("Prerelease", &[], named(version.pre.to_string()))
            .method("Metadata", &[], named(version.build.to_string()))
            .method("Original", &[], named(original))
            .method("String", &[], named(text.clone()))
            .json(quote(&text))
            .text(text)
            .into())
    });
    functions.add("semverCompare", &[S, S], |meter, args| {
        meter.step(args.str(0).len())?;
        let constraint = args.str(0);
        if constraint.len() > MAX_CONSTRAINT {
            return Err(
                format!("constraint string is too long (max {MAX_CONSTRAINT} bytes)").into(),
            );
        }
        let groups = groups(constraint)?;
        let version = version(args.str(1))?;
        Ok(groups.iter().any(|group| group.allows(&version)).into())
    });
}

/// A version: `v` before it and missing parts are allowed.
fn version(text: &str) -> Result<Version, Fault> {
    static FORM: LazyLock<Option<Regex>> = LazyLock::new(|| {
        let parts = r"^v?([0-9]+)(?:\.([0-9]+))?(?:\.([0-9]+))?";
        Regex::new(&format!(r"{parts}(?:-([0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*))?(?:\+([0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*))?$")).ok()
    });
    let captures = FORM
        .as_ref()
        .filter(|_| text.len() <= MAX_VERSION)
        .and_then(|form| form.captures(text));
    let captures = captures.ok_or("invalid semantic version")?;
    of_captures(&captures, [1, 2, 3, 4, 5]).ok_or_else(|| "invalid semantic version".into())
}

/// A version of the groups of a match: its numbers, what is before it, and its build.
fn of_captures(captures: &Captures<'_>, at: [usize; 5]) -> Option<Version> {
    let text = |i: usize| captures.get(at[i]).map_or("", |found| found.as_str());
    let number = |i: usize| {
        if text(i).is_empty() {
            Some(0)
        } else {
            text(i).parse().ok()
        }
    };
    Some(Version {
        major: number(0)?,
        minor: number(1)?,
        patch: number(2)?,
        pre: Prerelease::new(text(3)).ok()?,
        build: BuildMetadata::new(text(4)).ok()?,
    })
}

/// Conditions that have to hold together.
struct Group {
    conditions: Vec<Condition>,
    /// Whether a condition names a version before a release: only then such versions are looked at.
    before_releases: bool,
}

/// A condition on a version.
struct Condition {
    operator: String,
    version: Version,
    /// How many of the numbers are given: `1.x` has one.
    given: usize,
}

impl Group {
    fn allows(&self, version: &Version) -> bool {
        (self.before_releases || version.pre.is_empty())
            && self
                .conditions
                .iter()
                .all(|condition| condition.allows(version))
    }
}

/// The groups of a constraint, of which one has to hold.
fn groups(constraint: &str) -> Result<Vec<Group>, Fault> {
    const NUMBERS: &str = r"v?([0-9xX*]+)(?:\.([0-9xX*]+))?(?:\.([0-9xX*]+))?";
    const REST: &str =
        r"(?:-([0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*))?(?:\+([0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*))?";
    static RANGE: LazyLock<Option<Regex>> =
        LazyLock::new(|| Regex::new(&format!(r"({NUMBERS}{REST})\s+-\s+({NUMBERS}{REST})")).ok());
    static CONDITION: LazyLock<Option<Regex>> = LazyLock::new(|| {
        Regex::new(&format!(
            r"^\s*(=<|<=|>=|=>|~>|!=|=|>|<|~|\^|)\s*{NUMBERS}{REST}(\s*,\s*|\s+|$)"
        ))
        .ok()
    });
    let improper = |part: &str| Fault::from(format!("improper constraint: {}", quote(part)));
    let (Some(range), Some(form)) = (&*RANGE, &*CONDITION) else {
        return Err(improper(constraint));
    };
    let written = range.replace_all(constraint, ">= $1, <= $7 ");
    let mut groups = Vec::new();
    for part in written.split("||") {
        let mut conditions = Vec::new();
        let mut rest = part;
        while !rest.trim().is_empty() || conditions.is_empty() {
            let captures = form.captures(rest).ok_or_else(|| improper(part))?;
            conditions.push(condition(&captures).ok_or_else(|| improper(part))?);
            rest = &rest[captures.get(0).map_or(rest.len(), |whole| whole.end())..];
        }
        let before_releases = conditions
            .iter()
            .any(|condition| !condition.version.pre.is_empty());
        groups.push(Group {
            conditions,
            before_releases,
        });
    }
    Ok(groups)
}

fn condition(captures: &Captures<'_>) -> Option<Condition> {
    let text = |i: usize| captures.get(i).map_or("", |found| found.as_str());
    let free = |i: usize| matches!(text(i), "" | "x" | "X" | "*");
    let given = (2..5).position(free).unwrap_or(3);
    let number = |i: usize| {
        if i < given {
            text(i + 2).parse().ok()
        } else {
            Some(0)
        }
    };
    Some(Condition {
        operator: text(1).to_owned(),
        version: Version {
            major: number(0)?,
            minor: number(1)?,
            patch: number(2)?,
            pre: Prerelease::new(text(5)).ok()?,
            build: BuildMetadata::EMPTY,
        },
        given,
    })
}

impl Condition {
    fn allows(&self, version: &Version) -> bool {
        let wanted = &self.version;
        let ordering = version.cmp_precedence(wanted);
        match self.operator.as_str() {
            "" | "=" if self.given < 3 => self.near(version),
            "" | "=" => ordering.is_eq(),
            "!=" => match self.given {
                0 | 3 => ordering.is_ne(),
                2 if version.pre != wanted.pre => true,
                given => numbers(version)[..given] != numbers(wanted)[..given],
            },
            ">" if self.given < 3 => numbers(version)[..self.given] > numbers(wanted)[..self.given],
            ">" => ordering.is_gt(),
            "<" => ordering.is_lt(),
            ">=" | "=>" => ordering.is_ge(),
            "<=" | "=<" if self.given < 3 => {
                let compared = self.given.max(1);
                numbers(version)[..compared] <= numbers(wanted)[..compared]
            }
            "<=" | "=<" => ordering.is_le(),
            "~" | "~>" => self.near(version),
            "^" => self.compatible(version),
            _ => false,
        }
    }

    /// Of the same minor version, or of the same major one if no more is given.
    fn near(&self, version: &Version) -> bool {
        let given = if self.given == 0 {
            0
        } else {
            self.given.min(2)
        };
        let zero = self.given != 1 && numbers(&self.version) == [0, 0, 0];
        version.cmp_precedence(&self.version).is_ge()
            && (zero || numbers(version)[..given] == numbers(&self.version)[..given])
    }

    /// Equal up to the first number that is not zero.
    fn compatible(&self, version: &Version) -> bool {
        let wanted = numbers(&self.version);
        let leading = wanted.iter().position(|number| *number > 0).unwrap_or(2);
        let compared = (leading + 1).min(self.given);
        version.cmp_precedence(&self.version).is_ge()
            && numbers(version)[..compared] == wanted[..compared]
    }
}

fn numbers(version: &Version) -> [u64; 3] {
    [version.major, version.minor, version.patch]
}
