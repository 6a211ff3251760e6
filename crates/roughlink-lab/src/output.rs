//! Result folders: manifest, summary, series, captures.
