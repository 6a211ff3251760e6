//! The table in `bpf/highspeed.bpf.c` is the one that the Rust algorithm computes.

use roughlink_core::cc::highspeed::{Params, ResponseTable};

/// The largest window of `row`.
fn last_of(table: &mut ResponseTable, row: usize) -> u32 {
    let (mut within, mut beyond) = (0, 1u64 << 32);
    while beyond - within > 1 {
        let middle = u64::midpoint(within, beyond);
        if table.seek(0, middle) <= row { within = middle } else { beyond = middle }
    }
    within as u32
}

/// If it fails, the message has the lines that belong between the braces of `table[]`.
#[test]
fn bpf_table_matches_the_rust_algorithm() {
    let params = Params::default();
    let mut table = ResponseTable::new(&params);
    let rows: Vec<String> = (0..params.rows)
        .map(|row| {
            let w = last_of(&mut table, row);
            format!("{{ {w}, {} }},", (table.decrease(row) * 256.0).floor())
        })
        .collect();
    let wanted: Vec<String> = rows.chunks(6).map(|line| format!("\t{}", line.join(" "))).collect();
    let program = include_str!("../bpf/highspeed.bpf.c");
    let written =
        program.split_once("table[] = {\n").and_then(|(_, rest)| rest.split_once("\n};")).expect("the table").0;
    assert!(written == wanted.join("\n"), "table[] should be\n{}", wanted.join("\n"));
}
