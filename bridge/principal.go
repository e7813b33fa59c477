package bridge

import (
	"crypto/tls"
	"strings"

	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

// CertificatePrincipal returns the principal of a verified client certificate, or nil. Its subject is the
// certificate's first URI (such as a SPIFFE ID), else its first DNS name, else its subject, else its serial
// number. The prefix "uri:" or "dns:" marks a name that could be mistaken for one of another kind.
func CertificatePrincipal(state *tls.ConnectionState) *pb.Principal {
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
		if strings.ContainsAny(who.GetSubject(), ":=/") { // not a host name
			who.Subject = "dns:" + who.GetSubject()
		}
	case who.GetSubject() == "":
		who.Subject = "serial:" + cert.SerialNumber.Text(16)
	}
	return who
}
