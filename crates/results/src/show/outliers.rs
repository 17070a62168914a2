//! The datapoints that are drawn singly, with all their fields, as data for the page's script.

use crate::columns::Values;
use crate::{Columns, NULL};
use serde_json::{Value, json};

use super::view::View;

/// The outliers of every result: per result its title, and column by column the values.
pub fn data(views: &[View<'_>]) -> Value {
    views
        .iter()
        .map(|view| {
            json!({
                "title": view.title(),
                "count": view.outliers.len(),
                "columns": columns(&view.input.loaded.columns, &view.outliers),
            })
        })
        .collect()
}

fn columns(columns: &Columns, rows: &[u32]) -> Vec<Value> {
    let mut data = Vec::new();
    for column in &columns.columns {
        let values: Vec<Value> = rows.iter().map(|row| value(&column.values, *row)).collect();
        // A column without a value would only fill the screen.
        if values.iter().any(|value| !value.is_null()) {
            let mut entry = json!({ "name": column.name, "values": values });
            if let Values::Name { names, .. } = &column.values {
                entry["names"] = json!(names);
            }
            data.push(entry);
        }
    }
    data
}

/// A name is given by its code, which is shorter.
fn value(values: &Values, row: u32) -> Value {
    let row = row as usize;
    match values {
        Values::Integer(values) if values[row] == NULL => Value::Null,
        Values::Integer(values) => json!(values[row]),
        Values::Percent(values) => match f64::from(values[row]) {
            share if share.is_finite() => json!((share * 1000.0).round() / 1000.0),
            _ => Value::Null,
        },
        Values::Name { codes, names } => match usize::from(codes[row]) {
            code if code < names.len() => json!(code),
            _ => Value::Null,
        },
    }
}
