package dev.mcpbridge.v1;

import static io.grpc.MethodDescriptor.generateFullMethodName;

/**
 * <pre>
 * McpService is an MCP server, or the client side of one: a backend implements it for the bridge to serve, and the bridge
 * serves it to gRPC clients on top of any MCP server. Every call is complete in itself; all of them may come concurrently.
 * Errors are gRPC statuses: NOT_FOUND for what does not exist, INVALID_ARGUMENT for what cannot be meant, UNIMPLEMENTED for
 * what the server does not have; any other text is kept from MCP clients unless a JsonRpcError is among the details.
 * </pre>
 */
@io.grpc.stub.annotations.GrpcGenerated
public final class McpServiceGrpc {

  private McpServiceGrpc() {}

  public static final java.lang.String SERVICE_NAME = "mcpbridge.v1.McpService";

  // Static method descriptors that strictly reflect the proto.
  private static volatile io.grpc.MethodDescriptor<dev.mcpbridge.v1.DiscoverRequest,
      dev.mcpbridge.v1.DiscoverResponse> getDiscoverMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "Discover",
      requestType = dev.mcpbridge.v1.DiscoverRequest.class,
      responseType = dev.mcpbridge.v1.DiscoverResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<dev.mcpbridge.v1.DiscoverRequest,
      dev.mcpbridge.v1.DiscoverResponse> getDiscoverMethod() {
    io.grpc.MethodDescriptor<dev.mcpbridge.v1.DiscoverRequest, dev.mcpbridge.v1.DiscoverResponse> getDiscoverMethod;
    if ((getDiscoverMethod = McpServiceGrpc.getDiscoverMethod) == null) {
      synchronized (McpServiceGrpc.class) {
        if ((getDiscoverMethod = McpServiceGrpc.getDiscoverMethod) == null) {
          McpServiceGrpc.getDiscoverMethod = getDiscoverMethod =
              io.grpc.MethodDescriptor.<dev.mcpbridge.v1.DiscoverRequest, dev.mcpbridge.v1.DiscoverResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "Discover"))
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.mcpbridge.v1.DiscoverRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.mcpbridge.v1.DiscoverResponse.getDefaultInstance()))
              .setSchemaDescriptor(new McpServiceMethodDescriptorSupplier("Discover"))
              .build();
        }
      }
    }
    return getDiscoverMethod;
  }

  private static volatile io.grpc.MethodDescriptor<dev.mcpbridge.v1.ListToolsRequest,
      dev.mcpbridge.v1.ListToolsResponse> getListToolsMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "ListTools",
      requestType = dev.mcpbridge.v1.ListToolsRequest.class,
      responseType = dev.mcpbridge.v1.ListToolsResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<dev.mcpbridge.v1.ListToolsRequest,
      dev.mcpbridge.v1.ListToolsResponse> getListToolsMethod() {
    io.grpc.MethodDescriptor<dev.mcpbridge.v1.ListToolsRequest, dev.mcpbridge.v1.ListToolsResponse> getListToolsMethod;
    if ((getListToolsMethod = McpServiceGrpc.getListToolsMethod) == null) {
      synchronized (McpServiceGrpc.class) {
        if ((getListToolsMethod = McpServiceGrpc.getListToolsMethod) == null) {
          McpServiceGrpc.getListToolsMethod = getListToolsMethod =
              io.grpc.MethodDescriptor.<dev.mcpbridge.v1.ListToolsRequest, dev.mcpbridge.v1.ListToolsResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "ListTools"))
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.mcpbridge.v1.ListToolsRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.mcpbridge.v1.ListToolsResponse.getDefaultInstance()))
              .setSchemaDescriptor(new McpServiceMethodDescriptorSupplier("ListTools"))
              .build();
        }
      }
    }
    return getListToolsMethod;
  }

  private static volatile io.grpc.MethodDescriptor<dev.mcpbridge.v1.CallToolRequest,
      dev.mcpbridge.v1.CallToolResponse> getCallToolMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "CallTool",
      requestType = dev.mcpbridge.v1.CallToolRequest.class,
      responseType = dev.mcpbridge.v1.CallToolResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.SERVER_STREAMING)
  public static io.grpc.MethodDescriptor<dev.mcpbridge.v1.CallToolRequest,
      dev.mcpbridge.v1.CallToolResponse> getCallToolMethod() {
    io.grpc.MethodDescriptor<dev.mcpbridge.v1.CallToolRequest, dev.mcpbridge.v1.CallToolResponse> getCallToolMethod;
    if ((getCallToolMethod = McpServiceGrpc.getCallToolMethod) == null) {
      synchronized (McpServiceGrpc.class) {
        if ((getCallToolMethod = McpServiceGrpc.getCallToolMethod) == null) {
          McpServiceGrpc.getCallToolMethod = getCallToolMethod =
              io.grpc.MethodDescriptor.<dev.mcpbridge.v1.CallToolRequest, dev.mcpbridge.v1.CallToolResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.SERVER_STREAMING)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "CallTool"))
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.mcpbridge.v1.CallToolRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.mcpbridge.v1.CallToolResponse.getDefaultInstance()))
              .setSchemaDescriptor(new McpServiceMethodDescriptorSupplier("CallTool"))
              .build();
        }
      }
    }
    return getCallToolMethod;
  }

  private static volatile io.grpc.MethodDescriptor<dev.mcpbridge.v1.ListResourcesRequest,
      dev.mcpbridge.v1.ListResourcesResponse> getListResourcesMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "ListResources",
      requestType = dev.mcpbridge.v1.ListResourcesRequest.class,
      responseType = dev.mcpbridge.v1.ListResourcesResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<dev.mcpbridge.v1.ListResourcesRequest,
      dev.mcpbridge.v1.ListResourcesResponse> getListResourcesMethod() {
    io.grpc.MethodDescriptor<dev.mcpbridge.v1.ListResourcesRequest, dev.mcpbridge.v1.ListResourcesResponse> getListResourcesMethod;
    if ((getListResourcesMethod = McpServiceGrpc.getListResourcesMethod) == null) {
      synchronized (McpServiceGrpc.class) {
        if ((getListResourcesMethod = McpServiceGrpc.getListResourcesMethod) == null) {
          McpServiceGrpc.getListResourcesMethod = getListResourcesMethod =
              io.grpc.MethodDescriptor.<dev.mcpbridge.v1.ListResourcesRequest, dev.mcpbridge.v1.ListResourcesResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "ListResources"))
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.mcpbridge.v1.ListResourcesRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.mcpbridge.v1.ListResourcesResponse.getDefaultInstance()))
              .setSchemaDescriptor(new McpServiceMethodDescriptorSupplier("ListResources"))
              .build();
        }
      }
    }
    return getListResourcesMethod;
  }

  private static volatile io.grpc.MethodDescriptor<dev.mcpbridge.v1.ListResourceTemplatesRequest,
      dev.mcpbridge.v1.ListResourceTemplatesResponse> getListResourceTemplatesMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "ListResourceTemplates",
      requestType = dev.mcpbridge.v1.ListResourceTemplatesRequest.class,
      responseType = dev.mcpbridge.v1.ListResourceTemplatesResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<dev.mcpbridge.v1.ListResourceTemplatesRequest,
      dev.mcpbridge.v1.ListResourceTemplatesResponse> getListResourceTemplatesMethod() {
    io.grpc.MethodDescriptor<dev.mcpbridge.v1.ListResourceTemplatesRequest, dev.mcpbridge.v1.ListResourceTemplatesResponse> getListResourceTemplatesMethod;
    if ((getListResourceTemplatesMethod = McpServiceGrpc.getListResourceTemplatesMethod) == null) {
      synchronized (McpServiceGrpc.class) {
        if ((getListResourceTemplatesMethod = McpServiceGrpc.getListResourceTemplatesMethod) == null) {
          McpServiceGrpc.getListResourceTemplatesMethod = getListResourceTemplatesMethod =
              io.grpc.MethodDescriptor.<dev.mcpbridge.v1.ListResourceTemplatesRequest, dev.mcpbridge.v1.ListResourceTemplatesResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "ListResourceTemplates"))
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.mcpbridge.v1.ListResourceTemplatesRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.mcpbridge.v1.ListResourceTemplatesResponse.getDefaultInstance()))
              .setSchemaDescriptor(new McpServiceMethodDescriptorSupplier("ListResourceTemplates"))
              .build();
        }
      }
    }
    return getListResourceTemplatesMethod;
  }

  private static volatile io.grpc.MethodDescriptor<dev.mcpbridge.v1.ReadResourceRequest,
      dev.mcpbridge.v1.ReadResourceResponse> getReadResourceMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "ReadResource",
      requestType = dev.mcpbridge.v1.ReadResourceRequest.class,
      responseType = dev.mcpbridge.v1.ReadResourceResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.SERVER_STREAMING)
  public static io.grpc.MethodDescriptor<dev.mcpbridge.v1.ReadResourceRequest,
      dev.mcpbridge.v1.ReadResourceResponse> getReadResourceMethod() {
    io.grpc.MethodDescriptor<dev.mcpbridge.v1.ReadResourceRequest, dev.mcpbridge.v1.ReadResourceResponse> getReadResourceMethod;
    if ((getReadResourceMethod = McpServiceGrpc.getReadResourceMethod) == null) {
      synchronized (McpServiceGrpc.class) {
        if ((getReadResourceMethod = McpServiceGrpc.getReadResourceMethod) == null) {
          McpServiceGrpc.getReadResourceMethod = getReadResourceMethod =
              io.grpc.MethodDescriptor.<dev.mcpbridge.v1.ReadResourceRequest, dev.mcpbridge.v1.ReadResourceResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.SERVER_STREAMING)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "ReadResource"))
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.mcpbridge.v1.ReadResourceRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.mcpbridge.v1.ReadResourceResponse.getDefaultInstance()))
              .setSchemaDescriptor(new McpServiceMethodDescriptorSupplier("ReadResource"))
              .build();
        }
      }
    }
    return getReadResourceMethod;
  }

  private static volatile io.grpc.MethodDescriptor<dev.mcpbridge.v1.ListPromptsRequest,
      dev.mcpbridge.v1.ListPromptsResponse> getListPromptsMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "ListPrompts",
      requestType = dev.mcpbridge.v1.ListPromptsRequest.class,
      responseType = dev.mcpbridge.v1.ListPromptsResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<dev.mcpbridge.v1.ListPromptsRequest,
      dev.mcpbridge.v1.ListPromptsResponse> getListPromptsMethod() {
    io.grpc.MethodDescriptor<dev.mcpbridge.v1.ListPromptsRequest, dev.mcpbridge.v1.ListPromptsResponse> getListPromptsMethod;
    if ((getListPromptsMethod = McpServiceGrpc.getListPromptsMethod) == null) {
      synchronized (McpServiceGrpc.class) {
        if ((getListPromptsMethod = McpServiceGrpc.getListPromptsMethod) == null) {
          McpServiceGrpc.getListPromptsMethod = getListPromptsMethod =
              io.grpc.MethodDescriptor.<dev.mcpbridge.v1.ListPromptsRequest, dev.mcpbridge.v1.ListPromptsResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "ListPrompts"))
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.mcpbridge.v1.ListPromptsRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.mcpbridge.v1.ListPromptsResponse.getDefaultInstance()))
              .setSchemaDescriptor(new McpServiceMethodDescriptorSupplier("ListPrompts"))
              .build();
        }
      }
    }
    return getListPromptsMethod;
  }

  private static volatile io.grpc.MethodDescriptor<dev.mcpbridge.v1.GetPromptRequest,
      dev.mcpbridge.v1.GetPromptResponse> getGetPromptMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "GetPrompt",
      requestType = dev.mcpbridge.v1.GetPromptRequest.class,
      responseType = dev.mcpbridge.v1.GetPromptResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.SERVER_STREAMING)
  public static io.grpc.MethodDescriptor<dev.mcpbridge.v1.GetPromptRequest,
      dev.mcpbridge.v1.GetPromptResponse> getGetPromptMethod() {
    io.grpc.MethodDescriptor<dev.mcpbridge.v1.GetPromptRequest, dev.mcpbridge.v1.GetPromptResponse> getGetPromptMethod;
    if ((getGetPromptMethod = McpServiceGrpc.getGetPromptMethod) == null) {
      synchronized (McpServiceGrpc.class) {
        if ((getGetPromptMethod = McpServiceGrpc.getGetPromptMethod) == null) {
          McpServiceGrpc.getGetPromptMethod = getGetPromptMethod =
              io.grpc.MethodDescriptor.<dev.mcpbridge.v1.GetPromptRequest, dev.mcpbridge.v1.GetPromptResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.SERVER_STREAMING)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "GetPrompt"))
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.mcpbridge.v1.GetPromptRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.mcpbridge.v1.GetPromptResponse.getDefaultInstance()))
              .setSchemaDescriptor(new McpServiceMethodDescriptorSupplier("GetPrompt"))
              .build();
        }
      }
    }
    return getGetPromptMethod;
  }

  private static volatile io.grpc.MethodDescriptor<dev.mcpbridge.v1.CompleteRequest,
      dev.mcpbridge.v1.CompleteResponse> getCompleteMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "Complete",
      requestType = dev.mcpbridge.v1.CompleteRequest.class,
      responseType = dev.mcpbridge.v1.CompleteResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<dev.mcpbridge.v1.CompleteRequest,
      dev.mcpbridge.v1.CompleteResponse> getCompleteMethod() {
    io.grpc.MethodDescriptor<dev.mcpbridge.v1.CompleteRequest, dev.mcpbridge.v1.CompleteResponse> getCompleteMethod;
    if ((getCompleteMethod = McpServiceGrpc.getCompleteMethod) == null) {
      synchronized (McpServiceGrpc.class) {
        if ((getCompleteMethod = McpServiceGrpc.getCompleteMethod) == null) {
          McpServiceGrpc.getCompleteMethod = getCompleteMethod =
              io.grpc.MethodDescriptor.<dev.mcpbridge.v1.CompleteRequest, dev.mcpbridge.v1.CompleteResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "Complete"))
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.mcpbridge.v1.CompleteRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.mcpbridge.v1.CompleteResponse.getDefaultInstance()))
              .setSchemaDescriptor(new McpServiceMethodDescriptorSupplier("Complete"))
              .build();
        }
      }
    }
    return getCompleteMethod;
  }

  private static volatile io.grpc.MethodDescriptor<dev.mcpbridge.v1.ListenRequest,
      dev.mcpbridge.v1.ListenResponse> getListenMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "Listen",
      requestType = dev.mcpbridge.v1.ListenRequest.class,
      responseType = dev.mcpbridge.v1.ListenResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.SERVER_STREAMING)
  public static io.grpc.MethodDescriptor<dev.mcpbridge.v1.ListenRequest,
      dev.mcpbridge.v1.ListenResponse> getListenMethod() {
    io.grpc.MethodDescriptor<dev.mcpbridge.v1.ListenRequest, dev.mcpbridge.v1.ListenResponse> getListenMethod;
    if ((getListenMethod = McpServiceGrpc.getListenMethod) == null) {
      synchronized (McpServiceGrpc.class) {
        if ((getListenMethod = McpServiceGrpc.getListenMethod) == null) {
          McpServiceGrpc.getListenMethod = getListenMethod =
              io.grpc.MethodDescriptor.<dev.mcpbridge.v1.ListenRequest, dev.mcpbridge.v1.ListenResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.SERVER_STREAMING)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "Listen"))
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.mcpbridge.v1.ListenRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.mcpbridge.v1.ListenResponse.getDefaultInstance()))
              .setSchemaDescriptor(new McpServiceMethodDescriptorSupplier("Listen"))
              .build();
        }
      }
    }
    return getListenMethod;
  }

  /**
   * Creates a new async stub that supports all call types for the service
   */
  public static McpServiceStub newStub(io.grpc.Channel channel) {
    io.grpc.stub.AbstractStub.StubFactory<McpServiceStub> factory =
      new io.grpc.stub.AbstractStub.StubFactory<McpServiceStub>() {
        @java.lang.Override
        public McpServiceStub newStub(io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
          return new McpServiceStub(channel, callOptions);
        }
      };
    return McpServiceStub.newStub(factory, channel);
  }

  /**
   * Creates a new blocking-style stub that supports all types of calls on the service
   */
  public static McpServiceBlockingV2Stub newBlockingV2Stub(
      io.grpc.Channel channel) {
    io.grpc.stub.AbstractStub.StubFactory<McpServiceBlockingV2Stub> factory =
      new io.grpc.stub.AbstractStub.StubFactory<McpServiceBlockingV2Stub>() {
        @java.lang.Override
        public McpServiceBlockingV2Stub newStub(io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
          return new McpServiceBlockingV2Stub(channel, callOptions);
        }
      };
    return McpServiceBlockingV2Stub.newStub(factory, channel);
  }

  /**
   * Creates a new blocking-style stub that supports unary and streaming output calls on the service
   */
  public static McpServiceBlockingStub newBlockingStub(
      io.grpc.Channel channel) {
    io.grpc.stub.AbstractStub.StubFactory<McpServiceBlockingStub> factory =
      new io.grpc.stub.AbstractStub.StubFactory<McpServiceBlockingStub>() {
        @java.lang.Override
        public McpServiceBlockingStub newStub(io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
          return new McpServiceBlockingStub(channel, callOptions);
        }
      };
    return McpServiceBlockingStub.newStub(factory, channel);
  }

  /**
   * Creates a new ListenableFuture-style stub that supports unary calls on the service
   */
  public static McpServiceFutureStub newFutureStub(
      io.grpc.Channel channel) {
    io.grpc.stub.AbstractStub.StubFactory<McpServiceFutureStub> factory =
      new io.grpc.stub.AbstractStub.StubFactory<McpServiceFutureStub>() {
        @java.lang.Override
        public McpServiceFutureStub newStub(io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
          return new McpServiceFutureStub(channel, callOptions);
        }
      };
    return McpServiceFutureStub.newStub(factory, channel);
  }

  /**
   * <pre>
   * McpService is an MCP server, or the client side of one: a backend implements it for the bridge to serve, and the bridge
   * serves it to gRPC clients on top of any MCP server. Every call is complete in itself; all of them may come concurrently.
   * Errors are gRPC statuses: NOT_FOUND for what does not exist, INVALID_ARGUMENT for what cannot be meant, UNIMPLEMENTED for
   * what the server does not have; any other text is kept from MCP clients unless a JsonRpcError is among the details.
   * </pre>
   */
  public interface AsyncService {

    /**
     * <pre>
     * Discover tells what the server is. MCP `server/discover` and the answer to `initialize`.
     * </pre>
     */
    default void discover(dev.mcpbridge.v1.DiscoverRequest request,
        io.grpc.stub.StreamObserver<dev.mcpbridge.v1.DiscoverResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getDiscoverMethod(), responseObserver);
    }

    /**
     * <pre>
     * ListTools tells a page of the tools. MCP `tools/list`.
     * </pre>
     */
    default void listTools(dev.mcpbridge.v1.ListToolsRequest request,
        io.grpc.stub.StreamObserver<dev.mcpbridge.v1.ListToolsResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getListToolsMethod(), responseObserver);
    }

    /**
     * <pre>
     * CallTool calls a tool. Cancelling it cancels the call. MCP `tools/call`.
     * </pre>
     */
    default void callTool(dev.mcpbridge.v1.CallToolRequest request,
        io.grpc.stub.StreamObserver<dev.mcpbridge.v1.CallToolResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getCallToolMethod(), responseObserver);
    }

    /**
     * <pre>
     * ListResources tells a page of the resources. MCP `resources/list`.
     * </pre>
     */
    default void listResources(dev.mcpbridge.v1.ListResourcesRequest request,
        io.grpc.stub.StreamObserver<dev.mcpbridge.v1.ListResourcesResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getListResourcesMethod(), responseObserver);
    }

    /**
     * <pre>
     * ListResourceTemplates tells a page of the resource templates. MCP `resources/templates/list`.
     * </pre>
     */
    default void listResourceTemplates(dev.mcpbridge.v1.ListResourceTemplatesRequest request,
        io.grpc.stub.StreamObserver<dev.mcpbridge.v1.ListResourceTemplatesResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getListResourceTemplatesMethod(), responseObserver);
    }

    /**
     * <pre>
     * ReadResource reads a resource. MCP `resources/read`.
     * </pre>
     */
    default void readResource(dev.mcpbridge.v1.ReadResourceRequest request,
        io.grpc.stub.StreamObserver<dev.mcpbridge.v1.ReadResourceResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getReadResourceMethod(), responseObserver);
    }

    /**
     * <pre>
     * ListPrompts tells a page of the prompts. MCP `prompts/list`.
     * </pre>
     */
    default void listPrompts(dev.mcpbridge.v1.ListPromptsRequest request,
        io.grpc.stub.StreamObserver<dev.mcpbridge.v1.ListPromptsResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getListPromptsMethod(), responseObserver);
    }

    /**
     * <pre>
     * GetPrompt fills in a prompt. MCP `prompts/get`.
     * </pre>
     */
    default void getPrompt(dev.mcpbridge.v1.GetPromptRequest request,
        io.grpc.stub.StreamObserver<dev.mcpbridge.v1.GetPromptResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getGetPromptMethod(), responseObserver);
    }

    /**
     * <pre>
     * Complete proposes values for an argument. MCP `completion/complete`.
     * </pre>
     */
    default void complete(dev.mcpbridge.v1.CompleteRequest request,
        io.grpc.stub.StreamObserver<dev.mcpbridge.v1.CompleteResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getCompleteMethod(), responseObserver);
    }

    /**
     * <pre>
     * Listen tells what changes, until it is cancelled. MCP `subscriptions/listen`, and for older revisions
     * `resources/subscribe` and the list_changed notifications. The bridge makes one Listen for all its clients.
     * </pre>
     */
    default void listen(dev.mcpbridge.v1.ListenRequest request,
        io.grpc.stub.StreamObserver<dev.mcpbridge.v1.ListenResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getListenMethod(), responseObserver);
    }
  }

  /**
   * Base class for the server implementation of the service McpService.
   * <pre>
   * McpService is an MCP server, or the client side of one: a backend implements it for the bridge to serve, and the bridge
   * serves it to gRPC clients on top of any MCP server. Every call is complete in itself; all of them may come concurrently.
   * Errors are gRPC statuses: NOT_FOUND for what does not exist, INVALID_ARGUMENT for what cannot be meant, UNIMPLEMENTED for
   * what the server does not have; any other text is kept from MCP clients unless a JsonRpcError is among the details.
   * </pre>
   */
  public static abstract class McpServiceImplBase
      implements io.grpc.BindableService, AsyncService {

    @java.lang.Override public final io.grpc.ServerServiceDefinition bindService() {
      return McpServiceGrpc.bindService(this);
    }
  }

  /**
   * A stub to allow clients to do asynchronous rpc calls to service McpService.
   * <pre>
   * McpService is an MCP server, or the client side of one: a backend implements it for the bridge to serve, and the bridge
   * serves it to gRPC clients on top of any MCP server. Every call is complete in itself; all of them may come concurrently.
   * Errors are gRPC statuses: NOT_FOUND for what does not exist, INVALID_ARGUMENT for what cannot be meant, UNIMPLEMENTED for
   * what the server does not have; any other text is kept from MCP clients unless a JsonRpcError is among the details.
   * </pre>
   */
  public static final class McpServiceStub
      extends io.grpc.stub.AbstractAsyncStub<McpServiceStub> {
    private McpServiceStub(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      super(channel, callOptions);
    }

    @java.lang.Override
    protected McpServiceStub build(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      return new McpServiceStub(channel, callOptions);
    }

    /**
     * <pre>
     * Discover tells what the server is. MCP `server/discover` and the answer to `initialize`.
     * </pre>
     */
    public void discover(dev.mcpbridge.v1.DiscoverRequest request,
        io.grpc.stub.StreamObserver<dev.mcpbridge.v1.DiscoverResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getDiscoverMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * ListTools tells a page of the tools. MCP `tools/list`.
     * </pre>
     */
    public void listTools(dev.mcpbridge.v1.ListToolsRequest request,
        io.grpc.stub.StreamObserver<dev.mcpbridge.v1.ListToolsResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getListToolsMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * CallTool calls a tool. Cancelling it cancels the call. MCP `tools/call`.
     * </pre>
     */
    public void callTool(dev.mcpbridge.v1.CallToolRequest request,
        io.grpc.stub.StreamObserver<dev.mcpbridge.v1.CallToolResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncServerStreamingCall(
          getChannel().newCall(getCallToolMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * ListResources tells a page of the resources. MCP `resources/list`.
     * </pre>
     */
    public void listResources(dev.mcpbridge.v1.ListResourcesRequest request,
        io.grpc.stub.StreamObserver<dev.mcpbridge.v1.ListResourcesResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getListResourcesMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * ListResourceTemplates tells a page of the resource templates. MCP `resources/templates/list`.
     * </pre>
     */
    public void listResourceTemplates(dev.mcpbridge.v1.ListResourceTemplatesRequest request,
        io.grpc.stub.StreamObserver<dev.mcpbridge.v1.ListResourceTemplatesResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getListResourceTemplatesMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * ReadResource reads a resource. MCP `resources/read`.
     * </pre>
     */
    public void readResource(dev.mcpbridge.v1.ReadResourceRequest request,
        io.grpc.stub.StreamObserver<dev.mcpbridge.v1.ReadResourceResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncServerStreamingCall(
          getChannel().newCall(getReadResourceMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * ListPrompts tells a page of the prompts. MCP `prompts/list`.
     * </pre>
     */
    public void listPrompts(dev.mcpbridge.v1.ListPromptsRequest request,
        io.grpc.stub.StreamObserver<dev.mcpbridge.v1.ListPromptsResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getListPromptsMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * GetPrompt fills in a prompt. MCP `prompts/get`.
     * </pre>
     */
    public void getPrompt(dev.mcpbridge.v1.GetPromptRequest request,
        io.grpc.stub.StreamObserver<dev.mcpbridge.v1.GetPromptResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncServerStreamingCall(
          getChannel().newCall(getGetPromptMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * Complete proposes values for an argument. MCP `completion/complete`.
     * </pre>
     */
    public void complete(dev.mcpbridge.v1.CompleteRequest request,
        io.grpc.stub.StreamObserver<dev.mcpbridge.v1.CompleteResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getCompleteMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * Listen tells what changes, until it is cancelled. MCP `subscriptions/listen`, and for older revisions
     * `resources/subscribe` and the list_changed notifications. The bridge makes one Listen for all its clients.
     * </pre>
     */
    public void listen(dev.mcpbridge.v1.ListenRequest request,
        io.grpc.stub.StreamObserver<dev.mcpbridge.v1.ListenResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncServerStreamingCall(
          getChannel().newCall(getListenMethod(), getCallOptions()), request, responseObserver);
    }
  }

  /**
   * A stub to allow clients to do synchronous rpc calls to service McpService.
   * <pre>
   * McpService is an MCP server, or the client side of one: a backend implements it for the bridge to serve, and the bridge
   * serves it to gRPC clients on top of any MCP server. Every call is complete in itself; all of them may come concurrently.
   * Errors are gRPC statuses: NOT_FOUND for what does not exist, INVALID_ARGUMENT for what cannot be meant, UNIMPLEMENTED for
   * what the server does not have; any other text is kept from MCP clients unless a JsonRpcError is among the details.
   * </pre>
   */
  public static final class McpServiceBlockingV2Stub
      extends io.grpc.stub.AbstractBlockingStub<McpServiceBlockingV2Stub> {
    private McpServiceBlockingV2Stub(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      super(channel, callOptions);
    }

    @java.lang.Override
    protected McpServiceBlockingV2Stub build(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      return new McpServiceBlockingV2Stub(channel, callOptions);
    }

    /**
     * <pre>
     * Discover tells what the server is. MCP `server/discover` and the answer to `initialize`.
     * </pre>
     */
    public dev.mcpbridge.v1.DiscoverResponse discover(dev.mcpbridge.v1.DiscoverRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getDiscoverMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * ListTools tells a page of the tools. MCP `tools/list`.
     * </pre>
     */
    public dev.mcpbridge.v1.ListToolsResponse listTools(dev.mcpbridge.v1.ListToolsRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getListToolsMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * CallTool calls a tool. Cancelling it cancels the call. MCP `tools/call`.
     * </pre>
     */
    @io.grpc.ExperimentalApi("https://github.com/grpc/grpc-java/issues/10918")
    public io.grpc.stub.BlockingClientCall<?, dev.mcpbridge.v1.CallToolResponse>
        callTool(dev.mcpbridge.v1.CallToolRequest request) {
      return io.grpc.stub.ClientCalls.blockingV2ServerStreamingCall(
          getChannel(), getCallToolMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * ListResources tells a page of the resources. MCP `resources/list`.
     * </pre>
     */
    public dev.mcpbridge.v1.ListResourcesResponse listResources(dev.mcpbridge.v1.ListResourcesRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getListResourcesMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * ListResourceTemplates tells a page of the resource templates. MCP `resources/templates/list`.
     * </pre>
     */
    public dev.mcpbridge.v1.ListResourceTemplatesResponse listResourceTemplates(dev.mcpbridge.v1.ListResourceTemplatesRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getListResourceTemplatesMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * ReadResource reads a resource. MCP `resources/read`.
     * </pre>
     */
    @io.grpc.ExperimentalApi("https://github.com/grpc/grpc-java/issues/10918")
    public io.grpc.stub.BlockingClientCall<?, dev.mcpbridge.v1.ReadResourceResponse>
        readResource(dev.mcpbridge.v1.ReadResourceRequest request) {
      return io.grpc.stub.ClientCalls.blockingV2ServerStreamingCall(
          getChannel(), getReadResourceMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * ListPrompts tells a page of the prompts. MCP `prompts/list`.
     * </pre>
     */
    public dev.mcpbridge.v1.ListPromptsResponse listPrompts(dev.mcpbridge.v1.ListPromptsRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getListPromptsMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * GetPrompt fills in a prompt. MCP `prompts/get`.
     * </pre>
     */
    @io.grpc.ExperimentalApi("https://github.com/grpc/grpc-java/issues/10918")
    public io.grpc.stub.BlockingClientCall<?, dev.mcpbridge.v1.GetPromptResponse>
        getPrompt(dev.mcpbridge.v1.GetPromptRequest request) {
      return io.grpc.stub.ClientCalls.blockingV2ServerStreamingCall(
          getChannel(), getGetPromptMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Complete proposes values for an argument. MCP `completion/complete`.
     * </pre>
     */
    public dev.mcpbridge.v1.CompleteResponse complete(dev.mcpbridge.v1.CompleteRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getCompleteMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Listen tells what changes, until it is cancelled. MCP `subscriptions/listen`, and for older revisions
     * `resources/subscribe` and the list_changed notifications. The bridge makes one Listen for all its clients.
     * </pre>
     */
    @io.grpc.ExperimentalApi("https://github.com/grpc/grpc-java/issues/10918")
    public io.grpc.stub.BlockingClientCall<?, dev.mcpbridge.v1.ListenResponse>
        listen(dev.mcpbridge.v1.ListenRequest request) {
      return io.grpc.stub.ClientCalls.blockingV2ServerStreamingCall(
          getChannel(), getListenMethod(), getCallOptions(), request);
    }
  }

  /**
   * A stub to allow clients to do limited synchronous rpc calls to service McpService.
   * <pre>
   * McpService is an MCP server, or the client side of one: a backend implements it for the bridge to serve, and the bridge
   * serves it to gRPC clients on top of any MCP server. Every call is complete in itself; all of them may come concurrently.
   * Errors are gRPC statuses: NOT_FOUND for what does not exist, INVALID_ARGUMENT for what cannot be meant, UNIMPLEMENTED for
   * what the server does not have; any other text is kept from MCP clients unless a JsonRpcError is among the details.
   * </pre>
   */
  public static final class McpServiceBlockingStub
      extends io.grpc.stub.AbstractBlockingStub<McpServiceBlockingStub> {
    private McpServiceBlockingStub(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      super(channel, callOptions);
    }

    @java.lang.Override
    protected McpServiceBlockingStub build(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      return new McpServiceBlockingStub(channel, callOptions);
    }

    /**
     * <pre>
     * Discover tells what the server is. MCP `server/discover` and the answer to `initialize`.
     * </pre>
     */
    public dev.mcpbridge.v1.DiscoverResponse discover(dev.mcpbridge.v1.DiscoverRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getDiscoverMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * ListTools tells a page of the tools. MCP `tools/list`.
     * </pre>
     */
    public dev.mcpbridge.v1.ListToolsResponse listTools(dev.mcpbridge.v1.ListToolsRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getListToolsMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * CallTool calls a tool. Cancelling it cancels the call. MCP `tools/call`.
     * </pre>
     */
    public java.util.Iterator<dev.mcpbridge.v1.CallToolResponse> callTool(
        dev.mcpbridge.v1.CallToolRequest request) {
      return io.grpc.stub.ClientCalls.blockingServerStreamingCall(
          getChannel(), getCallToolMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * ListResources tells a page of the resources. MCP `resources/list`.
     * </pre>
     */
    public dev.mcpbridge.v1.ListResourcesResponse listResources(dev.mcpbridge.v1.ListResourcesRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getListResourcesMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * ListResourceTemplates tells a page of the resource templates. MCP `resources/templates/list`.
     * </pre>
     */
    public dev.mcpbridge.v1.ListResourceTemplatesResponse listResourceTemplates(dev.mcpbridge.v1.ListResourceTemplatesRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getListResourceTemplatesMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * ReadResource reads a resource. MCP `resources/read`.
     * </pre>
     */
    public java.util.Iterator<dev.mcpbridge.v1.ReadResourceResponse> readResource(
        dev.mcpbridge.v1.ReadResourceRequest request) {
      return io.grpc.stub.ClientCalls.blockingServerStreamingCall(
          getChannel(), getReadResourceMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * ListPrompts tells a page of the prompts. MCP `prompts/list`.
     * </pre>
     */
    public dev.mcpbridge.v1.ListPromptsResponse listPrompts(dev.mcpbridge.v1.ListPromptsRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getListPromptsMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * GetPrompt fills in a prompt. MCP `prompts/get`.
     * </pre>
     */
    public java.util.Iterator<dev.mcpbridge.v1.GetPromptResponse> getPrompt(
        dev.mcpbridge.v1.GetPromptRequest request) {
      return io.grpc.stub.ClientCalls.blockingServerStreamingCall(
          getChannel(), getGetPromptMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Complete proposes values for an argument. MCP `completion/complete`.
     * </pre>
     */
    public dev.mcpbridge.v1.CompleteResponse complete(dev.mcpbridge.v1.CompleteRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getCompleteMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Listen tells what changes, until it is cancelled. MCP `subscriptions/listen`, and for older revisions
     * `resources/subscribe` and the list_changed notifications. The bridge makes one Listen for all its clients.
     * </pre>
     */
    public java.util.Iterator<dev.mcpbridge.v1.ListenResponse> listen(
        dev.mcpbridge.v1.ListenRequest request) {
      return io.grpc.stub.ClientCalls.blockingServerStreamingCall(
          getChannel(), getListenMethod(), getCallOptions(), request);
    }
  }

  /**
   * A stub to allow clients to do ListenableFuture-style rpc calls to service McpService.
   * <pre>
   * McpService is an MCP server, or the client side of one: a backend implements it for the bridge to serve, and the bridge
   * serves it to gRPC clients on top of any MCP server. Every call is complete in itself; all of them may come concurrently.
   * Errors are gRPC statuses: NOT_FOUND for what does not exist, INVALID_ARGUMENT for what cannot be meant, UNIMPLEMENTED for
   * what the server does not have; any other text is kept from MCP clients unless a JsonRpcError is among the details.
   * </pre>
   */
  public static final class McpServiceFutureStub
      extends io.grpc.stub.AbstractFutureStub<McpServiceFutureStub> {
    private McpServiceFutureStub(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      super(channel, callOptions);
    }

    @java.lang.Override
    protected McpServiceFutureStub build(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      return new McpServiceFutureStub(channel, callOptions);
    }

    /**
     * <pre>
     * Discover tells what the server is. MCP `server/discover` and the answer to `initialize`.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<dev.mcpbridge.v1.DiscoverResponse> discover(
        dev.mcpbridge.v1.DiscoverRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getDiscoverMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * ListTools tells a page of the tools. MCP `tools/list`.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<dev.mcpbridge.v1.ListToolsResponse> listTools(
        dev.mcpbridge.v1.ListToolsRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getListToolsMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * ListResources tells a page of the resources. MCP `resources/list`.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<dev.mcpbridge.v1.ListResourcesResponse> listResources(
        dev.mcpbridge.v1.ListResourcesRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getListResourcesMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * ListResourceTemplates tells a page of the resource templates. MCP `resources/templates/list`.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<dev.mcpbridge.v1.ListResourceTemplatesResponse> listResourceTemplates(
        dev.mcpbridge.v1.ListResourceTemplatesRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getListResourceTemplatesMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * ListPrompts tells a page of the prompts. MCP `prompts/list`.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<dev.mcpbridge.v1.ListPromptsResponse> listPrompts(
        dev.mcpbridge.v1.ListPromptsRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getListPromptsMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * Complete proposes values for an argument. MCP `completion/complete`.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<dev.mcpbridge.v1.CompleteResponse> complete(
        dev.mcpbridge.v1.CompleteRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getCompleteMethod(), getCallOptions()), request);
    }
  }

  private static final int METHODID_DISCOVER = 0;
  private static final int METHODID_LIST_TOOLS = 1;
  private static final int METHODID_CALL_TOOL = 2;
  private static final int METHODID_LIST_RESOURCES = 3;
  private static final int METHODID_LIST_RESOURCE_TEMPLATES = 4;
  private static final int METHODID_READ_RESOURCE = 5;
  private static final int METHODID_LIST_PROMPTS = 6;
  private static final int METHODID_GET_PROMPT = 7;
  private static final int METHODID_COMPLETE = 8;
  private static final int METHODID_LISTEN = 9;

  private static final class MethodHandlers<Req, Resp> implements
      io.grpc.stub.ServerCalls.UnaryMethod<Req, Resp>,
      io.grpc.stub.ServerCalls.ServerStreamingMethod<Req, Resp>,
      io.grpc.stub.ServerCalls.ClientStreamingMethod<Req, Resp>,
      io.grpc.stub.ServerCalls.BidiStreamingMethod<Req, Resp> {
    private final AsyncService serviceImpl;
    private final int methodId;

    MethodHandlers(AsyncService serviceImpl, int methodId) {
      this.serviceImpl = serviceImpl;
      this.methodId = methodId;
    }

    @java.lang.Override
    @java.lang.SuppressWarnings("unchecked")
    public void invoke(Req request, io.grpc.stub.StreamObserver<Resp> responseObserver) {
      switch (methodId) {
        case METHODID_DISCOVER:
          serviceImpl.discover((dev.mcpbridge.v1.DiscoverRequest) request,
              (io.grpc.stub.StreamObserver<dev.mcpbridge.v1.DiscoverResponse>) responseObserver);
          break;
        case METHODID_LIST_TOOLS:
          serviceImpl.listTools((dev.mcpbridge.v1.ListToolsRequest) request,
              (io.grpc.stub.StreamObserver<dev.mcpbridge.v1.ListToolsResponse>) responseObserver);
          break;
        case METHODID_CALL_TOOL:
          serviceImpl.callTool((dev.mcpbridge.v1.CallToolRequest) request,
              (io.grpc.stub.StreamObserver<dev.mcpbridge.v1.CallToolResponse>) responseObserver);
          break;
        case METHODID_LIST_RESOURCES:
          serviceImpl.listResources((dev.mcpbridge.v1.ListResourcesRequest) request,
              (io.grpc.stub.StreamObserver<dev.mcpbridge.v1.ListResourcesResponse>) responseObserver);
          break;
        case METHODID_LIST_RESOURCE_TEMPLATES:
          serviceImpl.listResourceTemplates((dev.mcpbridge.v1.ListResourceTemplatesRequest) request,
              (io.grpc.stub.StreamObserver<dev.mcpbridge.v1.ListResourceTemplatesResponse>) responseObserver);
          break;
        case METHODID_READ_RESOURCE:
          serviceImpl.readResource((dev.mcpbridge.v1.ReadResourceRequest) request,
              (io.grpc.stub.StreamObserver<dev.mcpbridge.v1.ReadResourceResponse>) responseObserver);
          break;
        case METHODID_LIST_PROMPTS:
          serviceImpl.listPrompts((dev.mcpbridge.v1.ListPromptsRequest) request,
              (io.grpc.stub.StreamObserver<dev.mcpbridge.v1.ListPromptsResponse>) responseObserver);
          break;
        case METHODID_GET_PROMPT:
          serviceImpl.getPrompt((dev.mcpbridge.v1.GetPromptRequest) request,
              (io.grpc.stub.StreamObserver<dev.mcpbridge.v1.GetPromptResponse>) responseObserver);
          break;
        case METHODID_COMPLETE:
          serviceImpl.complete((dev.mcpbridge.v1.CompleteRequest) request,
              (io.grpc.stub.StreamObserver<dev.mcpbridge.v1.CompleteResponse>) responseObserver);
          break;
        case METHODID_LISTEN:
          serviceImpl.listen((dev.mcpbridge.v1.ListenRequest) request,
              (io.grpc.stub.StreamObserver<dev.mcpbridge.v1.ListenResponse>) responseObserver);
          break;
        default:
          throw new AssertionError();
      }
    }

    @java.lang.Override
    @java.lang.SuppressWarnings("unchecked")
    public io.grpc.stub.StreamObserver<Req> invoke(
        io.grpc.stub.StreamObserver<Resp> responseObserver) {
      switch (methodId) {
        default:
          throw new AssertionError();
      }
    }
  }

  public static final io.grpc.ServerServiceDefinition bindService(AsyncService service) {
    return io.grpc.ServerServiceDefinition.builder(getServiceDescriptor())
        .addMethod(
          getDiscoverMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              dev.mcpbridge.v1.DiscoverRequest,
              dev.mcpbridge.v1.DiscoverResponse>(
                service, METHODID_DISCOVER)))
        .addMethod(
          getListToolsMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              dev.mcpbridge.v1.ListToolsRequest,
              dev.mcpbridge.v1.ListToolsResponse>(
                service, METHODID_LIST_TOOLS)))
        .addMethod(
          getCallToolMethod(),
          io.grpc.stub.ServerCalls.asyncServerStreamingCall(
            new MethodHandlers<
              dev.mcpbridge.v1.CallToolRequest,
              dev.mcpbridge.v1.CallToolResponse>(
                service, METHODID_CALL_TOOL)))
        .addMethod(
          getListResourcesMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              dev.mcpbridge.v1.ListResourcesRequest,
              dev.mcpbridge.v1.ListResourcesResponse>(
                service, METHODID_LIST_RESOURCES)))
        .addMethod(
          getListResourceTemplatesMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              dev.mcpbridge.v1.ListResourceTemplatesRequest,
              dev.mcpbridge.v1.ListResourceTemplatesResponse>(
                service, METHODID_LIST_RESOURCE_TEMPLATES)))
        .addMethod(
          getReadResourceMethod(),
          io.grpc.stub.ServerCalls.asyncServerStreamingCall(
            new MethodHandlers<
              dev.mcpbridge.v1.ReadResourceRequest,
              dev.mcpbridge.v1.ReadResourceResponse>(
                service, METHODID_READ_RESOURCE)))
        .addMethod(
          getListPromptsMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              dev.mcpbridge.v1.ListPromptsRequest,
              dev.mcpbridge.v1.ListPromptsResponse>(
                service, METHODID_LIST_PROMPTS)))
        .addMethod(
          getGetPromptMethod(),
          io.grpc.stub.ServerCalls.asyncServerStreamingCall(
            new MethodHandlers<
              dev.mcpbridge.v1.GetPromptRequest,
              dev.mcpbridge.v1.GetPromptResponse>(
                service, METHODID_GET_PROMPT)))
        .addMethod(
          getCompleteMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              dev.mcpbridge.v1.CompleteRequest,
              dev.mcpbridge.v1.CompleteResponse>(
                service, METHODID_COMPLETE)))
        .addMethod(
          getListenMethod(),
          io.grpc.stub.ServerCalls.asyncServerStreamingCall(
            new MethodHandlers<
              dev.mcpbridge.v1.ListenRequest,
              dev.mcpbridge.v1.ListenResponse>(
                service, METHODID_LISTEN)))
        .build();
  }

  private static abstract class McpServiceBaseDescriptorSupplier
      implements io.grpc.protobuf.ProtoFileDescriptorSupplier, io.grpc.protobuf.ProtoServiceDescriptorSupplier {
    McpServiceBaseDescriptorSupplier() {}

    @java.lang.Override
    public com.google.protobuf.Descriptors.FileDescriptor getFileDescriptor() {
      return dev.mcpbridge.v1.Service.getDescriptor();
    }

    @java.lang.Override
    public com.google.protobuf.Descriptors.ServiceDescriptor getServiceDescriptor() {
      return getFileDescriptor().findServiceByName("McpService");
    }
  }

  private static final class McpServiceFileDescriptorSupplier
      extends McpServiceBaseDescriptorSupplier {
    McpServiceFileDescriptorSupplier() {}
  }

  private static final class McpServiceMethodDescriptorSupplier
      extends McpServiceBaseDescriptorSupplier
      implements io.grpc.protobuf.ProtoMethodDescriptorSupplier {
    private final java.lang.String methodName;

    McpServiceMethodDescriptorSupplier(java.lang.String methodName) {
      this.methodName = methodName;
    }

    @java.lang.Override
    public com.google.protobuf.Descriptors.MethodDescriptor getMethodDescriptor() {
      return getServiceDescriptor().findMethodByName(methodName);
    }
  }

  private static volatile io.grpc.ServiceDescriptor serviceDescriptor;

  public static io.grpc.ServiceDescriptor getServiceDescriptor() {
    io.grpc.ServiceDescriptor result = serviceDescriptor;
    if (result == null) {
      synchronized (McpServiceGrpc.class) {
        result = serviceDescriptor;
        if (result == null) {
          serviceDescriptor = result = io.grpc.ServiceDescriptor.newBuilder(SERVICE_NAME)
              .setSchemaDescriptor(new McpServiceFileDescriptorSupplier())
              .addMethod(getDiscoverMethod())
              .addMethod(getListToolsMethod())
              .addMethod(getCallToolMethod())
              .addMethod(getListResourcesMethod())
              .addMethod(getListResourceTemplatesMethod())
              .addMethod(getReadResourceMethod())
              .addMethod(getListPromptsMethod())
              .addMethod(getGetPromptMethod())
              .addMethod(getCompleteMethod())
              .addMethod(getListenMethod())
              .build();
        }
      }
    }
    return result;
  }
}
