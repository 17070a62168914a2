//! `reveille doctor`: what this kernel, CPU and user allow.

use std::io::{self, BufWriter, Write};
use std::process::ExitCode;

use reveille_kernel::features::{self, Feature, Group, Plan, Presence, Probe, Weight, names};
use reveille_kernel::{Idle, Root};
use serde::{Deserialize, Serialize};

use reveille_show::columns;
use reveille_show::sheet::{Column, Section, Sheet, Table};
use reveille_show::terminal::{self, ABSENT, FAINT, GOOD, NOTABLE, PLAIN, STRONG, Style};
use reveille_show::text::{self, Detail};
use reveille_show::wrap::{self, COLUMNS};

use crate::elsewhere::{self, AS_GIVEN, Elsewhere, Kept};
use crate::exit;

/// Show what this kernel, CPU and user lack for measuring, with effect and remedy.
///
/// Lists the most important first; --all lists every feature by subject. Changes nothing: loads,
/// attaches and detaches the BPF probes. The last line names the probe that `reveille measure` uses.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  reveille doctor
  sudo reveille doctor
  reveille doctor --all
  reveille doctor --host root@sut --host root@other   other machines, by ssh: what each lacks
  reveille doctor --json | jq '.features[] | select(.present != \"yes\") | {name, costs, brings}'

Marks:
  yes    available
  no     missing
  root   available to root only
  ?      unknown, with the reason")]
pub struct Args {
    /// List every feature, by subject
    #[arg(long, conflicts_with = "json")]
    all: bool,
    /// List every missing feature
    #[arg(long, conflicts_with = "all")]
    missing: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    elsewhere: Elsewhere,
}

pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    if args.elsewhere.is_given() {
        return there(&args);
    }
    let root = Root::default();
    let mut features = features::survey(&root);
    let probes = probes(&features);
    let others = reveille_resume::capture::features(&root);
    for feature in others.into_iter().chain([probes]) {
        features::put(&mut features, feature);
    }
    // Without a list of CPUs no CPU can be measured, whatever the kernel supports.
    let plan = match Idle::read(&root) {
        Ok(_) => Ok(Plan::of(&features)),
        Err(error) => Err(error.to_string()),
    };
    if args.missing {
        features.retain(|feature| !feature.presence.is_yes());
    }
    match args.json {
        true => {
            let mut out = BufWriter::new(terminal::data());
            let json = Json {
                features: &features,
                measure_will_use: plan.as_ref().ok(),
                measure_cannot: plan.as_ref().err(),
            };
            serde_json::to_writer_pretty(&mut out, &json).map_err(io::Error::from)?;
            writeln!(out)?;
            out.flush()?;
        }
        false => {
            let out = &mut terminal::stdout();
            match args.all || args.missing {
                true => write_list(&features, out)?,
                false => write_what_matters(&features, out)?,
            }
            write_end(&features, plan.as_ref(), out)?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// How it is printed is for this side.
const IN_A_TABLE: Kept = Kept {
    values: &[],
    flags: &["--json", "--all", "--missing"],
};

/// What the table of several machines takes of a feature there.
#[derive(Deserialize)]
struct FeatureThere {
    name: String,
    #[serde(flatten)]
    presence: Presence,
    costs: String,
}

/// As [`Json`], with what the table takes.
#[derive(Deserialize)]
struct There {
    features: Vec<FeatureThere>,
    measure_will_use: Option<PlanThere>,
}

#[derive(Deserialize)]
struct PlanThere {
    probe: Probe,
}

struct Lack {
    host: String,
    feature: FeatureThere,
}

const LACKS: &[Column<Lack>] = &columns!(|one|
    words "host", "host", one.host.as_str(), "The machine, as it was named";
    words "name", "feature", one.feature.name.as_str(), "The feature";
    words "present", "there", mark(&one.feature.presence).0, "Is it available?";
    words "costs", "effect", one.feature.costs.as_str(), "The effect of its absence";
);

/// On other machines.
fn there(args: &Args) -> anyhow::Result<ExitCode> {
    if args.elsewhere.is_one() {
        let ran = args
            .elsewhere
            .run(&AS_GIVEN, |_| Vec::new(), Vec::new(), false)?;
        elsewhere::print(&ran, args.json)?;
        return Ok(elsewhere::end(&ran));
    }
    let mut ran = args.elsewhere.run(
        &IN_A_TABLE,
        |_| vec!["--json".to_owned()],
        Vec::new(),
        false,
    )?;
    if args.json {
        elsewhere::print_json(&mut ran)?;
        return Ok(elsewhere::end(&ran));
    }
    let mut hosts = Vec::new();
    for one in &mut ran {
        if let Some(there) = one.parsed::<There>() {
            hosts.push((one.host.as_str(), there));
        }
    }
    let out = &mut terminal::stdout();
    let written = text::write(&lacking(hosts), Detail::All, out).and_then(|()| out.flush());
    exit::reader_may_leave(written)?;
    Ok(elsewhere::end(&ran))
}

/// What each of several machines lacks, in one table.
fn lacking(hosts: Vec<(&str, There)>) -> Sheet<'static> {
    let mut sheet = Sheet::default();
    let mut lacks = Vec::new();
    for (host, there) in hosts {
        let probe = match &there.measure_will_use {
            Some(PlanThere { probe: Probe::Bpf }) => "reveille measure uses BPF",
            Some(PlanThere { probe: Probe::User }) => "reveille measure uses a waiting thread",
            None => "reveille measure cannot run",
        };
        sheet.fact("Machine", format!("{host}: {probe}"));
        let missing = there.features.into_iter();
        let missing = missing.filter(|feature| !feature.presence.is_yes());
        lacks.extend(missing.map(|feature| Lack {
            host: host.to_owned(),
            feature,
        }));
    }
    let table = Table::of("What each machine lacks", LACKS, &lacks).whole();
    sheet.section(Section::new("lacks", "Missing").table(table));
    sheet
}

/// The programs that measure: only loading shows whether the verifier accepts them.
fn probes(features: &[Feature]) -> Feature {
    // Any CPU: nothing is launched.
    let presence = match reveille_measure::try_bpf(0) {
        Ok(()) => Presence::Yes("tried: loaded, attached and detached".to_owned()),
        Err(error) => {
            let tracing = features::find(features, names::TRACING);
            match tracing.map(|tracing| &tracing.presence) {
                Some(Presence::Denied(why)) => Presence::Denied(why.clone()),
                _ => {
                    let error = error.to_string();
                    let why = error.strip_suffix(reveille_kernel::Error::SEE_DOCTOR);
                    let why = why.unwrap_or(&error);
                    Presence::No(format!("loading or attaching failed: {why}"))
                }
            }
        }
    };
    let brings = match presence {
        Presence::Denied(_) => "run as root (sudo reveille ...)",
        _ => {
            "enable what is missing above; if nothing is missing, report a bug with the kernel version"
        }
    };
    let costs =
        "no BPF probe: --probe user measures up to the waiting thread, including scheduling";
    let probes = Feature::new(Group::Bpf, names::PROBES, presence, costs, brings);
    probes.weighing(Weight::Decides)
}

#[derive(Serialize)]
struct Json<'a> {
    features: &'a [Feature],
    /// null if it cannot measure.
    measure_will_use: Option<&'a Plan>,
    #[serde(skip_serializing_if = "Option::is_none")]
    measure_cannot: Option<&'a String>,
}

/// Where a feature's name begins: behind the widest mark.
const NAME: usize = 7;

/// What is missing and matters, and how many others there are.
fn write_what_matters(features: &[Feature], out: &mut impl Write) -> io::Result<()> {
    let first = features::that_matter(features);
    let width = widest(&first);
    for feature in &first {
        line(feature, width, out)?;
    }
    match first.is_empty() {
        true => writeln!(out, "Nothing that affects a measurement is missing.")?,
        false => writeln!(out)?,
    }
    let [mut available, mut unknown] = [0, 0];
    for feature in features {
        match feature.presence {
            Presence::Yes(_) => available += 1,
            Presence::Unknown(_) => unknown += 1,
            Presence::No(_) | Presence::Denied(_) => {}
        }
    }
    let missing = features.len() - available - unknown - first.len();
    let unknown = match unknown {
        0 => String::new(),
        unknown => format!(", unknown: {unknown}"),
    };
    let also = if first.is_empty() {
        "Missing"
    } else {
        "Also missing"
    };
    writeln!(
        out,
        "{also}: {missing}{unknown}, available: {available}; --all lists them"
    )
}

/// Every feature by subject.
fn write_list(features: &[Feature], out: &mut impl Write) -> io::Result<()> {
    for group in features.chunk_by(|a, b| a.group == b.group) {
        writeln!(out, "{STRONG}{}{STRONG:#}", group[0].group.title())?;
        // Features without details share a line.
        let is_plain = |feature: &&Feature| feature.presence == Presence::Yes(String::new());
        let plain: Vec<&Feature> = group.iter().filter(is_plain).collect();
        let others = group.iter().filter(|feature| !is_plain(feature));
        let others: Vec<&Feature> = others.collect();
        let width = widest(&others);
        if !plain.is_empty() {
            listed(&plain, out)?;
        }
        for feature in others {
            line(feature, width, out)?;
        }
        writeln!(out)?;
    }
    Ok(())
}

/// The length of the longest name.
fn widest(features: &[&Feature]) -> usize {
    let names = features.iter().map(|feature| feature.name.chars().count());
    names.max().unwrap_or(0)
}

/// What root would have, and the last line: what `reveille measure` uses.
fn write_end(
    features: &[Feature],
    plan: Result<&Plan, &String>,
    out: &mut impl Write,
) -> io::Result<()> {
    let denied: Vec<&str> = features
        .iter()
        .filter(|feature| matches!(feature.presence, Presence::Denied(_)))
        .filter(|feature| feature.group != Group::User)
        .map(|feature| feature.name.as_str())
        .collect();
    if !denied.is_empty() {
        wrapped("Available as root: ", "  ", &denied.join(", "), PLAIN, out)?;
    }
    let (head, words) = match plan {
        Ok(plan) => ("reveille measure uses: ", plan.to_string()),
        Err(why) => ("reveille measure cannot run: ", why.clone()),
    };
    wrapped(head, "  ", &words, STRONG, out)
}

/// The colour repeats the word.
fn mark(presence: &Presence) -> (&'static str, Style) {
    match presence {
        Presence::Yes(_) => ("yes", GOOD),
        Presence::No(_) => ("no", ABSENT),
        Presence::Denied(_) => ("root", NOTABLE),
        Presence::Unknown(_) => ("?", NOTABLE),
    }
}

fn listed(plain: &[&Feature], out: &mut impl Write) -> io::Result<()> {
    let (mark, style) = mark(&plain[0].presence);
    write!(out, "  {style}{mark:<0$}{style:#}", NAME - 2)?;
    let names: Vec<&str> = plain.iter().map(|feature| feature.name.as_str()).collect();
    let indent = " ".repeat(NAME);
    wrapped_from(NAME, &indent, &names.join(", "), PLAIN, out)
}

fn line(feature: &Feature, width: usize, out: &mut impl Write) -> io::Result<()> {
    let (mark, style) = mark(&feature.presence);
    let name = &feature.name;
    write!(
        out,
        "  {style}{mark:<0$}{style:#}{name:<width$}  ",
        NAME - 2
    )?;
    let indent = " ".repeat(NAME + width + 2);
    let words = feature.presence.words();
    let words = if words.is_empty() { "yes" } else { words };
    wrapped_from(indent.len(), &indent, words, PLAIN, out)?;
    if !feature.presence.is_yes() {
        let indent = " ".repeat(NAME);
        wrapped(
            &format!("{indent}effect: "),
            &format!("{indent}  "),
            &feature.costs,
            FAINT,
            out,
        )?;
        wrapped(
            &format!("{indent}remedy: "),
            &format!("{indent}  "),
            &feature.brings,
            FAINT,
            out,
        )?;
    }
    Ok(())
}

/// `head` and the words after it, further lines indented.
fn wrapped(
    head: &str,
    indent: &str,
    words: &str,
    style: Style,
    out: &mut impl Write,
) -> io::Result<()> {
    write!(out, "{style}{head}{style:#}")?;
    wrapped_from(head.chars().count(), indent, words, style, out)
}

/// Words from that column on.
fn wrapped_from(
    column: usize,
    indent: &str,
    words: &str,
    style: Style,
    out: &mut impl Write,
) -> io::Result<()> {
    write!(out, "{style}")?;
    wrap::onward(out, COLUMNS, column, indent.len(), words)?;
    writeln!(out, "{style:#}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(features: &[Feature], all: bool) -> String {
        let mut out = Vec::new();
        match all {
            true => write_list(features, &mut out).unwrap(),
            false => write_what_matters(features, &mut out).unwrap(),
        }
        write_end(features, Ok(&Plan::of(features)), &mut out).unwrap();
        terminal::plain(out)
    }

    fn feature(name: &str, presence: Presence) -> Feature {
        Feature::new(
            Group::Bpf,
            name,
            presence,
            format!("{name} costs this"),
            format!("that brings {name}"),
        )
    }

    #[test]
    fn a_missing_feature_has_its_cost_and_its_remedy() {
        let missing = feature("BTF", Presence::No("no file".into()));
        for all in [true, false] {
            let text = shown(&[missing.clone().weighing(Weight::Decides)], all);
            assert!(text.contains("  no   BTF  no file\n"), "{text}");
            assert!(text.contains("effect: BTF costs") && text.contains("remedy: that"));
        }
        let there = shown(&[feature("BTF", Presence::Yes("file".into()))], true);
        assert!(
            there.contains("  yes  BTF  file\n") && !there.contains("effect"),
            "{there}"
        );
    }

    #[test]
    fn what_matters_is_listed_and_the_rest_counted() {
        let no = || Presence::No("gone".into());
        let mut features = vec![
            feature("RAPL", no()),
            feature("there", Presence::Yes(String::new())),
            feature("hidden", Presence::Unknown("why".into())).weighing(Weight::Decides),
            feature("own hardware", no()).weighing(Weight::Distorts),
        ];
        let text = shown(&features, false);
        assert!(text.starts_with("  no   own hardware  gone\n"), "{text}");
        assert!(!text.contains("RAPL") && !text.contains("hidden"), "{text}");
        let others = "\nAlso missing: 1, unknown: 1, available: 1; --all lists them\n";
        assert!(text.contains(others), "{text}");
        features.pop();
        let text = shown(&features, false);
        assert!(text.starts_with("Nothing that affects a measurement is missing.\nMissing: 1, "));
    }

    #[test]
    fn a_user_sees_what_root_would_add_and_root_does_not() {
        let denied = Presence::Denied("refused".into());
        for all in [true, false] {
            let denied = shown(&[feature("tracing programs", denied.clone())], all);
            assert!(
                denied.contains("Available as root: tracing programs\n"),
                "{denied}"
            );
            let gone = shown(&[feature("x", Presence::No("gone".into()))], all);
            assert!(!gone.contains("Available as root"));
        }
    }

    #[test]
    fn lines_fit_the_terminal() {
        let long = "word ".repeat(90);
        let long = feature("a name of some length", Presence::No(long));
        for all in [true, false] {
            let text = shown(&[long.clone().weighing(Weight::Decides)], all);
            assert!(
                text.lines().all(|line| line.chars().count() <= COLUMNS),
                "{text}"
            );
        }
    }
}
