//! Snippets of nginx: the few directives that have an equal. A snippet is taken as a whole or left out as a whole, and the
//! routes are closed if what is left out decides who may send requests.

mod apply;
mod guard;
mod syntax;

use crate::Annotations;
use crate::reader::Reader;
use apply::Effect;

/// What becomes of a snippet.
enum Outcome {
    Applied(Box<Effect>),
    LeftOut { why: String, guards: bool },
}

/// Reads the snippets of an Ingress, and those of the ConfigMap before them; the others of its annotations go before both.
pub(crate) fn read(r: &mut Reader<'_>, into: &mut Annotations) {
    for name in ["configuration-snippet", "server-snippet"] {
        let Some(text) = r.get(name, |text| Ok(text.to_owned())) else {
            continue;
        };
        match outcome(&text) {
            Outcome::Applied(effect) => effect.add_to(into),
            Outcome::LeftOut { why, guards: true } => r.close(name, &why),
            Outcome::LeftOut { why, .. } => r.warn(name, &format!("is left out because it {why}")),
        }
    }
    for name in ["location-snippet", "server-snippet"] {
        let Some(text) = r.option(name, |text| Ok(text.to_owned())) else {
            continue;
        };
        match outcome(&text) {
            Outcome::Applied(effect) => effect.add_to(into),
            Outcome::LeftOut { why, guards: true } => r.close_by_option(name, &why),
            Outcome::LeftOut { why, .. } => {
                r.warn_of_option(name, &format!("is left out because it {why}"));
            }
        }
    }
    // That of the whole configuration is never taken, but what it guards must not be open.
    const OF_ALL: &str = "http-snippet";
    let text = r.option(OF_ALL, |text| Ok(text.to_owned()));
    if let Some(Outcome::LeftOut { why, guards: true }) = text.map(|text| outcome(&text)) {
        r.close_by_option(OF_ALL, &why);
    }
}

fn outcome(text: &str) -> Outcome {
    let Some(directives) = syntax::directives(text) else {
        let guards = guard::mentions(text);
        let why = "cannot be read as nginx reads it".to_owned();
        return Outcome::LeftOut { why, guards };
    };
    if let Some(name) = guard::first(&directives) {
        let why = format!("decides by its directive {name} who may send requests");
        return Outcome::LeftOut { why, guards: true };
    }
    match Effect::of(&directives) {
        Ok(effect) => Outcome::Applied(Box::new(effect)),
        Err(directive) => Outcome::LeftOut {
            why: format!(
                "has the directive {}, which has no equal",
                directive.shown()
            ),
            guards: directive.refuses_all(),
        },
    }
}
