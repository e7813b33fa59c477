package bridge

import pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"

// ContractVersion is the version of the contract of this build. A backend that declares none was built with version 1.
const ContractVersion = 2

// Verified returns what the bridge has verified about a call of revision r. All calls of a revision without principal
// and headers share one message, which must not be modified.
func Verified(r Revision, principal *pb.Principal, headers map[string]string) *pb.VerifiedCaller {
	if principal == nil && len(headers) == 0 {
		return anonymous[r]
	}
	return &pb.VerifiedCaller{
		ContractVersion: ContractVersion, ProtocolVersion: r.String(), Principal: principal, Headers: headers,
	}
}

var anonymous = func() (of [len(revisionNames)]*pb.VerifiedCaller) {
	for r, name := range revisionNames {
		of[r] = &pb.VerifiedCaller{ContractVersion: ContractVersion, ProtocolVersion: name}
	}
	return of
}()
