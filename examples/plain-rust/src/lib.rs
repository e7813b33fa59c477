//! The generated stubs: the contract, and go-plugin's controller.
pub mod v1 {
    tonic::include_proto!("mcpbridge.v1");
}
pub mod plugin {
    tonic::include_proto!("plugin");
}
