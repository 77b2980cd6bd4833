//! Parcelables, unions and enums.

use super::types::text;
use super::{Code, Generator};
use crate::model::{Def, Enum, Field, Parcelable, Primitive, TypeKind};

impl Generator<'_> {
    fn creator(&self, def: &Def, code: &mut Code) {
        let name = self.full(def);
        code.line(format!(
            "public static final android.os.Parcelable.Creator<{name}> CREATOR = new android.os.Parcelable.Creator<{name}>() {{\n\
             @Override\npublic {name} createFromParcel(android.os.Parcel _aidl_source) {{\n\
             {name} _aidl_out = new {name}();\n_aidl_out.readFromParcel(_aidl_source);\nreturn _aidl_out;\n}}\n\
             @Override\npublic {name}[] newArray(int _aidl_size) {{\nreturn new {name}[_aidl_size];\n}}"
        ));
        // Unlike a block's, its brace ends a statement.
        code.line("};");
        if def.has("VintfStability") {
            code.line("@Override\npublic final int getStability() {\nreturn android.os.Parcelable.PARCELABLE_STABILITY_VINTF;\n}");
        }
    }

    fn contents(&self, fields: &[Field], code: &mut Code) {
        let has_file = |field: &Field| match &field.ty.kind {
            TypeKind::Array(item) | TypeKind::List(item) => item.kind == TypeKind::FileDescriptor,
            kind => *kind == TypeKind::FileDescriptor,
        };
        let contents = if fields.iter().any(has_file) { "CONTENTS_FILE_DESCRIPTOR" } else { "0" };
        code.line(format!("@Override\npublic int describeContents() {{\nreturn {contents};\n}}"));
    }

    pub(super) fn parcelable(&self, def: &Def, parcelable: &Parcelable, code: &mut Code) {
        let (name, fields) = (def.name.last(), &parcelable.fields);
        let parameters = match parcelable.parameters.as_slice() {
            [] => String::new(),
            names => format!("<{}>", names.join(", ")),
        };
        let modifiers = Self::modifiers(def);
        code.line(format!("{modifiers}class {name}{parameters} implements android.os.Parcelable {{"));
        self.within(def, code);
        for field in fields {
            if self.model.is_holder(&field.ty) {
                let stability = if self.model.is_stable(def) { "VINTF" } else { "LOCAL" };
                code.line(format!(
                    "public final android.os.ParcelableHolder {} = new \
                     android.os.ParcelableHolder(android.os.Parcelable.PARCELABLE_STABILITY_{stability});",
                    field.name
                ));
                continue;
            }
            let initial = match (&field.default, &field.ty.kind) {
                (Some(value), _) => format!(" = {}", self.value(&field.ty, value)),
                (None, TypeKind::Fixed(..)) if !field.ty.nullable => {
                    format!(" = {}", self.empty(&field.ty, ""))
                }
                _ => String::new(),
            };
            code.line(format!("public {} {}{initial};", self.ty(&field.ty), field.name));
        }
        self.creator(def, code);
        code.line(
            "@Override\npublic final void writeToParcel(android.os.Parcel _aidl_parcel, int _aidl_flag) {\n\
             int _aidl_start = _aidl_parcel.dataPosition();\n_aidl_parcel.writeInt(0);",
        );
        for field in fields {
            code.line(self.write(&field.ty, "_aidl_parcel", &field.name, "_aidl_flag"));
        }
        code.line(
            "int _aidl_end = _aidl_parcel.dataPosition();\n_aidl_parcel.setDataPosition(_aidl_start);\n\
             _aidl_parcel.writeInt(_aidl_end - _aidl_start);\n_aidl_parcel.setDataPosition(_aidl_end);\n}\n\
             public final void readFromParcel(android.os.Parcel _aidl_parcel) {\n\
             int _aidl_start = _aidl_parcel.dataPosition();\nint _aidl_size = _aidl_parcel.readInt();\n\
             if (_aidl_size < 4 || _aidl_size > _aidl_parcel.dataSize() - _aidl_start) {\n\
             throw new android.os.BadParcelableException(\"a parcelable of \" + _aidl_size + \" bytes\");\n}\n\
             int _aidl_end = _aidl_start + _aidl_size;",
        );
        if !fields.is_empty() {
            code.line("do {");
            for field in fields {
                // One of an older version has no more.
                code.line("if (_aidl_parcel.dataPosition() >= _aidl_end) break;");
                // A holder promises what its owner does: it is there already.
                code.line(match self.model.is_holder(&field.ty) {
                    true => self.read_into(&field.ty, "_aidl_parcel", &field.name),
                    false => format!("{} = {};", field.name, self.read(&field.ty, "_aidl_parcel")),
                });
            }
            code.line("} while (false);");
        }
        code.line(
            "if (_aidl_parcel.dataPosition() > _aidl_end) {\n\
             throw new android.os.BadParcelableException(\"a parcelable is longer than it says\");\n}\n\
             _aidl_parcel.setDataPosition(_aidl_end);\n}",
        );
        self.contents(fields, code);
        code.line("}");
    }

    pub(super) fn union(&self, def: &Def, fields: &[Field], code: &mut Code) {
        let name = def.name.last();
        code.line(format!("{}final class {name} implements android.os.Parcelable {{", Self::modifiers(def)));
        self.within(def, code);
        for (tag, field) in fields.iter().enumerate() {
            code.line(format!("public static final int {} = {tag};", field.name));
        }
        code.line("private int _tag;\nprivate java.lang.Object _value;");
        if let Some(first) = fields.first() {
            let value = match (&first.default, &first.ty.kind) {
                (Some(value), _) => self.value(&first.ty, value),
                (None, TypeKind::Primitive(Primitive::Bool)) => "false".to_owned(),
                (None, TypeKind::Fixed(..)) => self.empty(&first.ty, ""),
                (None, TypeKind::Array(_)) => self.empty(&first.ty, "0"),
                (None, TypeKind::List(_)) => self.empty(&first.ty, ""),
                (None, TypeKind::String) => "\"\"".to_owned(),
                (None, _) if is_number(&self.ty(&first.ty)) => "0".to_owned(),
                _ => "null".to_owned(),
            };
            let ty = self.ty(&first.ty);
            code.line(format!(
                "public {name}() {{\n{ty} _value = {value};\nthis._tag = {};\nthis._value = _value;\n}}",
                first.name
            ));
        }
        code.line(format!(
            "private {name}(int _tag, java.lang.Object _value) {{\nthis._tag = _tag;\nthis._value = _value;\n}}\n\
             public int getTag() {{\nreturn _tag;\n}}"
        ));
        for field in fields {
            let (own, ty) = (&field.name, self.ty(&field.ty));
            let upper = capitalised(own);
            let unchecked = if ty.contains('<') { "@SuppressWarnings(\"unchecked\")\n" } else { "" };
            code.line(format!(
                "public static {name} {own}({ty} _value) {{\nreturn new {name}({own}, _value);\n}}\n\
                 {unchecked}public {ty} get{upper}() {{\n_assertTag({own});\nreturn ({ty}) _value;\n}}\n\
                 public void set{upper}({ty} _value) {{\nthis._tag = {own};\nthis._value = _value;\n}}"
            ));
        }
        self.creator(def, code);
        code.line(
            "@Override\npublic final void writeToParcel(android.os.Parcel _aidl_parcel, int _aidl_flag) {\n\
             _aidl_parcel.writeInt(_tag);\nswitch (_tag) {",
        );
        for field in fields {
            let value = format!("get{}()", capitalised(&field.name));
            let write = self.write(&field.ty, "_aidl_parcel", &value, "_aidl_flag");
            code.line(format!("case {}: {write} break;", field.name));
        }
        code.line(
            "}\n}\npublic final void readFromParcel(android.os.Parcel _aidl_parcel) {\n\
             int _aidl_tag = _aidl_parcel.readInt();\nswitch (_aidl_tag) {",
        );
        for field in fields {
            let read = self.read(&field.ty, "_aidl_parcel");
            code.line(format!("case {}: set{}({read}); return;", field.name, capitalised(&field.name)));
        }
        code.line(
            "}\nthrow new android.os.BadParcelableException(\"a union has no field \" + _aidl_tag);\n}",
        );
        self.contents(fields, code);
        code.line("private java.lang.String _tagString(int _tag) {\nswitch (_tag) {");
        for field in fields {
            code.line(format!("case {}: return {};", field.name, text(&field.name)));
        }
        code.line(
            "}\nthrow new java.lang.IllegalStateException(\"unknown field: \" + _tag);\n}\n\
             private void _assertTag(int tag) {\nif (getTag() != tag) {\n\
             throw new java.lang.IllegalStateException(\"bad access: \" + _tagString(tag) + \", \" + _tagString(getTag()) + \" is available.\");\n}\n}\n}",
        );
    }

    pub(super) fn enumeration(&self, def: &Def, of: &Enum, code: &mut Code) {
        code.line(format!("{}@interface {} {{", Self::modifiers(def), def.name.last()));
        for one in &of.enumerators {
            let suffix = if of.backing == Primitive::I64 { "L" } else { "" };
            code.line(format!(
                "public static final {} {} = {}{suffix};",
                of.backing.aidl(),
                one.name,
                one.value
            ));
        }
        code.line("}");
    }
}

fn is_number(ty: &str) -> bool {
    ["byte", "char", "int", "long", "float", "double"].contains(&ty)
}

fn capitalised(name: &str) -> String {
    let mut characters = name.chars();
    characters.next().map_or_else(String::new, |first| first.to_uppercase().chain(characters).collect())
}
