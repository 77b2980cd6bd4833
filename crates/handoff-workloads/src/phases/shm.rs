//! Lays the stamps of both sides of the `shm` engine beside each other.

use handoff_ipc::shm::phases::Point;

use super::PointTable;
use crate::rpc::role::EnginePoint;
use crate::rpc::service::Stamps;

/// The calls' points, from the programs' stamps and the engines' of each side.
///
/// The client makes one call after the other, so what its engine stamped between the beginning and the
/// end of a call belongs to that call, and so does what the server's stamped between the two.
pub(super) fn join(calls: &[Stamps], client: &[EnginePoint], server: &[EnginePoint]) -> PointTable {
    PointTable::of(calls, |call| points(call, client, server))
}

fn points(call: &Stamps, client: &[EnginePoint], server: &[EnginePoint]) -> Result<Vec<u64>, &'static str> {
    let find = |of: &[EnginePoint], point: Point, from: u64, to: u64, lacking: &'static str| {
        let start = of.partition_point(|(_, ns)| *ns < from);
        let within = of[start..].iter().take_while(|(_, ns)| *ns <= to);
        within.into_iter().find(|(which, _)| *which == point as u8).map(|(_, ns)| *ns).ok_or(lacking)
    };
    let posted = find(client, Point::Posted, call.send, call.exit, "C_POST")?;
    let seen = find(server, Point::Seen, call.send, call.served_from, "S_SEEN")?;
    let replied = find(server, Point::Replied, call.served_to, u64::MAX, "S_POST")?;
    let woken_back = find(server, Point::WokenBack, replied, u64::MAX, "S_WAKE")?;
    let woken = find(client, Point::Woken, posted, call.exit, "C_WAKE")?;
    let returned = find(client, Point::Returned, woken, call.received, "C_SEEN")?;
    // A side that handed over reads its clock afterwards, and may be held up in between, while the other
    // goes on: a request was posted, and a wake-up had its effect, by the time when the other side saw it.
    let (posted, woken) = (posted.min(seen), woken.min(seen));
    let (replied, woken_back) = (replied.min(returned), woken_back.min(returned));
    Ok(vec![
        call.send,
        posted,
        woken.max(posted),
        seen,
        call.served_from,
        call.served_to,
        replied,
        woken_back.max(replied),
        returned,
        call.received,
        call.exit,
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(at: u64) -> Stamps {
        Stamps {
            send: at,
            served_from: at + 40,
            served_to: at + 50,
            received: at + 90,
            exit: at + 100,
            server: 7,
        }
    }

    fn engine(at: u64) -> (Vec<EnginePoint>, Vec<EnginePoint>) {
        let client = [(Point::Posted, 10), (Point::Woken, 35), (Point::Returned, 80)];
        let server = [(Point::Seen, 30), (Point::Replied, 60), (Point::WokenBack, 70)];
        let stamped = |points: [(Point, u64); 3]| points.map(|(point, ns)| (point as u8, at + ns)).to_vec();
        (stamped(client), stamped(server))
    }

    #[test]
    fn each_call_gets_its_own_points() {
        let (mut client, mut server) = engine(1000);
        let later = engine(2000);
        client.extend(later.0);
        server.extend(later.1);
        let joined = join(&[call(1000), call(2000)], &client, &server);
        assert_eq!(joined.lacking, None);
        let first = &joined.rows[0];
        assert_eq!(first, &[1000, 1010, 1030, 1030, 1040, 1050, 1060, 1070, 1080, 1090, 1100]);
        assert_eq!(joined.rows[1], first.iter().map(|ns| ns + 1000).collect::<Vec<_>>());
    }

    #[test]
    fn a_side_that_is_held_up_after_it_handed_over_does_not_overtake_the_other() {
        let (mut client, mut server) = engine(1000);
        // Both read their clocks late: the client when the method ran already, the server when the
        // client had returned.
        (client[0].1, client[1].1) = (1047, 1048);
        (server[1].1, server[2].1) = (5000, 5001);
        let joined = join(&[call(1000)], &client, &server);
        assert_eq!(joined.rows, [vec![1000, 1030, 1030, 1030, 1040, 1050, 1080, 1080, 1080, 1090, 1100]]);
    }

    #[test]
    fn a_call_without_a_point_is_left_out_and_said() {
        let (client, _) = engine(1000);
        let joined = join(&[call(1000)], &client, &[]);
        assert_eq!((joined.rows.len(), joined.failed, joined.lacking), (0, 1, Some("S_SEEN")));
    }
}
