//! What is wrong with an expression, and where.

use std::fmt;

/// What is wrong with an expression, and where. `Display` points into it, in three lines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FilterError {
    /// What is wrong, and what was expected.
    pub what: String,
    /// The expression.
    pub expression: String,
    /// Where, in characters.
    pub at: usize,
    /// How many characters; at least one.
    pub length: usize,
}

impl fmt::Display for FilterError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // A line break or a tabulator would move the caret.
        let expression = self.expression.replace(char::is_control, " ");
        let (indent, carets) = (" ".repeat(self.at), "^".repeat(self.length));
        let what = &self.what;
        write!(f, "filter: {what}\n  {expression}\n  {indent}{carets}")
    }
}

impl std::error::Error for FilterError {}

/// A place in an expression, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Span {
    pub(super) start: usize,
    pub(super) end: usize,
}

impl Span {
    pub(super) fn of(start: usize, length: usize) -> Self {
        let end = start + length;
        Self { start, end }
    }

    pub(super) fn to(self, end: Span) -> Span {
        Span {
            start: self.start,
            end: end.end,
        }
    }
}

/// What is wrong, before it is known in which expression.
#[derive(Debug)]
pub(super) struct Wrong {
    pub(super) what: String,
    pub(super) at: Span,
}

impl Wrong {
    pub(super) fn new(at: Span, what: impl Into<String>) -> Self {
        Self {
            what: what.into(),
            at,
        }
    }

    pub(super) fn within(self, text: &str) -> FilterError {
        let characters = |bytes: usize| {
            text.char_indices()
                .take_while(|&(at, _)| at < bytes)
                .count()
        };
        let (start, end) = (characters(self.at.start), characters(self.at.end));
        FilterError {
            what: self.what,
            expression: text.to_owned(),
            at: start,
            length: (end - start.min(end)).max(1),
        }
    }
}
