//! The terminal's style: with or without colours, with block characters or in ASCII.

use std::borrow::Cow;

use ratatui::style::{Color, Modifier, Style};
use ratatui::text::Span;
use reveille_show::terminal::is_control;

/// What the terminal supports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Look {
    pub colour: bool,
    pub utf8: bool,
}

/// The meaning of a piece of text, which determines its style.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tone {
    Plain,
    Strong,
    Faint,
    /// Time awake, and values that deserve attention.
    Awake,
    Asleep,
    /// The title line and the selected row.
    Inverse,
}

/// An unknown value: never a zero.
pub const UNKNOWN: &str = "-";

const BLOCKS: [char; 9] = [' ', '▏', '▎', '▍', '▌', '▋', '▊', '▉', '█'];
const HEIGHTS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
/// From little to much ink.
const ASCII_HEIGHTS: [char; 8] = ['.', ':', '-', '=', '+', '*', '%', '#'];

impl Look {
    /// By `NO_COLOR` (any non-empty value: no-color.org) and the locale's character set; `LC_ALL`
    /// overrides `LC_CTYPE`, which overrides `LANG`.
    pub fn of_environment() -> Self {
        Self::from_variables(|name| std::env::var(name).ok())
    }

    fn from_variables(variable: impl Fn(&str) -> Option<String>) -> Self {
        let given = |name: &&str| variable(name).filter(|value| !value.is_empty());
        let locale = ["LC_ALL", "LC_CTYPE", "LANG"].iter().find_map(given);
        let locale = locale.unwrap_or_default().to_ascii_lowercase();
        Self {
            colour: given(&"NO_COLOR").is_none(),
            utf8: locale.contains("utf-8") || locale.contains("utf8"),
        }
    }

    /// Only two colours, readable on dark and light backgrounds; otherwise weight.
    pub fn style(self, tone: Tone) -> Style {
        let plain = Style::new();
        let coloured = |colour| match self.colour {
            true => plain.fg(colour),
            false => plain,
        };
        match tone {
            Tone::Plain => plain,
            Tone::Strong => plain.add_modifier(Modifier::BOLD),
            Tone::Faint => plain.add_modifier(Modifier::DIM),
            Tone::Awake => coloured(Color::Magenta),
            Tone::Asleep => coloured(Color::Green),
            Tone::Inverse => plain.add_modifier(Modifier::REVERSED),
        }
    }

    /// The text in characters that this terminal can show. Control characters, which a process may
    /// have in its name, never reach the terminal.
    pub fn text(self, text: &str) -> Cow<'_, str> {
        let shown = |c: char| !is_control(c) && (self.utf8 || c.is_ascii());
        if text.chars().all(shown) {
            return text.into();
        }
        let replaced = |c: char| match c {
            _ if shown(c) => c,
            'µ' | 'μ' => 'u',
            '×' => 'x',
            '–' | '—' => '-',
            '·' => '|',
            '…' => '~',
            '←' => '<',
            '→' => '>',
            '↑' | '▲' => '^',
            '↓' | '▼' => 'v',
            _ => '?',
        };
        text.chars().map(replaced).collect::<String>().into()
    }

    /// The text truncated to `width` columns, with a mark if something is missing.
    pub fn cut(self, text: &str, width: usize) -> String {
        let text = self.text(text);
        if Span::raw(&*text).width() <= width {
            return text.into_owned();
        }
        let mut kept = String::new();
        for c in text.chars() {
            kept.push(c);
            if Span::raw(&*kept).width() >= width {
                kept.pop();
                break;
            }
        }
        if width > 0 {
            kept.push(if self.utf8 { '…' } else { '~' });
        }
        kept
    }

    /// A bar of at most `width` columns; `share` is 0 to 1.
    pub fn bar(self, share: f64, width: usize) -> String {
        let share = share.clamp(0.0, 1.0);
        if !self.utf8 {
            return "#".repeat((share * width as f64).round() as usize);
        }
        let eighths = (share * width as f64 * 8.0).round() as usize;
        let mut bar = "█".repeat(eighths / 8);
        match eighths % 8 {
            0 => {}
            part => bar.push(BLOCKS[part]),
        }
        bar
    }

    /// Values as a line of small columns; `top`: the highest value. An unknown value is a gap.
    pub fn trend(self, values: &[Option<f32>], top: f32) -> String {
        let heights = if self.utf8 { HEIGHTS } else { ASCII_HEIGHTS };
        let column = |value: &Option<f32>| match value {
            None => ' ',
            Some(value) => {
                let height = (value / top.max(f32::MIN_POSITIVE)).clamp(0.0, 1.0)
                    * (heights.len() - 1) as f32;
                heights[height.round() as usize]
            }
        };
        values.iter().map(column).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: Look = Look {
        colour: false,
        utf8: false,
    };
    const RICH: Look = Look {
        colour: true,
        utf8: true,
    };

    fn look(variables: &[(&str, &str)]) -> Look {
        let found = |name: &str| variables.iter().find(|(have, _)| *have == name);
        Look::from_variables(|name| found(name).map(|(_, value)| (*value).to_owned()))
    }

    #[test]
    fn the_locale_and_no_color_decide() {
        assert!(look(&[("LANG", "de_DE.UTF-8")]).utf8);
        assert!(!look(&[("LANG", "C")]).utf8);
        assert!(!look(&[("LC_ALL", "C"), ("LANG", "en_GB.UTF-8")]).utf8);
        assert!(look(&[("LC_ALL", ""), ("LANG", "C.utf8")]).utf8);
        assert!(look(&[("NO_COLOR", "")]).colour);
        assert!(!look(&[("NO_COLOR", "1")]).colour);
    }

    #[test]
    fn a_process_cannot_send_control_characters_to_the_terminal() {
        assert_eq!(RICH.text("evil\x1b[2J"), "evil?[2J");
        assert_eq!(PLAIN.text("5 µs → naïve"), "5 us > na?ve");
    }

    #[test]
    fn truncated_text_has_a_mark() {
        assert_eq!(RICH.cut("kworker/0:1", 7), "kworke…");
        assert_eq!(PLAIN.cut("kworker/0:1", 7), "kworke~");
        assert_eq!(RICH.cut("kworker", 7), "kworker");
        assert_eq!(RICH.cut("漢字漢字", 4), "漢…");
        assert_eq!(RICH.cut("kworker", 0), "");
    }

    #[test]
    fn a_bar_has_eighths_with_utf_8() {
        assert_eq!(RICH.bar(0.5, 5), "██▌");
        assert_eq!(PLAIN.bar(0.5, 4), "##");
        assert_eq!(RICH.bar(7.0, 3), "███");
    }

    #[test]
    fn a_trend_has_gaps_for_unknown_values() {
        let values = [None, Some(0.0), Some(50.0), Some(100.0)];
        assert_eq!(RICH.trend(&values, 100.0), " ▁▅█");
        assert_eq!(PLAIN.trend(&values, 100.0), " .+#");
    }
}
