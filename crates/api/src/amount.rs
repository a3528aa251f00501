//! How much of GPUs and of their memory is asked for, as people write it and as JSON has it.

use std::fmt;

use nexus_core::request::MAX_GPUS;
use serde::de::{Deserializer, Error as _};
use serde::{Deserialize, Serialize, Serializer};
use utoipa::openapi::schema::{Object, ObjectBuilder, OneOfBuilder, Type};
use utoipa::openapi::{RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};

/// Whole GPUs, or a part of one, in thousandths: nothing is lost by counting.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct GpuAmount(u32);

/// A whole GPU.
const WHOLE: u32 = 1000;

/// Why a text is no amount of GPUs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoAmount {
    NoNumber,
    /// More than any machine has.
    TooMany,
    /// Over one and not whole; so many would hold it.
    Uneven {
        rounded_up: u16,
    },
    /// Finer than a thousandth.
    TooFine,
}

impl GpuAmount {
    pub const ONE: GpuAmount = GpuAmount(WHOLE);
    pub const NONE: GpuAmount = GpuAmount(0);

    pub fn whole(count: u16) -> GpuAmount {
        GpuAmount(u32::from(count) * WHOLE)
    }

    /// Thousandths of one GPU; none from a whole one on.
    pub fn part(milli: u16) -> Option<GpuAmount> {
        (u32::from(milli) < WHOLE).then_some(GpuAmount(milli.into()))
    }

    /// GPUs that it touches: 1 for a part of one.
    pub fn count(self) -> u16 {
        self.0.div_ceil(WHOLE) as u16
    }

    /// Thousandths, where it is a part of one GPU.
    pub fn milli(self) -> Option<u16> {
        (!self.0.is_multiple_of(WHOLE)).then_some(self.0 as u16)
    }

    pub fn is_none(self) -> bool {
        self.0 == 0
    }

    pub fn parse(text: &str) -> Result<GpuAmount, NoAmount> {
        let (whole, part) = text.split_once('.').unwrap_or((text, ""));
        let digits = |text: &str| text.chars().all(|c| c.is_ascii_digit());
        if whole.is_empty() && part.is_empty() || !digits(whole) || !digits(part) || text.ends_with('.') {
            return Err(NoAmount::NoNumber);
        }
        let part = part.trim_end_matches('0');
        let count: u32 = if whole.is_empty() { 0 } else { whole.parse().map_err(|_| NoAmount::TooMany)? };
        if count > u32::from(MAX_GPUS) || count == u32::from(MAX_GPUS) && !part.is_empty() {
            return Err(NoAmount::TooMany);
        }
        if count > 0 && !part.is_empty() {
            return Err(NoAmount::Uneven { rounded_up: count as u16 + 1 });
        }
        if part.len() > 3 {
            return Err(NoAmount::TooFine);
        }
        let milli: u32 = format!("{part:0<3}").parse().map_err(|_| NoAmount::NoNumber)?;
        Ok(GpuAmount(count * WHOLE + milli))
    }

    /// The same from a number in a file.
    pub fn of_number(number: f64) -> Result<GpuAmount, NoAmount> {
        match number.is_finite() && number >= 0.0 {
            true => GpuAmount::parse(&number.to_string()),
            false => Err(NoAmount::NoNumber),
        }
    }
}

impl fmt::Display for NoAmount {
    fn fmt(&self, out: &mut fmt::Formatter) -> fmt::Result {
        match self {
            NoAmount::NoNumber => out.write_str("a number of GPUs, or a part of one, as in 2 or 0.5"),
            NoAmount::TooMany => write!(out, "at most {MAX_GPUS} GPUs"),
            NoAmount::Uneven { rounded_up } => write!(out, "whole GPUs from one on: {rounded_up}"),
            NoAmount::TooFine => out.write_str("parts of a GPU in thousandths at the finest, as in 0.125"),
        }
    }
}

/// `2`, `0.5`, `0`
impl fmt::Display for GpuAmount {
    fn fmt(&self, out: &mut fmt::Formatter) -> fmt::Result {
        match self.milli() {
            None => write!(out, "{}", self.0 / WHOLE),
            Some(milli) => write!(out, "0.{}", format!("{milli:03}").trim_end_matches('0')),
        }
    }
}

/// A number: `2`, `0.5`.
impl Serialize for GpuAmount {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match self.milli() {
            None => to.serialize_u32(self.0 / WHOLE),
            Some(milli) => to.serialize_f64(f64::from(milli) / f64::from(WHOLE)),
        }
    }
}

impl<'de> Deserialize<'de> for GpuAmount {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<GpuAmount, D::Error> {
        let number = f64::deserialize(from)?;
        GpuAmount::of_number(number).map_err(|want| D::Error::custom(format!("{number} GPUs: {want}")))
    }
}

/// A number from 0 to [`MAX_GPUS`]: whole from 1 on, below it in thousandths.
impl PartialSchema for GpuAmount {
    fn schema() -> RefOr<Schema> {
        let whole = integer(u32::from(MAX_GPUS));
        let part = ObjectBuilder::new()
            .schema_type(Type::Number)
            .exclusive_minimum(Some(0.0))
            .exclusive_maximum(Some(1.0))
            .description(Some("A part of one GPU, in thousandths at the finest."));
        let said = "How many GPUs, or which part of one.";
        OneOfBuilder::new().item(whole).item(part).description(Some(said)).into()
    }
}

impl ToSchema for GpuAmount {}

fn integer(most: u32) -> Object {
    ObjectBuilder::new().schema_type(Type::Integer).minimum(Some(0)).maximum(Some(most)).build()
}

/// Memory of each GPU: a number of MiB, or `"auto"`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Vram {
    Mib(u32),
    /// What earlier runs of the same command reached; a GPU alone as long as there was none.
    Auto,
}

const AUTO: &str = "auto";

impl Serialize for Vram {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match self {
            Vram::Mib(mib) => to.serialize_u32(*mib),
            Vram::Auto => to.serialize_str(AUTO),
        }
    }
}

impl<'de> Deserialize<'de> for Vram {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Vram, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Either {
            Mib(u32),
            Word(String),
        }
        match Either::deserialize(from)? {
            Either::Mib(mib) => Ok(Vram::Mib(mib)),
            Either::Word(word) if word == AUTO => Ok(Vram::Auto),
            Either::Word(word) => Err(D::Error::custom(format!("{word:?}: a number of MiB, or \"auto\""))),
        }
    }
}

impl PartialSchema for Vram {
    fn schema() -> RefOr<Schema> {
        let word = ObjectBuilder::new().schema_type(Type::String).enum_values(Some([AUTO]));
        let said = "Memory of each GPU: a number of MiB, or `auto` for what earlier runs of the same command reached.";
        OneOfBuilder::new().item(integer(u32::MAX)).item(word).description(Some(said)).into()
    }
}

impl ToSchema for Vram {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_whole_or_a_part_of_one() {
        for (text, shown, count, milli) in [
            ("0", "0", 0, None),
            ("1", "1", 1, None),
            ("0.5", "0.5", 1, Some(500)),
            (".25", "0.25", 1, Some(250)),
            ("0.125", "0.125", 1, Some(125)),
            ("0.001", "0.001", 1, Some(1)),
            ("1.0", "1", 1, None),
            ("2.000", "2", 2, None),
            ("0.0", "0", 0, None),
            ("128", "128", 128, None),
        ] {
            let amount = GpuAmount::parse(text).unwrap_or_else(|no| panic!("{text}: {no}"));
            assert_eq!((amount.to_string().as_str(), amount.count(), amount.milli()), (shown, count, milli), "{text}");
            let json = serde_json::to_string(&amount).unwrap();
            assert_eq!((json.as_str(), serde_json::from_str(&json).ok()), (shown, Some(amount)));
        }
        for (text, no) in [
            ("", NoAmount::NoNumber),
            (".", NoAmount::NoNumber),
            ("1.", NoAmount::NoNumber),
            ("-1", NoAmount::NoNumber),
            ("+1", NoAmount::NoNumber),
            ("1e3", NoAmount::NoNumber),
            ("0,1", NoAmount::NoNumber),
            ("NaN", NoAmount::NoNumber),
            ("1.5", NoAmount::Uneven { rounded_up: 2 }),
            ("0.3333", NoAmount::TooFine),
            ("129", NoAmount::TooMany),
            ("128.5", NoAmount::TooMany),
            ("99999999999", NoAmount::TooMany),
        ] {
            assert_eq!(GpuAmount::parse(text), Err(no), "{text}");
        }
        assert!(serde_json::from_str::<GpuAmount>("-1").is_err());
        assert!(serde_json::from_str::<GpuAmount>("1.5").is_err());
    }

    #[test]
    fn memory_is_a_number_or_auto() {
        for (vram, json) in [(Vram::Mib(8192), "8192"), (Vram::Auto, "\"auto\"")] {
            assert_eq!(serde_json::to_string(&vram).unwrap(), json);
            assert_eq!(serde_json::from_str::<Vram>(json).unwrap(), vram);
        }
        assert!(serde_json::from_str::<Vram>("\"8G\"").is_err());
    }
}
