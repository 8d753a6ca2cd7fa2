//! Snippets of nginx: the few directives that have an equal are done, those that are known to decide about nobody's access
//! are left out, and any other closes the routes.

mod apply;
mod guard;
mod syntax;

use crate::Annotations;
use crate::reader::Reader;
use apply::{Effect, Taken};
use syntax::Directive;

/// What becomes of a snippet.
enum Outcome {
    /// What has an equal is done.
    Taken {
        effect: Box<Effect>,
        /// The first directive of which nothing or only a part is done, and which decides nothing.
        left_out: Option<String>,
    },
    /// It may decide who may send requests; why.
    Closes(String),
}

/// Reads the snippets of an Ingress, and those of the ConfigMap before them; the others of its annotations go before both.
pub(crate) fn read(r: &mut Reader<'_>, into: &mut Annotations) {
    for name in ["configuration-snippet", "server-snippet"] {
        let Some(text) = r.get(name, |text| Ok(text.to_owned())) else {
            continue;
        };
        match outcome(&text) {
            Outcome::Closes(why) => r.close(name, &why),
            Outcome::Taken { effect, left_out } => {
                effect.add_to(into);
                if let Some(directive) = left_out {
                    r.warn(name, &without(&directive));
                }
            }
        }
    }
    for name in ["location-snippet", "server-snippet"] {
        let Some(text) = r.option(name, |text| Ok(text.to_owned())) else {
            continue;
        };
        match outcome(&text) {
            Outcome::Closes(why) => r.close_by_option(name, &why),
            Outcome::Taken { effect, left_out } => {
                effect.add_to(into);
                if let Some(directive) = left_out {
                    r.warn_of_option(name, &without(&directive));
                }
            }
        }
    }
    // That of the whole configuration is never taken, but what it guards must not be open.
    const OF_ALL: &str = "http-snippet";
    let text = r.option(OF_ALL, |text| Ok(text.to_owned()));
    if let Some(Outcome::Closes(why)) = text.map(|text| outcome(&text)) {
        r.close_by_option(OF_ALL, &why);
    }
}

fn without(directive: &str) -> String {
    format!("is taken without its directive {directive}, which has no equal")
}

fn outcome(text: &str) -> Outcome {
    let Some(directives) = syntax::directives(text) else {
        return Outcome::Closes("cannot be read as nginx reads it".to_owned());
    };
    let mut effect = Effect::default();
    let mut left_out = None;
    // The blocks that a directive stands in.
    let mut around: Vec<&Directive> = Vec::new();
    for directive in &directives {
        around.truncate(directive.depth);
        let alone = around.is_empty() && !directive.opens;
        match alone.then(|| effect.take(directive)) {
            Some(Taken::Whole) => {}
            Some(Taken::Nothing) | None if !guard::is_harmless(directive, &around) => {
                return Outcome::Closes(format!(
                    "may decide by its directive {} who may send requests",
                    directive.shown()
                ));
            }
            _ => _ = left_out.get_or_insert_with(|| directive.shown()),
        }
        if directive.opens {
            around.push(directive);
        }
    }
    Outcome::Taken {
        effect: Box::new(effect),
        left_out,
    }
}
