package oauth_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/mcpbridge/mcpbridge/bridge"
	"github.com/mcpbridge/mcpbridge/internal/mcpclient"
	"github.com/mcpbridge/mcpbridge/internal/mcpclient/oauth"
	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

// An mcpclient.Client uses OAuth by its Transport, and returns the Transport's errors to the caller.
func TestMCPClient(t *testing.T) {
	fails := false
	mux := http.NewServeMux()
	s := httptest.NewServer(mux)
	defer s.Close()
	mux.HandleFunc("GET /.well-known/oauth-protected-resource/mcp", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, `{"resource":"%s/mcp","authorization_servers":["%s"]}`, s.URL, s.URL)
	})
	mux.HandleFunc("GET /.well-known/oauth-authorization-server", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, `{"issuer":"%s","token_endpoint":"%[1]s/token","token_endpoint_auth_methods_supported":["client_secret_post"]}`, s.URL)
	})
	mux.HandleFunc("POST /token", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if fails {
			w.WriteHeader(http.StatusBadRequest)
			fmt.Fprint(w, `{"error":"unauthorized_client"}`)
			return
		}
		fmt.Fprint(w, `{"access_token":"good","token_type":"Bearer"}`)
	})
	mux.HandleFunc("POST /mcp", func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer good" || fails {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		var m struct {
			ID     json.RawMessage `json:"id"`
			Method string          `json:"method"`
		}
		json.NewDecoder(r.Body).Decode(&m)
		w.Header().Set("Content-Type", "application/json")
		result := `{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{}},"ttlMs":0,"cacheScope":"private"}`
		if m.Method == "tools/call" {
			result = `{"resultType":"complete","content":[]}`
		}
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, result)
	})
	tr, err := oauth.New(oauth.Options{
		Server: s.URL + "/mcp", Grant: oauth.ClientCredentials, ClientID: "us",
		ClientSecret: "s",
	})
	if err != nil {
		t.Fatal(err)
	}
	defer tr.Close()
	c, err := mcpclient.New(mcpclient.Options{URL: s.URL + "/mcp", Transport: tr})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithTimeout(t.Context(), 10*time.Second)
	defer stop()
	done := make(chan error)
	go func() { done <- c.Run(ctx) }()
	defer func() { stop(); <-done }()
	call := func() error {
		_, err := c.Handle(ctx, &bridge.Call{
			Method: bridge.CallTool,
			Request: &pb.CallToolRequest{
				Name:    "x",
				Context: &pb.CallContext{Verified: bridge.Verified(bridge.Rev20260728, nil, nil)},
			},
		}, nil)
		return err
	}
	if err := call(); err != nil {
		t.Fatal(err)
	}
	fails = true
	e := bridge.AsError(call())
	if e.Code != codes.Unauthenticated || e.Outcome != bridge.OutcomeNotExecuted ||
		e.Reason != "UPSTREAM_UNAUTHENTICATED" {
		t.Errorf("%v: %v %v", e, e.Code, e.Outcome)
	}
}
