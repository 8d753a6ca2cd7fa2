//! Lengths of time as Go writes them.

/// A length of time as Go's `time.Duration` prints it.
pub(crate) fn duration(nanos: i128) -> String {
    const SECOND: u128 = 1_000_000_000;
    let sign = if nanos < 0 { "-" } else { "" };
    let nanos = nanos.unsigned_abs();
    let decimals = |amount: u128, unit: u128| {
        let (whole, rest) = (amount / unit, amount % unit);
        let width = unit.to_string().len() - 1;
        let rest = format!("{rest:0width$}");
        match rest.trim_end_matches('0') {
            "" => whole.to_string(),
            rest => format!("{whole}.{rest}"),
        }
    };
    let text = match nanos {
        0 => "0s".to_owned(),
        1..1_000 => format!("{nanos}ns"),
        1_000..1_000_000 => format!("{}µs", decimals(nanos, 1_000)),
        1_000_000..SECOND => format!("{}ms", decimals(nanos, 1_000_000)),
        _ => {
            let minutes = nanos / (60 * SECOND);
            let seconds = decimals(nanos % (60 * SECOND), SECOND);
            match (minutes / 60, minutes % 60) {
                (0, 0) => format!("{seconds}s"),
                (0, minutes) => format!("{minutes}m{seconds}s"),
                (hours, minutes) => format!("{hours}h{minutes}m{seconds}s"),
            }
        }
    };
    format!("{sign}{text}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_written_as_go_writes_them() {
        for (nanos, wanted) in [
            (0, "0s"),
            (5, "5ns"),
            (1_500, "1.5µs"),
            (1_500_000, "1.5ms"),
            (23_000_000_000, "23s"),
            (60_000_000_000, "1m0s"),
            (-3_661_500_000_000, "-1h1m1.5s"),
        ] {
            assert_eq!(duration(nanos), wanted);
        }
    }
}
