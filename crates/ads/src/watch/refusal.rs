//! What becomes of a response that the client refused.

use std::sync::Arc;

use super::{Note, Watch};
use crate::action::Response;
use crate::content::Item;
use crate::request::Rejection;

impl Watch {
    /// The client refused `response`: keeps what it blames from being sent again before it changes, and queues the
    /// rest. Returns the names, and whether they are known to be those to blame.
    pub(crate) fn reject(
        &mut self,
        response: &Response,
        rejection: &Rejection,
    ) -> (Vec<Arc<str>>, bool) {
        let content = &response.content;
        let whole = self.trial.take().is_some();
        let message = beginning(&rejection.message, content.items.len());
        let mut blamed: Vec<&Item> = content
            .items
            .iter()
            .filter(|i| mentions(message, &i.resource.name))
            .collect();
        if blamed.is_empty() && content.items.len() == 1 && content.removed.is_empty() {
            blamed.extend(content.items.first());
        }
        let all = || {
            content
                .items
                .iter()
                .map(|i| Arc::clone(&i.resource.name))
                .chain(content.removed.iter().cloned())
        };
        if blamed.is_empty() {
            if whole {
                self.refused = Some(content.version);
            } else {
                let mut first: Vec<_> = all().collect();
                if first.len() > 1 {
                    let second = first.split_off(first.len() / 2);
                    self.retry.push_front(second);
                    self.retry.push_front(first);
                }
            }
            return (all().collect(), false);
        }
        let names: Vec<Arc<str>> = blamed
            .iter()
            .map(|i| Arc::clone(&i.resource.name))
            .collect();
        for item in &blamed {
            self.notes.insert(
                Arc::clone(&item.resource.name),
                Note::Rejected(item.resource.version),
            );
        }
        // Sorted, as the items are.
        let rest: Vec<_> = all().filter(|n| names.binary_search(n).is_err()).collect();
        if !whole && !rest.is_empty() {
            self.retry.push_front(rest);
        }
        (names, true)
    }
}

/// Each name of a response is looked for in the client's message, so its length times their number is bounded. Clients name
/// what they refuse first of all.
const SEARCHED: usize = 64 << 20;

/// What is read of a message that refuses so many resources: a kilobyte at least.
fn beginning(message: &str, items: usize) -> &str {
    let most = (SEARCHED / items.max(1)).max(1 << 10);
    &message[..message.floor_char_boundary(most)]
}

/// Whether the message names the resource, not only another whose name contains it.
fn mentions(message: &str, name: &str) -> bool {
    let inside =
        |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || matches!(c, '|' | '_' | '-'));
    !name.is_empty()
        && message.match_indices(name).any(|(at, found)| {
            let after = &message[at + found.len()..];
            let mut tail = after.chars();
            let next = tail.next();
            // A dot or colon may end the sentence, or continue the name.
            let continues = matches!(next, Some('.' | ':')) && inside(tail.next());
            !inside(message[..at].chars().next_back()) && !inside(next) && !continues
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longer_the_response_the_less_is_read_of_its_refusal() {
        let message = "é".repeat(100_000);
        assert_eq!(beginning(&message, 1).len(), 200_000);
        assert_eq!(beginning(&message, 1_000).len(), 67_108);
        assert_eq!(beginning(&message, 1_000_000).len(), 1_024);
    }

    #[test]
    fn a_name_is_mentioned_only_as_a_whole() {
        let message = "Error adding/updating listener(s) 0.0.0.0_80: no filter; outbound|80||a.b: bad cluster.";
        assert!(mentions(message, "0.0.0.0_80"));
        assert!(mentions(message, "outbound|80||a.b"));
        assert!(mentions(message, "cluster"));
        for other in [
            "0.0.0.0_8",
            "outbound|80||a",
            "80||a.b",
            "",
            "Outbound|80||a.b",
        ] {
            assert!(!mentions(message, other), "{other}");
        }
    }
}
