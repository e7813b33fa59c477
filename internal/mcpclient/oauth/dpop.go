package oauth

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
)

// A proofKey is the key that a token is bound to (DPoP, RFC 9449).
type proofKey struct {
	private *ecdsa.PrivateKey
	signer  jose.Signer

	mu     sync.Mutex        // guards nonces
	nonces map[string]string // by origin
}

const maxNonce = 1 << 10

// newProofKey parses a key that bytes returned, or generates one if stored is nil.
func newProofKey(stored []byte) (*proofKey, error) {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if stored != nil {
		private, err = x509.ParseECPrivateKey(stored)
	}
	if err != nil {
		return nil, err
	}
	options := &jose.SignerOptions{EmbedJWK: true}
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: private}, options.WithType("dpop+jwt"))
	return &proofKey{private: private, signer: signer, nonces: map[string]string{}}, err
}

// bytes returns the key in the form that newProofKey parses.
func (k *proofKey) bytes() ([]byte, error) { return x509.MarshalECPrivateKey(k.private) }

// A proof has the claims of a DPoP header (RFC 9449, 4.2).
type proof struct {
	jwt.Claims

	Method    string `json:"htm"`
	Target    string `json:"htu"`
	TokenHash string `json:"ath,omitempty"`
	Nonce     string `json:"nonce,omitempty"`
}

// proof returns a serialized proof for one request. token is the access token of the request, or empty.
func (k *proofKey) proof(method string, to *url.URL, token string) (string, error) {
	k.mu.Lock()
	nonce := k.nonces[origin(to)]
	k.mu.Unlock()
	p := proof{
		Claims: jwt.Claims{ID: rand.Text(), IssuedAt: jwt.NewNumericDate(time.Now())},
		Method: method, Target: origin(to) + to.EscapedPath(), Nonce: nonce,
	}
	if token != "" {
		sum := sha256.Sum256([]byte(token))
		p.TokenHash = base64.RawURLEncoding.EncodeToString(sum[:])
	}
	return jwt.Signed(k.signer).Claims(p).Serialize()
}

// updateNonce stores the nonce of a response and reports whether it is a new one.
func (k *proofKey) updateNonce(from *url.URL, h http.Header) bool {
	nonce := h.Get("Dpop-Nonce")
	if nonce == "" || len(nonce) > maxNonce {
		return false
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	o := origin(from)
	if _, known := k.nonces[o]; !known && len(k.nonces) > 2 {
		return false // only the server and its authorization server require proofs
	}
	old := k.nonces[o]
	k.nonces[o] = nonce
	return old != nonce
}

// A proofTransport adds proofs to token requests.
type proofTransport struct {
	key  *proofKey
	base http.RoundTripper
}

func (p *proofTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	proof, err := p.key.proof(req.Method, req.URL, "")
	if err != nil {
		return nil, err
	}
	req = req.Clone(req.Context())
	req.Header.Set("Dpop", proof)
	resp, err := p.base.RoundTrip(req)
	if err == nil {
		p.key.updateNonce(req.URL, resp.Header)
	}
	return resp, err
}
