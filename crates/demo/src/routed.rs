//! What was routed where: sends requests through the gateway and counts the ways they took.

use std::collections::BTreeMap;
use std::fmt;

use hyper::Method;
use serde_json::Value;

use crate::http::Client;
use crate::shop::{Block, GATEWAY, HOST};

/// A request of which several are sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Question {
    /// What it shows, for people.
    pub about: &'static str,
    /// Path at the gateway.
    pub path: &'static str,
    /// Value of the header `end-user`.
    pub user: Option<&'static str>,
    /// How many are sent.
    pub count: u32,
}

/// Anybody asks for the front page.
pub const ANYBODY: Question = Question {
    about: "anybody",
    path: "/",
    user: None,
    count: 200,
};
/// Jason asks for the front page.
pub const JASON: Question = Question {
    about: "end-user: jason",
    path: "/",
    user: Some("jason"),
    count: 20,
};
/// Anybody asks for stars.
pub const STARS: Question = Question {
    about: "anybody",
    path: "/stars/7",
    user: None,
    count: 20,
};

/// What the demo asks.
pub const QUESTIONS: &[Question] = &[ANYBODY, JASON, STARS];

/// Who was reached, how often, and whom they asked in turn.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Ways {
    count: u32,
    next: BTreeMap<String, Ways>,
}

/// The ways that the requests of one question took.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Routed {
    question: Question,
    ways: Ways,
}

/// Sends the requests of a question.
///
/// # Errors
///
/// When the gateway does not answer. An answer that is an error is counted like others.
pub async fn ask(block: Block, question: Question) -> anyhow::Result<Routed> {
    let mut client = Client::new(block.gateway(), HOST);
    let mut ways = Ways::default();
    let headers: Vec<(&str, &str)> = question
        .user
        .map(|user| ("end-user", user))
        .into_iter()
        .collect();
    for _ in 0..question.count {
        let reply = client.send(Method::GET, question.path, &headers).await?;
        ways.count += 1;
        match reply.json() {
            Ok(answer) if reply.status == 200 => ways.add(&answer, question.path),
            _ => ways.fail(&format!("{} {}", reply.status, reply.text().trim())),
        }
    }
    Ok(Routed { question, ways })
}

impl Ways {
    fn add(&mut self, answer: &Value, asked: &str) {
        let name = answer["name"].as_str().unwrap_or("somebody");
        let path = answer["path"].as_str().unwrap_or_default();
        // Paths that a route has rewritten are worth telling.
        let label = if path == asked || asked.is_empty() {
            name.to_owned()
        } else {
            format!("{name} as {path}")
        };
        let next = self.next.entry(label).or_default();
        next.count += 1;
        for inner in answer["asked"].as_array().into_iter().flatten() {
            if inner.get("name").is_some() {
                next.add(inner, "");
            } else {
                next.fail(&failure(inner));
            }
        }
    }

    fn fail(&mut self, reason: &str) {
        self.next.entry(format!("✗ {reason}")).or_default().count += 1;
    }
}

/// What became of a question to another backend that failed.
fn failure(answer: &Value) -> String {
    let text = |value: &Value| value.as_str().unwrap_or_default().trim().to_owned();
    match answer.get("status") {
        Some(status) => format!("{status} {}", text(&answer["answer"]["text"])),
        None => format!("{}: {}", text(&answer["host"]), text(&answer["error"])),
    }
}

impl Routed {
    /// What was asked.
    pub fn question(&self) -> Question {
        self.question
    }

    /// How often the workload of that name was reached, wherever on the way.
    pub fn reached(&self, name: &str) -> u32 {
        fn count(ways: &Ways, name: &str) -> u32 {
            let of = |(label, next): (&String, &Ways)| {
                let here = if label.split(' ').next() == Some(name) {
                    next.count
                } else {
                    0
                };
                here + count(next, name)
            };
            ways.next.iter().map(of).sum()
        }
        count(&self.ways, name)
    }

    /// How often the backend of that name was asked for that rewritten path.
    pub fn rewritten(&self, name: &str, path: &str) -> u32 {
        self.ways
            .next
            .get(&format!("{name} as {path}"))
            .map_or(0, |w| w.count)
    }

    /// How many answers were errors, wherever on the way.
    pub fn failures(&self) -> u32 {
        self.reached("✗")
    }

    /// Whether two results of one question say the same about the routes, but for chance. Chance alone makes them
    /// differ once in some hundred times, which shows an unchanged picture again; an even split that was 80 to 20 is
    /// taken for the same three times in ten thousand.
    pub fn agrees(&self, other: &Self) -> bool {
        fn agree(a: &Ways, b: &Ways, of: u32) -> bool {
            a.next.keys().eq(b.next.keys())
                && a.next.iter().zip(&b.next).all(|((_, a), (_, b))| {
                    f64::from(a.count.abs_diff(b.count)) <= tolerance(a.count + b.count, of)
                        && agree(a, b, of)
                })
        }
        self.question == other.question && agree(&self.ways, &other.ways, self.question.count)
    }
}

/// By how much two counts may differ that add up to `both` and are each of `of` random choices with the same odds: three
/// deviations of the difference.
fn tolerance(both: u32, of: u32) -> f64 {
    let of = f64::from(of);
    let odds = (f64::from(both) / (2.0 * of)).min(1.0);
    3.0 * (2.0 * of * odds * (1.0 - odds)).sqrt()
}

/// How wide the longest bar is.
const BAR: u32 = 30;

impl fmt::Display for Routed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Question {
            about, path, count, ..
        } = self.question;
        writeln!(f, "{count} × GET http://{HOST}{path}  ({about})")?;
        writeln!(f, "  {GATEWAY}")?;
        lines(f, &self.ways, "  ", count)
    }
}

fn lines(f: &mut fmt::Formatter<'_>, ways: &Ways, indent: &str, all: u32) -> fmt::Result {
    let last = ways.next.len().saturating_sub(1);
    for (at, (label, next)) in ways.next.iter().enumerate() {
        let (branch, below) = if at == last {
            ("└─ ", "   ")
        } else {
            ("├─ ", "│  ")
        };
        let start = format!("{indent}{branch}{label}");
        let width = 44_usize.saturating_sub(start.chars().count());
        let bar = "█".repeat((next.count * BAR).div_ceil(all.max(1)) as usize);
        writeln!(
            f,
            "{start}{:width$}{:>5}  \x1b[36m{bar}\x1b[0m",
            "", next.count
        )?;
        lines(f, next, &format!("{indent}{below}"), all)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn routed(answers: &[Value]) -> Routed {
        let mut ways = Ways {
            count: u32::try_from(answers.len()).unwrap(),
            ..Ways::default()
        };
        answers.iter().for_each(|a| ways.add(a, "/"));
        Routed {
            question: Question {
                count: ways.count,
                ..ANYBODY
            },
            ways,
        }
    }

    fn via(reviews: &str) -> Value {
        json!({ "name": "front-v1", "path": "/", "asked": [{ "name": reviews, "path": "/reviews/7", "asked": [] }] })
    }

    #[test]
    fn workloads_are_counted_wherever_they_are_on_the_way() {
        let all = routed(&[via("reviews-v1"), via("reviews-v1"), via("reviews-v3")]);
        assert_eq!(all.reached("front-v1"), 3);
        assert_eq!(all.reached("reviews-v1"), 2);
        assert_eq!(all.failures(), 0);
    }

    #[test]
    fn failures_on_the_way_are_seen() {
        let all = routed(&[
            json!({ "name": "front-v1", "path": "/", "asked": [{ "status": 503, "answer": { "text": "no healthy upstream" } }] }),
        ]);
        assert_eq!(all.failures(), 1);
        assert!(all.to_string().contains("✗ 503 no healthy upstream"));
    }

    #[test]
    fn rewritten_paths_are_told() {
        let all = routed(&[json!({ "name": "ratings-v1", "path": "/ratings/7", "asked": [] })]);
        assert_eq!(all.rewritten("ratings-v1", "/ratings/7"), 1);
        assert_eq!(all.reached("ratings-v1"), 1);
    }

    #[test]
    fn chance_is_no_difference_and_another_way_is() {
        let of = |v1: usize, v3: usize| {
            let answers: Vec<Value> = std::iter::repeat_n("reviews-v1", v1)
                .chain(std::iter::repeat_n("reviews-v3", v3))
                .map(via)
                .collect();
            routed(&answers)
        };
        assert!(of(160, 40).agrees(&of(150, 50)));
        assert!(!of(160, 40).agrees(&of(100, 100)));
        // Both some way off, toward each other: still an edit from 80 to 50.
        assert!(!of(150, 50).agrees(&of(115, 85)));
        assert!(!of(160, 40).agrees(&of(200, 0)));
    }
}
