//! Prints the floors of this machine: `cargo run --release -p handoff-workloads --example floors`.

use handoff_workloads::Placement;
use handoff_workloads::floor::{Parameters, Primitive, run};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let placements = [Placement::same_cpu()?, Placement::two_cpus()?, Placement::Unpinned];
    for primitive in Primitive::ALL {
        for placement in placements.into_iter().filter(|&place| primitive.unsuited(place).is_none()) {
            let trip = run(&Parameters { primitive, payload: 8, placement }, 2000, 10)?;
            let summary = trip.summary();
            println!("{primitive:15} {placement:12} p50 {:9.0} ns   min {:9.0} ns", summary.p50, summary.min);
        }
    }
    Ok(())
}
