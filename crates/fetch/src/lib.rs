//! Requests to servers that configuration names. One client makes them all ([`web`]), and one guard says which addresses are asked
//! ([`web::guard`]). [`jwks`] fetches the keys of token issuers and SPIFFE bundles.

pub mod jwks;
pub mod web;
