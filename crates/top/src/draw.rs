//! Draws the history with the user's choices in a given size. Reads nothing from the machine.

use std::time::Duration;

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Modifier;
use ratatui::text::{Line, Span};
use reveille_kernel::driver_and_governor;
use reveille_watch::live::{Level, Snapshot};

use crate::history::History;
use crate::look::{Look, Tone, UNKNOWN};
use crate::sheet::{Sheet, fitting};
use crate::view::{Listed, Pane, View};
use crate::{bounds, help, idle, numbers, wakers};

/// The machine's constant properties.
#[derive(Debug, Clone, Default)]
pub struct About {
    /// The machine's name.
    pub host: Option<String>,
    /// Its kernel's release.
    pub kernel: Option<String>,
}

/// All that a picture depends on, except its size.
#[derive(Debug, Clone, Copy)]
pub struct Picture<'a> {
    pub history: &'a History,
    pub view: &'a View,
    pub about: &'a About,
    pub look: Look,
}

/// The minimum height of the terminal for each part.
const ROOM_FOR_TITLE: usize = 3;
const ROOM_FOR_TABS: usize = 7;
const ROOM_FOR_OWN_COST: usize = 12;
const ROOM_FOR_NOTE: usize = 16;

impl Picture<'_> {
    pub fn draw(&self, area: Rect, buffer: &mut Buffer) {
        let mut sheet = Sheet {
            buffer,
            left: area,
            look: self.look,
        };
        let rows = sheet.rows();
        if rows >= ROOM_FOR_TITLE {
            sheet.put(&self.title(sheet.width()));
        }
        if rows >= ROOM_FOR_OWN_COST {
            sheet.put(&sheet.line(&self.own_cost(), Tone::Faint));
        }
        if rows >= ROOM_FOR_TABS {
            sheet.put(&self.tabs(sheet.width()));
        }
        if rows >= ROOM_FOR_TABS || self.view.typing {
            let (footer, tone) = self.footer(sheet.width());
            sheet.put_below(&sheet.line(&footer, tone));
        }
        if self.view.help {
            help::draw(self.snapshot(), &mut sheet);
            return;
        }
        let Some(snapshot) = self.snapshot() else {
            let wait = humantime::format_duration(self.view.interval.min(Duration::from_secs(1)));
            sheet.put(&sheet.line(&format!("First figures in {wait}."), Tone::Faint));
            return;
        };
        if let (true, Some(note)) = (rows >= ROOM_FOR_NOTE, snapshot.notes.first()) {
            let more = match snapshot.notes.len() - 1 {
                0 => String::new(),
                more => format!(" ({more} more: h)"),
            };
            let room = sheet.width().saturating_sub(more.len());
            let note = format!("{}{more}", self.look.cut(&format!("note: {note}"), room));
            sheet.put_below(&sheet.line(&note, Tone::Faint));
        }
        match self.view.pane {
            Pane::Idle => idle::draw(self.history, self.view, snapshot, &mut sheet),
            Pane::Wakers => wakers::draw(self.view, snapshot, &mut sheet),
            Pane::Bounds => bounds::draw(self.view, snapshot, &mut sheet),
        }
    }

    /// The size of the list for a terminal of this height.
    pub fn listed(&self, height: u16) -> Listed {
        let view = self.view;
        let rows = self.snapshot().map_or(0, |snapshot| match view.pane {
            Pane::Idle => idle::rows(snapshot, view).len(),
            Pane::Wakers => wakers::rows(snapshot, view).len(),
            Pane::Bounds => bounds::rows(snapshot, view).len(),
        });
        Listed {
            rows,
            orders: self.orders().len(),
            page: usize::from(height) / 2,
        }
    }

    /// The pane's sort orders.
    fn orders(&self) -> &'static [&'static str] {
        match self.view.pane {
            Pane::Idle => &idle::ORDERS,
            Pane::Wakers => &wakers::ORDERS,
            Pane::Bounds => &bounds::ORDERS,
        }
    }

    fn snapshot(&self) -> Option<&Snapshot> {
        self.history.latest()
    }

    fn title(&self, width: usize) -> Line<'static> {
        let interval = humantime::format_duration(self.view.interval);
        let mut pieces = vec!["reveille top".to_owned()];
        if self.view.frozen {
            pieces.push("FROZEN (space resumes)".into());
        }
        pieces.extend(self.about.host.clone());
        if let Some(snapshot) = self.snapshot() {
            let (driver, governor) = (snapshot.driver.as_deref(), snapshot.governor.as_deref());
            pieces.push(driver_and_governor(driver, governor));
        }
        pieces.push(format!("every {interval}"));
        let kernel = self.about.kernel.as_ref();
        pieces.extend(kernel.map(|kernel| format!("Linux {kernel}")));
        let (title, _) = fitting(self.look, &pieces, width.saturating_sub(2), " · ");
        let title = format!(" {title} ");
        let blanks = " ".repeat(width.saturating_sub(Span::raw(&*title).width()));
        let style = self.look.style(Tone::Inverse).add_modifier(Modifier::BOLD);
        Line::from(Span::styled(format!("{title}{blanks}"), style))
    }

    fn own_cost(&self) -> String {
        let own = self.snapshot().map(|snapshot| snapshot.own);
        let own = own.unwrap_or_default();
        let share = |percent: Option<f64>| {
            percent.map_or(UNKNOWN.to_owned(), |percent| format!("{percent:.2}"))
        };
        format!(
            "top itself: {}% of one CPU (BPF {}%), {} wake-ups/s",
            share(own.cpu_percent),
            share(own.bpf_percent),
            numbers::rate(own.wakeups_per_s),
        )
    }

    /// The panes, and the choices in the current one.
    fn tabs(&self, width: usize) -> Line<'static> {
        let span = |text: &str, tone| {
            Span::styled(self.look.text(text).into_owned(), self.look.style(tone))
        };
        let mut spans = Vec::new();
        for (number, pane) in Pane::ALL.into_iter().enumerate() {
            let tone = match pane == self.view.pane {
                true => Tone::Inverse,
                false => Tone::Plain,
            };
            spans.push(span(&format!(" {} {} ", number + 1, pane.name()), tone));
            spans.push(Span::raw(" "));
        }
        let taken: usize = spans.iter().map(Span::width).sum();
        let room = width.saturating_sub(taken);
        let (choices, _) = fitting(self.look, &self.choices(), room, " · ");
        let blanks = room.saturating_sub(Span::raw(&*choices).width());
        spans.push(Span::raw(" ".repeat(blanks)));
        spans.push(span(&choices, Tone::Faint));
        Line::from(spans)
    }

    fn choices(&self) -> Vec<String> {
        let (view, list) = (self.view, self.view.list());
        let mut choices = Vec::new();
        if !list.filter.is_empty() {
            choices.push(format!("filter \"{}\"", list.filter));
        }
        if view.pane != Pane::Bounds {
            choices.push(match view.level {
                Level::Machine => "machine".into(),
                Level::Package => "per package".into(),
                Level::Core => "per core".into(),
                Level::Cpu => "per CPU".into(),
            });
        }
        if view.pane == Pane::Idle {
            choices.push(view.values.name().into());
        }
        let orders = self.orders();
        let reversed = if list.reversed { ", reversed" } else { "" };
        let order = orders[list.sort % orders.len()];
        choices.push(format!("by {order}{reversed}"));
        choices
    }

    fn footer(&self, width: usize) -> (String, Tone) {
        if self.view.typing {
            let filter = &self.view.list().filter;
            let shown = format!("filter: {filter}_   (Enter keeps it, Esc clears it)");
            return (shown, Tone::Strong);
        }
        const KEYS: [&str; 11] = [
            "q quit",
            "h help",
            "Tab pane",
            "space freeze",
            "s sort",
            "/ filter",
            "←→ level",
            "v values",
            "+- refresh",
            "r reverse",
            "↑↓ select",
        ];
        let (keys, _) = fitting(self.look, &KEYS.map(str::to_owned), width, "  ");
        (keys, Tone::Faint)
    }
}
