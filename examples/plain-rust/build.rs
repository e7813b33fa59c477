fn main() -> Result<(), Box<dyn std::error::Error>> {
    // The output of `mcpbridge proto proto`. Health checks have a crate of their own.
    // The default stubs return UNIMPLEMENTED.
    tonic_prost_build::configure().generate_default_stubs(true).compile_protos(
        &[
            "proto/mcpbridge/v1/service.proto",
            "proto/google/rpc/error_details.proto",
            "proto/google/rpc/status.proto",
            "proto/plugin/grpc_controller.proto",
        ],
        &["proto"],
    )?;
    Ok(())
}
