//! Which branches of a function were taken, from gcov's counts of one file of the kernel.

use std::fmt;
use std::path::Path;
use std::process::Command;

use serde::{Deserialize, Serialize};

use super::ProveError;
use handoff_guest::{Guest, GuestCommand};

/// Where the kernel keeps the counts.
const FOLDER: &str = "/sys/kernel/debug/gcov";

/// One line of a function with the branches that leave it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Branch {
    /// The line of the file.
    pub line: u64,
    /// How often it was executed.
    pub count: u64,
    /// How often each branch that leaves it was taken.
    pub taken: Vec<u64>,
    /// What stands there, where the tree is at hand.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub text: String,
}

impl fmt::Display for Branch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let taken: Vec<String> = self.taken.iter().map(ToString::to_string).collect();
        write!(f, "line {}: executed {}, branches taken {}", self.line, self.count, taken.join(", "))?;
        if self.text.is_empty() { Ok(()) } else { write!(f, ": `{}`", self.text) }
    }
}

/// Sets all counts to 0; mounts debugfs where that was not done.
pub(super) fn reset_script() -> String {
    format!(
        "[ -e {FOLDER}/reset ] || mount -t debugfs none /sys/kernel/debug; \
         [ ! -e {FOLDER}/reset ] || echo 0 >{FOLDER}/reset"
    )
}

type Counts = (f64, Vec<Branch>);

/// How often a function of a file was called, and its branches; or why nobody counted.
pub(super) fn read(
    guest: &mut Guest,
    build: &Path,
    file: &str,
    function: &str,
) -> Result<Result<Counts, String>, ProveError> {
    let fail = |what: &str, error: &dyn fmt::Display| ProveError::Gcov(format!("{what}: {error}"));
    let build = build.canonicalize().map_err(|error| fail("the build folder", &error))?;
    let stem = file.trim_end_matches(".c");
    let notes = build.join(format!("{stem}.gcno"));
    if !notes.is_file() {
        return Ok(Err(format!("{file} was built without counting: build with `--count-branches {file}`")));
    }
    // Under the path of the folder that it was built in, which need not be the one with the notes.
    let script = format!("f=$(find {FOLDER} -path '*/{stem}.gcda' | head -n 1); [ -n \"$f\" ] && cat \"$f\"");
    let output = guest.run(&GuestCommand::shell(script))?;
    if !output.success() {
        return Ok(Err(format!("the guest's kernel has no counts of {file}: it is another build's")));
    }
    let area = tempfile::tempdir().map_err(|error| fail("a temporary folder", &error))?;
    let name = stem.rsplit('/').next().unwrap_or(stem);
    let into = |end: &str| area.path().join(format!("{name}.{end}"));
    std::fs::copy(&notes, into("gcno")).map_err(|error| fail("the notes of the compiler", &error))?;
    std::fs::write(into("gcda"), &output.stdout).map_err(|error| fail("the counts", &error))?;
    let gcov = Command::new("gcov")
        .current_dir(area.path())
        .args(["--json-format", "--stdout", "--branch-probabilities", "--branch-counts"])
        .arg(into("gcda"))
        .output()
        .map_err(|error| fail("gcov (it comes with GCC)", &error))?;
    if !gcov.status.success() {
        return Err(fail("gcov", &String::from_utf8_lossy(&gcov.stderr).trim()));
    }
    let counts = parse(&String::from_utf8_lossy(&gcov.stdout), function)
        .map_err(|error| fail("what gcov says", &error))?;
    // A build folder has a link to its tree; a folder that only keeps an image has none.
    let source = std::fs::read(build.join("source").join(file)).unwrap_or_default();
    let source = String::from_utf8_lossy(&source);
    Ok(counts.map(|(calls, branches)| (calls, with_text(branches, &source))))
}

/// The branches with what stands in their lines.
fn with_text(mut branches: Vec<Branch>, source: &str) -> Vec<Branch> {
    let lines: Vec<&str> = source.lines().collect();
    for branch in &mut branches {
        let line = usize::try_from(branch.line).ok().and_then(|line| lines.get(line.checked_sub(1)?));
        branch.text = line.map_or_else(String::new, |line| line.trim().to_owned());
    }
    branches
}

/// Finds a function in gcov's JSON.
fn parse(text: &str, function: &str) -> Result<Result<Counts, String>, serde_json::Error> {
    let report: GcovReport = serde_json::from_str(text)?;
    for file in report.files {
        let Some(found) = file.functions.iter().find(|candidate| candidate.name == function) else {
            continue;
        };
        let inside = |line: &&Line| (found.start_line..=found.end_line).contains(&line.line_number);
        let branches = file
            .lines
            .iter()
            .filter(inside)
            .filter(|line| !line.branches.is_empty())
            .map(|line| Branch {
                line: line.line_number,
                count: line.count,
                taken: line.branches.iter().map(|branch| branch.count).collect(),
                text: String::new(),
            })
            .collect();
        return Ok(Ok((found.execution_count as f64, branches)));
    }
    Ok(Err(format!("gcov knows no function {function} in that file")))
}

#[derive(Deserialize)]
struct GcovReport {
    files: Vec<File>,
}

#[derive(Deserialize)]
struct File {
    #[serde(default)]
    functions: Vec<Function>,
    #[serde(default)]
    lines: Vec<Line>,
}

#[derive(Deserialize)]
struct Function {
    name: String,
    start_line: u64,
    end_line: u64,
    execution_count: u64,
}

#[derive(Deserialize)]
struct Line {
    line_number: u64,
    count: u64,
    #[serde(default)]
    branches: Vec<Taken>,
}

#[derive(Deserialize)]
struct Taken {
    count: u64,
}

#[cfg(test)]
mod tests {
    use super::*;
    use handoff_testkit::{require, require_tool};

    #[test]
    fn what_gcov_writes_is_understood() {
        require!(require_tool("gcc").and_then(|_| require_tool("gcov")));
        let folder = tempfile::tempdir().expect("a folder");
        let source = "static __attribute__((noinline)) int half(int x)\n{\n\tif (x % 3 == 0)\n\t\treturn 0;\n\treturn x / 2;\n}\n\
                      int main(void)\n{\n\tint sum = 0;\n\tfor (int i = 0; i < 9; i++)\n\t\tsum += half(i);\n\treturn sum == 0;\n}\n";
        std::fs::write(folder.path().join("x.c"), source).expect("written");
        let run = |program: &str, arguments: &[&str]| {
            let output = Command::new(program).current_dir(folder.path()).args(arguments).output();
            let output = output.expect("it runs");
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            String::from_utf8_lossy(&output.stdout).into_owned()
        };
        run("gcc", &["-O2", "--coverage", "-c", "x.c"]);
        run("gcc", &["--coverage", "x.o", "-o", "x"]);
        run("./x", &[]);
        let text = run(
            "gcov",
            &["--json-format", "--stdout", "--branch-probabilities", "--branch-counts", "x.gcda"],
        );
        let (calls, branches) = parse(&text, "half").expect("JSON").expect("there");
        assert_eq!(calls, 9.0);
        let first = branches.iter().find(|branch| branch.line == 3).expect("the if");
        let mut taken = first.taken.clone();
        taken.sort_unstable();
        assert_eq!((first.count, taken), (9, vec![3, 6]));
        let told = with_text(branches.clone(), source);
        let told: Vec<String> = told.iter().map(ToString::to_string).collect();
        assert!(told.iter().any(|line| line.ends_with(": `if (x % 3 == 0)`")), "{told:?}");
        assert!(with_text(branches, "").iter().all(|branch| branch.text.is_empty()));
        assert!(parse(&text, "none").expect("JSON").is_err());
        assert!(parse("no json", "half").is_err());
    }
}
