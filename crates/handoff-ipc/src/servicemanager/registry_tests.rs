//! Shares of names, watches that nobody would end, and lists.

use super::super::policy::{NamePattern, Principal, Range, Rule};
use super::*;
use crate::ParcelService;
use crate::call::OutCall;
use crate::engine_kind::EngineKind;
use crate::object::{ReadFn, Remote, WriteFn};

#[test]
fn many_users_leave_names_for_the_next() {
    let mut others = 0;
    for _ in 0..64 {
        others += share(MAX_NAMES, others).min(512);
    }
    assert!(others < MAX_NAMES && share(MAX_NAMES, others) >= 512);
    assert_eq!(share(10, 20), 0);
}

/// An object whose end nobody can be told of.
struct Unlinkable;

impl Remote for Unlinkable {
    fn engine(&self) -> EngineKind {
        EngineKind::Binder
    }
    fn transact(&self, _: &OutCall, _: WriteFn<'_>, _: ReadFn<'_>) -> Result<()> {
        Err(Error::Dead)
    }
    fn check_interface(&self, _: &OutCall) -> Result<()> {
        Ok(())
    }
    fn owner(&self) -> Option<CallingIdentity> {
        None
    }
    fn link_to_death(&self, _: Box<dyn FnOnce() + Send>) -> Result<DeathRegistration> {
        Err(Error::Dead)
    }
    fn is_alive(&self) -> bool {
        true
    }
    fn as_any(&self) -> &dyn std::any::Any {
        self
    }
}

#[test]
fn a_watch_whose_end_would_go_unnoticed_is_not_kept() {
    let registry = Arc::new(Registry::default());
    registry.set_policy(Policy::open());
    let watcher = Binder::from_remote(Arc::new(Unlinkable));
    assert!(matches!(registry.watch(CallingIdentity::own(), "a.name", watcher), Err(Error::Dead)));
    assert_eq!(registry.sizes(), (0, 0, 0));
}

#[test]
fn pages_have_what_somebody_may_find_among_many_names_that_it_may_not() {
    let own = CallingIdentity::own();
    let registry = Arc::new(Registry::default());
    let secret = Rule {
        names: vec![NamePattern::new("*.secret")],
        add: vec![Principal::Anyone],
        find: vec![Principal::Users(Range::one(own.uid))],
        ..Rule::default()
    };
    registry.set_policy(Policy { rules: vec![secret], ..Policy::open() });
    let (all, every) = (4 * AT_ONCE, AT_ONCE / 2 + 1);
    let names: Vec<String> =
        (0..all).map(|n| format!("n{n:05}.{}", if n % every == 3 { "open" } else { "secret" })).collect();
    for name in &names {
        let registration = Registration {
            binder: Binder::new(ParcelService::new("test.INothing", |_, _| Ok(None))),
            process: None,
            interface: String::new(),
            options: ServiceOptions::default(),
            if_taken: NameConflict::Refuse,
            listener: None,
        };
        registry.add(own, name, registration).unwrap();
    }
    let stranger = CallingIdentity { uid: own.uid + 1, ..own };
    for (who, ending) in [(own, ""), (stranger, "open")] {
        let expected: Vec<&String> = names.iter().filter(|name| name.ends_with(ending)).collect();
        for limit in [1, 2, 100, usize::MAX] {
            let (mut found, mut after) = (Vec::new(), String::new());
            loop {
                let (page, more) = registry.list(who, &after, limit, DumpPriority::ALL);
                assert!(page.len() <= limit && (more.is_none() || page.len() == limit));
                found.extend(page.into_iter().map(|info| info.name));
                let Some(last) = more else { break };
                after = last;
            }
            assert!(found.iter().eq(expected.iter().copied()), "{limit}: {} found", found.len());
        }
    }
}
