//! `--conda`, with a real conda.

use nexus_testkit::{Conda, Nexus};
use serde_json::Value;

use crate::NEXUS;

const WHERE: &str = "import os, sys; print(sys.prefix, *[os.environ.get(n) for n in ['CONDA_DEFAULT_ENV', 'CONDA_SHLVL', \
                     'OWN', 'OTHER', 'CUDA_VISIBLE_DEVICES']], sys.argv[1:])";

/// One that sets two variables, one of which is not its to set.
fn environment(conda: &Conda, name: &str) -> String {
    let prefix = conda.environment(name, "export OWN=activated CUDA_VISIBLE_DEVICES=7\n", "");
    prefix.canonicalize().unwrap().display().to_string()
}

fn printed(nexus: &Nexus, options: &[&str], words: &[&str]) -> String {
    let id = nexus.ok(&[&["add"], options, &["--", "python", "-c", WHERE], words].concat());
    let job = nexus.ended(&id);
    assert_eq!(job["state"], "completed", "{job}");
    nexus.stdout_of(&id)
}

fn refused(nexus: &Nexus, options: &[&str]) -> String {
    let id = nexus.add_with(options, "echo never");
    let job = nexus.ended(&id);
    assert_eq!((&job["reason"], &job["exit_code"]), (&"start-error".into(), &Value::Null), "{job}");
    job["detail"].as_str().unwrap().to_string()
}

#[test]
fn an_environment_is_activated_by_name_and_by_folder() {
    let nexus = Nexus::fresh(NEXUS);
    let Some(conda) = Conda::install(&nexus.work().join("conda")) else { return };
    let torch = environment(&conda, "torch");
    let nexus = nexus.env("CONDA_EXE", conda.program().to_str().unwrap());
    nexus.start(1);
    let odd = ["$(echo x)", "a  b", "", "it's", "*"];
    let seen = printed(&nexus, &["--conda", "torch"], &odd);
    assert_eq!(seen, format!("{torch} torch 1 activated None 0 ['$(echo x)', 'a  b', '', \"it's\", '*']\n"));
    let by_folder = format!("{torch} torch 1 activated None 0 []\n");
    assert_eq!(printed(&nexus, &["--conda", "conda/envs/torch"], &[]), by_folder);
    assert_eq!(printed(&nexus, &["--conda", "./torch", "--cwd", "conda/envs"], &[]), by_folder);
    let id = nexus.add_with(&["--conda", "torch"], "echo $OWN; exit 3");
    assert_eq!((&nexus.ended(&id)["exit_code"], nexus.stdout_of(&id).as_str()), (&3.into(), "activated\n"));
    assert!(nexus.ok(&["show", &id]).contains("\nConda:       torch\n"));
    let again = nexus.ok(&["rerun", &id]);
    assert_eq!((&nexus.ended(&again)["exit_code"], nexus.stdout_of(&again).as_str()), (&3.into(), "activated\n"));
    assert!(nexus.ok(&["doctor"]).contains(conda.program().to_str().unwrap()));
}

#[test]
fn what_was_active_where_it_was_typed_is_left() {
    let nexus = Nexus::fresh(NEXUS);
    let Some(conda) = Conda::install(&nexus.work().join("conda")) else { return };
    let torch = environment(&conda, "torch");
    let other = conda.environment("other", "export OTHER=other\n", "unset OTHER\n").display().to_string();
    let root = nexus.work().join("conda").display().to_string();
    // As a shell has it after `conda activate other`, with folders of one's own before it.
    let path = format!("/usr/bin:{other}/bin:{root}/condabin:{root}/bin:{}", std::env::var("PATH").unwrap());
    let nexus = nexus.env("PATH", &path).env("CONDA_EXE", conda.program().to_str().unwrap());
    let nexus = nexus.env("CONDA_PREFIX", &other).env("CONDA_PREFIX_1", &root).env("CONDA_SHLVL", "2");
    let nexus = nexus.env("CONDA_DEFAULT_ENV", "other").env("OTHER", "other");
    nexus.start(1);
    assert_eq!(printed(&nexus, &["--conda", "torch"], &[]), format!("{torch} torch 1 activated None 0 []\n"));
    let id = nexus.add_with(&["--conda", "torch"], "echo $PATH ${CONDA_PREFIX_1-none}");
    nexus.ended(&id);
    let seen = nexus.stdout_of(&id);
    assert!(seen.starts_with(&format!("{torch}/bin:")) && seen.ends_with(" none\n"), "{seen}");
    assert!(!seen.contains("envs/other"), "{seen}");
    assert_eq!(printed(&nexus, &["--conda", "other"], &[]).split(' ').nth(4), Some("other"), "the same one again");
}

#[test]
fn an_environment_that_is_not_there_is_told() {
    let nexus = Nexus::fresh(NEXUS);
    let Some(conda) = Conda::install(&nexus.work().join("conda")) else { return };
    let program = conda.program().display().to_string();
    let nexus = nexus.env("CONDA_EXE", &program);
    nexus.start(1);
    let sentence = refused(&nexus, &["--conda", "nosuch"]);
    let expected = format!(
        "{program} cannot activate the environment nosuch: EnvironmentNameNotFound: Could not find conda environment: \
         nosuch; {program} env list shows those there are"
    );
    assert_eq!(sentence, expected);
    let sentence = refused(&nexus, &["--conda", "./nosuch"]);
    assert!(sentence.contains("EnvironmentLocationNotFound: Not a conda environment: "), "{sentence}");
}

#[test]
fn the_tool_is_found_where_it_usually_is() {
    let nexus = Nexus::fresh(NEXUS);
    let Some(conda) = Conda::install(&nexus.work().join("conda")) else { return };
    let torch = environment(&conda, "torch");
    let expected = format!("{torch} torch 1 activated None 0 []\n");
    let home = nexus.work().parent().unwrap().to_path_buf();
    // Nothing says where it is: micromamba in ~/.local/bin, by a shell that is no bash.
    let programs = nexus.work().join("programs");
    std::fs::create_dir(&programs).unwrap();
    std::os::unix::fs::symlink("/bin/sh", programs.join("sh")).unwrap();
    std::os::unix::fs::symlink("/bin/sed", programs.join("sed")).unwrap();
    let micromamba = conda.micromamba("micromamba");
    std::fs::create_dir_all(home.join(".local/bin")).unwrap();
    let usual = home.join(".local/bin/micromamba");
    std::fs::rename(micromamba, &usual).unwrap();
    let nexus = nexus.env("PATH", programs.to_str().unwrap());
    nexus.start(1);
    assert_eq!(printed(&nexus, &["--conda", "torch"], &[]), expected);
    let sentence = refused(&nexus, &["--conda", "nosuch"]);
    assert!(sentence.starts_with(&format!("{} cannot activate the environment nosuch", usual.display())), "{sentence}");
    // A conda in the job's own PATH goes before it, and one that is named before that.
    let path = format!("PATH={}:{}", nexus.work().join("conda/bin").display(), programs.display());
    assert!(refused(&nexus, &["--env", &path, "--conda", "nosuch"]).contains("/conda/bin/conda cannot activate"));
    let named = conda.micromamba("elsewhere/mamba").display().to_string();
    let option = format!("MAMBA_EXE={named}");
    assert!(refused(&nexus, &["--env", &path, "--env", &option, "--conda", "nosuch"]).starts_with(&named));
    assert_eq!(printed(&nexus, &["--env", &option, "--conda", "torch"], &[]), expected);
}
