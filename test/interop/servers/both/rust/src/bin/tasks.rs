//! A server on rmcp whose tools run as tasks of the extension of 2026-07-28, after the task example of rmcp.

use std::time::Duration;

use rmcp::{
    ErrorData, ServerHandler, ServiceExt,
    model::*,
    serde_json::{self, json},
    service::{RequestContext, RoleServer},
    task_manager::{TaskContext, TaskExit, TaskManager, TaskOptions},
    transport::streamable_http_server::{StreamableHttpService, session::local::LocalSessionManager},
};

#[derive(Clone)]
struct Tasks {
    tasks: TaskManager,
}

const TOOLS: [&str; 4] = ["work", "ask", "fail", "linger"];

fn text(text: String) -> Result<CallToolResult, TaskExit> {
    Ok(CallToolResult::success(vec![ContentBlock::text(text)]))
}

async fn work(ctx: &TaskContext, input: String) -> Result<CallToolResult, TaskExit> {
    for step in 0..3 {
        ctx.set_status_message(format!("step {step}"));
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    text(format!("did {input}"))
}

async fn ask(ctx: &TaskContext) -> Result<CallToolResult, TaskExit> {
    let question = json!({"method": "elicitation/create", "params": {
        "mode": "form", "message": "Who are you?",
        "requestedSchema": {"type": "object", "properties": {"name": {"type": "string"}}},
    }});
    let question = serde_json::from_value(question).map_err(|e| ErrorData::internal_error(e.to_string(), None))?;
    let answer = ctx.request_input("who", question).await?;
    let answer = serde_json::to_value(answer).unwrap_or_default();
    text(format!("hi {}", answer["content"]["name"].as_str().unwrap_or("nobody")))
}

impl ServerHandler for Tasks {
    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        if !context.client_capabilities().is_some_and(|can| can.supports_tasks()) {
            return Err(ErrorData::invalid_request("the client does not support tasks", None));
        }
        let name = request.name.to_string();
        let arguments = serde_json::Value::Object(request.arguments.unwrap_or_default());
        let input = arguments["text"].as_str().unwrap_or_default().to_owned();
        let options = TaskOptions::new().with_poll_interval_ms(100);
        let task = self.tasks.spawn(options, move |ctx| {
            Box::pin(async move {
                match name.as_str() {
                    "work" => work(&ctx, input).await,
                    "ask" => ask(&ctx).await,
                    "fail" => Ok(CallToolResult::error(vec![ContentBlock::text("no luck")])),
                    _ => {
                        ctx.cancelled().await;
                        Err(TaskExit::Cancelled)
                    }
                }
            })
        });
        Ok(CallToolResponse::Task(CreateTaskResult::new(task)))
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let schema = rmcp::object!({"type": "object", "properties": {"text": {"type": "string"}}});
        Ok(ListToolsResult::with_all_items(TOOLS.map(|name| Tool::new(name, name, schema.clone())).to_vec()))
    }

    async fn get_task(
        &self,
        request: GetTaskParams,
        _: RequestContext<RoleServer>,
    ) -> Result<GetTaskResult, ErrorData> {
        Ok(GetTaskResult::new(self.tasks.get_task(&request.task_id)?))
    }

    async fn update_task(&self, request: UpdateTaskParams, _: RequestContext<RoleServer>) -> Result<(), ErrorData> {
        self.tasks.update_task(&request.task_id, request.input_responses)
    }

    async fn cancel_task(&self, request: CancelTaskParams, _: RequestContext<RoleServer>) -> Result<(), ErrorData> {
        self.tasks.cancel_task(&request.task_id)
    }

    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().enable_tasks().build())
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let tasks = Tasks { tasks: TaskManager::new() };
    let Ok(port) = std::env::var("PORT") else {
        tasks.serve(rmcp::transport::stdio()).await?.waiting().await?;
        return Ok(());
    };
    let sessions = LocalSessionManager::default();
    let service = StreamableHttpService::new(move || Ok(tasks.clone()), sessions.into(), Default::default());
    let listener = tokio::net::TcpListener::bind(format!("127.0.0.1:{port}")).await?;
    eprintln!("listening on port {port}");
    axum::serve(listener, axum::Router::new().nest_service("/mcp", service)).await?;
    Ok(())
}
