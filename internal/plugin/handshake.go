package plugin

import (
	"crypto/x509"
	"encoding/base64"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"github.com/mcpbridge/mcpbridge/bridge"
	"github.com/mcpbridge/mcpbridge/internal/rawjson"
)

// handshakeGrammar is the format of a handshake:
//
//	1|VERSION|unix or tcp|ADDRESS|grpc|CERTIFICATE
//
// where the certificate is unpadded base64 of DER, and more fields may follow.
var handshakeGrammar = regexp.MustCompile(`^\s*\d+\|\d+\|(unix|tcp)\|`)

// isHandshake reports whether a line of output is meant as the handshake.
func isHandshake(line []byte) bool { return handshakeGrammar.Match(line) }

// checkHandshake returns an error if go-plugin must not see a handshake: it would dial any address, and panics on some
// lines. A unix socket must be in dir.
func checkHandshake(line, dir string) error {
	f := strings.Split(strings.TrimSpace(line), "|")
	for len(f) < 6 {
		f = append(f, "")
	}
	switch {
	case f[0] != "1":
		return fmt.Errorf("it speaks version %s of the go-plugin handshake, and the bridge speaks version 1",
			excerpt(f[0]))
	case f[1] != strconv.Itoa(ProtocolVersion):
		return fmt.Errorf("it speaks version %s of the contract, and the bridge offered version %d only "+
			"(PLUGIN_PROTOCOL_VERSIONS)", excerpt(f[1]), ProtocolVersion)
	case f[4] != "grpc":
		return fmt.Errorf("it speaks %q, and the bridge speaks grpc only (field 5)", excerpt(f[4]))
	case f[5] == "":
		return fmt.Errorf("it has no certificate (field 6), so it does not use TLS, which PLUGIN_CLIENT_CERT requires")
	}
	if err := checkCertificate(f[5]); err != nil {
		return fmt.Errorf("its certificate (field 6) %w", err)
	}
	if n := len(f[3]); n > longestAddress {
		return fmt.Errorf("it listens at %s %q of %d bytes, and no address has more than %d", f[2], excerpt(f[3]), n,
			longestAddress)
	}
	if f[2] == "tcp" {
		return checkTCP(f[3])
	}
	return checkSocket(f[3], dir)
}

// longestAddress is the maximum length of an address: the path of a unix socket on Linux.
const longestAddress = 107

// excerpt returns a field for an error, shortened.
func excerpt(field string) string { return rawjson.ShortenTo(field, longestAddress) }

// checkCertificate returns an error if a certificate cannot be a plugin's.
func checkCertificate(field string) error {
	if strings.HasSuffix(field, "=") {
		return fmt.Errorf("is padded with =, which must be left out")
	}
	der, err := bridge.DecodeBase64(base64.RawStdEncoding, []byte(field))
	if err != nil {
		return fmt.Errorf("is not base64 of the standard alphabet without padding: %w", err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return fmt.Errorf("is not an X.509 certificate in DER: %w", err)
	}
	if err := cert.VerifyHostname("localhost"); err != nil {
		return fmt.Errorf("is not for localhost, which must be among its alternative names: %w", err)
	}
	return nil
}

// checkTCP returns an error if an address is not a loopback address.
func checkTCP(address string) error {
	a, err := netip.ParseAddrPort(address)
	if err != nil || !a.Addr().IsLoopback() || a.Port() == 0 {
		return fmt.Errorf("it listens at tcp %q; it must be 127.0.0.1:PORT or [::1]:PORT", address)
	}
	return nil
}

// checkSocket returns an error if a path is not a socket in dir.
func checkSocket(path, dir string) error {
	parent, err := filepath.EvalSymlinks(filepath.Dir(path))
	if err != nil {
		return fmt.Errorf("it listens at unix %q, which does not exist: %w", path, err)
	}
	if own, err := filepath.EvalSymlinks(dir); err != nil || parent != own {
		return fmt.Errorf("it listens at unix %q, which is not in the directory it was given "+
			"(PLUGIN_UNIX_SOCKET_DIR=%s)", path, dir)
	}
	info, err := os.Lstat(path)
	if err != nil {
		return fmt.Errorf("it listens at unix %q, which does not exist: %w", path, err)
	}
	if info.Mode().Type() != os.ModeSocket {
		return fmt.Errorf("it listens at unix %q, which is not a socket but %v", path, info.Mode())
	}
	return nil
}
