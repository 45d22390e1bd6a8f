//! Tables for people: columns as wide as their widest cell, two spaces between them, nothing behind the last.

use super::format::{Paint, Tone};

/// A table under construction.
pub(crate) struct Table {
    header: Vec<&'static str>,
    rows: Vec<Vec<(String, Tone)>>,
}

impl Table {
    pub(crate) fn new(header: &[&'static str]) -> Self {
        Self { header: header.to_vec(), rows: Vec::new() }
    }

    /// A row: one cell for each column.
    pub(crate) fn row<const N: usize>(&mut self, cells: [(String, Tone); N]) {
        debug_assert_eq!(N, self.header.len(), "a cell for each column");
        self.rows.push(cells.into());
    }

    pub(crate) fn render(&self, paint: Paint) -> String {
        let mut widths: Vec<usize> = self.header.iter().map(|cell| width(cell)).collect();
        for row in &self.rows {
            for (column, (cell, _)) in widths.iter_mut().zip(row) {
                *column = (*column).max(width(cell));
            }
        }
        let mut text = String::new();
        line(&mut text, &widths, self.header.iter().map(|cell| (*cell, Tone::Dim)), paint);
        for row in &self.rows {
            line(&mut text, &widths, row.iter().map(|(cell, tone)| (cell.as_str(), *tone)), paint);
        }
        text
    }
}

fn line<'a>(text: &mut String, widths: &[usize], cells: impl Iterator<Item = (&'a str, Tone)>, paint: Paint) {
    let mut pending = 0;
    for (index, (cell, tone)) in cells.enumerate() {
        if index > 0 {
            pending += 2;
        }
        if !cell.is_empty() {
            text.extend(std::iter::repeat_n(' ', pending));
            pending = 0;
            text.push_str(&paint.tone(cell, tone));
        }
        pending += widths[index] - width(cell);
    }
    text.push('\n');
}

fn width(cell: &str) -> usize {
    cell.chars().count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up_and_nothing_trails() {
        let mut table = Table::new(&["run", "status", "title"]);
        table.row([
            ("a".to_owned(), Tone::Plain),
            ("complete".to_owned(), Tone::Good),
            ("The first".to_owned(), Tone::Plain),
        ]);
        table.row([
            ("longer-\u{e9}".to_owned(), Tone::Plain),
            (String::new(), Tone::Bad),
            ("x".to_owned(), Tone::Plain),
        ]);
        table.row([("b".to_owned(), Tone::Plain), ("ok".to_owned(), Tone::Plain), (String::new(), Tone::Plain)]);
        let expected = "run       status    title\n\
                        a         complete  The first\n\
                        longer-\u{e9}            x\n\
                        b         ok\n";
        assert_eq!(table.render(Paint(false)), expected);
    }

    #[test]
    fn colours_do_not_count_as_width() {
        let mut table = Table::new(&["a", "b"]);
        table.row([("ok".to_owned(), Tone::Good), ("x".to_owned(), Tone::Plain)]);
        assert_eq!(table.render(Paint(true)), "\u{1b}[2ma\u{1b}[0m   \u{1b}[2mb\u{1b}[0m\n\u{1b}[32mok\u{1b}[0m  x\n");
    }
}
