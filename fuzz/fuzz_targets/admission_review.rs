//! A body that anyone may post to the webhooks: it is read or refused, judged, and answered with its own identity.

#![no_main]

use admission::{Response, Review, judge};
use libfuzzer_sys::fuzz_target;
use serde_json::Value;

fuzz_target!(|body: &[u8]| {
    let Ok(review) = Review::read(body) else {
        let answer = Review::answer(None, &Response::refused("no"));
        assert!(serde_json::from_slice::<Value>(&answer).is_ok());
        return;
    };
    let judgement = judge(&review.request);
    // Nothing is changed, and a refusal has a reason.
    assert!(judgement.response.patch.is_none());
    assert!(judgement.response.allowed || judgement.response.message.is_some());
    let answer = Review::answer(Some(&review), &judgement.response);
    let answer: Value = serde_json::from_slice(&answer).expect("an answer is JSON");
    assert_eq!(answer["response"]["uid"], *review.request.uid);
    assert_eq!(answer["apiVersion"], review.version.name());
});
