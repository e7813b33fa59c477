// A backend without an SDK: gRPC and the generated stubs. The bridge starts it.
import dev.mcpbridge.v1.*
import io.grpc.Status
import io.grpc.health.v1.HealthCheckResponse.ServingStatus
import io.grpc.netty.GrpcSslContexts
import io.grpc.netty.NettyServerBuilder
import io.grpc.protobuf.services.HealthStatusManager
import io.netty.handler.ssl.ClientAuth
import java.io.File
import java.net.InetSocketAddress
import java.util.concurrent.TimeUnit
import kotlin.concurrent.thread
import kotlin.system.exitProcess
import kotlinx.coroutines.flow.Flow
import kotlinx.coroutines.flow.flow
import plugin.Empty
import plugin.GRPCControllerGrpcKt
import sun.misc.Signal
import tools.jackson.databind.json.JsonMapper

class Backend : McpServiceGrpcKt.McpServiceCoroutineImplBase() { // Other methods are UNIMPLEMENTED.
  override suspend fun discover(request: DiscoverRequest): DiscoverResponse {
    val info = Implementation.newBuilder().setName("plain").setVersion("1")
    val has = ServerCapabilities.newBuilder().setTools(ToolsCapability.getDefaultInstance())
    return DiscoverResponse.newBuilder().setContractVersion(2).setServerInfo(info).setCapabilities(has).build()
  }

  override suspend fun listTools(request: ListToolsRequest): ListToolsResponse {
    if (request.hasCursor()) throw Status.INVALID_ARGUMENT.withDescription("there is one page only").asException()
    val integer = """{"type":"integer"}"""
    val schema = """{"type":"object","properties":{"a":$integer,"b":$integer},"required":["a","b"]}"""
    val add = Tool.newBuilder().setName("add").setDescription("Add two numbers.").setInputSchema(schema)
    return ListToolsResponse.newBuilder().addTools(add).build()
  }

  override fun callTool(request: CallToolRequest): Flow<CallToolResponse> = flow {
    if (request.name != "add")
      throw Status.NOT_FOUND.withDescription("there is no tool '${request.name}'").asException()
    // The bridge has validated them against the schema.
    val arguments = JsonMapper.shared().readTree(request.arguments.toByteArray())
    val sum = arguments["a"].bigIntegerValue() + arguments["b"].bigIntegerValue()
    val text = ContentBlock.newBuilder().setText(TextContent.newBuilder().setText(sum.toString()))
    emit(CallToolResponse.newBuilder().setResult(CallToolResult.newBuilder().addContent(text)).build())
  }
}

/** The bridge stops the backend with Shutdown: it responds, and exits as at SIGTERM. */
class Controller : GRPCControllerGrpcKt.GRPCControllerCoroutineImplBase() {
  override suspend fun shutdown(request: Empty): Empty {
    thread { exitProcess(0) }
    return Empty.getDefaultInstance()
  }
}

fun quit(why: String): Nothing {
  System.err.println(why)
  exitProcess(1)
}

fun main() {
  val env = System.getenv()
  if (env["MCPBRIDGE_PLUGIN"] != "mcpbridge.v1")
    quit("this is a backend for mcpbridge; run: mcpbridge run -- java -jar plain-kotlin.jar")
  if ("1" !in env["PLUGIN_PROTOCOL_VERSIONS"].orEmpty().split(","))
    quit("the host does not support version 1 of the plugin protocol")
  Signal.handle(Signal("INT")) {} // The terminal sends it to the bridge, too.

  val builder = NettyServerBuilder.forAddress(InetSocketAddress("127.0.0.1", 0)).maxInboundMessageSize(64 shl 20)
  var certificate = ""
  env["PLUGIN_CLIENT_CERT"]?.let { client ->
    val file = File(env["MCPBRIDGE_KEY_PAIR"] ?: quit("this backend needs the key pair of mcpbridge"))
    val tls = GrpcSslContexts.forServer(file, file).trustManager(client.byteInputStream())
    builder.sslContext(tls.clientAuth(ClientAuth.REQUIRE).build())
    val own = file.readText().substringAfter("-----BEGIN CERTIFICATE-----").substringBefore("-----END")
    certificate = own.replace("\n", "").trimEnd('=')
  }
  val health = HealthStatusManager()
  health.setStatus("plugin", ServingStatus.SERVING)
  val server = builder.addService(Backend()).addService(Controller()).addService(health.healthService).build().start()
  Runtime.getRuntime().addShutdownHook(thread(start = false) { // At SIGTERM, too.
    server.shutdown().awaitTermination(5, TimeUnit.SECONDS)
    Runtime.getRuntime().halt(0)
  })
  val multiplex = if (env["PLUGIN_MULTIPLEX_GRPC"].isNullOrEmpty()) "" else "|false"
  println("1|1|tcp|127.0.0.1:${server.port}|grpc|$certificate$multiplex")
  System.`in`.readAllBytes() // It ends when the bridge does.
  Runtime.getRuntime().halt(0)
}
