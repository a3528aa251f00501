//! `GET /v1/openapi.json`: every path of the router in a form that programs read. What each takes and answers is said in
//! [`routes`]; the types say it themselves, where they are declared. A test holds the paths against the router.

mod operation;
mod routes;
#[cfg(test)]
mod tests;

use std::sync::LazyLock;

use axum::body::Bytes;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use nexus_api::problem::Told;
use serde_json::{Value, json};
use utoipa::ToSchema;
use utoipa::openapi::content::ContentBuilder;
use utoipa::openapi::response::ResponseBuilder;
use utoipa::openapi::security::{Http, HttpAuthScheme, SecurityRequirement, SecurityScheme};
use utoipa::openapi::{ComponentsBuilder, InfoBuilder, OpenApiBuilder, Paths, Ref};

use operation::{JSON, Schemas};

const ABOUT: &str = "The same interface on two ways: the unix socket `~/.nexus/nexus.sock`, for its owner alone and without \
    a token, and TCP once `nexus web` has turned it on, with a token. What went wrong is told as a `Problem`, whose field \
    `problem` is a code that stays; its words may change. Fields may be added: pass over those that you do not know. More \
    in docs/api.md.";

const TOKEN: &str = "Over TCP: the token is in `web.token` in the home of nexus. The unix socket needs none.";

/// Answers in which what is unknown is null, and never absent, but for these fields.
const NEVER_ABSENT: [(&str, &[&str]); 4] =
    [("Job", &["expected"]), ("Run", &[]), ("Sweep", &[]), ("Status", &["standstill", "trouble"])];

/// Made once: it is the same for as long as the service runs.
static DOCUMENT: LazyLock<Bytes> = LazyLock::new(|| Bytes::from(document().to_string()));

pub async fn openapi() -> Response {
    ([(header::CONTENT_TYPE, JSON)], DOCUMENT.clone()).into_response()
}

fn document() -> Value {
    let mut schemas: Schemas = vec![(Told::name().into(), <Told as utoipa::PartialSchema>::schema())];
    Told::schemas(&mut schemas);
    let mut paths = Paths::new();
    for (tag, operations) in routes::all() {
        for mut operation in operations {
            schemas.append(&mut operation.schemas);
            let (path, method) = (operation.path, operation.method.clone());
            paths.add_path_operation(path, vec![method], operation.build(tag));
        }
    }
    let problem = ContentBuilder::new().schema(Some(Ref::from_schema_name(Told::name()))).build();
    let problem = ResponseBuilder::new().description("What went wrong.").content(JSON, problem).build();
    let mut token = Http::new(HttpAuthScheme::Bearer);
    token.description = Some(TOKEN.into());
    let components = ComponentsBuilder::new()
        .schemas_from_iter(schemas)
        .response("Problem", problem)
        .security_scheme("token", SecurityScheme::Http(token))
        .build();
    let document = OpenApiBuilder::new()
        .info(InfoBuilder::new().title("nexus").version(env!("CARGO_PKG_VERSION")).description(Some(ABOUT)).build())
        .paths(paths)
        .components(Some(components))
        .security(Some([SecurityRequirement::new::<_, _, String>("token", []), SecurityRequirement::default()]))
        .build();
    let mut document = serde_json::to_value(document).expect("it is plain data");
    unlink(&mut document);
    for (name, sometimes) in NEVER_ABSENT {
        let schema = &mut document["components"]["schemas"][name];
        let fields = schema["properties"].as_object().expect("a struct has fields").keys();
        let always: Vec<Value> =
            fields.filter(|name| !sometimes.contains(&name.as_str())).map(|name| json!(name)).collect();
        schema["required"] = Value::Array(always);
    }
    document
}

/// Comments of the code point to other code, which a reader of the document does not have: the name stays.
fn unlink(value: &mut Value) {
    match value {
        Value::Array(list) => list.iter_mut().for_each(unlink),
        Value::Object(fields) => {
            for (name, value) in fields {
                match value {
                    Value::String(text) if name == "description" => *text = unlinked(text),
                    other => unlink(other),
                }
            }
        }
        _ => {}
    }
}

/// A link as of rustdoc, with a target of its own or without, becomes the last word of its name.
fn unlinked(text: &str) -> String {
    let mut parts = text.split("[`");
    let mut plain = parts.next().unwrap_or_default().to_string();
    for part in parts {
        let (name, rest) = part.split_once("`]").unwrap_or((part, ""));
        let rest = match rest.strip_prefix('(').and_then(|rest| rest.split_once(')')) {
            Some((_, behind)) => behind,
            None => rest,
        };
        plain.push_str(&format!("`{}`{rest}", name.rsplit("::").next().unwrap_or(name)));
    }
    plain
}
