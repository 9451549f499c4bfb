//! Query parameters.
//!
//! Names and values are compared percent-decoded with "+" as a space. A "%" that is not
//! followed by two hexadecimal digits stands for itself. The first value of a repeated name
//! counts. A name without "=" has an empty value.

use std::borrow::Cow;
use std::collections::HashMap;

/// The first value of each parameter by its name, both decoded.
pub(crate) type Parameters<'q> = HashMap<Cow<'q, [u8]>, Cow<'q, [u8]>, foldhash::fast::RandomState>;

/// Index all parameters, for requests that many matches read.
pub(crate) fn parameters(query: &[u8]) -> Parameters<'_> {
    let mut parameters = Parameters::default();
    for pair in query.split(|&byte| byte == b'&').filter(|pair| !pair.is_empty()) {
        let (key, value) = split_pair(pair);
        parameters.entry(decode(key)).or_insert_with(|| decode(value));
    }
    parameters
}

/// The first value of parameter `name`, decoded; borrowed where nothing is encoded.
pub(crate) fn first_value<'q>(query: &'q [u8], name: &[u8]) -> Option<Cow<'q, [u8]>> {
    query.split(|&byte| byte == b'&').find_map(|pair| {
        let (key, value) = split_pair(pair);
        // An empty pair ("a=1&&b=2") is no parameter.
        (!pair.is_empty() && decoded_equals(key, name)).then(|| decode(value))
    })
}

pub(crate) fn split_pair(pair: &[u8]) -> (&[u8], &[u8]) {
    match pair.iter().position(|&byte| byte == b'=') {
        Some(at) => (&pair[..at], &pair[at + 1..]),
        None => (pair, &[]),
    }
}

fn is_plain(text: &[u8]) -> bool {
    !text.iter().any(|&byte| byte == b'%' || byte == b'+')
}

fn decoded_equals(text: &[u8], expected: &[u8]) -> bool {
    if is_plain(text) {
        text == expected
    } else {
        Decoded(text).eq(expected.iter().copied())
    }
}

pub(crate) fn decode(text: &[u8]) -> Cow<'_, [u8]> {
    if is_plain(text) {
        Cow::Borrowed(text)
    } else {
        Cow::Owned(Decoded(text).collect())
    }
}

/// The bytes that an encoded text stands for.
#[derive(Clone)]
pub(crate) struct Decoded<'a>(pub(crate) &'a [u8]);

impl Iterator for Decoded<'_> {
    type Item = u8;

    fn next(&mut self) -> Option<u8> {
        let (byte, length) = match *self.0 {
            [] => return None,
            [b'+', ..] => (b' ', 1),
            [b'%', high, low, ..] => match (hex(high), hex(low)) {
                (Some(high), Some(low)) => (high << 4 | low, 3),
                _ => (b'%', 1),
            },
            [byte, ..] => (byte, 1),
        };
        self.0 = &self.0[length..];
        Some(byte)
    }
}

fn hex(digit: u8) -> Option<u8> {
    match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        b'A'..=b'F' => Some(digit - b'A' + 10),
        _ => None,
    }
}
