//! Any text as what people type: words of a shell, durations, sizes, amounts, lists of GPUs, names of jobs, variables. What
//! can be read is told in a way that is read as the same.

use nexus_api::amount::GpuAmount;
use nexus_api::command::{Command, quote};
use nexus_api::log::Place;
use nexus_api::queue_text;
use nexus_api::results::Extract;
use nexus_api::select::Selector;
use nexus_api::shell_words::{SPECIAL, commands, split};
use nexus_api::variables::{Hidden, masked};
use nexus_api::{env, signals, template, values};

pub fn hold(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    shell(&text);
    for line in text.lines() {
        one_value(line);
    }
    if let Ok(variables) = env::parse_file(&text) {
        assert!(variables.iter().all(|(name, _)| !name.is_empty() && !env::is_reserved(name)));
    }
    assert_eq!(template::fill(&text, |_| None), text);
    let filled = template::fill(&text, |_| Some(""));
    assert!(filled.len() + 2 * template::names(&text).count() <= text.len() || filled == text);
    let hidden: Vec<Hidden> =
        text.lines().take(3).map(|line| Hidden { name: "N".into(), value: line.to_string() }).collect();
    // Only values of four bytes and more are hidden, each behind three.
    assert!(masked(&text, &hidden).len() <= text.len());
}

fn shell(text: &str) {
    for refused in ["", SPECIAL] {
        let Ok(words) = split(text, refused) else { continue };
        let quoted = Command::Argv(words.clone()).text();
        assert_eq!(split(&quoted, refused), Ok(words), "{quoted:?}");
    }
    if let Ok(commands) = commands(text) {
        assert!(commands.iter().all(|words| !words.is_empty()));
    }
    assert_eq!(split(&quote(text), SPECIAL), Ok(vec![text.to_string()]));
}

fn one_value(text: &str) {
    if let Ok(seconds) = values::duration(text) {
        assert_eq!(values::duration(&values::limit(seconds)), Ok(seconds), "{text:?}");
    }
    if let Ok(bytes) = values::bytes(text) {
        assert!(values::mebibytes(text).is_ok_and(|mib| mib >= bytes >> 20));
        let mib = bytes.div_ceil(1 << 20);
        assert_eq!(values::mebibytes(&values::mebibytes_text(mib)), Ok(mib), "{text:?}");
    }
    if let Ok(gpus) = values::gpu_list(text) {
        assert!(gpus.is_sorted() && !gpus.is_empty(), "{text:?}");
        let told: Vec<String> = gpus.iter().map(u16::to_string).collect();
        assert_eq!(values::gpu_list(&told.join(",")), Ok(gpus));
    }
    if let Ok(amount) = GpuAmount::parse(text) {
        assert_eq!(GpuAmount::parse(&amount.to_string()), Ok(amount), "{text:?}");
        let json = serde_json::to_string(&amount).expect("a number can be written");
        assert_eq!(serde_json::from_str::<GpuAmount>(&json).ok(), Some(amount), "{json}");
    }
    if let Ok(place) = text.parse::<Place>() {
        assert_eq!(place.to_string().parse(), Ok(place));
    }
    if let Ok(extracts) = Extract::read_list(text) {
        let told = Extract::list_text(&extracts);
        assert_eq!(told.map(|told| Extract::read_list(&told)), (!extracts.is_empty()).then_some(Ok(extracts)));
    }
    if let Some(number) = signals::number(text) {
        assert_eq!(signals::number(&signals::name(number)), Some(number), "{text:?}");
    }
    let _ = (text.parse::<Selector>(), values::environment(text), values::option_name(text));
    let _ = (queue_text::vram(text), queue_text::retry_on(text), env::variable(text), env::looks_secret(text));
}
