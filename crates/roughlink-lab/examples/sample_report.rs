//! Writes two reports of made-up results, to look at: `cargo run -p roughlink-lab --example sample_report -- DIR`.

#[path = "../tests/sample/mod.rs"]
mod sample;

use std::path::PathBuf;

fn main() -> std::io::Result<()> {
    let dir = PathBuf::from(std::env::args().nth(1).unwrap_or_else(|| ".".into()));
    std::fs::create_dir_all(&dir)?;
    for (name, input) in [("paper.html", sample::paper()), ("own.html", sample::own())] {
        let path = dir.join(name);
        roughlink_lab::report::write(&path, &input)?;
        println!("{}", path.display());
    }
    Ok(())
}
