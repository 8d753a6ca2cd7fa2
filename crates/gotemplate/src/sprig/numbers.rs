//! Numbers.

use super::convert::{float, int};
use super::decimal::Decimal;
use super::{A, I, S};
use crate::budget::Meter;
use crate::functions::{Fault, Functions};
use crate::value::{IntType, List, Type, Value};

pub(super) fn add(functions: &mut Functions) {
    functions.add("atoi", &[S], |_, args| {
        let digits = args.str(0).strip_prefix(['+', '-']).unwrap_or(args.str(0));
        let plain = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
        Ok(Value::int(if plain {
            args.str(0).parse().unwrap_or_default()
        } else {
            0
        }))
    });
    functions.add("int64", &[A], |_, args| Ok(int(args.value(0)).into()));
    functions.add("int", &[A], |_, args| Ok(Value::int(int(args.value(0)))));
    functions.add("float64", &[A], |_, args| Ok(float(args.value(0)).into()));
    functions.add("toDecimal", &[A], |meter, args| {
        let text = crate::print::value(meter, args.value(0))?;
        Ok(i64::from_str_radix(&text, 8).unwrap_or_default().into())
    });
    whole(functions);
    floats(functions);
    sequences(functions);
}

fn whole(functions: &mut Functions) {
    functions.add("add1", &[A], |_, args| {
        Ok(int(args.value(0)).wrapping_add(1).into())
    });
    functions.add_variadic("add", &[], A, |_, args| {
        Ok(args
            .rest(0)
            .iter()
            .fold(0_i64, |sum, value| sum.wrapping_add(int(value)))
            .into())
    });
    functions.add("sub", &[A, A], |_, args| {
        Ok(int(args.value(0)).wrapping_sub(int(args.value(1))).into())
    });
    functions.add_variadic("mul", &[A], A, |_, args| {
        Ok(args
            .rest(1)
            .iter()
            .fold(int(args.value(0)), |product, value| {
                product.wrapping_mul(int(value))
            })
            .into())
    });
    functions.add("div", &[A, A], |_, args| {
        divided(int(args.value(0)), int(args.value(1)), i64::wrapping_div)
    });
    functions.add("mod", &[A, A], |_, args| {
        divided(int(args.value(0)), int(args.value(1)), i64::wrapping_rem)
    });
    for name in ["max", "biggest"] {
        functions.add_variadic(name, &[A], A, |_, args| {
            Ok(args
                .rest(1)
                .iter()
                .map(int)
                .fold(int(args.value(0)), i64::max)
                .into())
        });
    }
    functions.add_variadic("min", &[A], A, |_, args| {
        Ok(args
            .rest(1)
            .iter()
            .map(int)
            .fold(int(args.value(0)), i64::min)
            .into())
    });
}

fn divided(a: i64, b: i64, operation: fn(i64, i64) -> i64) -> Result<Value, Fault> {
    if b == 0 {
        return Err("runtime error: integer divide by zero".into());
    }
    Ok(operation(a, b).into())
}

/// Sprig adds floats as decimals: 0.1 and 0.2 make 0.3.
fn floats(functions: &mut Functions) {
    functions.add("add1f", &[A], |_, args| {
        folded(float(args.value(0)), &[Value::int(1)], Decimal::add)
    });
    functions.add_variadic("addf", &[], A, |_, args| {
        folded(0.0, args.rest(0), Decimal::add)
    });
    functions.add_variadic("subf", &[A], A, |_, args| {
        folded(float(args.value(0)), args.rest(1), Decimal::sub)
    });
    functions.add_variadic("mulf", &[A], A, |_, args| {
        folded(float(args.value(0)), args.rest(1), Decimal::mul)
    });
    functions.add_variadic("divf", &[A], A, |_, args| {
        folded(float(args.value(0)), args.rest(1), Decimal::div)
    });
    functions.add_variadic("maxf", &[A], A, |_, args| {
        Ok(args
            .rest(1)
            .iter()
            .map(float)
            .fold(float(args.value(0)), f64::max)
            .into())
    });
    functions.add_variadic("minf", &[A], A, |_, args| {
        Ok(args
            .rest(1)
            .iter()
            .map(float)
            .fold(float(args.value(0)), f64::min)
            .into())
    });
    functions.add("floor", &[A], |_, args| {
        Ok(float(args.value(0)).floor().into())
    });
    functions.add("ceil", &[A], |_, args| {
        Ok(float(args.value(0)).ceil().into())
    });
    functions.add_variadic("round", &[A, I], Type::Float64, |_, args| {
        let up_from = if args.len() > 2 { args.float(2) } else { 0.5 };
        let power = 10_f64.powf(args.int(1) as f64);
        let digits = power * float(args.value(0));
        let rounded = if digits.fract() >= up_from {
            digits.ceil()
        } else {
            digits.floor()
        };
        Ok((rounded / power).into())
    });
}

fn folded(
    start: f64,
    values: &[Value],
    operation: fn(Decimal, Decimal) -> Result<Decimal, Fault>,
) -> Result<Value, Fault> {
    let mut result = Decimal::new(start);
    for value in values {
        result = operation(result, Decimal::new(float(value)))?;
    }
    Ok(result.float().into())
}

fn sequences(functions: &mut Functions) {
    functions.add("until", &[I], |meter, args| {
        let count = args.int(0);
        numbers(steps(meter, 0, count, if count < 0 { -1 } else { 1 })?)
    });
    functions.add("untilStep", &[I, I, I], |meter, args| {
        numbers(steps(meter, args.int(0), args.int(1), args.int(2))?)
    });
    functions.add_variadic("seq", &[], I, |meter, args| {
        let (from, step, to) = match args.len() {
            1 => (1, None, args.int(0)),
            2 => (args.int(0), None, args.int(1)),
            3 => (args.int(0), Some(args.int(1)), args.int(2)),
            _ => return Ok("".into()),
        };
        let sign = if to < from { -1 } else { 1 };
        if sign < 0 && step.is_some_and(|step| step > 0) {
            return Ok("".into());
        }
        let numbers = steps(meter, from, to.saturating_add(sign), step.unwrap_or(sign))?;
        let texts: Vec<String> = numbers.iter().map(i64::to_string).collect();
        Ok(texts.join(" ").into())
    });
}

fn numbers(numbers: Vec<i64>) -> Result<Value, Fault> {
    let numbers = numbers.into_iter().map(|n| Value::Int(n, IntType::Int));
    Ok(Value::List(List::new(Type::INT, numbers.collect())))
}

fn steps(meter: &Meter, from: i64, to: i64, step: i64) -> Result<Vec<i64>, Fault> {
    if step == 0 || (to < from) != (step < 0) {
        return Ok(Vec::new());
    }
    let count = (i128::from(to) - i128::from(from))
        .unsigned_abs()
        .div_ceil(u128::from(step.unsigned_abs()));
    let count = usize::try_from(count).unwrap_or(usize::MAX);
    meter.step(count)?;
    meter.make(count.saturating_mul(32))?;
    Ok((0..count as i64)
        .map(|i| from.wrapping_add(i.wrapping_mul(step)))
        .collect())
}
