//! The frame of a page: heading, content, style, script and the chart library.

use super::html::escape;
use std::fmt::Write as _;

/// Returns a page with `heading`, which follows the title, and `main`.
pub(super) fn page(title: &str, heading: &str, main: &str) -> String {
    let title = escape(title);
    let mut out = String::with_capacity(main.len() + heading.len() + LIBRARY.len() + (1 << 16));
    let _ = write!(
        out,
        "<!DOCTYPE html>\n<html lang=\"en\" data-theme=\"light\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"{POLICY}\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>{title}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n\
         <a class=\"skip\" href=\"#main\">Skip to the results</a>\n<header>\n\
         <div class=\"bar\">{BRAND}\
         <button id=\"theme\" type=\"button\" class=\"noprint\">Dark colors</button></div>\n<h1>{title}</h1>\n\
         {heading}</header>\n<main id=\"main\">\n{main}</main>\n<footer>\n\
         <p>Made by roughlink. Charts by plotly.js (MIT license), contained in this file; the page loads nothing from \
         the network. Select part of a chart to zoom in; double-click to zoom out.</p>\n</footer>\n\
         <script type=\"application/gzip\" id=\"library\">{LIBRARY}</script>\n<script>\n{SCRIPT}</script>\n\
         </body>\n</html>\n"
    );
    out
}

pub(super) fn is_page(text: &str) -> bool {
    text.contains(BRAND)
}

const BRAND: &str = "<span class=\"brand\">roughlink report</span>";
/// The content security policy: the page loads nothing from elsewhere.
const POLICY: &str = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; \
                      img-src data: blob:; base-uri 'none'; form-action 'none'";
/// The style of pages: colors for light and dark (`data-theme` of the root element), tables, buttons.
pub const STYLE: &str = include_str!("report.css");
const SCRIPT: &str = include_str!("report.js");
/// The chart library, compressed and in base64: 0.5 MB instead of 1.2 MB.
const LIBRARY: &str = include_str!(concat!(env!("OUT_DIR"), "/library.txt"));
