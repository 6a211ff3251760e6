//! The texts of the program, collected from the sources into one page so that they can be read in one sitting.

use proc_macro2::{TokenStream, TokenTree};
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use syn::visit::{self, Visit};
use syn::{Attribute, ItemFn, ItemMod, LitStr, Macro};

/// Texts of a file: string literals of several words, outside tests and assertions.
#[derive(Default)]
struct Texts(Vec<String>);

impl Texts {
    fn add(&mut self, text: &str) {
        let is_word = |word: &&str| word.len() > 1 && word.chars().all(|c| c.is_alphabetic() || "-'`,:;.".contains(c));
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        if text.split(' ').filter(is_word).count() > 1 && !text.contains('<') {
            self.0.push(text);
        }
    }
    fn tokens(&mut self, tokens: TokenStream) {
        for token in tokens {
            match token {
                TokenTree::Group(group) => self.tokens(group.stream()),
                TokenTree::Literal(literal) => {
                    if let Ok(text) = syn::parse_str::<LitStr>(&literal.to_string()) {
                        self.add(&text.value());
                    }
                }
                _ => {}
            }
        }
    }
}

fn is_test(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|a| {
        a.path().is_ident("test")
            || a.path().is_ident("cfg") && a.meta.require_list().is_ok_and(|l| l.tokens.to_string().contains("test"))
    })
}

impl<'ast> Visit<'ast> for Texts {
    fn visit_item_mod(&mut self, module: &'ast ItemMod) {
        if !is_test(&module.attrs) {
            visit::visit_item_mod(self, module);
        }
    }
    fn visit_item_fn(&mut self, function: &'ast ItemFn) {
        if !is_test(&function.attrs) {
            visit::visit_item_fn(self, function);
        }
    }
    fn visit_attribute(&mut self, attribute: &'ast Attribute) {
        if attribute.path().is_ident("error") {
            self.tokens(attribute.meta.require_list().expect("`#[error(...)]`").tokens.clone());
        }
    }
    fn visit_lit_str(&mut self, literal: &'ast LitStr) {
        self.add(&literal.value());
    }
    fn visit_expr_method_call(&mut self, call: &'ast syn::ExprMethodCall) {
        if call.method == "expect" {
            self.visit_expr(&call.receiver);
        } else {
            visit::visit_expr_method_call(self, call);
        }
    }
    fn visit_macro(&mut self, invoked: &'ast Macro) {
        let name = invoked.path.segments.last().map(|s| s.ident.to_string()).unwrap_or_default();
        if !["assert", "debug_assert", "panic", "unreachable", "todo"].iter().any(|skipped| name.starts_with(skipped)) {
            self.tokens(invoked.tokens.clone());
        }
    }
}

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a folder of sources") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|e| e == "rs") && path.file_stem().is_some_and(|s| s != "tests") {
            found.push(path);
        }
    }
}

#[test]
fn message_texts_are_pinned() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the folder of crates");
    let mut page = String::new();
    for name in ["core", "scenario", "host", "bpf", "lab", "cli", "py"] {
        let mut files = Vec::new();
        sources(&crates.join(format!("roughlink-{name}/src")), &mut files);
        files.sort();
        for file in files {
            let mut texts = Texts::default();
            texts.visit_file(&syn::parse_file(&fs::read_to_string(&file).expect("a source")).expect("Rust"));
            if !texts.0.is_empty() && !file.components().any(|c| c.as_os_str() == "tests") {
                writeln!(page, "## {}\n", file.strip_prefix(crates).expect("a crate").display()).unwrap();
                texts.0.iter().for_each(|text| writeln!(page, "- {text}").unwrap());
                page.push('\n');
            }
        }
    }
    insta::assert_snapshot!(page);
}
