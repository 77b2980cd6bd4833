//! Lines as words: what makes two lines the same, alike, or different.

/// A line split for comparison.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Line {
    /// Words and single punctuation characters, white space dropped.
    pub words: Vec<Box<str>>,
    /// One bit for each word, to see quickly that two lines have little in common.
    bloom: u64,
    /// How many words are identifiers or numbers.
    names: usize,
    /// What all words weigh when lines are compared, in tenths.
    mass: u32,
    /// A hash of the words, equal for lines that differ in white space only.
    pub key: u64,
}

impl Line {
    /// Splits `text`.
    pub(super) fn new(text: &str) -> Self {
        let words: Vec<Box<str>> =
            split(text).filter(|word| !word.trim().is_empty()).map(Box::from).collect();
        let bloom =
            words.iter().filter(|word| is_name(word)).fold(0, |bits, word| bits | 1 << (hash(word) % 64));
        let names = words.iter().filter(|word| is_name(word)).count();
        let mass = words.iter().map(|word| mass(word)).sum();
        let key = words.iter().fold(0, |key: u64, word| key.rotate_left(7).wrapping_mul(31) ^ hash(word));
        Self { words, bloom, names, mass, key }
    }

    /// True for a line of white space.
    pub(super) fn is_blank(&self) -> bool {
        self.words.is_empty()
    }

    /// True for a line that holds no name: braces, ends of comments, `);`.
    pub(super) fn is_bare(&self) -> bool {
        self.names == 0
    }

    /// How much the line says of a change: `#else` and `#endif` say no more than a brace.
    pub(super) fn says(&self) -> f64 {
        let closes =
            matches!(&self.words[..], [hash, word] if &**hash == "#" && matches!(&**word, "else" | "endif"));
        if closes { 0.1 } else { self.weight() }
    }

    /// How much the line says about where it is, from 0 to 1, before its rarity is counted.
    ///
    /// `break;` and `return 0;` stand everywhere in a kernel, a call with four arguments does not.
    pub(super) fn weight(&self) -> f64 {
        const COMMON: [&str; 12] =
            ["break", "return", "else", "int", "i", "goto", "out", "continue", "default", "0", "if", "err"];
        if self.is_blank() {
            return 0.03;
        }
        if self.is_bare() {
            return 0.1;
        }
        let telling = self.words.iter().filter(|word| is_name(word) && !COMMON.contains(&&***word)).count();
        match telling {
            0 => 0.2,
            n => (0.4 + 0.15 * n as f64).min(1.0),
        }
    }

    fn is_include(&self) -> bool {
        matches!(&self.words[..], [hash, word, ..] if &**hash == "#" && &**word == "include")
    }

    /// True for two rows of a table that differ in what a row is known by: a string, or a number such as that of
    /// a device.
    fn is_another_row(&self, other: &Self) -> bool {
        let is_row = |line: &Self| {
            let name = line.words.first().is_some_and(|word| {
                word.bytes().all(|b| b.is_ascii_uppercase() || b == b'_' || b.is_ascii_digit())
            });
            line.words.first().is_some_and(|word| &**word == "{")
                || name && line.words.last().is_some_and(|word| &**word == ",")
        };
        let known_by = |line: &Self| -> Vec<String> {
            let number = |word: &str| word.len() >= 6 && word.starts_with("0x");
            let text = line.words.iter().position(|word| &**word == "\"").map(|start| {
                line.words[start + 1..]
                    .iter()
                    .take_while(|word| &***word != "\"")
                    .map(|word| &**word)
                    .collect::<Vec<_>>()
                    .concat()
            });
            let numbers = line.words.iter().filter(|word| number(word)).map(ToString::to_string);
            numbers.chain(text).collect()
        };
        is_row(self) && is_row(other) && known_by(self) != known_by(other)
    }

    /// False if the lines are certainly less alike than `least`: a quick look, for the many pairs that have nothing in common.
    ///
    /// A name whose bit the other line lacks has no partner there.
    pub(super) fn may_be(&self, other: &Self, least: f64) -> bool {
        let partnered = |one: &Self, other: &Self| one.mass - NAME * (one.bloom & !other.bloom).count_ones();
        let common = partnered(self, other).min(partnered(other, self));
        f64::from(2 * common) >= least * f64::from(self.mass + other.mass)
    }

    /// How alike two lines are: 1 for the same words, 0 for nothing in common.
    pub(super) fn similarity(&self, other: &Self) -> f64 {
        if self.key == other.key && self.words == other.words {
            return 1.0;
        }
        // Another header is another line, however much of the directive is the same.
        if self.names == 0 || other.names == 0 || self.is_include() || other.is_include() {
            return 0.0;
        }
        if self.is_another_row(other) {
            return 0.0;
        }
        let (common, all) =
            ((self.bloom & other.bloom).count_ones(), (self.bloom | other.bloom).count_ones());
        if common * 3 < all {
            return 0.0;
        }
        let weigh = |word: &str| f64::from(mass(word)) / 10.0;
        let total = f64::from(self.mass + other.mass) / 10.0;
        2.0 * heaviest_common(&self.words, &other.words, weigh) / total
    }
}

/// What a name weighs when lines are compared, and any other word, in tenths.
const NAME: u32 = 10;
const SIGN: u32 = 3;

fn mass(word: &str) -> u32 {
    if is_name(word) { NAME } else { SIGN }
}

/// The weight of the heaviest common subsequence.
fn heaviest_common(a: &[Box<str>], b: &[Box<str>], weigh: impl Fn(&str) -> f64) -> f64 {
    let mut row = vec![0.0f64; b.len() + 1];
    for x in a {
        let mut diagonal = 0.0;
        for (j, y) in b.iter().enumerate() {
            let above = row[j + 1];
            row[j + 1] = if x == y { diagonal + weigh(x) } else { above.max(row[j]) };
            diagonal = above;
        }
    }
    row[b.len()]
}

/// Splits text into identifiers, numbers, runs of white space, and single other characters.
///
/// Nothing is dropped: the pieces put together are the text.
pub(super) fn split(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let first = rest.chars().next()?;
        let class = class(first);
        let end = match class {
            Class::Other => first.len_utf8(),
            _ => rest.find(|c| self::class(c) != class).unwrap_or(rest.len()),
        };
        let (word, after) = rest.split_at(end);
        rest = after;
        Some(word)
    })
}

#[derive(PartialEq, Eq)]
enum Class {
    Name,
    Space,
    Other,
}

fn class(c: char) -> Class {
    if c.is_alphanumeric() || c == '_' {
        Class::Name
    } else if c.is_whitespace() && c != '\n' {
        Class::Space
    } else {
        Class::Other
    }
}

/// True for an identifier or a number.
pub(super) fn is_name(word: &str) -> bool {
    word.chars().next().is_some_and(|c| c.is_alphanumeric() || c == '_')
}

/// True for an identifier of C.
pub(super) fn is_identifier(word: &str) -> bool {
    is_name(word) && !word.starts_with(|c: char| c.is_ascii_digit())
}

/// FNV-1a: small, and the same on every machine.
fn hash(word: &str) -> u64 {
    word.bytes()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pieces_are_the_text() {
        let text = "\tif (tcp_sk(sk)->flags & ~0x1)\n ä";
        assert_eq!(split(text).collect::<String>(), text);
        assert_eq!(split("a->b  +1").collect::<Vec<_>>(), ["a", "-", ">", "b", "  ", "+", "1"]);
    }

    #[test]
    fn the_quick_look_leaves_out_none_that_is_alike() {
        let lines = "a = b;|a = c;|call(a, b, c)|call(a, b)|}||return a;|if (a && b) {|\tif (a) {|x y z w|x y z|w z y x"
            .split('|')
            .map(Line::new)
            .collect::<Vec<_>>();
        for (one, other) in lines.iter().flat_map(|one| lines.iter().map(move |other| (one, other))) {
            for least in [0.1, 0.4, 0.6, 0.8, 1.0] {
                assert!(one.similarity(other) < least || one.may_be(other, least), "{one:?} {other:?}");
            }
        }
        assert!(!lines[2].may_be(&lines[9], 0.6));
    }

    #[test]
    fn white_space_does_not_matter_and_names_matter_most() {
        let a = Line::new("\ttcp_push(sk, flags, mss_now);");
        assert!((a.similarity(&Line::new("tcp_push( sk,flags, mss_now );")) - 1.0).abs() < 1e-9);
        assert!(a.similarity(&Line::new("\ttcp_push(sk, flags & ~MSG_MORE, mss_now);")) > 0.7);
        assert!(a.similarity(&Line::new("\treturn (x, y, z);")) < 0.3);
        assert!(Line::new("}").weight() < Line::new("return 0;").weight());
        assert!(Line::new("return 0;").weight() < a.weight());
    }
}
