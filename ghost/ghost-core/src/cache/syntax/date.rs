//! HTTP dates (RFC 9110, section 5.6.7), read strictly, in any case (RFC 9111, section 4.2).
//!
//! In:  the value of a field such as Date or Expires.
//! Out: seconds since 1970, or None for anything but the three formats of the RFC.
//!
//! Strict, because a date that is misread makes a response fresh that its origin meant to be
//! stale. A day of the week that contradicts the date is not checked: it adds nothing to it.
//!
//! ```
//! use ghost_core::cache::syntax::date;
//!
//! let now = 784_111_777;
//! assert_eq!(date::parse(b"Sun, 06 Nov 1994 08:49:37 GMT", now), Some(784_111_777));
//! assert_eq!(date::parse(b"Sunday, 06-Nov-94 08:49:37 GMT", now), Some(784_111_777));
//! assert_eq!(date::parse(b"Sun Nov  6 08:49:37 1994", now), Some(784_111_777));
//! assert_eq!(date::parse(b"SUN, 06 nov 1994 08:49:37 gmt", now), Some(784_111_777));
//! assert_eq!(date::parse(b"Sun, 6 Nov 1994 08:49:37 GMT", now), None);
//! assert_eq!(date::parse(b"Sun, 06 Nov 1994 08:49:37 UTC", now), None);
//! assert_eq!(date::parse(b"0", now), None);
//! ```

const DAYS: [&[u8]; 7] = [b"Mon", b"Tue", b"Wed", b"Thu", b"Fri", b"Sat", b"Sun"];
const LONG_DAYS: [&[u8]; 7] =
    [b"Monday", b"Tuesday", b"Wednesday", b"Thursday", b"Friday", b"Saturday", b"Sunday"];
const MONTHS: [&[u8]; 12] = [
    b"Jan", b"Feb", b"Mar", b"Apr", b"May", b"Jun", b"Jul", b"Aug", b"Sep", b"Oct", b"Nov", b"Dec",
];
const SECONDS_PER_DAY: i64 = 86_400;
/// A year of two digits is at most so far in the future.
const FUTURE_YEARS: i64 = 50;

/// The seconds since 1970 of a date. `now`, in the same unit, tells the century of a year
/// that has two digits.
#[must_use]
pub fn parse(text: &[u8], now: i64) -> Option<i64> {
    let mut reader = Reader(text.trim_ascii());
    let seconds = match reader.0.iter().position(|&byte| byte == b',' || byte == b' ')? {
        3 if reader.0[3] == b',' => imf_fixdate(&mut reader),
        3 => asctime(&mut reader),
        _ => rfc850(&mut reader, now),
    }?;
    reader.0.is_empty().then_some(seconds)
}

fn imf_fixdate(reader: &mut Reader) -> Option<i64> {
    reader.one_of(&DAYS)?;
    reader.text(b", ")?;
    let day = reader.number(2)?;
    reader.text(b" ")?;
    let month = reader.one_of(&MONTHS)?;
    reader.text(b" ")?;
    let year = reader.number(4)?;
    reader.text(b" ")?;
    let time = reader.time()?;
    reader.text(b" GMT")?;
    seconds(year, month, day, time)
}

fn rfc850(reader: &mut Reader, now: i64) -> Option<i64> {
    reader.one_of(&LONG_DAYS)?;
    reader.text(b", ")?;
    let day = reader.number(2)?;
    reader.text(b"-")?;
    let month = reader.one_of(&MONTHS)?;
    reader.text(b"-")?;
    let year = full_year(reader.number(2)?, now);
    reader.text(b" ")?;
    let time = reader.time()?;
    reader.text(b" GMT")?;
    seconds(year, month, day, time)
}

fn asctime(reader: &mut Reader) -> Option<i64> {
    reader.one_of(&DAYS)?;
    reader.text(b" ")?;
    let month = reader.one_of(&MONTHS)?;
    reader.text(b" ")?;
    let day = if reader.text(b" ").is_some() { reader.number(1)? } else { reader.number(2)? };
    reader.text(b" ")?;
    let time = reader.time()?;
    reader.text(b" ")?;
    seconds(reader.number(4)?, month, day, time)
}

/// The latest year with these digits that is at most fifty years in the future.
fn full_year(digits: i64, now: i64) -> i64 {
    let latest = year_of(now).saturating_add(FUTURE_YEARS);
    latest - (latest - digits).rem_euclid(100)
}

fn year_of(now: i64) -> i64 {
    // Good enough for a window of a hundred years: off by at most a day.
    1970 + now.div_euclid(31_556_952)
}

fn seconds(year: i64, month: usize, day: i64, time: i64) -> Option<i64> {
    let month = i64::try_from(month).ok()? + 1;
    let is_leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
    let last = match month {
        2 if is_leap => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    };
    (1..=last).contains(&day).then(|| days(year, month, day) * SECONDS_PER_DAY + time)
}

/// Days since 1970. Years begin in March, so that the leap day is the last of its year.
fn days(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let month = (month + 9) % 12;
    let of_years = 365 * year + year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400);
    of_years + (153 * month + 2) / 5 + day - 1 - 719_468
}

struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn text(&mut self, expected: &[u8]) -> Option<()> {
        let (start, rest) = self.0.split_at_checked(expected.len())?;
        self.0 = start.eq_ignore_ascii_case(expected).then_some(rest)?;
        Some(())
    }

    fn one_of(&mut self, names: &[&[u8]]) -> Option<usize> {
        names.iter().position(|name| self.text(name).is_some())
    }

    fn number(&mut self, length: usize) -> Option<i64> {
        let number = super::digits(self.0.get(..length)?)?;
        self.0 = &self.0[length..];
        i64::try_from(number).ok()
    }

    /// Seconds since midnight. A leap second is the 60th of its minute.
    fn time(&mut self) -> Option<i64> {
        let hour = self.number(2)?;
        self.text(b":")?;
        let minute = self.number(2)?;
        self.text(b":")?;
        let second = self.number(2)?;
        (hour < 24 && minute < 60 && second <= 60).then_some(hour * 3600 + minute * 60 + second)
    }
}
