fn main() -> Result<(), Box<dyn std::error::Error>> {
    // What `mcpbridge proto proto` wrote. Health has a crate of its own.
    tonic_prost_build::configure().compile_protos(
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
