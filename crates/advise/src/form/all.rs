//! A setting in each of its forms.

use super::{Form, Name, hold, kernel, limit, service};
use crate::{Advice, Setting, Target};

/// All forms of a setting; none has a text if nothing has to be set.
pub fn all(advice: &Advice, setting: &Setting, target: &Target) -> Vec<Form> {
    let form = |name: Name| one(name, advice, setting, target);
    Name::ALL.into_iter().map(form).collect()
}

/// One form of a setting.
pub fn one(name: Name, advice: &Advice, setting: &Setting, target: &Target) -> Form {
    let question = &advice.question;
    let form = match name {
        Name::Hold => hold(setting),
        Name::Limit => limit(setting, target),
        Name::Kernel => kernel::form(setting, target),
        Name::Tuned => service::tuned(question, setting),
        Name::Systemd => service::systemd(question, setting, target),
        Name::Udev => service::udev(question, setting, target),
    };
    if setting.decision.is_to_be_set() {
        return form;
    }
    let nothing = || Some(format!("nothing to set: {}", advice.why_nothing_to_set()?));
    let caveat = advice.why_nothing().or_else(nothing);
    let text = None;
    Form {
        text,
        caveat,
        ..form
    }
}
