//! Files of a crate, and the other files of the crate that each one uses.

use proc_macro2::{TokenStream, TokenTree};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::iter::successors;
use std::path::{Path, PathBuf};
use syn::punctuated::Punctuated;
use syn::visit::{self, Visit};
use syn::{Attribute, ImplItem, Item, ItemMod, Macro, Meta, Token, UseTree};

/// Files, and those that each one uses.
pub type Uses = BTreeMap<String, BTreeSet<String>>;

/// Files of a crate by their names in `src`, without code that is compiled for tests only.
pub struct Crate {
    pub files: Uses,
    /// File that declares each file, except `lib.rs`.
    parents: BTreeMap<String, String>,
}

/// Path of a module in its crate.
type Place = Vec<String>;

impl Crate {
    /// Reads the crate in a folder. Panics if a file belongs to no module.
    pub fn read(folder: &Path) -> Crate {
        let mut reader = Reader { src: folder.join("src"), ..Reader::default() };
        reader.file("lib.rs".to_owned(), vec![], false);
        for file in rust_files(&reader.src) {
            let name = file.strip_prefix(&reader.src).expect("in the folder").to_str().expect("a plain name");
            assert!(reader.read.contains(name) || name == "main.rs", "{name} belongs to no module");
        }
        let mut found = Crate { files: BTreeMap::new(), parents: reader.parents };
        for (place, file, items) in &reader.modules {
            let mut scope =
                Scope { files: &reader.files, place: place.clone(), aliases: vec![], used: BTreeSet::new() };
            scope.items(items);
            scope.used.remove(file);
            found.files.entry(file.clone()).or_default().extend(scope.used);
        }
        found
    }

    /// Returns the files in circles, each with the files of the circle that it uses. Uses between a file and those of
    /// its submodules do not count.
    pub fn files_in_circles(&self) -> Uses {
        let within = |file: &str, folder: &str| {
            file == folder || successors(self.parents.get(file), |f| self.parents.get(*f)).any(|f| f == folder)
        };
        let next = |file: &String| -> BTreeSet<String> {
            let outside = self.files[file].iter().filter(|used| !within(used, file) && !within(file, used));
            outside.cloned().collect()
        };
        let reached = |start: &String| {
            let (mut seen, mut open) = (BTreeSet::new(), next(start));
            while let Some(file) = open.pop_first() {
                if seen.insert(file.clone()) {
                    open.extend(next(&file));
                }
            }
            seen
        };
        let reached: BTreeMap<_, _> = self.files.keys().map(|file| (file, reached(file))).collect();
        let returns = |from: &String, to: &String| reached[from].contains(to);
        let circles = self.files.keys().filter(|file| returns(file, file));
        circles
            .map(|file| (file.clone(), next(file).into_iter().filter(|used| returns(used, file)).collect()))
            .collect()
    }
}

fn rust_files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).expect("a folder of sources").map(|entry| entry.expect("readable").path());
    let files = entries.flat_map(|path| if path.is_dir() { rust_files(&path) } else { vec![path] });
    files.filter(|path| path.extension().is_some_and(|e| e == "rs")).collect()
}

/// Follows `mod` through the files of a crate.
#[derive(Default)]
struct Reader {
    src: PathBuf,
    /// Names of all files read, those of tests too.
    read: BTreeSet<String>,
    /// File of each module, inline ones too.
    files: BTreeMap<Place, String>,
    /// Files with their places and contents.
    modules: Vec<(Place, String, Vec<Item>)>,
    parents: BTreeMap<String, String>,
}

impl Reader {
    fn file(&mut self, name: String, place: Place, test: bool) {
        let text = fs::read_to_string(self.src.join(&name)).unwrap_or_else(|e| panic!("{name}: {e}"));
        let items = syn::parse_file(&text).unwrap_or_else(|e| panic!("{name}: {e}")).items;
        self.read.insert(name.clone());
        self.children(&items, &name, &place, test);
        if !test {
            self.files.entry(place.clone()).or_insert(name.clone());
            self.modules.push((place, name, items));
        }
    }

    fn children(&mut self, items: &[Item], file: &str, place: &Place, test: bool) {
        for child in items.iter().filter_map(|item| if let Item::Mod(child) = item { Some(child) } else { None }) {
            let test = test || child.attrs.iter().any(is_test);
            let place = [&place[..], &[child.ident.to_string()]].concat();
            if let Some((_, items)) = &child.content {
                self.children(items, file, &place, test);
                if !test {
                    self.files.insert(place, file.to_owned());
                }
            } else {
                let name = child_file(file, &place, child);
                self.parents.insert(name.clone(), file.to_owned());
                self.file(name, place, test);
            }
        }
    }
}

/// Returns the file of a child module: named by its place, or by an attribute that is relative to its parent's folder.
fn child_file(parent: &str, place: &Place, child: &ItemMod) -> String {
    let named = child.attrs.iter().find_map(|attribute| match &attribute.meta {
        Meta::NameValue(path) if path.path.is_ident("path") => match &path.value {
            syn::Expr::Lit(syn::ExprLit { lit: syn::Lit::Str(name), .. }) => Some(name.value()),
            _ => None,
        },
        _ => None,
    });
    match named {
        Some(name) => Path::new(parent).with_file_name(name).to_str().expect("a plain name").to_owned(),
        None => place.join("/") + ".rs",
    }
}

/// Returns true for `cfg(test)` and `cfg(all(test, ..))`.
fn is_test(attribute: &Attribute) -> bool {
    fn requires_test(meta: &Meta) -> bool {
        match meta {
            Meta::List(list) if list.path.is_ident("all") => list
                .parse_args_with(Punctuated::<Meta, Token![,]>::parse_terminated)
                .is_ok_and(|metas| metas.iter().any(requires_test)),
            _ => meta.path().is_ident("test"),
        }
    }
    attribute.path().is_ident("cfg") && attribute.parse_args().is_ok_and(|meta| requires_test(&meta))
}

/// Finds the files whose modules are named in a module.
struct Scope<'a> {
    files: &'a BTreeMap<Place, String>,
    place: Place,
    /// Modules that a `use` gives a name, latest last.
    aliases: Vec<(String, Place)>,
    used: BTreeSet<String>,
}

impl Scope<'_> {
    /// Visits the items of a module, first its `use`s, whose names apply to all others.
    fn items(&mut self, items: &[Item]) {
        let (uses, others): (Vec<_>, Vec<_>) = items.iter().partition(|item| matches!(item, Item::Use(_)));
        [uses, others].concat().into_iter().for_each(|item| self.visit_item(item));
    }

    /// Returns the module that the path starts with, and how many of its segments are not of the module.
    fn module(&self, path: &[String]) -> Option<(Place, usize)> {
        let (first, mut rest) = path.split_first()?;
        let child = [&self.place[..], std::slice::from_ref(first)].concat();
        let alias = self.aliases.iter().rev().find(|(name, _)| name == first);
        let mut place = match &**first {
            "crate" => vec![],
            "self" => self.place.clone(),
            "super" => {
                let up = path.iter().take_while(|segment| *segment == "super").count();
                rest = &path[up..];
                self.place[..self.place.len() - up].to_vec()
            }
            _ if self.files.contains_key(&child) => child,
            _ => alias?.1.clone(),
        };
        while let Some((segment, further)) = rest.split_first() {
            let child = [&place[..], std::slice::from_ref(segment)].concat();
            if segment == "self" {
                rest = further;
                continue;
            }
            if !self.files.contains_key(&child) {
                break;
            }
            (place, rest) = (child, further);
        }
        Some((place, rest.len()))
    }

    /// Takes in a path in the code, where a single name is no module.
    fn named(&mut self, path: &[String]) {
        if path.len() > 1 {
            self.path(path);
        }
    }

    fn path(&mut self, path: &[String]) {
        if let Some((place, _)) = self.module(path) {
            self.used.insert(self.files[&place].clone());
        }
    }

    /// Takes in a `use`. One that names a module uses only what follows that name elsewhere.
    fn tree(&mut self, tree: &UseTree, path: &[String], public: bool) {
        let with = |name: &syn::Ident| [path, &[name.to_string()]].concat();
        let (whole, name) = match tree {
            UseTree::Path(tree) => return self.tree(&tree.tree, &with(&tree.ident), public),
            UseTree::Group(group) => return group.items.iter().for_each(|tree| self.tree(tree, path, public)),
            UseTree::Glob(_) => return self.path(path),
            UseTree::Name(tree) => (with(&tree.ident), tree.ident.to_string()),
            UseTree::Rename(tree) => (with(&tree.ident), tree.rename.to_string()),
        };
        match self.module(&whole) {
            Some((place, 0)) if !public => {
                let name = if name == "self" { place.last().cloned().unwrap_or_default() } else { name };
                self.aliases.push((name, place));
            }
            _ => self.path(&whole),
        }
    }

    /// Finds the paths in the arguments of a macro.
    fn tokens(&mut self, tokens: TokenStream) {
        let (mut path, mut colons) = (Vec::new(), 0);
        for token in tokens {
            match token {
                TokenTree::Punct(p) if p.as_char() == ':' => colons += 1,
                TokenTree::Ident(name) => {
                    if colons != 2 {
                        self.named(&std::mem::take(&mut path));
                    }
                    path.push(name.to_string());
                    colons = 0;
                }
                other => {
                    self.named(&std::mem::take(&mut path));
                    colons = 0;
                    if let TokenTree::Group(group) = other {
                        self.tokens(group.stream());
                    }
                }
            }
        }
        self.named(&path);
    }
}

impl<'a> Visit<'a> for Scope<'_> {
    fn visit_item(&mut self, item: &'a Item) {
        let attributes = match item {
            Item::Const(item) => &item.attrs,
            Item::Enum(item) => &item.attrs,
            Item::Fn(item) => &item.attrs,
            Item::Impl(item) => &item.attrs,
            Item::Macro(item) => &item.attrs,
            Item::Mod(item) => &item.attrs,
            Item::Static(item) => &item.attrs,
            Item::Struct(item) => &item.attrs,
            Item::Trait(item) => &item.attrs,
            Item::Type(item) => &item.attrs,
            Item::Use(item) => &item.attrs,
            _ => return visit::visit_item(self, item),
        };
        if !attributes.iter().any(is_test) {
            visit::visit_item(self, item);
        }
    }

    fn visit_impl_item(&mut self, item: &'a ImplItem) {
        if !matches!(item, ImplItem::Fn(method) if method.attrs.iter().any(is_test)) {
            visit::visit_impl_item(self, item);
        }
    }

    fn visit_item_mod(&mut self, module: &'a ItemMod) {
        if let Some((_, items)) = &module.content {
            self.place.push(module.ident.to_string());
            let aliases = std::mem::take(&mut self.aliases);
            self.items(items);
            self.aliases = aliases;
            self.place.pop();
        }
    }

    /// The names of a `use` in a block end with it.
    fn visit_block(&mut self, block: &'a syn::Block) {
        let outside = self.aliases.len();
        visit::visit_block(self, block);
        self.aliases.truncate(outside);
    }

    fn visit_item_use(&mut self, item: &'a syn::ItemUse) {
        self.tree(&item.tree, &[], !matches!(item.vis, syn::Visibility::Inherited));
    }

    fn visit_path(&mut self, path: &'a syn::Path) {
        self.named(&path.segments.iter().map(|segment| segment.ident.to_string()).collect::<Vec<_>>());
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, mac: &'a Macro) {
        self.tokens(mac.tokens.clone());
    }

    fn visit_visibility(&mut self, _: &'a syn::Visibility) {}

    fn visit_attribute(&mut self, _: &'a Attribute) {}
}
