package oauth

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"

	"github.com/mcpbridge/mcpbridge/bridge"
)

func TestScopes(t *testing.T) {
	challenge := func(s string) func(*fixture) {
		return func(w *fixture) {
			w.challenge = func() string {
				return `Bearer resource_metadata="` + w.mcp.URL + metadataPath +
					`", scope="` + s + `"`
			}
		}
	}
	usual := func(w *fixture) {
		w.prm[metadataPath].(map[string]any)["scopes_supported"] = []string{"u1", "u2", "offline_access"}
	}
	for _, row := range []struct {
		name   string
		change []func(*fixture)
		as     []string // scopes that the authorization server has
		o      []string
		want   string
	}{
		{name: "the challenge's", change: []func(*fixture){challenge("b a"), usual}, want: "b a"},
		{name: "the usual ones", change: []func(*fixture){usual}, want: "u1 u2"},
		{name: "none"},
		{name: "configured", o: []string{"c"}, change: []func(*fixture){usual}, want: "c"},
		{
			name: "configured and the challenge's", o: []string{"c"}, change: []func(*fixture){challenge("a c")},
			want: "a c",
		},
		{
			name: "offline_access if it is there", as: []string{"a", "offline_access"},
			change: []func(*fixture){challenge("a")}, want: "a offline_access",
		},
		{
			name: "offline_access only if it is there", as: []string{"a"},
			change: []func(*fixture){challenge("a offline_access")}, want: "a",
		},
		{name: "offline_access not alone", as: []string{"offline_access"}},
		{
			name: "invalid scopes",
			change: []func(*fixture){challenge("a é b\\\\ " + strings.Repeat("x", maxScope+1) + " " +
				strings.Repeat("y", maxScope))}, want: "a " + strings.Repeat("y", maxScope),
		},
	} {
		t.Run(row.name, func(t *testing.T) {
			w := newFixture(t)
			for _, f := range row.change {
				f(w)
			}
			w.meta["scopes_supported"] = row.as
			w.mustSucceed(w.transport(func(o *Options) { o.Scopes = row.o }))
			q := w.authRequest()
			if got := q.Get("scope"); got != row.want || q.Has("scope") != (row.want != "") {
				t.Errorf("got %q, want %q", got, row.want)
			}
			if consent := q.Get("prompt") == "consent"; consent != strings.Contains(row.want, offlineAccess) {
				t.Errorf("prompt=consent: %v", consent)
			}
		})
	}
}

func TestScopesAreLimited(t *testing.T) {
	var many []string
	for i := range maxScopes + 1 {
		many = append(many, fmt.Sprint("s", i))
	}
	if got := len(mergeScopes(many[:maxScopes])); got != maxScopes {
		t.Errorf("%d of %d", got, maxScopes)
	}
	if got := len(mergeScopes(many)); got != maxScopes {
		t.Errorf("%d of %d, want %d", got, len(many), maxScopes)
	}
}

// A step-up requests the previous scopes and the required ones.
func TestStepUpKeepsScopes(t *testing.T) {
	w := newFixture(t)
	w.challenge = func() string { return `Bearer scope="read", resource_metadata="` + w.mcp.URL + metadataPath + `"` }
	w.needs = func(r *http.Request) []string { return strings.Fields(r.Header.Get("Needs")) }
	tr := w.transport(nil)
	w.mustSucceed(tr)
	w.mustSucceed(tr, "Needs", "write")
	w.mustSucceed(tr, "Needs", "admin write")
	w.mustSucceed(tr, "Needs", "read")
	var got []string
	for _, q := range w.authRequests {
		got = append(got, q.Get("scope"))
	}
	if d := cmp.Diff([]string{"read", "read write", "read write admin"}, got); d != "" {
		t.Error(d)
	}
}

func TestStepUpsAreLimited(t *testing.T) {
	w := newFixture(t)
	w.needs = func(r *http.Request) []string { return strings.Fields(r.Header.Get("Needs")) }
	w.token = func(url.Values, string) (int, map[string]any) { // grants fewer scopes than requested
		access := w.secret("access")
		w.tokens[access] = []string{"read"}
		return 200, map[string]any{"access_token": access, "token_type": "Bearer"}
	}
	tr := w.transport(nil)
	err := w.mustFail(tr, "after they were granted", "Needs", "write")
	if e, ok := errors.AsType[*bridge.Error](err); !ok || e.Code != codes.PermissionDenied {
		t.Errorf("%#v", err)
	}
	if len(w.authRequests) != 1+maxStepUps {
		t.Errorf("got %d logins, want %d", len(w.authRequests), 1+maxStepUps)
	}
	w.mustFail(tr, "still requires the scopes", "Needs", "write")
	if len(w.authRequests) != 1+maxStepUps {
		t.Error("the user was asked again for the same scopes")
	}
	w.mustSucceed(tr, "Needs", "read")
	// A server that requires other scopes every time.
	for i := range maxStepUpScopes + 3 {
		w.call(tr, "Needs", fmt.Sprint("scope", i))
	}
	if limit := 1 + maxStepUps*maxStepUpScopes; len(w.authRequests) > limit {
		t.Errorf("got %d logins, want at most %d", len(w.authRequests), limit)
	}
}

// A process without a user cannot step up, and uses the grant of one that can.
func TestStepUpWithoutUser(t *testing.T) {
	w := newFixture(t)
	dir := filepath.Join(t.TempDir(), "c")
	user := func(o *Options) { o.Dir = dir }
	w.mustSucceed(w.transport(user))
	w.needs = func(r *http.Request) []string { return strings.Fields(r.Header.Get("Needs")) }
	service := w.transport(func(o *Options) { o.Dir = dir; o.Browser = nil })
	w.mustSucceed(service)
	for range maxStepUps + 2 {
		w.mustFail(service, "log in elsewhere", "Needs", "more")
	}
	w.update(func() { w.lifetime = 1 }) // must be refreshed
	w.mustSucceed(w.transport(user), "Needs", "more")
	w.update(func() { w.lifetime = 3600 })
	w.mustSucceed(service, "Needs", "more")
	if len(w.authRequests) != 2 {
		t.Errorf("got %d logins", len(w.authRequests))
	}
}

// After the limit of step-ups, a grant of another process is used.
func TestStepUpByAnotherProcess(t *testing.T) {
	w := newFixture(t)
	dir := filepath.Join(t.TempDir(), "c")
	in := func(o *Options) { o.Dir = dir }
	w.needs = func(r *http.Request) []string { return strings.Fields(r.Header.Get("Needs")) }
	scopes := []string{"less"}
	w.token = func(url.Values, string) (int, map[string]any) {
		access := w.secret("access")
		w.tokens[access] = scopes
		return 200, map[string]any{"access_token": access, "token_type": "Bearer"}
	}
	tr := w.transport(in)
	tr.pause = time.Hour // does not apply to errors without requests to the authorization server
	w.mustFail(tr, "after they were granted", "Needs", "more")
	requests := len(w.requests())
	w.mustFail(tr, "after they were granted", "Needs", "more")
	if got := w.requests()[requests:]; len(got) != 1 {
		t.Errorf("the second error took the requests %v, want one", got)
	}
	w.update(func() { scopes = []string{"less", "more"} })
	other := w.transport(in)
	g, err := other.acquire(t.Context(),
		need{challenge: challenge{scopes: []string{"more"}}, previous: tr.grant, stepUp: true})
	if err != nil {
		t.Fatal(err)
	}
	logins := len(w.authRequests)
	w.mustSucceed(tr, "Needs", "more")
	if len(w.authRequests) != logins || w.bearers[len(w.bearers)-1] != g.Access {
		t.Errorf("got %d logins", len(w.authRequests)-logins)
	}
	w.revoke()
	w.mustSucceed(tr)
}

// The caller gets a 403 with another error.
func TestForbiddenIsPassedOn(t *testing.T) {
	w := newFixture(t)
	base := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		rw.Header().Set("WWW-Authenticate", `Bearer error="invalid_token"`)
		rw.WriteHeader(http.StatusForbidden)
	}))
	defer base.Close()
	tr := w.transport(func(o *Options) { o.Server = base.URL })
	req := must(http.NewRequestWithContext(t.Context(), "GET", base.URL, nil))
	resp, err := tr.RoundTrip(req)
	if err != nil || resp.StatusCode != http.StatusForbidden {
		t.Fatal(resp, err)
	}
	resp.Body.Close()
}

// Scopes that the authorization server rejects are not requested again.
func TestInvalidScopesAreForgotten(t *testing.T) {
	w := newFixture(t)
	scopes := "a gone"
	w.challenge = func() string {
		return `Bearer scope="` + scopes + `", resource_metadata="` + w.mcp.URL + metadataPath + `"`
	}
	w.noRefresh = true
	tr := w.transport(nil)
	w.mustSucceed(tr)
	w.revoke()
	w.update(func() {
		scopes = "a"
		w.token = func(url.Values, string) (int, map[string]any) {
			if strings.Contains(w.authRequests[len(w.authRequests)-1].Get("scope"), "gone") {
				return 400, map[string]any{"error": "invalid_scope"}
			}
			return 0, nil
		}
	})
	w.mustFail(tr, "invalid_scope")
	w.mustSucceed(tr)
}

// The grant of another process is used if it has the required scopes; otherwise more scopes are requested at once.
func TestStepUpBeyondAnotherProcess(t *testing.T) {
	w := newFixture(t)
	w.needs = func(r *http.Request) []string { return strings.Fields(r.Header.Get("Needs")) }
	dir := filepath.Join(t.TempDir(), "c")
	in := func(o *Options) { o.Dir = dir }
	one, two := w.transport(in), w.transport(in)
	w.mustSucceed(one)
	w.mustSucceed(two, "Needs", "a")
	logins, requests := len(w.authRequests), len(w.bearers)
	w.mustSucceed(one, "Needs", "b")
	if got := w.authRequest().Get("scope"); len(w.authRequests) != logins+1 || len(w.bearers) != requests+2 ||
		got != "a b" {
		t.Errorf("got %d more logins, the last for %q, and %d requests", len(w.authRequests)-logins, got,
			len(w.bearers)-requests)
	}
	w.mustSucceed(two, "Needs", "b")
	if len(w.authRequests) != logins+1 {
		t.Error("the grant of the other process was not used")
	}
}
