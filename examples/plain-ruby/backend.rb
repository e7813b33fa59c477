# A backend without an SDK: grpc and the generated stubs. The bridge starts it.

$LOAD_PATH.unshift("#{__dir__}/gen")
require "grpc"
require "grpc/health/checker"
require "json"
require "mcpbridge/v1/service_services_pb"
require "plugin/grpc_controller_services_pb"

include McpBridge::V1

class Backend < McpService::Service # Other methods are UNIMPLEMENTED.
  SCHEMA = { type: "object", properties: { a: { type: "integer" }, b: { type: "integer" } }, required: %w[a b] }.to_json

  def discover(_request, _call)
    info = Implementation.new(name: "plain", version: "1")
    tools = ServerCapabilities.new(tools: ToolsCapability.new)
    DiscoverResponse.new(server_info: info, capabilities: tools, contract_version: 2)
  end

  def list_tools(request, _call)
    raise GRPC::InvalidArgument, "there is one page only" if request.has_cursor?

    ListToolsResponse.new(tools: [Tool.new(name: "add", description: "Add two numbers.", input_schema: SCHEMA)])
  end

  def call_tool(request, _call)
    raise GRPC::NotFound, "there is no tool '#{request.name}'" unless request.name == "add"

    arguments = JSON.parse(request.arguments) # The bridge has validated them against the schema.
    text = TextContent.new(text: (arguments["a"] + arguments["b"]).to_s)
    [CallToolResponse.new(result: CallToolResult.new(content: [ContentBlock.new(text: text)]))]
  end
end

class Controller < Plugin::GRPCController::Service
  def shutdown(_request, _call)
    Process.kill(:TERM, Process.pid) # The same as for another sender of SIGTERM.
    Plugin::Empty.new
  end
end

unless ENV["MCPBRIDGE_PLUGIN"] == "mcpbridge.v1"
  abort "this is a backend for mcpbridge; run: mcpbridge run -- ruby backend.rb"
end
unless ENV["PLUGIN_PROTOCOL_VERSIONS"].split(",").include?("1")
  abort "the host does not support version 1 of the plugin protocol"
end
trap(:INT, "IGNORE") # The terminal sends it to the bridge, too.

credentials = :this_port_is_insecure
certificate = ""
if (client = ENV["PLUGIN_CLIENT_CERT"])
  pem = File.read(ENV["MCPBRIDGE_KEY_PAIR"] || abort("this backend needs the key pair of mcpbridge"))
  own = pem[pem.index("-----BEGIN CERTIFICATE-----")..]
  credentials = GRPC::Core::ServerCredentials.new(client, [{ private_key: pem, cert_chain: own }], true)
  certificate = own.lines.grep_v(/^-/).map(&:chomp).join.delete("=")
end

health = Grpc::Health::Checker.new
health.set_status_for_services(Grpc::Health::V1::HealthCheckResponse::ServingStatus::SERVING, "", "plugin")
limit = { "grpc.max_receive_message_length" => 64 << 20 }
server = GRPC::RpcServer.new(pool_size: 32, poll_period: 0.1, server_args: limit)
[Backend, Controller, health].each { |service| server.handle(service) }
unix = ENV["PLUGIN_TRANSPORTS"].include?("unix")
path = "#{ENV['PLUGIN_UNIX_SOCKET_DIR']}/#{Process.pid}.sock"
port = server.add_http2_port(unix ? "unix:#{path}" : "127.0.0.1:0", credentials)

Thread.new do
  $stdin.read # It ends when the bridge does.
  exit!(0)
end
Thread.new do
  server.wait_till_running
  address = unix ? "unix|#{path}" : "tcp|127.0.0.1:#{port}"
  $stdout.write("1|1|#{address}|grpc|#{certificate}#{'|false' if ENV['PLUGIN_MULTIPLEX_GRPC'].to_s != ''}\n")
  $stdout.flush
end
server.run_till_terminated_or_interrupted(["TERM"])
File.delete(path) if File.exist?(path)
exit!(0)
