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

	mu     sync.Mutex // guards nonces
	nonces map[string]string
}

const maxNonce = 1 << 10

// newProofKey makes a key, or reads one that Bytes returned.
func newProofKey(kept []byte) (*proofKey, error) {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if kept != nil {
		private, err = x509.ParseECPrivateKey(kept)
	}
	if err != nil {
		return nil, err
	}
	options := &jose.SignerOptions{EmbedJWK: true}
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: private}, options.WithType("dpop+jwt"))
	return &proofKey{private: private, signer: signer, nonces: map[string]string{}}, err
}

// bytes returns what newProofKey reads.
func (k *proofKey) bytes() ([]byte, error) { return x509.MarshalECPrivateKey(k.private) }

// A proof is what a DPoP header says (RFC 9449, 4.2).
type proof struct {
	jwt.Claims

	Method string `json:"htm"`
	Target string `json:"htu"`
	Hash   string `json:"ath,omitempty"`
	Nonce  string `json:"nonce,omitempty"`
}

// prove returns a proof for one request. token is the token that goes with it, or empty.
func (k *proofKey) prove(method string, to *url.URL, token string) (string, error) {
	k.mu.Lock()
	nonce := k.nonces[origin(to)]
	k.mu.Unlock()
	p := proof{
		Claims: jwt.Claims{ID: rand.Text(), IssuedAt: jwt.NewNumericDate(time.Now())},
		Method: method, Target: origin(to) + to.EscapedPath(), Nonce: nonce,
	}
	if token != "" {
		sum := sha256.Sum256([]byte(token))
		p.Hash = base64.RawURLEncoding.EncodeToString(sum[:])
	}
	return jwt.Signed(k.signer).Claims(p).Serialize()
}

// note remembers the nonce that a response gives. It reports whether it is a new one.
func (k *proofKey) note(from *url.URL, h http.Header) bool {
	nonce := h.Get("Dpop-Nonce")
	if nonce == "" || len(nonce) > maxNonce {
		return false
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	o := origin(from)
	if _, known := k.nonces[o]; !known && len(k.nonces) > 2 {
		return false // there are two that ask for proofs: the server and its authorization server
	}
	old := k.nonces[o]
	k.nonces[o] = nonce
	return old != nonce
}

// A prover adds proofs to token requests.
type prover struct {
	key *proofKey
	via http.RoundTripper
}

func (p *prover) RoundTrip(req *http.Request) (*http.Response, error) {
	proof, err := p.key.prove(req.Method, req.URL, "")
	if err != nil {
		return nil, err
	}
	req = req.Clone(req.Context())
	req.Header.Set("Dpop", proof)
	resp, err := p.via.RoundTrip(req)
	if err == nil {
		p.key.note(req.URL, resp.Header)
	}
	return resp, err
}
