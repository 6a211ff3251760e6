//! Compiles each program of `bpf/` for the kernel's virtual machine, and writes the list of them.

use std::path::Path;
use std::process::Command;
use std::{env, fs};

fn main() {
    println!("cargo::rerun-if-changed=bpf");
    if env::var_os("CARGO_FEATURE_KERNEL").is_none() {
        return;
    }
    println!("cargo::rerun-if-env-changed=CLANG");
    let out = env::var("OUT_DIR").expect("cargo sets it");
    let clang = env::var("CLANG").unwrap_or_else(|_| "clang".into());
    let mut names: Vec<String> = fs::read_dir("bpf")
        .expect("the folder of the programs")
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .filter_map(|file| file.strip_suffix(".bpf.c").map(str::to_owned))
        .collect();
    names.sort();
    let mut list = String::from("[\n");
    for name in &names {
        let object = Path::new(&out).join(format!("{name}.o"));
        let compiled = Command::new(&clang)
            .args([
                "-O2",
                "-g",
                "-Wall",
                "-Wextra",
                "-Werror",
                "-target",
                "bpf",
                "-mcpu=v3",
                "-fdebug-compilation-dir",
                ".",
            ])
            .args(["-c", &format!("bpf/{name}.bpf.c"), "-o"])
            .arg(&object)
            .status();
        match compiled {
            Ok(status) if status.success() => {}
            Ok(status) => panic!("{clang} could not compile bpf/{name}.bpf.c ({status})"),
            Err(e) => {
                panic!("{clang} compiles the kernel's programs and could not be run: {e}; `make kernel` installs it")
            }
        }
        list.push_str(&format!("    (\"{name}\", include_bytes!({object:?})),\n"));
    }
    list.push_str("]\n");
    fs::write(Path::new(&out).join("programs.rs"), list).expect("cargo's folder is writable");
}
