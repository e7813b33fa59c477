// A client without an SDK: lists the tools of any MCP server behind the bridge, and calls one.
//
//     ./client unix:///tmp/mcp.sock add '{"a":2,"b":40}'
#include <grpcpp/grpcpp.h>

#include <iostream>

#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"
#include "mcpbridge/v1/service.grpc.pb.h"

using namespace mcpbridge::v1;

int explain(const grpc::Status& status) {
  std::cout << "error " << status.error_code() << ": " << status.error_message() << "\n";
  google::rpc::Status details;  // The reason of the bridge, and whether the call was executed.
  details.ParseFromString(status.error_details());
  google::rpc::ErrorInfo info;
  for (const auto& any : details.details())
    if (any.UnpackTo(&info)) std::cout << "  " << info.reason() << " " << (*info.mutable_metadata())["outcome"] << "\n";
  return 0;
}

int main(int argc, char** argv) {
  if (argc != 4) {
    std::cerr << "usage: client ADDRESS TOOL ARGUMENTS" << std::endl;
    return 2;
  }
  grpc::ChannelArguments options;
  options.SetMaxReceiveMessageSize(64 << 20);
  auto mcp = McpService::NewStub(grpc::CreateCustomChannel(argv[1], grpc::InsecureChannelCredentials(), options));
  CallContext caller;
  caller.mutable_client_info()->set_name("plain-cpp");
  caller.mutable_client_info()->set_version("1");
  caller.set_progress_wanted(true);

  ListToolsRequest list;
  *list.mutable_context() = caller;
  for (bool more = true; more;) {
    grpc::ClientContext context;
    ListToolsResponse page;
    if (grpc::Status status = mcp->ListTools(&context, list, &page); !status.ok()) return explain(status);
    for (const Tool& tool : page.tools()) std::cout << "tool " << tool.name() << "\n";
    more = page.has_next_cursor();
    list.set_cursor(page.next_cursor());
  }

  CallToolRequest call;
  *call.mutable_context() = caller;
  call.set_name(argv[2]);
  call.set_arguments(argv[3]);
  grpc::ClientContext context;
  auto events = mcp->CallTool(&context, call);
  for (CallToolResponse event; events->Read(&event);) {
    if (const Progress& p = event.progress(); event.has_progress())
      std::cout << "progress " << p.progress() << " of " << p.total() << "\n";
    for (const ContentBlock& block : event.result().content()) std::cout << block.text().text() << "\n";
  }
  if (grpc::Status status = events->Finish(); !status.ok()) return explain(status);
}
