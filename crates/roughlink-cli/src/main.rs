//! The program `roughlink`.

fn main() -> std::process::ExitCode {
    roughlink_cli::main()
}
