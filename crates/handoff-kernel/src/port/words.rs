//! Lines as words: what makes two lines the same, alike, or different.

/// A line split for comparison.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Line {
    /// Words and single punctuation characters one behind the other, white space dropped: a file has millions of
    /// words, and one allocation for each took more time than comparing them.
    text: String,
    /// Where each word ends in it.
    ends: Vec<u32>,
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
        let length = text.trim().len();
        let (packed, ends) = (String::with_capacity(length), Vec::with_capacity(length / 2));
        let mut line = Self { text: packed, ends, bloom: 0, names: 0, mass: 0, key: 0 };
        for word in words_of(text) {
            let hash = hash(word);
            line.text.push_str(word);
            line.ends.push(line.text.len() as u32);
            line.mass += mass(word);
            line.key = key(line.key, hash);
            if is_name(word) {
                line.names += 1;
                line.bloom |= 1 << (hash % 64);
            }
        }
        line
    }

    /// The key of the line that `text` is.
    pub(super) fn key_of(text: &str) -> u64 {
        words_of(text).fold(0, |so_far, word| key(so_far, hash(word)))
    }

    /// The words and punctuation characters in their order.
    pub(super) fn words(&self) -> impl DoubleEndedIterator<Item = &str> + ExactSizeIterator + Clone {
        (0..self.ends.len()).map(|index| self.word(index))
    }

    fn word(&self, index: usize) -> &str {
        let start = index.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.text[start as usize..self.ends[index] as usize]
    }

    /// True for a line of white space.
    pub(super) fn is_blank(&self) -> bool {
        self.ends.is_empty()
    }

    /// True for a line that holds no name: braces, ends of comments, `);`.
    pub(super) fn is_bare(&self) -> bool {
        self.names == 0
    }

    /// How much the line says of a change: `#else` and `#endif` say no more than a brace.
    pub(super) fn says(&self) -> f64 {
        let closes = matches!(self.ends[..], [1, _]) && matches!(&*self.text, "#else" | "#endif");
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
        let telling = self.words().filter(|word| is_name(word) && !COMMON.contains(word)).count();
        match telling {
            0 => 0.2,
            n => (0.4 + 0.15 * n as f64).min(1.0),
        }
    }

    fn is_include(&self) -> bool {
        self.text.starts_with("#include") && self.ends.get(1) == Some(&8)
    }

    /// True for two rows of a table that differ in what a row is known by: a string, or a number such as that of
    /// a device.
    fn is_another_row(&self, other: &Self) -> bool {
        let is_row = |line: &Self| {
            let is_constant =
                |word: &str| word.bytes().all(|b| b.is_ascii_uppercase() || b == b'_' || b.is_ascii_digit());
            let (first, last) = (line.words().next(), line.words().next_back());
            first == Some("{") || first.is_some_and(is_constant) && last == Some(",")
        };
        let known_by = |line: &Self| -> Vec<String> {
            let number = |word: &str| word.len() >= 6 && word.starts_with("0x");
            let is_quote = |word: &str| word == "\"";
            let text = line
                .words()
                .position(is_quote)
                .map(|start| line.words().skip(start + 1).take_while(|word| !is_quote(word)).collect());
            let numbers = line.words().filter(|word| number(word)).map(str::to_owned);
            numbers.chain(text).collect()
        };
        is_row(self) && is_row(other) && known_by(self) != known_by(other)
    }

    /// False if the lines are certainly less alike than `least`: a quick look, for the many pairs that have nothing in common.
    ///
    /// A name whose bit the other line lacks has no partner there.
    pub(super) fn may_be(&self, other: &Self, least: f64) -> bool {
        let wanted = least * f64::from(self.mass + other.mass);
        let enough = |common: u32| f64::from(2 * common) >= wanted;
        let partnered = |one: &Self, other: &Self| one.mass - NAME * (one.bloom & !other.bloom).count_ones();
        // The lengths part most of them.
        enough(self.mass.min(other.mass)) && enough(partnered(self, other)) && enough(partnered(other, self))
    }

    /// How alike two lines are: 1 for the same words, 0 for nothing in common.
    pub(super) fn similarity(&self, other: &Self) -> f64 {
        if self.key == other.key && self.text == other.text && self.ends == other.ends {
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
        2.0 * heaviest_common(self, other, weigh) / total
    }
}

/// What a name weighs when lines are compared, and any other word, in tenths.
const NAME: u32 = 10;
const SIGN: u32 = 3;

fn mass(word: &str) -> u32 {
    if is_name(word) { NAME } else { SIGN }
}

/// The weight of the heaviest common subsequence.
fn heaviest_common(a: &Line, b: &Line, weigh: impl Fn(&str) -> f64) -> f64 {
    let b: Vec<&str> = b.words().collect();
    let mut row = vec![0.0f64; b.len() + 1];
    for x in a.words() {
        let mut diagonal = 0.0;
        for (j, y) in b.iter().enumerate() {
            let above = row[j + 1];
            row[j + 1] = if x == *y { diagonal + weigh(x) } else { above.max(row[j]) };
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

/// The pieces of a text that are no white space.
fn words_of(text: &str) -> impl Iterator<Item = &str> {
    split(text).filter(|word| !word.starts_with(char::is_whitespace))
}

/// The key of a line with one word more, whose hash is `word`.
fn key(so_far: u64, word: u64) -> u64 {
    so_far.rotate_left(7).wrapping_mul(31) ^ word
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
