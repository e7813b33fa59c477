package bridge

import pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"

// ContractVersion is the version of the contract of this build. A backend that declares none was built with version 1.
const ContractVersion = 2

// Verified returns what the bridge declares of a call.
func Verified() *pb.VerifiedCaller { return &pb.VerifiedCaller{ContractVersion: ContractVersion} }
