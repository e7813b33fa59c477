package bridge

import (
	"crypto/tls"
	"strings"

	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

// PeerPrincipal returns who has proved by a certificate, which was verified, to be at the other end of a connection, or nil:
// the first URI in it (such as a SPIFFE id), else the first DNS name, else the subject, by the word of its issuer. Whoever has no name
// has the number of the certificate: nobody else has that. A name that could be taken for one of another kind begins with "uri:" or "dns:".
func PeerPrincipal(state *tls.ConnectionState) *pb.Principal {
	if state == nil || len(state.VerifiedChains) == 0 {
		return nil
	}
	cert := state.VerifiedChains[0][0]
	who := &pb.Principal{Subject: cert.Subject.String(), Issuer: cert.Issuer.String()}
	switch {
	case len(cert.URIs) > 0:
		who.Subject = cert.URIs[0].String()
		switch cert.URIs[0].Scheme {
		case "", "uri", "dns", "serial":
			who.Subject = "uri:" + who.GetSubject()
		}
	case len(cert.DNSNames) > 0:
		who.Subject = cert.DNSNames[0]
		if strings.ContainsAny(who.GetSubject(), ":=/") { // no host has such a name
			who.Subject = "dns:" + who.GetSubject()
		}
	case who.GetSubject() == "":
		who.Subject = "serial:" + cert.SerialNumber.Text(16)
	}
	return who
}
