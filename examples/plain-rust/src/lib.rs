//! The generated stubs: the contract, the details of a status, and go-plugin's controller.
pub mod v1 {
    tonic::include_proto!("mcpbridge.v1");
}
pub mod rpc {
    tonic::include_proto!("google.rpc");
}
pub mod plugin {
    tonic::include_proto!("plugin");
}
