//! Structured fields (RFC 9651), as far as caching uses them: dictionaries and lists.
//!
//! In:  one header line.
//! Out: each member with its key and bare item; parameters are skipped. A line that is not
//!      well-formed as a whole is an error, and a recipient ignores the field.
//!
//! ```
//! use ghost_core::cache::syntax::structured::{dictionary, strings, Item};
//!
//! let mut seen = Vec::new();
//! dictionary(b"max-age=60, no-store=?0, x;p=1", |key, item| seen.push((key.to_vec(), item)))?;
//! assert_eq!(seen[0], (b"max-age".to_vec(), Item::Integer(60)));
//! assert_eq!(seen[1].1, Item::Boolean(false));
//! assert_eq!(seen[2].1, Item::Boolean(true));
//! assert!(dictionary(b"Max-Age=60", |_, _| {}).is_err());
//!
//! let mut groups = Vec::new();
//! strings(br#""scripts", "styles";x"#, |text| groups.push(text.to_vec()))?;
//! assert_eq!(groups, [b"scripts".to_vec(), b"styles".to_vec()]);
//! # Ok::<(), ghost_core::cache::syntax::structured::Malformed>(())
//! ```

/// A bare item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Item<'a> {
    /// A whole number of up to fifteen digits.
    Integer(i64),
    /// `?1` or `?0`; a member without a value is true.
    Boolean(bool),
    /// What stands between the quotes, escapes included.
    String(&'a [u8]),
    /// A token.
    Token(&'a [u8]),
    /// A decimal, a byte sequence, a date, a display string or an inner list. No field of a
    /// cache has them.
    Other,
}

/// The field is not well-formed, so that a recipient ignores it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed;

impl std::fmt::Display for Malformed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("malformed structured field")
    }
}

impl std::error::Error for Malformed {}

/// Read a dictionary. Members before a mistake are reported too: drop them on an error.
///
/// # Errors
/// The line is not a dictionary.
pub fn dictionary<'a>(
    line: &'a [u8],
    mut member: impl FnMut(&'a [u8], Item<'a>),
) -> Result<(), Malformed> {
    each_member(line, |reader| {
        let key = reader.key()?;
        let item =
            if reader.eat(b'=') { reader.item_or_inner_list()? } else { Item::Boolean(true) };
        reader.parameters()?;
        member(key, item);
        Ok(())
    })
}

/// Read a list of strings (RFC 9651, section 3.1).
///
/// # Errors
/// The line is not a list, or has a member that isn't a string; members before it are reported.
/// Then the whole field counts as absent (RFC 9651, section 2).
pub fn strings<'a>(line: &'a [u8], mut member: impl FnMut(&'a [u8])) -> Result<(), Malformed> {
    each_member(line, |reader| {
        let item = reader.item_or_inner_list()?;
        reader.parameters()?;
        let Item::String(text) = item else { return Err(Malformed) };
        member(text);
        Ok(())
    })
}

fn each_member<'a>(
    line: &'a [u8],
    mut read: impl FnMut(&mut Reader<'a>) -> Result<(), Malformed>,
) -> Result<(), Malformed> {
    let mut reader = Reader(line.trim_ascii());
    while !reader.0.is_empty() {
        read(&mut reader)?;
        reader.skip(b" \t");
        if reader.0.is_empty() {
            break;
        }
        reader.expect(b',')?;
        reader.skip(b" \t");
        // A list must not end with a comma.
        reader.peek().ok_or(Malformed)?;
    }
    Ok(())
}

struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn peek(&self) -> Option<u8> {
        self.0.first().copied()
    }

    fn eat(&mut self, expected: u8) -> bool {
        let found = self.peek() == Some(expected);
        if found {
            self.0 = &self.0[1..];
        }
        found
    }

    fn expect(&mut self, expected: u8) -> Result<(), Malformed> {
        self.eat(expected).then_some(()).ok_or(Malformed)
    }

    fn skip(&mut self, any_of: &[u8]) {
        while self.peek().is_some_and(|byte| any_of.contains(&byte)) {
            self.0 = &self.0[1..];
        }
    }

    /// The longest prefix of such bytes.
    fn span(&mut self, belongs: impl Fn(u8) -> bool) -> &'a [u8] {
        let end = self.0.iter().position(|&byte| !belongs(byte)).unwrap_or(self.0.len());
        let (span, rest) = self.0.split_at(end);
        self.0 = rest;
        span
    }

    fn key(&mut self) -> Result<&'a [u8], Malformed> {
        if !self.peek().is_some_and(|byte| byte.is_ascii_lowercase() || byte == b'*') {
            return Err(Malformed);
        }
        Ok(self.span(|byte| {
            byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"_-.*".contains(&byte)
        }))
    }

    fn parameters(&mut self) -> Result<(), Malformed> {
        while self.eat(b';') {
            self.skip(b" ");
            self.key()?;
            if self.eat(b'=') {
                self.item()?;
            }
        }
        Ok(())
    }

    fn item_or_inner_list(&mut self) -> Result<Item<'a>, Malformed> {
        if !self.eat(b'(') {
            return self.item();
        }
        loop {
            self.skip(b" ");
            if self.eat(b')') {
                return Ok(Item::Other);
            }
            self.item()?;
            self.parameters()?;
            if !matches!(self.peek(), Some(b' ' | b')')) {
                return Err(Malformed);
            }
        }
    }

    fn item(&mut self) -> Result<Item<'a>, Malformed> {
        match self.peek().ok_or(Malformed)? {
            b'-' | b'0'..=b'9' => self.number(),
            b'"' => self.string(),
            b'?' => {
                self.eat(b'?');
                let value = self.eat(b'1');
                if !value {
                    self.expect(b'0')?;
                }
                Ok(Item::Boolean(value))
            }
            b':' => {
                self.eat(b':');
                self.span(|byte| byte.is_ascii_alphanumeric() || b"+/=".contains(&byte));
                self.expect(b':').map(|()| Item::Other)
            }
            b'@' => {
                self.eat(b'@');
                self.number().and_then(|date| {
                    matches!(date, Item::Integer(_)).then_some(Item::Other).ok_or(Malformed)
                })
            }
            b'%' => {
                self.eat(b'%');
                self.string().map(|_| Item::Other)
            }
            byte if byte.is_ascii_alphabetic() || byte == b'*' => Ok(Item::Token(
                self.span(|byte| super::is_token(&[byte]) || byte == b':' || byte == b'/'),
            )),
            _ => Err(Malformed),
        }
    }

    fn number(&mut self) -> Result<Item<'a>, Malformed> {
        let sign = if self.eat(b'-') { -1 } else { 1 };
        let whole = self.span(|byte| byte.is_ascii_digit());
        if self.eat(b'.') {
            let fraction = self.span(|byte| byte.is_ascii_digit());
            let fits = (1..=12).contains(&whole.len()) && (1..=3).contains(&fraction.len());
            return fits.then_some(Item::Other).ok_or(Malformed);
        }
        let number = super::digits(whole).filter(|_| whole.len() <= 15).ok_or(Malformed)?;
        i64::try_from(number).map(|number| Item::Integer(sign * number)).map_err(|_| Malformed)
    }

    fn string(&mut self) -> Result<Item<'a>, Malformed> {
        self.expect(b'"')?;
        let start = self.0;
        loop {
            match *self.0 {
                [b'"', ref rest @ ..] => {
                    let text = &start[..start.len() - self.0.len()];
                    self.0 = rest;
                    return Ok(Item::String(text));
                }
                [b'\\', b'"' | b'\\', ref rest @ ..] => self.0 = rest,
                [b' '..=b'~', ref rest @ ..] if self.0[0] != b'\\' => self.0 = rest,
                _ => return Err(Malformed),
            }
        }
    }
}
