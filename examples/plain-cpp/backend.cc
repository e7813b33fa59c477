// A backend without an SDK: gRPC and the generated stubs. The bridge starts it.
#include <grpcpp/ext/health_check_service_server_builder_option.h>
#include <grpcpp/grpcpp.h>
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <limits>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <thread>

#include "mcpbridge/v1/service.grpc.pb.h"
#include "plugin/grpc_controller.grpc.pb.h"

using namespace mcpbridge::v1;
using grpc::ServerContext;
using grpc::Status;
using grpc::StatusCode;

class Backend final : public McpService::Service {  // Other methods are UNIMPLEMENTED.
  Status Discover(ServerContext*, const DiscoverRequest*, DiscoverResponse* out) override {
    out->mutable_server_info()->set_name("plain");
    out->mutable_server_info()->set_version("1");
    out->mutable_capabilities()->mutable_tools();
    out->set_contract_version(2);
    return Status::OK;
  }

  Status ListTools(ServerContext*, const ListToolsRequest* request, ListToolsResponse* out) override {
    if (request->has_cursor()) return Status(StatusCode::INVALID_ARGUMENT, "there is one page only");
    Tool* add = out->add_tools();
    add->set_name("add");
    add->set_description("Add two numbers.");
    add->set_input_schema(
        R"({"type":"object","properties":{"a":{"type":"integer"},"b":{"type":"integer"}},"required":["a","b"]})");
    return Status::OK;
  }

  Status CallTool(ServerContext*, const CallToolRequest* request, grpc::ServerWriter<CallToolResponse>* out) override {
    if (request->name() != "add") return Status(StatusCode::NOT_FOUND, "there is no tool '" + request->name() + "'");
    // The bridge has validated them against the schema.
    auto arguments = nlohmann::json::parse(request->arguments(), nullptr, false);
    if (!arguments.is_object() || !arguments["a"].is_number_integer() || !arguments["b"].is_number_integer())
      return Status(StatusCode::INVALID_ARGUMENT, "a and b are integers");
    long long sum;
    if (__builtin_add_overflow(arguments["a"].get<long long>(), arguments["b"].get<long long>(), &sum))
      return Status(StatusCode::OUT_OF_RANGE, "the sum is too large");
    CallToolResponse event;
    event.mutable_result()->add_content()->mutable_text()->set_text(std::to_string(sum));
    out->Write(event);
    return Status::OK;
  }
};

class Controller final : public plugin::GRPCController::Service {
  Status Shutdown(ServerContext*, const plugin::Empty*, plugin::Empty*) override {
    kill(getpid(), SIGTERM);  // The same as for another sender of SIGTERM.
    return Status::OK;
  }
};

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

[[noreturn]] void quit(const std::string& why) {
  std::cerr << why << std::endl;
  std::exit(1);
}

int main() {
  if (variable("MCPBRIDGE_PLUGIN") != "mcpbridge.v1")
    quit("this is a backend for mcpbridge; run: mcpbridge run -- ./backend");
  if (("," + variable("PLUGIN_PROTOCOL_VERSIONS") + ",").find(",1,") == std::string::npos)
    quit("the host does not support version 1 of the plugin protocol");
  signal(SIGINT, SIG_IGN);  // The terminal sends it to the bridge, too.
  sigset_t terminate;       // Blocked before there are threads, so that the main one can wait for it.
  sigemptyset(&terminate);
  sigaddset(&terminate, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &terminate, nullptr);

  auto credentials = grpc::InsecureServerCredentials();
  std::string certificate;
  if (std::string client = variable("PLUGIN_CLIENT_CERT"); !client.empty()) {
    std::string file = variable("MCPBRIDGE_KEY_PAIR");
    if (file.empty()) quit("this backend needs the key pair of mcpbridge");
    std::stringstream pem;
    pem << std::ifstream(file).rdbuf();
    std::string own = pem.str();
    own.erase(0, own.find("-----BEGIN CERTIFICATE-----"));
    grpc::SslServerCredentialsOptions tls(GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY);
    tls.pem_root_certs = client;
    tls.pem_key_cert_pairs.push_back({pem.str(), own});
    credentials = grpc::SslServerCredentials(tls);
    std::stringstream lines(own);
    for (std::string line; std::getline(lines, line);)
      if (line[0] != '-') certificate += line;
    certificate.erase(certificate.find_last_not_of('=') + 1);
  }

  Backend backend;
  Controller controller;
  grpc::EnableDefaultHealthCheckService(true);
  grpc::ServerBuilder builder;
  bool socket = variable("PLUGIN_TRANSPORTS").find("unix") != std::string::npos;
  std::string address = variable("PLUGIN_UNIX_SOCKET_DIR") + "/" + std::to_string(getpid()) + ".sock";
  int port = 0;
  builder.AddListeningPort(socket ? "unix:" + address : "127.0.0.1:0", credentials, &port);
  builder.RegisterService(&backend).RegisterService(&controller).SetMaxReceiveMessageSize(64 << 20);
  std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  if (!server) quit("cannot listen");
  server->GetHealthCheckService()->SetServingStatus("plugin", true);
  if (!socket) address = "127.0.0.1:" + std::to_string(port);
  std::cout << "1|1|" << (socket ? "unix" : "tcp") << "|" << address << "|grpc|" << certificate
            << (variable("PLUGIN_MULTIPLEX_GRPC").empty() ? "" : "|false") << std::endl;
  std::thread([] {
    std::cin.ignore(std::numeric_limits<std::streamsize>::max());  // It ends when the bridge does.
    _exit(0);
  }).detach();

  int sent;
  sigwait(&terminate, &sent);
  // Calls may finish. It removes the socket.
  server->Shutdown(std::chrono::system_clock::now() + std::chrono::seconds(5));
  std::cout.flush();
  _exit(0);  // The thread that reads standard input goes on.
}
