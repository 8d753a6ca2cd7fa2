//! The order of rules.
//!
//! Ingresses have theirs; the Gateway API asks exact paths first, then prefixes, then expressions, and of each the longest
//! first. Where two rules may be about one path, a prefix behind an expression becomes one as well, and an expression is made
//! longer (`^` at its beginning, which means nothing there) until it is asked in its turn. What cannot have its place is closed.

use std::collections::BTreeSet;

use model::re2::quote;

use super::lost;
use super::rule::{Asked, LONGEST_PATH, Path, Rule};

/// The place of a match: the greater goes first. The length of expressions counts as with Istio; the API leaves it open.
type Rank = (u8, usize, bool, usize, usize);

/// Puts rules, which are in their order, into a form in which the API keeps it.
pub(super) fn arrange(rules: &mut Vec<Rule>) {
    for rule in rules.iter_mut() {
        fit(rule);
    }
    drop_guards(rules);
    let mut before = Leads::default();
    for rule in rules.iter_mut() {
        let lead = Lead::of(&rule.path);
        let is_regex = matches!(rule.path, Path::Regex(_));
        if !is_regex && before.meet(&lead) {
            rule.by_regex();
        }
        if matches!(rule.path, Path::Regex(_)) {
            before.add(&lead);
        }
    }
    lengthen(rules);
    close_what_is_early(rules);
}

/// A path that is too long is matched by its beginning, and closed.
fn fit(rule: &mut Rule) {
    if rule.path.text().len() <= LONGEST_PATH {
        return;
    }
    let lead: String = Lead::of(&rule.path).text.chars().take(100).collect();
    rule.close(lost::PATH);
    rule.path = Path::Regex(format!("(?i){}.*", quote(&lead)));
}

/// Takes away guards that keep nothing from anybody.
fn drop_guards(rules: &mut Vec<Rule>) {
    let mut behind = Leads::default();
    let mut kept: Vec<Rule> = Vec::with_capacity(rules.len());
    for rule in std::mem::take(rules).into_iter().rev() {
        let lead = Lead::of(&rule.path);
        if rule.is_guard && !behind.meet(&lead) {
            continue;
        }
        behind.add(&lead);
        kept.push(rule);
    }
    kept.reverse();
    *rules = kept;
}

/// Makes expressions longer than those behind them that may match the same.
fn lengthen(rules: &mut [Rule]) {
    let mut behind = Leads::default();
    let mut highest: Option<Rank> = None;
    for rule in rules.iter_mut().rev() {
        let lead = Lead::of(&rule.path);
        let Path::Regex(text) = &mut rule.path else {
            continue;
        };
        let rank = |asked: &Asked, length| rank_of(1, length, asked);
        let lowest = rule.asked.iter().map(|asked| rank(asked, text.len())).min();
        if let (Some(lowest), Some(highest)) = (lowest, highest)
            && lowest <= highest
            && behind.meet(&lead)
        {
            let missing = highest.1 + 1 - text.len();
            *text = format!("{}{text}", "^".repeat(missing));
        }
        let own = rule.asked.iter().map(|asked| rank(asked, text.len())).max();
        highest = highest.max(own);
        behind.add(&lead);
    }
}

fn rank_of(kind: u8, length: usize, asked: &Asked) -> Rank {
    (
        kind,
        length,
        asked.method.is_some(),
        asked.headers.len(),
        asked.query.len(),
    )
}

/// Closes rules that would be asked before others which go before them.
fn close_what_is_early(rules: &mut [Rule]) {
    let mut asked: Vec<(Rank, usize)> = Vec::new();
    for (at, rule) in rules.iter().enumerate() {
        let kind = match rule.path {
            Path::Exact(_) => 3,
            Path::Prefix(_) => 2,
            Path::Regex(_) => 1,
        };
        let length = rule.path.text().len();
        asked.extend(rule.asked.iter().map(|a| (rank_of(kind, length, a), at)));
    }
    asked.sort_by(|(a, _), (b, _)| b.cmp(a));
    // The first place in the rules' own order of what is asked behind.
    let mut first_behind = vec![usize::MAX; asked.len() + 1];
    for (at, (_, rule)) in asked.iter().enumerate().rev() {
        first_behind[at] = first_behind[at + 1].min(*rule);
    }
    let leads: Vec<Lead> = rules.iter().map(|rule| Lead::of(&rule.path)).collect();
    let mut early = BTreeSet::new();
    for (at, (_, rule)) in asked.iter().enumerate() {
        if first_behind[at + 1] >= *rule {
            continue;
        }
        let mut behind = asked[at + 1..].iter();
        if behind.any(|(_, other)| other < rule && leads[*other].meets(&leads[*rule])) {
            early.insert(*rule);
        }
    }
    for at in early {
        rules[at].close(lost::ORDER);
        rules[at].is_guard = false;
    }
}

/// The text with which the paths begin that a rule matches, in lower case, and what may follow it.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Lead {
    text: String,
    follows: Follows,
}

/// What may follow a lead.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Follows {
    Nothing,
    /// Nothing, or what begins with a slash.
    Elements,
    Anything,
}

impl Lead {
    fn of(path: &Path) -> Self {
        let (text, follows) = match path {
            Path::Exact(text) => (text.to_ascii_lowercase(), Follows::Nothing),
            Path::Prefix(text) => {
                let text = text.trim_end_matches('/');
                (text.to_ascii_lowercase(), Follows::Elements)
            }
            Path::Regex(text) => (literal(text).to_ascii_lowercase(), Follows::Anything),
        };
        Self { text, follows }
    }

    /// Whether a path that begins with this text and goes on like that may be meant.
    fn leads_to(&self, longer: &Lead) -> bool {
        let Some(rest) = longer.text.strip_prefix(&self.text) else {
            return false;
        };
        match self.follows {
            Follows::Nothing => rest.is_empty(),
            Follows::Elements => rest.is_empty() || rest.starts_with('/'),
            Follows::Anything => true,
        }
    }

    /// Whether both may be about one path.
    fn meets(&self, other: &Lead) -> bool {
        self.leads_to(other) || other.leads_to(self)
    }
}

/// The text with which all matches of an expression begin.
fn literal(pattern: &str) -> String {
    let pattern = pattern.trim_start_matches('^');
    let pattern = pattern.strip_prefix("(?i)").unwrap_or(pattern);
    let mut depth = 0_i32;
    for c in pattern.chars() {
        match c {
            '(' | '[' => depth += 1,
            ')' | ']' => depth -= 1,
            '|' if depth <= 0 => return String::new(),
            _ => {}
        }
    }
    let mut text = String::new();
    let mut chars = pattern.chars();
    while let Some(c) = chars.next() {
        let c = match c {
            '\\' => match chars.next() {
                Some(c) if !c.is_ascii_alphanumeric() => c,
                _ => return text,
            },
            '*' | '?' | '{' => {
                // What stands before it need not be there.
                text.pop();
                return text;
            }
            '.' | '+' | '(' | ')' | '|' | '[' | ']' | '}' | '^' | '$' => return text,
            c => c,
        };
        text.push(c);
    }
    text
}

/// Leads of expressions, and of what guards are in front of.
#[derive(Default)]
struct Leads {
    all: BTreeSet<Lead>,
}

impl Leads {
    fn add(&mut self, lead: &Lead) {
        self.all.insert(lead.clone());
    }

    /// Whether one of them may be about a path that is another's.
    fn meet(&self, lead: &Lead) -> bool {
        let from = |text: &str| Lead {
            text: text.to_owned(),
            follows: Follows::Nothing,
        };
        // Those that are longer, and then those that are shorter.
        let longer = self.all.range(from(&lead.text)..);
        let mut longer = longer.take_while(|other| other.text.starts_with(&lead.text));
        if longer.any(|other| other.meets(lead)) {
            return true;
        }
        let ends = lead.text.char_indices().map(|(at, _)| &lead.text[..at]);
        ends.into_iter().any(|text| {
            let same = self.all.range(from(text)..);
            let mut same = same.take_while(|other| other.text == text);
            same.any(|other| other.leads_to(lead))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expressions_begin_with_texts() {
        let table = [
            (r"(?i)/api(/|$)(.*).*", "/api"),
            (r"^^/a\.b.*", "/a.b"),
            ("/ab?c", "/a"),
            ("/a|/b", ""),
            (r"/a\d", "/a"),
            ("/(a|b)/c", "/"),
        ];
        for (pattern, wanted) in table {
            assert_eq!(literal(pattern), wanted, "{pattern}");
        }
    }

    #[test]
    fn paths_meet_where_one_may_be_of_both() {
        let prefix = |text: &str| Lead::of(&Path::Prefix(text.to_owned()));
        let regex = |text: &str| Lead::of(&Path::Regex(text.to_owned()));
        assert!(!prefix("/api").meets(&regex("/apis.*")));
        assert!(prefix("/api").meets(&regex("/api/v1.*")));
        assert!(prefix("/api").meets(&regex("/ap.*")));
        assert!(prefix("/").meets(&regex("/x")));
        let mut all = Leads::default();
        for text in ["/apis.*", "/b"] {
            all.add(&regex(text));
        }
        assert!(!all.meet(&prefix("/api")));
        assert!(all.meet(&prefix("/apis/x")));
        assert!(all.meet(&prefix("/")));
    }
}
