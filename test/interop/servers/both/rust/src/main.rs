//! A server on rmcp that speaks both eras and asks in the middle of a call, as 2025-11-25 does.
#![allow(deprecated)] // sampling is, from 2026-07-28 on

use rmcp::{
    ErrorData, ServerHandler, ServiceExt,
    handler::server::wrapper::Parameters,
    model::{CreateMessageRequestParams, SamplingMessage},
    schemars, serde_json,
    service::{Peer, RoleServer},
    tool, tool_handler, tool_router,
    transport::streamable_http_server::{StreamableHttpService, session::local::LocalSessionManager},
};
use serde::{Deserialize, Serialize};

#[derive(Deserialize, schemars::JsonSchema)]
struct Text {
    text: String,
}

#[derive(Deserialize, Serialize, schemars::JsonSchema)]
struct Name {
    name: String,
}
rmcp::elicit_safe!(Name);

#[derive(Clone)]
struct Both;

#[tool_router]
impl Both {
    #[tool]
    fn echo(&self, Parameters(Text { text }): Parameters<Text>) -> String {
        text
    }

    /// Asks the user, and goes on without an answer, as the SDK's own examples do.
    #[tool]
    async fn ask(&self, peer: Peer<RoleServer>) -> String {
        match peer.elicit::<Name>("Who are you?").await {
            Ok(Some(answer)) => format!("hi {}!", answer.name),
            _ => "hi Unknown!".into(),
        }
    }

    #[tool]
    async fn think(&self, peer: Peer<RoleServer>) -> Result<String, ErrorData> {
        let question = vec![SamplingMessage::user_text("What is love?")];
        let answer = peer
            .create_message(CreateMessageRequestParams::new(question, 10))
            .await
            .map_err(|e| ErrorData::internal_error(e.to_string(), None))?;
        let answer = serde_json::to_value(&answer).unwrap_or_default();
        Ok(format!("The model says: {}", answer["content"]["text"].as_str().unwrap_or("nothing")))
    }
}

#[tool_handler]
impl ServerHandler for Both {}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let Ok(port) = std::env::var("PORT") else {
        Both.serve(rmcp::transport::stdio()).await?.waiting().await?;
        return Ok(());
    };
    let service = StreamableHttpService::new(|| Ok(Both), LocalSessionManager::default().into(), Default::default());
    let listener = tokio::net::TcpListener::bind(format!("127.0.0.1:{port}")).await?;
    eprintln!("listening on port {port}");
    axum::serve(listener, axum::Router::new().nest_service("/mcp", service)).await?;
    Ok(())
}
