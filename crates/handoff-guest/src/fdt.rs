//! Reads and writes flattened device trees, as the Devicetree Specification, release 0.4, chapter 5
//! describes them.

use super::GuestError;

const MAGIC: u32 = 0xd00d_feed;
const VERSION: u32 = 17;
const OLDEST_COMPATIBLE: u32 = 16;
const BEGIN_NODE: u32 = 1;
const END_NODE: u32 = 2;
const PROPERTY: u32 = 3;
const NOTHING: u32 = 4;
const END: u32 = 9;
const HEADER: usize = 40;
/// Deeper nesting than this is no device tree but an attack on the stack.
const DEEPEST: usize = 64;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Tree {
    /// The node without a name.
    pub(crate) root: Node,
    boot_cpu: u32,
    /// Address and size of memory that must not be used.
    reserved: Vec<(u64, u64)>,
}

/// A node with its properties and the nodes below it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Node {
    pub(crate) name: String,
    pub(crate) properties: Vec<(String, Vec<u8>)>,
    pub(crate) children: Vec<Node>,
}

impl Node {
    pub(crate) fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), ..Self::default() }
    }

    pub(crate) fn property(&self, name: &str) -> Option<&[u8]> {
        self.properties.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_slice())
    }

    /// A property of one 32-bit number.
    pub(crate) fn number(&self, name: &str) -> Option<u32> {
        Some(u32::from_be_bytes(self.property(name)?.try_into().ok()?))
    }

    /// Sets a property, in place if it was there.
    pub(crate) fn set(&mut self, name: &str, value: Vec<u8>) {
        match self.properties.iter_mut().find(|(key, _)| key == name) {
            Some((_, old)) => *old = value,
            None => self.properties.push((name.to_owned(), value)),
        }
    }

    pub(crate) fn child_mut(&mut self, name: &str) -> Option<&mut Node> {
        self.children.iter_mut().find(|child| child.name == name)
    }
}

impl Tree {
    /// Reads a tree from a "blob".
    pub(crate) fn parse(blob: &[u8]) -> Result<Self, GuestError> {
        let header = |index: usize| number_at(blob, 4 * index).ok_or_else(|| bad("it ends in its header"));
        if header(0)? != MAGIC {
            return Err(bad("it does not begin as one"));
        }
        if header(6)? > VERSION {
            return Err(bad("its version is newer than the specification's"));
        }
        let part = |offset: u32, size: u32, what: &str| {
            let start = offset as usize;
            blob.get(start..start.saturating_add(size as usize))
                .ok_or_else(|| bad(&format!("its {what} lies outside of it")))
        };
        let strings = part(header(3)?, header(8)?, "table of names")?;
        let structure = part(header(2)?, header(9)?, "structure")?;
        let reserved = read_reserved(blob, header(4)? as usize)?;
        let mut reader = Reader { structure, strings, at: 0 };
        loop {
            match reader.token()? {
                NOTHING => {}
                BEGIN_NODE => break,
                _ => return Err(bad("its structure does not begin with a node")),
            }
        }
        let root = reader.node(0)?;
        Ok(Self { root, boot_cpu: header(7)?, reserved })
    }

    /// The blob of this tree.
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let mut writer = Writer::default();
        writer.node(&self.root);
        writer.word(END);
        let reserved = HEADER.next_multiple_of(8);
        let structure = reserved + 16 * (self.reserved.len() + 1);
        let strings = structure + writer.structure.len();
        let total = strings + writer.strings.len();
        let mut blob = Vec::with_capacity(total);
        let sizes = [writer.strings.len(), writer.structure.len()];
        let words = [total, structure, strings, reserved];
        // A tree read from a blob and edited a little stays far below 4 GiB.
        let short = |size: &usize| u32::try_from(*size).unwrap_or(u32::MAX);
        let header = std::iter::once(MAGIC)
            .chain(words.iter().map(short))
            .chain([VERSION, OLDEST_COMPATIBLE, self.boot_cpu])
            .chain(sizes.iter().map(short));
        for word in header {
            blob.extend(word.to_be_bytes());
        }
        blob.resize(reserved, 0);
        for (address, size) in self.reserved.iter().chain([&(0, 0)]) {
            blob.extend(address.to_be_bytes());
            blob.extend(size.to_be_bytes());
        }
        blob.extend(writer.structure);
        blob.extend(writer.strings);
        blob
    }
}

fn bad(why: &str) -> GuestError {
    GuestError::DeviceTree(why.to_owned())
}

fn number_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_be_bytes(bytes.get(at..at.checked_add(4)?)?.try_into().ok()?))
}

fn read_reserved(blob: &[u8], mut at: usize) -> Result<Vec<(u64, u64)>, GuestError> {
    let mut reserved = Vec::new();
    loop {
        let mut words = [0u64; 2];
        for word in &mut words {
            let bytes = blob
                .get(at..at.saturating_add(8))
                .and_then(|bytes| bytes.try_into().ok())
                .ok_or_else(|| bad("its list of reserved memory does not end"))?;
            *word = u64::from_be_bytes(bytes);
            at += 8;
        }
        if words == [0, 0] {
            return Ok(reserved);
        }
        reserved.push((words[0], words[1]));
    }
}

struct Reader<'a> {
    structure: &'a [u8],
    strings: &'a [u8],
    at: usize,
}

impl Reader<'_> {
    fn token(&mut self) -> Result<u32, GuestError> {
        let word = number_at(self.structure, self.at).ok_or_else(|| bad("its structure ends too early"))?;
        self.at += 4;
        Ok(word)
    }

    fn bytes(&mut self, size: usize) -> Result<&[u8], GuestError> {
        let end = self.at.saturating_add(size);
        let bytes = self.structure.get(self.at..end).ok_or_else(|| bad("a value goes past its end"))?;
        self.at = end.next_multiple_of(4);
        Ok(bytes)
    }

    /// Reads a node whose `BEGIN_NODE` was read already.
    fn node(&mut self, depth: usize) -> Result<Node, GuestError> {
        if depth > DEEPEST {
            return Err(bad("its nodes are nested too deeply"));
        }
        let name = text(self.structure, self.at)?;
        self.at = (self.at + name.len() + 1).next_multiple_of(4);
        let mut node = Node::new(name);
        loop {
            match self.token()? {
                NOTHING => {}
                END_NODE => return Ok(node),
                BEGIN_NODE => {
                    let child = self.node(depth + 1)?;
                    node.children.push(child);
                }
                PROPERTY => {
                    let size = self.token()? as usize;
                    let name = self.token()? as usize;
                    let name = text(self.strings, name)?;
                    let value = self.bytes(size)?.to_vec();
                    node.properties.push((name, value));
                }
                _ => return Err(bad("its structure has an unknown mark")),
            }
        }
    }
}

/// The text that ends with the first zero byte.
fn text(bytes: &[u8], at: usize) -> Result<String, GuestError> {
    let rest = bytes.get(at..).ok_or_else(|| bad("a name lies outside of it"))?;
    let end = rest.iter().position(|byte| *byte == 0).ok_or_else(|| bad("a name does not end"))?;
    String::from_utf8(rest[..end].to_vec()).map_err(|_| bad("a name is not text"))
}

#[derive(Default)]
struct Writer {
    structure: Vec<u8>,
    strings: Vec<u8>,
    offsets: std::collections::BTreeMap<String, u32>,
}

impl Writer {
    fn word(&mut self, word: u32) {
        self.structure.extend(word.to_be_bytes());
    }

    fn bytes(&mut self, bytes: &[u8]) {
        self.structure.extend(bytes);
        self.structure.resize(self.structure.len().next_multiple_of(4), 0);
    }

    fn node(&mut self, node: &Node) {
        self.word(BEGIN_NODE);
        let mut name = node.name.clone().into_bytes();
        name.push(0);
        self.bytes(&name);
        for (name, value) in &node.properties {
            let offset = self.offset(name);
            self.word(PROPERTY);
            self.word(u32::try_from(value.len()).unwrap_or(u32::MAX));
            self.word(offset);
            self.bytes(value);
        }
        for child in &node.children {
            self.node(child);
        }
        self.word(END_NODE);
    }

    fn offset(&mut self, name: &str) -> u32 {
        if let Some(offset) = self.offsets.get(name) {
            return *offset;
        }
        let offset = u32::try_from(self.strings.len()).unwrap_or(u32::MAX);
        self.strings.extend(name.as_bytes());
        self.strings.push(0);
        self.offsets.insert(name.to_owned(), offset);
        offset
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use proptest::prelude::*;

    pub(crate) fn tree(root: Node) -> Tree {
        Tree { root, boot_cpu: 0, reserved: vec![(0x4000_0000, 0x1000)] }
    }

    fn sample() -> Tree {
        let mut cpus = Node::new("cpus");
        cpus.set("#address-cells", 1u32.to_be_bytes().to_vec());
        let mut cpu = Node::new("cpu@0");
        cpu.set("reg", 0u32.to_be_bytes().to_vec());
        cpu.set("compatible", b"arm,cortex-a57\0".to_vec());
        cpu.set("empty", Vec::new());
        cpus.children.push(cpu);
        let mut root = Node::new("");
        root.children.push(cpus);
        tree(root)
    }

    #[test]
    fn a_written_tree_reads_back() {
        let tree = sample();
        assert_eq!(Tree::parse(&tree.to_bytes()).expect("a good tree"), tree);
    }

    #[test]
    fn setting_replaces_or_adds() {
        let mut node = Node::new("n");
        node.set("a", vec![0, 0, 0, 1]);
        node.set("a", vec![0, 0, 0, 2]);
        assert_eq!((node.number("a"), node.properties.len()), (Some(2), 1));
        assert_eq!(node.number("b"), None);
    }

    #[test]
    fn damaged_trees_are_refused_with_the_reason() {
        let good = sample().to_bytes();
        let with = |at: usize, word: u32| {
            let mut bytes = good.clone();
            bytes[at..at + 4].copy_from_slice(&word.to_be_bytes());
            Tree::parse(&bytes).expect_err("damaged").to_string()
        };
        assert!(with(0, 1).contains("begin"));
        assert!(with(8, u32::MAX).contains("structure lies outside"));
        assert!(with(12, u32::MAX).contains("names lies outside"));
        assert!(with(16, u32::MAX).contains("reserved"));
        assert!(with(24, 99).contains("newer"));
        assert!(Tree::parse(&[]).is_err());
    }

    #[test]
    fn a_tower_of_nodes_does_not_exhaust_the_stack() {
        let mut node = Node::new("deep");
        for _ in 0..DEEPEST + 1 {
            let mut above = Node::new("n");
            above.children.push(node);
            node = above;
        }
        let error = Tree::parse(&tree(node).to_bytes()).expect_err("too deep");
        assert!(error.to_string().contains("deeply"));
    }

    fn any_node() -> impl Strategy<Value = Node> {
        let property = ("[a-z#,-]{1,12}", prop::collection::vec(any::<u8>(), 0..20));
        let leaf =
            ("[a-z@0-9]{0,12}", prop::collection::vec(property, 0..4)).prop_map(|(name, properties)| {
                let mut node = Node::new(name);
                for (name, value) in properties {
                    node.set(&name, value);
                }
                node
            });
        leaf.prop_recursive(4, 24, 4, |inner| {
            (inner.clone(), prop::collection::vec(inner, 0..4)).prop_map(|(mut node, children)| {
                node.children = children;
                node
            })
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn any_tree_reads_back(root in any_node()) {
            let tree = tree(root);
            prop_assert_eq!(Tree::parse(&tree.to_bytes()).expect("a good tree"), tree);
        }

        #[test]
        fn damage_is_an_error_or_another_tree(at in 0usize..300, byte: u8, cut in 0usize..400) {
            let mut bytes = sample().to_bytes();
            let at = at % bytes.len();
            bytes[at] = byte;
            bytes.truncate(cut);
            drop(Tree::parse(&bytes));
        }

        #[test]
        fn rubbish_is_an_error(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            prop_assert!(Tree::parse(&bytes).is_err());
        }
    }
}
