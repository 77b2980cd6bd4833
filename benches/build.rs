//! Makes Rust and C++ of the interface that `ndk.rs` measures.

use std::path::PathBuf;

use handoff_aidl::{Builder, ClassOptions, Options, compile, generate_cpp};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    Builder::new().source("ndk").compile("interfaces.rs")?;
    let out = PathBuf::from(std::env::var_os("OUT_DIR").ok_or("OUT_DIR is not set")?).join("cpp");
    let compilation = compile(&Options::default(), &["ndk".into()]);
    let files = generate_cpp(&compilation, &ClassOptions::default())
        .map_err(|wrong| wrong.render(&compilation.sources, false))?;
    for file in files {
        let path = out.join(file.path);
        std::fs::create_dir_all(path.parent().unwrap_or(&out))?;
        std::fs::write(path, file.text)?;
    }
    Ok(())
}
