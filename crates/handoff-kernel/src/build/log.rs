//! Reads the log of a kernel build: what was compiled, and what went wrong first.

use std::fmt;

use serde::Serialize;

/// Lines of context that are kept with a message.
const CONTEXT: usize = 8;
/// Messages of one kind that are kept.
const MOST: usize = 200;

/// How bad a message is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Severity {
    /// The build went on.
    Warning,
    /// The file did not compile, or the kernel did not link.
    Error,
}

/// A message of the compiler, the linker or make.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Diagnostic {
    /// How bad it is.
    pub severity: Severity,
    /// The file, as the compiler names it; empty for make's own messages.
    pub file: String,
    /// The line, from 1; 0 if there is none.
    pub line: u32,
    /// The column, from 1; 0 if there is none.
    pub column: u32,
    pub message: String,
    /// The lines of the log around it: the function it is in, the code, notes.
    pub context: Vec<String>,
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.file.is_empty() {
            write!(f, "{}:", self.file)?;
            if self.line > 0 {
                write!(f, "{}:", self.line)?;
            }
            if self.column > 0 {
                write!(f, "{}:", self.column)?;
            }
            write!(f, " ")?;
        }
        f.write_str(&self.message)?;
        self.context.iter().try_for_each(|line| write!(f, "\n    {line}"))
    }
}

/// What a build's log says.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BuildLog {
    /// Objects that were compiled or assembled, for the kernel and not for the host.
    pub compiled: usize,
    /// Errors, the first first: those of compiler and linker before make's own.
    pub errors: Vec<Diagnostic>,
    /// Warnings, the first first.
    pub warnings: Vec<Diagnostic>,
}

impl BuildLog {
    #[must_use]
    pub fn parse(text: &str) -> Self {
        let lines: Vec<&str> = text.lines().collect();
        let mut log = Self::default();
        let mut of_make = Vec::new();
        for (index, line) in lines.iter().enumerate() {
            let mut words = line.split_whitespace();
            if line.starts_with("  ") && matches!(words.next(), Some("CC" | "AS")) {
                log.compiled += 1;
            }
            let Some(mut found) = compiler_message(line).or_else(|| linker_message(line)) else {
                if let Some(found) = make_message(line) {
                    of_make.push((index, found));
                }
                continue;
            };
            found.context = around(&lines, index);
            let kept = if found.severity == Severity::Error { &mut log.errors } else { &mut log.warnings };
            if kept.len() < MOST {
                kept.push(found);
            }
        }
        if let (true, Some((index, mut first))) = (log.errors.is_empty(), of_make.into_iter().next()) {
            // Whatever failed said something that is not known here: show what came before.
            let before = lines[index.saturating_sub(CONTEXT)..index].iter();
            first.context = before.map(|line| (*line).to_owned()).collect();
            log.errors.push(first);
        }
        log
    }

    /// The log with what went wrong first at its top.
    #[must_use]
    pub fn with_first_error_first(&self, text: &str) -> String {
        let Some(first) = self.errors.first() else { return text.to_owned() };
        let others = self.errors.len() - 1;
        format!("first error: {first}\n\n({others} more; the whole log follows)\n\n{text}")
    }
}

/// `FILE:LINE:COLUMN: error: MESSAGE`, as GCC and Clang write it.
fn compiler_message(line: &str) -> Option<Diagnostic> {
    let kinds = [
        (": fatal error: ", Severity::Error),
        (": error: ", Severity::Error),
        (": warning: ", Severity::Warning),
    ];
    let (place, message, severity) = kinds.iter().find_map(|(mark, severity)| {
        line.split_once(mark).map(|(place, message)| (place, message, *severity))
    })?;
    let (rest, last) = place.rsplit_once(':')?;
    let last = last.parse().ok()?;
    let with_column = rest.rsplit_once(':').and_then(|(file, line)| Some((file, line.parse().ok()?)));
    // The assembler gives no column.
    let (file, line, column) = with_column.map_or((rest, last, 0), |(file, line)| (file, line, last));
    if file.is_empty() || file.contains(char::is_whitespace) {
        return None;
    }
    Some(Diagnostic {
        severity,
        file: file.to_owned(),
        line,
        column,
        message: message.to_owned(),
        context: Vec::new(),
    })
}

/// An undefined symbol, as ld and modpost report it.
fn linker_message(line: &str) -> Option<Diagnostic> {
    let undefined = line.contains("undefined reference to")
        || (line.starts_with("ERROR: modpost:") && line.contains("undefined"))
        || line.contains("multiple definition of");
    undefined.then(|| {
        let (file, message) = match line.split_once(": ") {
            Some((_, message)) if line.starts_with("ERROR: modpost: ") => {
                ("modpost".to_owned(), message.trim_start_matches("modpost: ").to_owned())
            }
            Some((place, _)) => (place.to_owned(), line.rsplit(": ").next().unwrap_or(line).to_owned()),
            None => (String::new(), line.to_owned()),
        };
        Diagnostic { severity: Severity::Error, file, line: 0, column: 0, message, context: Vec::new() }
    })
}

/// `make[2]: *** [TARGET] Error 1`, or a program of the host that is missing.
fn make_message(line: &str) -> Option<Diagnostic> {
    let message = if line.contains(": not found") || line.contains(": command not found") {
        line.to_owned()
    } else {
        line.split_once("*** ").filter(|(make, _)| make.starts_with("make"))?.1.to_owned()
    };
    Some(Diagnostic {
        severity: Severity::Error,
        file: String::new(),
        line: 0,
        column: 0,
        message,
        context: Vec::new(),
    })
}

/// The function that a message is in, before it, and the code and notes behind it.
fn around(lines: &[&str], index: usize) -> Vec<String> {
    let before =
        index.checked_sub(1).map(|before| lines[before]).filter(|line| line.contains(": In function "));
    let behind = lines[index + 1..].iter().take(CONTEXT).take_while(|line| {
        // Code is shown behind "  123 | ", notes name their place; anything else is the next message.
        line.trim_start()
            .split_once('|')
            .is_some_and(|(number, _)| number.trim().chars().all(|c| c.is_ascii_digit()))
            || line.contains(": note: ")
    });
    before.iter().copied().chain(behind.copied()).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const FAILED: &str = "  CC      kernel/fork.o
  HOSTCC  scripts/x.o
  CC      kernel/sched/fair.o
../kernel/sched/fair.c: In function 'wake_wide':
../kernel/sched/fair.c:5842:9: error: 'nope' undeclared (first use in this function)
 5842 |         nope = 1;
      |         ^~~~
../kernel/sched/fair.c:5842:9: note: each undeclared identifier is reported only once
  AS      arch/x86/entry/entry.o
../net/ipv4/tcp.c:10:2: warning: unused variable 'x' [-Wunused-variable]
../net/ipv4/tcp.c:11:2: error: 'struct tcp_sock' has no member named 'y'
make[3]: *** [../scripts/Makefile.build:250: kernel/sched/fair.o] Error 1
make: *** [Makefile:238: __sub-make] Error 2
";

    #[test]
    fn the_first_error_comes_first_with_its_code() {
        let log = BuildLog::parse(FAILED);
        assert_eq!((log.compiled, log.errors.len(), log.warnings.len()), (3, 2, 1));
        let first = &log.errors[0];
        assert_eq!((first.file.as_str(), first.line, first.column), ("../kernel/sched/fair.c", 5842, 9));
        assert!(first.message.starts_with("'nope' undeclared"));
        assert_eq!(first.context.len(), 4, "{:?}", first.context);
        assert!(first.context[0].contains("In function 'wake_wide'"));
        let text = log.with_first_error_first(FAILED);
        assert!(text.starts_with("first error: ../kernel/sched/fair.c:5842:9: 'nope'"), "{text}");
        assert!(text.ends_with(FAILED) && text.contains("(1 more"));
    }

    #[test]
    fn linkers_and_modpost_are_understood() {
        let log = BuildLog::parse(
            "ld: kernel/sched/fair.o: in function `f':\nfair.c:(.text+0x10): undefined reference to `g'\n\
             ERROR: modpost: \"h\" [net/x.ko] undefined!\nmake: *** [Makefile:1: vmlinux] Error 1\n",
        );
        assert_eq!(log.errors.len(), 2);
        assert_eq!(log.errors[0].message, "undefined reference to `g'");
        assert_eq!(log.errors[1].to_string(), "modpost: \"h\" [net/x.ko] undefined!");
    }

    #[test]
    fn an_unknown_failure_shows_what_came_before() {
        let log = BuildLog::parse("  GEN x\nscripts/odd: something odd\nmake: *** [Makefile:9: x] Error 1\n");
        assert_eq!(log.errors[0].message, "[Makefile:9: x] Error 1");
        assert_eq!(log.errors[0].context, ["  GEN x", "scripts/odd: something odd"]);
        let log = BuildLog::parse("/bin/sh: 1: flex: not found\nmake[1]: *** [x] Error 127\n");
        assert!(log.errors[0].message.contains("flex: not found"));
    }

    #[test]
    fn a_good_log_has_no_errors() {
        let text = "  CC      a.o\n  BUILD   arch/x86/boot/bzImage\nKernel: arch/x86/boot/bzImage is ready\n";
        let log = BuildLog::parse(text);
        assert_eq!((log.compiled, log.errors.len()), (1, 0));
        assert_eq!(log.with_first_error_first(text), text);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(128))]

        #[test]
        fn any_log_is_read(text in "(a\\.c|:|[0-9]{1,12}| error: | warning: |make|\\*\\*\\* |\n| \\| |undefined reference to|\\PC){0,40}") {
            let log = BuildLog::parse(&text);
            prop_assert!(log.errors.iter().all(|error| error.severity == Severity::Error));
        }
    }
}
