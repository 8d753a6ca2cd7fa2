//! Canaries: which part of the requests of a location goes elsewhere.
//!
//! ingress-nginx: rootfs/etc/nginx/lua/balancer.lua route_to_alternative_balancer, 1.12.

use regex::Regex;

use super::super::Request;

/// A canary.
#[derive(Clone, Debug, Default)]
pub(super) struct Canary {
    /// `namespace/name:port`.
    pub(super) backend: String,
    /// `canary-by-header`.
    pub(super) header: Option<String>,
    /// `canary-by-header-value`.
    pub(super) value: Option<String>,
    /// `canary-by-header-pattern`.
    pub(super) pattern: Option<String>,
    /// `canary-by-cookie`.
    pub(super) cookie: Option<String>,
    /// `canary-weight`.
    pub(super) weight: u32,
    /// `canary-weight-total`.
    pub(super) total: u32,
}

/// What says whether a request goes to the canary.
enum Says {
    Canary,
    Base,
    Nothing,
}

/// The backends of a request, each with its share in hundred.
pub(super) fn split(base: &str, canaries: &[Canary], request: &Request) -> Vec<(String, u32)> {
    // ingress-nginx asks one canary of a location.
    let Some(canary) = canaries.first() else {
        return vec![(base.to_owned(), 100)];
    };
    let said = match canary.by_header(request) {
        Says::Nothing => canary.by_cookie(request),
        said => said,
    };
    let share = match said {
        Says::Canary => 100,
        Says::Base => 0,
        Says::Nothing => (canary.weight * 100 / canary.total.max(1)).min(100),
    };
    let mut all = vec![
        (base.to_owned(), 100 - share),
        (canary.backend.clone(), share),
    ];
    all.retain(|(_, share)| *share > 0);
    all.sort();
    all
}

impl Canary {
    fn by_header(&self, request: &Request) -> Says {
        let name = self.header.as_deref().unwrap_or_default();
        let Some(sent) = request.header(&name.to_ascii_lowercase()) else {
            return Says::Nothing;
        };
        if let Some(value) = self.value.as_deref().filter(|value| !value.is_empty()) {
            return match sent == value {
                true => Says::Canary,
                false => Says::Nothing,
            };
        }
        if let Some(pattern) = self.pattern.as_deref().filter(|p| !p.is_empty()) {
            return match Regex::new(pattern) {
                Ok(regex) if regex.is_match(sent) => Says::Canary,
                _ => Says::Nothing,
            };
        }
        of_word(sent)
    }

    fn by_cookie(&self, request: &Request) -> Says {
        let name = self.cookie.as_deref().unwrap_or_default();
        request.cookie(name).map_or(Says::Nothing, of_word)
    }
}

fn of_word(text: &str) -> Says {
    match text {
        "always" => Says::Canary,
        "never" => Says::Base,
        _ => Says::Nothing,
    }
}
