//! What the packages are made of: every crate that is compiled into one of them, as CycloneDX 1.5 writes it
//! (cyclonedx.org/docs/1.5/json), for tools that look for known weaknesses.
//!
//! It is cargo's own resolution: tools that do the same (cargo-cyclonedx, cargo-sbom) write one file for each
//! manifest, beside it in the sources.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write as _;
use std::path::PathBuf;

use anyhow::{Context as _, Result};
use serde::Deserialize;
use serde_json::{Value, json};

use super::files::replace;
use super::settings::{Arch, Dist, VERSION};
use crate::process::{cargo, output};

/// The packages of the workspace that are packed.
const PACKED: [&str; 4] = ["handoff-cli", "handoff-c", "handoff-java", "handoff-python"];

#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Crate>,
    resolve: Resolve,
}

#[derive(Deserialize)]
struct Crate {
    id: String,
    name: String,
    version: String,
    license: Option<String>,
    description: Option<String>,
    repository: Option<String>,
    /// `None` if it is of the workspace.
    source: Option<String>,
}

#[derive(Deserialize)]
struct Resolve {
    nodes: Vec<Node>,
}

#[derive(Deserialize)]
struct Node {
    id: String,
    deps: Vec<Dependency>,
}

#[derive(Deserialize)]
struct Dependency {
    pkg: String,
    dep_kinds: Vec<Kind>,
}

#[derive(Deserialize)]
struct Kind {
    /// `None` is what is linked; `build` what runs while it is compiled, and may write code.
    kind: Option<String>,
}

/// Writes the bill of materials.
pub(super) fn build(dist: &Dist) -> Result<PathBuf> {
    let mut command = cargo();
    command.args(["metadata", "--locked", "--format-version", "1"]);
    command.args(["--features", if dist.lean { "" } else { "handoff-cli/full" }]);
    for arch in &dist.archs {
        command.args(["--filter-platform", &arch.target()]);
    }
    command.args(["--filter-platform", &Arch::this()?.target()]);
    let metadata =
        serde_json::from_str(&output(&mut command)?).context("cargo's metadata is not as documented")?;
    let mut text = serde_json::to_string_pretty(&bill(&metadata)?)?;
    text.push('\n');
    let file = dist.folder.join(format!("handoff-{VERSION}.cdx.json"));
    replace(&file, 0o644, |to| Ok(to.write_all(text.as_bytes())?))?;
    Ok(file)
}

fn bill(metadata: &Metadata) -> Result<Value> {
    let crates: BTreeMap<&str, &Crate> = metadata.packages.iter().map(|one| (one.id.as_str(), one)).collect();
    let nodes: BTreeMap<&str, &Node> =
        metadata.resolve.nodes.iter().map(|node| (node.id.as_str(), node)).collect();
    let packed = |one: &&Crate| one.source.is_none() && PACKED.contains(&one.name.as_str());
    let roots: Vec<&str> = metadata.packages.iter().filter(packed).map(|one| one.id.as_str()).collect();
    let mut seen: BTreeSet<&str> = roots.iter().copied().collect();
    let mut waiting = roots.clone();
    let mut dependencies = BTreeMap::new();
    while let Some(id) = waiting.pop() {
        let node = nodes.get(id).with_context(|| format!("cargo resolved no {id}"))?;
        let is_packed = |dependency: &&Dependency| {
            dependency.dep_kinds.iter().any(|kind| kind.kind.as_deref() != Some("dev"))
        };
        let needs: BTreeSet<&str> =
            node.deps.iter().filter(is_packed).map(|dependency| dependency.pkg.as_str()).collect();
        waiting.extend(needs.iter().copied().filter(|need| seen.insert(need)));
        dependencies.insert(id, needs);
    }
    let reference = |id: &str| crates.get(id).map(|one| one.reference());
    let components: Option<Vec<Value>> = seen.iter().map(|id| Some(crates.get(id)?.component())).collect();
    let mut edges: Vec<Value> = dependencies
        .iter()
        .map(|(id, needs)| {
            let needs: Vec<_> = needs.iter().filter_map(|need| reference(need)).collect();
            json!({"ref": reference(id), "dependsOn": needs})
        })
        .collect();
    let own = format!("pkg:generic/handoff@{VERSION}");
    edges.push(
        json!({"ref": own, "dependsOn": roots.iter().filter_map(|id| reference(id)).collect::<Vec<_>>()}),
    );
    Ok(json!({
        "$schema": "http://cyclonedx.org/schema/bom-1.5.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {"component": {"type": "application", "bom-ref": own, "name": "handoff", "version": VERSION}},
        "components": components.context("cargo resolved a crate that it does not describe")?,
        "dependencies": edges,
    }))
}

impl Crate {
    /// Its package URL (github.com/package-url), which names it everywhere.
    fn reference(&self) -> String {
        let place = match &self.source {
            Some(source) if !source.contains("crates.io-index") && !source.starts_with("sparse+") => {
                format!("?vcs_url={source}")
            }
            _ => String::new(),
        };
        // SemVer's `+` is the one character of versions that a URL does not take.
        format!("pkg:cargo/{}@{}{place}", self.name, self.version.replace('+', "%2B"))
    }

    fn component(&self) -> Value {
        let reference = self.reference();
        let mut component = json!({
            "type": "library",
            "bom-ref": reference,
            "name": self.name,
            "version": self.version,
            "purl": reference,
            "scope": "required",
        });
        if let Some(licence) = &self.license {
            // Cargo once wrote `MIT/Apache-2.0`, which is no SPDX expression.
            component["licenses"] = json!([{"expression": licence.replace('/', " OR ")}]);
        }
        if let Some(description) = &self.description {
            component["description"] = json!(description.split_whitespace().collect::<Vec<_>>().join(" "));
        }
        if let Some(repository) = &self.repository {
            component["externalReferences"] = json!([{"type": "vcs", "url": repository}]);
        }
        component
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn metadata() -> Metadata {
        let one = |name: &str, source: Option<&str>| json!({"id": name, "name": name, "version": "1.0.0+x", "license": "MIT/Apache-2.0", "source": source});
        let needs = |name: &str, kind: Option<&str>| json!({"pkg": name, "dep_kinds": [{"kind": kind}]});
        let registry = Some("registry+https://github.com/rust-lang/crates.io-index");
        serde_json::from_value(json!({
            "packages": [one("handoff-cli", None), one("handoff-benches", None), one("linked", registry),
                one("generator", registry), one("tester", registry), one("alone", registry)],
            "resolve": {"nodes": [
                {"id": "handoff-cli", "deps": [needs("linked", None), needs("tester", Some("dev"))]},
                {"id": "handoff-benches", "deps": [needs("alone", None)]},
                {"id": "linked", "deps": [needs("generator", Some("build"))]},
                {"id": "generator", "deps": []}, {"id": "tester", "deps": []}, {"id": "alone", "deps": []},
            ]},
        }))
        .expect("metadata")
    }

    #[test]
    fn what_is_packed_is_named_and_nothing_else() {
        let bill = bill(&metadata()).expect("a bill");
        let names: Vec<_> =
            bill["components"].as_array().expect("a list").iter().map(|one| &one["name"]).collect();
        assert_eq!(names, ["generator", "handoff-cli", "linked"]);
        assert_eq!(bill["components"][0]["purl"], "pkg:cargo/generator@1.0.0%2Bx");
        assert_eq!(bill["components"][0]["licenses"][0]["expression"], "MIT OR Apache-2.0");
        let references: BTreeSet<&str> = bill["dependencies"]
            .as_array()
            .expect("a list")
            .iter()
            .filter_map(|edge| edge["ref"].as_str())
            .collect();
        assert_eq!(references.len(), 4, "{references:?}");
    }
}
