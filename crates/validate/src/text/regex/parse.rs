//! The syntax of RE2, and how many instructions an expression becomes.
//!
//! Groups are kept on a stack of their own, so that no nesting exhausts that of the thread. Repetitions are multiplied
//! and not copied: the cost is one pass over the text, whatever it asks for.
// RE2: doc/syntax.txt; the rules for flags, repetitions and escapes of its parser.

use std::collections::BTreeSet;

use super::class::{self, Class, Rune};

/// How often RE2 repeats something at most, all repetitions around it multiplied.
const MOST_REPETITIONS: u32 = 1000;
/// Instructions around every program: failing, matching, and the loop that finds where a match starts.
const AROUND: u64 = 4;
/// Instructions that a choice whether to go on adds, as `?`, `*`, `+` and an empty branch are.
const CHOICE: u64 = 2;

pub(super) type Found<T> = Result<T, String>;

/// What is known of an expression that RE2 takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Expression {
    /// An upper bound for the instructions of its program.
    pub(super) size: u64,
    /// How many groups capture.
    pub(super) groups: usize,
    /// Whether it is a choice of several, outside of every group.
    pub(super) is_choice: bool,
    /// How many characters it matches at least.
    pub(super) least: u64,
}

/// Reads an expression.
///
/// # Errors
///
/// RE2 does not take the expression.
pub(super) fn read(pattern: &str) -> Found<Expression> {
    let mut parser = Parser {
        rest: pattern,
        names: BTreeSet::new(),
        group: Group::new(Flags::default(), 0),
        outer: Vec::new(),
        groups: 0,
        is_choice: false,
    };
    parser.expression()?;
    if !parser.outer.is_empty() {
        return Err("unclosed group".to_owned());
    }
    let whole = parser.group.close();
    Ok(Expression {
        groups: parser.groups,
        is_choice: parser.is_choice,
        size: whole.size.saturating_add(AROUND),
        least: whole.least,
    })
}

/// What flags change about the size of what follows.
#[derive(Clone, Copy, Default)]
pub(super) struct Flags {
    pub(super) ignores_case: bool,
    pub(super) dot_is_any: bool,
}

/// A part that can be repeated.
#[derive(Clone, Copy)]
struct Part {
    size: u64,
    /// Instructions that may come first, which the end of a loop around it holds again.
    first: u64,
    is_nullable: bool,
    /// The most often that something in it is repeated.
    times: u32,
    /// How many characters it matches at least.
    least: u64,
}

/// What has been read of a group.
struct Group {
    /// The flags in force, which end with it.
    flags: Flags,
    /// Instructions of the group itself, and of what was read but for the last part.
    size: u64,
    times: u32,
    last: Option<Part>,
    /// What may come first in all branches, and whether one may be empty.
    first: u64,
    is_nullable: bool,
    /// Whether all of the branch may be empty so far.
    is_branch_nullable: bool,
    /// Whether nothing was read since the last `|`.
    is_branch_empty: bool,
    /// How many characters the branch matches at least so far, and the least of the branches before it.
    branch_least: u64,
    least: Option<u64>,
}

impl Group {
    fn new(flags: Flags, size: u64) -> Self {
        Self {
            flags,
            size,
            times: 1,
            last: None,
            first: 0,
            is_nullable: false,
            is_branch_nullable: true,
            is_branch_empty: true,
            branch_least: 0,
            least: None,
        }
    }

    fn push(&mut self, part: Part) {
        self.settle();
        self.last = Some(part);
        self.is_branch_empty = false;
    }

    fn settle(&mut self) {
        if let Some(part) = self.last.take() {
            self.size = self.size.saturating_add(part.size);
            self.times = self.times.max(part.times);
            self.branch_least = self.branch_least.saturating_add(part.least);
            if self.is_branch_nullable {
                self.first = self.first.saturating_add(part.first);
            }
            self.is_branch_nullable &= part.is_nullable;
        }
    }

    fn end_branch(&mut self) {
        self.settle();
        if self.is_branch_empty {
            self.size = self.size.saturating_add(CHOICE);
        }
        self.is_nullable |= self.is_branch_nullable;
        self.is_branch_nullable = true;
        self.is_branch_empty = true;
        let least = std::mem::take(&mut self.branch_least);
        self.least = Some(self.least.map_or(least, |other| other.min(least)));
    }

    fn close(mut self) -> Part {
        self.end_branch();
        Part {
            size: self.size.max(1),
            first: self.first,
            is_nullable: self.is_nullable,
            times: self.times,
            least: self.least.unwrap_or_default(),
        }
    }
}

struct Parser<'a> {
    rest: &'a str,
    names: BTreeSet<&'a str>,
    /// The innermost group.
    group: Group,
    outer: Vec<Group>,
    groups: usize,
    is_choice: bool,
}

impl<'a> Parser<'a> {
    fn expression(&mut self) -> Found<()> {
        let mut was_repetition = false;
        while let Some(c) = self.rest.chars().next() {
            let is_repetition = match c {
                '*' | '+' | '?' => {
                    self.rest = &self.rest[1..];
                    let (least, most) = match c {
                        '*' => (0, None),
                        '+' => (1, None),
                        _ => (0, Some(1)),
                    };
                    self.repeat(least, most, was_repetition)?;
                    true
                }
                '{' => match counted(self.rest) {
                    Some((least, most, rest)) => {
                        self.rest = rest;
                        if least > MOST_REPETITIONS || most.is_some_and(|m| m > MOST_REPETITIONS) {
                            return Err(TOO_OFTEN.to_owned());
                        }
                        if most.is_some_and(|most| most < least) {
                            return Err("a repetition has a maximum below its minimum".to_owned());
                        }
                        self.repeat(least, most, was_repetition)?;
                        true
                    }
                    None => {
                        self.literal();
                        false
                    }
                },
                _ => {
                    self.other(c)?;
                    false
                }
            };
            was_repetition = is_repetition;
        }
        Ok(())
    }

    /// Everything but repetitions.
    fn other(&mut self, c: char) -> Found<()> {
        match c {
            '(' if self.rest.starts_with("(?") => self.extended()?,
            '(' => {
                self.rest = &self.rest[1..];
                self.open(true, self.group.flags);
            }
            ')' => {
                self.rest = &self.rest[1..];
                let Some(outer) = self.outer.pop() else {
                    return Err("unopened group".to_owned());
                };
                let part = std::mem::replace(&mut self.group, outer).close();
                self.group.push(part);
            }
            '|' => {
                self.rest = &self.rest[1..];
                self.is_choice |= self.outer.is_empty();
                self.group.end_branch();
            }
            '^' | '$' => {
                self.rest = &self.rest[1..];
                self.push_place();
            }
            '.' => {
                self.rest = &self.rest[1..];
                let size = if self.group.flags.dot_is_any {
                    class::ANY
                } else {
                    class::ANY + 1
                };
                self.push(size);
            }
            '[' => {
                let class = class::read(self.rest, self.group.flags)?;
                self.rest = class.rest;
                self.push(class.size);
            }
            '\\' => self.escape()?,
            _ => self.literal(),
        }
        Ok(())
    }

    /// A character.
    fn push(&mut self, size: u64) {
        self.push_part(size, 1);
    }

    /// A place between characters.
    fn push_place(&mut self) {
        self.push_part(1, 0);
    }

    fn push_part(&mut self, size: u64, least: u64) {
        self.group.push(Part {
            size,
            first: size,
            is_nullable: false,
            times: 1,
            least,
        });
    }

    fn literal(&mut self) {
        let mut chars = self.rest.chars();
        if let Some(c) = chars.next() {
            self.rest = chars.as_str();
            self.push(class::size_of(c, self.group.flags));
        }
    }

    fn escape(&mut self) -> Found<()> {
        let after = &self.rest[1..];
        match after.chars().next() {
            Some('b' | 'B' | 'A' | 'z') => {
                self.rest = &after[1..];
                self.push_place();
            }
            Some('C') => {
                self.rest = &after[1..];
                self.push(1);
            }
            Some('Q') => {
                let quoted = &after[1..];
                let end = quoted.find(r"\E");
                for c in quoted[..end.unwrap_or(quoted.len())].chars() {
                    self.push(class::size_of(c, self.group.flags));
                }
                self.rest = end.map_or("", |end| &quoted[end + 2..]);
            }
            _ => {
                if let Some(Class { size, rest }) = class::named(self.rest)? {
                    self.rest = rest;
                    self.push(size);
                    return Ok(());
                }
                if let Some((size, rest)) = class::perl_size(self.rest, self.group.flags) {
                    self.rest = rest;
                    self.push(size);
                    return Ok(());
                }
                let (rune, rest) = Rune::escaped(self.rest)?;
                self.rest = rest;
                self.push(class::size_of(rune.value, self.group.flags));
            }
        }
        Ok(())
    }

    fn open(&mut self, captures: bool, flags: Flags) {
        self.groups += usize::from(captures);
        // Where a capture starts and where it ends.
        let group = Group::new(flags, if captures { 2 } else { 0 });
        self.outer.push(std::mem::replace(&mut self.group, group));
    }

    /// A named group, a group with flags, or flags for what follows.
    fn extended(&mut self) -> Found<()> {
        let start = self.rest;
        let after = &start[2..];
        if ["=", "!", "<=", "<!"]
            .iter()
            .any(|of| after.starts_with(of))
        {
            return Err("looking ahead or behind is not possible".to_owned());
        }
        if let Some(named) = after.strip_prefix("P<").or_else(|| after.strip_prefix('<')) {
            let (name, rest) = named
                .split_once('>')
                .ok_or_else(|| "the name of a group has no `>`".to_owned())?;
            let good = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
            if name.is_empty() || !name.bytes().all(good) {
                return Err(format!("a group cannot be named {name:?}"));
            }
            if !self.names.insert(name) {
                return Err(format!("two groups are named {name:?}"));
            }
            self.rest = rest;
            self.open(true, self.group.flags);
            return Ok(());
        }
        let mut flags = self.group.flags;
        // Whether flags are being taken away, and whether one followed since.
        let (mut off, mut is_complete) = (false, true);
        for (at, c) in after.char_indices() {
            match c {
                'i' => flags.ignores_case = !off,
                's' => flags.dot_is_any = !off,
                'm' | 'U' => {}
                '-' if !off => {
                    (off, is_complete) = (true, false);
                    continue;
                }
                ':' | ')' if is_complete => {
                    self.rest = &after[at + 1..];
                    if c == ':' {
                        self.open(false, flags);
                    } else {
                        self.group.flags = flags;
                    }
                    return Ok(());
                }
                _ => break,
            }
            is_complete = true;
        }
        let shown: String = start.chars().take(5).collect();
        Err(format!("{shown:?} does not start a group"))
    }

    /// Repeats the last part.
    fn repeat(&mut self, least: u32, most: Option<u32>, was_repetition: bool) -> Found<()> {
        self.rest = self.rest.strip_prefix('?').unwrap_or(self.rest);
        if was_repetition {
            return Err("what is repeated cannot be repeated again without a group".to_owned());
        }
        let Some(part) = self.group.last.as_mut() else {
            return Err("there is nothing to repeat".to_owned());
        };
        let size = part.size;
        part.times = part.times.saturating_mul(most.unwrap_or(least).max(1));
        if part.times > MOST_REPETITIONS {
            return Err(TOO_OFTEN.to_owned());
        }
        let copies = |n: u32, size: u64| size.saturating_mul(n.into());
        let first = part.first;
        if part.is_nullable {
            part.first = copies(most.unwrap_or(least).max(1), first);
        }
        part.is_nullable |= least == 0;
        part.least = part.least.saturating_mul(least.into());
        part.size = match most {
            None => copies(least.max(1), size)
                .saturating_add(first)
                .saturating_add(2 * CHOICE),
            Some(most) => copies(least, size)
                .saturating_add(copies(most - least, size.saturating_add(CHOICE)))
                .max(CHOICE),
        };
        Ok(())
    }
}

const TOO_OFTEN: &str = "it repeats more than 1000 times";

/// The bounds of a counted repetition and what stands after it; `None` where `{` is a sign like others.
fn counted(text: &str) -> Option<(u32, Option<u32>, &str)> {
    let (least, rest) = number(text.strip_prefix('{')?)?;
    if let Some(rest) = rest.strip_prefix('}') {
        return Some((least, Some(least), rest));
    }
    let rest = rest.strip_prefix(',')?;
    if let Some(rest) = rest.strip_prefix('}') {
        return Some((least, None, rest));
    }
    let (most, rest) = number(rest)?;
    Some((least, Some(most), rest.strip_prefix('}')?))
}

/// A number without zeros before it.
fn number(text: &str) -> Option<(u32, &str)> {
    let end = text
        .bytes()
        .position(|b| !b.is_ascii_digit())
        .unwrap_or(text.len());
    let (digits, rest) = text.split_at(end);
    if digits.is_empty() || digits.len() > 1 && digits.starts_with('0') {
        return None;
    }
    Some((digits.parse().unwrap_or(u32::MAX), rest))
}
