//! Turns the web page on and off, lists and revokes browsers: answered on the socket alone, since whoever is in over TCP does
//! not let others in. Over TCP a browser has the service prove itself, and gets its keys.

use axum::extract::State;
use axum::{Extension, Json};
use nexus_api::problem::Problem;
use nexus_api::web::{Browser, BrowserKeys, Proof, Web, WebOn};
use serde::Deserialize;
use utoipa::IntoParams;

use super::Shared;
use super::extract::{Asked, Path, Sent};
use super::problem::Failed;
use crate::engine::Message;
use crate::web::BrowserCaller;

/// `GET /v1/web`
pub async fn show(State(app): State<Shared>) -> Json<Web> {
    Json(app.web.show().await)
}

/// `POST /v1/web`
pub async fn on(State(app): State<Shared>, Sent(wish): Sent<WebOn>) -> Result<Json<Web>, Failed> {
    let before = app.web.show().await.address;
    let web = app.web.on(wish, app.reload.web_port()).await?;
    if let Some(address) = web.address.as_ref().filter(|_| web.address != before) {
        let reach = if web.exposed { ", where others reach it" } else { "" };
        app.post(Message::Log(vec![format!("Web page on at http://{address}{reach}").into()]))?;
    }
    Ok(Json(web))
}

/// `DELETE /v1/web`
pub async fn off(State(app): State<Shared>) -> Result<Json<Web>, Failed> {
    let was_on = app.web.show().await.address.is_some();
    let web = app.web.off().await?;
    if was_on {
        app.post(Message::Log(vec!["Web page off".into()]))?;
    }
    Ok(Json(web))
}

/// `GET /v1/web/browsers`
pub async fn browsers(State(app): State<Shared>) -> Result<Json<Vec<Browser>>, Failed> {
    Ok(Json(app.web.browsers().await?))
}

/// `DELETE /v1/web/browsers/{id}`
pub async fn revoke(State(app): State<Shared>, Path(id): Path<String>) -> Result<Json<()>, Failed> {
    app.web.revoke(&id).await?;
    app.post(Message::Log(vec![format!("Browser {id} is let in no more").into()]))?;
    Ok(Json(()))
}

#[derive(Deserialize, IntoParams)]
pub struct ProofQuery {
    /// Id of the browser's key.
    key: String,
    /// 32 hexadecimal digits that the browser chose by chance.
    nonce: String,
}

/// `GET /v1/web/proof`: anybody may ask.
pub async fn prove(State(app): State<Shared>, Asked(query): Asked<ProofQuery>) -> Result<Json<Proof>, Failed> {
    Ok(Json(app.web.prove(&query.key, &query.nonce).await?))
}

/// `POST /v1/web/keys`
pub async fn keys(
    State(app): State<Shared>,
    caller: Option<Extension<BrowserCaller>>,
) -> Result<Json<BrowserKeys>, Failed> {
    let Extension(caller) = caller.ok_or(Problem::NotIn)?;
    Ok(Json(app.web.missing_keys(&caller).await?))
}
