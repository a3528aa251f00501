//! Job files made by chance: nothing panics, and every entry stands where it says.

#![allow(clippy::disallowed_methods, reason = "tests make and read what they like")]

use nexus_api::job_file::Format;

mod holds;

/// Parts that meet in all ways.
const PARTS: &[&[u8]] = &[
    b"\n",
    b"\n",
    b"\r\n",
    b" ",
    b",",
    b",",
    b"\"",
    b"'",
    b"\\",
    b"#",
    b"#@ ",
    b"#@ lines=2",
    b"#@ abc hold",
    b";;",
    b";;;",
    b"0",
    b"4-7",
    b"3-1",
    b"128",
    b"a.py",
    b"python",
    b"torchrun-8gpu",
    b"--x 1",
    b"0,a.py,env,",
    b"priority,script,",
    b"name;;out;;cmd;;;",
    b"{",
    b"}",
    b"[",
    b"]",
    b":",
    b"{\"command\": \"x\"}",
    b"{\"command\": \"x\", \"id\": \"abc\", \"state\": \"completed\"}",
    b"{\"command\": \"x\", \"id\": \"abc\", \"state\": \"held\", \"request\": {\"gpus\": 2}}",
    b"\"command\"",
    b"\"env\"",
    b"\\u0000",
    b"1e999",
    b"true",
    b"\0",
    b"\xff",
    b"\xc3\xa9",
    b"\xc2\xa0",
    b"\xef\xbb\xbf",
    b"\x0b",
    b"\xe2\x80\xa8",
];

/// SplitMix64.
struct Chance(u64);

impl Chance {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) % end as u64) as usize
    }
}

#[test]
fn every_entry_stands_where_it_says() {
    for seed in 0..20_000 {
        let mut chance = Chance(seed);
        let count = chance.below(24);
        let bytes: Vec<u8> = (0..count).flat_map(|_| PARTS[chance.below(PARTS.len())].to_vec()).collect();
        holds::for_any(&bytes, None);
        for format in Format::ALL {
            holds::for_any(&bytes, Some(format));
        }
    }
}
