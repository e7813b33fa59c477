//! A client without an SDK: lists the tools of any MCP server behind the bridge, and calls one.
//!
//!     client unix:///tmp/mcp.sock add '{"a":2,"b":40}'

use plain_rust::rpc::{ErrorInfo, Status};
use plain_rust::v1::{call_tool_response::Event, content_block::Block, *};
use prost::Message;
use tonic::transport::Endpoint;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [address, tool, json] = &arguments[..] else { return Err("usage: client ADDRESS TOOL ARGUMENTS".into()) };
    let channel = Endpoint::from_shared(address.clone())?.connect().await?;
    let mut mcp = mcp_service_client::McpServiceClient::new(channel).max_decoding_message_size(64 << 20);
    let context = CallContext {
        client_info: Some(Implementation { name: "plain-rust".into(), version: "1".into(), ..Default::default() }),
        progress_wanted: true,
        ..Default::default()
    };

    let mut cursor = None;
    loop {
        let request = ListToolsRequest { context: Some(context.clone()), cursor, ..Default::default() };
        let page = mcp.list_tools(request).await?.into_inner();
        page.tools.iter().for_each(|tool| println!("tool {}", tool.name));
        cursor = page.next_cursor;
        if cursor.is_none() {
            break;
        }
    }

    let request = CallToolRequest {
        context: Some(context),
        name: tool.clone(),
        arguments: json.clone().into_bytes(),
        ..Default::default()
    };
    let called = async {
        let mut events = mcp.call_tool(request).await?.into_inner();
        while let Some(event) = events.message().await? {
            match event.event {
                Some(Event::Progress(p)) => println!("progress {} of {}", p.progress, p.total()),
                Some(Event::Result(result)) => {
                    for block in result.content {
                        if let Some(Block::Text(text)) = block.block {
                            println!("{}", text.text);
                        }
                    }
                }
                _ => println!("ignored an input request or a log message"),
            }
        }
        Ok::<(), tonic::Status>(())
    };
    if let Err(status) = called.await {
        println!("error {:?}: {}", status.code(), status.message());
        // The details have the reason of the bridge, and whether the call was executed.
        for any in Status::decode(status.details())?.details {
            if any.type_url.ends_with("/google.rpc.ErrorInfo") {
                let info = ErrorInfo::decode(&*any.value)?;
                println!("  {} {}", info.reason, info.metadata.get("outcome").map_or("", |outcome| outcome.as_str()));
            }
        }
    }
    Ok(())
}
