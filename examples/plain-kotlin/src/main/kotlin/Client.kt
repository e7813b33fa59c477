// A client without an SDK: lists the tools of any MCP server behind the bridge, and calls one.
//
//     java -cp plain-kotlin.jar Client 127.0.0.1:7070 add '{"a":2,"b":40}'
import com.google.protobuf.ByteString
import com.google.rpc.ErrorInfo
import dev.mcpbridge.v1.*
import io.grpc.StatusException
import io.grpc.netty.NettyChannelBuilder
import io.grpc.protobuf.StatusProto
import kotlin.system.exitProcess
import kotlinx.coroutines.runBlocking

object Client {
  @JvmStatic
  fun main(args: Array<String>): Unit = runBlocking {
    if (args.size != 3) {
      System.err.println("usage: Client HOST:PORT TOOL ARGUMENTS")
      exitProcess(2)
    }
    val (address, tool, arguments) = args
    val channel = NettyChannelBuilder.forTarget(address).usePlaintext().maxInboundMessageSize(64 shl 20).build()
    val mcp = McpServiceGrpcKt.McpServiceCoroutineStub(channel)
    val info = Implementation.newBuilder().setName("plain-kotlin").setVersion("1")
    val caller = CallContext.newBuilder().setClientInfo(info).setProgressWanted(true).build()
    try {
      val list = ListToolsRequest.newBuilder().setContext(caller)
      do {
        val page = mcp.listTools(list.build())
        page.toolsList.forEach { println("tool ${it.name}") }
        list.cursor = page.nextCursor
      } while (page.hasNextCursor())

      val json = ByteString.copyFromUtf8(arguments)
      val call = CallToolRequest.newBuilder().setContext(caller).setName(tool).setArguments(json)
      mcp.callTool(call.build()).collect { event ->
        if (event.hasProgress()) println("progress ${event.progress.progress} of ${event.progress.total}")
        event.result.contentList.forEach { println(it.text.text) }
      }
    } catch (e: StatusException) {
      println("error ${e.status.code}: ${e.status.description}")
      // The details of the status contain the reason, and whether the call was executed.
      StatusProto.fromThrowable(e)?.detailsList?.filter { it.`is`(ErrorInfo::class.java) }?.forEach {
        val info = it.unpack(ErrorInfo::class.java)
        println("  ${info.reason} ${info.metadataMap["outcome"]}")
      }
    }
    channel.shutdownNow()
  }
}
