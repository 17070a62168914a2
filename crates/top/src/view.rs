//! The user's choices, and how keys change them.

use std::cmp::Ordering;
use std::time::Duration;

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use reveille_watch::live::Level;

/// The user's choices.
#[derive(Debug, Clone, PartialEq)]
pub struct View {
    pub pane: Pane,
    pub level: Level,
    pub values: Values,
    /// One for each pane.
    lists: [List; 3],
    /// The filter is being typed.
    pub typing: bool,
    pub frozen: bool,
    pub help: bool,
    pub interval: Duration,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Pane {
    #[default]
    Idle,
    Wakers,
    Bounds,
}

impl Pane {
    pub const ALL: [Self; 3] = [Self::Idle, Self::Wakers, Self::Bounds];

    pub fn name(self) -> &'static str {
        match self {
            Self::Idle => "Idle",
            Self::Wakers => "Wakers",
            Self::Bounds => "Bounds",
        }
    }
}

/// The figure of each idle state that the list of CPUs shows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Values {
    #[default]
    Share,
    Stay,
    Uses,
    Median,
    P99,
    Max,
}

impl Values {
    const ALL: [(Self, &'static str); 6] = [
        (Self::Share, "share of time"),
        (Self::Stay, "mean stay"),
        (Self::Uses, "uses per second"),
        (Self::Median, "median wake latency"),
        (Self::P99, "p99 wake latency"),
        (Self::Max, "maximum wake latency"),
    ];

    pub fn name(self) -> &'static str {
        Self::ALL[self as usize].1
    }
}

/// A list that is scrolled, sorted and filtered.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct List {
    pub selected: usize,
    /// Index of the pane's sort order.
    pub sort: usize,
    pub reversed: bool,
    /// Only rows that contain this text, in any case; empty: all.
    pub filter: String,
}

impl List {
    /// The order of two rows, the other way round if it is reversed.
    pub fn ordered(&self, usual: Ordering) -> Ordering {
        match self.reversed {
            true => usual.reverse(),
            false => usual,
        }
    }

    /// Whether a row with these words matches the filter.
    pub fn passes(&self, words: &[&str]) -> bool {
        let wanted = self.filter.to_lowercase();
        wanted.is_empty()
            || words
                .iter()
                .any(|word| word.to_lowercase().contains(&wanted))
    }
}

/// The size of the drawn list, for keys that move in it.
#[derive(Debug, Clone, Copy)]
pub struct Listed {
    pub rows: usize,
    /// Rows that fit on the screen.
    pub page: usize,
    /// The number of the pane's sort orders.
    pub orders: usize,
}

/// What a key requires.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    Nothing,
    Draw,
    Redraw,
    Suspend,
    Quit,
}

/// From the coarsest to the finest.
const LEVELS: [Level; 4] = [Level::Machine, Level::Package, Level::Core, Level::Cpu];

/// The intervals of `+` and `-`, ms.
const INTERVALS_MS: [u64; 8] = [250, 500, 1000, 2000, 5000, 10_000, 30_000, 60_000];

impl View {
    pub fn new(interval: Duration) -> Self {
        Self {
            pane: Pane::default(),
            level: Level::Cpu,
            values: Values::default(),
            lists: Default::default(),
            typing: false,
            frozen: false,
            help: false,
            interval,
        }
    }

    /// The list of the current pane.
    pub fn list(&self) -> &List {
        &self.lists[self.pane as usize]
    }

    fn list_mut(&mut self) -> &mut List {
        &mut self.lists[self.pane as usize]
    }

    pub fn press(&mut self, key: KeyEvent, listed: Listed) -> Action {
        if key.kind == KeyEventKind::Release {
            return Action::Nothing;
        }
        if key.modifiers.contains(KeyModifiers::CONTROL) {
            return match key.code {
                KeyCode::Char('c') => Action::Quit,
                KeyCode::Char('z') => Action::Suspend,
                KeyCode::Char('l') => Action::Redraw,
                _ => Action::Nothing,
            };
        }
        if self.typing {
            return self.type_filter(key.code);
        }
        if self.help {
            return match key.code {
                KeyCode::Char('q') => Action::Quit,
                _ => {
                    self.help = false;
                    Action::Draw
                }
            };
        }
        if self.scroll(key.code, listed) || self.choose(key.code, listed) {
            return Action::Draw;
        }
        match key.code {
            KeyCode::Char('q' | 'Q') => Action::Quit,
            _ => Action::Nothing,
        }
    }

    fn type_filter(&mut self, key: KeyCode) -> Action {
        let list = self.list_mut();
        list.selected = 0;
        match key {
            KeyCode::Char(c) => list.filter.push(c),
            KeyCode::Backspace => drop(list.filter.pop()),
            KeyCode::Enter => self.typing = false,
            KeyCode::Esc => {
                list.filter.clear();
                self.typing = false;
            }
            _ => return Action::Nothing,
        }
        Action::Draw
    }

    /// Moves the selected row; false if the key has another meaning.
    fn scroll(&mut self, key: KeyCode, listed: Listed) -> bool {
        let last = listed.rows.saturating_sub(1);
        let list = self.list_mut();
        let now = list.selected.min(last);
        list.selected = match key {
            KeyCode::Up | KeyCode::Char('k') => now.saturating_sub(1),
            KeyCode::Down | KeyCode::Char('j') => now + 1,
            KeyCode::PageUp => now.saturating_sub(listed.page.max(1)),
            KeyCode::PageDown => now + listed.page.max(1),
            KeyCode::Home | KeyCode::Char('g') => 0,
            KeyCode::End | KeyCode::Char('G') => last,
            _ => return false,
        }
        .min(last);
        true
    }

    /// Changes a choice; false if the key has another meaning.
    fn choose(&mut self, key: KeyCode, listed: Listed) -> bool {
        match key {
            KeyCode::Char('h' | '?') | KeyCode::F(1) => self.help = true,
            KeyCode::Tab => self.pane = Pane::ALL[(self.pane as usize + 1) % 3],
            KeyCode::BackTab => self.pane = Pane::ALL[(self.pane as usize + 2) % 3],
            KeyCode::Char(c @ '1'..='3') => self.pane = Pane::ALL[c as usize - '1' as usize],
            KeyCode::Char('m') => self.show_level(Level::Machine),
            KeyCode::Char('p') => self.show_level(Level::Package),
            KeyCode::Char('o') => self.show_level(Level::Core),
            KeyCode::Char('c') => self.show_level(Level::Cpu),
            KeyCode::Left => self.show_level(LEVELS[(self.level as usize).saturating_sub(1)]),
            KeyCode::Right => self.show_level(LEVELS[(self.level as usize + 1).min(3)]),
            KeyCode::Char('v') => {
                (self.values, _) = Values::ALL[(self.values as usize + 1) % Values::ALL.len()];
            }
            KeyCode::Char('s') => {
                let list = self.list_mut();
                list.sort = (list.sort + 1) % listed.orders.max(1);
                list.reversed = false;
            }
            KeyCode::Char('S' | 'r') => self.list_mut().reversed ^= true,
            KeyCode::Char('/') => self.typing = true,
            KeyCode::Esc => self.list_mut().filter.clear(),
            KeyCode::Char(' ') => self.frozen ^= true,
            KeyCode::Char('+' | '=') => self.refresh_after(|step, now| step > now),
            KeyCode::Char('-') => self.refresh_after(|step, now| step < now),
            _ => return false,
        }
        true
    }

    fn show_level(&mut self, level: Level) {
        if self.level != level {
            self.level = level;
            self.list_mut().selected = 0;
        }
    }

    /// Takes the nearest step on that side, if there is one.
    fn refresh_after(&mut self, on_side: impl Fn(Duration, Duration) -> bool) {
        let steps = INTERVALS_MS.into_iter().map(Duration::from_millis);
        let steps = steps.filter(|step| on_side(*step, self.interval));
        if let Some(nearest) = steps.min_by_key(|step| step.abs_diff(self.interval)) {
            self.interval = nearest;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LISTED: Listed = Listed {
        rows: 9,
        page: 4,
        orders: 3,
    };

    fn view() -> View {
        View::new(Duration::from_secs(1))
    }

    fn press(view: &mut View, keys: &[KeyCode]) -> Action {
        let press = |key: &KeyCode| view.press((*key).into(), LISTED);
        keys.iter().map(press).last().unwrap()
    }

    fn chars(view: &mut View, keys: &str) -> Action {
        press(view, &keys.chars().map(KeyCode::Char).collect::<Vec<_>>())
    }

    #[test]
    fn q_and_control_c_quit_everywhere() {
        let control_c = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
        assert_eq!(chars(&mut view(), "q"), Action::Quit);
        assert_eq!(chars(&mut view(), "hq"), Action::Quit);
        let mut typing = view();
        chars(&mut typing, "/sq");
        assert_eq!(typing.list().filter, "sq");
        assert_eq!(typing.press(control_c, LISTED), Action::Quit);
    }

    #[test]
    fn the_selection_stays_in_the_list() {
        let mut view = view();
        press(&mut view, &[KeyCode::Up]);
        assert_eq!(view.list().selected, 0);
        press(
            &mut view,
            &[KeyCode::PageDown, KeyCode::PageDown, KeyCode::PageDown],
        );
        assert_eq!(view.list().selected, 8);
        chars(&mut view, "kk");
        assert_eq!(view.list().selected, 6);
        press(&mut view, &[KeyCode::PageUp]);
        assert_eq!(view.list().selected, 2);
        chars(&mut view, "Gg");
        assert_eq!(view.list().selected, 0);
        // An empty list has no row to select.
        let empty = Listed { rows: 0, ..LISTED };
        view.press(KeyCode::Down.into(), empty);
        assert_eq!(view.list().selected, 0);
    }

    #[test]
    fn panes_keep_their_own_order_and_filter() {
        let mut view = view();
        chars(&mut view, "2ssS/ssh");
        press(&mut view, &[KeyCode::Enter, KeyCode::Tab]);
        assert_eq!(view.pane, Pane::Bounds);
        assert_eq!(*view.list(), List::default());
        press(&mut view, &[KeyCode::BackTab]);
        let list = view.list();
        assert_eq!((list.sort, list.reversed, &*list.filter), (2, true, "ssh"));
        press(&mut view, &[KeyCode::Char('s'), KeyCode::Esc]);
        assert_eq!(*view.list(), List::default());
    }

    #[test]
    fn levels_are_chosen_by_letter_and_by_arrow() {
        let list = List {
            filter: "SSH".into(),
            ..List::default()
        };
        assert!(list.passes(&["timer", "sshd"]));
        assert!(!list.passes(&["timer"]));
    }

    #[test]
    fn levels_by_letter_and_by_arrow() {
        let mut view = view();
        chars(&mut view, "m");
        assert_eq!(view.level, Level::Machine);
        press(&mut view, &[KeyCode::Right, KeyCode::Right]);
        assert_eq!(view.level, Level::Core);
        press(&mut view, &[KeyCode::Right, KeyCode::Right, KeyCode::Left]);
        assert_eq!(view.level, Level::Core);
    }

    #[test]
    fn the_interval_steps_up_and_down_within_limits() {
        let mut view = View::new(Duration::from_millis(1500));
        chars(&mut view, "+");
        assert_eq!(view.interval, Duration::from_secs(2));
        chars(&mut view, "--");
        assert_eq!(view.interval, Duration::from_millis(500));
        chars(&mut view, "-----");
        assert_eq!(view.interval, Duration::from_millis(250));
        chars(&mut view, "++++++++++++");
        assert_eq!(view.interval, Duration::from_secs(60));
    }

    #[test]
    fn space_freezes_and_a_key_closes_the_help() {
        let mut view = view();
        chars(&mut view, " ?");
        assert!(view.frozen && view.help);
        chars(&mut view, "x");
        assert!(view.frozen && !view.help);
        assert_eq!(chars(&mut view, "x"), Action::Nothing);
    }
}
