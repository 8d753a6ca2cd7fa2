//! What is expected of answers.
//!
//! `status`, or `statuses` (how many of each, as `N` or `[AT LEAST, AT MOST]`, where a request is sent `repeat` times); `backend`,
//! or `backends` in the same way; `answer`: headers of it; `saw`: what the backend that answered saw; `heard`: what each backend
//! saw of it first, `null` for nothing; `asked`: how often each backend was asked; `closed`: 503, and this in the header that says why;
//! `after` and `before`: how many milliseconds it took; `version` and `cipher` of TLS; `fails`: there is no answer.
//! `same`: all answers are of one backend. `keep`: cookies of answers are sent with the requests that follow in the case.
//!
//! A text that begins with `~` is contained in what is found, one that begins with `!` is not, and `null` is absent.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::Value;

use super::backend::{Backends, shown};
use super::case::Instance;
use super::client::{Answer, Door};

/// How long what is to be seen of a request may take beyond the answer.
const LATE: Duration = Duration::from_millis(3000);

/// The header that says why a route is closed.
const CLOSED: &str = "x-pilothouse-closed";

const FIELDS: [&str; 33] = [
    "get", "head", "post", "put", "patch", "delete", "options", "host", "headers", "body",
    "length", "chunked", "from", "tls", "http2", "repeat", "status", "statuses", "backend",
    "backends", "answer", "saw", "heard", "asked", "closed", "after", "before", "version",
    "cipher", "fails", "same", "keep", "pause",
];

/// Sends the requests of a case in order; what is wrong with the answers.
pub(super) async fn wrong(instance: &Instance, door: &Door, backends: &Backends) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut cookies: BTreeMap<String, String> = BTreeMap::new();
    for (number, request) in instance.requests().iter().enumerate() {
        for field in request.as_object().unwrap().keys() {
            assert!(
                FIELDS.contains(&&**field),
                "{}: what is {field}?",
                instance.name
            );
        }
        if let Some(pause) = request["pause"].as_u64() {
            tokio::time::sleep(Duration::from_millis(pause)).await;
        }
        let repeat = request["repeat"].as_u64().unwrap_or(1);
        let mut answers = Vec::new();
        for turn in 0..repeat {
            let id = format!("{}/{number}/{turn}", instance.name);
            let cookie: Vec<String> = cookies.iter().map(|(n, v)| format!("{n}={v}")).collect();
            let cookie = (!cookie.is_empty()).then(|| cookie.join("; "));
            let answer = door
                .send(request, &instance.host(), &id, cookie.as_deref())
                .await;
            if let (Ok(answer), true) = (&answer, request["keep"] == true) {
                keep(answer, &mut cookies);
            }
            answers.push(answer);
        }
        let mut found = Vec::new();
        if let [Ok(answer)] = answers.as_slice() {
            of_one(request, answer, &mut found);
        }
        of_all(request, &answers, &mut found);
        let id = format!("{}/{number}/0", instance.name);
        of_backends(request, backends, &id, &mut found).await;
        wrong.extend(
            found
                .iter()
                .map(|found| format!("request {}: {found}", number + 1)),
        );
    }
    wrong
}

fn keep(answer: &Answer, cookies: &mut BTreeMap<String, String>) {
    for value in answer.headers.get_all("set-cookie") {
        let pair = value
            .to_str()
            .unwrap_or_default()
            .split(';')
            .next()
            .unwrap_or_default();
        if let Some((name, value)) = pair.split_once('=') {
            cookies.insert(name.to_owned(), value.to_owned());
        }
    }
}

/// Whether a value is as expected: of an object each field that is expected.
fn differs(wanted: &Value, found: &Value) -> bool {
    match (wanted, found) {
        (Value::Object(wanted), _) => wanted
            .iter()
            .any(|(name, value)| differs(value, &found[name])),
        (Value::String(wanted), Value::String(found)) => match wanted.split_at_checked(1) {
            Some(("~", part)) => !found.contains(part),
            Some(("!", part)) => found.contains(part),
            _ => wanted != found,
        },
        _ => wanted != found,
    }
}

fn of_one(request: &Value, answer: &Answer, wrong: &mut Vec<String>) {
    let body: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
    let headers = shown(&answer.headers);
    let mut check = |name: &str, found: &Value| {
        if !request[name].is_null() && differs(&request[name], found) {
            wrong.push(format!("{name} is {found}, not {}", request[name]));
        }
    };
    check("answer", &headers);
    check("saw", &body["saw"]);
    check("version", &answer.version.clone().into());
    check("cipher", &answer.cipher.clone().into());
    if let Some(reason) = request["closed"].as_str() {
        let found = headers[CLOSED].as_str().unwrap_or_default();
        if answer.status != 503 || found.is_empty() || !found.contains(reason) {
            wrong.push(format!("it is not closed: {} {found:?}", answer.status));
        }
    }
    let took = u64::try_from(answer.took.as_millis()).unwrap_or(u64::MAX);
    let (after, before) = (request["after"].as_u64(), request["before"].as_u64());
    if after.is_some_and(|after| took < after) || before.is_some_and(|before| took > before) {
        wrong.push(format!("it took {took} ms"));
    }
}

fn of_all(request: &Value, answers: &[anyhow::Result<Answer>], wrong: &mut Vec<String>) {
    let mut statuses: BTreeMap<String, u64> = BTreeMap::new();
    let mut by_backend: BTreeMap<String, u64> = BTreeMap::new();
    for answer in answers {
        let Ok(answer) = answer else {
            *statuses.entry("none".to_owned()).or_default() += 1;
            continue;
        };
        *statuses.entry(answer.status.to_string()).or_default() += 1;
        let backend = answer
            .headers
            .get("x-backend")
            .and_then(|name| name.to_str().ok());
        *by_backend
            .entry(backend.unwrap_or("none").to_owned())
            .or_default() += 1;
    }
    let fails = answers.iter().find_map(|answer| answer.as_ref().err());
    match (request["fails"] == true, fails) {
        (true, None) => wrong.push(format!("there is an answer: {statuses:?}")),
        (false, Some(error)) => wrong.push(format!("there is no answer: {error:#}")),
        _ => {}
    }
    let all = u64::try_from(answers.len()).unwrap_or_default();
    if let Some(status) = request["status"].as_u64()
        && statuses.get(&status.to_string()) != Some(&all)
    {
        wrong.push(format!("the status is {statuses:?}, not {status}"));
    }
    if let Some(backend) = request["backend"].as_str()
        && by_backend.get(backend) != Some(&all)
    {
        wrong.push(format!("{by_backend:?} answered, not {backend}"));
    }
    if request["same"] == true && (by_backend.len() != 1 || by_backend.contains_key("none")) {
        wrong.push(format!("several backends answered: {by_backend:?}"));
    }
    for (field, found) in [("statuses", &statuses), ("backends", &by_backend)] {
        let Some(wanted) = request[field].as_object() else {
            continue;
        };
        for (name, count) in wanted {
            let is = found.get(name).copied().unwrap_or(0);
            let fits = match (count.as_u64(), count.as_array()) {
                (Some(count), _) => is == count,
                (None, Some(range)) => (range[0].as_u64()..=range[1].as_u64()).contains(&Some(is)),
                _ => panic!("{count} is no count"),
            };
            if !fits {
                wrong.push(format!("{field} are {found:?}, not {}", request[field]));
            }
        }
        if found.keys().any(|name| !wanted.contains_key(name)) {
            wrong.push(format!("{field} are {found:?}, not {}", request[field]));
        }
    }
}

async fn of_backends(request: &Value, backends: &Backends, id: &str, wrong: &mut Vec<String>) {
    let (heard, asked) = (request["heard"].as_object(), request["asked"].as_object());
    if heard.is_none() && asked.is_none() {
        return;
    }
    let check = || {
        let seen = backends.seen(id);
        let of = |name: &str| {
            let is_it = |backend: &str| backend == name || backend.starts_with(&format!("{name}-"));
            seen.iter()
                .filter(move |(backend, _)| is_it(backend))
                .cloned()
                .collect::<Vec<_>>()
        };
        let mut wrong = Vec::new();
        for (name, wanted) in heard.into_iter().flatten() {
            match of(name).first() {
                None if wanted.is_null() => {}
                None => wrong.push(format!("{name} heard nothing")),
                Some((_, saw)) if wanted.is_null() || differs(wanted, saw) => {
                    wrong.push(format!("{name} heard {saw}, not {wanted}"));
                }
                Some(_) => {}
            }
        }
        for (name, wanted) in asked.into_iter().flatten() {
            let found = of(name).len();
            if wanted.as_u64() != u64::try_from(found).ok() {
                wrong.push(format!("{name} was asked {found} times, not {wanted}"));
            }
        }
        wrong
    };
    let end = tokio::time::Instant::now() + LATE;
    loop {
        let found = check();
        if found.is_empty() || tokio::time::Instant::now() > end {
            wrong.extend(found);
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}
