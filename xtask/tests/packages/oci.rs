//! The container image: unpacked as a runtime does it, and run in namespaces of its own.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use handoff_testkit::{require, require_root, require_tool};
use serde_json::Value;

use super::built::{Manager, dist, run};

/// The file of a descriptor, after its digest and its size were compared.
fn blob(image: &Path, descriptor: &Value) -> PathBuf {
    let digest =
        descriptor["digest"].as_str().and_then(|digest| digest.strip_prefix("sha256:")).expect("a digest");
    let file = image.join("blobs/sha256").join(digest);
    let sum = run(Command::new("sha256sum").arg(&file));
    assert!(sum.starts_with(digest), "{sum}");
    assert_eq!(fs::metadata(&file).expect("there").len(), descriptor["size"].as_u64().expect("a size"));
    file
}

fn json(file: &Path) -> Value {
    serde_json::from_slice(&fs::read(file).expect("read")).expect("JSON")
}

#[test]
fn the_image_runs_in_namespaces_of_its_own_and_finds_a_mounted_socket() {
    require!(require_root());
    let unshare = require!(require_tool("unshare"));
    let files = dist("program,oci");
    let folder = tempfile::tempdir().expect("a folder");
    let image = folder.path().join("image");
    fs::create_dir(&image).expect("made");
    run(Command::new("tar").arg("-xf").arg(&files[1]).arg("-C").arg(&image));
    assert_eq!(json(&image.join("oci-layout"))["imageLayoutVersion"], "1.0.0");
    let index = json(&image.join("index.json"));
    let manifest = json(&blob(&image, &index["manifests"][0]));
    let config = json(&blob(&image, &manifest["config"]));
    let layer = blob(&image, &manifest["layers"][0]);

    let root = folder.path().join("root");
    fs::create_dir(&root).expect("made");
    run(Command::new("tar").arg("-xzf").arg(&layer).arg("-C").arg(&root));
    let unpacked = run(Command::new("sh").args(["-c", "gzip -dc \"$0\" | sha256sum"]).arg(&layer));
    let expected =
        config["rootfs"]["diff_ids"][0].as_str().and_then(|id| id.strip_prefix("sha256:")).expect("an id");
    assert!(unpacked.starts_with(expected), "{unpacked}");

    // As the configuration says: its user, its variables, its program; and the manager's folder mounted.
    let manager = Manager::start(&files[0]);
    let words = |value: &Value| -> Vec<String> {
        let list = value.as_array().expect("a list");
        list.iter().map(|word| word.as_str().expect("text").to_owned()).collect()
    };
    let process = &config["config"];
    let container = |arguments: &[&str]| {
        let mut command = Command::new(&unshare);
        command.args(["--mount", "--pid", "--ipc", "--uts", "--net", "--fork", "--kill-child", "sh", "-c"]);
        command
            .arg("mount --bind \"$1\" \"$2/run/handoff\" && shift && exec chroot --userspec=\"$0\" \"$@\"");
        command.arg(process["User"].as_str().expect("a user")).arg(manager.folder.path()).arg(&root);
        command.args(words(&process["Entrypoint"])).args(arguments);
        command.env_remove("HANDOFF_SOCKET");
        command.envs(
            words(&process["Env"])
                .iter()
                .filter(|word| !word.starts_with("PATH="))
                .map(|word| word.split_once('=').expect("a variable")),
        );
        command
    };
    let arguments = words(&process["Cmd"]);
    let help = run(&mut container(&arguments.iter().map(String::as_str).collect::<Vec<_>>()));
    assert!(help.contains("handoff"), "{help}");
    let list = run(&mut container(&["service", "list"]));
    assert!(list.contains("android.os.IServiceManager"), "{list}");
}
