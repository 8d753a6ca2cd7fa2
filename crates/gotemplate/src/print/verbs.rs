//! `printf`: a format with verbs.

use super::value::{Flags, Printer};
use crate::budget::Meter;
use crate::functions::Fault;
use crate::value::Value;

/// The largest width or precision, as in Go.
const LARGEST: usize = 1_000_000;

/// Values in a format.
pub(crate) fn sprintf(meter: &Meter, format: &str, args: &[Value]) -> Result<String, Fault> {
    let mut format = Format {
        rest: format,
        args,
        next: 0,
        reordered: false,
        good_index: true,
    };
    let mut printer = Printer::new(meter);
    while let Some(start) = format.rest.find('%') {
        meter.make(start)?;
        printer.out.push_str(&format.rest[..start]);
        format.rest = &format.rest[start + 1..];
        format.verb(&mut printer)?;
    }
    meter.make(format.rest.len())?;
    printer.out.push_str(format.rest);
    if !format.reordered && format.next < args.len() {
        printer.out.push_str("%!(EXTRA ");
        for (i, arg) in args.iter().enumerate().skip(format.next) {
            if i > format.next {
                printer.out.push_str(", ");
            }
            match arg {
                Value::Missing | Value::Nil => printer.out.push_str("<nil>"),
                _ => {
                    printer.out.push_str(&arg.type_name());
                    printer.out.push('=');
                    printer.flags = Flags::default();
                    printer.value(arg, 'v', 0)?;
                }
            }
        }
        printer.out.push(')');
    }
    Ok(printer.out)
}

struct Format<'a> {
    rest: &'a str,
    args: &'a [Value],
    next: usize,
    /// Whether the last verb named its argument.
    reordered: bool,
    good_index: bool,
}

impl<'a> Format<'a> {
    fn peek(&self) -> Option<char> {
        self.rest.chars().next()
    }

    fn take(&mut self) -> Option<char> {
        let c = self.peek()?;
        self.rest = &self.rest[c.len_utf8()..];
        Some(c)
    }

    fn arg(&mut self) -> Option<&'a Value> {
        let arg = self.args.get(self.next)?;
        self.next += 1;
        Some(arg)
    }

    /// What follows a percent sign.
    fn verb(&mut self, printer: &mut Printer<'_>) -> Result<(), Fault> {
        printer.flags = self.flags();
        self.good_index = true;
        let mut after_index = self.index();
        if self.peek() == Some('*') {
            self.take();
            match self.size() {
                Some(width) => {
                    printer.flags.width = Some(width.unsigned_abs());
                    if width < 0 {
                        printer.flags.minus = true;
                        printer.flags.zero = false;
                    }
                }
                None => printer.out.push_str("%!(BADWIDTH)"),
            }
            after_index = false;
        } else {
            printer.flags.width = self.number();
            if after_index && printer.flags.width.is_some() {
                self.good_index = false;
            }
        }
        if self.peek() == Some('.') {
            self.take();
            if after_index {
                self.good_index = false;
            }
            after_index = self.index();
            if self.peek() == Some('*') {
                self.take();
                match self.size() {
                    Some(precision) => printer.flags.precision = usize::try_from(precision).ok(),
                    None => printer.out.push_str("%!(BADPREC)"),
                }
                after_index = false;
            } else {
                printer.flags.precision = Some(self.number().unwrap_or(0));
            }
        }
        if !after_index {
            self.index();
        }
        let Some(verb) = self.take() else {
            printer.out.push_str("%!(NOVERB)");
            return Ok(());
        };
        match verb {
            '%' => {
                printer.out.push('%');
                Ok(())
            }
            _ if !self.good_index => {
                printer.out.push_str(&format!("%!{verb}(BADINDEX)"));
                Ok(())
            }
            _ => match self.arg() {
                Some(arg) => print(printer, arg, verb),
                None => {
                    printer.out.push_str(&format!("%!{verb}(MISSING)"));
                    Ok(())
                }
            },
        }
    }

    fn flags(&mut self) -> Flags {
        let mut flags = Flags::default();
        loop {
            match self.peek() {
                Some('#') => flags.sharp = true,
                Some('0') => flags.zero = true,
                Some('+') => flags.plus = true,
                Some('-') => flags.minus = true,
                Some(' ') => flags.space = true,
                _ => return flags,
            }
            self.take();
        }
    }

    /// A width or precision that an argument gives.
    fn size(&mut self) -> Option<isize> {
        let size = self.arg()?.as_int()?;
        isize::try_from(size)
            .ok()
            .filter(|size| size.unsigned_abs() <= LARGEST)
    }

    fn number(&mut self) -> Option<usize> {
        let digits = self.rest.len()
            - self
                .rest
                .trim_start_matches(|c: char| c.is_ascii_digit())
                .len();
        let (number, rest) = self.rest.split_at(digits);
        self.rest = rest;
        number.parse().ok().filter(|number| *number <= LARGEST)
    }

    /// The number of an argument in brackets.
    fn index(&mut self) -> bool {
        if self.peek() != Some('[') {
            return false;
        }
        self.reordered = true;
        let Some(end) = self.rest.find(']') else {
            self.good_index = false;
            self.take();
            return false;
        };
        let number = self.rest[1..end].parse::<usize>().ok();
        self.rest = &self.rest[end + 1..];
        match number.filter(|number| (1..=self.args.len()).contains(number)) {
            Some(number) => {
                self.next = number - 1;
                true
            }
            None => {
                self.good_index = false;
                true
            }
        }
    }
}

fn print(printer: &mut Printer<'_>, arg: &Value, verb: char) -> Result<(), Fault> {
    match verb {
        'T' => {
            let name = Value::String(arg.type_name().into());
            printer.value(&name, 's', 0)
        }
        'v' => {
            printer.flags.sharp_v = std::mem::take(&mut printer.flags.sharp);
            printer.flags.plus_v = std::mem::take(&mut printer.flags.plus);
            printer.value(arg, 'v', 0)
        }
        _ => printer.value(arg, verb, 0),
    }
}
