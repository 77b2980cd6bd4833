//! Whether a receiver of oneway calls looks for the next one before it sleeps. A sender that finds it looking
//! makes no system call, and on a virtual machine waking another CPU costs many times what the rest of
//! a oneway call does.

/// Looking is worth its CPU time while calls come soon after each other, from another CPU.
#[derive(Debug, Default)]
pub(super) struct Patience {
    fruitless: u32,
    rests: u32,
}

impl Patience {
    /// Fruitless looks after which the receiver mostly sleeps at once.
    const MOST: u32 = 4;
    /// Then it looks again this seldom.
    const EVERY: u32 = 32;

    /// True if it is to look now, when the last call came from `sender` and it runs on `here` itself:
    /// beside its sender it would only be in the way.
    pub(super) fn looks(&mut self, sender: u32, here: u32) -> bool {
        if sender == here {
            return false;
        }
        if self.fruitless < Self::MOST {
            return true;
        }
        self.rests = (self.rests + 1) % Self::EVERY;
        self.rests == 0
    }

    /// What came of looking.
    pub(super) fn looked(&mut self, found: bool) {
        self.fruitless = if found { 0 } else { (self.fruitless + 1).min(Self::MOST) };
    }
}

#[cfg(test)]
mod tests {
    use super::Patience;

    #[test]
    fn it_stops_looking_when_nothing_comes_and_tries_again_now_and_then() {
        let mut patience = Patience::default();
        for _ in 0..Patience::MOST {
            assert!(patience.looks(0, 1));
            patience.looked(false);
        }
        let mut looks = 0;
        for _ in 0..10 * Patience::EVERY {
            if patience.looks(0, 1) {
                looks += 1;
                patience.looked(false);
            }
        }
        assert_eq!(looks, 10, "seldom");
        while !patience.looks(0, 1) {}
        patience.looked(true);
        assert!(patience.looks(0, 1) && patience.looks(0, 1), "a call came: always again");
    }

    #[test]
    fn beside_its_sender_it_never_looks() {
        assert!(!Patience::default().looks(3, 3));
    }
}
