//! The order of calls, and that nobody's calls depend on a thread of somebody else's.

use std::sync::mpsc::{Sender, channel};

use proptest::prelude::*;

use super::*;

fn push(queue: &mut OnewayQueue, send: &Sender<i32>, user: u32, number: i32) -> bool {
    let send = send.clone();
    queue.push(user, Box::new(move || send.send(number).unwrap()))
}

#[test]
fn users_take_turns_and_the_calls_of_each_keep_their_order() {
    let (send, served) = channel();
    let mut queue = OnewayQueue::default();
    assert!(push(&mut queue, &send, 1, 10), "a thread is wanted");
    assert!(queue.arrive(1));
    (11..1000).for_each(|number| assert!(!push(&mut queue, &send, 1, number)));
    for (user, number) in [(2, 2000), (2, 2001), (3, 3000)] {
        assert!(!push(&mut queue, &send, user, number), "a thread is there");
    }
    assert_eq!((queue.waiting(1), queue.waiting(2), queue.waiting(4)), (990, 2, 0));
    let mut user = 1;
    loop {
        match queue.next(user) {
            NextStep::Serve(job) => job(),
            NextStep::Of(other) => user = other,
            NextStep::Go => break,
        }
    }
    let served: Vec<i32> = served.try_iter().collect();
    assert_eq!(served[..6], [10, 2000, 3000, 11, 2001, 12]);
    assert!(served[6..].iter().copied().eq(13..1000));
    assert!(push(&mut queue, &send, 5, 1), "the thread has gone");
    assert_eq!((queue.waiting(5), queue.users.len()), (1, 1), "in the memory that was there");
}

#[test]
fn a_user_whose_thread_does_not_come_holds_up_its_own_calls_alone() {
    let (send, served) = channel();
    let mut queue = OnewayQueue::default();
    assert!(push(&mut queue, &send, 1, 10) && push(&mut queue, &send, 2, 20), "one of each user's share");
    assert!(!push(&mut queue, &send, 1, 11) && !push(&mut queue, &send, 2, 21), "one of each is enough");
    assert!(queue.arrive(2));
    while let NextStep::Serve(job) = queue.next(2) {
        job();
    }
    assert_eq!(served.try_iter().collect::<Vec<_>>(), [20, 21]);
    assert!(queue.arrive(1));
    assert!(!push(&mut queue, &send, 2, 22) && matches!(queue.next(1), NextStep::Serve(_)));
    assert!(matches!(queue.next(1), NextStep::Of(2)));
    assert_eq!(queue.leave(), [2, 1], "who leaves has one sent for each that waits");
    assert!(queue.arrive(1) && !queue.arrive(2), "whoever is first");
}

#[derive(Debug, Clone)]
enum Step {
    Push(u32),
    /// The one of the threads under way that is the so-many-th comes.
    Arrive(usize),
    /// The thread at the queue does what is next; it may work for others or not, and those may have a thread more or not.
    Next {
        stays: bool,
        may_change: bool,
    },
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        (0..4_u32).prop_map(Step::Push),
        any::<usize>().prop_map(Step::Arrive),
        (any::<bool>(), any::<bool>()).prop_map(|(stays, may_change)| Step::Next { stays, may_change }),
    ]
}

proptest! {
    #[test]
    fn whoever_waits_has_a_thread_here_or_one_of_its_own_under_way(steps in prop::collection::vec(step(), 1..200)) {
        let mut queue = OnewayQueue::default();
        let (mut under_way, mut here, mut next) = (Vec::new(), None, 0);
        let (mut pushed, mut served) = (vec![Vec::new(); 4], vec![Vec::new(); 4]);
        let (send, done) = channel();
        for step in steps {
            match step {
                Step::Push(user) => {
                    pushed[user as usize].push(next);
                    under_way.extend(push(&mut queue, &send, user, next).then_some(user));
                    next += 1;
                }
                Step::Arrive(nth) if !under_way.is_empty() => {
                    let user = under_way.swap_remove(nth % under_way.len());
                    let is_first = queue.arrive(user);
                    prop_assert_eq!(is_first, here.is_none());
                    here = here.or(Some(user));
                }
                Step::Next { stays, may_change } => {
                    let Some(user) = here else { continue };
                    match queue.next(user) {
                        NextStep::Serve(job) => {
                            job();
                            served[user as usize].extend(done.try_iter());
                        }
                        NextStep::Go => here = None,
                        NextStep::Of(_) if stays => {
                            under_way.extend(queue.leave());
                            here = None;
                        }
                        NextStep::Of(other) if may_change => here = Some(other),
                        NextStep::Of(other) => under_way.extend(queue.note_sent(other).then_some(other)),
                    }
                }
                Step::Arrive(_) => {}
            }
            for user in 0..4 {
                let sent = under_way.iter().filter(|sent| **sent == user).count();
                prop_assert!(sent <= 1, "one is enough");
                prop_assert!(queue.waiting(user) == 0 || here.is_some() || sent == 1, "nobody comes for {user}");
            }
        }
        for (served, pushed) in served.iter().zip(&pushed) {
            prop_assert!(pushed.starts_with(served), "in the order in which they came");
        }
    }
}
