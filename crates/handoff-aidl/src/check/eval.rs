//! Constant expressions are computed.

use super::{Checker, EnumValues, Evaluation};
use crate::ast::{Const, Expr, ExprKind, Item, ItemKind, Member, Path};
use crate::diagnostic::{Diagnostic, similar};
use crate::model::{DefId, Primitive, Type, TypeKind, Value};
use crate::source::{Language, Span};

/// How long a chain of constants that refer to each other may be.
pub(super) const DEEPEST: u32 = 48;

/// A value on the way through an expression. AIDL computes in 32 bits as long as all parts are.
#[derive(Debug, Clone)]
pub(crate) struct Computed {
    value: Value,
    wide: bool,
}

impl Computed {
    fn narrow(value: Value) -> Option<Self> {
        Some(Computed { value, wide: false })
    }

    fn bool(value: bool) -> Option<Self> {
        Self::narrow(Value::Bool(value))
    }

    fn number(value: i128, wide: bool) -> Option<Self> {
        Some(Computed { value: Value::Integer(value), wide })
    }
}

impl<'a> Checker<'a> {
    /// The value of an expression; `None` after an error was reported.
    pub(super) fn evaluate(&mut self, scope: DefId, expr: &Expr) -> Option<Value> {
        self.compute(scope, expr).map(|computed| computed.value)
    }

    fn compute(&mut self, scope: DefId, expr: &Expr) -> Option<Computed> {
        match &expr.kind {
            ExprKind::Integer(text) => self.integer(scope, text, expr.span),
            ExprKind::Float(text) => self.float(text, expr.span),
            ExprKind::Character(one) => match u16::try_from(u32::from(*one)) {
                Ok(unit) => Computed::narrow(Value::Character(unit)),
                Err(_) => {
                    self.error(Diagnostic::error(expr.span, "this character needs more than 16 bits"));
                    None
                }
            },
            ExprKind::Text(text) => Computed::narrow(Value::Text(text.clone())),
            ExprKind::Bool(value) => Computed::bool(*value),
            ExprKind::Name(path) => self.evaluate_name(scope, path),
            ExprKind::List(items) => {
                let values: Option<Vec<Value>> =
                    items.iter().map(|item| self.evaluate(scope, item)).collect();
                values.and_then(|values| Computed::narrow(Value::List(values)))
            }
            ExprKind::Unary(operator, operand) => self.unary(scope, operator, operand, expr.span),
            ExprKind::Binary(operator, left, right) => self.binary(scope, operator, left, right, expr.span),
            ExprKind::Choice(condition, then, otherwise) => {
                let holds = match self.evaluate(scope, condition)? {
                    Value::Bool(holds) => holds,
                    Value::Integer(value) => value != 0,
                    _ => return self.no_number(condition.span),
                };
                self.compute(scope, if holds { then } else { otherwise })
            }
        }
    }

    fn integer(&mut self, scope: DefId, text: &str, span: Span) -> Option<Computed> {
        let plain: String = text.chars().filter(|c| *c != '_').collect();
        let (digits, radix) = match plain.get(..2) {
            Some("0x" | "0X") => (&plain[2..], 16),
            Some("0b" | "0B") => (&plain[2..], 2),
            _ => (plain.as_str(), 10),
        };
        let hidl = self.language(scope) == Language::Hidl;
        let suffixes: &[&str] = if hidl {
            &["ull", "ULL", "ul", "UL", "ll", "LL", "u", "U", "l", "L"]
        } else {
            &["u8", "i32", "i64", "L", "l"]
        };
        let suffix = suffixes.iter().copied().find(|suffix| digits.ends_with(suffix));
        let digits = suffix.map_or(digits, |suffix| &digits[..digits.len() - suffix.len()]);
        let Ok(value) = u64::from_str_radix(digits, radix) else {
            let fits = !digits.is_empty() && digits.chars().all(|digit| digit.is_digit(radix));
            let why = if fits { "is larger than 64 bits" } else { "is no number" };
            self.error(Diagnostic::error(span, format!("`{text}` {why}")));
            return None;
        };
        let long = matches!(suffix, Some("L" | "l" | "i64"));
        if hidl {
            return Computed::number(value.into(), true);
        }
        if suffix == Some("u8") {
            // A byte is signed: 255u8 is -1.
            let value = if value <= 255 { i128::from(value as u8 as i8) } else { i128::from(value) };
            return Computed::number(value, false);
        }
        // Hexadecimal digits say bits: 0xffffffff is -1.
        let value = match radix {
            10 => i128::from(value),
            _ if value <= u64::from(u32::MAX) && !long => i128::from(value as u32 as i32),
            _ => i128::from(value as i64),
        };
        if value > i128::from(i64::MAX) {
            self.error(Diagnostic::error(span, format!("`{text}` is larger than a `long`")));
            return None;
        }
        let wide = long || i32::try_from(value).is_err();
        Computed::number(value, wide)
    }

    fn float(&mut self, text: &str, span: Span) -> Option<Computed> {
        let digits = text.trim_end_matches(['f', 'F', 'd', 'D']);
        match digits.parse::<f64>() {
            Ok(value) if value.is_finite() => Computed::narrow(Value::Float(value)),
            _ => {
                self.error(Diagnostic::error(span, format!("`{text}` is no number")));
                None
            }
        }
    }

    fn no_number<T>(&mut self, span: Span) -> Option<T> {
        self.error(Diagnostic::error(span, "this is not a whole number").label("cannot be computed with"));
        None
    }

    fn number(&mut self, scope: DefId, computed: Computed, span: Span) -> Option<(i128, bool)> {
        let wide = computed.wide || self.language(scope) == Language::Hidl;
        match computed.value {
            Value::Integer(value) | Value::Enumerator(_, _, value) => {
                Some((value, wide || i32::try_from(value).is_err()))
            }
            Value::Bool(value) => Some((value.into(), wide)),
            Value::Character(unit) => Some((unit.into(), wide)),
            _ => self.no_number(span),
        }
    }

    fn unary(&mut self, scope: DefId, operator: &str, operand: &Expr, span: Span) -> Option<Computed> {
        // The least number has no positive counterpart: it is read together with its sign.
        if let ("-", ExprKind::Integer(text)) = (operator, &operand.kind) {
            if matches!(text.as_str(), "9223372036854775808" | "9223372036854775808L") {
                return Computed::number(i64::MIN.into(), true);
            }
        }
        let computed = self.compute(scope, operand)?;
        if let Value::Float(value) = computed.value {
            return match operator {
                "-" => Computed::narrow(Value::Float(-value)),
                "+" => Computed::narrow(Value::Float(value)),
                _ => self.no_number(operand.span),
            };
        }
        let (value, wide) = self.number(scope, computed, operand.span)?;
        let result = match operator {
            "-" => -value,
            "~" => !value,
            "!" => return Computed::bool(value == 0),
            _ => value,
        };
        self.fitting(scope, result, wide, span)
    }

    fn binary(
        &mut self,
        scope: DefId,
        operator: &str,
        left: &Expr,
        right: &Expr,
        span: Span,
    ) -> Option<Computed> {
        let (one, other) = (self.compute(scope, left)?, self.compute(scope, right)?);
        if let (Value::Text(first), Value::Text(second), "+") = (&one.value, &other.value, operator) {
            return Computed::narrow(Value::Text(format!("{first}{second}")));
        }
        let (a, left_wide) = self.number(scope, one, left.span)?;
        let (b, right_wide) = self.number(scope, other, right.span)?;
        let wide = left_wide || right_wide;
        let result = match operator {
            "+" => a.checked_add(b)?,
            "-" => a.checked_sub(b)?,
            "*" => a.checked_mul(b)?,
            "/" | "%" if b == 0 => {
                self.error(Diagnostic::error(span, "division by zero").related(right.span, "this is 0"));
                return None;
            }
            "/" => a / b,
            "%" => a % b,
            "&" => a & b,
            "|" => a | b,
            "^" => a ^ b,
            "<<" | ">>" => {
                // The type of the left side is that of the result.
                let bits = if left_wide { 64 } else { 32 };
                let Some(shift) = u32::try_from(b.unsigned_abs()).ok().filter(|shift| *shift < bits) else {
                    let diagnostic = Diagnostic::error(right.span, format!("a shift by {b} bits"))
                        .label(format!("up to {} either way", bits - 1))
                        .help("a number is 64 bits wide with the suffix `L`");
                    self.error(diagnostic);
                    return None;
                };
                // As of Android's compiler: to shift by less than nothing is to shift the other way.
                if (operator == ">>") == (b >= 0) {
                    return Computed::number(a >> shift, left_wide);
                }
                let shifted = a << shift;
                let hidl = self.language(scope) == Language::Hidl;
                let kept = match (hidl, left_wide) {
                    (true, _) => i128::from(shifted as u64),
                    (false, true) => i128::from(shifted as i64),
                    (false, false) => i128::from(shifted as i32),
                };
                return Computed::number(kept, left_wide);
            }
            "==" => return Computed::bool(a == b),
            "!=" => return Computed::bool(a != b),
            "<" => return Computed::bool(a < b),
            ">" => return Computed::bool(a > b),
            "<=" => return Computed::bool(a <= b),
            ">=" => return Computed::bool(a >= b),
            "&&" => return Computed::bool(a != 0 && b != 0),
            "||" => return Computed::bool(a != 0 || b != 0),
            _ => return self.no_number(span),
        };
        self.fitting(scope, result, wide, span)
    }

    fn fitting(&mut self, scope: DefId, value: i128, wide: bool, span: Span) -> Option<Computed> {
        let (least, greatest) = match (self.language(scope), wide) {
            (Language::Hidl, _) => (i128::from(i64::MIN), i128::from(u64::MAX)),
            (Language::Aidl, true) => (i64::MIN.into(), i64::MAX.into()),
            (Language::Aidl, false) => (i32::MIN.into(), i32::MAX.into()),
        };
        if (least..=greatest).contains(&value) {
            return Computed::number(value, wide);
        }
        let bits = if wide { 64 } else { 32 };
        let diagnostic = Diagnostic::error(span, format!("{value} does not fit in {bits} bits"))
            .label("computed here")
            .help("a number is 64 bits wide with the suffix `L`");
        self.error(diagnostic);
        None
    }

    fn evaluate_name(&mut self, scope: DefId, path: &Path) -> Option<Computed> {
        let (last, holder) = path.names.split_last()?;
        let name = last.text.as_str();
        if holder.is_empty() {
            let mut around = Some(scope);
            while let Some(id) = around {
                if let Some(value) = self.member_value(id, name, path.span) {
                    return value;
                }
                around = self.entry(id).parent;
            }
        } else {
            let mut outer = path.clone();
            outer.names.pop();
            if let Some(id) = self.resolve(scope, &outer) {
                if let Some(value) = self.member_value(id, name, path.span) {
                    return value;
                }
                let known: Vec<&str> = self.value_names(id);
                let meant = similar(name, known.iter().copied()).map(str::to_owned);
                let full = &self.entry(id).name;
                let mut diagnostic =
                    Diagnostic::error(last.span, format!("`{full}` has no constant `{name}`"))
                        .label("unknown");
                if let Some(meant) = meant {
                    diagnostic = diagnostic.help("did you mean").fix(last.span, meant);
                }
                self.error(diagnostic);
                return None;
            }
        }
        let text = path.text();
        let diagnostic =
            Diagnostic::error(path.span, format!("there is no constant `{text}`")).label("unknown");
        let known = self.value_names(scope);
        let diagnostic = match similar(&text, known.iter().copied()).map(str::to_owned) {
            Some(meant) => diagnostic.help("did you mean").fix(path.span, meant),
            None => diagnostic.help("write a value of an enum as `Enum.VALUE`, and import its file"),
        };
        self.error(diagnostic);
        None
    }

    fn value_names(&self, id: DefId) -> Vec<&str> {
        match &self.entry(id).item.kind {
            ItemKind::Enum { enumerators, .. } => {
                enumerators.iter().map(|one| one.name.text.as_str()).collect()
            }
            _ => constants(self.entry(id).item).map(|one| one.name.text.as_str()).collect(),
        }
    }

    /// A constant or value of an enum by its own name; `None` if there is none of that name.
    fn member_value(&mut self, id: DefId, name: &str, used: Span) -> Option<Option<Computed>> {
        if self.is_enum(id) {
            if !self.enums.contains_key(&id) {
                self.enum_values(id);
            }
            return match (self.value_so_far(id, name), self.enums.get(&id)) {
                (Some(value), _) => Some(enumerator(id, name, value)),
                (None, Some(Evaluation::InProgress)) if self.value_names(id).contains(&name) => {
                    Some(self.in_circles(used))
                }
                _ => None,
            };
        }
        let constant = self.constant(id, name)?;
        let key = (id, name.to_owned());
        match self.constants.get(&key).cloned() {
            Some(Evaluation::Done(value)) => return Some(value),
            Some(Evaluation::InProgress) => return Some(self.in_circles(used)),
            None if self.depth > DEEPEST => {
                let message = format!("more than {DEEPEST} constants refer to each other here");
                self.error(Diagnostic::error(used, message));
                return Some(None);
            }
            None => {}
        }
        self.constants.insert(key.clone(), Evaluation::InProgress);
        self.depth += 1;
        let ty = self.resolve_type(id, &constant.ty);
        let value = self.evaluate(id, &constant.value);
        self.depth -= 1;
        let value = value.and_then(|value| self.convert(id, value, &ty, constant.value.span));
        let wide = ty.kind == TypeKind::Primitive(Primitive::I64);
        let computed = value.map(|value| Computed { value, wide });
        self.constants.insert(key, Evaluation::Done(computed.clone()));
        Some(computed)
    }

    /// The declaration of a constant.
    fn constant(&mut self, id: DefId, name: &str) -> Option<&'a Const> {
        let item = self.entry(id).item;
        // Of two of one name, which is an error, the first.
        let by_name = || constants(item).map(|one| (one.name.text.as_str(), one)).rev().collect();
        self.by_name.entry(id).or_insert_with(by_name).get(name).copied()
    }

    fn in_circles<T>(&mut self, used: Span) -> Option<T> {
        self.error(Diagnostic::error(used, "this constant depends on itself").label("leads back to itself"));
        None
    }

    /// Values of an enum that is being computed: earlier ones can be used by later ones.
    fn value_so_far(&self, id: DefId, name: &str) -> Option<i128> {
        match self.constants.get(&(id, name.to_owned())) {
            Some(Evaluation::Done(Some(Computed { value: Value::Integer(value), .. }))) => Some(*value),
            _ => None,
        }
    }

    /// The type that an enum's values have.
    pub(super) fn enum_backing(&mut self, id: DefId) -> Primitive {
        let ItemKind::Enum { backing, .. } = &self.entry(id).item.kind else { return Primitive::I32 };
        let Some(backing) = backing else { return self.backing_annotation(id) };
        if let Some(base) = self.enum_base(id) {
            if self.depth > DEEPEST {
                return Primitive::I32;
            }
            self.depth += 1;
            let primitive = self.enum_backing(base);
            self.depth -= 1;
            return primitive;
        }
        match self.resolve_type(id, backing).kind {
            TypeKind::Primitive(primitive) if primitive.range().is_some() => primitive,
            _ => {
                let diagnostic = Diagnostic::error(backing.span, "an enum's values are whole numbers")
                    .help("write a type such as `uint32_t`, or an enum to extend");
                self.error(diagnostic);
                Primitive::I32
            }
        }
    }

    /// The enum that an enum of HIDL extends.
    fn enum_base(&self, id: DefId) -> Option<DefId> {
        let ItemKind::Enum { backing: Some(backing), .. } = &self.entry(id).item.kind else { return None };
        if Primitive::of(&backing.path.text(), Language::Hidl).is_some() {
            return None;
        }
        self.resolve(id, &backing.path).filter(|base| *base != id && self.is_enum(*base))
    }

    /// Every value of an enum, the inherited ones in front.
    pub(super) fn enum_values(&mut self, id: DefId) -> EnumValues {
        match self.enums.get(&id) {
            Some(Evaluation::Done(values)) => return values.clone(),
            Some(Evaluation::InProgress) => {
                let span = self.entry(id).item.name.span;
                self.in_circles::<()>(span);
                return Vec::new();
            }
            None => {}
        }
        self.enums.insert(id, Evaluation::InProgress);
        let mut values = match self.enum_base(id) {
            Some(base) if self.depth <= DEEPEST => {
                self.depth += 1;
                let inherited = self.enum_values(base);
                self.depth -= 1;
                inherited
            }
            _ => Vec::new(),
        };
        for (name, value) in &values {
            self.constants.insert((id, name.clone()), Evaluation::Done(Computed::number(*value, false)));
        }
        let backing = self.enum_backing(id);
        let ty = Type::plain(TypeKind::Primitive(backing));
        let ItemKind::Enum { enumerators, .. } = &self.entry(id).item.kind else { return values };
        for enumerator in enumerators {
            let name = enumerator.name.text.clone();
            let span = enumerator.value.as_ref().map_or(enumerator.name.span, |value| value.span);
            let value = match &enumerator.value {
                Some(value) => self.evaluate(id, value),
                None => Some(Value::Integer(values.last().map_or(0, |(_, last)| last + 1))),
            };
            let value = value.and_then(|value| self.convert(id, value, &ty, span));
            let value = match value {
                Some(Value::Integer(value)) => value,
                // Reported; the ones behind it are counted on.
                _ => values.last().map_or(0, |(_, last)| last.saturating_add(1)),
            };
            self.constants.insert((id, name.clone()), Evaluation::Done(Computed::number(value, false)));
            values.push((name, value));
        }
        self.enums.insert(id, Evaluation::Done(values.clone()));
        values
    }
}

fn enumerator(id: DefId, name: &str, value: i128) -> Option<Computed> {
    Computed::narrow(Value::Enumerator(id, name.to_owned(), value))
}

/// The constants that a declaration holds.
pub(super) fn constants(item: &Item) -> impl DoubleEndedIterator<Item = &Const> {
    let members = match &item.kind {
        ItemKind::Interface { members, .. }
        | ItemKind::Parcelable { members, .. }
        | ItemKind::Union { members, .. } => members.as_slice(),
        _ => &[],
    };
    members.iter().filter_map(|member| match member {
        Member::Const(constant) => Some(constant),
        _ => None,
    })
}
