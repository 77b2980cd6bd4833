//! Parcelables and unions.

use std::fmt::Write as _;

use super::Generator;
use super::names::{pad, template, text};
use crate::model::{Def, Field, Parcelable};

/// How comparisons are written.
const COMPARISONS: [&str; 6] = ["==", "!=", "<", ">", "<=", ">="];

impl Generator<'_> {
    fn begin_class(&self, def: &Def, is_fixed: bool, depth: usize, code: &mut String) {
        let (around, pad, name) = (pad(depth), pad(depth + 1), def.name.last());
        // Writing to a string cannot fail.
        let _ = writeln!(code, "{}{around}class {name} {{\n{around}public:", template(def));
        let _ = writeln!(
            code,
            "{pad}typedef std::{is_fixed}_type fixed_size;\n{pad}static const char* descriptor;\n\
             {pad}static const ::ndk::parcelable_stability_t _aidl_stability = {};",
            self.stability(def)
        );
        self.nested(def, depth + 1, code);
        self.constants(def, depth + 1, code);
    }

    fn stability(&self, def: &Def) -> &'static str {
        if self.model.is_stable(def) { "::ndk::STABILITY_VINTF" } else { "::ndk::STABILITY_LOCAL" }
    }

    fn end_class(&self, def: &Def, depth: usize, code: &mut String) {
        let (pad, name) = (pad(depth + 1), def.name.last());
        let _ = writeln!(
            code,
            "\n{pad}binder_status_t readFromParcel(const AParcel* _aidl_parcel);\n\
             {pad}binder_status_t writeToParcel(AParcel* _aidl_parcel) const;"
        );
        for comparison in COMPARISONS {
            let _ = writeln!(code, "{pad}bool operator{comparison}(const {name}& _aidl_other) const;");
        }
        let _ = writeln!(code, "{pad}std::string toString() const;");
    }

    pub(super) fn parcelable(&self, def: &Def, parcelable: &Parcelable, depth: usize, code: &mut String) {
        self.begin_class(def, parcelable.fixed_size, depth, code);
        code.push('\n');
        for field in &parcelable.fields {
            let initial = if self.model.is_holder(&field.ty) {
                format!("{{{}}}", self.stability(def))
            } else {
                self.initial(&field.ty, field.default.as_ref())
            };
            let _ = writeln!(code, "{}{} {}{initial};", pad(depth + 1), self.ty(&field.ty), field.name);
        }
        self.end_class(def, depth, code);
        let _ = writeln!(code, "{}}};", pad(depth));
    }

    pub(super) fn parcelable_code(&self, def: &Def, parcelable: &Parcelable, code: &mut String) {
        let (template, fields) = (template(def), &parcelable.fields);
        let name = match parcelable.parameters.as_slice() {
            [] => self.local(def),
            names => format!("{}<{}>", self.local(def), names.join(", ")),
        };
        let _ = writeln!(code, "{template}const char* {name}::descriptor = {};\n", text(&def.descriptor()));
        let _ = write!(
            code,
            "{template}binder_status_t {name}::readFromParcel(const AParcel* _aidl_parcel) {{\n\
             \x20 const int32_t _aidl_start = AParcel_getDataPosition(_aidl_parcel);\n\
             \x20 int32_t _aidl_size = 0;\n\
             \x20 binder_status_t _aidl_ret = AParcel_readInt32(_aidl_parcel, &_aidl_size);\n\
             \x20 if (_aidl_ret != STATUS_OK) return _aidl_ret;\n\
             \x20 if (_aidl_size < 4 || _aidl_size > AParcel_getDataSize(_aidl_parcel) - _aidl_start) return STATUS_BAD_VALUE;\n\
             \x20 const int32_t _aidl_end = _aidl_start + _aidl_size;\n"
        );
        for field in fields {
            let _ = write!(
                code,
                "  // One of an older version has no more.\n\
                 \x20 if (AParcel_getDataPosition(_aidl_parcel) >= _aidl_end) return AParcel_setDataPosition(_aidl_parcel, _aidl_end);\n\
                 \x20 _aidl_ret = {}(_aidl_parcel, &{});\n\
                 \x20 if (_aidl_ret != STATUS_OK) return _aidl_ret;\n\
                 \x20 if (AParcel_getDataPosition(_aidl_parcel) > _aidl_end) return STATUS_BAD_VALUE;\n",
                self.codec(&field.ty, "read"),
                field.name
            );
        }
        let _ = write!(
            code,
            "  return AParcel_setDataPosition(_aidl_parcel, _aidl_end);\n}}\n\n\
             {template}binder_status_t {name}::writeToParcel(AParcel* _aidl_parcel) const {{\n\
             \x20 const int32_t _aidl_start = AParcel_getDataPosition(_aidl_parcel);\n\
             \x20 binder_status_t _aidl_ret = AParcel_writeInt32(_aidl_parcel, 0);\n\
             \x20 if (_aidl_ret != STATUS_OK) return _aidl_ret;\n"
        );
        for field in fields {
            let _ = write!(
                code,
                "  _aidl_ret = {}(_aidl_parcel, {});\n  if (_aidl_ret != STATUS_OK) return _aidl_ret;\n",
                self.codec(&field.ty, "write"),
                field.name
            );
        }
        let _ = write!(
            code,
            "  const int32_t _aidl_end = AParcel_getDataPosition(_aidl_parcel);\n\
             \x20 _aidl_ret = AParcel_setDataPosition(_aidl_parcel, _aidl_start);\n\
             \x20 if (_aidl_ret != STATUS_OK) return _aidl_ret;\n\
             \x20 _aidl_ret = AParcel_writeInt32(_aidl_parcel, _aidl_end - _aidl_start);\n\
             \x20 if (_aidl_ret != STATUS_OK) return _aidl_ret;\n\
             \x20 return AParcel_setDataPosition(_aidl_parcel, _aidl_end);\n}}\n\n"
        );
        let tie = |of: &str| -> String {
            fields.iter().map(|field| format!("{of}{}", field.name)).collect::<Vec<_>>().join(", ")
        };
        for comparison in COMPARISONS {
            let other = if fields.is_empty() { "/*_aidl_other*/" } else { "_aidl_other" };
            let _ = write!(
                code,
                "{template}bool {name}::operator{comparison}(const {name}& {other}) const {{\n  return std::tie({}) {comparison} \
                 std::tie({});\n}}\n",
                tie(""),
                tie("_aidl_other.")
            );
        }
        let shown: Vec<String> = fields
            .iter()
            .map(|field| format!("\"{0}: \" + ::android::internal::ToString({0})", field.name))
            .collect();
        let shown = if shown.is_empty() { "\"\"".to_owned() } else { shown.join(" + \", \" + ") };
        let _ = write!(
            code,
            "\n{template}std::string {name}::toString() const {{\n  return std::string(\"{}{{\") + {shown} + \"}}\";\n}}\n\n",
            def.name.last()
        );
    }

    pub(super) fn union(&self, def: &Def, fields: &[Field], depth: usize, code: &mut String) {
        let (around, pad, name) = (pad(depth), pad(depth + 1), def.name.last());
        self.begin_class(def, def.has("FixedSize"), depth, code);
        for field in fields {
            let _ = writeln!(code, "{pad}static constexpr Tag {0} = Tag::{0};", field.name);
        }
        let first = fields.first().map(|field| self.first(field)).unwrap_or_default();
        let types: Vec<String> = fields.iter().map(|field| self.ty(&field.ty)).collect();
        let _ = write!(
            code,
            "\n{pad}{name}() : _value(std::in_place_index<0>{first}) {{}}\n\
             {pad}template <typename T, std::enable_if_t<!std::is_same_v<std::decay_t<T>, {name}>, int> = 0>\n\
             {pad}constexpr {name}(T&& value) : _value(std::forward<T>(value)) {{}}\n\
             {pad}template <size_t N, typename... T>\n\
             {pad}constexpr explicit {name}(std::in_place_index_t<N> index, T&&... arguments)\n\
             {pad}    : _value(index, std::forward<T>(arguments)...) {{}}\n\
             {pad}template <Tag tag, typename... T>\n\
             {pad}static {name} make(T&&... arguments) {{\n\
             {pad}  return {name}(std::in_place_index<static_cast<size_t>(tag)>, std::forward<T>(arguments)...);\n\
             {pad}}}\n\
             {pad}template <Tag tag, typename T, typename... U>\n\
             {pad}static {name} make(std::initializer_list<T> items, U&&... arguments) {{\n\
             {pad}  return {name}(std::in_place_index<static_cast<size_t>(tag)>, std::move(items), std::forward<U>(arguments)...);\n\
             {pad}}}\n\
             {pad}Tag getTag() const {{ return static_cast<Tag>(_value.index()); }}\n\
             {pad}// Of a field that is not the one that is set, the program ends.\n\
             {pad}template <Tag tag>\n\
             {pad}const auto& get() const {{\n\
             {pad}  if (getTag() != tag) __builtin_abort();\n\
             {pad}  return std::get<static_cast<size_t>(tag)>(_value);\n\
             {pad}}}\n\
             {pad}template <Tag tag>\n\
             {pad}auto& get() {{\n\
             {pad}  if (getTag() != tag) __builtin_abort();\n\
             {pad}  return std::get<static_cast<size_t>(tag)>(_value);\n\
             {pad}}}\n\
             {pad}template <Tag tag, typename... T>\n\
             {pad}void set(T&&... arguments) {{\n\
             {pad}  _value.template emplace<static_cast<size_t>(tag)>(std::forward<T>(arguments)...);\n\
             {pad}}}\n"
        );
        self.end_class(def, depth, code);
        let _ = write!(
            code,
            "\n{around}private:\n{pad}std::variant<{}> _value;\n{around}}};\n",
            types.join(", ")
        );
    }

    /// What a union's first field begins with, as a further argument.
    fn first(&self, field: &Field) -> String {
        match self.initial(&field.ty, field.default.as_ref()).strip_prefix(" = ") {
            Some("{}") | None => format!(", {}{{}}", self.ty(&field.ty)),
            Some(value) => format!(", {}({value})", self.ty(&field.ty)),
        }
    }

    pub(super) fn union_code(&self, def: &Def, fields: &[Field], code: &mut String) {
        let name = self.local(def);
        let _ = writeln!(code, "const char* {name}::descriptor = {};\n", text(&def.descriptor()));
        let _ = write!(
            code,
            "binder_status_t {name}::readFromParcel(const AParcel* _aidl_parcel) {{\n\
             \x20 int32_t _aidl_tag = 0;\n\
             \x20 binder_status_t _aidl_ret = AParcel_readInt32(_aidl_parcel, &_aidl_tag);\n\
             \x20 if (_aidl_ret != STATUS_OK) return _aidl_ret;\n\
             \x20 switch (static_cast<Tag>(_aidl_tag)) {{\n"
        );
        for field in fields {
            let _ = write!(
                code,
                "    case Tag::{0}: {{\n      {1} _aidl_value{{}};\n      _aidl_ret = {2}(_aidl_parcel, &_aidl_value);\n\
                 \x20     if (_aidl_ret != STATUS_OK) return _aidl_ret;\n      set<Tag::{0}>(std::move(_aidl_value));\n\
                 \x20     return STATUS_OK;\n    }}\n",
                field.name,
                self.ty(&field.ty),
                self.codec(&field.ty, "read")
            );
        }
        let _ = write!(
            code,
            "  }}\n  return STATUS_BAD_VALUE;\n}}\n\n\
             binder_status_t {name}::writeToParcel(AParcel* _aidl_parcel) const {{\n\
             \x20 binder_status_t _aidl_ret = AParcel_writeInt32(_aidl_parcel, static_cast<int32_t>(getTag()));\n\
             \x20 if (_aidl_ret != STATUS_OK) return _aidl_ret;\n  switch (getTag()) {{\n"
        );
        for field in fields {
            let _ = writeln!(
                code,
                "    case Tag::{0}:\n      return {1}(_aidl_parcel, get<Tag::{0}>());",
                field.name,
                self.codec(&field.ty, "write")
            );
        }
        let _ = writeln!(code, "  }}\n  return STATUS_BAD_VALUE;\n}}\n");
        for comparison in COMPARISONS {
            let _ = write!(
                code,
                "bool {name}::operator{comparison}(const {name}& _aidl_other) const {{\n  return _value {comparison} \
                 _aidl_other._value;\n}}\n"
            );
        }
        let _ = write!(code, "\nstd::string {name}::toString() const {{\n  switch (getTag()) {{\n");
        for field in fields {
            let _ = writeln!(
                code,
                "    case Tag::{0}:\n      return std::string(\"{1}{{{0}: \") + \
                 ::android::internal::ToString(get<Tag::{0}>()) + \"}}\";",
                field.name,
                def.name.last()
            );
        }
        let _ = writeln!(code, "  }}\n  return \"{}{{}}\";\n}}\n", def.name.last());
    }
}
