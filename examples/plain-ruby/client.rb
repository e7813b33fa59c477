# A client without an SDK: lists the tools of any MCP server behind the bridge, and calls one.
#
#     ruby client.rb unix:///tmp/mcp.sock add '{"a":2,"b":40}'

$LOAD_PATH.unshift("#{__dir__}/gen")
require "grpc"
require "google/rpc/error_details_pb"
require "google/rpc/status_pb"
require "mcpbridge/v1/service_services_pb"

include McpBridge::V1

address, tool, arguments = ARGV
abort "usage: client.rb ADDRESS TOOL ARGUMENTS" unless arguments
limit = { "grpc.max_receive_message_length" => 64 << 20 }
mcp = McpService::Stub.new(address, :this_channel_is_insecure, channel_args: limit)
info = Implementation.new(name: "plain-ruby", version: "1")
caller_context = CallContext.new(client_info: info, progress_wanted: true)

begin
  request = ListToolsRequest.new(context: caller_context)
  loop do
    page = mcp.list_tools(request)
    page.tools.each { |t| puts "tool #{t.name}" }
    break unless page.has_next_cursor?

    request.cursor = page.next_cursor
  end
  mcp.call_tool(CallToolRequest.new(context: caller_context, name: tool, arguments: arguments)).each do |event|
    case event.event
    when :progress then puts "progress #{event.progress.progress} of #{event.progress.total}"
    when :result then event.result.content.each { |block| puts block.text&.text }
    end
  end
rescue GRPC::BadStatus => e
  puts "error #{e.code}: #{e.details}"
  # The details have the reason of the bridge, and whether the call was executed.
  details = Google::Rpc::Status.decode(e.metadata["grpc-status-details-bin"] || "").details
  details.select { |any| any.is(Google::Rpc::ErrorInfo) }.each do |any|
    info = any.unpack(Google::Rpc::ErrorInfo)
    puts "  #{info.reason} #{info.metadata["outcome"]}"
  end
end
