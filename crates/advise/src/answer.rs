//! The answer to a question: the advice, its setting in every form, and what that costs.

use reveille_results::description::Probe;
use reveille_results::statistics::Floor;
use reveille_results::{Description, Loaded};
use serde::Serialize;

use crate::form::{self, Form, Name};
use crate::{Advice, Cost, Error, Question, Result, Setting, Target};

/// The answer, for people and for programs the same.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Answer<'a> {
    /// The result's name.
    pub result: &'a str,
    /// How it was measured.
    pub probe: Probe,
    /// What it is advice for.
    pub target: &'a Target,
    /// State by state.
    #[serde(flatten)]
    pub advice: Advice,
    /// The same in the driver's figures.
    pub setting: Setting,
    /// What the setting costs.
    pub cost: Cost,
    /// The setting in every form.
    pub forms: Vec<Form>,
    /// No state was made the deepest for the run.
    pub as_the_governor_chose: bool,
    /// The floors of the method.
    pub floors: &'a [Floor],
    /// The result's own notes.
    pub notes: &'a [String],
    /// What was measured, where and how.
    #[serde(skip)]
    pub description: &'a Description,
}

impl<'a> Answer<'a> {
    /// The answer that a result gives.
    pub fn of(loaded: &'a Loaded, target: &'a Target, question: Question) -> Result<Self> {
        let description = &loaded.description;
        let advice = Advice::of(loaded, target, question)?;
        let setting = Setting::of(&advice, target);
        Ok(Self {
            result: &description.name,
            probe: description.probe,
            target,
            cost: Cost::of(loaded, target, &advice),
            forms: form::all(&advice, &setting, target),
            as_the_governor_chose: description.settings.deepest_states.is_empty(),
            floors: &description.characterisation.floors,
            notes: &description.notes,
            description,
            advice,
            setting,
        })
    }

    /// One form's text for a file; `None` where nothing has to be set.
    ///
    /// # Errors
    /// [`Error::NoForm`] where the setting is unknown or cannot be expressed in this form.
    pub fn form(&self, name: Name) -> Result<Option<&str>> {
        if let Some(why) = self.advice.why_nothing() {
            return Err(Error::NoForm(format!("--form: {why}")));
        }
        let form = self.forms.iter().find(|form| form.name == name);
        match form.and_then(|form| form.text.as_deref()) {
            None if self.setting.decision.is_to_be_set() => {
                let why = form.and_then(|form| form.caveat.as_deref());
                Err(Error::NoForm(format!(
                    "--form {}: {}",
                    name.as_str(),
                    why.unwrap_or_default()
                )))
            }
            text => Ok(text),
        }
    }

    /// What a reader of one form alone would miss, a line each. A file may outlive what was printed when it was made.
    pub fn beside_a_form(&self, name: Name) -> Vec<String> {
        if let Some(why) = self.advice.why_nothing_to_set() {
            return vec![format!("nothing to set: {why}")];
        }
        let open = self.setting.decision.open().map(|end| {
            let why = end.why(&self.advice.question);
            format!("{} and deeper states are forbidden: {why}", end.state)
        });
        let of_others = self.setting.cpus.as_ref().filter(|_| name == Name::Kernel);
        let of_others = of_others.map(|_| form::FOR_ALL.to_owned());
        open.into_iter().chain(of_others).collect()
    }
}
