//! Dates of the calendar, as days since 1970-01-01.
//!
//! Years are counted from March, so that a leap day is the last of its year, and in eras of 400 years, after which the
//! calendar repeats.

/// Days of an era.
const ERA: i64 = 146_097;
/// Days from 0000-03-01, where the first era begins, to 1970-01-01.
const BEFORE_1970: i64 = 719_468;

/// Days from 1970-01-01 to a date. The month and the day count from 1, and may be out of range by no more than a month has.
pub fn days(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * ERA + day_of_era - BEFORE_1970
}

/// The year, the month and the day that lie so many days after 1970-01-01.
pub fn date(days: i64) -> (i64, i64, i64) {
    let days = days + BEFORE_1970;
    let era = days.div_euclid(ERA);
    let day_of_era = days.rem_euclid(ERA);
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * from_march + 2) / 5 + 1;
    let month = (from_march + 2) % 12 + 1;
    (year_of_era + era * 400 + i64::from(month <= 2), month, day)
}

/// Seconds since the epoch as RFC 3339 has them: `2006-01-02T15:04:05Z`.
pub fn timestamp(seconds: i64) -> String {
    let (year, month, day) = date(seconds.div_euclid(86_400));
    let rest = seconds.rem_euclid(86_400);
    let (hour, minute, second) = (rest / 3600, rest / 60 % 60, rest % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_count_from_the_epoch() {
        for (days_after, at) in [
            (0, (1970, 1, 1)),
            (-1, (1969, 12, 31)),
            (11_016, (2000, 2, 29)),
            (19_782, (2024, 2, 29)),
            (47_482, (2100, 1, 1)),
            (-719_468, (0, 3, 1)),
            (-719_469, (0, 2, 29)),
        ] {
            assert_eq!(days(at.0, at.1, at.2), days_after);
            assert_eq!(date(days_after), at);
        }
    }

    #[test]
    fn every_day_follows_the_one_before() {
        let mut before = date(-ERA);
        for day in 1 - ERA..=ERA {
            let at = date(day);
            assert_eq!(days(at.0, at.1, at.2), day);
            let (year, month, next) = (before.0, before.1, before.2 + 1);
            let follows = [(year, month, next), (year, month + 1, 1), (year + 1, 1, 1)];
            assert!(follows.contains(&at), "{at:?} after {before:?}");
            before = at;
        }
    }

    #[test]
    fn times_are_written_in_utc() {
        assert_eq!(timestamp(1_735_689_599), "2024-12-31T23:59:59Z");
        assert_eq!(timestamp(0), "1970-01-01T00:00:00Z");
        assert_eq!(timestamp(1_709_208_000), "2024-02-29T12:00:00Z");
        assert_eq!(timestamp(-1), "1969-12-31T23:59:59Z");
    }
}
