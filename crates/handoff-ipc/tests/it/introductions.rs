//! A model of introductions with a process that lies, searched through in full.
//!
//! The protocol is that of `docs/book/src/design/introductions.md`: an owner, a receiver and a liar, who
//! may be the introducer. The liar receives, keeps, sends and hands on what it can; sockets, stamps and
//! makers are the kernel's. Rules of former versions can be put back, to see that the search finds what
//! was wrong with them.

use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher, Hash, Hasher};

/// Processes, and the names that they have for each other: an endpoint's id can be claimed by anybody.
const OWNER: u8 = 0;
const RECEIVER: u8 = 1;
const LIAR: u8 = 2;
const ALL: [u8; 3] = [OWNER, RECEIVER, LIAR];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Rule {
    Current,
    /// The receiver asks at the link whose peer claims to be the owner, and the owner takes tokens on links.
    ClaimedEndpoint,
    /// The owner does not compare the sender of a `Hello` with the maker of the connection in it.
    AnyMaker,
    /// The receiver's link is the introduced connection itself.
    IntroducedConnection,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Secret {
    Guess,
    Token,
    Nonce,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Message {
    Hello { endpoint: u8, token: Secret },
    Welcome { endpoint: u8 },
    Known { endpoint: u8, nonce: Secret },
    Claim { secret: Secret },
    Claimed,
}

/// The end of a pair: the other end is `end ^ 1`.
type End = usize;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Packet {
    stamp: u8,
    message: Message,
    end: Option<End>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Socket {
    maker: u8,
    // A bit for each process.
    holders: u8,
    queue: VecDeque<Packet>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Link {
    of: u8,
    end: End,
    peer: u8,
    claims: u8,
    has_secret: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Receiver {
    /// The parcel is there: whose object it is said to be, the token, and the connection.
    Parcel(u8, Secret, End),
    Awaits(u8, End),
    Asks(usize),
    Has(usize),
    Failed,
}

#[derive(Debug, Clone)]
struct State {
    sockets: Vec<Socket>,
    links: Vec<Link>,
    // The owner's newcomers: the end, and whether it made it for an introduction.
    newcomers: Vec<(End, bool)>,
    // The link that the nonce is good on.
    nonce_for: Option<usize>,
    receiver: Receiver,
    liar_knows: [bool; 2],
    sends_left: u8,
    liar_introduces: bool,
}

// Not of how much the liar may still say: the search keeps that for each state.
impl Hash for State {
    fn hash<H: Hasher>(&self, to: &mut H) {
        let State {
            sockets,
            links,
            newcomers,
            nonce_for,
            receiver,
            liar_knows,
            sends_left: _,
            liar_introduces,
        } = self;
        (sockets, links, newcomers, nonce_for, receiver, liar_knows, liar_introduces).hash(to);
    }
}

/// How often the liar may say something.
const SENDS: u8 = 2;

impl State {
    fn new(liar_introduces: bool) -> Self {
        State {
            sockets: Vec::new(),
            links: Vec::new(),
            newcomers: Vec::new(),
            nonce_for: None,
            receiver: Receiver::Failed,
            liar_knows: [liar_introduces, false],
            sends_left: SENDS,
            liar_introduces,
        }
    }

    fn pair(&mut self, maker: u8, holders: [u8; 2]) -> End {
        for holder in holders {
            self.sockets.push(Socket { maker, holders: 1 << holder, queue: VecDeque::new() });
        }
        self.sockets.len() - 2
    }

    /// Two links over a pair. `claim` is what the second one says of itself.
    fn link(&mut self, [a, b]: [u8; 2], claim: u8) {
        let end = self.pair(b, [a, b]);
        self.links.push(Link { of: a, end, peer: b, claims: claim, has_secret: false });
        if b != LIAR {
            self.links.push(Link { of: b, end: end + 1, peer: a, claims: a, has_secret: false });
        }
    }

    fn holds(&self, who: u8, end: End) -> bool {
        self.sockets[end].holders & 1 << who != 0
    }

    fn drop_end(&mut self, who: u8, end: End) {
        self.sockets[end].holders &= !(1 << who);
    }

    fn send(&mut self, stamp: u8, end: End, message: Message, with: Option<End>) {
        self.sockets[end ^ 1].queue.push_back(Packet { stamp, message, end: with });
    }

    fn knows(&self, secret: Secret) -> bool {
        match secret {
            Secret::Guess => true,
            Secret::Token => self.liar_knows[0],
            Secret::Nonce => self.liar_knows[1],
        }
    }

    /// Every state from which the search begins.
    fn starts() -> Vec<State> {
        let mut starts = Vec::new();
        for (liar_introduces, linked) in [(false, false), (false, true), (true, false), (true, true)] {
            // What the liar says of itself to either.
            for (to_receiver, to_owner) in [(OWNER, RECEIVER), (OWNER, LIAR), (LIAR, RECEIVER), (LIAR, LIAR)]
            {
                let mut state = State::new(liar_introduces);
                state.link([RECEIVER, LIAR], to_receiver);
                state.link([OWNER, LIAR], to_owner);
                if linked {
                    state.link([OWNER, RECEIVER], RECEIVER);
                }
                // What the owner made for the introduction; and a connection of the liar's to the owner.
                let introducer = if liar_introduces { LIAR } else { RECEIVER };
                let introduced = state.pair(OWNER, [OWNER, introducer]);
                state.newcomers.push((introduced, true));
                if !liar_introduces {
                    state.receiver = Receiver::Parcel(OWNER, Secret::Token, introduced + 1);
                    starts.push(state);
                    continue;
                }
                let connected = state.pair(LIAR, [OWNER, LIAR]);
                state.newcomers.push((connected, false));
                let own = state.pair(LIAR, [LIAR, LIAR]);
                // It may put anything into the parcel.
                for end in [introduced + 1, connected + 1, own] {
                    for endpoint in [OWNER, LIAR] {
                        for token in [Secret::Token, Secret::Guess] {
                            let mut state = state.clone();
                            state.sockets[end].holders |= 1 << RECEIVER;
                            state.receiver = Receiver::Parcel(endpoint, token, end);
                            starts.push(state);
                        }
                    }
                }
            }
        }
        starts
    }

    fn next(&self, rule: Rule) -> Vec<State> {
        // What only the liar can read it reads first: it then knows and holds more, and nobody sees it.
        let is_its = |socket: &Socket| socket.holders == 1 << LIAR && !socket.queue.is_empty();
        if let Some(end) = self.sockets.iter().position(is_its)
            && let Some(packet) = self.sockets[end].queue.front()
        {
            return vec![self.liar_receives(end, *packet)];
        }
        let mut next = Vec::new();
        self.take_up(rule, &mut next);
        for end in 0..self.sockets.len() {
            if let Some(packet) = self.sockets[end].queue.front().copied() {
                let mut state = self.clone();
                state.sockets[end].queue.pop_front();
                if state.receive(rule, end, packet) {
                    next.push(state);
                }
                if self.holds(LIAR, end) {
                    next.push(self.liar_receives(end, packet));
                }
            }
        }
        if self.sends_left > 0 {
            self.lies(rule, &mut next);
        }
        next
    }

    /// The receiver reads the parcel.
    fn take_up(&self, rule: Rule, next: &mut Vec<State>) {
        let Receiver::Parcel(endpoint, token, introduced) = self.receiver else { return };
        let mut state = self.clone();
        let hello = Message::Hello { endpoint: RECEIVER, token };
        let known = self.links.iter().position(|link| link.of == RECEIVER && link.claims == endpoint);
        if let (Rule::ClaimedEndpoint, Some(known)) = (rule, known) {
            state.send(RECEIVER, self.links[known].end, Message::Claim { secret: token }, None);
            state.receiver = Receiver::Asks(known);
        } else if rule == Rule::IntroducedConnection {
            state.send(RECEIVER, introduced, hello, None);
            state.receiver = Receiver::Awaits(endpoint, introduced);
        } else {
            let own = state.pair(RECEIVER, [RECEIVER, RECEIVER]);
            state.send(RECEIVER, introduced, hello, Some(own + 1));
            state.drop_end(RECEIVER, own + 1);
            state.drop_end(RECEIVER, introduced);
            state.receiver = Receiver::Awaits(endpoint, own);
        }
        next.push(state);
    }

    /// An honest process receives. False if nobody does.
    fn receive(&mut self, rule: Rule, end: End, packet: Packet) -> bool {
        if let Some(at) = self.newcomers.iter().position(|newcomer| newcomer.0 == end) {
            let (_, introduced) = self.newcomers.remove(at);
            self.greet(rule, end, introduced, packet);
            return true;
        }
        if let Receiver::Awaits(endpoint, at) = self.receiver
            && at == end
        {
            self.answered(endpoint, end, packet);
            return true;
        }
        let Some(at) = self.links.iter().position(|link| link.end == end) else { return false };
        match (self.links[at].of, packet.message) {
            (OWNER, Message::Claim { secret }) => {
                let is_good = match secret {
                    Secret::Nonce => self.nonce_for == Some(at),
                    Secret::Token if rule == Rule::ClaimedEndpoint => self.newcomers.iter().any(|n| n.1),
                    _ => false,
                };
                if is_good {
                    self.nonce_for = None;
                    self.newcomers.retain(|newcomer| !newcomer.1);
                    self.links[at].has_secret = true;
                    self.send(OWNER, end, Message::Claimed, None);
                }
            }
            (RECEIVER, Message::Claimed) if self.receiver == Receiver::Asks(at) => {
                self.receiver = Receiver::Has(at);
            }
            _ => {}
        }
        true
    }

    /// The owner reads the first message of a newcomer.
    fn greet(
        &mut self,
        rule: Rule,
        end: End,
        introduced: bool,
        Packet { stamp, message, end: with }: Packet,
    ) {
        let Message::Hello { endpoint, token } = message else { return };
        let (end, peer) = match (introduced, with) {
            (true, None) if rule == Rule::IntroducedConnection && token == Secret::Token => (end, stamp),
            (true, Some(with)) if token == Secret::Token => {
                let maker = self.sockets[with].maker;
                if maker != stamp && rule != Rule::AnyMaker {
                    return;
                }
                (with, stamp)
            }
            (false, None) if stamp == self.sockets[end].maker => (end, stamp),
            _ => return,
        };
        self.sockets[end].holders |= 1 << OWNER;
        let known = |link: &Link| link.of == OWNER && link.claims == endpoint && link.peer == peer;
        if let (true, Some(known)) = (introduced, self.links.iter().position(known)) {
            self.nonce_for = Some(known);
            self.send(OWNER, end, Message::Known { endpoint: OWNER, nonce: Secret::Nonce }, None);
            self.drop_end(OWNER, end);
        } else {
            self.links.push(Link { of: OWNER, end, peer, claims: endpoint, has_secret: introduced });
            self.send(OWNER, end, Message::Welcome { endpoint: OWNER }, None);
        }
    }

    /// The receiver reads the answer to its `Hello`.
    fn answered(&mut self, expected: u8, end: End, Packet { stamp, message, .. }: Packet) {
        self.receiver = Receiver::Failed;
        match message {
            Message::Welcome { endpoint } if endpoint == expected => {
                self.links.push(Link { of: RECEIVER, end, peer: stamp, claims: endpoint, has_secret: false });
                self.receiver = Receiver::Has(self.links.len() - 1);
            }
            Message::Known { endpoint, nonce } if endpoint == expected => {
                let is_it =
                    |link: &Link| link.of == RECEIVER && link.claims == endpoint && link.peer == stamp;
                if let Some(at) = self.links.iter().position(is_it) {
                    self.send(RECEIVER, self.links[at].end, Message::Claim { secret: nonce }, None);
                    self.receiver = Receiver::Asks(at);
                }
            }
            _ => self.drop_end(RECEIVER, end),
        }
    }

    fn liar_receives(&self, end: End, packet: Packet) -> State {
        let mut state = self.clone();
        state.sockets[end].queue.pop_front();
        if let Some(with) = packet.end {
            state.sockets[with].holders |= 1 << LIAR;
        }
        match packet.message {
            Message::Hello { token: Secret::Token, .. } | Message::Claim { secret: Secret::Token } => {
                state.liar_knows[0] = true;
            }
            Message::Known { nonce: Secret::Nonce, .. } | Message::Claim { secret: Secret::Nonce } => {
                state.liar_knows[1] = true;
            }
            _ => {}
        }
        state
    }

    /// Everything that the liar could say, as whoever receives it hears it at once: between the two nobody sees the
    /// message, and the liar knows no less later.
    fn lies(&self, rule: Rule, next: &mut Vec<State>) {
        let secrets = [Secret::Token, Secret::Nonce].into_iter().filter(|secret| self.knows(*secret));
        let mut messages = vec![Message::Claimed];
        for secret in secrets {
            messages.push(Message::Claim { secret });
            for endpoint in ALL {
                messages.push(Message::Hello { endpoint, token: secret });
                messages.push(Message::Known { endpoint, nonce: secret });
            }
        }
        messages.extend(ALL.map(|endpoint| Message::Welcome { endpoint }));
        let ends: Vec<End> = (0..self.sockets.len()).filter(|end| self.holds(LIAR, *end)).collect();
        for end in &ends {
            // Whom it reaches: nothing is won by talking to oneself, nor by a place behind others in a queue.
            let to = &self.sockets[end ^ 1];
            if to.holders & !(1 << LIAR) == 0 || !to.queue.is_empty() {
                continue;
            }
            for message in &messages {
                let carries = matches!(message, Message::Hello { .. });
                let with = ends.iter().map(|with| Some(*with)).filter(|_| carries);
                for with in std::iter::once(None).chain(with) {
                    let mut state = self.clone();
                    state.sends_left -= 1;
                    if state.receive(rule, end ^ 1, Packet { stamp: LIAR, message: *message, end: with }) {
                        next.push(state);
                    }
                }
            }
        }
    }

    /// What must never be.
    fn wrong(&self) -> Option<&'static str> {
        for link in &self.links {
            let other = link.end ^ 1;
            if link.peer != LIAR && self.holds(LIAR, other) {
                return Some("the liar speaks on a link that another process is taken to speak on");
            }
            // Where both sides take it for the liar's, it has given its own connection away: as if it relayed.
            let is_used = |used: &Link| {
                used.end == other && used.of != link.peer && (link.peer, used.peer) != (LIAR, LIAR)
            };
            if self.links.iter().any(is_used) {
                return Some("a link is attributed to another process than the one that uses it");
            }
            if link.has_secret && !self.liar_introduces && (link.peer == LIAR || self.holds(LIAR, other)) {
                return Some("an object reached a process that it was not given to");
            }
        }
        match self.receiver {
            Receiver::Has(at) if !self.liar_introduces && self.links[at].peer != OWNER => {
                Some("the receiver has another process's object in place of the one that was sent")
            }
            _ => None,
        }
    }
}

/// Searches all that can happen. Gives what went wrong first, how many states there were, and in how many
/// the receiver had the object of an honest introducer.
fn search(rule: Rule) -> (Option<&'static str>, usize, usize) {
    let mut queue: VecDeque<State> = State::starts().into();
    // 64 bits of each: that two of so few states have the same is less likely than a fault of the machine.
    let number = |state: &State| BuildHasherDefault::<DefaultHasher>::default().hash_one(state);
    // How much the liar could still say: from the same state with less, nothing else comes.
    let mut seen: HashMap<u64, u8> =
        queue.iter().map(|state| (number(state), state.sends_left + 1)).collect();
    let mut arrived = 0;
    while let Some(state) = queue.pop_back() {
        if let Some(wrong) = state.wrong() {
            return (Some(wrong), seen.len(), arrived);
        }
        arrived += usize::from(!state.liar_introduces && matches!(state.receiver, Receiver::Has(_)));
        for next in state.next(rule) {
            let more = seen.entry(number(&next)).or_insert(0);
            // Kept one higher, so that 0 is a state that was never seen.
            if *more < next.sends_left + 1 {
                *more = next.sends_left + 1;
                queue.push_back(next);
            }
        }
    }
    (None, seen.len(), arrived)
}

#[test]
fn no_lie_makes_a_link_or_an_object_somebody_elses() {
    let (wrong, states, arrived) = search(Rule::Current);
    println!("{states} states");
    assert_eq!(wrong, None);
    assert!(states > 1000 && arrived > 0, "{states} states, the object arrived in {arrived}");
}

#[test]
fn the_search_finds_what_was_wrong_with_a_claimed_endpoint() {
    let (wrong, ..) = search(Rule::ClaimedEndpoint);
    assert!(wrong.is_some());
}

#[test]
fn each_check_is_needed() {
    for rule in [Rule::AnyMaker, Rule::IntroducedConnection] {
        assert!(search(rule).0.is_some(), "{rule:?}");
    }
}
