//! The service, called as another process would call it. The `local` engine needs no service manager.

use handoff_ipc::Runtime;
use handoff_ipc::engine::EngineKind;
use handoff_ipc::servicemanager::ServiceOptions;
use hello::Hello;
use hello::interfaces::hello::{HelloProxy, HelloStub, IHello};

#[test]
fn it_greets_and_counts() {
    let runtime = Runtime::builder().engine(EngineKind::Local).connect().unwrap();
    let service = HelloStub::new(Hello::default()).binder();
    runtime.services().add("hello", service, ServiceOptions::default()).unwrap();

    let hello: HelloProxy = runtime.services().find("hello").unwrap();
    assert_eq!(hello.greet("Ada").unwrap(), "Good day, Ada");
    assert!(hello.greet("").unwrap_err().to_string().contains("nobody has an empty name"));
    assert_eq!(hello.greeted().unwrap(), 1);
}
