package auth_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/rs/zerolog"

	"github.com/mcpbridge/mcpbridge/internal/auth"
	"github.com/mcpbridge/mcpbridge/internal/bridgetest/fuzzing"
)

func ecSign(what string) []byte {
	sum := sha256.Sum256([]byte(what))
	r, s, err := ecdsa.Sign(rand.Reader, ecKey, sum[:])
	if err != nil {
		panic(err)
	}
	return append(r.FillBytes(make([]byte, 32)), s.FillBytes(make([]byte, 32))...)
}

// FuzzToken verifies any text as a token, which must be rejected because it has no valid signature, and any signed
// header and claims, whose principal must be the one that encoding/json/v2 decodes, if they are valid now.
func FuzzToken(f *testing.F) {
	future := strconv.FormatInt(time.Now().Add(10*365*24*time.Hour).Unix(), 10)
	good := `{"iss":"` + issuer + `","aud":"` + resource + `","sub":"ada","scope":"mcp","exp":` + future + `}`
	const header = `{"alg":"ES256","kid":"ec"}`
	f.Add(header, good, "e30.e30.e30")
	for _, claims := range []string{
		strings.Replace(good, `"ada"`, `"ada","SUB":"eve"`, 1), strings.Replace(good, `"ada"`, `"ada","sub":"eve"`, 1),
		strings.Replace(good, `"`+resource+`"`, `["x","`+resource+`"]`, 1),
		strings.Replace(good, future, "1", 1), strings.Replace(good, future, "1e99", 1),
		strings.Replace(good, `"sub":"ada"`, `"client_id":"ada"`, 1),
		strings.Replace(good, `"scope":"mcp"`, `"scp":["mcp"]`, 1),
		strings.Replace(good, `"iss"`, `"iſs"`, 1), strings.Replace(good, `"iss"`, `"ISS"`, 1), good + "{}",
		good[:len(good)-1], `{}`, `[]`, `null`, "\xff", strings.Replace(good, `"ada"`, "\"a\xff\"", 1),
	} {
		f.Add(header, claims, strings.Repeat(".", 100))
	}
	for _, h := range []string{
		`{"alg":"none"}`, `{"alg":"ES256","kid":"rsa"}`, `{"alg":"ES256","crit":["x"],"x":1}`,
		`{"alg":"ES256","ALG":"none","kid":"ec"}`, `{"alg":"RS256","kid":"ec"}`, `{"alg":"ES256","jwk":{}}`,
		`{"alg":"ES256","b64":false,"crit":["b64"]}`, `{"alg":"ES256","crit":["b64"]}`, `{}`,
	} {
		f.Add(h, good, "eyJhbGciOiJub25lIn0.e30.")
	}
	a := newIssuer()
	au := must(auth.New(auth.Options{
		Resource: resource, Issuers: []auth.Issuer{{URL: issuer}}, Scopes: []string{"mcp"},
		Client: &http.Client{Transport: a}, Log: zerolog.Nop(),
	}))
	if _, err := au.Verify(context.Background(), forged(header, good, ecSign)); err != nil { // fetches the keys
		f.Fatal(err)
	}
	fuzzing.Run(f, func(t *testing.T, header, claims, text string) {
		fuzzing.Within(t, len(text), 256<<10, func() {
			if p, err := au.Verify(t.Context(), text); err == nil {
				t.Fatalf("%q: got the principal %v", text, p)
			}
		})
		p, err := au.Verify(t.Context(), forged(header, claims, ecSign))
		if err != nil {
			return
		}
		if !goodHeader(header) || subjectOf(claims) != p.GetSubject() || p.GetSubject() == "" ||
			p.GetIssuer() != issuer {
			t.Fatalf("%s %s: got the principal %v", header, claims, p)
		}
	})
}

func goodHeader(text string) bool {
	v, err := fuzzing.Value([]byte(text))
	h, _ := v.(map[string]any)
	_, critical := h["crit"]
	return err == nil && h["alg"] == "ES256" && !critical
}

// subjectOf returns the subject of claims, or "" if they are not valid for this server now.
func subjectOf(text string) string {
	v, err := fuzzing.Value([]byte(text))
	c, _ := v.(map[string]any)
	if err != nil || c["iss"] != issuer {
		return ""
	}
	audience, isList := c["aud"].([]any)
	if c["aud"] != resource && (!isList || !slices.Contains(audience, any(resource))) {
		return ""
	}
	number := func(name string, missing float64) float64 {
		literal, ok := c[name].(fuzzing.Literal)
		n, err := strconv.ParseFloat(string(literal), 64)
		if !ok || literal == "null" || err != nil {
			return missing
		}
		return n
	}
	now, skew := float64(time.Now().Unix()), 62.0
	if number("exp", 0) < now-skew || number("nbf", 0) > now+skew || number("iat", 0) > now+skew {
		return ""
	}
	scopes, _ := c["scope"].(string)
	list, _ := c["scp"].([]any)
	text2, _ := c["scp"].(string)
	if !slices.Contains(strings.Fields(scopes+" "+text2), "mcp") && !slices.Contains(list, any("mcp")) {
		return ""
	}
	if s, _ := c["sub"].(string); s != "" {
		return s
	}
	s, _ := c["client_id"].(string)
	return s
}

// documents is an issuer with any documents.
type documents struct{ metadata, keys string }

func (s documents) RoundTrip(r *http.Request) (*http.Response, error) {
	body := s.metadata
	if r.URL.Path == "/keys" {
		body = s.keys
	}
	return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader(body)), Request: r}, nil
}

// FuzzIssuer parses any bytes as the metadata and the keys of an issuer: a token is valid only if the issuer's metadata
// and its key are among them.
func FuzzIssuer(f *testing.F) {
	keys, err := (&jose.JSONWebKey{Key: &ecKey.PublicKey, KeyID: "ec", Algorithm: "ES256"}).MarshalJSON()
	if err != nil {
		f.Fatal(err)
	}
	// KEY is replaced by the key, which is generated.
	for _, k := range []string{
		`{"keys":[KEY]}`, `{"keys":[]}`, `{}`, `{"keys":[{"kty":"oct","k":"AA","kid":"ec"}]}`,
		`{"keys":[{"kty":"RSA","n":"AQAB","e":"AQAB","kid":"ec"},KEY]}`, `{"keys":[KEY],"keys":[]}`, `[`, "\xff",
		`{"keys":[{"kty":"EC","crv":"P-256","x":"AA","y":"AA"}]}`,
	} {
		f.Add(`{"issuer":"`+issuer+`","jwks_uri":"https://issuer.example.com/keys"}`, k)
	}
	for _, m := range []string{
		`{"issuer":"https://evil.example","jwks_uri":"https://issuer.example.com/keys"}`,
		`{"issuer":"` + issuer + `"}`, `<html>`, `{"issuer":"` + issuer + `","jwks_uri":"x:%zz/keys"}`,
	} {
		f.Add(m, `{"keys":[KEY]}`)
	}
	text := forged(`{"alg":"ES256","kid":"ec"}`,
		`{"iss":"`+issuer+`","aud":"`+resource+`","sub":"ada","exp":4000000000}`, ecSign)
	fuzzing.Run(f, func(t *testing.T, metadata, set string) {
		s := documents{metadata, strings.ReplaceAll(set, "KEY", string(keys))}
		au, err := auth.New(auth.Options{
			Resource: resource, Issuers: []auth.Issuer{{URL: issuer}},
			Client: &http.Client{Transport: s}, Log: zerolog.Nop(),
		})
		if err != nil {
			t.Fatal(err)
		}
		p, err := au.Verify(t.Context(), text)
		if err != nil {
			return
		}
		x := base64.RawURLEncoding.EncodeToString(ecKey.X.FillBytes(make([]byte, 32)))
		if p.GetSubject() != "ada" || !strings.Contains(s.keys, x) || !strings.Contains(s.metadata, `issuer`) {
			t.Fatalf("%s %s: got the principal %v", metadata, set, p)
		}
	})
}
