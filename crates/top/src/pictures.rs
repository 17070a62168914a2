//! Pictures of invented machines, drawn into a buffer and compared with those in `pictures/`.
//!
//! After an intended change: `REVEILLE_DRAW=1 cargo test -p reveille-top pictures`, then check
//! `git diff`.

mod machines;

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use ratatui::buffer::Buffer;
use ratatui::crossterm::event::KeyCode;
use ratatui::layout::Rect;
use ratatui::style::Color;
use reveille_kernel::Root;
use reveille_watch::live::{Snapshot, Watch};

use crate::draw::{About, Picture};
use crate::history::History;
use crate::look::Look;
use crate::view::View;

const RICH: Look = Look {
    colour: true,
    utf8: true,
};

const SIZES: [(u16, u16); 5] = [(120, 40), (80, 24), (20, 5), (1, 1), (300, 100)];

fn history(snapshot: fn(usize) -> Snapshot) -> History {
    let mut history = History::default();
    for refresh in 0..100 {
        history.push(snapshot(refresh));
    }
    history
}

/// The picture after these keys.
fn drawn(history: &History, keys: &str, look: Look, (width, height): (u16, u16)) -> Buffer {
    let about = About {
        host: Some("atlas".into()),
        kernel: Some("6.18.5".into()),
    };
    let mut view = View::new(Duration::from_secs(1));
    for key in keys.chars() {
        let listed = Picture {
            history,
            view: &view,
            about: &about,
            look,
        }
        .listed(height);
        let key = match key {
            '\n' => KeyCode::Enter,
            key => KeyCode::Char(key),
        };
        view.press(key.into(), listed);
    }
    let area = Rect::new(0, 0, width, height);
    let mut buffer = Buffer::empty(area);
    let picture = Picture {
        history,
        view: &view,
        about: &about,
        look,
    };
    picture.draw(area, &mut buffer);
    buffer
}

fn text(buffer: &Buffer) -> String {
    let mut text = String::new();
    for y in 0..buffer.area.height {
        let row = (0..buffer.area.width).map(|x| buffer[(x, y)].symbol());
        text.push_str(row.collect::<String>().trim_end());
        text.push('\n');
    }
    text
}

fn holds(name: &str, picture: &str) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/pictures");
    let file = folder.join(format!("{name}.txt"));
    if std::env::var_os("REVEILLE_DRAW").is_some() {
        std::fs::write(&file, picture).unwrap();
    }
    let wanted = std::fs::read_to_string(&file).unwrap_or_default();
    assert!(picture == wanted, "{} is now\n{picture}", file.display());
}

#[test]
fn a_hybrid_machine_in_every_size() {
    let history = history(machines::hybrid);
    for size in SIZES {
        let picture = text(&drawn(&history, "jjj", RICH, size));
        holds(&format!("hybrid-{}x{}", size.0, size.1), &picture);
    }
}

#[test]
fn a_virtual_machine_in_every_size() {
    let history = history(machines::virtual_machine);
    for size in SIZES {
        let picture = text(&drawn(&history, "", RICH, size));
        holds(&format!("virtual-{}x{}", size.0, size.1), &picture);
    }
}

#[test]
fn wakers_and_bounds() {
    let history = history(machines::hybrid);
    for (name, keys) in [
        ("wakers", "2"),
        ("wakers-filtered", "2/ssh\n"),
        ("bounds", "3"),
    ] {
        for size in [(120, 40), (80, 24), (20, 5)] {
            let picture = text(&drawn(&history, keys, RICH, size));
            holds(&format!("{name}-{}x{}", size.0, size.1), &picture);
        }
    }
}

#[test]
fn help_of_a_frozen_view() {
    let history = history(machines::hybrid);
    holds("help-80x24", &text(&drawn(&history, " h", RICH, (80, 24))));
}

#[test]
fn without_utf_8_there_is_only_ascii() {
    let look = Look {
        utf8: false,
        ..RICH
    };
    for machine in [machines::hybrid, machines::virtual_machine] {
        let history = history(machine);
        for keys in ["", "vvvv", "2", "3", "h", "/x", " "] {
            let picture = text(&drawn(&history, keys, look, (200, 50)));
            let strange: String = picture.chars().filter(|c| !c.is_ascii()).collect();
            assert_eq!(strange, "", "{picture}");
        }
    }
}

#[test]
fn without_colour_there_is_none() {
    let look = Look {
        colour: false,
        ..RICH
    };
    let history = history(machines::hybrid);
    let colours = |look: Look, keys: &str| {
        let buffer = drawn(&history, keys, look, (200, 50));
        let coloured =
            |cell: &&ratatui::buffer::Cell| cell.fg != Color::Reset || cell.bg != Color::Reset;
        buffer.content().iter().filter(coloured).count()
    };
    for keys in ["", "2", "3", "h"] {
        assert_eq!(colours(look, keys), 0, "{keys}");
    }
    assert_ne!(colours(RICH, ""), 0);
}

#[test]
fn no_size_is_too_small_for_any_machine() {
    let mut random = machines::Random::new(1);
    for width in 0..=120 {
        for height in 0..=40 {
            // Every size, each with its own machine and view.
            let mut history = History::default();
            for _ in 0..random.below(3) {
                history.push(random.snapshot());
            }
            let keys: String = (0..random.below(6)).map(|_| random.key()).collect();
            drawn(&history, &keys, RICH, (width, height));
        }
    }
}

#[test]
fn recorded_machines_are_drawn_in_every_size() {
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/machines/lay-out");
    for machine in ["rpl0", "icx2s3"] {
        let folder = tempfile::tempdir().unwrap();
        let laid_out = Command::new(&program)
            .arg(machine)
            .arg(folder.path())
            .status();
        if !laid_out.is_ok_and(|status| status.success()) {
            println!("skipped: recorded_machines_are_drawn_in_every_size: no ../shared/machines");
            return;
        }
        let mut watch = Watch::start(&Root::at(folder.path())).unwrap();
        let mut history = History::default();
        history.push(watch.snapshot().unwrap());
        for keys in ["", "G", "o", "p", "m", "vvv", "2", "3"] {
            for size in SIZES {
                let picture = text(&drawn(&history, keys, RICH, size));
                let driver = history.latest().unwrap().driver.as_deref().unwrap();
                assert!(
                    size.0 < 80 || picture.contains(driver),
                    "{machine} {keys:?} {size:?}\n{picture}"
                );
            }
        }
    }
}
