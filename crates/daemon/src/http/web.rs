//! Turns the web page on and off. Answered on the socket alone: whoever is in over TCP does not let others in.

use axum::Json;
use axum::extract::State;
use nexus_api::web::{Web, WebOn};

use super::Shared;
use super::extract::Sent;
use super::problem::Failed;
use crate::engine::Message;

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
