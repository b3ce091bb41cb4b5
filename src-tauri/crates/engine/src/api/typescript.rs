//! Types cross the wire once: the generator of `ui/src/lib/api/gen.ts`.

use std::{any::TypeId, collections::BTreeMap, fmt::Write as _};

use ts_rs::{Config, TS, TypeVisitor};

/// A TypeScript module in the making.
pub(super) struct Module {
    config: Config,
    seen: std::collections::HashSet<TypeId>,
    declarations: BTreeMap<String, String>,
    methods: String,
}

impl Default for Module {
    fn default() -> Self {
        Self {
            // Tauri's and the socket's JSON both yield plain numbers.
            config: Config::new().with_large_int("number"),
            seen: std::collections::HashSet::new(),
            declarations: BTreeMap::new(),
            methods: String::new(),
        }
    }
}

impl TypeVisitor for Module {
    fn visit<T: TS + 'static + ?Sized>(&mut self) {
        self.add::<T>();
    }
}

impl Module {
    pub(super) fn add<T: TS + 'static + ?Sized>(&mut self) {
        if !self.seen.insert(TypeId::of::<T>()) {
            return;
        }
        T::visit_dependencies(self);
        T::visit_generics(self);
        if T::output_path().is_some() {
            let declared = T::decl(&self.config);
            self.declarations.insert(T::ident(&self.config), declared);
        }
    }

    pub(super) fn method<P: TS + 'static, R: TS + 'static>(&mut self, name: &str) {
        self.add::<P>();
        self.add::<R>();
        let _ = writeln!(
            self.methods,
            "  \"{name}\": {{ params: {}; response: {} }};",
            P::name(&self.config),
            R::name(&self.config)
        );
    }

    pub(super) fn finish(self) -> String {
        let mut out = String::from(
            "// Generated from engine/api by `cargo run -p changeover-engine --bin types`. Do not edit.\n\n",
        );
        for declaration in self.declarations.values() {
            let _ = writeln!(out, "export {declaration}\n");
        }
        let _ = write!(out, "export interface Methods {{\n{}}}\n", self.methods);
        out
    }
}
