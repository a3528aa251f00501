//! A real conda for tests: the copy of it that conda-lock carries, in an installation of its own. `./test` fetches it.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Set where a test may not be left out for want of it.
const REQUIRED: &str = "NEXUS_TEST_CONDA";

pub struct Conda {
    root: PathBuf,
    packages: PathBuf,
}

impl Conda {
    /// Installs it in a folder that does not exist yet. None where it was not fetched, which is said.
    pub fn install(root: &Path) -> Option<Conda> {
        let packages = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/test-conda");
        if !packages.join("conda_lock/_vendor/conda").is_dir() {
            let missing = format!("there is no conda in {}: ./test fetches it", packages.display());
            assert!(std::env::var_os(REQUIRED).is_none(), "{missing}");
            eprintln!("skipped: {missing}");
            return None;
        }
        make_venv(root);
        let conda = Conda { root: root.into(), packages };
        conda.write("bin/conda", "sys.exit(main())");
        Some(conda)
    }

    /// A micromamba: it takes what micromamba takes to activate, and nothing else, and lets conda do it.
    pub fn micromamba(&self, path: &str) -> PathBuf {
        let lines = "match sys.argv[1:]:\n    case ['shell', 'activate', environment, '--shell', 'bash']:\n        \
                     sys.exit(main('shell.posix', 'activate', environment))\nsys.exit('unexpected: %s' % sys.argv)";
        self.write(path, lines)
    }

    fn write(&self, path: &str, lines: &str) -> PathBuf {
        let program = self.root.join(path);
        let (python, packages) = (self.root.join("bin/python"), &self.packages);
        // Without what conda-lock itself would import.
        let text = format!(
            "#!{}\nimport sys, types\npackage = types.ModuleType('conda_lock')\n\
             package.__path__ = [{:?}]\nsys.modules['conda_lock'] = package\nsys.path.insert(0, {packages:?})\n\
             from conda_lock._vendor.conda.cli.main import main\n{lines}\n",
            python.display(),
            packages.join("conda_lock"),
        );
        std::fs::create_dir_all(program.parent().expect("a folder")).expect("a folder for it");
        std::fs::write(&program, text).expect("a program");
        std::fs::set_permissions(&program, PermissionsExt::from_mode(0o755)).expect("it may be run");
        program
    }

    pub fn program(&self) -> PathBuf {
        self.root.join("bin/conda")
    }

    /// An environment with a Python of its own and scripts that run when it is activated and left.
    pub fn environment(&self, name: &str, activate: &str, deactivate: &str) -> PathBuf {
        let prefix = self.root.join("envs").join(name);
        make_venv(&prefix);
        for (folder, script) in [("activate.d", activate), ("deactivate.d", deactivate)] {
            let folder = prefix.join("etc/conda").join(folder);
            std::fs::create_dir_all(&folder).expect("a folder for scripts");
            std::fs::write(folder.join("own.sh"), script).expect("a script");
        }
        std::fs::create_dir_all(prefix.join("conda-meta")).expect("a folder of records");
        std::fs::write(prefix.join("conda-meta/history"), "").expect("a history");
        prefix
    }
}

/// A virtual environment without pip.
pub fn make_venv(folder: &Path) {
    let made =
        Command::new("python3").args(["-m", "venv", "--without-pip"]).arg(folder).output().expect("python3 runs");
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
}
