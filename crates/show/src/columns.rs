//! A table's columns, one below the other.

/// The columns of a table, as an array: each column's origin with its unit, `detail` if terminals show it
/// only on request, its key, its name, a row's value, and what it is.
///
/// ```
/// use reveille_show::columns;
/// use reveille_show::sheet::Column;
///
/// const ROW: &[Column<(String, u64)>] = &columns!(|row|
///     words "waker", "woken by", &*row.0, "The waking thread's name";
///     measured(Count) detail "wakeups", "wake-ups", row.1, "Its wake-ups";
/// );
/// assert_eq!(ROW[1].heading.key, "wakeups");
/// ```
#[macro_export]
macro_rules! columns {
    (|$row:ident| $(
        $origin:ident $(($($unit:tt)+))? $($detail:ident)?
        $key:literal, $name:expr, $value:expr, $about:expr;
    )*) => {
        [$($($crate::sheet::Column::$detail)?($crate::sheet::Column::$origin(
            $key, $name, $($crate::sheet::Unit::$($unit)+,)? $about,
            |$row| $value.into(),
        ))),*]
    };
}
