//! A shop in one process, `serve`, and its buyer in another, `buy`: an interface with a parcelable, a callback, oneway calls
//! and a descriptor, called by threads and by futures; the buyer hears when the shop's process ends.

use std::error::Error as AnyError;
use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::sync::Mutex;
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

use handoff_ipc::servicemanager::ServiceOptions;
use handoff_ipc::{Error, ExceptionCode, Result, Runtime, Status};
use interfaces::shop::{
    BuyerProxy, BuyerStub, IBuyer, IShop, IShopAsync as _, Order, ShopAsyncProxy, ShopProxy, ShopStub,
};

mod interfaces {
    include!(concat!(env!("OUT_DIR"), "/interfaces.rs"));
}

const NAME: &str = "shop";
const LONG: Duration = Duration::from_secs(60);

struct Shop;

impl IShop for Shop {
    fn price(&self, order: &Order) -> Result<i32> {
        match order.count {
            1.. => Ok(7 * order.count),
            _ => Err(Status::new(ExceptionCode::IllegalArgument, "nothing is no order").into()),
        }
    }

    fn order(&self, order: &Order, buyer: &BuyerProxy) -> Result<()> {
        buyer.ready(order)
    }

    fn receipt(&self, order: &Order) -> Result<OwnedFd> {
        let (reader, mut writer) = std::io::pipe().map_err(|error| Error::io("cannot make a pipe", error))?;
        writeln!(writer, "{} x {}", order.count, order.what)
            .map_err(|error| Error::io("cannot write", error))?;
        Ok(reader.into())
    }
}

struct Buyer(Mutex<Sender<Order>>);

impl IBuyer for Buyer {
    fn ready(&self, order: &Order) -> Result<()> {
        let _ = self.0.lock().expect("nobody panics").send(order.clone());
        Ok(())
    }
}

fn buy(runtime: &Runtime) -> std::result::Result<(), Box<dyn AnyError>> {
    let shop: ShopProxy = runtime.services().wait_for_proxy(NAME, LONG)?;
    let order = Order { what: "tea".into(), count: 3 };
    println!("price {}", shop.price(&order)?);
    println!("refused: {}", shop.price(&Order { count: 0, ..order.clone() }).unwrap_err());

    let (send, receive) = channel();
    let buyer = BuyerStub::new(Buyer(Mutex::new(send))).proxy();
    shop.order(&order, &buyer)?;
    println!("ready: {}", receive.recv_timeout(LONG)?.what);

    let mut receipt = String::new();
    File::from(shop.receipt(&order)?).read_to_string(&mut receipt)?;
    print!("receipt: {receipt}");

    let tokio = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
    let later = ShopAsyncProxy::from(shop.clone());
    println!("price, awaited: {}", tokio.block_on(later.price(&order))?);

    let (send, ended) = channel();
    let _death = shop.binder().link_to_death(move || _ = send.send(()))?;
    println!("bought");
    ended.recv_timeout(LONG)?;
    println!("the shop has closed");
    Ok(())
}

fn main() -> std::result::Result<(), Box<dyn AnyError>> {
    let runtime = Runtime::connect()?;
    if std::env::args().nth(1).as_deref() == Some("buy") {
        return buy(&runtime);
    }
    runtime.services().add(NAME, ShopStub::new(Shop).binder(), ServiceOptions::default())?;
    println!("open");
    runtime.join_thread_pool();
    Ok(())
}
