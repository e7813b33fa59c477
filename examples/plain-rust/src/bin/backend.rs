//! A backend without an SDK: tonic and the generated stubs. The bridge starts it.

use plain_rust::{plugin, v1::*};
use std::{env, future::Future, io::Read, path::Path, pin::Pin, process::exit, time::Duration};
use tokio::net::{TcpListener, UnixListener};
use tokio::signal::unix::{signal, SignalKind};
use tokio_stream::wrappers::{TcpListenerStream, UnixListenerStream};
use tonic::codegen::BoxStream;
use tonic::transport::{Certificate, Identity, Server, ServerTlsConfig};
use tonic::{Request, Response, Status};

const MAX_MESSAGE: usize = 64 << 20;

struct Backend;

#[tonic::async_trait]
impl mcp_service_server::McpService for Backend {
    async fn discover(&self, _: Request<DiscoverRequest>) -> Result<Response<DiscoverResponse>, Status> {
        Ok(Response::new(DiscoverResponse {
            server_info: Some(Implementation { name: "plain".into(), version: "1".into(), ..Default::default() }),
            capabilities: Some(ServerCapabilities { tools: Some(ToolsCapability::default()), ..Default::default() }),
            contract_version: 2,
            ..Default::default()
        }))
    }

    async fn list_tools(&self, request: Request<ListToolsRequest>) -> Result<Response<ListToolsResponse>, Status> {
        if request.get_ref().cursor.is_some() {
            return Err(Status::invalid_argument("there is one page only"));
        }
        let schema =
            r#"{"type":"object","properties":{"a":{"type":"integer"},"b":{"type":"integer"}},"required":["a","b"]}"#;
        let add = Tool {
            name: "add".into(),
            description: Some("Add two numbers.".into()),
            input_schema: schema.into(),
            ..Default::default()
        };
        Ok(Response::new(ListToolsResponse { tools: vec![add], ..Default::default() }))
    }

    async fn call_tool(
        &self,
        request: Request<CallToolRequest>,
    ) -> Result<Response<BoxStream<CallToolResponse>>, Status> {
        let request = request.into_inner();
        if request.name != "add" {
            return Err(Status::not_found(format!("there is no tool '{}'", request.name)));
        }
        // The bridge has validated them against the schema.
        let arguments: serde_json::Value =
            serde_json::from_slice(&request.arguments).map_err(|e| Status::invalid_argument(e.to_string()))?;
        let too_large = |name: &str| Status::invalid_argument(format!("{name} is too large"));
        let number = |name: &str| arguments[name].as_i64().ok_or_else(|| too_large(name));
        let sum = i128::from(number("a")?) + i128::from(number("b")?);
        let text = TextContent { text: sum.to_string(), ..Default::default() };
        let content = vec![ContentBlock { block: Some(content_block::Block::Text(text)) }];
        let result = CallToolResult { content, ..Default::default() };
        let event = call_tool_response::Event::Result(result);
        Ok(Response::new(Box::pin(tokio_stream::once(Ok(CallToolResponse { event: Some(event) })))))
    }
}

/// The bridge stops the backend with Shutdown.
struct Controller(tokio::sync::watch::Sender<bool>);

#[tonic::async_trait]
impl plugin::grpc_controller_server::GrpcController for Controller {
    async fn shutdown(&self, _: Request<plugin::Empty>) -> Result<Response<plugin::Empty>, Status> {
        self.0.send_replace(true);
        Ok(Response::new(plugin::Empty {}))
    }
}

fn quit(why: &str) -> ! {
    eprintln!("{why}");
    exit(1)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    if env::var("MCPBRIDGE_PLUGIN").as_deref() != Ok("mcpbridge.v1") {
        quit("this is a backend for mcpbridge; run: mcpbridge run -- plain-rust");
    }
    if !env::var("PLUGIN_PROTOCOL_VERSIONS").unwrap_or_default().split(',').any(|v| v == "1") {
        quit("the host does not support version 1 of the plugin protocol");
    }
    let _interrupts = signal(SignalKind::interrupt())?; // Ignored: the terminal sends it to the bridge, too.
    let (stop, mut stopping) = tokio::sync::watch::channel(false);
    let mut terminate = signal(SignalKind::terminate())?;
    let stopper = stop.clone();
    tokio::spawn(async move { terminate.recv().await.map(|()| stopper.send_replace(true)) });
    std::thread::spawn(|| {
        let _ = std::io::stdin().read_to_end(&mut Vec::new()); // It ends when the bridge does.
        exit(0)
    });

    let (health, health_service) = tonic_health::server::health_reporter();
    health.set_service_status("plugin", tonic_health::ServingStatus::Serving).await;
    let mut server = Server::builder();
    let mut certificate = String::new();
    if let Ok(client) = env::var("PLUGIN_CLIENT_CERT") {
        let Ok(file) = env::var("MCPBRIDGE_KEY_PAIR") else { quit("this backend needs the key pair of mcpbridge") };
        let pem = std::fs::read_to_string(file)?;
        let begin = pem.find("-----BEGIN CERTIFICATE-----").ok_or("the key pair has no certificate")?;
        let (key, own) = pem.split_at(begin);
        let body: String = own.lines().filter(|line| !line.starts_with('-')).collect();
        certificate = body.trim_end_matches('=').to_string();
        let tls = ServerTlsConfig::new().identity(Identity::from_pem(own, key));
        server = server.tls_config(tls.client_ca_root(Certificate::from_pem(client)))?;
    }
    let mcp = mcp_service_server::McpServiceServer::new(Backend).max_decoding_message_size(MAX_MESSAGE);
    let controller = plugin::grpc_controller_server::GrpcControllerServer::new(Controller(stop));
    let router = server.add_service(mcp).add_service(health_service).add_service(controller);

    let mut stopped = stopping.clone();
    let until = async move { drop(stopped.wait_for(|stop| *stop).await) };
    let multiplex = if env::var("PLUGIN_MULTIPLEX_GRPC").unwrap_or_default().is_empty() { "" } else { "|false" };
    let write_handshake =
        |network: &str, address: &str| println!("1|1|{network}|{address}|grpc|{certificate}{multiplex}");
    let unix = env::var("PLUGIN_TRANSPORTS").unwrap_or_default().contains("unix");
    let serving: Pin<Box<dyn Future<Output = _>>> = if unix {
        let path = Path::new(&env::var("PLUGIN_UNIX_SOCKET_DIR")?).join(format!("{}.sock", std::process::id()));
        let listener = UnixListener::bind(&path)?;
        write_handshake("unix", &path.display().to_string());
        Box::pin(async move {
            let served = router.serve_with_incoming_shutdown(UnixListenerStream::new(listener), until).await;
            std::fs::remove_file(path).and(served.map_err(std::io::Error::other))
        })
    } else {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        write_handshake("tcp", &listener.local_addr()?.to_string());
        Box::pin(async move {
            let served = router.serve_with_incoming_shutdown(TcpListenerStream::new(listener), until).await;
            served.map_err(std::io::Error::other)
        })
    };
    // Calls in flight have 5 seconds to complete.
    let stop_requested = async { drop(stopping.wait_for(|stop| *stop).await) };
    tokio::select! {
        served = serving => served?,
        () = async { stop_requested.await; tokio::time::sleep(Duration::from_secs(5)).await } => (),
    }
    Ok(())
}
