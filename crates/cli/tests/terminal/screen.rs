//! What a terminal shows after what it was sent: text, cursor movements and clearing; colours are ignored.

use std::mem::take;

/// A terminal that does not wrap its lines anew when it becomes narrower (as xterm), and keeps what left it above.
pub struct Screen {
    columns: usize,
    rows: Vec<Vec<char>>,
    /// Lines that scrolled off.
    above: Vec<String>,
    row: usize,
    /// At `columns` the next character goes to the next row.
    column: usize,
    /// The screen while a view has the whole of it.
    beside: Option<(Vec<Vec<char>>, usize, usize)>,
    /// What is incomplete: a character or a sequence.
    torn: Vec<u8>,
    /// How many times what was drawn went beyond the right edge. A message may.
    pub wraps: usize,
    /// Is the row's beginning a message's?
    in_message: bool,
    /// Sequences that this terminal does not know: the program sends none.
    pub unknown: Vec<String>,
}

/// How a message of the program begins.
const MESSAGE: &str = "reveille: ";

impl Screen {
    pub fn new(columns: usize, rows: usize) -> Self {
        Self {
            columns,
            rows: vec![vec![' '; columns]; rows],
            above: Vec::new(),
            row: 0,
            column: 0,
            beside: None,
            torn: Vec::new(),
            wraps: 0,
            in_message: false,
            unknown: Vec::new(),
        }
    }

    pub fn resize(&mut self, columns: usize, rows: usize) {
        let lines_above = (self.row + 1).saturating_sub(rows);
        let gone: Vec<_> = self.rows.drain(..lines_above).collect();
        if self.beside.is_none() {
            self.above.extend(gone.iter().map(|row| text_of(row)));
        }
        self.row -= lines_above;
        self.rows.resize(rows, Vec::new());
        self.rows
            .iter_mut()
            .for_each(|row| row.resize(columns, ' '));
        self.columns = columns;
        self.column = self.column.min(columns);
    }

    /// What is on it, without what scrolled off.
    pub fn text(&self) -> String {
        self.rows.iter().map(|row| text_of(row) + "\n").collect()
    }

    /// With what scrolled off.
    pub fn all(&self) -> String {
        let above = self.above.iter().map(|line| format!("{line}\n"));
        above.collect::<String>() + &self.text()
    }

    pub fn feed(&mut self, bytes: &[u8]) {
        let mut bytes = [take(&mut self.torn).as_slice(), bytes].concat();
        if let Err(error) = std::str::from_utf8(&bytes)
            && error.error_len().is_none()
        {
            self.torn = bytes.split_off(error.valid_up_to());
        }
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let mut rest = text.as_str();
        while let Some(first) = rest.chars().next() {
            rest = match (first, rest.strip_prefix("\x1b[")) {
                (_, Some(sequence)) => {
                    let Some(end) = sequence.find(|c: char| ('@'..='~').contains(&c)) else {
                        break;
                    };
                    let (parameters, left) = sequence.split_at(end);
                    self.obey(parameters, &left[..1]);
                    &left[1..]
                }
                ('\x1b', None) if rest.len() == 1 => break,
                (first, None) => {
                    self.put(first);
                    &rest[first.len_utf8()..]
                }
            };
        }
        self.torn.splice(0..0, rest.bytes());
    }

    fn put(&mut self, character: char) {
        match character {
            '\r' | '\n' => {
                self.in_message = false;
                match character {
                    '\r' => self.column = 0,
                    _ => self.line_feed(),
                }
            }
            '\x08' => self.column = self.column.saturating_sub(1),
            '\x07' => {}
            '\t' => self.column = (self.column / 8 * 8 + 8).min(self.columns - 1),
            control if control.is_control() => self.unknown.push(format!("{control:?}")),
            character => {
                if self.column >= self.columns {
                    self.in_message |= text_of(&self.rows[self.row]).starts_with(MESSAGE);
                    self.wraps += usize::from(!self.in_message);
                    self.column = 0;
                    self.line_feed();
                }
                self.rows[self.row][self.column] = character;
                self.column += 1;
            }
        }
    }

    fn line_feed(&mut self) {
        if self.row + 1 < self.rows.len() {
            self.row += 1;
            return;
        }
        let first = self.rows.remove(0);
        if self.beside.is_none() {
            self.above.push(text_of(&first));
        }
        self.rows.push(vec![' '; self.columns]);
    }

    fn obey(&mut self, parameters: &str, what: &str) {
        let numbers: Vec<usize> = parameters.split(';').flat_map(str::parse).collect();
        let number = |place: usize, or: usize| numbers.get(place).copied().unwrap_or(or);
        let (rows, columns) = (self.rows.len(), self.columns);
        match (parameters, what) {
            (_, "A") => self.row = self.row.saturating_sub(number(0, 1)),
            (_, "B") => self.row = (self.row + number(0, 1)).min(rows - 1),
            (_, "C") => self.column = (self.column + number(0, 1)).min(columns - 1),
            (_, "D") => self.column = self.column.saturating_sub(number(0, 1)),
            (_, "G") => self.column = (number(0, 1) - 1).min(columns - 1),
            (_, "H") => {
                self.row = (number(0, 1) - 1).min(rows - 1);
                self.column = (number(1, 1) - 1).min(columns - 1);
            }
            ("" | "0", "J") => {
                self.clear_row();
                self.rows[self.row + 1..]
                    .iter_mut()
                    .for_each(|row| row.fill(' '));
            }
            ("2", "J") => self.rows.iter_mut().for_each(|row| row.fill(' ')),
            ("" | "0", "K") => self.clear_row(),
            ("2", "K") => self.rows[self.row].fill(' '),
            ("?1049", "h") => {
                let blank = vec![vec![' '; columns]; rows];
                self.beside = Some((
                    std::mem::replace(&mut self.rows, blank),
                    self.row,
                    self.column,
                ));
            }
            ("?1049", "l") => {
                if let Some((beside, row, column)) = self.beside.take() {
                    self.rows = beside;
                    (self.row, self.column) = (row, column);
                    // It may have changed its size meanwhile.
                    self.resize(columns, rows);
                }
            }
            ("?25", "h" | "l") | (_, "m") => {}
            _ => self.unknown.push(format!("ESC[{parameters}{what}")),
        }
    }

    /// From the cursor on.
    fn clear_row(&mut self) {
        let column = self.column.min(self.columns);
        self.rows[self.row][column..].fill(' ');
    }
}

fn text_of(row: &[char]) -> String {
    row.iter().collect::<String>().trim_end().to_owned()
}

#[test]
fn text_is_where_a_terminal_shows_it() {
    let shown = |sent: &str| {
        let mut screen = Screen::new(4, 3);
        // A byte at a time: nothing may depend on how it comes.
        sent.bytes().for_each(|byte| screen.feed(&[byte]));
        (screen.all(), screen.wraps, screen.unknown.len())
    };
    let of = |text: &str, wraps, unknown| (text.to_owned(), wraps, unknown);
    assert_eq!(shown("ab\r\ncdefg"), of("ab\ncdef\ng\n", 1, 0));
    // The last column is no wrap yet.
    assert_eq!(shown("abcd\rx"), of("xbcd\n\n\n", 0, 0));
    assert_eq!(shown("a\r\nb\r\nc\r\nd"), of("a\nb\nc\nd\n", 0, 0));
    assert_eq!(shown("ab\r\ncd\r\x1b[1A\x1b[Jµ"), of("µ\n\n\n", 0, 0));
    assert_eq!(shown("ab\x1b[?1049hxy\x1b[?1049lc"), of("abc\n\n\n", 0, 0));
    assert_eq!(shown("a\x1b[31mb\x1b[9t\x01"), of("ab\n\n\n", 0, 2));
}
