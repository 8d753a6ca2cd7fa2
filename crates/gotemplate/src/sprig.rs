//! The functions of Sprig 3.3, but for those that are not a matter of their arguments alone.

mod case;
mod convert;
mod decimal;
mod defaults;
mod dicts;
mod encoding;
mod lists;
mod numbers;
mod paths;
mod reflect;
mod regexes;
mod strings;
mod urls;
mod versions;
mod words;

use crate::functions::Functions;
use crate::value::{Type, Value};

pub(crate) use strings::cut;

/// `string`.
const S: Type = Type::String;
/// `int`.
const I: Type = Type::INT;
/// `interface {}`.
const A: Type = Type::Any;

/// `map[string]interface {}`.
fn dict_type() -> Type {
    Type::map_of(Type::Any)
}

/// Adds them.
pub(crate) fn add(functions: &mut Functions) {
    case::add(functions);
    defaults::add(functions);
    dicts::add(functions);
    encoding::add(functions);
    lists::add(functions);
    numbers::add(functions);
    paths::add(functions);
    reflect::add(functions);
    regexes::add(functions);
    strings::add(functions);
    urls::add(functions);
    versions::add(functions);
    words::add(functions);
    functions.add("hello", &[], |_, _| Ok(Value::from("Hello!")));
    functions.add("fail", &[S], |_, args| Err(args.str(0).into()));
    for (names, why) in REFUSED {
        for name in names.split(' ') {
            functions.refuse(name, why);
        }
    }
}

/// What is left out, and why.
const REFUSED: &[(&str, &str)] = &[
    (
        "ago date dateInZone dateModify date_in_zone date_modify duration durationRound htmlDate htmlDateInZone \
         mustDateModify mustToDate must_date_modify now toDate unixEpoch",
        "dates and times are not supported",
    ),
    (
        "env expandenv",
        "templates may not read the environment of the server",
    ),
    ("getHostByName", "templates may not use the network"),
    (
        "randAlpha randAlphaNum randAscii randBytes randInt randNumeric shuffle uuidv4",
        "the same pod has to give the same result each time",
    ),
    (
        "bcrypt buildCustomCert decryptAES derivePassword encryptAES genCA genCAWithKey genPrivateKey genSelfSignedCert \
         genSelfSignedCertWithKey genSignedCert genSignedCertWithKey htpasswd",
        "templates may not make keys, certificates or passwords",
    ),
];
