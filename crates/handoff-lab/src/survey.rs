//! Floors, or transports, side by side: a batch of each a round, so that what disturbs the machine for a while
//! disturbs all of them alike.

use handoff_workloads::Result;
use handoff_workloads::floor::{self, Session};
use handoff_workloads::measurement::Measurement;
use handoff_workloads::transports::{OpenTransport, Row, SurveyPlan};

use crate::interleave::{Interleave, Progress};

/// Measures floors, `samples` samples of each a round. What was measured before `interleave` was told to stop is given.
///
/// # Errors
///
/// If a process cannot be started, or ends.
pub fn floors(
    interleave: &Interleave<'_>,
    floors: &[floor::Parameters],
    samples: u32,
    progress: &mut dyn FnMut(Progress<'_>),
) -> Result<Vec<Measurement>> {
    let mut sessions = floors.iter().map(Session::start).collect::<Result<Vec<_>>>()?;
    let mut values = vec![Vec::new(); floors.len()];
    let trips = |floor: &floor::Parameters| floor.primitive.usual_trips();
    interleave.rounds(floors.len(), |run| -> Result<()> {
        let floor = &floors[run.subject];
        progress(Progress { subject: floor.primitive.name(), done: run.done, of: run.of });
        values[run.subject].extend(sessions[run.subject].batch(samples, trips(floor))?);
        Ok(())
    })?;
    let measured = floors.iter().zip(values).filter(|(_, values)| !values.is_empty());
    measured.map(|(floor, values)| floor.measurement(trips(floor), values)).collect()
}

/// Measures transports with each payload of the plan that they carry. What was measured before `interleave` was told to
/// stop is in the rows.
///
/// # Errors
///
/// If the plan cannot be measured, or a transport fails.
pub fn transports(
    interleave: &Interleave<'_>,
    transports: &mut [Box<dyn OpenTransport>],
    plan: &SurveyPlan,
    progress: &mut dyn FnMut(Progress<'_>),
) -> Result<Vec<Row>> {
    plan.check()?;
    let mut subjects = Vec::new();
    for &payload in &plan.payloads {
        let carrying = (0..transports.len()).filter(|index| payload <= transports[*index].largest());
        subjects.extend(carrying.map(|index| (index, payload)));
    }
    let mut turns = vec![Vec::new(); subjects.len()];
    interleave.rounds(subjects.len(), |run| -> Result<()> {
        let (index, payload) = subjects[run.subject];
        let transport = transports[index].as_mut();
        progress(Progress { subject: &transport.name(), done: run.done, of: run.of });
        turns[run.subject].push(plan.turn(transport, payload)?);
        Ok(())
    })?;
    let measured = subjects.iter().zip(turns).filter(|(_, turns)| !turns.is_empty());
    measured.map(|(&(index, payload), turns)| Row::of(transports[index].as_ref(), payload, &turns)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use handoff_workloads::Placement;
    use handoff_workloads::floor::Primitive;
    use handoff_workloads::rpc::EngineKind;
    use handoff_workloads::transports::{MAX_PAYLOAD, OpenTransports, open};
    use std::sync::atomic::{AtomicBool, Ordering};

    #[test]
    fn floors_take_turns_and_are_kept_apart() {
        let floor =
            |primitive, payload| floor::Parameters { primitive, payload, placement: Placement::Unpinned };
        let asked = [floor(Primitive::Futex, 8), floor(Primitive::Pipe, 100), floor(Primitive::Memcpy, 4096)];
        let three = Interleave { rounds: 3, warm_up: 0, ..Interleave::default() };
        let measured = floors(&three, &asked, 20, &mut |_| {}).expect("it runs");
        let names: Vec<&str> = measured.iter().map(Measurement::name).collect();
        assert_eq!(names, ["floor/futex", "floor/pipe", "floor/memcpy"]);
        assert!(measured.iter().all(|measurement| measurement.summary().count == 60));
    }

    /// The function that peers of these tests run: see [`handoff_workloads::play_in_test`].
    #[test]
    #[ignore = "a process of another test"]
    fn peer_main() {
        handoff_workloads::play_if_peer();
    }

    fn opened(placement: Placement) -> OpenTransports {
        handoff_workloads::play_in_test("survey::tests::peer_main");
        open(placement, &[EngineKind::Shm]).expect("started")
    }

    fn plan(payloads: &[usize]) -> SurveyPlan {
        SurveyPlan { payloads: payloads.to_vec(), rounds: 2, samples: 10, stream: 20 }
    }

    #[test]
    fn every_transport_delivers_every_payload() {
        let mut opened = opened(Placement::Unpinned);
        assert_eq!(opened.transports.len(), 8);
        assert!(opened.missing.is_empty());
        let two = Interleave { rounds: 2, warm_up: 0, ..Interleave::default() };
        let mut turns = 0;
        let plan = plan(&[1, 1000, MAX_PAYLOAD]);
        let rows = transports(&two, &mut opened.transports, &plan, &mut |_| turns += 1).expect("measured");
        // A oneway call carries less than the largest.
        assert_eq!((turns, rows.len()), (44, 22));
        for row in &rows {
            assert_eq!(row.caller.summary().count, 20, "{}", row.name);
            assert!(row.completion.summary().min > 0.0 && row.rate.summary().min > 0.0, "{}", row.name);
            // The receiver of a call is done before its caller knows it.
            if row.answers {
                assert!(row.completion.summary().p50 <= row.caller.summary().p50, "{}", row.name);
            }
        }
    }

    #[test]
    fn floors_that_were_measured_before_a_stop_are_given() {
        let floor = |primitive| floor::Parameters { primitive, payload: 8, placement: Placement::Unpinned };
        let stop = AtomicBool::new(false);
        let three = Interleave { rounds: 3, warm_up: 0, stop: Some(&stop), ..Interleave::default() };
        let asked = [Primitive::Futex, Primitive::Pipe].map(floor);
        let measured = floors(&three, &asked, 20, &mut |_| stop.store(true, Ordering::Relaxed));
        let counts: Vec<_> = measured.expect("it runs").iter().map(|floor| floor.summary().count).collect();
        assert_eq!(counts, [20], "the first turn alone");
    }

    #[test]
    fn what_was_measured_before_a_stop_is_given() {
        let mut opened = opened(Placement::same_cpu().expect("a CPU"));
        let stop = AtomicBool::new(false);
        let two = Interleave { rounds: 2, warm_up: 0, stop: Some(&stop), ..Interleave::default() };
        let rows = transports(&two, &mut opened.transports, &plan(&[8]), &mut |progress| {
            stop.store(progress.done == 8, Ordering::Relaxed);
        });
        let counts: Vec<_> = rows.expect("measured").iter().map(|row| row.caller.summary().count).collect();
        // The first round, and the first of the second.
        assert_eq!((counts.len(), counts.iter().sum::<u64>()), (8, 90));
    }
}
