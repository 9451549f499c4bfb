//! Decodes wire documents, with errors that name the field.

use std::fmt;

use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize, Deserializer};

use super::{v1, Manifest};

/// Why a document is rejected: what is wrong, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DecodeError {
    /// The field at fault, as `routes[3].rules[0].backends[1].weight`; "." is the whole.
    pub path: String,
    /// What is wrong there.
    pub message: String,
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.path == "." {
            f.write_str(&self.message)
        } else {
            write!(f, "{}: {}", self.path, self.message)
        }
    }
}

impl std::error::Error for DecodeError {}

/// Decode one document, strictly.
///
/// # Errors
/// The first field that does not fit the type.
pub fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, DecodeError> {
    let mut json = serde_json::Deserializer::from_slice(bytes);
    let value = serde_path_to_error::deserialize(&mut json).map_err(|error| DecodeError {
        path: error.path().to_string(),
        message: error.into_inner().to_string(),
    })?;
    json.end().map_err(|error| DecodeError { path: ".".into(), message: error.to_string() })?;
    Ok(value)
}

/// A `ghost.json` of any version.
#[derive(Clone, Debug, PartialEq)]
pub enum Config {
    /// Version 2: it names shard files.
    Manifest(Manifest),
    /// Version 1: it holds the whole configuration.
    V1(v1::Config),
}

/// Decode a `ghost.json` of any version.
///
/// # Errors
/// The version is missing or unknown, or a field does not fit that version.
pub fn decode_config(bytes: &[u8]) -> Result<Config, DecodeError> {
    #[derive(Deserialize)]
    struct Versioned {
        version: u32,
    }
    match decode::<Versioned>(bytes)?.version {
        1 => decode(bytes).map(Config::V1),
        2 => decode(bytes).map(Config::Manifest),
        other => Err(DecodeError {
            path: "version".into(),
            message: format!("version {other} is not known, expected 1 or 2"),
        }),
    }
}

pub(super) fn version_1<'de, D: Deserializer<'de>>(from: D) -> Result<u32, D::Error> {
    one_of(from, &[1])
}

pub(super) fn version_2<'de, D: Deserializer<'de>>(from: D) -> Result<u32, D::Error> {
    one_of(from, &[2])
}

pub(super) fn redirect_status<'de, D: Deserializer<'de>>(from: D) -> Result<u16, D::Error> {
    one_of(from, &[301, 302, 303, 307, 308])
}

fn one_of<'de, D, N>(from: D, allowed: &[N]) -> Result<N, D::Error>
where
    D: Deserializer<'de>,
    N: Deserialize<'de> + PartialEq + fmt::Debug,
{
    let value = N::deserialize(from)?;
    if allowed.contains(&value) {
        Ok(value)
    } else {
        Err(D::Error::custom(format!("{value:?} is not one of {allowed:?}")))
    }
}
