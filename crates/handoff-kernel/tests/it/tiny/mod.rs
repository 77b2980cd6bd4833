//! A tree that speaks Kbuild's language but is built in a moment.

use handoff_kernel::build::KernelArch;
use handoff_testkit::require_tool;

/// The targets and variables of a kernel's Makefile that a build uses.
pub(crate) const MAKEFILE: &str = r#"
VERSION = 6
PATCHLEVEL = 1
CFLAGS = -O2
%config: ; @printf 'CONFIG_BASE=y\n# CONFIG_NET is not set\nCONFIG_NAME="x"\n' >$(O)/.config
olddefconfig: ; @awk -f $(CURDIR)/scripts/conf.awk $(CURDIR)/Kconfig $(O)/.config >$(O)/.new && mv $(O)/.new $(O)/.config
bzImage Image zImage: $(O)/fair.o $(O)/tcp.o
	@mkdir -p $(O)/include/config $(dir $(O)/$(IMAGE_$@))
	@echo 6.1.0-test >$(O)/include/config/kernel.release
	@cat $^ >$(O)/$(IMAGE_$@)
IMAGE_bzImage = arch/x86/boot/bzImage
IMAGE_Image = arch/arm64/boot/Image
IMAGE_zImage = arch/arm/boot/zImage
flags = $(CFLAGS) $(CFLAGS_$(notdir $@)) $(if $(GCOV_PROFILE_$(notdir $@)),--coverage)
$(O)/%.o: FORCE
	@echo '$(CC) $(flags)' | cmp -s - $@.flags && [ ! $(file) -nt $@ ] || { \
	  echo '  CC      $*.o'; echo '$(CC) $(flags)' >$@.flags; $(CC) $(flags) -c -o $@ $(file); }
$(O)/fair.o: file = kernel/sched/fair.c
$(O)/tcp.o: file = net/tcp.c
modules: ; @echo '  MOD'
rustavailable: ; @[ -e $(CURDIR)/rust-is-new ] || { printf '***\n*** Rust compiler is too old.\n***\n' >&2; false; }
FORCE:
"#;

/// Keeps the last value of each symbol that Kconfig has, and drops what depends on what is off.
const CONF: &str = r##"
FNR == NR { if ($1 == "config") { name = "CONFIG_" $2; known[name] = 1 } if ($1 == "depends") needs[name] = "CONFIG_" $3; next }
/^CONFIG_/ { split($0, part, "="); value[part[1]] = substr($0, length(part[1]) + 2) }
/^# CONFIG_.* is not set/ { value[$2] = "n" }
END { for (name in value) if (known[name]) {
  if (value[name] == "n" || (needs[name] && value[needs[name]] !~ /[ym]/)) print "# " name " is not set"
  else print name "=" value[name] } }
"##;

const KCONFIG: &str = "config BASE\n\tbool \"b\"\nconfig NET\n\tbool \"n\"\nconfig BINDER\n\tbool \"x\"\n\tdepends on NET\n\
    config NAME\n\tstring \"s\"\nconfig DEBUG_FS\n\tbool \"d\"\nconfig GCOV_KERNEL\n\tbool \"g\"\nconfig RUST\n\tbool \"r\"\n";

const FAIR: &str =
    "static int wake_wide(int x) { return x * 3; }\nint select_task(int x) { return wake_wide(x); }\n";

/// The tree, in a folder of its own beside the build.
pub(crate) struct Tree {
    folder: tempfile::TempDir,
}

impl Tree {
    pub(crate) fn new() -> Self {
        let tree = Self { folder: tempfile::tempdir().expect("a folder") };
        tree.write("Makefile", MAKEFILE);
        tree.write("Kconfig", KCONFIG);
        tree.write("scripts/conf.awk", CONF);
        tree.write("kernel/sched/fair.c", FAIR);
        tree.write("net/tcp.c", "int tcp(void) { return 1; }\n");
        tree
    }

    pub(crate) fn path(&self, name: &str) -> std::path::PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn write(&self, name: &str, text: &str) {
        let path = self.path("tree").join(name);
        std::fs::create_dir_all(path.parent().expect("a parent")).expect("made");
        std::fs::write(path, text).expect("written");
    }
}

/// What building it needs.
pub(crate) fn tools() -> Result<(), String> {
    KernelArch::host().ok_or("needs a machine that kernels are built on")?;
    ["make", "gcc", "flex", "bison", "bc", "perl", "awk"]
        .iter()
        .try_for_each(|tool| require_tool(tool).map(drop))
}
