//! `handoff service call --aidl`: against services whose code the interface compiler made.

use handoff_examples::interfaces::sample::everything::EverythingStub;
use handoff_examples::interfaces::sample::held::{Choice, Extended};
use handoff_ipc::parcel::Parcel;
use handoff_ipc::servicemanager::ServiceOptions;
use handoff_ipc::{Binder, ParcelService, Runtime};
use serde_json::{Value as Json, json};

use crate::everything::Everything;
use crate::holds;
use crate::services::{Manager, OPEN, failure, json as parsed, text};

const INTERFACES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/interfaces/aidl");

const HOLDERS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/interfaces/holders");

struct Desk {
    manager: Manager,
    runtime: Runtime,
}

impl Desk {
    fn new() -> Self {
        let manager = Manager::start(OPEN);
        let runtime = Runtime::builder().socket(manager.socket()).connect().expect("a manager");
        let service = EverythingStub::new(Everything).binder();
        runtime.services().add("everything", service, ServiceOptions::default()).expect("added");
        Self { manager, runtime }
    }

    fn call(&self, words: &[&str]) -> std::process::Output {
        self.manager.service(&[&["call", "--aidl", INTERFACES, "everything"][..], words].concat())
    }

    /// What a method returns.
    fn result(&self, words: &[&str]) -> Json {
        parsed(&self.call(&[&["--format", "json"][..], words].concat()))["result"].clone()
    }

    /// What it says of a call that cannot be.
    fn refusal(&self, words: &[&str]) -> String {
        failure(&self.call(words), 2)
    }
}

#[test]
fn values_of_every_type_go_and_come_back() {
    let desk = Desk::new();
    assert_eq!(desk.result(&["add", "2", "-42"]), json!(-40));
    assert_eq!(desk.result(&["add", "--", "2", "-0x2a"]), json!(-40));
    assert_eq!(text(&desk.call(&["add", "2", "3"])), "5\n");
    assert_eq!(desk.result(&["maybe", "null", "true"]), Json::Null);
    assert_eq!(desk.result(&["maybe", "\"null\"", "true"]), json!("null"));
    assert_eq!(desk.result(&["maybe", "a \"b\"", "true"]), json!("a \"b\""));
    assert_eq!(desk.result(&["reverse", r#"["a", "ü😀"]"#]), json!(["ü😀", "a"]));
    assert_eq!(desk.result(&["next", "GREEN"]), json!("BLUE"));
    assert_eq!(desk.result(&["next", "Color.BLUE"]), json!(7));
    assert_eq!(desk.result(&["all"]), json!(["RED", "GREEN", "BLUE"]));
    assert_eq!(desk.result(&["points", "null"]), Json::Null);
    let points = json!([null, {"x": 1, "y": -3}]);
    assert_eq!(desk.result(&["points", r#"[null, {"x": 1, "y": -3}]"#]), points);
    assert_eq!(desk.result(&["shape", r#"{"pixels": "0x00ff7f"}"#]), json!({"pixels": "0x00ff7f"}));
    assert_eq!(desk.result(&["shape", r#"{"corner": {}}"#]), json!({"corner": {"x": -3, "y": 0}}));
    assert_eq!(desk.result(&["styled", "abc"]), json!("ABC"));
    assert_eq!(desk.result(&["turn", "[1, 2, 3]"]), json!([3, 2, 1]));
    assert_eq!(desk.result(&["nobody", "everything"]), json!("an object"));
    assert_eq!(desk.result(&["nobody", "null"]), Json::Null);
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml");
    let size = std::fs::metadata(file).expect("it is there").len();
    assert_eq!(desk.result(&["size", file]), json!(size));
    assert_eq!(text(&desk.call(&["open", "x"])), "\"a file descriptor\"\n");
    // By its number, as AIDL counts.
    assert_eq!(desk.result(&["2", "2", "3"]), json!(5));
}

#[test]
fn a_parcelable_has_its_defaults_and_what_is_set() {
    let desk = Desk::new();
    let usual = desk.result(&["echo", "{}"]);
    assert_eq!((&usual["flag"], &usual["small"], &usual["letter"]), (&json!(true), &json!(-1), &json!("A")));
    assert_eq!((&usual["number"], &usual["big"]), (&json!(7), &json!(1_u64 << 33)));
    assert_eq!((&usual["half"], &usual["text"]), (&json!(0.5), &json!("hi \"you\"")));
    assert_eq!((&usual["color"], &usual["mode"]), (&json!("GREEN"), &json!("FAST")));
    assert_eq!((&usual["numbers"], &usual["matrix"]), (&json!([1, 2, 3]), &json!([[0, 0, 0], [0, 0, 0]])));
    assert_eq!((&usual["shape"], &usual["inner"]["kind"]), (&json!({"radius": 7}), &json!("SOME")));
    assert_eq!((&usual["next"], &usual["digest"]), (&Json::Null, &json!(format!("0x{}", "00".repeat(40)))));
    // What came can be sent again, and is the same.
    assert_eq!(desk.result(&["echo", &usual.to_string()]), usual);

    let mut full = usual;
    full["letter"] = json!("ß");
    full["colors"] = json!(["BLUE", 99, -1]);
    full["bytes"] = json!("0x0102ff");
    full["maybe"] = json!([null, "b"]);
    full["pi"] = json!("-inf");
    full["half"] = json!(0.1);
    full["mode"] = json!("FAR");
    full["inner"] = json!({"kind": "NONE", "more": [{"kind": "SOME", "more": null}, null]});
    full["next"] = full.clone();
    assert_eq!(desk.result(&["echo", &full.to_string()]), full);
}

#[test]
fn what_a_service_writes_into_parameters_is_shown_by_name() {
    let desk = Desk::new();
    let filled = parsed(&desk.call(&["--format", "json", "fill", "3", "7"]));
    assert_eq!(filled, json!({"result": null, "out": {"numbers": [7, 7, 7]}}));
    assert_eq!(
        text(&desk.call(&["grow", "[1, 255]"])),
        "bytes = \"0x01ffff\"\npoint = {\n  \"x\": -3,\n  \"y\": 3\n}\n"
    );
    let split = parsed(&desk.call(&["--format", "json", "countAndSplit", r#"["a", "b"]"#, "9", "null"]));
    assert_eq!((&split["result"], &split["out"]["first"]), (&json!(2), &json!(["a"])));
    assert_eq!(split["out"]["record"]["number"], json!(7));
}

#[test]
fn what_cannot_be_is_said_with_the_type_that_is_wanted() {
    let desk = Desk::new();
    for (words, told) in [
        (&["add", "2"][..], "add takes 2 arguments, and 1 is given: int add(int a, int b)"),
        (&["add", "2", "3", "4"], "and 3 are given"),
        (
            &["add", "2", "2147483648"],
            "argument `b`: 2147483648 is no `int`: a whole number from -2147483648 to",
        ),
        (&["add", "2", "1.5"], "argument `b`: \"1.5\" is no `int`"),
        (&["add", "2", ""], "argument `b`: \"\" is no `int`"),
        (&["maybe", "x", "yes"], "argument `wanted`: \"yes\" is no `boolean`: true or false is needed"),
        (&["ad", "2", "3"], "sample.everything.IEverything has no method `ad`; it has"),
        (&["reverse", "a,b"], "argument `texts`: `a,b` is not JSON"),
        (&["reverse", "[1]"], "argument `texts`[0]: 1 is no `String`: text is needed"),
        (&["reverse", "[null]"], "argument `texts`[0]: null is no `String`"),
        (
            &["next", "PINK"],
            "\"PINK\" is no `sample.everything.Color`: RED, GREEN, BLUE, or a number, is needed",
        ),
        (&["next", "128"], "argument `color`: 128 is no"),
        (&["turn", "[1, 2]"], "a JSON array of 3 items is needed"),
        (&["shape", "{}"], "is a union: exactly one of its fields is set: radius, corner, name, pixels"),
        (&["shape", r#"{"radius": 1, "name": null}"#], "exactly one of its fields is set"),
        (&["shape", r#"{"size": 1}"#], "has no field `size`"),
        (
            &["echo", r#"{"point": {"z": 1}}"#],
            "argument `record`.point: sample.everything.Point has no field `z`",
        ),
        (&["echo", r#"{"bytes": "0x0"}"#], "argument `record`.bytes: \"0x0\" is no `byte[]`"),
        (&["echo", r#"{"half": 1e300}"#], "argument `record`.half"),
        (&["echo", "null"], "null is no `sample.everything.Record`: JSON like {"),
        (&["fill", "-1", "7"], "is not a number of items"),
        (&["nobody", "nosuch"], "argument `object`"),
        (&["size", "/no/such/file"], "cannot open the file /no/such/file to hand it over"),
        (&["sum", "[]", "1"], "cannot be written on a command line"),
        (&["fail", "12"], "as asked"),
    ] {
        let refusal = desk.refusal(words);
        assert!(refusal.contains(told), "{words:?}: {refusal}");
    }
    let deep = "[".repeat(100_000);
    assert!(desk.refusal(&["reverse", &deep]).contains("is not JSON"));
    // A file of another interface, one that is not there, and the number that the untyped form wants.
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/cmd/aidl.in/good");
    let other = failure(&desk.manager.service(&["call", "everything", "add", "1", "--aidl", file]), 2);
    assert!(
        other.contains("everything is a \"sample.everything.IEverything\", and the files have"),
        "{other}"
    );
    let none = failure(&desk.manager.service(&["call", "everything", "add", "--aidl", "/no/such.aidl"]), 2);
    assert!(none.contains("/no/such.aidl"), "{none}");
    let untyped = failure(&desk.manager.service(&["call", "everything", "add", "1"]), 2);
    assert!(untyped.contains("--aidl FILE"), "{untyped}");
}

#[test]
fn a_long_list_tells_what_serves() {
    let desk = Desk::new();
    let rows = parsed(&desk.manager.service(&["list", "-l", "every*", "--format", "json"]));
    assert_eq!(rows[0]["pid"], json!(std::process::id()));
    let own = std::fs::read_to_string("/proc/self/cmdline").expect("it is there");
    let own = own.split('\0').next().expect("a name").to_owned();
    assert!(rows[0]["command"].as_str().is_some_and(|command| command.starts_with(&own)), "{rows}");
    assert!(rows[0]["running_seconds"].is_u64(), "{rows}");
    assert!(text(&desk.manager.service(&["list", "-l"])).contains("RUNS FOR"));
    assert!(!text(&desk.manager.service(&["list"])).contains("RUNS FOR"));
}

#[test]
fn a_holder_holds_what_is_named() {
    let desk = Desk::new();
    desk.runtime.services().add("holds", holds::service(), ServiceOptions::default()).expect("added");
    // The service gives back what it gets, if it is the bytes that Rust writes.
    let call = |method, value: &Json| {
        let value = value.to_string();
        desk.manager.service(&["call", "--aidl", HOLDERS, "holds", method, &value, "--format", "json"])
    };
    let echo = |method, value: &Json| parsed(&call(method, value))["result"].clone();
    let empty = json!({"number": 1, "extension": {}, "name": null});
    assert_eq!(echo("echo", &json!({})), empty);
    let inner = json!({"text": "b", "numbers": [], "more": {}});
    let extra = json!({"text": "a", "numbers": [1, -2], "more": {"sample.held.Extra": inner}});
    assert_eq!(echo("echoStable", &extra), extra);
    for held in [json!({"sample.held.Extra": extra}), json!({"sample.held.Choice": {"text": "x"}})] {
        let value = json!({"number": 2, "extension": held, "name": "n"});
        assert_eq!(echo("echo", &value), value);
    }
    for (method, value, why) in [
        ("echo", json!({"extension": 3}), "`value`.extension: a ParcelableHolder is {}, or {"),
        ("echo", json!({"extension": {"a": 1, "b": 2}}), "`value`.extension: a ParcelableHolder is {}, or {"),
        ("echo", json!({"extension": {"a.B": {}}}), "the files have no parcelable or union `a.B`"),
        (
            "echo",
            json!({"extension": {"sample.held.IHolds": {}}}),
            "no parcelable or union `sample.held.IHolds`",
        ),
        (
            "echo",
            json!({"extension": {"sample.held.Choice": {"number": ""}}}),
            "extension.sample.held.Choice",
        ),
        ("echoStable", json!({"more": {"sample.held.Choice": {"number": 1}}}), "is not `@VintfStability`"),
    ] {
        let said = failure(&call(method, &value), 2);
        assert!(said.contains(why), "{said}");
    }

    // What the files do not have is shown as it came.
    let vendor = ParcelService::new("sample.held.IHolds", |_, _| {
        let (mut value, mut reply) = (Extended::default(), Parcel::new());
        value.extension.set(&Choice::Number(7))?;
        reply.write(|to| to.write(&value)).map(|()| Some(reply))
    });
    desk.runtime.services().add("vendor", Binder::new(vendor), ServiceOptions::default()).expect("added");
    let file = format!("{HOLDERS}/sample/held/IHolds.aidl");
    let said =
        parsed(&desk.manager.service(&["call", "--aidl", &file, "vendor", "echo", "{}", "--format", "json"]));
    assert_eq!(said["result"]["extension"], json!({"sample.held.Choice": "0x0000000007000000"}));
}
