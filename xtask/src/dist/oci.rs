//! The program as a container image: a tar archive in the image layout of the Open Container Initiative
//! (image-spec 1.1), which `podman load`, `skopeo copy oci-archive:` and `docker load` (from 25.0) take.
//!
//! The image has one layer with the program and the few files that a program may ask for. No daemon, and no tool but
//! this one, takes part: a layer is an archive, everything else is JSON.

use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;

use anyhow::Result;
use flate2::{Compression, GzBuilder};
use serde_json::{Value, json};

use super::files::{Tree, replace};
use super::program;
use super::settings::{Arch, Dist, VERSION};
use super::sums::sha256;

/// The user that the program runs as, which has no name outside of the image.
const USER: &str = "65532:65532";

/// Builds one image with a manifest for each architecture.
pub(super) fn build(dist: &Dist) -> Result<PathBuf> {
    let image = Tree::new()?;
    let mut manifests = Vec::new();
    for arch in &dist.archs {
        manifests.push(add_manifest(&image, dist, *arch)?);
    }
    image.write("oci-layout", json!({"imageLayoutVersion": "1.0.0"}).to_string(), 0o644)?;
    let index = json!({
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.index.v1+json",
        "manifests": manifests,
    });
    image.write("index.json", index.to_string(), 0o644)?;
    let file = dist.folder.join(format!("handoff-{VERSION}-oci.tar"));
    replace(&file, 0o644, |to| image.tar("", to))?;
    Ok(file)
}

/// Adds the layer, the configuration and the manifest of one architecture; gives the manifest's descriptor.
fn add_manifest(image: &Tree, dist: &Dist, arch: Arch) -> Result<Value> {
    let layer = layer(program::build(dist, arch)?)?;
    let mut gzip = GzBuilder::new().write(Vec::new(), Compression::new(6));
    gzip.write_all(&layer)?;
    let compressed = add_blob(image, "application/vnd.oci.image.layer.v1.tar+gzip", &gzip.finish()?)?;
    let config = json!({
        "architecture": arch.debian_name(),
        "os": "linux",
        "config": {
            "Entrypoint": ["/usr/bin/handoff"],
            "Cmd": ["--help"],
            "User": USER,
            "WorkingDir": "/",
            // Where a service manager's socket of the host, or of another container, is to be mounted.
            "Env": ["PATH=/usr/bin", "HANDOFF_SOCKET=/run/handoff/servicemanager.sock"],
            "Labels": labels(),
        },
        "rootfs": {"type": "layers", "diff_ids": [format!("sha256:{}", sha256(&layer))]},
        "history": [{"created_by": "cargo xtask dist"}],
    });
    let config = add_blob(image, "application/vnd.oci.image.config.v1+json", config.to_string().as_bytes())?;
    let manifest = json!({
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": config,
        "layers": [compressed],
        "annotations": labels(),
    });
    let mut manifest =
        add_blob(image, "application/vnd.oci.image.manifest.v1+json", manifest.to_string().as_bytes())?;
    manifest["platform"] = json!({"architecture": arch.debian_name(), "os": "linux"});
    manifest["annotations"] = json!({"org.opencontainers.image.ref.name": VERSION});
    Ok(manifest)
}

fn labels() -> Value {
    json!({
        "org.opencontainers.image.title": "handoff",
        "org.opencontainers.image.version": VERSION,
        "org.opencontainers.image.licenses": "Apache-2.0 OR MIT",
    })
}

/// What the container sees, as an archive.
fn layer(program: PathBuf) -> Result<Vec<u8>> {
    let tree = Tree::new()?;
    tree.copy(program, "usr/bin/handoff", 0o755)?;
    tree.write(
        "etc/passwd",
        "root:x:0:0:root:/:/nologin\nhandoff:x:65532:65532:handoff:/:/nologin\n",
        0o644,
    )?;
    tree.write("etc/group", "root:x:0:\nhandoff:x:65532:\n", 0o644)?;
    tree.add_licences("usr/share/doc/handoff")?;
    // A mounted socket's place, and one for reports. Anybody may write to both, as to any temporary folder.
    for folder in ["tmp", "run/handoff"] {
        tree.write(&format!("{folder}/.keep"), "", 0o644)?;
        std::fs::remove_file(tree.path().join(folder).join(".keep"))?;
        std::fs::set_permissions(tree.path().join(folder), std::fs::Permissions::from_mode(0o1777))?;
    }
    let mut bytes = Vec::new();
    tree.tar("", &mut bytes)?;
    Ok(bytes)
}

/// Adds a blob under its digest; gives its descriptor.
fn add_blob(image: &Tree, media_type: &str, bytes: &[u8]) -> Result<Value> {
    let digest = sha256(bytes);
    image.write(&format!("blobs/sha256/{digest}"), bytes, 0o644)?;
    Ok(json!({"mediaType": media_type, "digest": format!("sha256:{digest}"), "size": bytes.len()}))
}
