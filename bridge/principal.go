package bridge

import (
	"crypto/tls"

	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

// PeerPrincipal returns who has proved by a certificate, which was verified, to be at the other end of a connection, or nil:
// the first URI in it (such as a SPIFFE id), else the first DNS name, else the subject, by the word of its issuer. Whoever has no name
// has the number of the certificate: nobody else has that.
func PeerPrincipal(state *tls.ConnectionState) *pb.Principal {
	if state == nil || len(state.VerifiedChains) == 0 {
		return nil
	}
	cert := state.VerifiedChains[0][0]
	who := &pb.Principal{Subject: cert.Subject.String(), Issuer: cert.Issuer.String()}
	switch {
	case len(cert.URIs) > 0:
		who.Subject = cert.URIs[0].String()
	case len(cert.DNSNames) > 0:
		who.Subject = cert.DNSNames[0]
	case who.GetSubject() == "":
		who.Subject = "serial:" + cert.SerialNumber.Text(16)
	}
	return who
}
