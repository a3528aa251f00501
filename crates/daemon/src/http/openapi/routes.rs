//! Every operation of the router, by what it is about. A path that is added there is added here: a test says so.

use nexus_api::backup::{Backup, MakeBackup};
use nexus_api::config::{ConfigView, Overrides};
use nexus_api::edit::{JobEdit, JobEdited, QueueEdit, QueueEdited, QueueText};
use nexus_api::events::Event;
use nexus_api::export::Exported;
use nexus_api::gc::{Collect, Collected};
use nexus_api::history_import::TakenOver;
use nexus_api::import::{Import, ImportReport, ImportText, Imported, Watch, Watched, Watching};
use nexus_api::jobs::{Action, Job, JobDetail, JobQuery, JobSpec, Move, OnJobs, Rerun, Submitted};
use nexus_api::left::{CopyResults, Results};
use nexus_api::log;
use nexus_api::machines::{MachineAction, NewMachine, OnMachines, SetUpBegun, SetUpMachines};
use nexus_api::notify::{Notice, Tried};
use nexus_api::report::{Group, Tag, TagJobs};
use nexus_api::screens::Screen;
use nexus_api::service::{Gpu, GpuPast, Machine, OnGpus, Service, SimulatedGpus, Status, Stop};
use nexus_api::sweeps::{NewSweep, Sweep, SweepPlanned, SweepQueued};
use nexus_api::variables::{SetVariable, Variable};
use nexus_api::web::{Browser, BrowserKeys, Proof, Web, WebOn};
use nexus_api::why::Why;
use utoipa::PartialSchema;
use utoipa::openapi::schema::{AnyOfBuilder, ObjectBuilder, Type};

use super::operation::{JSON, Operation, delete, get, post, put};
use crate::http::{edit, events, export, history, import, jobs, logs, report, service, service_log, sweeps, web};

const JOB: &str = "The id of a job.";
const NO_JOB: &str = "There is no such job.";
const UNFIT: &str = "The state of a job does not allow it; nothing was done.";
const KEY: &str =
    "However often this is sent with this key within a week, it happens once; the answer names the same jobs.";
const NEXT: &str = "The cursor of the next page; missing behind the last.";

pub fn all() -> Vec<(&'static str, Vec<Operation>)> {
    let mut of_jobs = listed_jobs();
    of_jobs.extend(changed_jobs());
    of_jobs.extend(left_by_jobs());
    vec![
        ("jobs", of_jobs),
        ("queue", queue()),
        ("sweeps", of_sweeps()),
        ("machines", machines()),
        ("gpus", gpus()),
        ("events", vec![followed_events()]),
        ("files", files()),
        ("watches", watches()),
        ("reports", reports()),
        ("variables", variables()),
        ("service", of_service()),
        ("config", config()),
        ("page", page()),
    ]
}

fn listed_jobs() -> Vec<Operation> {
    vec![
        get("/v1/jobs", "list_jobs", "Lists jobs")
            .about("Everything alive where nothing is said; with a `cursor`, page by page.")
            .query::<JobQuery>()
            .answers_list::<Job>("Those that wait in the order of the queue; ended ones the oldest first, in pages the newest.")
            .answer_header("nexus-cursor", NEXT)
            .or(404, "A selector matches nothing."),
        post("/v1/jobs", "submit_jobs", "Queues jobs")
            .about("All of them or none. Each is on disk when this is answered. What the service alone says of a job (`sweep`, \
                    `params`, `variables`, `by_rule`) is passed over.")
            .query::<jobs::SubmitQuery>()
            .header("idempotency-key", KEY)
            .takes_list::<JobSpec>()
            .answers::<Submitted>("The jobs, in the order of the specs; of a dry run as they would be, without an id.")
            .or(404, "A job that one is to come after is not there.")
            .or(409, "A job was to be the only one of its kind, and is not.")
            .or(507, "There is no room for them."),
        post("/v1/jobs/rerun", "rerun_jobs", "Queues jobs again")
            .header("idempotency-key", KEY)
            .takes::<Rerun>()
            .answers::<Submitted>("The new jobs.")
            .or(404, NO_JOB)
            .or(409, "A job has not ended, its checkpoints are in use, or a variable that it needs is gone."),
        get("/v1/jobs/{id}", "show_job", "Shows a job and its attempts")
            .of("id", JOB)
            .query::<jobs::ShowQuery>()
            .answers::<JobDetail>("The job.")
            .or(404, NO_JOB),
        get("/v1/jobs/{id}/why", "explain_job", "Tells why a job waits, or how it came to its end")
            .of("id", JOB)
            .answers::<Why>("The facts.")
            .or(404, NO_JOB),
    ]
}

fn changed_jobs() -> Vec<Operation> {
    vec![
        post("/v1/jobs/{id}", "act_on_jobs", "Ends, removes, holds, releases, puts first or forgets jobs")
            .about("All of them or none, unless those that it does not fit are to be left out. What is done is the last part \
                    of the path, as in `/v1/jobs/kill`: `kill` ends those that run, `remove` takes out those that wait, \
                    `cancel` does whichever fits, `forget` deletes ended ones with their logs.")
            .one_of("id", "What is done.", Action::schema())
            .takes::<OnJobs>()
            .answers_list::<Job>("The jobs that it was done to, as they are then; forgotten ones as they were.")
            .or(404, NO_JOB)
            .or(409, UNFIT),
        post("/v1/jobs/{id}/edit", "edit_job", "Changes a job")
            .about("Of one that runs the time limit, the priority and the tags alone.")
            .of("id", JOB)
            .takes::<JobEdit>()
            .answers::<JobEdited>("What was changed.")
            .or(404, NO_JOB)
            .or(409, UNFIT),
        post("/v1/jobs/{id}/move", "move_job", "Puts a waiting job elsewhere in the queue")
            .of("id", JOB)
            .takes::<Move>()
            .answers::<Job>("The job, with its new place.")
            .or(404, NO_JOB)
            .or(409, UNFIT),
        get("/v1/tags", "list_tags", "Lists tags").answers_list::<Tag>("Each with how many jobs have it."),
        post("/v1/tags/{tag}", "tag_jobs", "Gives jobs a tag, or takes it off")
            .of("tag", "The tag.")
            .takes::<TagJobs>()
            .answers_list::<Job>("The jobs as they are then.")
            .or(404, NO_JOB),
    ]
}

fn left_by_jobs() -> Vec<Operation> {
    vec![
        get("/v1/jobs/{id}/log", "read_log", "Reads what a job printed")
            .about("All of it, its end, or as it comes. With `from` the answer comes in frames: one byte for the kind, four \
                    for the length (little endian), and as many bytes. Kinds are `a` (an attempt begins; its number in four \
                    bytes), `o` and `e` (standard output and standard error), `s` (the service stops: come back with the \
                    place reached) and `j` (the job has ended; the job as JSON, and no frame after it).")
            .of("id", JOB)
            .query::<logs::LogQuery>()
            .header("range", "Bytes of one stream, as in `bytes=0-65535`, `bytes=4096-`, `bytes=-1000`; 8 MiB at most.")
            .also(206, "application/octet-stream", "The bytes of the range; `content-range` tells which they are.")
            .or(416, "The range begins behind what was printed so far.")
            .answers_with("application/octet-stream", "Bytes as they were printed; frames where `from` is given.")
            .answers_with(log::CONTENT_TYPE, "Bytes as they were printed; frames where `from` is given.")
            .or(404, "There is no such job, or no such log."),
        get("/v1/jobs/{id}/terminal", "attach", "Connects to the terminal of a running job")
            .about("An upgrade. `Upgrade: websocket` for browsers: the first message is a text `{\"columns\": 80, \"rows\": 24, \
                    \"read_only\": false}`, and one like it follows when the size changes; binary messages are bytes of output, \
                    or typed; texts of the service have a `kind` of `hello`, `left_out`, `refused` or `ended`. `Upgrade: \
                    nexus-terminal` for programs: frames as in docs/run-directory.md.")
            .of("id", JOB)
            .header("Upgrade", "`websocket` or `nexus-terminal`.")
            .answers_upgrade("The connection is the terminal.")
            .or(400, "No upgrade was asked for.")
            .or(404, NO_JOB)
            .or(409, "The job does not run, or its terminal cannot be reached."),
        get("/v1/jobs/{id}/results", "show_results", "Tells what a job left behind")
            .of("id", JOB)
            .answers::<Results>("Files, values, and how far their copy is.")
            .or(404, NO_JOB),
        post("/v1/jobs/{id}/results", "copy_results", "Copies what a job left behind")
            .about("Answered when the copy has begun, or was found under way; ask again for what became of it.")
            .of("id", JOB)
            .takes::<CopyResults>()
            .answers::<Results>("How far it is.")
            .or(404, NO_JOB)
            .or(409, UNFIT),
    ]
}

fn queue() -> Vec<Operation> {
    vec![
        post("/v1/queue/pause", "pause_queue", "Starts no more jobs").answers_done(),
        post("/v1/queue/resume", "resume_queue", "Starts jobs again").answers_done(),
        get("/v1/queue/text", "read_queue_text", "Gives the queue, or one job, as a text that can be edited")
            .query::<edit::TextQuery>()
            .answers::<QueueText>("As in `jobs.txt`.")
            .or(404, NO_JOB)
            .or(409, "The job does not wait."),
        post("/v1/queue/text", "edit_queue_text", "Does what an edited text of the queue says")
            .about("As one change. Nothing is done where a line cannot be read, or a job would be removed without consent: \
                    then `done` is false, and the rest tells why.")
            .takes::<QueueEdit>()
            .answers::<QueueEdited>("What was done, or is in the way."),
    ]
}

fn of_sweeps() -> Vec<Operation> {
    let mut create = post("/v1/sweeps", "create_sweep", "Queues a job for each point of a sweep")
        .about("All of them or none.")
        .query::<sweeps::CreateQuery>()
        .header("idempotency-key", KEY)
        .takes::<NewSweep>();
    let queued = create.known::<SweepQueued>();
    let planned = create.known::<SweepPlanned>();
    let either = AnyOfBuilder::new().item(queued).item(planned);
    vec![
        get("/v1/sweeps", "list_sweeps", "Lists sweeps").answers_list::<Sweep>("The sweeps."),
        create
            .answers_as(JSON, either.into(), "The sweep and its jobs; of a dry run what it would come to.")
            .or(409, "A job was to be the only one of its kind, and is not.")
            .or(507, "There is no room for them."),
        get("/v1/sweeps/{name}", "show_sweep", "Shows a sweep")
            .of("name", "The name of a sweep.")
            .answers::<Sweep>("The sweep.")
            .or(404, "There is no such sweep."),
        get("/v1/sweeps/{name}/jobs", "list_sweep_jobs", "Lists the jobs of a sweep")
            .of("name", "The name of a sweep.")
            .query::<sweeps::JobsQuery>()
            .answers_list::<Job>("In the order of its points; those that were repeated do not count.")
            .answer_header("nexus-cursor", NEXT)
            .or(404, "There is no such sweep."),
    ]
}

fn machines() -> Vec<Operation> {
    const NO_MACHINE: &str = "There is no such machine.";
    vec![
        get("/v1/machines", "list_machines", "Lists the machines of the pool")
            .answers_list::<Machine>("As they are now, the service's own host first."),
        post("/v1/machines", "add_machine", "Adds a machine, and begins to call it")
            .about("The answer comes before it was reached: its state tells how that goes.")
            .takes::<NewMachine>()
            .answers::<Machine>("The machine.")
            .or(409, "There is one of this name already."),
        post("/v1/setups", "set_up_machines", "Has jobs make machines ready for a class")
            .about("Machines that are not in the pool yet are added. Each joins the class when the last of its jobs has completed.")
            .takes::<SetUpMachines>()
            .answers_list::<SetUpBegun>("The machines in their order, with the ids of their jobs.")
            .or(409, "There is one of this name already, with another address."),
        get("/v1/machines/{name}", "show_machine", "Shows a machine")
            .of("name", "The name of a machine.")
            .answers::<Machine>("As it is now.")
            .or(404, NO_MACHINE),
        post("/v1/machines/{name}", "act_on_machines", "Pauses machines, moves them, takes them out")
            .about("What is done stands in the place of the name. All of them or none; jobs that run go on.")
            .one_of("name", "What is done.", MachineAction::schema())
            .takes::<OnMachines>()
            .answers_list::<Machine>("The machines as they are then, or were before they went.")
            .or(404, NO_MACHINE)
            .or(409, "Jobs are on one that was to go."),
    ]
}

fn gpus() -> Vec<Operation> {
    let word = ObjectBuilder::new().schema_type(Type::String).enum_values(Some(["pause", "resume"]));
    vec![
        get("/v1/gpus", "list_gpus", "Lists machines and their GPUs").answers_list::<Machine>("As they are now."),
        get("/v1/gpus/readings", "list_readings", "Tells load and memory of the last quarter of an hour")
            .answers_list::<GpuPast>("Each GPU with its readings."),
        post("/v1/gpus/{word}", "act_on_gpus", "Pauses GPUs, or lets them take jobs again")
            .about("All of them or none.")
            .one_of("word", "What is done.", word.into())
            .takes::<OnGpus>()
            .answers_list::<Gpu>("The GPUs as they are then."),
    ]
}

fn followed_events() -> Operation {
    get("/v1/events", "follow_events", "Tells what happens, as it happens")
        .about("Server-sent events without an end. The data of each is an `Event` in JSON. Whoever comes back says the number \
                of the last one heard, by `Last-Event-ID` or `since`, and gets what followed; an event of the kind `missed` \
                says that this cannot be told any more, and that all should be read anew.")
        .query::<events::EventsQuery>()
        .header("Last-Event-ID", "The number of the last event heard. Goes before `since`.")
        .answers_with("text/event-stream", "Events, for as long as somebody listens.")
        .mentions::<Event>()
}

fn files() -> Vec<Operation> {
    vec![
        get("/v1/export", "export_jobs", "Gives out all jobs with all that is known of them")
            .about("Written while it is read, however many they are. As `jsonl` each line is an `Exported`. An answer that \
                    ends without the end of its last chunk is not whole.")
            .query::<export::ExportQuery>()
            .answers_with("application/jsonl", "A job in each line.")
            .answers_with("text/csv", "A job in each line.")
            .or(404, "A selector matches nothing.")
            .mentions::<Exported>(),
        post("/v1/history", "take_over_history", "Takes ended jobs of an export over, under their ids")
            .query::<history::HistoryQuery>()
            .takes_text("application/jsonl", "An `Exported` in each line, 10,000 lines at most.")
            .answers::<TakenOver>("How many were taken, and which lines were not."),
        post("/v1/import", "import_entries", "Queues the entries of a job file that the client has read")
            .takes::<Import>()
            .answers::<Imported>("What became of each."),
        post("/v1/import/lines", "import_lines", "Queues the entries of a job file line by line")
            .about("They are queued as they come, and each part is answered when it is on disk. An answer that ends \
                    without the end of its last chunk is not whole.")
            .takes_text("application/jsonl", "An `Import` without entries, and an `Entry` in each line after it.")
            .answers_with("application/jsonl", "An `Imported` in each line; the last has the notes, and what stopped it."),
        post("/v1/import/text", "import_text", "Queues what stands in the text of a job file")
            .about("With the environment of the service's owner.")
            .takes::<ImportText>()
            .answers::<ImportReport>("What became of each line."),
    ]
}

fn watches() -> Vec<Operation> {
    vec![
        get("/v1/watches", "list_watches", "Lists watched job files").answers_list::<Watched>("The files."),
        post("/v1/watches", "watch_file", "Watches a job file, and queues what is added to it")
            .takes::<Watch>()
            .answers::<Watching>("What the first look brought."),
        delete("/v1/watches", "end_watch", "Ends a watch")
            .query::<import::OfFile>()
            .answers::<Watched>("The watch as it was.")
            .or(404, "The file is not watched."),
    ]
}

fn reports() -> Vec<Operation> {
    vec![
        get("/v1/report", "sum_up", "Sums over jobs by something that they have in common")
            .query::<report::ReportQuery>()
            .answers_list::<Group>("The sums.")
            .or(404, "A selector matches nothing."),
    ]
}

fn variables() -> Vec<Operation> {
    const NAME: &str = "The name of a variable.";
    vec![
        get("/v1/variables", "list_variables", "Lists variables, without their values")
            .answers_list::<Variable>("The variables."),
        put("/v1/variables/{name}", "set_variable", "Sets a variable")
            .of("name", NAME)
            .takes::<SetVariable>()
            .answers::<Variable>("The variable."),
        delete("/v1/variables/{name}", "unset_variable", "Takes a variable back")
            .of("name", NAME)
            .answers::<Variable>("The variable; its value stays until the last job that needs it has ended.")
            .or(404, "There is no such variable."),
    ]
}

fn of_service() -> Vec<Operation> {
    vec![
        get("/v1/openapi.json", "read_openapi", "Gives this document").answers_as(
            JSON,
            ObjectBuilder::new().schema_type(Type::Object).into(),
            "OpenAPI 3.1.",
        ),
        get("/v1/service", "show_service", "Tells what the service is and where").answers::<Service>("The service."),
        get("/v1/status", "show_status", "Tells how everything stands")
            .query::<service::StatusQuery>()
            .answers::<Status>("Counts, machines, what runs, what failed lately."),
        get("/v1/service/log", "follow_service_log", "Follows the service's own log")
            .about("Without an end.")
            .query::<service_log::LogQuery>()
            .answers_with("text/plain", "Lines, for as long as somebody listens."),
        post("/v1/gc", "collect", "Deletes what nobody needs any more")
            .about("Folders of jobs that are not in the history, copies of folders that no job names, and ended jobs that are \
                    older than wished, or than `retention.jobs`. What is on other machines stays.")
            .takes::<Collect>()
            .answers::<Collected>("What was deleted; of a dry run what would be."),
        get("/v1/backups", "list_backups", "Lists copies of the database")
            .answers_list::<Backup>("Those in `backups/` of the home, the newest first."),
        post("/v1/backups", "make_backup", "Copies the database")
            .about("As it is at one moment; jobs go on meanwhile. Of the copies that are named by time only the newest \
                    `retention.backups` are kept.")
            .takes::<MakeBackup>()
            .answers::<Backup>("The copy, which is whole, checked and on the disk.")
            .or(503, "The database is damaged: a copy would be too.")
            .or(507, "There is no room for it."),
        post("/v1/service/stop", "stop_service", "Stops the service")
            .about("Answered when it is decided; jobs that are ended have their time for it afterwards.")
            .takes::<Stop>()
            .answers_done(),
        put("/v1/service/simulated-gpus", "simulate_gpus", "Puts simulated GPUs in the place of real ones")
            .about("0 for the real ones again.")
            .takes::<SimulatedGpus>()
            .answers_done(),
        post("/v1/service/screen", "open_screen", "Opens the service's own session of GNU screen").answers_done(),
        get("/healthz", "health", "Tells whether the service is well").answers_done().or(503, "It is not, for now."),
        get("/metrics", "metrics", "Gives figures as Prometheus reads them")
            .answers_with("text/plain", "Jobs by state, GPUs, waits, decisions, commits."),
        get("/v1/screens", "list_screens", "Lists sessions of GNU screen").answers_list::<Screen>("The sessions."),
    ]
}

fn config() -> Vec<Operation> {
    vec![
        get("/v1/config", "show_config", "Shows the configuration in force")
            .answers::<ConfigView>("Each key with its value."),
        post("/v1/config/reload", "reload_config", "Reads the configuration now")
            .about("The file is watched: this is for those who want to know what came of a change.")
            .answers::<ConfigView>("What is in force then, and why the file is not, if it is not."),
        put("/v1/config/overrides", "override_config", "Gives keys another value until the next start")
            .takes::<Overrides>()
            .answers_done(),
        post("/v1/notify/test", "test_notify", "Tells everybody in `[notify]` that this is a test")
            .answers_list::<Tried>("What each of them answered.")
            .mentions::<Notice>()
            .or(409, "The configuration names nobody."),
    ]
}

fn page() -> Vec<Operation> {
    const ALONE: &str = "On the unix socket alone.";
    vec![
        get("/v1/web", "show_web", "Tells whether and where TCP and the page can be had")
            .about(ALONE)
            .answers::<Web>("Where it is."),
        post("/v1/web", "turn_web_on", "Turns TCP and the page on, and makes a link for a browser")
            .about(ALONE)
            .takes::<WebOn>()
            .answers::<Web>("Where it is, with the link."),
        delete("/v1/web", "turn_web_off", "Turns TCP and the page off; whoever was in is out")
            .about(ALONE)
            .answers::<Web>("Where the token is."),
        get("/v1/web/browsers", "list_browsers", "Lists the browsers that were let in")
            .about(ALONE)
            .answers_list::<Browser>("The browsers."),
        delete("/v1/web/browsers/{id}", "revoke_browser", "Forgets the keys of a browser and closes its connections")
            .about(ALONE)
            .of("id", "As in the list of browsers.")
            .answers_done(),
        get("/v1/web/proof", "prove", "Proves to a browser that this service made the browser's key")
            .about("Answered without a token. What a browser does with it is in docs/web.md.")
            .query::<web::ProofQuery>()
            .answers::<Proof>("The proof, and what the browser answers to.")
            .or(401, "The key is not known, or has ended."),
        post("/v1/web/keys", "take_keys", "Gives a browser the keys that it lacks")
            .about("For browsers alone, which show a session of a key.")
            .answers::<BrowserKeys>("The keys."),
    ]
}
