//! Which transport to choose, in words, by what was measured.

use serde::Serialize;

use super::{Row, Transport};
use crate::rpc::EngineKind;

/// What the figures say about one payload.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Advice {
    pub payload: usize,
    /// Sentences to follow, the most telling first.
    pub choose: Vec<String>,
    /// Where the order differs from the usual one (direct, FMQ spinning, shm call, the rest), and why.
    pub order: Vec<String>,
}

fn time(nanoseconds: f64) -> String {
    match nanoseconds {
        ns if ns < 1e3 => format!("{ns:.0} ns"),
        ns if ns < 1e6 => format!("{:.1} us", ns / 1e3),
        ns => format!("{:.1} ms", ns / 1e6),
    }
}

/// What to choose for `payload` bytes at `rate` messages per second, from the rows of a survey.
pub fn advise(rows: &[Row], payload: usize, rate: f64) -> Advice {
    let rows: Vec<&Row> = rows.iter().filter(|row| row.payload == payload).collect();
    Advice { payload, choose: choose(&rows, rate), order: order(&rows) }
}

/// The share of one CPU that both ends take at a rate. A spinning reader takes all of one.
fn load(row: &Row, rate: f64) -> f64 {
    let busy = row.cpu.summary().p50 * rate / 1e9;
    if row.transport == Some(Transport::FmqSpinning) { busy.max(1.0) } else { busy }
}

fn choose(rows: &[&Row], rate: f64) -> Vec<String> {
    let between: Vec<&&Row> = rows.iter().filter(|row| row.transport != Some(Transport::Direct)).collect();
    let can = |row: &&&&Row| row.rate.summary().p50 >= rate;
    let quickest = |among: &mut dyn Iterator<Item = &&&Row>| -> Option<String> {
        let best = among.min_by(|a, b| a.done().p50.total_cmp(&b.done().p50))?;
        Some(format!(
            "{}: done in {}, {:.1} % of a CPU at {rate:.0} messages/s",
            best.name,
            time(best.done().p50),
            100.0 * load(best, rate)
        ))
    };
    let mut said = Vec::new();
    let mut add = |what: &str, found: Option<String>| {
        said.extend(found.map(|found| format!("{what} {found}.")));
    };
    add(
        "If you need the answer, take the",
        quickest(&mut between.iter().filter(can).filter(|row| row.answers)),
    );
    let spins = |row: &&Row| row.transport == Some(Transport::FmqSpinning);
    add(
        "If you only send and the receiver may sleep, take",
        quickest(&mut between.iter().filter(can).filter(|row| !row.answers && !spins(row))),
    );
    if let Some(spinning) = between.iter().filter(can).find(|row| spins(row)) {
        said.push(format!(
            "A reader that spins is done in {} and costs a whole CPU at any rate: worth it only where that CPU \
             has nothing else to do.",
            time(spinning.done().p50)
        ));
    }
    let soonest = between.iter().min_by(|a, b| a.caller.summary().p50.total_cmp(&b.caller.summary().p50));
    if let Some(row) = soonest {
        said.push(format!(
            "The sender goes on soonest with {}: after {}.",
            row.name,
            time(row.caller.summary().p50)
        ));
    }
    for row in rows.iter().filter(|row| matches!(row.transport, Some(Transport::Oneway(_)))) {
        let Some(Transport::Oneway(engine)) = row.transport else { continue };
        let Some(call) = rows.iter().find(|row| row.transport == Some(Transport::Call(engine))) else {
            continue;
        };
        said.push(format!(
            "A oneway call on {engine} gives its caller back after {} ({:.0} % of a call's {}), and its work is \
             done after {}: it frees the caller, it does not make the work faster.",
            time(row.caller.summary().p50),
            100.0 * row.caller.summary().p50 / call.caller.summary().p50,
            time(call.caller.summary().p50),
            time(row.completion.summary().p50)
        ));
    }
    said.extend(generated(rows));
    let slow: Vec<&str> =
        between.iter().filter(|row| row.rate.summary().p50 < rate).map(|row| row.name.as_str()).collect();
    if !slow.is_empty() {
        said.push(format!("Too slow for {rate:.0} messages/s: {}.", slow.join(", ")));
    }
    said
}

/// What generated code costs beside code that is written by hand.
fn generated(rows: &[&Row]) -> Vec<String> {
    let done = |wanted| rows.iter().find(|row| row.transport == Some(wanted)).map(|row| row.done().p50);
    let compare = |row: &&Row| {
        let Some(Transport::GeneratedCall(engine)) = row.transport else { return None };
        let (by_hand, generated) = (done(Transport::Call(engine))?, row.done().p50);
        Some(format!(
            "A call on {engine} by the generated interface, with a parcelable, takes {}, and {} written by hand.",
            time(generated),
            time(by_hand)
        ))
    };
    rows.iter().filter_map(compare).collect()
}

/// Compares with the order that theory gives: no process, no system call, two looks at a cache line,
/// one wake-up, more.
fn order(rows: &[&Row]) -> Vec<String> {
    let find = |transport| rows.iter().find(|row| row.transport == Some(transport));
    let chain = [Transport::Direct, Transport::FmqSpinning, Transport::Call(EngineKind::Shm)];
    let mut said = Vec::new();
    let mut expect = |first: &Row, second: &Row| {
        let (a, b) = (first.done().p50, second.done().p50);
        if a <= b {
            return;
        }
        said.push(format!(
            "{} ({}) took longer than {} ({}): {}.",
            first.name,
            time(a),
            second.name,
            time(b),
            reason(first, second)
        ));
    };
    let present: Vec<&&Row> = chain.into_iter().filter_map(find).collect();
    for pair in present.windows(2) {
        expect(pair[0], pair[1]);
    }
    if let Some(last) = present.last() {
        // Calls of generated code go the way of the others.
        let is_generated = |row: &Row| {
            matches!(row.transport, Some(Transport::GeneratedCall(_) | Transport::GeneratedOneway(_)))
        };
        let rest = rows.iter().filter(|row| {
            !is_generated(row) && !present.iter().any(|chained| std::ptr::eq(**chained, **row))
        });
        rest.for_each(|row| expect(last, row));
    }
    said
}

fn reason(first: &Row, second: &Row) -> &'static str {
    match (first.transport, second.transport) {
        (Some(Transport::FmqSpinning), _) if first.done().p50 < 20.0 * second.done().p50 => {
            "both sides of either are awake, and the queue's counters and its bytes lie in cache lines of their \
             own, each of which must cross, where a call's word and a small payload share theirs"
        }
        (Some(Transport::FmqSpinning), _) => {
            "both ends of the queue spin on one CPU here, and wait for the scheduler to take turns between them; \
             spinning wants a CPU for each end"
        }
        (
            Some(Transport::Call(_)),
            Some(Transport::Oneway(_) | Transport::FmqBlocking | Transport::SharedMemory),
        ) => "a call hands over twice, there and back, and this way only once",
        (Some(Transport::Call(_)), Some(Transport::Call(_))) => {
            "here the other engine's hand-off is the shorter one"
        }
        _ => "the payload's copy weighs more than the hand-over, or the machine was disturbed; run it again",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measurement::{Better, Clock, Measurement, Unit};

    fn row(transport: Transport, caller: f64, completion: f64, rate: f64) -> Row {
        let one = |value: f64, unit| {
            Measurement::from_samples("transports/x", unit, Clock::Monotonic, Better::Lower, vec![value])
                .expect("a value")
        };
        Row {
            name: transport.to_string(),
            version: None,
            transport: Some(transport),
            answers: transport.answers(),
            payload: 1000,
            caller: one(caller, Unit::Nanoseconds),
            completion: one(completion, Unit::Nanoseconds),
            rate: one(rate, Unit::PerSecond),
            cpu: one(2000.0, Unit::Nanoseconds),
        }
    }

    fn usual() -> Vec<Row> {
        vec![
            row(Transport::Direct, 50.0, 50.0, 2e7),
            row(Transport::FmqSpinning, 100.0, 300.0, 3e6),
            row(Transport::FmqBlocking, 1500.0, 60_000.0, 8e5),
            row(Transport::Call(EngineKind::Shm), 2000.0, 1500.0, 4e5),
            row(Transport::Oneway(EngineKind::Shm), 800.0, 50_000.0, 6e5),
        ]
    }

    #[test]
    fn the_usual_order_needs_no_words() {
        let advice = advise(&usual(), 1000, 1000.0);
        assert_eq!(advice.order, Vec::<String>::new());
        assert!(advice.choose[0].contains("take the shm call: done in 2.0 us, 0.2 % of a CPU"));
        assert!(advice.choose[1].contains("take shm oneway: done in 50.0 us"));
        assert!(advice.choose.iter().any(|line| line.contains("(40 % of a call's 2.0 us)")));
    }

    #[test]
    fn what_generated_code_costs_is_said_and_its_order_is_no_surprise() {
        let mut rows = usual();
        rows.push(row(Transport::GeneratedCall(EngineKind::Shm), 1900.0, 1500.0, 4e5));
        rows.push(row(Transport::GeneratedOneway(EngineKind::Shm), 900.0, 1600.0, 6e5));
        let advice = advise(&rows, 1000, 1000.0);
        assert_eq!(advice.order, Vec::<String>::new());
        let said =
            "on shm by the generated interface, with a parcelable, takes 1.9 us, and 2.0 us written by hand";
        assert!(advice.choose.iter().any(|line| line.contains(said)), "{:?}", advice.choose);
        let none = advise(&usual(), 1000, 1000.0);
        assert!(!none.choose.iter().any(|line| line.contains("generated")));
    }

    #[test]
    fn another_order_is_explained() {
        let mut rows = usual();
        rows[1] = row(Transport::FmqSpinning, 100.0, 4e6, 3e6);
        let advice = advise(&rows, 1000, 1000.0);
        assert!(advice.order[0].contains("FMQ, spinning (4.0 ms) took longer than shm call (2.0 us)"));
        assert!(advice.order[0].contains("a CPU for each end"));
    }

    #[test]
    fn a_queue_that_is_a_little_slower_is_not_blamed_on_the_scheduler() {
        let mut rows = usual();
        rows[1] = row(Transport::FmqSpinning, 100.0, 2500.0, 3e6);
        let order = advise(&rows, 1000, 1000.0).order;
        assert!(order[0].contains("FMQ, spinning (2.5 us)") && order[0].contains("cache lines"), "{order:?}");
    }

    #[test]
    fn what_is_too_slow_is_named_and_not_advised() {
        let advice = advise(&usual(), 1000, 5e5);
        assert!(advice.choose.iter().any(|line| line.contains("Too slow for 500000 messages/s: shm call")));
        assert!(!advice.choose[0].contains("answer"));
        assert!(advise(&usual(), 8, 1000.0).choose.is_empty());
    }
}
