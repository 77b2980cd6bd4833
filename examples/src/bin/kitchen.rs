//! A service whose handlers are futures, and a client with many calls at once: `kitchen serve` and
//! `kitchen order NUMBER`. Each of the two has one thread of its own, however many orders are open.

use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use handoff_ipc::parcel::Writer;
use handoff_ipc::runtime::Runtime;
use handoff_ipc::servicemanager::ServiceOptions;
use handoff_ipc::{AsyncService, Binder, Code, Request, Response};

/// The name under which the service is registered.
const NAME: &str = "sample.kitchen";
/// The name of its interface.
const DESCRIPTOR: &str = "sample.IKitchen";
/// `int order(int dish)`: cooks a dish; gives how many orders were open when it was ready.
const ORDER: Code = 1;

// ANCHOR: service
#[derive(Default)]
struct Kitchen {
    open: AtomicI32,
}

impl AsyncService for Kitchen {
    fn descriptor(&self) -> &str {
        DESCRIPTOR
    }

    fn on_transact(self: Arc<Self>, request: &mut Request<'_>) -> handoff_ipc::Result<Response> {
        let Request { data, .. } = request;
        match request.call.code() {
            ORDER => {
                // The arguments are read now, from where they arrived …
                let _dish: i32 = data.read()?;
                self.open.fetch_add(1, Ordering::Relaxed);
                // … and what is left to do is a future.
                Ok(Response::new(async move {
                    tokio::time::sleep(Duration::from_millis(300)).await;
                    let open = self.open.fetch_sub(1, Ordering::Relaxed);
                    Ok(move |reply: &mut Writer<'_>| reply.write(&open))
                }))
            }
            _ => Err(request.unknown(DESCRIPTOR)),
        }
    }
}
// ANCHOR_END: service

async fn serve(handoff: &Runtime) -> Result<()> {
    let kitchen = Binder::new_async(Kitchen::default());
    handoff.services().add(NAME, kitchen, ServiceOptions::default())?;
    println!("{NAME} is there; end it with Ctrl-C");
    std::future::pending::<()>().await;
    Ok(())
}

// ANCHOR: client
async fn order(handoff: &Runtime, count: i32) -> Result<()> {
    let kitchen = handoff.services().wait_for(NAME, Duration::from_secs(10))?;
    let began = Instant::now();
    let orders: Vec<_> = (0..count)
        .map(|dish| {
            tokio::spawn(kitchen.transaction(ORDER).call_async(move |w| w.write(&dish), |r| r.read::<i32>()))
        })
        .collect();
    let mut most = 0;
    for order in orders {
        most = most.max(order.await??);
    }
    println!("{count} dishes, up to {most} open at once");
    eprintln!("in {:?}", began.elapsed());
    Ok(())
}
// ANCHOR_END: client

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let handoff = Runtime::connect()?;
    let tasks = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["serve"] => tasks.block_on(serve(&handoff)),
        ["order", count] => tasks.block_on(order(&handoff, count.parse().context("how many dishes?")?)),
        _ => bail!("usage: kitchen serve | kitchen order NUMBER"),
    }
}
