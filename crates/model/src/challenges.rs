//! Answers to challenges of certificate authorities, which gateways give while a certificate is ordered.
//!
//! Whoever orders one keeps the order in a Secret of the namespace of Ingresses, and the answers beside it: so every replica
//! has them, and they outlive it. Nothing here reads the key of an order.
//!
//! RFC 8555, section 8.3.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// The label of what is kept for certificates that are ordered here; its value says what it is.
pub const LABEL: &str = "pilothouse.io/acme";
/// What the label says of an order.
pub const ORDER: &str = "order";
/// The key of the answers in the Secret of an order.
pub const ANSWERS: &str = "answers.json";
/// Where an authority asks: a token follows.
pub const PATH: &str = "/.well-known/acme-challenge/";

/// The most answers of one order, and of all that is read of one.
const MOST: usize = 100;
const LARGEST: usize = 64 << 10;
/// The longest token, and the longest answer to one.
const LONGEST: usize = 512;

/// What is answered to one challenge.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub struct Answer {
    /// The host that is asked, in small letters.
    pub host: Arc<str>,
    /// What the authority asks for.
    pub token: Arc<str>,
    /// What it is answered.
    pub text: Arc<str>,
}

impl Answer {
    /// Whether it can be what an authority asks for, and nothing else.
    pub fn is_sound(&self) -> bool {
        let plain = |text: &str, more: &[u8]| {
            let known = |b: &u8| b.is_ascii_alphanumeric() || more.contains(b);
            !text.is_empty() && text.len() <= LONGEST && text.as_bytes().iter().all(known)
        };
        let begins = self.text.strip_prefix(&*self.token);
        plain(&self.host, b"-.")
            && !self.host.bytes().any(|b| b.is_ascii_uppercase())
            && plain(&self.token, b"-_")
            && plain(&self.text, b"-_.")
            && begins.is_some_and(|rest| rest.starts_with('.'))
    }
}

/// The answers of an order, as they are kept; what makes no sense is left out.
pub fn answers(kept: &[u8]) -> Vec<Answer> {
    if kept.len() > LARGEST {
        return Vec::new();
    }
    let read: Vec<Answer> = serde_json::from_slice(kept).unwrap_or_default();
    let sound = read.into_iter().filter(Answer::is_sound);
    sound.take(MOST).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(host: &str, token: &str, text: &str) -> Answer {
        Answer {
            host: host.into(),
            token: token.into(),
            text: text.into(),
        }
    }

    #[test]
    fn an_answer_is_its_token_and_a_thumbprint() {
        assert!(answer("a.example", "t-1_x", "t-1_x.thumb").is_sound());
        for (host, token, text) in [
            ("A.example", "t", "t.x"),
            ("a.example", "t/../x", "t/../x.y"),
            ("a.example", "t", "other.x"),
            ("a.example", "t", "t"),
            ("a.example", "", ".x"),
            ("*.example", "t", "t.x"),
            ("a.example", "t", "t.<script>"),
        ] {
            assert!(
                !answer(host, token, text).is_sound(),
                "{host} {token} {text}"
            );
        }
    }

    #[test]
    fn what_is_kept_is_read_and_what_makes_no_sense_is_left_out() {
        let kept = serde_json::to_vec(&[
            answer("a.example", "t", "t.x"),
            answer("a.example", "t", "u.x"),
        ])
        .unwrap();
        assert_eq!(answers(&kept), [answer("a.example", "t", "t.x")]);
        assert_eq!(answers(b"{}"), []);
        assert_eq!(answers(&vec![b' '; LARGEST + 1]), []);
    }
}
