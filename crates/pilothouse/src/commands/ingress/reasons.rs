//! Why a request was answered as it was, in words: Envoy tells it in flags and details.
//!
//! Envoy: docs/root/configuration/observability/access_log/usage.rst, 1.36.

/// Flags of responses, sorted.
const FLAGS: [(&str, &str); 29] = [
    ("DC", "the client closed the connection"),
    ("DF", "the host of the backend is not found"),
    ("DI", "delayed on purpose"),
    ("DO", "dropped by overload policy"),
    ("DPE", "the client broke the protocol"),
    ("DR", "the client gave the request up"),
    ("DT", "the connection lasted too long"),
    ("FI", "failed on purpose"),
    ("IH", "a header has a value that is not allowed"),
    ("LH", "failed its health check"),
    ("LR", "the connection was reset here"),
    ("NC", "the cluster of the route is not there"),
    ("NFCF", "the configuration of a filter has not arrived"),
    ("NR", "no route"),
    ("OM", "the gateway is overloaded"),
    ("RFCF", "the response was not finished"),
    ("RL", "too many requests"),
    ("RLSE", "the rate limit service does not answer"),
    ("SI", "nothing was sent for too long"),
    ("UAEX", "refused by the service that decides"),
    ("UC", "the backend closed the connection"),
    ("UDO", "dropped by overload policy"),
    ("UF", "no connection to the backend"),
    ("UH", "no healthy endpoint"),
    ("UMSDR", "the response took too long"),
    ("UO", "too many connections or requests are open"),
    ("UPE", "the backend broke the protocol"),
    ("UR", "the backend gave the request up"),
    ("UT", "the backend did not answer in time"),
];

/// What details begin with that have no flag.
const DETAILS: [(&str, &str); 3] = [
    ("direct_response", "answered by the route itself"),
    ("jwt_authn_access_denied", "no valid token"),
    ("rbac_access_denied", "refused by a policy"),
];

/// Flags, several divided by commas, and details in words, with both behind them; details that say nothing more are empty.
pub(super) fn why(flags: &str, details: &str) -> String {
    let flags = if flags == "-" { "" } else { flags };
    let of_flag = |flag: &str| FLAGS.iter().find(|(known, _)| *known == flag);
    let mut words: Vec<&str> = flags
        .split(',')
        .filter_map(of_flag)
        .map(|(_, words)| *words)
        .collect();
    if words.is_empty() {
        let known = DETAILS.iter().find(|(start, _)| details.starts_with(start));
        words.extend(known.map(|(_, words)| *words));
    }
    let said = [flags, details].into_iter().filter(|said| !said.is_empty());
    let said = said.collect::<Vec<&str>>().join(", ");
    match words.is_empty() {
        true => said,
        false => format!("{} ({said})", words.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_and_details_are_told_in_words() {
        for (flags, details, wanted) in [
            (
                "UH",
                "no_healthy_upstream",
                "no healthy endpoint (UH, no_healthy_upstream)",
            ),
            ("UF,URX", "", "no connection to the backend (UF,URX)"),
            (
                "NR,DC",
                "",
                "no route, the client closed the connection (NR,DC)",
            ),
            (
                "-",
                "rbac_access_denied_matched_policy[none]",
                "refused by a policy (rbac_access_denied_matched_policy[none])",
            ),
            ("-", "other", "other"),
            ("XX", "", "XX"),
            ("-", "", ""),
            ("", "", ""),
        ] {
            assert_eq!(why(flags, details), wanted);
        }
        assert!(FLAGS.is_sorted());
    }
}
