//! The Huffman code of header strings (RFC 7541, appendix B).
//!
//! The code is canonical: among symbols of one length, ordered by value, codes count up, and the codes of the next
//! length go on from there. So the lengths say all.

/// Bits of the code of each octet, and of the end of a string.
const LENGTHS: [u8; 257] = [
    13, 23, 28, 28, 28, 28, 28, 28, 28, 24, 30, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 30, 28,
    28, 28, 28, 28, 28, 28, 28, 28, 6, 10, 10, 12, 13, 6, 8, 11, 10, 10, 8, 11, 8, 6, 6, 6, 5, 5,
    5, 6, 6, 6, 6, 6, 6, 6, 7, 8, 15, 6, 12, 10, 13, 6, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7,
    7, 7, 7, 7, 7, 7, 7, 7, 8, 7, 8, 13, 19, 13, 14, 6, 15, 5, 6, 5, 6, 5, 6, 6, 6, 5, 7, 7, 6, 6,
    6, 5, 6, 7, 6, 5, 5, 6, 7, 7, 7, 7, 7, 15, 11, 14, 13, 28, 20, 22, 20, 20, 22, 22, 22, 23, 22,
    23, 23, 23, 23, 23, 24, 23, 24, 24, 22, 23, 24, 23, 23, 23, 23, 21, 22, 23, 22, 23, 23, 24, 22,
    21, 20, 22, 22, 23, 23, 21, 23, 22, 22, 24, 21, 22, 23, 23, 21, 21, 22, 21, 23, 22, 23, 23, 20,
    22, 22, 22, 23, 22, 22, 23, 26, 26, 20, 19, 22, 23, 22, 25, 26, 26, 26, 27, 27, 26, 24, 25, 19,
    21, 26, 27, 27, 26, 27, 24, 21, 21, 26, 26, 28, 27, 27, 27, 20, 24, 20, 21, 22, 21, 21, 23, 22,
    22, 25, 25, 24, 24, 26, 23, 26, 27, 26, 26, 27, 27, 27, 27, 27, 28, 27, 27, 27, 27, 27, 26, 30,
];

/// The symbol that ends a string, which must not be in one.
const END: u16 = 256;
const LONGEST: usize = 30;

/// Codes of one length.
#[derive(Clone, Copy)]
struct Range {
    bits: u32,
    /// The first 32-bit value, filled up from the left, that is beyond these codes and all shorter ones.
    limit: u64,
    /// The first code.
    first: u32,
    /// Where its symbol stands in `SYMBOLS`.
    at: usize,
}

/// How many lengths there are.
const KINDS: usize = 21;

const fn tables() -> ([Range; KINDS], [u16; 257]) {
    let mut symbols = [0; 257];
    let mut ranges = [Range {
        bits: 0,
        limit: 0,
        first: 0,
        at: 0,
    }; KINDS];
    let (mut at, mut kind, mut code, mut bits) = (0, 0, 0u64, 1);
    while bits <= LONGEST {
        let (first, begin) = (code, at);
        let mut symbol = 0;
        while symbol < LENGTHS.len() {
            if LENGTHS[symbol] as usize == bits {
                symbols[at] = symbol as u16;
                at += 1;
                code += 1;
            }
            symbol += 1;
        }
        if at > begin {
            ranges[kind] = Range {
                bits: bits as u32,
                limit: code << (32 - bits),
                first: first as u32,
                at: begin,
            };
            kind += 1;
        }
        code <<= 1;
        bits += 1;
    }
    assert!(kind == KINDS && at == symbols.len());
    (ranges, symbols)
}

static TABLES: ([Range; KINDS], [u16; 257]) = tables();

/// Appends what `coded` stands for; false if it is not in this code.
pub(super) fn decode(coded: &[u8], out: &mut Vec<u8>) -> bool {
    let (ranges, symbols) = &TABLES;
    let mut input = coded.iter();
    // The next bits, at the left end of 64.
    let (mut window, mut held) = (0u64, 0u32);
    loop {
        while held <= 56
            && let Some(octet) = input.next()
        {
            window |= u64::from(*octet) << (56 - held);
            held += 8;
        }
        if held == 0 {
            return true;
        }
        let next = window >> 32;
        let range = ranges.iter().find(|r| next < r.limit);
        let Some(range) = range.filter(|r| r.bits <= held) else {
            // What is left fills up the last octet, and is the beginning of the end's code: ones.
            return held < 8 && window == !0 << (64 - held);
        };
        let code = (next >> (32 - range.bits)) as u32;
        let at = range.at + (code - range.first) as usize;
        match symbols.get(at) {
            Some(symbol) if *symbol != END => out.push(*symbol as u8),
            _ => return false,
        }
        window <<= range.bits;
        held -= range.bits;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Encodes, from the same tables.
    fn encoded(text: &[u8]) -> Vec<u8> {
        let (ranges, symbols) = &TABLES;
        let mut bits = Vec::new();
        for octet in text {
            let at = symbols.iter().position(|s| *s == u16::from(*octet));
            let at = at.unwrap();
            let range = ranges.iter().rfind(|r| r.at <= at).unwrap();
            let code = range.first + (at - range.at) as u32;
            bits.extend((0..range.bits).rev().map(|b| code >> b & 1 == 1));
        }
        let octet = |bits: &[bool]| {
            let bit = |at| bits.get(at).copied().unwrap_or(true);
            (0..8).fold(0u8, |octet, at| octet << 1 | u8::from(bit(at)))
        };
        bits.chunks(8).map(octet).collect()
    }

    fn decoded(coded: &[u8]) -> Option<Vec<u8>> {
        let mut out = Vec::new();
        decode(coded, &mut out).then_some(out)
    }

    #[test]
    fn the_examples_of_the_specification_are_read() {
        // RFC 7541, C.4.1 and C.4.2.
        let host = [
            0xf1, 0xe3, 0xc2, 0xe5, 0xf2, 0x3a, 0x6b, 0xa0, 0xab, 0x90, 0xf4, 0xff,
        ];
        assert_eq!(decoded(&host).unwrap(), b"www.example.com");
        assert_eq!(
            decoded(&[0xa8, 0xeb, 0x10, 0x64, 0x9c, 0xbf]).unwrap(),
            b"no-cache"
        );
    }

    #[test]
    fn bad_padding_and_the_end_are_refused() {
        // `0`, then zeros; `0`, then a whole octet of ones; the end's code.
        assert_eq!(decoded(&[0b0000_0000]), None);
        assert_eq!(decoded(&[0b0000_0111, 0xff]), None);
        assert_eq!(decoded(&[0xff, 0xff, 0xff, 0xff]), None);
        assert_eq!(decoded(&[]), Some(vec![]));
    }

    proptest! {
        #[test]
        fn every_text_is_read_back(text in prop::collection::vec(any::<u8>(), 0..200)) {
            prop_assert_eq!(decoded(&encoded(&text)), Some(text));
        }

        #[test]
        fn nothing_panics(coded in prop::collection::vec(any::<u8>(), 0..100)) {
            let _ = decoded(&coded);
        }
    }
}
