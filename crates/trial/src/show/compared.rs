//! What the sheets of `trial` and `anticipate bench` have in common.

use reveille_kernel::driver_and_governor;
use reveille_results::kept::About;
use reveille_show::sheet::Sheet;

/// A sheet with what is known of the run: in the lines below the title `what` was run, where and when, and
/// the command line; details of the machine, and how the run ended if it ended early.
pub fn sheet<'a>(title: &str, what: &str, about: &About) -> Sheet<'a> {
    let machine = &about.machine;
    let mut line = vec![what.to_owned()];
    line.extend(machine.words());
    line.extend([about.started.clone(), about.tool.clone()]);
    line.retain(|words| !words.is_empty());
    let mut sheet = Sheet {
        title: format!("{title}: {}", about.name),
        about: vec![line.join(" · "), about.command_line.join(" ")],
        ..Sheet::default()
    };
    let unknown = || "unknown".to_owned();
    sheet.detail("Machine", machine.cpu_model.clone().unwrap_or_else(unknown));
    sheet.detail("Kernel", machine.kernel_words());
    let [driver, governor] = [&about.driver, &about.governor].map(Option::as_deref);
    sheet.detail("Idle", driver_and_governor(driver, governor));
    if let Some(early) = about.ended.early() {
        sheet.fact("Ended", early);
    }
    sheet
}
